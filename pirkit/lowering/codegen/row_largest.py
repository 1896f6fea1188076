"""The largest element in a row of a product, found while its tiles are in registers.

Where the first sweep of a kernel does nothing but find it, as in softmax, the sweep is not written:
each tile of the product notes a vector of largest elements for its rows, and what is left to do
is to fold its lanes. A positive factor between product and fold is applied to the result: rounding
keeps the order, so the bits are those of the sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod
from typing import Final

from pirkit.lowering.codegen.ir import I64, PTR, Builder, Value
from pirkit.lowering.codegen.loopnest import (
    Compute,
    Constant,
    Fold,
    Kernel,
    Load,
    Operand,
    Stage,
    Statement,
    defines,
    kept,
    reads,
    renamed,
)
from pirkit.lowering.codegen.panels import Shape, read_vector, write_vector
from pirkit.lowering.codegen.points import fold_lanes
from pirkit.lowering.codegen.routines import Routines
from pirkit.lowering.codegen.row_steps import (
    RowBlocks,
    RowNest,
    RowProduct,
    Step,
    Tile,
    in_tiles,
    runs_by_rows,
    tile_shape,
)
from pirkit.runtime.native.target import Target

_WORTH: Final = 1 << 22
"""Elements of a product from which it pays to compile tiles of its own."""


def with_largest(group: RowBlocks, most: int, target: Target) -> RowBlocks:
    """The group with products that find the largest elements, where sums have ``most`` terms."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            group = _with_largest(group, number, step, most, target)
    return group


def _with_largest(
    group: RowBlocks, number: int, step: RowNest, most: int, target: Target
) -> RowBlocks:
    found = _sweep(step.kernel)
    if found is None:
        return group
    loaded, lines = found
    where, operand = step.operands[loaded.operand], step.kernel.operands[loaded.operand]
    made = _product(group, number, where)
    if made is None or not isinstance(where, Tile) or operand.dtype is not group.dtype:
        return group
    product, columns = made
    if prod(group.batch) * group.rows * columns < _WORTH:
        return group
    if product.depth > most or product.largest or not _is_row(step.kernel, operand, columns):
        return group
    shape = tile_shape(group.dtype, target)
    vectors, outer = shape.lanes * operand.dtype.itemsize, step.kernel.outer
    strides = tuple([prod(outer[k + 1 :]) * vectors for k in range(len(outer))])
    kernel = replace(
        step.kernel,
        operands=(
            *step.kernel.operands,
            Operand(operand.dtype, strides, (0,), prod(outer) * vectors),
        ),
        stages=(
            Stage((), (*lines, *step.kernel.stages[0].after)),
            *step.kernel.stages[1:],
        ),
    )
    tile, tiles = Tile(len(group.tiles)), (*group.tiles, shape.lanes)
    nest = RowNest(kernel, (*step.operands, tile))
    if not runs_by_rows(in_tiles(nest, tiles, shape), prod(group.batch) * group.rows, target):
        return group
    now: dict[Step, Step] = {step: nest, product: replace(product, largest=tile)}
    return replace(group, steps=tuple([now.get(s, s) for s in group.steps]), tiles=tiles)


def _sweep(kernel: Kernel) -> tuple[Load, list[Statement]] | None:
    """What a first sweep loads, if it only finds the largest; and what makes that of an element."""
    body = kernel.stages[0].body
    loads = [s for s in body if isinstance(s, Load)]
    folds = [s for s in body if isinstance(s, Fold)]
    if len(loads) != 1 or len(folds) != 1 or folds[0].kind != "max" or reads(loads[0]):
        return None
    numbers = {s.name: float(s.value) for s in body if isinstance(s, Constant)}
    value = loads[0].name
    for s in body:
        match s:
            case Load() | Constant():
                continue
            case Compute(name, "multiply", (x, y)) if value in (x, y):
                if not 0 < numbers.get(y if x == value else x, 0) < inf:
                    return None
                value = name
            case Fold(_, _, of) if of == value:
                continue
            case _:
                return None
    if kept(kernel) and not {defines(s) for s in body}.isdisjoint(kept(kernel)):
        return None
    given = replace(loads[0], operand=len(kernel.operands))
    lines = [given if s is loads[0] else s for s in body if s is not folds[0]]
    found = [renamed(s, lambda n: folds[0].name if n == value else n) for s in lines]
    return loads[0], found


def _product(group: RowBlocks, nest: int, where: object) -> tuple[RowProduct, int] | None:
    """The product that makes a tile which nothing else writes, and the columns of the tile."""
    made: list[RowProduct] = []
    for number, s in enumerate(group.steps):
        if isinstance(s, RowNest):
            if number != nest and where in s.operands:
                return None
        elif s.out == where:
            if not isinstance(s, RowProduct) or number > nest:
                return None
            made.append(s)
    if len(made) != 1 or not isinstance(where, Tile):
        return None
    return made[0], group.tiles[where.number]


def _is_row(kernel: Kernel, operand: Operand, columns: int) -> bool:
    """Whether an operand is a row of so many elements, side by side."""
    size, outer = operand.dtype.itemsize, kernel.outer
    dense = tuple([prod(outer[k + 1 :]) * columns * size for k in range(len(outer))])
    return (
        kernel.inner == (columns,)
        and (operand.inner, operand.offset) == ((size,), 0)
        and all(e == 1 or a == d for e, a, d in zip(outer, operand.outer, dense, strict=True))
    )


def begun(made: Routines, shape: Shape, apart: int) -> str:
    """The function ``(largest, count)``: what is noted for rows before the first tile."""

    def write(b: Builder) -> None:
        def row(number: Value, _: list[Value]) -> Sequence[Value]:
            place = b.at(Value("%largest", PTR), b.times(number, apart))
            write_vector(b, b.const(shape.vector, -inf), place, shape.dtype.itemsize, None)
            return []

        b.loop(0, Value("%count", I64), 1, [], row)

    return made.add(("begin largest", shape, apart), "ptr %largest, i64 %count", write)


def ended(made: Routines, shape: Shape, apart: int) -> str:
    """The function ``(largest, count)``: the first lane of each row becomes its largest element."""
    size = shape.dtype.itemsize

    def write(b: Builder) -> None:
        def row(number: Value, _: list[Value]) -> Sequence[Value]:
            place = b.at(Value("%largest", PTR), b.times(number, apart))
            vector = read_vector(b, shape.vector, place, size, None)
            b.do(f"store {fold_lanes(b, 'max', vector, shape.dtype)}, {place}, align {size}")
            return []

        b.loop(0, Value("%count", I64), 1, [], row)

    return made.add(("end largest", shape, apart), "ptr %largest, i64 %count", write)
