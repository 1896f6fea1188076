"""Calls of native programs: whose memory is whose, what is refused, who may call at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.captured_case import open_case
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program, load, parse
from pirkit.frontend.tracing import trace
from pirkit.lowering import native_fused as lowering_native
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, LoopPhase, Operand, Store
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.sequence_builder import SequenceBuilder
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.native import object_layout, program_data, program_session
from pirkit.runtime.native import program as programs
from pirkit.runtime.tensor.allocator import HOST
from tests.whole_program.networks import graph, leaves_of, step, step_arguments
from tests.whole_program.processes import printed, printed_with_threads

X = np.random.default_rng(3).standard_normal((24, 6)).astype("float32")
W = np.random.default_rng(4).standard_normal((6, 4)).astype("float32")


def layer(x: Any, w: Any) -> Any:
    return ops.tanh(ops.matmul(x, w)), x.sum(0)


@pytest.fixture(scope="module")
def native() -> programs.NativeProgram:
    return batch_lane_program(graph(layer, (X, W)))


def wanted(x: Any = X, w: Any = W) -> Any:
    return np.tanh(x @ w)


def test_results_belong_to_the_caller(native: programs.NativeProgram) -> None:
    first = native(X, W)
    kept = [r.copy() for r in first]
    second = native(X + 1, W)
    for a, b, c in zip(first, kept, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.shares_memory(a, c)
    np.testing.assert_allclose(first[0], wanted(), atol=1e-5)


def test_operands_that_lie_another_way_are_put_right(native: programs.NativeProgram) -> None:
    twice = np.repeat(X, 2, 0)[::2]
    for x in (np.asfortranarray(X), twice, X[::-1][::-1]):
        np.testing.assert_array_equal(native(x, W)[0], native(X, W)[0])


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ((X,), "PK0902"),
        ((X, W, W), "PK0902"),
        ((X[:5], W), "PK0903"),
        ((X.astype("float64"), W), "PK0903"),
        ((X, W.T), "PK0903"),
        ((X, W.tolist()), "PK0903"),
        ((X, None), "PK0903"),
        ((X.view("int32"), W), "PK0903"),
        ((X[None], W), "PK0903"),
    ],
)
def test_what_is_refused(native: programs.NativeProgram, arrays: Any, code: str) -> None:
    with pytest.raises(RuntimeFault) as raised:
        native(*arrays)
    assert raised.value.code == code


def test_where_memory_is_not_known_python_looks_up_addresses(
    native: programs.NativeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_session, "memory_layout_is_known", lambda: False)
    other = programs.NativeProgram(
        native.inputs, native.results, native.steps, native.temporaries, native.memory
    )
    np.testing.assert_array_equal(other(X, W)[0], native(X, W)[0])


def test_memory_is_known_here() -> None:
    assert object_layout.memory_layout_is_known() == (sys.implementation.name == "cpython")


def test_many_callers(native: programs.NativeProgram) -> None:
    def one(k: int) -> bool:
        x = X * (0.01 * k)
        return all(np.array_equal(native(x, W)[0], native(x, W)[0]) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(32)))


def test_a_bound_call_reads_its_arrays_anew(native: programs.NativeProgram) -> None:
    x, results = X.copy(), [np.empty((24, 4), "float32"), np.empty(6, "float32")]
    call = native.bind((x, W), results)
    call()
    np.testing.assert_allclose(results[0], wanted(), atol=1e-5)
    x *= 2
    call()
    np.testing.assert_allclose(results[0], wanted(X * 2), atol=1e-5)


def test_a_bound_result_over_an_input_that_is_still_read() -> None:
    native = batch_lane_program(graph(lambda x, w: (ops.matmul(x, w), x * 2.0), (X, W)))
    x, out = X.copy(), np.empty((24, 4), "float32")
    native.bind((x, W), [out, x])()
    np.testing.assert_array_equal(x, X * 2)
    np.testing.assert_allclose(out, X @ W, rtol=1e-5)


def test_rows_may_be_in_place() -> None:
    def update(x: Any, w: Any, y: Any) -> Any:
        return ops.tanh(x) * 2.0 - x, ops.matmul(x, w), y * 2.0 + x.sum(1, keepdim=True)

    y = X[:, :1].copy()
    native = batch_lane_program(graph(update, (X, W, y)))
    assert native.in_place == {(0, 0), (2, 2)}
    wanted, held = native(X, W, y), [X.copy(), W, y.copy()]
    native.bind(held, [held[0], out := np.empty((24, 4), "float32"), held[2]])()
    for found, other in zip((held[0], out, held[2]), wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_rows_that_are_read_later_are_not_written_in_place() -> None:
    def update(x: Any, w: Any, y: Any) -> Any:
        return y * 2.0, ops.matmul(x, w).sum(1, keepdim=True) * y

    y = X[:, :1].copy()
    native = batch_lane_program(graph(update, (X, W, y)))
    assert native.in_place == {(1, 2)}
    wanted, held, out = native(X, W, y), y.copy(), np.empty((24, 1), "float32")
    native.bind((X, W, held), [held, out])()
    np.testing.assert_array_equal(held, wanted[0])
    np.testing.assert_array_equal(out, wanted[1])


@pytest.mark.parametrize("columns", [1, 3])
def test_what_is_written_before_an_operand_is_read_is_not_in_place(columns: int) -> None:
    def late(x: Any, p: Any, m: Any) -> Any:
        s, a = x.sum(0), m * 2.0
        return s * 2.0, p + s, a, m + a * x

    x, p, m = X[:, :columns].copy(), np.arange(columns).astype("f"), X[:, -columns:].copy()
    native = batch_lane_program(graph(late, (x, p, m)))
    wanted = native(x, p, m)
    for result, source in ((0, 1), (1, 1), (2, 2), (3, 2), (2, 0), (3, 0)):
        held = [x.copy(), p.copy(), m.copy()]
        results = [np.empty_like(r) for r in wanted]
        results[result] = held[source]
        native.bind(held, results)()
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (0, 1) not in native.in_place
    assert (1, 1) in native.in_place


def test_a_nest_that_writes_before_it_reads_is_not_in_place() -> None:
    """Buffers: two inputs, then two results; the second input is read when a result is there."""
    place = Operand(dt.float32, (4,), (), 32)
    early = (Load("x", 0), Store(2, "x"), Load("y", 1), Store(3, "y"))
    transposed = (Load("x", 0), Load("y", 1), Store(2, "x"), Store(3, "y"))
    moved = (Load("x", 0), Load("y", 1, "x", 7), Store(2, "x"), Store(3, "y"))
    for body, safe in (early, {0}), (transposed, {0, 1}), (moved, {0}):
        nest = Kernel((8,), (), (place,) * 4, (LoopPhase(body),))
        made = SimpleNamespace(nests=[nest], steps=[(None, (0, 1, 2, 3))])
        assert {s for s in (0, 1) if SequenceBuilder.is_in_place(cast(Any, made), 0, 2, s)} == safe


def test_binding_refuses_what_does_not_fit(native: programs.NativeProgram) -> None:
    with pytest.raises(RuntimeFault):
        native.bind((X, W), [np.empty((24, 4), "float32"), np.empty(7, "float32")])
    with pytest.raises(RuntimeFault):
        native.bind((np.asfortranarray(X), W), list(native(X, W)))
    with pytest.raises(RuntimeFault):
        native.bind((beside_its_place(X), W), list(native(X, W)))
    results = list(native(X, W))
    results[1].flags.writeable = False
    with pytest.raises(RuntimeFault, match="cannot be written"):
        native.bind((X, W), results)


def beside_its_place(array: Any) -> Any:
    """The same numbers, one byte beside where numbers of their type belong."""
    held = np.empty(array.nbytes + 1, "uint8")[1:].view(array.dtype).reshape(array.shape)
    held[...] = array
    return held


def test_arrays_that_are_not_aligned_are_copied() -> None:
    x, w = beside_its_place(X), beside_its_place(W)
    assert not x.flags.aligned
    held = program_data.checked_operands(batch_lane_program(graph(layer, (X, W))), (x, w))
    assert all(a.flags.aligned for a in held)
    for a, b in zip(held, (X, W), strict=True):
        np.testing.assert_array_equal(a, b)


_THREADS = """
import hashlib
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from tests.whole_program.networks import graph, leaves_of, step, step_arguments
arguments = step_arguments(1000, (1, 8, 8, 1))
program = batch_lane_program(graph(step, arguments))
assert len(program.steps) > 1
digest = hashlib.sha256()
for result in program(*leaves_of(arguments)):
    digest.update(result.tobytes())
print(digest.hexdigest())
"""


def test_the_number_of_threads_changes_no_bit() -> None:
    assert len(printed_with_threads(_THREADS, 1, 3)) == 1


# --- by way of compile ---


def whole(function: Any, *arguments: Any) -> tuple[Executable, dict[str, Any]]:
    inputs = {f"x{k}": a for k, a in enumerate(arguments)}
    return compile(trace(function, arguments).program, fast_math=True), inputs


@pytest.mark.parametrize(
    ("function", "arguments", "functions"),
    [
        (lambda x: ops.softmax(x, -1), (X,), 1),
        (lambda x: ops.softmax(ops.matmul(ops.relu(x), W[:, :2]), 0) * 3.0, (X,), 4),
        (lambda x: (ops.reshape(x, [6, 24]) * 2.0, ops.max(ops.tanh(x))), (X,), 2),
        (lambda x, w: (ops.reshape(x, [144]), w), (X, W), 2),
        (lambda x: ops.layer_norm(x, np.ones(6, "f"), np.zeros(6, "f")), (X,), 1),
    ],
)
def test_fused_kernels_in_one_call(function: Any, arguments: Any, functions: int) -> None:
    made, inputs = whole(function, *arguments)
    captured = trace(function, arguments).captured
    assert made.native is not None
    assert len(made.native.steps) <= functions
    assert all(reason.startswith("batch in lanes: ") for reason in made.reasons)
    program, given = trace(function, arguments).program, {**inputs, **captured}
    found, expected = made.run(given), compile(program, pipeline="@default").run(given)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_large_updates_may_be_in_place() -> None:
    """Too wide for rows of points: fused kernels."""

    def update(p: Any, m: Any, g: Any) -> Any:
        m = m * 0.9 + g * 0.1
        return p - m * 0.01, m, p.sum(1)

    arrays = [np.random.default_rng(k).standard_normal((40, 300)).astype("f") for k in range(3)]
    native = whole(update, *arrays)[0].native
    assert native is not None
    wanted = native(*arrays)
    held = [a.copy() for a in arrays]
    total = np.empty(40, "float32")
    native.bind(held, [held[0], held[1], total])()
    for found, other in zip((held[0], held[1], total), wanted, strict=True):
        np.testing.assert_array_equal(found, other)
    assert (1, 1) in native.in_place


def test_what_is_read_elsewhere_is_not_written_in_place() -> None:
    x = np.random.default_rng(5).standard_normal((300, 300)).astype("f")
    for function in (
        lambda x: ops.transpose(x, [1, 0]) * 2.0,
        lambda x: x - ops.max(x, [1], keepdim=True),
        lambda x: x * ops.slice(
            x, axes=[0], starts=[0], ends=[1], infer_flags=[1], decrease_axis=[]
        ),
    ):  # fmt: skip
        native = whole(function, x)[0].native
        assert native is not None
        held = x.copy()
        native.bind([held], [held])()
        np.testing.assert_array_equal(held, native(x)[0])


def test_large_results_go_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((700, 640)).astype("f")
    plain = whole(lambda x: ops.softmax(x, -1), x)[0].native
    monkeypatch.setattr(lowering_native, "l3_bytes", lambda: 1 << 20)
    streaming = whole(lambda x: ops.softmax(x, -1), x)[0].native
    assert plain is not None
    assert streaming is not None
    assert streaming.steps[0].function is not plain.steps[0].function
    (found,), (wanted,) = streaming(x), plain(x)
    assert found.ctypes.data % 64 == 0
    np.testing.assert_array_equal(found, wanted)
    memory = np.empty(x.nbytes + 128, np.uint8)
    skipped = -memory.ctypes.data % 64 + 16
    result = memory[skipped : skipped + x.nbytes].view(np.float32).reshape(x.shape)
    streaming.bind([x], [result])()
    np.testing.assert_array_equal(result, wanted)


def test_lanes_are_preferred() -> None:
    made, inputs = whole(layer, X, W)
    assert made.native is not None
    assert (made.reasons, len(made.native.steps)) == ((), 1)
    np.testing.assert_allclose(made(**inputs)["y0"], wanted(), atol=1e-5)


@pytest.mark.parametrize(("rows", "is_in_lanes"), [(16, True), (256, False)])
def test_rows_that_are_only_added_up_are_read_as_they_lie(rows: int, is_in_lanes: bool) -> None:
    x = np.random.default_rng(0).standard_normal((rows, 256)).astype(np.float32)
    made, inputs = whole(lambda x: (x + x * x).sum(0), x)
    assert made.native is not None
    assert ("batch" in made.native.summary) == is_in_lanes
    np.testing.assert_allclose(made(**inputs)["y0"], (x + x * x).sum(0), rtol=1e-5, atol=1e-4)


def test_a_program_that_has_none_runs_and_says_why() -> None:
    made, inputs = whole(lambda x: ops.i0e(ops.tanh(x)), X)
    assert made.native is None
    points, kernels = made.reasons
    assert points == "batch in lanes: `i0e` has no native form of its own"
    assert kernels.startswith(
        "kernel sequence: a fused kernel has no native form: `pd_op.i0e` has no native code (at "
    )
    want = ops.i0e(np.tanh(X))
    np.testing.assert_allclose(made.run(inputs)["y0"], want, rtol=1e-6)


def test_a_table_without_numbers_puts_no_points_in_lanes() -> None:
    text = """pir.program @p(%x "x" : tensor<2x3xf32>) {
  %e = pd_op.assign_value() {shape = array<i32: 2, 0>, dtype = #pir.dtype<float32>, values = []}
    : () -> tensor<2x0xf32>
  %l = pir.combine(%e, %x)
    : (tensor<2x0xf32>, tensor<2x3xf32>) -> !pir.vec<tensor<2x0xf32>, tensor<2x3xf32>>
  %y = pd_op.concat(%l) {axis = 1 : i32}
    : (!pir.vec<tensor<2x0xf32>, tensor<2x3xf32>>) -> tensor<2x3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
}"""
    made = compile(Program(parse(text)), fast_math=True)
    assert made.reasons == ("batch in lanes: a value has no elements",)
    np.testing.assert_array_equal(made(x=X[:2, :3])["y"], X[:2, :3])


def test_inputs_by_name() -> None:
    made, inputs = whole(layer, X, W)
    with pytest.raises(RuntimeFault, match="no input 'x_1'"):
        made.run({**inputs, "x_1": W})
    with pytest.raises(RuntimeFault) as raised:
        made.run({"x0": X})
    assert raised.value.code == "PK0902"


SCALED = """pir.program @main(%x "x" : tensor<24x6xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6xf32>
  %y = pd_op.multiply(%x, %w) : (tensor<24x6xf32>, tensor<6xf32>) -> tensor<24x6xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<24x6xf32>) -> ()
}"""


def test_a_parameter_is_no_input() -> None:
    row = W[:, 0].copy()
    made = compile(Program(parse(SCALED), {"w": row}), fast_math=True)
    assert made.native is not None
    np.testing.assert_array_equal(made(x=X)["y"], X * row)
    for run in (made.run, compile(Program(parse(SCALED), {"w": row}), pipeline="").run):
        with pytest.raises(RuntimeFault, match="no input 'w'") as raised:
            run({"x": X, "w": row + 1})
        assert raised.value.code == "PK0902"
        with pytest.raises(RuntimeFault, match="input 'x' is missing"):
            run({})


def test_training_goes_on() -> None:
    arguments = step_arguments(12, (1, 6, 6, 1))
    program = batch_lane_program(graph(step, arguments))
    arrays = leaves_of(arguments)
    count = len(arguments[0]) * 4
    losses: list[float] = []
    for _ in range(30):
        loss, *rest = program(*arrays)
        losses.append(float(loss))
        arrays[:count] = rest[count // 2 :]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (lambda x: ops.tanh(x), "one native call, one function: 1 ops on batches of 24 rows"),
        (
            lambda x: ops.i0e(x),
            "not one native call (batch in lanes: `i0e` has",
        ),
    ],
)
def test_plans_tell_why(function: Any, known: str) -> None:
    library = KernelLibrary()
    plan = write_plan(trace(function, (X,)).program.entry(None), library=library)
    assert known in why_kernels(plan, library).splitlines()[-1]


def test_memory_of_large_results_is_used_again() -> None:
    x = np.ones((512, 512), np.float32)
    native = compile(trace(lambda x: ops.exp(x) + 1.0, (x,)).program, fast_math=True).native
    assert native is not None
    (first,) = native(x)
    kept = first[3:5]
    where = first.ctypes.data
    del first
    (second,) = native(x)
    assert second.ctypes.data != where  # a view of the first result is still there
    del kept, second
    hits = HOST.stats.hits
    (third,) = native(x * 2)
    assert HOST.stats.hits == hits + 1
    np.testing.assert_allclose(third, np.exp(x * 2) + 1, rtol=1e-6)


@pytest.mark.parametrize("size", [41, 3001])
def test_copies_of_operands_live_until_the_call_ends(size: int) -> None:
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((size, size), np.float32))
    native = compile(trace(lambda x: x * 2.0 + 1.0, (x,)).program, fast_math=True).native
    assert native is not None
    np.testing.assert_array_equal(native(x)[0], x * 2 + 1)


def test_two_results_in_one_place_are_refused() -> None:
    x = np.ones((4, 4), np.float32)
    native = compile(trace(lambda x: (x + 1.0, x * 2.0), (x,)).program, fast_math=True).native
    assert native is not None
    place = np.zeros((4, 4), np.float32)
    with pytest.raises(RuntimeFault, match="two results"):
        native.bind((x,), (place, place))


def test_a_buffer_that_was_never_filled_may_be_given_to_one_native_call() -> None:
    """Paddle declares it without dimensions; its array has no elements, and nothing reads it."""
    case = open_case(Path(__file__).parents[1] / "corpus" / "paddle" / "lstm")
    program = load(case.folder / "program.txt")
    executable = compile(program, params=case.arrays("params.npz"))
    assert executable.native is not None
    for _ in range(2):
        found = executable.run(case.step("inputs.npz", 1))
        wanted = case.step("outputs.npz", 1)
        errors = map(case.tolerance.error, found.values(), wanted.values())
        assert max(errors) <= case.tolerance.rtol


_LEAN = """
import sys, numpy, pirkit
from pirkit import ops
x = numpy.ones((300, 70), "f")
call = pirkit.compile(lambda x: ops.softmax(ops.tanh(x), -1), x)
assert call.native is not None
for name in ("conv.compile_conv", "matmul.gemm", "matmul.fused_row_blocks"):
    print(f"pirkit.lowering.codegen.{name}" in sys.modules)
"""


def test_a_program_imports_no_code_for_convolutions_and_matmuls_that_it_has_not(
    tmp_path: Path,
) -> None:
    """Cold compilation of a small program is mostly imports."""
    printed_lines = printed(_LEAN, {"PYTHONPATH": ".", "XDG_CACHE_HOME": str(tmp_path)})
    assert printed_lines.split() == ["False"] * 3
