"""Copies with guards, into blocks that channels do not fill or of several operands: most of what
they load is plain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

import pirkit
from pirkit import ops
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.ir.guards import plain_loads
from pirkit.lowering.codegen.ir.loop_ir import Block, Loop, NonTemporal
from pirkit.lowering.codegen.ir.loop_tree import walk
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load
from pirkit.lowering.codegen.ir.row_pieces import row_ends
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.runtime.native.target import host
from tests.codegen.test_fused import check, drawn, kernels
from tests.fusion.test_random import fused


def into_blocks(x: Any) -> Any:
    n, channels, *sides = x.shape
    filled = ops.pad(x * 2.0, paddings=[0, 0, 0, -channels % 8, 0, 0, 0, 0], pad_value=3.0)
    return ops.transpose(ops.reshape(filled, [n, -1, 8, *sides]), [0, 1, 3, 4, 2])


def out_of_blocks(x: Any, channels: int) -> Any:
    n, blocks, *sides, block = x.shape
    plain = ops.reshape(ops.transpose(x, [0, 1, 4, 2, 3]), [n, blocks * block, *sides])
    return ops.slice(plain, axes=[1], starts=[0], ends=[channels]) + 1.0


def behind(x: Any) -> Any:
    return ops.pad(x, paddings=[0, 0, 0, 0, 0, 3, 0, 2], pad_value=0.0)


def kernel_of(function: Any, *shapes: tuple[int, ...]) -> MapExpr:
    given = tuple([np.zeros(shape, np.float32) for shape in shapes])
    decomposed = pirkit.run_passes(trace(function, given).program, "decompose,dce")
    (found,) = kernels(fused(decomposed.entry(None), single=True)[0])
    return found


def nests(kernel: MapExpr) -> list[Kernel]:
    found = nests_of(kernel)
    assert not isinstance(found, str)
    return [n.kernel for n in found if isinstance(n.kernel, Kernel)]


def is_plain(kernel: Kernel) -> bool:
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    places = [s for s in kernel.statements() if isinstance(s, Compute) and s.dtype.is_integer]
    return not places and all(s.at is None and s.predicate is None for s in loads)


@pytest.mark.parametrize("channels", [17, 21, 31, 36])
def test_most_blocks_are_filled_without_a_guard(channels: int) -> None:
    kernel = kernel_of(into_blocks, (2, channels, 5, 6))
    whole, rest = nests(kernel)
    assert is_plain(whole)
    assert (whole.outer[1], rest.outer[1]) == (channels // 8, 1)
    assert check(kernel, drawn(kernel))


@pytest.mark.parametrize("channels", [17, 21, 31, 36])
def test_channels_of_whole_blocks_are_read_at_strides(channels: int) -> None:
    kernel = kernel_of(lambda x: out_of_blocks(x, channels), (2, -(-channels // 8), 5, 6, 8))
    assert [is_plain(nest) for nest in nests(kernel)] == [True, True]
    assert check(kernel, drawn(kernel))


@pytest.mark.parametrize("channels", [9, 32])
def test_a_small_part_and_whole_blocks_are_no_reason(channels: int) -> None:
    kernel = kernel_of(into_blocks, (2, channels if channels == 32 else 7, 5, 6))
    assert len(nests(kernel)) == 1


def test_rows_with_a_guard_stay_in_one_nest() -> None:
    kernel = kernel_of(behind, (2, 3, 20, 20))
    assert len(nests(kernel)) == 1
    assert check(kernel, drawn(kernel))


def joined(axis: int, *turns: Any) -> Any:
    """What concatenates operands along an axis, each after a function."""
    return lambda *given: ops.concat([f(x) for f, x in zip(turns, given, strict=True)], axis=axis)


def points(x: Any) -> Any:
    """One row of channels for each pixel."""
    return ops.transpose(ops.reshape(x, [*x.shape[:2], -1]), [0, 2, 1])


def anchors(x: Any) -> Any:
    """One row for each pixel and each three of its channels."""
    return ops.reshape(ops.transpose(x, [0, 2, 3, 1]), [x.shape[0], -1, 3])


def rows(x: Any) -> Any:
    return ops.reshape(x, [*x.shape[:2], -1])


LEVELS = ((2, 24, 13, 7), (2, 24, 5, 9), (2, 24, 4, 4))


@pytest.mark.parametrize("turn", [points, anchors])
def test_each_transposed_operand_of_a_concat_is_read_without_a_guard(turn: Any) -> None:
    kernel = kernel_of(joined(1, turn, turn, turn), *LEVELS)
    made = nests(kernel)
    assert [is_plain(nest) for nest in made] == [True] * 3
    assert [len(nest.operands) for nest in made] == [2] * 3
    assert check(kernel, drawn(kernel))


def reflected(x: Any) -> Any:
    before, after = (ops.flip(x[..., at], axis=[2]) for at in (slice(1, 4), slice(-3, -1)))
    return ops.concat([before, x, after], axis=2)


@pytest.mark.parametrize(
    ("function", "shapes", "pieces"),
    [
        (joined(2, rows, rows, rows), LEVELS, 3),
        (lambda x: ops.pad(x, paddings=[0, 0, 0, 0, 2, 5], pad_value=3.0), ((3, 7, 81),), 3),
        (lambda x: ops.roll(x, [5], [2]) * 2.0, ((3, 7, 81),), 2),
        (reflected, ((3, 7, 81),), 3),
    ],
    ids=["concat", "pad", "roll", "reflected"],
)
def test_rows_have_pieces_without_guards(function: Any, shapes: Any, pieces: int) -> None:
    """One nest writes each row of the result once."""
    kernel = kernel_of(function, *shapes)
    (nest,) = nests(kernel)
    split = next(s for s in stages_of(nest, host()) if s.rewrite.startswith("split_rows"))
    blocks = [node for node in walk(split.nest.body) if isinstance(node, Block)]
    assert [plain_loads(block.statements) for block in blocks] == [True] * pieces
    assert check(kernel, drawn(kernel))


@pytest.mark.parametrize("width", [192, 200, 193])
def test_pieces_that_begin_with_a_whole_vector_bypass_the_caches(width: int) -> None:
    (nest,) = nests(kernel_of(joined(1, lambda x: x, lambda x: x), (4, width), (4, 448 - width)))
    operands = tuple([structs.replace(o, stream=True) for o in nest.operands])
    made = stages_of(structs.replace(nest, operands=operands), host())[-1].nest
    vectors = {n.lanes for n in walk(made.body) if isinstance(n, Loop) and n.kind == "vector"}
    bypassing = [n for n in walk(made.body) if isinstance(n, NonTemporal)]
    assert len(bypassing) == (0 if width % max(vectors) else 2)


PADDED = """
pir.program @p(%x "x" : tensor<2x21x67xf32>) {{
  %i = pd_op.full_int_array() {{{0}, dtype = #pir.dtype<int64>}} : () -> tensor<26xi64>
  %j = pd_op.full_int_array() {{{1}, dtype = #pir.dtype<int64>}} : () -> tensor<72xi64>
  %y = pd_op.gather(%x, %i) {{axis = 1 : i32}}
    : (tensor<2x21x67xf32>, tensor<26xi64>) -> tensor<2x26x67xf32>
  %z = pd_op.gather(%y, %j) {{axis = 2 : i32}}
    : (tensor<2x26x67xf32>, tensor<72xi64>) -> tensor<2x26x72xf32>
  pir.shadow_output(%z) {{output_name = "z"}} : (tensor<2x26x72xf32>) -> ()
}}
"""


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_images_are_padded_by_pieces_of_rows(mode: Any) -> None:
    """The rows above and below are nests of their own, whose rows have pieces too."""
    x = np.random.default_rng(5).standard_normal((2, 21, 67)).astype(np.float32)
    want = np.pad(x, ((0, 0), (2, 3), (4, 1)), mode)
    along = [np.pad(np.arange(n), by, mode) for n, by in ((21, (2, 3)), (67, (4, 1)))]

    indices = [f"value = array<i64: {', '.join(map(str, places))}>" for places in along]
    given = pirkit.loads(PADDED.format(*indices))
    program = pirkit.run_passes(given, "slice-gathers,fuse")
    assert "pd_op.gather" not in str(program)
    (kernel,) = [op.kernel for op in program.entry(None).walk() if isinstance(op, KernelOp)]
    made = nests(kernel)
    assert len(made) <= 3
    assert all(row_ends(nest) for nest in made)
    np.testing.assert_array_equal(pirkit.compile(program, pipeline="")(x=x)["z"], want)


def test_a_concat_of_contiguous_operands_stays_in_one_nest() -> None:
    kernel = kernel_of(joined(1, rows, rows), *LEVELS[:1] * 2)
    assert len(nests(kernel)) == 1
    assert check(kernel, drawn(kernel))


def test_a_few_lanes_are_no_part() -> None:
    kernel = kernel_of(joined(2, rows, rows), (2, 3, 5, 5), (2, 3, 3, 5))
    assert len(nests(kernel)) == 1
    assert check(kernel, drawn(kernel))


@pytest.mark.parametrize("name", ["logsigmoid", "gelu", "elu", "hardswish", "leaky_relu"])
def test_comparisons_read_what_stands_for_a_dropped_choice(name: str) -> None:
    """A part that reads one operand has no `where`; what the op compares is the operand."""

    def both(x: Any) -> Any:
        return ops.tile(getattr(ops, name)(x), (1, 2))

    x = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)
    found, want = np.asarray(pirkit.jit(both)(x)), np.asarray(getattr(ops, name)(x))
    np.testing.assert_allclose(found, np.tile(want, (1, 2)), rtol=1e-5, atol=1e-6)


WRAPPED = """
pir.program @p(%x "x" : tensor<32x32xf32>, %y "y" : tensor<32x64xf32>) {{
  %i = pd_op.arange() {{start = 0.0 : f64, end = 64.0 : f64, step = 1.0 : f64,
    dtype = #pir.dtype<int32>}} : () -> tensor<64xi32>
  %k = pd_op.full() {{shape = array<i64: 1>, value = {number}.0 : f64,
    dtype = #pir.dtype<int32>}} : () -> tensor<1xi32>
  %z = pd_op.full() {{shape = array<i64: 1>, value = 0.0 : f64,
    dtype = #pir.dtype<int32>}} : () -> tensor<1xi32>
  %s = pd_op.{op}(%i, %k) : (tensor<64xi32>, tensor<1xi32>) -> tensor<64xi32>
  %c = pd_op.less_than(%s, %z) : (tensor<64xi32>, tensor<1xi32>) -> tensor<64xi1>
  %t = pd_op.transpose(%x) {{perm = array<i32: 1, 0>}} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %l = pir.combine(%t, %t) : (tensor<32x32xf32>, tensor<32x32xf32>)
    -> !pir.vec<tensor<32x32xf32>, tensor<32x32xf32>>
  %w = pd_op.concat(%l) {{axis = 1 : i32}}
    : (!pir.vec<tensor<32x32xf32>, tensor<32x32xf32>>) -> tensor<32x64xf32>
  %r = pd_op.where(%c, %w, %y)
    : (tensor<64xi1>, tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  pir.shadow_output(%r) {{output_name = "r"}} : (tensor<32x64xf32>) -> ()
}}
"""


@pytest.mark.parametrize(("op", "number"), [("add", 2**31 - 40), ("multiply", 10**8)])
def test_numbers_of_the_program_wrap_around(op: str, number: int) -> None:
    """A comparison of them is no guard that holds or fails everywhere."""
    program = pirkit.run_passes(pirkit.loads(WRAPPED.format(op=op, number=number)), "fuse")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, np.float32) for shape in ((32, 32), (32, 64)))
    with np.errstate(over="ignore"):
        wrapped = getattr(np, op)(np.arange(64, dtype=np.int32), np.int32(number))
    want = np.where(wrapped < 0, np.concatenate([x.T, x.T], 1), y)
    np.testing.assert_array_equal(pirkit.compile(program)(x=x, y=y)["r"], want)
