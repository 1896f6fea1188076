"""Lowers the statements of a tiling frame to a `TiledNest`: phase after phase over each tile."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tiling import Frame, block_of
from pirkit.index.expr import Expr
from pirkit.index.index_maps import space
from pirkit.lowering.codegen.ir.addressing import IndexLowering
from pirkit.lowering.codegen.ir.element_types import compute_type
from pirkit.lowering.codegen.ir.loopnest import Kernel, LoopPhase, Operand, Store
from pirkit.lowering.codegen.ir.nest_builder import DataAssertion
from pirkit.lowering.codegen.ir.tiled_nest import Tile, TileAccess, TiledNest, TilePhase
from pirkit.lowering.codegen.lower.statement_nest import (
    ArrayNest,
    StatementNestBuilder,
    source_arrays,
)


def tiled_nest_of(kernel: MapExpr, frame: Frame) -> ArrayNest:
    """The nest of a frame. Raises NotLowerableError for what native code does not compute."""
    frame_statements = frame.statements
    statements = list(kernel.statements)
    for k in frame_statements:
        statements[k] = replace(statements[k], rows=space(statements[k].meta.shape))
    whole = replace(kernel, statements=tuple(statements))
    runs = list(_fusible_runs(kernel, frame))
    where = {k: place for place, run in enumerate(runs) for k in run}
    # Values that another phase reads go through scratch tiles.
    read = {
        load.source - len(kernel.inputs)
        for k in frame_statements
        for load in kernel.statements[k].loads()
        if where.get(load.source - len(kernel.inputs), where[k]) != where[k]
    }
    numbers = {k: place for place, k in enumerate(sorted(read))}
    tiles = tuple(
        [Tile(compute_type(kernel.statements[k].meta.dtype), frame.axes[k]) for k in sorted(read)]
    )
    operands: list[Operand] = []
    arrays: list[int] = []
    phases: list[TilePhase] = []
    assertions: list[DataAssertion] = []
    for run in runs:
        made = _TilePhaseBuilder(whole, run, frame, numbers)
        for k in run:
            made.statement(k, whole.statements[k])
        places: list[int | TileAccess] = []
        flags = len(kernel.inputs) + len(kernel.statements)
        for number, operand in enumerate(made.places.operands):
            if number in made.tile_operands:
                places.append(made.tile_operands[number])
                continue
            places.append(len(operands))
            operands.append(operand)
            array = made.places.arrays[number]
            if array >= flags:  # each phase numbers its own flags
                assertion = made.places.assertions[array - flags]
                if assertion not in assertions:
                    assertions.append(assertion)
                array = flags + assertions.index(assertion)
            arrays.append(array)
        body = tuple(made.phase_builders[-1].body.statements)
        nest = Kernel(made.outer, (), tuple(made.places.operands), (LoopPhase(body),))
        phases.append(TilePhase(nest, frame.axes[run[0]], tuple(places)))
    block = block_of(kernel, frame)
    tiled = TiledNest(frame.extents, block, frame.images, tuple(operands), tiles, tuple(phases))
    return ArrayNest(tiled, tuple(arrays), tuple(assertions))


def _fusible_runs(kernel: MapExpr, frame: Frame) -> list[list[int]]:
    """Consecutive statements that read each other at the same iteration: one phase each."""
    found: list[list[int]] = []
    for k in frame.statements:
        if found and _can_fuse(kernel, frame, found[-1], k):
            found[-1].append(k)
        else:
            found.append([k])
    return found


def _can_fuse(kernel: MapExpr, frame: Frame, run: Sequence[int], number: int) -> bool:
    """Whether a statement reads those of a run only at its own iteration."""
    statement, first = kernel.statements[number], kernel.statements[run[0]]
    if frame.axes[number] != frame.axes[run[0]] or statement.meta.shape != first.meta.shape:
        return False
    return all(
        frame.image_of(number, load.source - len(kernel.inputs), load.index) == 0
        for load in statement.loads()
        if load.source - len(kernel.inputs) in run
    )


class _TilePhaseBuilder(StatementNestBuilder):
    """The statements of one phase; ``tile_operands`` are operands for values in tiles."""

    def __init__(
        self, kernel: MapExpr, run: Sequence[int], frame: Frame, tiles: dict[int, int]
    ) -> None:  # fmt: skip
        super().__init__(kernel, tuple(run), kernel.statements[run[0]].meta.shape)
        self.frame, self.tiles = frame, tiles
        self.tile_operands: dict[int, TileAccess] = {}
        apart = [s for k, s in enumerate(kernel.statements) if k not in frame.axes]
        self.outputs_needed = set(kernel.outputs) | {
            source - self.inputs for statement in apart for source in source_arrays(statement)
        }

    def tile_operand(self, number: int, image: int) -> int:
        """The operand for the tile of a value at an image."""
        dtype = compute_type(self.kernel.statements[number].meta.dtype)
        operand = self.places.placeholder(("tile", number, image), dtype)
        self.tile_operands[operand] = TileAccess(self.tiles[number], image)
        return operand

    def statement(self, number: int, statement: Statement) -> None:
        """Lower a statement, and store its value to its tile if another phase reads it."""
        super().statement(number, statement)
        if number in self.tiles:
            store = Store(self.tile_operand(number, 0), self.values[number])
            self.phase_builders[-1].body.statements.append(store)

    def load(
        self, number: int, source: int, index: Sequence[Expr], indexing: IndexLowering,
        needed: str | None,
    ) -> str:  # fmt: skip
        """A value of this phase or from memory, as in any nest; else from a tile."""
        value = source - self.inputs
        if value in self.values or value not in self.frame.axes:
            return super().load(number, source, index, indexing, needed)
        image = self.frame.image_of(number, value, tuple(index))
        return indexing.lines.load(self.tile_operand(value, image))
