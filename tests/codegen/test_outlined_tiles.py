"""Products between kernels of rows: one tile for all of them, whatever their strides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.fused_row_blocks import native_rows, row_blocks_draft
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.codegen.matmul.row_block_plan import (
    MemoryRows,
    RowAccumulation,
    RowBlocks,
    RowGemm,
    ScratchRows,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

BATCH = 8


def group(rows: int, depth: int, middle: int, columns: int, dtype: DType) -> RowBlocks:
    """``z = x y``, ``out = z w`` and ``total = z' out``: x, y turned, w, out and total."""
    size = dtype.itemsize

    def matrix(operand: int, down: int, across: int) -> MemoryRows:
        return MemoryRows(operand, (down * across * size,), (across * size, size))

    def transposed(operand: int, down: int, across: int) -> MemoryRows:
        return MemoryRows(operand, (down * across * size,), (size, down * size))

    x, y, w = matrix(0, rows, depth), transposed(1, depth, middle), matrix(2, middle, columns)
    out, total = matrix(3, rows, columns), matrix(4, middle, columns)
    steps = (
        RowGemm(x, y, ScratchRows(0), depth, middle),
        RowGemm(ScratchRows(0), w, out, middle, columns),
        RowAccumulation(ScratchRows(0), out, total, middle, columns),
    )
    pairs = ((rows, depth), (depth, middle), (middle, columns), (rows, columns), (middle, columns))
    sizes = tuple([BATCH * m * n * size for m, n in pairs])
    return RowBlocks((BATCH,), rows, dtype, steps, sizes, (middle,))


def test_squares_are_written_once_where_masks_are_free() -> None:
    def packs(middle: int) -> int:
        text = row_blocks_draft(group(64, middle, 96, 96, dt.float32), host()).text
        return sum("shufflevector" in part for part in text.split("br label"))

    assert packs(61) == packs(64) + (host().vector_bits < 512)


def test_even_products_are_one_tile() -> None:
    wide = tile_shape_for(dt.float32, host(), 1024)
    even = math.lcm(wide.rows, wide.columns)
    text = row_blocks_draft(group(8 * wide.rows, 64, even, even, dt.float32), host()).text
    tiles = [part for part in text.split("\ndefine ") if "llvm.fmuladd" in part.partition("\n}")[0]]
    assert len(tiles) == 1
    packs = [part.partition("\n}")[0] for part in text.split("\ndefine ") if "%panels," in part]
    assert packs
    assert not any("llvm.masked" in pack for pack in packs)


def native(group: RowBlocks, arrays: list[Array]) -> None:
    native_rows(group).bind(arrays)()


def interpreted(group: RowBlocks, arrays: list[Array]) -> None:
    run_loops(row_blocks_draft(group, host()).stages[-1].nest, arrays)


@pytest.mark.parametrize("run", [native, interpreted])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
@pytest.mark.parametrize(
    "extents", [(64, 64, 64, 64), (1, 1, 1, 1), (33, 17, 9, 41), (130, 5, 70, 3), (7, 96, 33, 64)]
)
def test_products_of_any_sizes(
    extents: tuple[int, int, int, int], dtype: DType, run: Callable[[RowBlocks, list[Array]], None]
) -> None:
    rows, depth, middle, columns = extents
    draw = np.random.default_rng(0).integers
    x, y, w = (
        draw(-3, 4, (BATCH, m, n)).astype(dtype.np)
        for m, n in ((rows, depth), (depth, middle), (middle, columns))
    )
    x[0, 0, 0], w[1, 0, 0] = np.nan, np.inf
    out = np.full((BATCH, rows, columns), np.nan, dtype.np)
    total = np.full((BATCH, middle, columns), np.nan, dtype.np)
    run(group(*extents, dtype), [x, y.swapaxes(1, 2).copy(), w, out, total])
    with np.errstate(invalid="ignore"):
        z = x @ y
        np.testing.assert_array_equal(out, z @ w)
        np.testing.assert_array_equal(total, z.transpose(0, 2, 1) @ out)
