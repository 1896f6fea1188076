"""Memory planning: whatever it reuses, the numbers are those of a run that reuses nothing."""

from __future__ import annotations

import re
import tracemalloc
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

import pirkit
from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from tests.execution import Array, assert_same_bits, parsed
from tests.unit.passes.random_programs import random_program

X: Array = np.array([[-1.5, 0.25], [np.inf, 2.0]], np.float32)
W: Array = np.array([[-0.0, 0.5], [-3.0, 1.0]], np.float32)


def executable(text: str, backend: str = "cpu", **options: Any) -> Executable:
    (program,) = [op for op in parsed(text).ops if isinstance(op, ProgramOp)]
    library = KernelLibrary(backend)
    return Executable(write_plan(program, library=library), library, seed=1, **options)


def seen(exe: Executable, inputs: dict[str, Array]) -> dict[str, Array]:
    outputs = exe.run(inputs)
    return outputs | {f"written {name}": value for name, value in exe.updates.items()}


@settings(deadline=None, max_examples=120)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_reuse_changes_no_bit(seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    one, other = executable(text), executable(text, reuse=False)
    one.params["w"], other.params["w"] = W.copy(), W.copy()
    inputs = {"x": X.copy(), "c": np.array([condition])}
    first: list[dict[str, Array]] = []
    for _ in range(3):
        found = seen(one, inputs)
        assert_same_bits(seen(other, inputs), found)
        first.append({name: value.copy() for name, value in found.items()})
        np.testing.assert_array_equal(inputs["x"], X)
    assert_same_bits(first[-1], found)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_kernels_agree_with_the_reference_on_whole_programs(seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    one, other = executable(text), executable(text, backend="reference")
    one.params["w"], other.params["w"] = W.copy(), W.copy()
    inputs = {"x": X, "c": np.array([condition])}
    found, expected = seen(one, inputs), seen(other, inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), condition=st.booleans())
def test_two_threads_give_the_same_bits(seed: int, condition: bool) -> None:
    text = random_program(Random(seed))
    one, other = executable(text), executable(text, threads=2)
    one.params["w"], other.params["w"] = W.copy(), W.copy()
    inputs = {"x": X, "c": np.array([condition])}
    for _ in range(2):
        assert_same_bits(seen(other, inputs), seen(one, inputs))


def test_the_earliest_failure_is_the_one_told() -> None:
    kind = "tensor<4xf32>"
    text = f"""
pir.program @main(%x "x" : {kind}, %i "i" : tensor<1xi64>) {{
  %a = pd_op.gather(%x, %i) {{axis = 0 : i32}} : ({kind}, tensor<1xi64>) -> tensor<1xf32>
  %b = pd_op.tanh(%x) : ({kind}) -> {kind}
  pir.shadow_output(%a) {{output_name = "a"}} : (tensor<1xf32>) -> ()
  pir.shadow_output(%b) {{output_name = "b"}} : ({kind}) -> ()
}}
"""
    for threads in (1, 2):
        exe = executable(text, threads=threads)
        with pytest.raises(RuntimeFault, match="gather"):
            exe(x=np.ones(4, np.float32), i=np.array([9]))
        assert exe(x=np.ones(4, np.float32), i=np.array([3]))["a"] == [1.0]


def test_a_trace_tells_every_step_and_changes_nothing() -> None:
    exe = executable(chain(3))
    trace = exe.trace({"x": np.ones(4, np.float32)})
    assert [e.what for e in trace.entries] == ["pd_op.tanh"] * 3
    assert "tensor<4xf32> -> tensor<4xf32>" in str(trace)
    assert exe.runs == 0


def chain(length: int, op: str = "pd_op.tanh") -> str:
    kind = "tensor<4xf32>"
    lines = [f'pir.program @main(%v0 "x" : {kind}) {{']
    lines += [f"  %v{i + 1} = {op}(%v{i}) : ({kind}) -> {kind}" for i in range(length)]
    lines += [f'  pir.shadow_output(%v{length}) {{output_name = "y"}} : ({kind}) -> ()', "}"]
    return "\n".join(lines)


def test_a_chain_needs_memory_for_its_input_and_one_link() -> None:
    exe = executable(chain(50))
    assert exe(x=np.ones(4, np.float32))["y"].shape == (4,)
    (sessions,) = exe._sessions._idle.values()
    assert sessions[0].nbytes == 2 * 64


def test_a_steady_run_infers_binds_and_allocates_nothing() -> None:
    exe = executable(chain(100))
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    first = exe(x=x)["y"]
    before = asdict(exe.counters)
    for _ in range(5):
        np.testing.assert_array_equal(exe(x=x)["y"], first)
    assert asdict(exe.counters) == {**before, "runs": before["runs"] + 5}


def test_a_reshape_that_has_to_copy_keeps_its_memory() -> None:
    cube, flat = "tensor<64x64x64xf32>", "tensor<4096x64xf32>"
    exe = executable(f"""
pir.program @main(%x "x" : {cube}) {{
  %a = pd_op.exp(%x) : ({cube}) -> {cube}
  %b = pd_op.transpose(%a) {{perm = array<i32: 2, 0, 1>}} : ({cube}) -> {cube}
  %c = pd_op.reshape(%b) {{shape = array<i64: 4096, 64>}} : ({cube}) -> {flat}
  %d = pd_op.sqrt(%c) : ({flat}) -> {flat}
  pir.shadow_output(%d) {{output_name = "y"}} : ({flat}) -> ()
}}""")
    for scale in (1.0, 2.0):
        x = np.linspace(0, scale, 64**3, dtype=np.float32).reshape(64, 64, 64)
        tracemalloc.start()
        found = exe(x=x)["y"]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        expected = np.exp(x / 2).transpose(2, 0, 1).reshape(4096, 64)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert peak < 1.5 * x.nbytes, "the output, which is the caller's, and a copy"


def test_outputs_belong_to_the_caller() -> None:
    exe = executable(chain(3))
    first = exe(x=np.ones(4, np.float32))["y"]
    kept = first.copy()
    second = exe(x=np.zeros(4, np.float32))["y"]
    np.testing.assert_array_equal(first, kept)
    assert not np.may_share_memory(first, second)


SWAP = """
pir.program @main(%x "x" : F, %y "y" : F, %n "n" : N) {
  %i0 = pd_op.full() ZERO : () -> N
  %c0 = pd_op.less_than(%i0, %n) : (N, N) -> C
  %i, %a, %b = pd_op.while(%c0, %i0, %x, %y) : (C, N, F, F) -> (N, F, F) {
  ^bb0(%j : N, %p : F, %q : F):
    %one = pd_op.full() ONE : () -> N
    %k = pd_op.add(%j, %one) : (N, N) -> N
    %t = pd_op.tanh(%p) : (F) -> F
    %c = pd_op.less_than(%k, %n) : (N, N) -> C
    pir.yield(%c, %k, %q, %t) : (C, N, F, F) -> ()
  }
  pir.shadow_output(%a) {output_name = "a"} : (F) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (F) -> ()
}
"""
SPELLED = {
    "ZERO": "{shape = array<i64>, value = 0.0 : f64, dtype = #pir.dtype<int32>}",
    "ONE": "{shape = array<i64>, value = 1.0 : f64, dtype = #pir.dtype<int32>}",
    r"\bF\b": "tensor<2xf32>",
    r"\bN\b": "tensor<i32>",
    r"\bC\b": "tensor<i1>",
}


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_loop_may_swap_its_state(steps: int) -> None:
    text = SWAP
    for short, long in SPELLED.items():
        text = re.sub(short, long, text)
    p = x = np.array([0.5, -1.0], np.float32)
    q = y = np.array([2.0, 3.0], np.float32)
    for _ in range(steps):
        p, q = q, np.tanh(p)
    found = executable(text)(x=x, y=y, n=np.int32(steps))
    np.testing.assert_allclose(found["a"], p, rtol=1e-6)
    np.testing.assert_allclose(found["b"], q, rtol=1e-6)


def built(build: Any, **inputs: Any) -> Any:
    """A program built of its inputs, on numpy's kernels, one by one."""
    b = pirkit.ProgramBuilder()
    values = {n: b.input(n, a.shape, a.dtype.name) for n, a in inputs.items()}
    for k, value in enumerate(build(b, **values)):
        b.output(f"y{k}", value)
    return pirkit.compile(b.finish(), pipeline="")


@pytest.mark.parametrize("size", [4, 400])
def test_memory_that_a_view_shares_is_not_overwritten(size: int) -> None:
    """Neither where the view is read last, nor where what it is a view of is."""

    def view_first(b: Any, x: Any) -> tuple[Any, ...]:
        a = b.exp(x)
        turned = b("pd_op.tanh", b.reshape(a, (size * size,)))
        return (b.sum(b.reshape(turned, (size, size)) + a, (0,)),)

    def view_last(b: Any, x: Any) -> tuple[Any, ...]:
        a = b.exp(x)
        view = b.reshape(a, (size * size,))
        turned = b("pd_op.tanh", a)
        return (b.sum(turned + b.reshape(view, (size, size)), (0,)),)

    x = np.linspace(-1, 1, size * size).reshape(size, size)
    for build in (view_first, view_last):
        found = built(build, x=x)(x=x)["y0"]
        np.testing.assert_allclose(found, (np.tanh(np.exp(x)) + np.exp(x)).sum(0))


@pytest.mark.parametrize("size", [4, 400])
def test_outputs_share_no_memory(size: int) -> None:
    def build(b: Any, x: Any) -> tuple[Any, ...]:
        a = b.exp(x)
        return a, b("pd_op.transpose", a, perm=(1, 0)), b.reshape(a, (size * size,)), a

    x = np.linspace(-1, 1, size * size).reshape(size, size)
    found = [*built(build, x=x)(x=x).values()]
    for k, one in enumerate(found):
        assert not any(np.shares_memory(one, other) for other in found[:k])
    np.testing.assert_allclose(found[1], np.exp(x).T)


@pytest.mark.parametrize("size", [4, 4000])
@pytest.mark.parametrize("pipeline", ["", "@storage"])
def test_an_input_that_is_written_holds_what_was_written(pipeline: str, size: int) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (size,), "float64")
    b.output("y", b("pd_op.square_", x) + 1.0)
    exe = pirkit.compile(b.finish(), pipeline=pipeline)
    held = np.linspace(-1, 1, size)
    found = exe.run({"x": held.copy()})
    np.testing.assert_allclose(found["y"], held**2 + 1)
    np.testing.assert_allclose(exe.updates["x"], held**2)


def test_a_write_behind_a_loop_that_writes_the_same_tensor_may_change_its_shape() -> None:
    data = 'name = "x", shape = array<i64: 2, 2>, dtype = #pir.dtype<float32>'
    one = "shape = array<i64>, value = 1.0 : f64"
    text = f"""builtin.module {{
      pir.program @main {{
        %x = pd_op.data() {{{data}, place = #pir.place<undefined:0>}} : () -> tensor<2x2xf32>
        %t = pd_op.full() {{{one}, dtype = #pir.dtype<bool>}} : () -> tensor<i1>
        %y = pd_op.while(%t, %x) : (tensor<i1>, tensor<2x2xf32>) -> tensor<2x2xf32> {{
        ^bb0(%held: tensor<2x2xf32>):
          %double = pd_op.add_(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
          %no = pd_op.logical_not(%t) : (tensor<i1>) -> tensor<i1>
          pir.yield(%no, %double) : (tensor<i1>, tensor<2x2xf32>) -> ()
        }}
        %flat = pd_op.flatten_(%x) {{start_axis = 0 : i32, stop_axis = 1 : i32}}
          : (tensor<2x2xf32>) -> tensor<4xf32>
        %z = pd_op.exp(%flat) : (tensor<4xf32>) -> tensor<4xf32>
        pir.shadow_output(%z) {{output_name = "z"}} : (tensor<4xf32>) -> ()
      }}
    }}"""
    for backend in ("cpu", "reference"):
        found = executable(text, backend).run({"x": np.ones((2, 2), np.float32)})
        np.testing.assert_allclose(found["z"], np.full(4, np.exp(2.0)), rtol=1e-6)


def test_how_many_axes_there_are_of_what_an_array_holds() -> None:
    data = 'name = "x", shape = array<i64: 1, 2, 2>, dtype = #pir.dtype<float32>'
    text = f"""builtin.module {{
      pir.program @main {{
        %x = pd_op.data() {{{data}, place = #pir.place<undefined:0>}} : () -> tensor<1x2x2xf32>
        %a = pd_op.create_array() {{dtype = #pir.dtype<float32>}} : () -> !pir.tensor_array<f32>
        %i = pd_op.full_int_array() {{value = array<i64: 0>, dtype = #pir.dtype<int64>}}
          : () -> tensor<1xi64>
        %b = pd_op.array_write_(%a, %x, %i)
          : (!pir.tensor_array<f32>, tensor<1x2x2xf32>, tensor<1xi64>) -> !pir.tensor_array<f32>
        %y, %n = pd_op.array_to_tensor(%a) {{axis = 1 : i32, use_stack = false}}
          : (!pir.tensor_array<f32>) -> (tensor<1x2x2xf32>, tensor<1xi32>)
        %s = pd_op.squeeze(%y) {{axis = array<i64: 0, 1, 2>}}
          : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
        %z = pd_op.roll(%s) {{shifts = array<i64: 1>, axis = array<i64: 1>}}
          : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %u = pd_op.unsqueeze_(%z) {{axis = array<i64: 2>}}
          : (tensor<2x2xf32>) -> tensor<2x2x1xf32>
        %t = pd_op.transpose_(%u) {{perm = array<i32: 1, 0, 2>}}
          : (tensor<2x2x1xf32>) -> tensor<2x2x1xf32>
        pir.shadow_output(%t) {{output_name = "z"}} : (tensor<2x2x1xf32>) -> ()
      }}
    }}"""
    x = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
    for backend in ("cpu", "reference"):
        found = executable(text, backend).run({"x": x})
        np.testing.assert_array_equal(found["z"][:, :, 0], [[1, 3], [0, 2]])
