"""The row maximum of a GEMM result, computed while its tiles are in registers.

If the first phase of a row kernel only computes the maximum, as in softmax, that phase is dropped:
each tile of the GEMM updates a vector of maxima per row, and only its lanes remain to be reduced. A
positive factor between the GEMM and the maximum is applied to the maximum: rounding is monotone, so
the bits are the same.
"""

from __future__ import annotations

from math import inf, prod
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    defines,
    reads,
    renamed,
    saved_values,
)
from pirkit.lowering.codegen.matmul.row_block_plan import (
    RowBlocks,
    RowGemm,
    RowNest,
    RowStep,
    ScratchRows,
    runs_by_rows,
    tile_shape,
    with_scratch_strides,
)
from pirkit.runtime.native.target import Target

MAX_DEPTH: Final = 512
"""Depth of a panel that is multiplied at a time."""
_MIN_COLUMNS: Final = 1 << 22
"""Elements of a result from which compiling separate tile functions pays."""


def with_row_max(group: RowBlocks, target: Target) -> RowBlocks:
    """The group with GEMMs that compute row maxima, if they run in one part."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            group = _with_one_row_max(group, number, step, target)
    return group


def _with_one_row_max(group: RowBlocks, number: int, step: RowNest, target: Target) -> RowBlocks:
    """The group with the first phase of one nest replaced by a maximum from its GEMM."""
    found = _max_phase(step.kernel)
    if found is None:
        return group
    loaded, lines = found
    source, operand = step.operands[loaded.operand], step.kernel.operands[loaded.operand]
    producer = _producing_gemm(group, number, source)
    if producer is None or not isinstance(source, ScratchRows) or operand.dtype is not group.dtype:
        return group
    gemm, columns = producer
    # The tile functions with a maximum are not shared with other GEMMs.
    if prod(group.batch) * group.rows * columns < _MIN_COLUMNS:
        return group
    if (
        # A deeper GEMM runs in parts; its partial sums have no meaningful maximum.
        gemm.depth > MAX_DEPTH
        or gemm.row_max
        or not _is_contiguous_row(step.kernel, operand, columns)
    ):
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
        loop_phases=(
            LoopPhase((), (*lines, *step.kernel.loop_phases[0].after)),
            *step.kernel.loop_phases[1:],
        ),
    )
    tile, tiles = ScratchRows(len(group.tiles)), (*group.tiles, shape.lanes)
    nest = RowNest(kernel, (*step.operands, tile))
    if not runs_by_rows(
        with_scratch_strides(nest, tiles, shape), prod(group.batch) * group.rows, target
    ):
        return group
    now: dict[RowStep, RowStep] = {step: nest, gemm: replace(gemm, row_max=tile)}
    return replace(group, steps=tuple([now.get(s, s) for s in group.steps]), tiles=tiles)


def _max_phase(kernel: Kernel) -> tuple[Load, list[Statement]] | None:
    """The load of a phase that only computes a maximum, and statements for its value."""
    body = kernel.loop_phases[0].body
    loads = [s for s in body if isinstance(s, Load)]
    reductions = [s for s in body if isinstance(s, Reduce)]
    if len(loads) != 1 or len(reductions) != 1 or reductions[0].kind != "max" or reads(loads[0]):
        return None
    numbers = {s.name: float(s.value) for s in body if isinstance(s, Constant)}
    value = loads[0].name
    for s in body:
        match s:
            case Load() | Constant():
                continue
            case Compute(name, "multiply", (x, y)) if value in (x, y):
                # Only a finite positive constant keeps the order.
                if not 0 < numbers.get(y if x == value else x, 0) < inf:
                    return None
                value = name
            case Reduce(_, _, of) if of == value:
                continue
            case _:
                return None
    if saved_values(kernel) and not {defines(s) for s in body}.isdisjoint(saved_values(kernel)):
        return None
    given = replace(loads[0], operand=len(kernel.operands))
    # The same statements after the loops: they now load the maximum instead of an element.
    lines = [given if s is loads[0] else s for s in body if s is not reductions[0]]
    found = [renamed(s, lambda n: reductions[0].name if n == value else n) for s in lines]
    return loads[0], found


def _producing_gemm(group: RowBlocks, nest: int, source: object) -> tuple[RowGemm, int] | None:
    """The only GEMM that writes a tile, and the columns of the tile; None if nests use it too."""
    writers: list[RowGemm] = []
    for number, s in enumerate(group.steps):
        if isinstance(s, RowNest):
            if number != nest and source in s.operands:
                return None
        elif s.out == source:
            if not isinstance(s, RowGemm) or number > nest:
                return None
            writers.append(s)
    if len(writers) != 1 or not isinstance(source, ScratchRows):
        return None
    return writers[0], group.tiles[source.number]


def _is_contiguous_row(kernel: Kernel, operand: Operand, columns: int) -> bool:
    """Whether an operand is a dense row of ``columns`` elements per outer iteration."""
    size, outer = operand.dtype.itemsize, kernel.outer
    dense = tuple([prod(outer[k + 1 :]) * columns * size for k in range(len(outer))])
    return (
        kernel.inner == (columns,)
        and (operand.inner, operand.offset) == ((size,), 0)
        and all(e == 1 or a == d for e, a, d in zip(outer, operand.outer, dense, strict=True))
    )
