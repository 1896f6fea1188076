"""GEMM as a native function: cache blocking after Goto and BLIS, one block of C per task.

For each block of C a part of B is packed into panels, and as many rows of A as half of the L2 cache
holds are multiplied by all panels, for at most `MAX_DEPTH` of the depth at a time. An element of C
is a sum of partial sums over these depths in a fixed order: its bits depend on the depth of the
matmul, on the width of vectors and on whether the columns fill more than two of them, but not on
the blocks or the threads. Matmuls of few rows or columns have loops of their own,
which pack nothing (`few_rows.py`, `few_columns.py`) and add in another order: the bits of dot
products depend on the lanes, and on the L2 cache where A is larger than half of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_ir import (
    Bound,
    Buffer,
    Count,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    rounded,
)
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)
from pirkit.lowering.codegen.ir.plain_loops import loops_of
from pirkit.lowering.codegen.ir.routine import Routine
from pirkit.lowering.codegen.matmul.bfloat16_pairs import TERMS, has_pairs, wide_sums
from pirkit.lowering.codegen.matmul.bfloat16_tile import NarrowRows, PairTile
from pirkit.lowering.codegen.matmul.few_columns import FewColumns, has_few_columns
from pirkit.lowering.codegen.matmul.few_rows import FewRows, has_few_rows
from pirkit.lowering.codegen.matmul.macrokernel import Strides, Tile, TileShape, tile_shape_for
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, parallel_blocks
from pirkit.lowering.codegen.matmul.matrix_tile import SHAPE as MATRIX
from pirkit.lowering.codegen.matmul.matrix_tile import MatrixTile
from pirkit.lowering.codegen.matmul.panel_packing import divisibility
from pirkit.lowering.codegen.matmul.panel_routines import (
    PackPanel,
    PackTiles,
    PrefetchPanel,
    UnpackPanel,
    prefetch_panel,
)
from pirkit.lowering.codegen.matmul.tile_registers import ConfigureTiles, has_tiles
from pirkit.runtime import dtype as dt
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from pirkit.runtime.native.thread_pool import thread_count

MAX_DEPTH: Final = 768
"""Depth of a packed panel at most; C is loaded and stored once per such depth."""
_PANEL_BYTES: Final = 18 << 10
_WIDE_PANEL_BYTES: Final = 96 << 10
"""Bytes of a panel at most where registers have 256 bits or less: it stays in the L1 cache. A tile
of 512 bits reads fewer bytes for each multiply-add, so that its panels may come from L2."""
_PAIRED_DEPTH: Final = 1536
"""Depth of a panel of bfloat16 at most."""
_TILED_DEPTH: Final = 512
"""The same for tile registers: a panel stays in the L1 cache."""
_WIDE_ROWS: Final = 256
"""Rows of a block of C whose sums are kept in scratch memory."""
_MAX_COLUMNS: Final = 1024
"""Columns of B that are packed at a time."""
_TILED_PER_NS: Final = 500
"""Multiplications by tile registers in a nanosecond."""
_PACKING: Final = 10
"""Cost of packing an element, in multiplications."""


class Blocking(Struct, frozen=True):
    """The block sizes: ``rows`` by ``columns`` of C per task, ``depth`` of a panel.

    ``inner`` rows of A at a time are multiplied by all panels of the block; they are packed before
    if it ``packs_a``.
    """

    rows: int
    columns: int
    depth: int
    inner: int
    packs_a: bool


def packs_a(p: Gemm, shape: TileShape, target: Target) -> bool:
    """Whether A is column-major, and too large for half of the L2 cache: it is packed into tiles.

    A tile of a column-major A reads each column from another cache line, and often from another
    page (one thread of a Cascade Lake with 1 MiB of L2, packed / as it is: 2048 x 512 by 80 columns
    1.9 / 3.6 ms, 4096 x 256 by 16 0.77 / 0.88; 512 x 256 by 64 0.26 / 0.24). A row-major A is read
    as it is: a tile uses whole cache lines of it at once. Tile registers read 64 bytes of a row,
    which must be contiguous with those of other rows.
    """
    row, column = p.a.strides
    if shape.matrix:
        return True
    if p.dtype is dt.bfloat16:
        return column != p.dtype.itemsize  # the terms of a pair lie side by side
    nbytes = p.rows * p.depth * p.dtype.itemsize
    return row == p.dtype.itemsize and column != row and nbytes > target.l2_bytes // 2


def blocking(p: Gemm, shape: TileShape, target: Target, threads: int) -> Blocking:
    """The cheapest blocks by `_estimated_time`. Their depth, which decides how sums are rounded,
    follows from the depth of the matmul and the register tile alone.
    """
    most = _PANEL_BYTES if target.vector_bits < 512 else _WIDE_PANEL_BYTES
    deepest = min(MAX_DEPTH, most // shape.panel_bytes(shape.lanes) * shape.lanes)
    depth = -(-p.depth // -(-p.depth // deepest))
    if shape.terms == 2:
        # The same depths on all CPUs, and so the same bits; those of tile registers are others.
        most, unit = (_TILED_DEPTH, TERMS) if shape.matrix else (_PAIRED_DEPTH, 2)
        depth = -(-p.depth // -(-p.depth // most) // unit) * unit
    packs = packs_a(p, shape, target)
    rows, columns = min(
        _candidates(p, shape, threads), key=lambda block: _estimated_time(p, *block, threads, packs)
    )
    if shape.terms == 2 and depth < p.depth:
        rows = _even_blocks(rows, _WIDE_ROWS, shape.rows)
    # The rows of A take half of the L2 cache; the panel and C share the rest.
    fitting = target.l2_bytes // 2 // (depth * p.dtype.itemsize)
    inner = _even_blocks(rows, max(fitting // shape.rows, 4) * shape.rows, shape.rows)
    return Blocking(rows, columns, depth, inner, packs)


def _candidates(p: Gemm, shape: TileShape, threads: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of blocks such that each thread has one to four of them."""
    widest = _even_blocks(p.columns, _MAX_COLUMNS, shape.columns)
    yield _even_blocks(p.rows, p.rows, shape.rows), widest
    if threads == 1:
        return
    for parts in range(-(-p.columns // widest), min(8 * threads, -(-p.columns // 64)) + 1):
        columns = _even_blocks(p.columns, -(-p.columns // parts), shape.columns)
        across = prod(p.batch) * -(-p.columns // columns)
        for per_thread in range(1, 5):
            down = -(-threads * per_thread // across)
            yield _even_blocks(p.rows, -(-p.rows // down), shape.rows), columns


def _estimated_time(p: Gemm, rows: int, columns: int, threads: int, packs_a: bool) -> float:
    """Relative time of the busiest thread; few blocks are harder to balance."""
    count = _block_counts(p, rows, columns)
    # Packing B is amortized over the rows of a block, that of A over its columns.
    packs_b = not p.panel or p.stored is not None
    packing = packs_b * _PACKING / rows + packs_a * _PACKING / columns
    uneven = 1 + 0.1 * threads / count if threads > 1 else 1
    return -(-count // threads) * rows * columns * (1 + packing) * uneven


def _block_counts(p: Gemm, rows: int, columns: int) -> int:
    return prod(p.batch) * -(-p.rows // rows) * -(-p.columns // columns)


def _even_blocks(extent: int, max_block: int, unit: int) -> int:
    """The size of about equal blocks, a multiple of ``unit``, close to ``max_block``."""
    block_count = -(-extent // max(max_block, unit))
    return -(-extent // block_count // unit) * unit


def native_gemm(p: Gemm) -> NativeFunction:
    """The function of a GEMM with operands a, b, c."""
    threads = thread_count()
    return function_of(key_of((p, threads), host()), lambda: gemm_draft(p, host(), threads))


def gemm_draft(p: Gemm, target: Target, threads: int) -> Draft:
    """The module of a GEMM for a number of threads, not yet compiled."""
    routines = Routines()
    b = routines.builder()
    few = few_of(p, target, threads)
    if few is not None:
        shape, columns = few.shape, few.shape.columns
        stages = [*_plain(p), Stage("block", few.blocked(loops_of(_kernel(p))))]
        name, blocks, block = few.name, prod(p.batch) * few.tasks, {"block": few.block}
    else:
        shape = _shape(p, target)
        cut, columns = blocking(p, shape, target, threads), shape.columns
        stages = gemm_stages(p, shape, cut)
        block = {"block rows": cut.rows, "block columns": cut.columns, "block depth": cut.depth}
        name, blocks = "matmul", _block_counts(p, cut.rows, cut.columns)
    scratch = write_nest(b, stages[-1].nest, functions=routines)
    scales = [p.columns * p.dtype.itemsize] * p.scales
    sizes = (p.a.size, p.b.size, p.c.size, *scales, *[m.size for m in p.summands])
    # About three vector FMAs per ns, if memory delivers B in time.
    per_ns = _TILED_PER_NS if shape.matrix else 3 * shape.lanes
    work = max(p.multiplications // per_ns, p.b.size // BYTES_PER_NS)
    tile = {"lanes": shape.lanes, "tile rows": shape.rows, "tile columns": columns}
    known = about(gemm_stages if few is None else type(few), name, **tile, **block, blocks=blocks)
    return routines.draft(b, scratch, sizes, work, known, stages)


def _shape(p: Gemm, target: Target) -> TileShape:
    is_tiled = has_pairs(target) and has_tiles(target, "amx-bf16")
    if p.dtype is dt.bfloat16 and not p.panel and is_tiled:
        return MATRIX
    return tile_shape_for(p.dtype, target, p.columns)


def few_of(p: Gemm, target: Target, threads: int) -> FewRows | FewColumns | None:
    """The loops of a matmul of few rows or columns, which packs no panels and adds nothing; None
    for others.
    """
    if p.summands:
        return None
    if has_few_rows(p):
        return FewRows(p, target, threads)
    return FewColumns(p, target, threads) if has_few_columns(p, target) else None


def _plain(p: Gemm) -> list[Stage]:
    """The loops as they are defined. Columns of panels have no single stride."""
    return [] if p.panel else [Stage("loops", loops_of(_kernel(p)))]


def gemm_stages(p: Gemm, shape: TileShape, cut: Blocking) -> list[Stage]:
    """The loops of a GEMM: as they are defined, then blocked as they are emitted."""
    return [*_plain(p), Stage("block and pack", _Blocks(p, shape, cut).nest())]


def _kernel(p: Gemm) -> Kernel:
    """``c = a b`` as a loop nest; its operands are a, b, c, and perhaps scales and summands."""
    size = p.dtype.itemsize
    operands = [
        Operand(p.dtype, (*p.a.batch, p.a.strides[0], 0), (p.a.strides[1],), p.a.size),
        Operand(p.stored or p.dtype, (*p.b.batch, 0, p.b.strides[1]), (p.b.strides[0],), p.b.size),
        Operand(p.dtype, (*p.c.batch, *p.c.strides), (0,), p.c.size),
    ]
    if p.scales:
        operands.append(Operand(p.dtype, (*[0] * len(p.batch), 0, size), (0,), p.columns * size))
    product = (Load("x", 0), Load("y", 1), Reduce("sum", "sum", "x", "y"))
    total, after = "sum", list[Statement]()
    for k, m in enumerate(p.summands):
        after += [Load(f"s{k}", len(operands)), Compute(f"t{k}", "add", (total, f"s{k}"), p.dtype)]
        operands.append(Operand(p.dtype, (*m.batch, *m.strides), (0,), m.size))
        total = f"t{k}"
    phase = LoopPhase(product, (*after, Store(2, total)))
    return Kernel((*p.batch, p.rows, p.columns), (p.depth,), tuple(operands), (phase,))


class _Blocks:
    """Builds the blocked loops: blocks of C, depth, chunks of rows of A, panels of B, tiles.

    The first chunk of a block packs each panel of B and multiplies it; the others find it packed.
    """

    def __init__(self, p: Gemm, shape: TileShape, cut: Blocking) -> None:
        self.p, self.shape, self.cut = p, shape, cut
        self.rows, self.columns, self.depth = range(len(p.batch), len(p.batch) + 3)
        self.block_rows = Count("m0", p.rows, cut.rows)
        self.block_columns = Count("n0", p.columns, cut.columns)
        self.block_depth = Count("k0", p.depth, cut.depth)
        self.packs = not p.panel or p.stored is not None
        # If B is row-major, the first tile (if it has all rows) packs while it multiplies.
        fewest = p.rows % cut.rows or cut.rows
        self.paired = shape.terms == 2
        in_place = not p.panel and not self.paired and p.b.strides[1] == p.dtype.itemsize
        self.packing_tile = in_place and fewest >= shape.rows
        self.a, self.panels = 0, 1
        self.a_strides: Strides = p.a.strides
        self.c, self.c_row = 2, p.c.strides[0]
        self.wide = self.paired and cut.depth < p.depth

    def nest(self) -> Nest:
        p, shape, cut = self.p, self.shape, self.cut
        nest, size, rank = loops_of(_kernel(p)), p.dtype.itemsize, len(p.batch)
        outside = tuple([*[f"i{k}" for k in range(rank)], "m0", "n0", "k0", "m1", "m2"])
        if self.packs:
            # The loop over panels steps by whole ones, so a column's share of a panel is a stride.
            strides = (*[0] * rank, 0, shape.panel_bytes(cut.depth) // shape.columns, 0)
            nbytes = shape.panels_bytes(cut.depth, cut.columns)
            panels = Buffer(p.dtype, strides, nbytes, space="scratch", outside=outside)
            nest, self.panels = nest.with_buffer(panels)
        if cut.packs_a:
            # The loop over tiles steps by whole ones, so a row's share of a tile is a stride.
            self.a_strides = size * shape.terms, shape.rows * size
            strides, nbytes = (*[0] * rank, cut.depth * size, 0, 0), cut.inner * cut.depth * size
            tiles = Buffer(p.dtype, strides, nbytes, space="scratch", outside=outside)
            nest, self.a = nest.with_buffer(tiles)
        if self.wide:
            outside = tuple([*[f"i{k}" for k in range(rank)], "m0", "n0"])
            nest, self.c = nest.with_buffer(wide_sums(rank, cut.rows, cut.columns, outside))
            self.c_row = 4 * cut.columns
        # The first chunk is peeled, since it packs: no tile asks whether its panel is there.
        chunks = [self._chunk("m1", 0, cut.inner if self.packs else self.block_rows, self.packs)]
        if self.packs and cut.inner < cut.rows:
            chunks.append(self._chunk("m2", cut.inner, self.block_rows, packs=False))
        body: tuple[Node, ...] = (Loop("k0", (self.depth,), 0, p.depth, cut.depth, tuple(chunks)),)
        if self.wide:
            narrow = NarrowRows(shape, self.c_row, p.c.strides[0])
            body += (Invoke(narrow, (self.c, 2), (self.block_rows, self.block_columns)),)
        if shape.matrix:
            begin, end = (Invoke(ConfigureTiles(n), (), ()) for n in (shape.rows, None))
            body = (begin, *body, end)
        blocks = [("m0", self.rows, p.rows, cut.rows), ("n0", self.columns, p.columns, cut.columns)]
        return replace(nest, body=parallel_blocks(p, blocks, body))

    def _chunk(self, var: str, start: int, stop: Bound, packs: bool) -> Loop:
        """Chunks of rows times all panels of the block, which are packed before if ``packs``."""
        p, cut, width = self.p, self.cut, self.shape.columns
        count = Count(var, p.rows, cut.inner, within=self.block_rows)
        body: list[Node] = []
        if self.a:
            pack = PackTiles(self.shape, p.a.strides, cut.depth)
            body.append(Invoke(pack, (0, self.a), (self.block_depth, count)))
        whole = rounded(self.block_columns, width)
        tiles = self._panel(count, width, packs=packs)
        body.append(Loop("n1", (self.columns,), 0, whole, width, tiles))
        # The extents of a microkernel are constants: the last panel and tile have their own.
        if rest := p.columns % width:
            tiles = self._panel(count, rest, packs=packs)
            body.append(Loop("n1", (self.columns,), whole, self.block_columns, width, tiles))
        return Loop(var, (self.rows,), start, stop, cut.inner, tuple(body))

    def _panel(self, count: Count, width: int, *, packs: bool) -> tuple[Node, ...]:
        """All tiles of a chunk with one panel."""
        p, shape, step = self.p, self.shape, self.cut.depth
        tiles = max(1, self.cut.inner // shape.rows)
        body: list[Node] = []
        ahead: Routine | None = None
        if not self.packs:
            # B is read once and from memory: each tile brings its part of the next panel to L2.
            share = -(-shape.panel_bytes(step) // (tiles * LINE)) * LINE
            ahead = PrefetchPanel(shape.columns * p.b.strides[1], tiles, share, share, tiles)
        elif packs and p.stored is not None:
            unpack = UnpackPanel(shape, p.stored, width % shape.columns, p.scales)
            # Without scales any address will do.
            scales = 3 if p.scales else self.panels
            body.append(Invoke(unpack, (1, self.panels, scales), (self.block_depth, width)))
        elif packs:
            ahead = prefetch_panel(shape, p.b.strides, step, tiles)
            if not self.packing_tile:
                even = divisibility(shape, p.columns, p.depth, step)
                pack = PackPanel(shape, p.b.strides, step, even)
                body.append(Invoke(pack, (1, self.panels), (self.block_depth, width)))
            else:
                body += self._tile((shape.rows, width), 0, ahead, source=True)
        whole = rounded(count, shape.rows)
        first = shape.rows if packs and self.packing_tile else 0
        number = Iteration("m3")
        tile = self._tile((shape.rows, width), number, ahead)
        body.append(Loop("m3", (self.rows,), first, whole, shape.rows, tile))
        if rest := p.rows % shape.rows:
            tile = self._tile((rest, width), number, ahead)
            body.append(Loop("m3", (self.rows,), whole, count, shape.rows, tile))
        return tuple(body)

    def _tile(
        self, extent: tuple[int, int], number: Bound | Iteration, ahead: Routine | None,
        *, source: bool = False,
    ) -> tuple[Node, ...]:  # fmt: skip
        """A register tile, and what it prefetches for the next panel."""
        p = self.p
        sizes = self.shape, (*self.a_strides, self.c_row), extent
        accumulates = p.depth > self.cut.depth
        if self.shape.matrix:
            tile = MatrixTile(*sizes, None, 0, accumulates, wide=self.wide)
        elif self.paired:
            tile = PairTile(*sizes, None, 0, accumulates, wide=self.wide, odd=p.depth % 2 > 0)
        else:
            tile = Tile(
                *sizes, p.b.strides[0] if source else None, 0, accumulates,
                summands=tuple([m.strides for m in p.summands]),
            )  # fmt: skip
        first = 3 + p.scales
        summands = range(first, first + len(p.summands))
        buffers = (self.a, self.panels, self.c, *[1] * source, *summands)
        call = Invoke(tile, buffers, (self.block_depth, Iteration("k0")))
        return (call,) if ahead is None else (Invoke(ahead, (1,), (number,)), call)
