# ruff: noqa: E501  programs are text
"""The campaign of random programs: a short slice of it, and what it has found, minimised."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, RuntimeFault
from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.runtime import dtype as dt
from pirkit.split import forward_backward
from tests.execution import parsed
from tests.split.running import Halves
from tools.campaigns.driver import SEVERE
from tools.campaigns.oracle import Oracle, moved
from tools.campaigns.programs import WAYS, differs, examine, sloped
from tools.campaigns.random_programs import DTYPES, made

FOUND: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    # 0-D float64 beside a float32 tensor, which it does not promote, was read as float32
    "number-of-another-type": (
        """
        %2 = pd_op.multiply(%a, %b) : (tensor<f64>, tensor<2xf32>) -> tensor<2xf32>
        %3 = pd_op.less_than(%a, %b) : (tensor<f64>, tensor<2xf32>) -> tensor<2xi1>
        %4 = pd_op.maximum(%b, %a) : (tensor<2xf32>, tensor<f64>) -> tensor<2xf32>
        %5 = pd_op.fmax(%b, %a) : (tensor<2xf32>, tensor<f64>) -> tensor<2xf32>
        """,
        ("segments", "whole", "default", "fused", "lanes"),
    ),
    # what was written through an element of a list that an op had written did not reach the input
    "element-of-a-written-list": (
        """
        %1 = pir.combine(%b) : (tensor<2xf32>) -> !pir.vec<tensor<2xf32>>
        %s = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64, dtype = #pir.dtype<float32>} : () -> tensor<1xf32>
        %2, %3 = pd_op.check_finite_and_unscale_(%1, %s) : (!pir.vec<tensor<2xf32>>, tensor<1xf32>) -> (!pir.vec<tensor<2xf32>>, tensor<1xi1>)
        %4 = pir.slice(%2) {index = 0 : i32} : (!pir.vec<tensor<2xf32>>) -> tensor<2xf32>
        %5 = pd_op.floor_(%4) : (tensor<2xf32>) -> tensor<2xf32>
        """,
        ("segments", "default"),
    ),
    # numpy pads no 0-D array
    "pad-of-a-number": (
        """
        %2 = pd_op.pad(%a) {pad_value = 0.5 : f64, paddings = array<i32>} : (tensor<f64>) -> tensor<f64>
        """,
        ("segments", "default"),
    ),
    # a mutant of the bounds of `logit` survived
    "logit-beyond-its-bounds": (
        """
        %2 = pd_op.logit(%c) {eps = 0.1 : f64} : (tensor<4xf32>) -> tensor<4xf32>
        """,
        ("fused", "prim"),
    ),
    # the interpreter of loop nests: halves beside float32, and loads behind a reduction
    "interpreted-nests": (
        """
        %2 = pd_op.cast(%c) {dtype = #pir.dtype<bfloat16>} : (tensor<4xf32>) -> tensor<4xbf16>
        %3 = pd_op.argmin(%2) {axis = 0 : i64, keepdims = true, flatten = false} : (tensor<4xbf16>) -> tensor<1xi64>
        %4 = pd_op.roll(%3) {shifts = array<i64: 1>, axis = array<i64: 0>} : (tensor<1xi64>) -> tensor<1xi64>
        %5 = pd_op.argmax(%c) {axis = 0 : i64, keepdims = false, flatten = false} : (tensor<4xf32>) -> tensor<i64>
        %i = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64, dtype = #pir.dtype<int64>} : () -> tensor<1xi64>
        %7 = pd_op.gather(%c, %i) {axis = 0 : i32} : (tensor<4xf32>, tensor<1xi64>) -> tensor<1xf32>
        """,
        ("nest", "interpret"),
    ),
    # planted: the storage of a view of a view was taken for that of the first view
    "view-of-a-view": (
        """
        %1 = pd_op.share_data(%b) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.share_data(%1) : (tensor<2xf32>) -> tensor<2xf32>
        %3 = pd_op.floor_(%2) : (tensor<2xf32>) -> tensor<2xf32>
        %4 = pd_op.exp(%b) : (tensor<2xf32>) -> tensor<2xf32>
        %5 = pd_op.square_(%1) : (tensor<2xf32>) -> tensor<2xf32>
        %6 = pd_op.exp(%2) : (tensor<2xf32>) -> tensor<2xf32>
        """,
        ("default", "simplify"),
    ),
}
INPUTS: Final = {
    "a": np.array(1.1),
    "b": np.array([3.5, -0.25], np.float32),
    "c": np.array([0.5, 3, -1, 2], np.float32),
    "d": np.array([1, 4, 9], np.int32),
}


def program(lines: str) -> Program:
    """The lines with all values of tensors as outputs."""
    types = {"a": "tensor<f64>", "b": "tensor<2xf32>", "c": "tensor<4xf32>", "d": "tensor<3xi32>"}
    used = {n: t for n, t in types.items() if f"%{n}" in lines}
    head = ", ".join(f'%{n} "{n}" : {t}' for n, t in used.items())
    last = [line.split(" = ")[0].strip() for line in lines.strip().splitlines()]
    ends = [line.rpartition("-> ")[2] for line in lines.strip().splitlines()]
    outputs = [
        f'pir.shadow_output({n}) {{output_name = "y{n[1:]}"}} : ({t}) -> ()'
        for n, t in zip(last, ends, strict=True)
        if t.startswith("tensor")
    ]
    body = "\n".join([lines, *outputs])
    return Program(parsed(f"pir.program @main({head}) {{\n{body}\n}}\n"))


CASES: Final = [(name, way) for name, (_, ways) in FOUND.items() for way in ways]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_found_programs_give_what_the_reference_gives(name: str, way: str) -> None:
    lines, _ = FOUND[name]
    assert differs(way, random.Random(0).getstate(), program(lines), INPUTS) is None


@pytest.mark.parametrize(
    "shapes", [((3, 3), (2, 3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (3,)), ((2, 3, 3), (2, 3))]
)
@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_vmap_aligns_batches_of_matrices(
    shapes: tuple[tuple[int, ...], ...], axes: tuple[int | None, ...]
) -> None:
    rng = np.random.default_rng(0)
    given = [
        rng.standard_normal(s if a is None else (2, *s)) for s, a in zip(shapes, axes, strict=True)
    ]
    given[0] = given[0] + 3 * np.eye(3)
    rows = [[g if a is None else g[k] for g, a in zip(given, axes, strict=True)] for k in range(2)]
    want = np.stack([np.asarray(ops.solve(*row)) for row in rows])
    found = np.asarray(pirkit.vmap(ops.solve, in_axes=axes)(*given))
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_vmap_of_an_op_that_is_decomposed_first_and_last() -> None:
    found = np.asarray(pirkit.vmap(lambda x: ops.tile(x, [2]))(np.array([True, False])))
    assert found.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("of", [ops.gather, ops.index_select])
def test_vmap_counts_places_within_a_row(
    of: Any, axis: int, axes: tuple[int | None, int | None]
) -> None:
    """From the end, too; and what is outside of its row is refused, not read in the next one."""
    x: Any = np.random.default_rng(0).standard_normal((2, 3, 3))
    places: Any = np.array([[0, -1, 1], [2, -3, 0]], np.int32)
    x, places = (a if at == 0 else a[0] for a, at in zip((x, places), axes, strict=True))
    rows = [(x if axes[0] is None else x[k], places if axes[1] is None else places[k])
            for k in range(2)]  # fmt: skip
    mapped = pirkit.vmap(lambda a, i: of(a, i, axis=axis), in_axes=axes)
    want = np.stack([np.take(a, i, axis=axis) for a, i in rows])
    np.testing.assert_array_equal(np.asarray(mapped(x, places)), want)
    for outside in (3, -4):
        with pytest.raises(PirkitError, match="PK0901"):
            mapped(x, np.where(places == 1, outside, places))


@pytest.mark.parametrize("ranks", [(0, 1), (1, 0), (0, 0)])
@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_vmap_of_numbers_of_another_type(
    ranks: tuple[int, int], axes: tuple[int | None, int | None]
) -> None:
    """A number beside a tensor takes its type; two numbers take the wider one."""
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(1, 2, (2, *(3,) * r)) for r in ranks)
    x = x.astype(np.float32)
    x, y = (a if at == 0 else a[0] for a, at in zip((x, y), axes, strict=True))
    rows = [(x if axes[0] is None else x[k], y if axes[1] is None else y[k]) for k in range(2)]
    want = [np.asarray(ops.multiply(np.asarray(a), np.asarray(b))) for a, b in rows]
    found = np.asarray(pirkit.vmap(ops.multiply, in_axes=axes)(x, y))
    assert found.dtype == want[0].dtype
    np.testing.assert_allclose(found, np.stack(want), rtol=1e-6)


STAGED: Final = """
pir.program @main(%x "x" : tensor<2x1xf32>) {
  %a = pd_op.exp(%x) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %b = pd_op.unsqueeze(%a) {axis = array<i64: 0>} : (tensor<2x1xf32>) -> tensor<1x2x1xf32>
  %c = pd_op.reshape(%a) {shape = array<i64: -1, 2>} : (tensor<2x1xf32>) -> tensor<1x2xf32>
  %d = pd_op.flatten(%b) {start_axis = 1 : i32, stop_axis = 2 : i32} : (tensor<1x2x1xf32>) -> tensor<1x2xf32>
  pir.shadow_output(%c) {output_name = "c"} : (tensor<1x2xf32>) -> ()
  pir.shadow_output(%d) {output_name = "d"} : (tensor<1x2xf32>) -> ()
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2x1xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<1x2x1xf32>) -> ()
}
"""


@pytest.mark.parametrize("fused", ["native", "nest", "interpret"])
def test_what_reads_values_in_tiles_waits_for_them(fused: str) -> None:
    exe = pirkit.compile(Program(parsed(STAGED)), pipeline="cse,dce,fuse", fused=fused)
    x = np.array([[0.5], [-1.0]], np.float32)
    found = exe(x=x)
    for name, shape in {"a": (2, 1), "b": (1, 2, 1), "c": (1, 2), "d": (1, 2)}.items():
        np.testing.assert_allclose(found[name], np.exp(x).reshape(shape), rtol=1e-6)


def test_vmap_of_a_result_without_elements_has_rows() -> None:
    q, r = pirkit.vmap(lambda a: ops.qr(a, mode="r"))(np.ones((2, 2, 3)))
    assert (np.shape(q), np.shape(r)) == ((2, 0), (2, 2, 3))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_vmap_of_slogdet_has_rows_in_front(batch: tuple[int, ...]) -> None:
    matrices = np.random.default_rng(0).standard_normal((2, *batch, 3, 3))
    want = np.stack([np.asarray(ops.slogdet(m)) for m in matrices])
    np.testing.assert_allclose(np.asarray(pirkit.vmap(ops.slogdet)(matrices)), want)


SUMS: Final[dict[str, tuple[Any, int]]] = {
    "allclose": (ops.allclose, 2),
    "equal_all": (ops.equal_all, 2),
    "clip_by_norm": (lambda x: ops.clip_by_norm(x, 1.0), 1),
    "kldiv_loss": (lambda x, y: ops.kldiv_loss(x, y, "mean", log_target=False), 2),
    "cross entropy": (
        lambda x, y: ops.sigmoid_cross_entropy_with_logits(x, y, normalize=True, ignore_index=1),
        2,
    ),
}
"""Ops of families of elementwise ones that sum or compare over all elements."""


@pytest.mark.parametrize("name", SUMS)
def test_vmap_keeps_rows_apart(name: str) -> None:
    of, count = SUMS[name]
    x = np.array([[1.0, 0.5, 2.0], [1.0, 1.0, 0.25]], np.float32)
    given = [x, np.stack([x[0], x[0]])][:count]
    want = np.stack([np.asarray(of(*row)) for row in zip(*given, strict=True)])
    np.testing.assert_allclose(np.asarray(pirkit.vmap(of)(*given)), want, rtol=1e-6)


def test_a_view_of_nothing_is_kept_from_a_later_write() -> None:
    lines = """
        %1 = pd_op.squeeze(%c) {axis = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
        %2 = pd_op.add(%c, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %3 = pd_op.assign_out_(%2, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        """
    for pipeline in ("", "@default"):
        made = pirkit.compile(program(lines), pipeline=pipeline)
        assert made.run({"c": INPUTS["c"].copy()})["y1"].tolist() == INPUTS["c"].tolist()


@pytest.mark.parametrize("rows", [1, 4])
def test_indices_into_a_constant_are_compared_with_its_bounds(rows: int) -> None:
    table = np.full((rows, 3), 2, np.float32)
    for read in (lambda i: ops.embedding(i, table) * 2.0, lambda i: ops.one_hot(i, rows) + 1.0):
        with pytest.raises(RuntimeFault, match="does not lie in"):
            pirkit.jit(read)(np.array([0, rows]))


YIELDED: Final = """
pir.program @main(%c "c" : tensor<i1>, %x "x" : tensor<2xf32>) {
  %y = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %r = pd_op.if(%c) : (tensor<i1>) -> tensor<2xf32> {
    %w = pd_op.floor_(%y) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%y) : (tensor<2xf32>) -> ()
  } else {
    %z = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%z) : (tensor<2xf32>) -> ()
  }
  pir.shadow_output(%r) {output_name = "r"} : (tensor<2xf32>) -> ()
}
"""


@pytest.mark.parametrize("pipeline", ["dce", "@simplify", "@default"])
def test_a_branch_reads_what_it_yields(pipeline: str) -> None:
    """So a write to it is no dead one, though nothing reads its result."""
    exe = pirkit.compile(Program(parsed(YIELDED)), pipeline=pipeline)
    x = np.array([0.5, 1.25], np.float32)
    assert exe(c=np.array(True), x=x)["r"].tolist() == [1.0, 3.0]


@pytest.mark.parametrize("pipeline", ["dce", "@simplify", "@default"])
def test_a_write_is_read_under_the_old_name(pipeline: str) -> None:
    of = "tensor<2xf32>"
    text = f"""
pir.program @main(%x "x" : {of}) {{
  %y = pd_op.exp(%x) : ({of}) -> {of}
  %w = pd_op.floor_(%y) : ({of}) -> {of}
  %z = pd_op.square(%y) : ({of}) -> {of}
  pir.shadow_output(%z) {{output_name = "z"}} : ({of}) -> ()
}}
"""
    exe = pirkit.compile(Program(parsed(text)), pipeline=pipeline)
    assert exe(x=np.array([0.5, 1.25], np.float32))["z"].tolist() == [1.0, 9.0]


STATISTICS: Final = """
pir.program @main(%x "x" : tensor<4x3xf64>, %s "s" : V, %w "w" : V) {
  %m = pir.parameter() {parameter_name = "m", stop_gradient = array<i1: true>} : () -> V
  %v = pir.parameter() {parameter_name = "v", stop_gradient = array<i1: true>} : () -> V
  %y, %n, %o, %a, %b, %r = pd_op.batch_norm(%x, %m, %v, %s, %w) {is_test = false,
    momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false,
    trainable_statistics = false} : (tensor<4x3xf64>, V, V, V, V) ->
    (tensor<4x3xf64>, V, V, V, V, tensor<?xui8>)
  %z = pd_op.multiply(%n, %w) : (V, V) -> V
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x3xf64>) -> ()
  pir.shadow_output(%z) {output_name = "z"} : (V) -> ()
}
""".replace("V", "tensor<3xf64>")


@pytest.mark.parametrize("mode", ["save-all", "free", "min-cut"])
def test_updated_statistics_are_not_computed_again(mode: str) -> None:
    """The mean is repeated without the statistics that it has updated; here they are read."""
    rng = np.random.default_rng(0)
    parts = forward_backward(Program(parsed(STATISTICS)), mode=mode)
    held = {n: rng.uniform(0.5, 2, 3) for n in "mv"}
    halves = Halves(parts, {n: a.copy() for n, a in held.items()})
    given = {n: rng.uniform(0.5, 2, (4, 3) if n == "x" else 3) for n in "xsw"}
    outputs = halves.run(given)
    names = [name for name, _ in parts.returns]
    seeds = {p: np.ones_like(np.asarray(outputs[names.index(n)])) for n, p in parts.returns}
    found = halves.gradients(seeds)
    mean = 0.9 * held["m"] + (1 - np.float32(0.9)) * given["x"].mean(0)
    np.testing.assert_allclose(found["w"], mean + 4, rtol=1e-6)


def test_the_generator_draws_every_element_type_and_kind_of_step() -> None:
    seen: set[object] = set()
    for seed in range(200):
        drawn, _ = made(seed)
        for op in drawn.module.walk():
            seen |= {op.name, *(getattr(r.type, "element_type", None) for r in op.results)}
    assert {"pd_op.while", "pd_op.if", "pd_op.matmul", "pd_op.conv2d", "pd_op.pool2d"} <= seen
    assert any(str(n).endswith("_") for n in seen)
    assert len(set(DTYPES)) == 12


def test_the_oracle_tells_rounding_from_wrong_numbers() -> None:
    held = program("%2 = pd_op.exp(%c) : (tensor<4xf32>) -> tensor<4xf32>")
    oracle = Oracle.of(held, INPUTS)
    (name,) = oracle.want
    near = moved(oracle.want[name], np.random.default_rng(0))
    assert oracle.difference({name: near}) is None
    wrong = near.copy()
    wrong[2] += np.float32(1e-3) * near.max()
    found = oracle.difference({name: wrong})
    assert found is not None
    assert found[0] == "wrong"
    assert oracle.difference({}) is not None
    assert dt.of_array(near) is dt.float32


def test_vmap_of_a_list_that_an_op_takes_for_constant() -> None:
    b = pirkit.ProgramBuilder()
    parts = [b.input("x", (3,), "float32"), b.input("y", (2, 2), "float32")]
    words = {"dtype": "float32", "use_align": False, "copy_data": True}
    b.output("z", b("pd_op.coalesce_tensor", parts, **words)[1])
    held = b.finish()
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.ones((2, 2, 2), "f4")
    found = pirkit.vmap(lambda given: held(**given))({"x": x, "y": y})
    np.testing.assert_array_equal(found, np.concatenate([x, y.reshape(2, 4)], 1))

    def total(x: Any) -> Any:
        return pirkit.vmap(lambda row, other: held(x=row, y=other))(x, y).sum()

    np.testing.assert_array_equal(pirkit.grad(total)(x), 0)


def test_a_fault_in_what_nothing_needs_is_no_difference() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3,), "int64")
    b("pd_op.floor_divide", x, x)
    b.output("y", x + x)
    held, given = b.finish(), {"x": np.array([0, 1, 2])}
    state = random.Random(0).getstate()
    assert differs("default", state, held, given) is None
    assert differs("kernels", state, held, given) is None


def test_the_oracle_compares_truths() -> None:
    oracle = Oracle.of(program("%2 = pd_op.isfinite(%c) : (tensor<4xf32>) -> tensor<4xi1>"), INPUTS)
    ((name, want),) = oracle.want.items()
    found = oracle.difference({name: np.logical_not(want)})
    assert found is not None
    assert found[0] == "wrong"


def test_differences_leave_out_what_gets_no_gradient() -> None:
    b = pirkit.ProgramBuilder()
    x, label = b.input("x", (3,), "float64"), b.input("label", (3,), "float64")
    b.output("y0", b("pd_op.sigmoid_cross_entropy_with_logits", x, b.tanh(label)))
    program = b.finish()
    given = {"x": np.array([-1.0, 0.5, 2.0]), "label": np.array([0.2, 0.7, 0.4])}
    assert not list(sloped(program, run_passes(program, "autodiff"), given, 1))


def test_a_slice_of_the_campaign() -> None:
    severe = [f for number in range(12) for f in examine(1, number) if f.kind in SEVERE]
    assert not severe
    assert {"segments", "vmap", "split"} <= set(WAYS)
