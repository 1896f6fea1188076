"""Fuses GEMMs and row kernels over blocks of rows, so that values between them stay in cache.

Attention is a GEMM, a row kernel (softmax) and a GEMM; its scores are the largest array of all.
Here a block of rows runs through all steps before the next block does:

`RowGemm`          rows of x times a matrix: rows of the result.
`RowAccumulation`  rows of x, transposed, times rows of y: accumulated over all blocks.
`RowNest`          a loop nest whose outer iterations are the rows.

Values between steps are tiles in scratch memory. With accumulations one thread computes a whole
matrix of the batch, else a block of rows: the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.about import about, defining_file
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import kernel_work, key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.emit.schedule_loops import Stage, scheduled
from pirkit.lowering.codegen.ir.loop_ir import (
    Bound,
    Buffer,
    CallRows,
    Count,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    OnChange,
    rounded,
)
from pirkit.lowering.codegen.ir.loopnest import with_numbered_names
from pirkit.lowering.codegen.ir.piecewise_poly_match import with_composite_functions
from pirkit.lowering.codegen.ir.plain_loops import task_nest
from pirkit.lowering.codegen.matmul.deferred_normalization import with_deferred_scales
from pirkit.lowering.codegen.matmul.fused_row_max import MAX_DEPTH, with_row_max
from pirkit.lowering.codegen.matmul.macrokernel import Strides, Tile
from pirkit.lowering.codegen.matmul.panel_packing import copied_row_bytes, divisibility
from pirkit.lowering.codegen.matmul.panel_routines import (
    EndRowMax,
    InitRowMax,
    PackPanel,
    PrefetchBlock,
    ScaleRows,
)
from pirkit.lowering.codegen.matmul.prefetch import prefetches
from pirkit.lowering.codegen.matmul.row_block_plan import (
    MemoryRows,
    RowAccumulation,
    RowBlocks,
    RowGemm,
    RowNest,
    Rows,
    RowStep,
    ScratchRows,
    runs_by_rows,
    tile_shape,
    with_scratch_strides,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import VECTOR_FMAS_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host

_MAX_ROWS: Final = 96
"""Rows of a block at most."""
_BLOCKS: Final = 8
"""Units of work from which threads are busy."""
_MAX_SHARED_PANELS: Final = 1 << 18
"""Bytes of packed panels that each thread may pack again."""
_REWRITES: Final[Sequence[tuple[str, Callable[[RowBlocks, Target], RowBlocks]]]] = (
    ("defer normalization", with_deferred_scales),
    ("take row maxima from GEMMs", with_row_max),
)
"""Rewrites of a group before its loops are built, in this order."""


def native_rows(group: RowBlocks) -> NativeFunction:
    """The function of a group, with its operands by number."""
    return function_of(key_of(group, host()), lambda: row_blocks_draft(group, host()))


def row_blocks_draft(group: RowBlocks, target: Target) -> Draft:
    """The module of a group, not yet compiled."""
    blocks = _Blocks(group, target)
    stages = [Stage("block rows and pack", blocks.nest(), defining_file(row_blocks_draft))]
    for what, rewrite in _REWRITES:
        rewritten = rewrite(blocks.group, target)
        if rewritten != blocks.group:
            blocks = _Blocks(rewritten, target)
            stages.append(Stage(what, blocks.nest(), defining_file(rewrite)))
    routines = Routines(scalef=target.x86 and target.has("avx512f"))
    b = routines.builder()
    scratch = write_nest(b, stages[-1].nest, functions=routines)
    sizes = {"lanes": blocks.shape.lanes, "rows": blocks.block_rows, "blocks": blocks.count}
    known = about(row_blocks_draft, "blocks of rows", **sizes)
    return routines.draft(b, scratch, group.sizes, blocks.work, known, stages)


def block_rows(group: RowBlocks, target: Target) -> int:
    """Rows of a block: their tiles fill half of the L2 cache, but at least two register tiles."""
    shape = tile_shape(group.dtype, target)
    row = sum(copied_row_bytes(shape, columns) for columns in group.tiles)
    fitting = target.l2_bytes // 2 // max(row, 1) // shape.rows * shape.rows
    max_rows = min(_MAX_ROWS // shape.rows, -(-group.rows // shape.rows)) * shape.rows
    return min(max(2 * shape.rows, fitting), max_rows)


def is_profitable(group: RowBlocks, target: Target) -> bool:
    """Whether there are enough matrices or rows to occupy the threads.

    Each range of blocks that a thread takes packs the right operands again.
    """
    matrices = prod(group.batch)
    if group.sums:
        return matrices >= _BLOCKS
    shape = tile_shape(group.dtype, target)
    gemms = [s for s in group.steps if isinstance(s, RowGemm)]
    panels = sum(shape.panels_bytes(s.depth, s.columns) for s in gemms)
    many = matrices >= _BLOCKS or group.rows >= _BLOCKS * _MAX_ROWS
    return many or panels <= _MAX_SHARED_PANELS


class _Blocks:
    """Builds the loops over matrices and blocks of rows, and in each block those of all steps.

    Beside those of the batch and the rows, each matmul has two axes of its own: its columns, and
    its depth or, where it accumulates over the rows, the rows of its result.
    """

    def __init__(self, group: RowBlocks, target: Target) -> None:
        self.group, self.target = group, target
        self.shape = tile_shape(group.dtype, target)
        self.block_rows = block_rows(group, target)
        down = -(-group.rows // self.block_rows)
        self.count = prod(group.batch) * (1 if group.sums else down)
        self.present = Count("b", group.rows, self.block_rows)
        self.row = len(group.batch)
        matmuls = [n for n, step in enumerate(group.steps) if not isinstance(step, RowNest)]
        self.axes = {n: self.row + 1 + 2 * k for k, n in enumerate(matmuls)}
        # One tile function serves all GEMMs of the group, so one that accumulates decides for all.
        self.accumulates = group.sums or any(
            isinstance(s, RowGemm) and s.depth > MAX_DEPTH for s in group.steps
        )
        # With strides as arguments LLVM compiles one tile function for all GEMMs of the group.
        self.shared = len(matmuls) > 1
        self.prefetches = prefetches(group, self.block_rows, self.shape, target)
        self.work = 0
        self.packs: list[Node] = []
        self.buffers: list[Buffer] = []
        self.strides: list[dict[int, int]] = []
        """The strides of each buffer by axis; steps add those of their own axes."""

    def nest(self) -> Nest:
        group = self.group
        types = dict(self._types())
        for k, size in enumerate(group.sizes):
            self._add(Buffer(types.get(k, group.dtype), (), size), {})
        self.pitch = [copied_row_bytes(self.shape, columns) for columns in group.tiles]
        # All blocks of a matrix use the same tiles.
        self.tiles = [
            self._scratch(self.block_rows * pitch, {self.row: pitch}) for pitch in self.pitch
        ]
        steps = tuple([node for n, s in enumerate(group.steps) for node in self._step(n, s)])
        names = tuple([f"i{axis}" for axis in range(self.row)])
        packs, kind = tuple(self.packs), "serial" if group.sums else "parallel"
        if not group.sums:
            # The right operand of a matrix is packed whole: all of its blocks of rows read it.
            steps, packs = (OnChange(names, packs), *steps), ()
        body: tuple[Node, ...] = (
            *packs, Loop("b", (self.row,), 0, group.rows, self.block_rows, steps, kind),
        )  # fmt: skip
        tasks = [
            Loop(name, (axis,), 0, group.batch[axis], 1, ()) for axis, name in enumerate(names)
        ]
        inner: list[int] = []
        for n in self.axes:
            step = group.steps[n]
            assert not isinstance(step, RowNest)
            inner += step.columns, step.depth if isinstance(step, RowGemm) else step.rows
        outer, rank = (*group.batch, group.rows), self.row + 1 + len(inner)
        buffers = [
            replace(buffer, strides=tuple([strides.get(axis, 0) for axis in range(rank)]))
            for buffer, strides in zip(self.buffers, self.strides, strict=True)
        ]
        return task_nest(outer, tuple(inner), tuple(buffers), tasks, body)

    def _types(self) -> Iterator[tuple[int, DType]]:
        """The element types of operands of row kernels; those of matmuls have that of the group."""
        for step in self.group.steps:
            if isinstance(step, RowNest):
                for where, operand in zip(step.operands, step.kernel.operands, strict=True):
                    if isinstance(where, int):
                        yield where, operand.dtype

    # --- buffers ---

    def _add(self, buffer: Buffer, strides: dict[int, int]) -> int:
        self.buffers.append(buffer)
        self.strides.append(strides)
        return len(self.buffers) - 1

    def _scratch(self, nbytes: int, strides: dict[int, int]) -> int:
        """Scratch memory, which is reused by each block of rows."""
        return self._add(
            Buffer(self.group.dtype, (), nbytes, space="scratch", outside=("b",)), strides
        )

    def _view(self, of: MemoryRows, strides: dict[int, int], outside: str = "") -> int:
        """An operand with the strides that it has in one step; a loop may stand outside of it."""
        whole = replace(self.buffers[of.operand], shares=of.operand, outside=(outside,))
        return self._add(whole, dict(enumerate(of.batch)) | strides)

    def _rows(self, rows: Rows, axis: int = -1) -> tuple[int, Strides]:
        """The buffer of rows whose elements lie along an axis, and its strides."""
        if isinstance(rows, ScratchRows):
            tile, size = self.tiles[rows.number], self.group.dtype.itemsize
            self.strides[tile][axis] = size
            return tile, (self.pitch[rows.number], size)
        row, column = rows.strides
        return self._view(rows, {self.row: row, axis: column}), rows.strides

    def _panels(self, n: int, depth: int, columns: int) -> int:
        """Memory for packed panels: a column's share of a panel is the stride along columns."""
        shape, axis = self.shape, self.axes[n]
        strides = {axis: shape.panel_bytes(depth) // shape.columns}
        if isinstance(self.group.steps[n], RowGemm):
            strides[axis + 1] = shape.columns * shape.dtype.itemsize
        return self._scratch(shape.panels_bytes(depth, columns), strides)

    # --- steps ---

    def _step(self, n: int, step: RowStep) -> Iterator[Node]:
        """The loops of a step for one block of rows."""
        match step:
            case RowGemm():
                yield from self._gemm(n, step)
            case RowAccumulation():
                yield from self._accumulate(n, step)
            case RowNest():
                yield self._call(step)

    def _gemm(self, n: int, step: RowGemm) -> Iterator[Node]:
        """``out = x y`` in parts of the depth, then the maxima or scales of its rows."""
        shape, axis, depth = self.shape, self.axes[n], step.depth
        panels = self._panels(n, depth, step.columns)
        even = divisibility(shape, step.columns, depth)
        pack = PackPanel(shape, step.y.strides, depth, even)
        self.packs.append(Invoke(pack, (self._view(step.y, {}), panels), (depth, step.columns)))
        x, left = self._rows(step.x, axis + 1)
        out, (c_row, _) = self._rows(step.out, axis)
        buffers, row_max_stride = [x, panels, out], 0
        if step.row_max is not None:
            buffers.append(self.tiles[step.row_max.number])
            row_max_stride = self.pitch[step.row_max.number]
            yield Invoke(InitRowMax(shape, row_max_stride), (buffers[-1],), (self.present,))
        # Parts of about equal depth, at most `MAX_DEPTH` each.
        part = -(-depth // -(-depth // MAX_DEPTH))
        here = Count(f"k{n}", depth, part), Iteration(f"k{n}")
        tiles = self._macrokernel(
            n, (self.row, self.present, self.group.rows), (*left, c_row), buffers, here,
            row_max_stride,
        )  # fmt: skip
        yield Loop(f"k{n}", (axis + 1,), 0, depth, part, tiles)
        if step.row_max is not None:
            yield Invoke(EndRowMax(shape, row_max_stride), (buffers[-1],), (self.present,))
        if step.row_scale is not None:
            factors = step.row_scale.number
            scale = ScaleRows(shape, c_row, self.pitch[factors])
            yield Invoke(scale, (out, self.tiles[factors]), (self.present, step.columns))
        self._count_work(step.columns * depth)

    def _accumulate(self, n: int, step: RowAccumulation) -> Iterator[Node]:
        """Pack the block's rows of y, scaled, and accumulate ``x' y``."""
        shape, axis, depth = self.shape, self.axes[n], self.block_rows
        x, (x_row, x_column) = self._rows(step.x, axis + 1)
        y, strides = self._rows(step.y)  # it is packed outside of the loop over columns
        c_row, c_column = step.out.strides
        out = self._view(step.out, {axis + 1: c_row, axis: c_column})
        panels = self._panels(n, depth, step.columns)
        even = divisibility(shape, step.columns, depth, self.group.rows)
        buffers, scale_stride = [y, panels], 0
        if step.row_scale is not None:
            buffers.append(self.tiles[step.row_scale.number])
            scale_stride = self.pitch[step.row_scale.number]
        pack = PackPanel(shape, strides, depth, even, scale_stride)
        yield Invoke(pack, tuple(buffers), (self.present, step.columns))
        here = self.present, Iteration("b")
        yield from self._macrokernel(
            n, (axis + 1, step.rows, step.rows), (x_column, x_row, c_row), [x, panels, out], here
        )
        self._count_work(step.rows * step.columns)

    def _count_work(self, per_row: int) -> None:
        rows = prod(self.group.batch) * self.group.rows
        self.work += rows * per_row // (VECTOR_FMAS_PER_NS * self.shape.lanes)

    def _macrokernel(
        self, n: int, rows: tuple[int, Bound, int], strides: tuple[int, int, int],
        buffers: list[int], here: tuple[Bound, Iteration], row_max_stride: int = 0,
    ) -> tuple[Node, ...]:  # fmt: skip
        """Panel by panel, all rows: a panel stays in the L1 cache, the rows of A in L2.

        ``rows`` are their axis, how many there are now, and all of them; ``here`` is the depth and
        its part.
        """
        shape, step = self.shape, self.group.steps[n]
        assert not isinstance(step, RowNest)
        axis, count, extent = rows
        # A tile that tracks maxima serves one GEMM: constant strides cost nothing.
        shared = self.shared and not row_max_stride
        numbers = (*here, *strides) if shared else here
        accumulates = self.accumulates and not row_max_stride
        ahead = tuple(self._prefetches(n))

        def tiles(width: int) -> Iterator[Node]:
            for start, stop, height in _cut(count, shape.rows, extent):
                tile = Tile(
                    shape, None if shared else strides, (height, width), None, row_max_stride,
                    accumulates,
                )  # fmt: skip
                call = Invoke(tile, tuple(buffers), numbers)
                yield Loop(f"m{n}", (axis,), start, stop, shape.rows, (*ahead, call))

        return tuple([
            Loop(f"n{n}", (self.axes[n],), start, stop, shape.columns, tuple(tiles(width)))
            for start, stop, width in _cut(step.columns, shape.columns, step.columns)
        ])  # fmt: skip

    def _prefetches(self, n: int) -> Iterator[Node]:
        """The prefetches of each tile of a GEMM for the next block."""
        for what in self.prefetches.get(n, ()):
            strides = {} if what.next_matrix else {self.row: what.operand.strides[0]}
            view = self._view(what.operand, strides, f"m{n}")
            distance, per_block = what.nbytes, 0
            if what.next_matrix:
                distance, per_block = what.operand.batch[-1], what.nbytes
            ahead = PrefetchBlock(what.lines, self.shape.rows, distance, per_block)
            tile = Iteration(f"n{n}"), Iteration(f"m{n}")
            yield Invoke(ahead, (view,), (*tile, self.present, Iteration("b")))

    def _call(self, step: RowNest) -> Node:
        """The call of a row kernel for the rows of the block."""
        rows = prod(self.group.batch) * self.group.rows
        kernel = with_numbered_names(with_scratch_strides(step, self.group.tiles, self.shape))
        # Blocks of the nest are called by row number, so its schedule must match.
        if not runs_by_rows(kernel, rows, self.target):
            raise InternalError("a nest of fused row blocks is not scheduled by rows")
        plan = schedule(with_composite_functions(kernel, self.target), self.target)
        self.work += kernel_work(kernel, plan)
        places = [(x, 0) if isinstance(x, int) else (self.tiles[x.number], self.pitch[x.number])
                  for x in step.operands]  # fmt: skip
        buffers, pitches = zip(*places, strict=True)
        return CallRows(scheduled(plan), buffers, pitches, tuple(range(self.row + 1)), self.present)


def _cut(count: Bound, size: int, extent: int) -> Iterator[tuple[Bound, Bound, int]]:
    """The range and size of whole tiles, then those of a smaller one, if there is one."""
    whole = rounded(count, size)
    if whole:
        yield 0, whole, size
    # The extents of a microkernel are constants.
    if rest := extent % size:
        yield whole, count, rest
