"""Operations on values without a batch axis that are not elementwise: products, sums, and moves.

A program with the batch in lanes has a few small ones beside its rows: derivatives along unit
vectors are rows of the weights, and the nodes of a quadrature run through the network without the
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from pirkit.lowering.codegen.emit.memory_access import Memory, load, store
from pirkit.lowering.codegen.ir.llvm_text import I64, Value
from pirkit.lowering.codegen.math.casts import narrow
from pirkit.lowering.codegen.matmul.microkernel import Computed, microkernel
from pirkit.lowering.whole_program.lane_tiling import even_width, for_tiles, lane_mask
from pirkit.lowering.whole_program.loop_emit import LoopEmitter
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.lowering.whole_program.whole_value_forms import (
    BLOCKS,
    Block,
    Product,
    contiguous_steps,
    product_of,
)

_ROWS: Final = 4
"""Rows of a register tile, which has one vector of columns."""


def emit_whole(w: LoopEmitter, op: Op) -> None:
    """Emit a product, a sum along axes, or copies of elements."""
    if op.name in ("matmul", "sum"):
        made = product_of(w.graph, op)
        # lanes run along the columns, so that a single column would fill one of them
        _emit_product(w, made if made.columns > 1 else made.transposed, op.out)
        return
    shape = w.graph.metas[op.out].shape
    if op.name == "pad":
        # the whole result first; the block of elements is copied into it
        number = float(op.attrs["pad_value"])
        _emit_copy(w, op.out, Block(-1, (prod(shape),), (0,)), (1,), number)
    for block in BLOCKS[op.name](w.graph, op):
        _emit_copy(w, op.out, block, contiguous_steps(shape))


def _emit_product(w: LoopEmitter, product: Product, out: int) -> None:
    b, dtype = w.b, w.graph.dtype(out)
    size, type_ = dtype.itemsize, w.type_of(dtype, w.lanes)

    def tile(row: Value, rows: int, column: Value, columns: int) -> None:
        mask = None if columns == w.lanes else lane_mask(b, w.lanes, Value(str(columns), I64))

        def scalars(indices: Sequence[Value]) -> Iterator[Value]:
            for k in range(rows):
                at = (b.plus(row, k), indices[0])
                yield _element(w, product.left.value, at, product.left.steps)

        def vectors(indices: Sequence[Value]) -> Iterator[Value]:
            value, steps = product.right.value, product.right.steps
            if value is None or value in w.graph.fills:
                yield _element(w, value, (), ())
                return
            memory = Memory(_address(w, value, (*indices, column), steps), steps[1] * size)
            yield load(b, dtype, memory, w.lanes, mask)

        zeros = [b.const(type_, 0.0)] * rows
        left, right = Computed(scalars), Computed(vectors)
        for k, total in enumerate(microkernel(b, left, right, [product.inner], zeros)):
            at = _address(w, out, (b.plus(row, k), column), (product.columns, 1))
            store(b, narrow(b, total, dtype), dtype, Memory(at, size), mask)

    def line(row: Value, rows: int) -> None:
        for_tiles(b, product.columns, w.lanes, lambda column, n: tile(row, rows, column, n))

    for_tiles(b, product.rows, even_width(product.rows, _ROWS), line)


def _address(w: LoopEmitter, value: int, at: Sequence[Value], steps: Sequence[int]) -> Value:
    size, address = w.graph.dtype(value).itemsize, w.pointer(value)
    for index, step in zip(at, steps, strict=True):
        address = w.b.at(address, w.b.times(index, step * size))
    return address


def _element(
    w: LoopEmitter, value: int | None, at: Sequence[Value], steps: Sequence[int]
) -> Value:  # fmt: skip
    """One element in all lanes; 1 without a value."""
    if value is None:
        return w.b.const(w.type_of(w.dtype, w.lanes), 1.0)
    if value in w.graph.fills:
        return w.fill(value, w.lanes)
    memory = Memory(_address(w, value, at, steps), 0)
    return w.b.splat(load(w.b, w.graph.dtype(value), memory, 1, None), w.lanes)


# --- copies ---


def _emit_copy(
    w: LoopEmitter, out: int, block: Block, out_steps: Sequence[int], number: float = 0.0
) -> None:
    """Copy a block, a vector along its last axis at a time, or fill it with a number."""
    b, dtype = w.b, w.graph.dtype(out)
    size = dtype.itemsize
    shape, steps, own = block.shape or (1,), block.steps or (1,), out_steps or (1,)

    def vector(outer: list[Value], column: Value, columns: int) -> None:
        mask = None if columns == w.lanes else lane_mask(b, w.lanes, Value(str(columns), I64))
        at = [*outer, column]
        if block.source == -1:
            made = b.const(w.type_of(dtype, w.lanes), number)
        elif block.source in w.graph.fills:
            made = w.fill(block.source, w.lanes)
        else:
            start = b.at(_address(w, block.source, at, steps), block.start * size)
            made = load(b, dtype, Memory(start, steps[-1] * size), w.lanes, mask)
            made = b.splat(made, w.lanes) if made.type.lanes == 1 else made
        target = b.at(_address(w, out, at, own), block.out_start * size)
        store(b, narrow(b, made, dtype), dtype, Memory(target, own[-1] * size), mask)

    def axis(outer: list[Value]) -> None:
        if len(outer) == len(shape) - 1:
            for_tiles(b, shape[-1], w.lanes, lambda column, n: vector(outer, column, n))
        else:
            w.column_loop(shape[len(outer)], lambda index: axis([*outer, index]))

    axis([])
