"""Programs of sizes that are known only when they run: one kernel for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Value
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.verify_kernel import kernel_at, problems
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program, loads
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.place import UNDEFINED
from tests.fusion.cases import Case
from tests.fusion.dynamic_programs import SIZES, OpenMaker, known
from tests.fusion.test_counts import OPS, W, X
from tests.fusion.test_random import fused, run


@pytest.mark.parametrize("block", range(8))
def test_random_programs_give_the_same_numbers_for_every_size(block: int) -> None:
    sized = compared = 0
    for seed in range(12 * block, 12 * block + 12):
        made = OpenMaker(seed, depth=3 + seed % 10)
        program, _ = fused(made.program, single=seed % 2 == 0)
        for op in program.operations:
            if isinstance(op, PirOp) and op.name == "pir.map_expr":
                text = op.attribute("kernel")
                kernel = parse_kernel(text)
                assert print_kernel(kernel) == text
                assert list(problems(kernel)) == []
                sized += kernel.is_sized
        for sizes in SIZES:
            if made.preserves and 0 in sizes:
                continue
            inputs = made.arrays(known(*sizes))
            try:
                want = run(made.program, inputs)
            except PirkitError:  # there is no maximum of nothing
                assert 0 in sizes or made.cuts
                continue
            got = run(program, inputs)
            compared += 1
            for name in want:
                np.testing.assert_allclose(
                    got[name], want[name], rtol=2e-5, atol=1e-5, err_msg=f"{seed}, {sizes}, {name}"
                )
    assert sized > 8
    assert compared > 50


def opened(build: Callable[..., Value], *shapes: tuple[int, ...]) -> tuple[Case, ProgramOp]:
    """A program over float inputs of these shapes, -1 being open."""
    c = Case()
    values = [
        c.b("pd_op.data", name=f"x{k}", shape=s, dtype=dt.float32, place=UNDEFINED)
        for k, s in enumerate(shapes)
    ]
    c.b("pir.shadow_output", build(c, *values), output_name="y")
    return c, c.program


def layer_norm(c: Case, x: Value, w: Value) -> Value:
    d = x - c.sum(x, -1, keep=True) * (1 / 64)
    v = c.sum(d * d, -1, keep=True) * (1 / 64)
    return d * c.b.rsqrt(v + 1e-5) * w


def heads(c: Case, x: Value) -> Value:
    """As attention takes its operands apart and puts its result together again."""
    parts = c.t(c.op("reshape", c.b.exp(x), shape=[0, 0, 4, 2]), 0, 2, 1, 3)
    return c.op("reshape", c.t(c.relu(parts), 0, 2, 1, 3), shape=[0, 0, 8]) + x


U = UNKNOWN
OPEN: dict[str, tuple[Callable[..., Value], list[tuple[int, ...]], str]] = {
    "chain": (lambda c, x: c.b.exp(x) - x, [(U, 1)], "x0[i0, 0]"),
    "bias": (lambda c, x, w: c.relu(x + w), [(U, 16), (16,)], "x1[i1]"),
    "either may be spread": (
        lambda c, x, y: c.b.exp(x + y), [(U, 4), (U, 4)], "x1[spread(i0, s1), i1]",
    ),
    "softmax": (lambda c, x: c.softmax(c.b.exp(x)), [(U, U)], "rows [s0]"),
    "layer_norm": (layer_norm, [(U, U, 64), (64,)], "x0[i0, i1, r0]"),
    "mean of all": (lambda c, x: c.sum(x * x, 0, 1) * 0.5, [(U, 8)], "x0[r0, r1]"),
    "heads": (heads, [(U, U, 8)], "x0[i0, i1, i2]"),
    "flattened": (
        lambda c, x: c.sum(c.op("reshape", c.relu(x), shape=[-1, 4]), 0), [(U, U, 4)],
        "x0[((r0) // s1), r0 + (-1 * s1) * ((r0) // s1), i0]",
    ),
    "transposed": (lambda c, x: c.b.exp(c.t(c.relu(x))), [(U, U)], "x0[i1, i0]"),
    "normed channels": (
        lambda c, x, m, v, w: (
            (x - m) * c.b.rsqrt(v + 1e-5) * c.op("reshape", w, shape=[1, -1, 1, 1])
        ),
        [(U, 3, U, U), (1, 3, 1, 1), (1, 3, 1, 1), (3,)],
        "x1[0, i1, 0, 0]",
    ),
    "last of each": (
        lambda c, x: c.b.exp(
            c.op("slice", c.relu(x), axes=[1], starts=[-1], ends=[2**31 - 1], decrease_axis=[1])
        ),
        [(U, U, 4)],
        "x0[i0, (s1 - 1), i1]",
    ),
    "first few": (
        lambda c, x: c.b.exp(c.op("slice", c.relu(x), axes=[0], starts=[0], ends=[3])),
        [(U, 4)],
        "size s1 = smaller(3, s0)",
    ),
    "from the third on": (
        lambda c, x: c.b.exp(c.op("slice", c.relu(x), axes=[0], starts=[2], ends=[2**31 - 1])),
        [(U, 4)],
        "x0[i0 + s1, i1]",
    ),
    "all but the last": (
        lambda c, x: c.b.exp(c.op("slice", c.relu(x), axes=[0], starts=[1], ends=[-1])),
        [(U, 4)],
        "size s2 = larger(s0 - 1 * s1, s1)",
    ),
    "last three": (
        lambda c, x: c.b.exp(c.op("slice", c.relu(x), axes=[0], starts=[-3], ends=[2**31 - 1])),
        [(U, 4)],
        "x0[i0 + (s0 - 1 * s1), i1]",
    ),
    "every other": (
        lambda c, x: c.b.exp(
            c.op("strided_slice", c.relu(x), axes=[0], starts=[1], ends=[2**31 - 1], strides=[2])
        ),
        [(U, 4)],
        "x0[2 * i0 + s2, i1]",
    ),
    "put together": (
        lambda c, x, y: c.b("pd_op.reduce_as", c.b.exp(x), y) * y,
        [(U, 4), (U, 4)],
        "x0[i0 + r0, i1]",
    ),
    "joined": (
        lambda c, x, y: c.b.tanh(c.b("pd_op.concat", c.b.combine([c.relu(x), c.b.exp(y)]), axis=0)),
        [(U, 3), (U, 3)],
        "float32[s0 + s1, 3]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_one_kernel_serves_all_sizes(name: str) -> None:
    build, shapes, shown = OPEN[name]
    _, program = opened(build, *shapes)
    (made,) = plan_fusion(program.block, Policy()).kernels
    assert shown in print_kernel(made.kernel)
    compiled, _ = fused(program)
    for size in (1, 2, 5, 130):
        rng = np.random.default_rng(size)
        dims = [[size if n == U else n for n in s] for s in shapes]
        given = {f"x{k}": rng.standard_normal(d).astype(np.float32) for k, d in enumerate(dims)}
        if "x2" in given:
            given["x2"] = np.abs(given["x2"])
        want, got = run(program, given), run(compiled, given)
        np.testing.assert_allclose(got["y"], want["y"], rtol=2e-5, atol=2e-5)


def test_axes_that_do_not_go_together_are_an_error_of_the_call() -> None:
    build, shapes, _ = OPEN["either may be spread"]
    program, _ = fused(opened(build, *shapes)[1])
    x, y = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(PirkitError, match="axes of \\[2, 3\\] elements are not equal"):
        run(program, {"x0": x, "x1": y})
    assert run(program, {"x0": x[:1], "x1": y})["y"].shape == (3, 4)


def test_sizes_that_types_state_are_checked_when_a_kernel_runs() -> None:
    _, made = opened(lambda c, x, y: c.b.exp(x + y), (U,), (8,))
    program, _ = fused(made)
    y = np.ones(8, np.float32)
    for count in (1, 8):
        assert run(program, {"x0": np.ones(count, np.float32), "x1": y})["y"].shape == (8,)
    for count in (0, 4, 9):
        with pytest.raises(PirkitError, match="are not equal"):
            run(program, {"x0": np.ones(count, np.float32), "x1": y})
    _, made = opened(lambda c, x: c.b.exp(c.op("reshape", c.relu(x), shape=[2, 6])), (U, 4))
    program, _ = fused(made)
    assert run(program, {"x0": np.ones((3, 4), np.float32)})["y"].shape == (2, 6)
    with pytest.raises(PirkitError, match="12 is not 16"):
        run(program, {"x0": np.ones((4, 4), np.float32)})


def test_a_conflict_of_indices_of_open_sizes_has_a_witness() -> None:
    def seed(c: Case, a: Value) -> Value:
        x = c.op("floor", a)
        return x + c.op("reshape", x, shape=[1, -1])

    _, program = opened(seed, (U, 1))
    found = plan_fusion(program.block, Policy(recompute=0))
    refusal, *_ = found.partition.refusals.values()
    assert refusal.kind == "index-conflict"
    assert refusal.holds()
    assert sorted(i.name for i in refusal.witness) == ["i0", "i1", "s0"]
    assert len(plan_fusion(program.block, Policy()).kernels) == 1


def test_what_depends_on_sizes_is_refused_with_the_guard() -> None:
    """How many axes there are is no size."""
    _, program = opened(lambda c, x: c.b.exp(c.op("squeeze", x, axis=[0])), (U, 4))
    found = plan_fusion(program.block, Policy())
    (reason,) = [r for r in found.equations.opaque.values() if r.kind == "guard"]
    assert reason.reason == "only the program's inputs determine whether s0 == 1"


COUNTS = {
    **{name: (OPS[name][0], 1, 2) for name in ("softmax", "log_softmax", "gelu", "gelu_tanh")},
    **{name: (OPS[name][0], 1, 3) for name in ("layer_norm", "silu_bias", "rms_norm")},
}
"""Kernels forward, and forward and backward."""


@pytest.mark.parametrize("name", COUNTS)
def test_well_known_ops_of_open_sizes(name: str) -> None:
    body, forward, both = COUNTS[name]
    text = (
        f'pir.program @p(%x "x" : {X}, %w "w" : {W}) {{\n  {body}\n'
        f'  pir.shadow_output(%y) {{output_name = "y"}} : ({X}) -> ()\n}}\n'
    ).replace("2048", "?")
    for before, most in (("", forward), ("autodiff{seeds=true},expand-gradients,", both)):
        module = parse_mlir(text, "p")
        run_pipeline(module, f"{before}decompose,canonicalize,cse,dce,fuse{{single=true}}")
        ops = [op.name for op in module.walk() if isinstance(op, PirOp)]
        assert ops.count("pir.map_expr") <= most


BATCH_NORM = """
pir.program @p(%x "x" : IMAGES, %m "m" : ROW, %v "v" : ROW, %w "w" : ROW, %b "b" : ROW) {
  %y, %m1, %v1, %sm, %sv, %r = pd_op.batch_norm(%x, %m, %v, %w, %b) {is_test = TEST,
    momentum = 0.9 : f32, epsilon = 1.0e-5 : f32, data_format = "NCHW", use_global_stats = false,
    trainable_statistics = false}
    : (IMAGES, ROW, ROW, ROW, ROW) -> (IMAGES, ROW, ROW, ROW, ROW, tensor<?xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (IMAGES) -> ()
}
""".replace("ROW", "tensor<16xf32>")
IMAGES = "8x16x10x10"


@pytest.mark.parametrize(
    ("dims", "inference", "most"),
    [
        ("8x16x10x10", True, 1),
        ("?x16x?x?", True, 1),
        ("8x16x10x10", False, 1),
        ("?x16x?x?", False, 3),
    ],
)
def test_batch_norm(dims: str, inference: bool, most: int) -> None:
    text = BATCH_NORM.replace("IMAGES", f"tensor<{dims}xf32>").replace(
        "TEST", str(inference).lower()
    )
    module = parse_mlir(text, "p")
    plain = next(op for op in module.clone().ops if isinstance(op, ProgramOp))
    run_pipeline(module, "decompose,canonicalize,cse,dce,fuse{single=true}")
    program = next(op for op in module.ops if isinstance(op, ProgramOp))
    ops = [op.name for op in program.walk() if isinstance(op, PirOp)]
    assert ops.count("pir.map_expr") <= most
    rng = np.random.default_rng(0)
    given = {k: rng.uniform(0.5, 1, 16).astype(np.float32) for k in "mvwb"}
    given["x"] = rng.standard_normal((8, 16, 10, 10)).astype(np.float32)
    want, got = run(plain, given), run(program, given)
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-4, atol=1e-5)


def test_native_code_is_made_for_the_sizes_of_a_call() -> None:
    _, program = opened(lambda c, x: c.softmax(x), (U, U))
    made, _ = fused(program)
    (text,) = [op.attribute("kernel") for op in made.operations if op.name == "pir.map_expr"]
    library = KernelLibrary()
    run_native = Executable(write_plan(made, library=library), library).run
    for shape in ((3, 5), (1, 7), (4, 1), (0, 3), (3, 5)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        got, want = run_native({"x0": x}), run(program, {"x0": x})
        np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5, atol=1e-7)
        assert 0 in shape or not isinstance(nests_of(kernel_at(text, (shape,))), str)


def test_a_kernel_has_tensors_for_the_sizes_that_only_they_tell() -> None:
    """It reads nothing of `x` but its shape."""

    def build(c: Case, x: Value) -> Value:
        y = c.op("matmul", x, x, transpose_x=True, transpose_y=False)
        return c.b.cast(c.b("pd_op.shape64", x), dt.float32) * 0.5 + c.sum(y)

    _, program = opened(build, (U, 2))
    made, _ = fused(program)
    x = np.ones((3, 2), np.float32)
    np.testing.assert_allclose(run(made, {"x0": x})["y"], run(program, {"x0": x})["y"])
    ops = [op.name for op in made.operations if isinstance(op, PirOp)]
    assert "pd_op.shape64" not in ops
    (op,) = [op for op in made.operations if op.name == "pir.map_expr"]
    kernel = parse_kernel(op.attribute("kernel"))
    read = {load.source for s in kernel.statements for load in s.loads()}
    (unread,) = [m for k, m in enumerate(kernel.inputs) if k not in read]
    assert unread.shape[1] == 2


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("place", [3, -3])
def test_an_element_that_is_not_there_is_not_read(place: int, backend: str) -> None:
    """A row that a program names need not be there; only the shapes of a call tell."""

    def build(c: Case, x: Value) -> Value:
        ends = place + 1
        named = {"axes": [0], "starts": [place], "ends": [ends], "decrease_axis": [0]}
        return c.op("slice", c.b.exp(x), infer_flags=[1], **named)

    _, program = opened(build, (U, 3))
    made, _ = fused(program)
    assert [op.name for op in made.operations].count("pir.map_expr") == 1
    for tried in (program, made):
        library = KernelLibrary(backend)
        call = Executable(write_plan(tried, library=library), library).run
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.testing.assert_allclose(call({"x0": x})["y"], np.exp(x[place]), rtol=1e-5)
        with pytest.raises(PirkitError):
            call({"x0": np.zeros((2, 3), np.float32)})


UNKNOWN_SIZES = """
pir.program @p(%x "x" : tensor<6xf32>, %z "z" : tensor<?x?xf32>) {
  %s = pd_op.shape64(%z) : (tensor<?x?xf32>) -> tensor<2xi64>
  %a = pd_op.reshape(%x, %s) : (tensor<6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %t = pd_op.transpose(%a) {perm = array<i32: 1, 0>} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %f = pd_op.flatten(%t) {start_axis = 0 : i32, stop_axis = 1 : i32}
    : (tensor<?x?xf32>) -> tensor<6xf32>
  %e = pd_op.exp(%f) : (tensor<6xf32>) -> tensor<6xf32>
  pir.shadow_output(%e) {output_name = "y"} : (tensor<6xf32>) -> ()
}
"""


def test_a_size_that_only_indices_hold_is_seen() -> None:
    """Inputs and results are of six elements; where they come from, no input of a kernel tells."""
    program = next(op for op in parse_mlir(UNKNOWN_SIZES, "p").ops if isinstance(op, ProgramOp))
    made, _ = fused(program, single=True)
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (1, 6)):
        given = {"x": x, "z": np.zeros(shape, np.float32)}
        np.testing.assert_allclose(run(made, given)["y"], run(program, given)["y"], rtol=1e-6)


RESIZED = """
pir.program @p(%0 "x": tensor<2x5x4x3xf32>, %1 "s": tensor<2xi32>) {
  %2 = pd_op.sin(%0) : (tensor<2x5x4x3xf32>) -> tensor<2x5x4x3xf32>
  %3 = pd_op.bilinear_interp(%2, %1) {data_format = "NHWC", out_d = 0 : i32, out_h = 0 : i32,
    out_w = 0 : i32, scale = array<f64>, interp_method = "bilinear", align_corners = false,
    align_mode = 0 : i32} : (tensor<2x5x4x3xf32>, tensor<2xi32>) -> tensor<2x?x?x3xf32>
  pir.shadow_output(%3) {output_name = "y"} : (tensor<2x?x?x3xf32>) -> ()
}
"""


def test_moves_that_are_computed_again_follow_the_indices_that_they_read() -> None:
    program = Program(parse_mlir(RESIZED, "p"))
    x = np.random.default_rng(1).standard_normal((2, 5, 4, 3)).astype(np.float32)
    given = {"x": x, "s": np.array([3, 7], np.int32)}
    want = compile(program, pipeline="", backend="reference").run(given)
    np.testing.assert_allclose(compile(program).run(given)["y"], want["y"], rtol=1e-5, atol=1e-6)


CHOSEN = """pir.program @p(%x "x" : tensor<3x2xf32>, %u "u" : tensor<3x2xf32>,
    %i "i" : tensor<?x1xi32>) {
  %l = pir.combine(%x, %u) : (tensor<3x2xf32>, tensor<3x2xf32>)
    -> !pir.vec<tensor<3x2xf32>, tensor<3x2xf32>>
  %m = pd_op.multiplex(%l, %i) : (!pir.vec<tensor<3x2xf32>, tensor<3x2xf32>>, tensor<?x1xi32>)
    -> tensor<?x2xf32>
  %y = pd_op.atan(%m) : (tensor<?x2xf32>) -> tensor<?x2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?x2xf32>) -> ()
}"""
"""How many rows are chosen is read from a value that the kernel computes which chooses them."""
SCATTERED = """pir.program @p(%x "x" : tensor<4x?xf32>, %i "i" : tensor<3xi64>,
    %u "u" : tensor<?x4xf32>) {
  %s = pd_op.scatter(%x, %i, %u) {overwrite = false}
    : (tensor<4x?xf32>, tensor<3xi64>, tensor<?x4xf32>) -> tensor<4x?xf32>
  %y = pd_op.exp(%s) : (tensor<4x?xf32>) -> tensor<4x?xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x?xf32>) -> ()
}"""
"""The shape to which indices are expanded is computed, though the result has known sizes."""


@pytest.mark.parametrize("pipeline", ["@default", "@fused"])
@pytest.mark.parametrize(
    ("text", "shapes", "index"),
    [(CHOSEN, ((3, 2), (3, 2)), np.array([[1], [0], [1]], np.int32)),
     (SCATTERED, ((4, 4), (3, 4)), np.array([2, 0, 2]))],
)  # fmt: skip
def test_sizes_that_are_read_from_what_a_kernel_computes(
    text: str, shapes: tuple[tuple[int, int], ...], index: Any, pipeline: str
) -> None:
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    program, given = Program(parse_mlir(text)), {"x": x, "u": u, "i": index}
    found = compile(program, pipeline=pipeline).run(given)["y"]
    want = compile(program, backend="reference").run(given)["y"]
    np.testing.assert_allclose(found, want, rtol=1e-6)


SLICED = """pir.program @p(%x "x" : tensor<?x5x?xf32>) {
  %s = pd_op.slice(%x) {starts = array<i64: -2, 1>, ends = array<i64: 100, -1>,
    axes = array<i64: 0, 2>, infer_flags = array<i64: 1, 1>, decrease_axis = array<i64>}
    : (tensor<?x5x?xf32>) -> tensor<?x5x?xf32>
  %a = pd_op.exp(%s) : (tensor<?x5x?xf32>) -> tensor<?x5x?xf32>
  %y = pd_op.reshape(%a) {shape = array<i64: 1, 1, 5, 8>} : (tensor<?x5x?xf32>) -> tensor<1x1x5x8xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x1x5x8xf32>) -> ()
}"""  # noqa: E501


def test_a_size_that_the_kernel_does_not_compute_with_is_not_derived() -> None:
    program, x = Program(parse_mlir(SLICED)), np.arange(90, dtype=np.float32).reshape(3, 5, 6) / 90
    found = compile(program, pipeline="@fused").run({"x": x})["y"]
    np.testing.assert_allclose(found, np.exp(x[-2:, :, 1:-1]).reshape(1, 1, 5, 8), rtol=1e-6)


@pytest.mark.parametrize("mask", [(0, 1, 1), (0, 0, 0), (1, 1, 1)])
def test_gradients_of_elements_that_a_mask_overwrites(mask: tuple[int, ...]) -> None:
    """How many they are is known when the program runs, so `expand` may repeat an axis or not."""
    case = Case()
    m, x, u = (
        case.b("pd_op.data", name=name, shape=shape, dtype=dtype, place=UNDEFINED)
        for name, shape, dtype in (
            ("m", (3,), dt.bool_), ("x", (3, 4), dt.float32), ("u", (), dt.float32),
        )
    )  # fmt: skip
    case.b("pir.shadow_output", case.b("pd_op.index_put", x, [m], u), output_name="y")
    both = run_passes(Program(ModuleOp([case.program]), {}, "test"), "autodiff{seeds=true}")
    draw = np.random.default_rng(0)
    inputs = {
        "m": np.array(mask, bool), "x": draw.random((3, 4), np.float32), "u": np.float32(2),
        "y_grad": draw.random((3, 4), np.float32),
    }  # fmt: skip
    found = compile(both)(**inputs)
    for name, value in compile(both, backend="reference", pipeline="")(**inputs).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_a_value_is_stored_before_what_only_takes_its_size() -> None:
    """`full_like` belongs to no kernel: what is computed twice lies behind it."""
    (program,) = parse_mlir("""builtin.module { pir.program @main(
      %0 "a" : tensor<4x3xf32>, %1 "b" : tensor<f32>, %2 "c" : tensor<3x4xf32>,
      %3 "d" : tensor<12xf32>, %4 "rows" : tensor<?x1xi64>, %5 "like" : tensor<?x4xf32>,
      %6 "e" : tensor<3x4xf32>, %7 "f" : tensor<3x4xf32>, %8 "g" : tensor<12xf32>) {
        %9 = pd_op.sin(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
        %10 = pd_op.flatten(%9) {start_axis = 0 : i32, stop_axis = 1 : i32}
          : (tensor<4x3xf32>) -> tensor<12xf32>
        %11 = pd_op.sigmoid(%10) : (tensor<12xf32>) -> tensor<12xf32>
        %12 = pd_op.multiply(%11, %3) : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
        %13 = pd_op.add(%12, %8) : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
        %14 = pd_op.reshape(%13) {shape = array<i64: 4, 3>} : (tensor<12xf32>) -> tensor<4x3xf32>
        %15 = pd_op.cos(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
        %16 = pd_op.multiply(%14, %15) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
        %17 = pd_op.transpose(%16) {perm = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
        %18 = pd_op.add(%17, %2) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
        %19 = pd_op.add(%18, %7) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
        %20 = pd_op.multiply(%19, %6) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
        %21 = pd_op.shape64(%5) : (tensor<?x4xf32>) -> tensor<2xi64>
        %22 = pd_op.expand(%1, %21) : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
        %23 = pd_op.shape64(%22) : (tensor<?x?xf32>) -> tensor<2xi64>
        %24 = pd_op.expand(%4, %23) : (tensor<?x1xi64>, tensor<2xi64>) -> tensor<?x?xi64>
        %25 = pd_op.take_along_axis(%20, %24) {axis = 0 : i32}
          : (tensor<3x4xf32>, tensor<?x?xi64>) -> tensor<?x?xf32>
        %26 = pd_op.full_like(%25) {value = 1.0 : f64}
          : (tensor<?x?xf32>) -> tensor<?x?xf32>
        %27 = pd_op.reduce_as(%26, %22) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
        %28 = pd_op.reduce_as(%27, %1) : (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
        pir.shadow_output(%28) {output_name = "y"} : (tensor<f32>) -> () } }""").ops
    assert isinstance(program, ProgramOp)
    made = Program(ModuleOp([program.clone()]), {}, "test")
    shapes = {"a": (4, 3), "b": (), "c": (3, 4), "d": 12, "like": (2, 4), "e": (3, 4), "f": (3, 4)}
    given = {name: np.ones(shape, np.float32) for name, shape in {**shapes, "g": 12}.items()}
    assert compile(made)(**given, rows=np.zeros((2, 1), np.int64))["y"] == 8


def test_ops_whose_sizes_never_agree_are_in_no_kernel() -> None:
    """The part that is written is empty and its values are two: the op says so when it runs."""
    made = loads("""pir.program @main(%0 "x" : tensor<?x?xf32>) {
        %1 = pd_op.set_value(%0) {starts = array<i64: 3>, ends = array<i64: 0>,
          steps = array<i64: 2>, axes = array<i64: 1>, decrease_axes = array<i64>,
          none_axes = array<i64>, shape = array<i64: 2>, values = [0.0 : f64, 1.0 : f64]}
          : (tensor<?x?xf32>) -> tensor<?x?xf32>
        pir.shadow_output(%1) {output_name = "y"} : (tensor<?x?xf32>) -> () }""")
    with pytest.raises(PirkitError) as error:
        compile(made, pipeline="decompose,@default")(x=np.ones((3, 4), np.float32))
    assert error.value.code[:4] == "PK09"
