"""One compile: all of a program in native code, or segments of it between library calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault, UnsupportedError
from pirkit.frontend import native_compile
from pirkit.frontend.files import Program, parse
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit import batch_compile
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.cache import ObjectCache
from pirkit.runtime.plan import SEGMENT, Call

X = np.random.default_rng(3).standard_normal((6, 8)).astype("float32")


def kernels(exe: Executable) -> list[str]:
    return [call.kernel for call in exe.plan.body if isinstance(call, Call)]


def bessel(x: Any) -> Any:
    """What has no native form."""
    return ops.i0e(x)


def mixed(x: Any) -> Any:
    """The second operator without a native form does not depend on the first."""
    a = bessel(ops.tanh(x)) * 2.0
    b = bessel(ops.exp(x)) + 1.0
    return a + b, ops.reshape(ops.exp(x), [48]), a


def alone(x: Any) -> Any:
    return ops.tanh(ops.matmul(x, x, transpose_y=True)).sum()


def between(x: Any) -> Any:
    return ops.reshape(bessel(ops.reshape(ops.relu(x), [6, 8])), [8, 6]) * 3.0


@pytest.mark.parametrize(
    ("function", "segments", "others"), [(mixed, 2, 2), (alone, 1, 0), (between, 2, 1)]
)
def test_segments_follow_dependences(
    function: Callable[[Any], Any], segments: int, others: int
) -> None:
    program = trace(function, (X,)).program
    exact = pirkit.compile(program, backend="reference").run({"x0": X})
    for threads in (None, 2):
        exe = pirkit.compile(program, threads=threads)
        assert kernels(exe).count(SEGMENT) == segments
        assert kernels(exe).count("pd_op.i0e") == others
        assert (exe.native is None) == bool(others)
        for _ in range(2):
            for name, found in exe.run({"x0": X}).items():
                np.testing.assert_allclose(found, exact[name], rtol=1e-5, atol=1e-6)


def test_a_pipeline_that_is_named_has_no_segments() -> None:
    program = trace(mixed, (X,)).program
    settings: tuple[dict[str, Any], ...] = (
        {"pipeline": "@default"}, {"backend": "reference"}, {"certify": True},
    )  # fmt: skip
    for options in settings:
        assert SEGMENT not in kernels(pirkit.compile(program, **options))


def test_what_is_required_is_refused_with_all_reasons() -> None:
    def several(x: Any) -> Any:
        return bessel(x) + bessel(x * 2.0) + ops.i1e(x)

    program = trace(several, (X,)).program
    with pytest.raises(UnsupportedError) as caught:
        pirkit.compile(program, require_native=True)
    assert caught.value.code == "PK0407"
    first, second = caught.value.notes
    assert first.startswith(
        "`pd_op.i0e` is in no kernel and has no native form (2 times, first at "
    )
    assert second.startswith("`pd_op.i1e` is in no kernel and has no native form (at ")
    assert pirkit.compile(program).reasons == caught.value.notes
    with pytest.raises(UnsupportedError, match="not one native call"):
        pirkit.compile(program, require_native=True, backend="reference")
    assert pirkit.compile(trace(alone, (X,)).program, require_native=True).native is not None


def test_unknown_sizes_are_refused_at_the_first_operation() -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b.tanh(b.input("x", (-1, 3), "float32")))
    (reason,) = pirkit.compile(b.finish()).reasons
    assert reason.startswith(f"sizes are known only when the program runs (at {__file__}:")


WRITES = """pir.program @p(%x "x" : tensor<4xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<4xf32>
  %a = pd_op.exp(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %n = pd_op.add(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = pd_op.assign_out_(%n, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = pd_op.exp(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %y = pd_op.subtract(%b, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4xf32>) -> ()
}"""


def test_no_segment_spans_a_write_in_place() -> None:
    x = np.array([0.0, 0.5, 1.0, -1.0], np.float32)
    exe = pirkit.compile(Program(parse(WRITES), {"w": x.copy()}))
    assert SEGMENT in kernels(exe)
    for k in (1, 2, 3):
        wanted = np.exp((k + 1) * x) - np.exp(k * x)
        np.testing.assert_allclose(exe(x=x)["y"], wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(exe.params["w"], (k + 1) * x, rtol=1e-6)


PICKED = """pir.program @p(%t "t" : tensor<5x3xf32>, %i "i" : tensor<4xi64>) {
  %r = pd_op.embedding(%i, %t) {padding_idx = -1 : i64, sparse = false}
    : (tensor<4xi64>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %u = pd_op.tanh(%r) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  OTHER
  pir.shadow_output(%u) {output_name = "y"} : (tensor<4x3xf32>) -> ()
}"""
OTHER = """%c = pd_op.i0e(%u) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  pir.shadow_output(%c) {output_name = "z"} : (tensor<4x3xf32>) -> ()"""


@pytest.mark.parametrize("other", ["", OTHER])
def test_data_that_are_refused_name_the_operator(other: str) -> None:
    exe = pirkit.compile(Program(parse(PICKED.replace("OTHER", other), name="p.mlir")))
    assert (exe.native is None) == bool(other)
    table, places = X[:5, :3].copy(), np.array([0, 4, 1, 2])
    np.testing.assert_allclose(exe(t=table, i=places)["y"], np.tanh(table[places]), rtol=1e-5)
    with pytest.raises(RuntimeFault, match=r"an index does not lie in \[0, 5\)") as caught:
        exe(t=table, i=places + 1)
    assert caught.value.code == "PK0901"
    assert caught.value.span is not None
    np.testing.assert_allclose(exe(t=table, i=places)["y"], np.tanh(table[places]), rtol=1e-5)


def test_a_whole_program_is_fed_as_any_other() -> None:
    exe = pirkit.compile(trace(lambda x: ops.exp(x) * 2.0, (X,)).program)
    assert exe.native is not None
    wanted = np.exp(X) * 2
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for given in (X, strided, np.asfortranarray(X)):
        np.testing.assert_allclose(exe(x0=given)["y0"], wanted, rtol=1e-5)
    for wrong, code in (({}, "PK0902"), ({"x": X}, "PK0902"), ({"x0": X[:2]}, "PK0903")):
        with pytest.raises(RuntimeFault) as caught:
            exe.run(wrong)
        assert caught.value.code == code
    assert (exe.runs, exe.counters.runs) == (3, 3)


def test_only_fast_math_loses_nan() -> None:
    def function(a: Any, b: Any, w: Any) -> Any:
        return ops.tanh(ops.matmul(a, w) + ops.matmul(b, w)).sum()

    large = np.full((6, 8), 3e38, np.float32)  # a w - a w, where a w overflows
    given = {"x0": large, "x1": -large, "x2": np.ones((8, 2), np.float32)}
    program = trace(function, tuple(given.values())).program
    exact = pirkit.compile(program, backend="reference").run(given)
    assert np.isnan(exact["y0"])
    for required in (False, True):
        assert np.isnan(pirkit.compile(program, require_native=required).run(given)["y0"])
    assert pirkit.compile(program, fast_math=True).run(given)["y0"] == 0


def test_segments_are_kept(store: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(mixed, (X,)).program
    first = pirkit.compile(program)
    wanted = first.run({"x0": X})
    monkeypatch.setattr(batch_compile, "_functions", {})
    monkeypatch.setattr(native_compile, "plan_with", None)
    second = pirkit.compile(program)
    assert (repr(second.plan), second.reasons) == (repr(first.plan), first.reasons)
    for name, found in second.run({"x0": X}).items():
        np.testing.assert_array_equal(found, wanted[name])


def test_compile_whole_is_the_same_for_one_release() -> None:
    program = trace(alone, (X,)).program
    with pytest.warns(DeprecationWarning, match="fast_math=True"):
        exe = pirkit.compile_whole(program)
    assert exe.native is not None
    np.testing.assert_allclose(exe(x0=X)["y0"], np.tanh(X @ X.T).sum(), rtol=1e-5)


def test_an_alias_of_unknown_sizes_is_no_native_result() -> None:
    program = pirkit.loads("""builtin.module {
      pir.program @main(%x "x" : tensor<6x0xf32>, %y "y" : tensor<0xf32>) {
        %n = pd_op.shape64(%x) : (tensor<6x0xf32>) -> tensor<2xi64>
        %z = pd_op.reshape(%y, %n) : (tensor<0xf32>, tensor<2xi64>) -> tensor<?x?xf32>
        pir.shadow_output(%z) {output_name = "z"} : (tensor<?x?xf32>) -> ()
      }
    }""")
    found = pirkit.compile(program)(x=np.zeros((6, 0), np.float32), y=np.zeros(0, np.float32))
    assert found["z"].shape == (6, 0)
