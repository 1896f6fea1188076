"""Blocks of rows ask memory for what the next ones read: for all of it, once, and only there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.matmul.fused_row_blocks import block_rows, row_blocks_draft
from pirkit.lowering.codegen.matmul.prefetch import Prefetch, prefetches
from pirkit.lowering.codegen.matmul.row_block_plan import (
    MemoryRows,
    RowBlocks,
    RowGemm,
    ScratchRows,
    tile_shape,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import host

HEADS, ROWS, LENGTH, DEPTH = 40, 300, 260, 48
LEFT = MemoryRows(0, (ROWS * DEPTH * 4,), (DEPTH * 4, 4))
RIGHT = MemoryRows(1, (LENGTH * DEPTH * 4,), (4, DEPTH * 4))
VALUES = MemoryRows(2, (LENGTH * DEPTH * 4,), (DEPTH * 4, 4))
OUT = MemoryRows(3, (ROWS * DEPTH * 4,), (DEPTH * 4, 4))
SIZES = tuple([HEADS * n * DEPTH * 4 for n in (ROWS, LENGTH, LENGTH, ROWS)])
FIRST = RowGemm(LEFT, RIGHT, ScratchRows(0), DEPTH, LENGTH)
SECOND = RowGemm(ScratchRows(0), VALUES, OUT, LENGTH, DEPTH)
GROUP = RowBlocks((HEADS,), ROWS, dt.float32, (FIRST, SECOND), SIZES, (LENGTH,))


def all_asked(group: RowBlocks) -> list[Prefetch]:
    target = host()
    shape = tile_shape(group.dtype, target)
    found = prefetches(group, block_rows(group, target), shape, target)
    return [a for some in found.values() for a in some]


def test_all_is_asked_for() -> None:
    """Next rows and next factors, in as many lines as they have."""
    target = host()
    shape = tile_shape(dt.float32, target)
    at_once = block_rows(GROUP, target)
    down = -(-ROWS // at_once)
    assert [(a.operand, a.next_matrix) for a in all_asked(GROUP)] == [
        (RIGHT, True), (LEFT, False), (VALUES, True),
    ]  # fmt: skip
    columns = {0: LENGTH, 1: LENGTH, 2: DEPTH}
    for a in all_asked(GROUP):
        tiles = -(-at_once // shape.rows) * -(-columns[a.operand.operand] // shape.columns)
        assert a.nbytes * (down if a.next_matrix else 1) >= DEPTH * 4 * (
            LENGTH if a.next_matrix else at_once
        )
        assert tiles * a.lines * 64 >= a.nbytes
    assert "llvm.prefetch" in row_blocks_draft(GROUP, target).text


STRIDED = replace(LEFT, strides=(DEPTH * 12, 4))
SHARED = replace(RIGHT, batch=(0,))


@pytest.mark.parametrize(
    ("first", "left"),
    [
        (replace(FIRST, x=STRIDED), {RIGHT, VALUES}),
        (replace(FIRST, y=SHARED), {LEFT, VALUES}),
        (replace(FIRST, y=replace(RIGHT, operand=0)), {replace(RIGHT, operand=0), LEFT, VALUES}),
    ],
)
def test_what_is_not_asked_for(first: RowGemm, left: set[MemoryRows]) -> None:
    """Rows that do not lie side by side, and matrices that are in the caches."""
    group = replace(GROUP, steps=(first, SECOND))
    assert {a.operand for a in all_asked(group)} == left


def test_what_the_caches_hold_is_not_asked_for() -> None:
    assert not all_asked(replace(GROUP, sizes=(1000,)))


def test_an_operand_is_asked_for_once() -> None:
    group = replace(GROUP, steps=(FIRST, SECOND, replace(FIRST, x=OUT), SECOND))
    operands = [a.operand for a in all_asked(group)]
    assert sorted(o.operand for o in operands) == [0, 1, 2, 3]
