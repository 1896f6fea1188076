"""Applies a schedule: the rewrites of the loop IR for each strategy, in order.

Each stage is a program of its own, so that a wrong one can be found by running all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from pirkit.lowering.codegen.about import defining_file
from pirkit.lowering.codegen.emit.schedule import (
    PREFETCH_DISTANCE,
    TRANSPOSE_TILE,
    Schedule,
    row_unroll,
)
from pirkit.lowering.codegen.emit.scratch_elision import elided_scratch
from pirkit.lowering.codegen.emit.short_rows import vectorize_rows
from pirkit.lowering.codegen.ir import loop_rewrites as rewrites
from pirkit.lowering.codegen.ir import memory_rewrites as memory
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_ir import Count, Loop, Nest, Prefetch, PrefetchTile
from pirkit.lowering.codegen.ir.loop_tree import statements, walk
from pirkit.lowering.codegen.ir.loopnest import Load, Reduce, Store, varying_inside
from pirkit.lowering.codegen.ir.plain_loops import inner_var, loops_of, outer_var
from pirkit.lowering.codegen.ir.row_pieces import split_rows

_PREFETCH_BYTES: Final = 1 << 13
"""Bytes to prefetch ahead at least: memory latency is longer than a short row."""
_LONG: Final = 1 << 16
"""Bytes of a row that does not stay in the L1 cache: prefetching into L1 then costs nothing."""


_STRIP: Final = 256
"""Bytes of a row in a strip: several lines, since memory delivers adjacent lines faster."""
_PREFETCH_TILES: Final = 32
"""Columns by which prefetches of register tiles run ahead."""
_WRITTEN_OUT: Final = 8
"""Tiles with predicated loads up to which each is unrolled."""


class Stage(Struct, frozen=True):
    """A nest, and the rewrite that gave it; ``file`` has the rewrite."""

    rewrite: str
    nest: Nest
    file: str = ""

    def __str__(self) -> str:
        return f"`{self.rewrite}`" + f" of {self.file}" * bool(self.file)


def words_of(rewrite: Callable[..., Nest], args: Sequence[Any]) -> str:
    """A rewrite in words: its name, and its arguments that are sizes or variables."""
    return " ".join([rewrite.__name__, *[str(x) for x in args if isinstance(x, (str, int))]])


class Stages:
    """A nest under rewrites; ``found`` has the nest after each."""

    def __init__(self, nest: Nest) -> None:
        self.found = [Stage("loops", nest)]

    @property
    def nest(self) -> Nest:
        return self.found[-1].nest

    def loop(self, var: str) -> Loop:
        """The first loop with a variable."""
        return next(n for n in walk(self.nest.body) if isinstance(n, Loop) and n.var == var)

    def apply(self, rewrite: Callable[..., Nest], *args: Any) -> None:
        """Apply a rewrite; one that changes nothing is no stage."""
        nest = rewrite(self.nest, *args)
        if nest.body != self.nest.body:
            self.found.append(Stage(words_of(rewrite, args), nest, defining_file(rewrite)))


class _Stages(Stages):
    """The nest of a schedule."""

    def __init__(self, plan: Schedule) -> None:
        super().__init__(loops_of(plan.kernel))
        self.plan, self.kernel = plan, plan.kernel


def scheduled(plan: Schedule) -> Nest:
    """The nest of a schedule."""
    return stages(plan)[-1].nest


def stages(plan: Schedule) -> list[Stage]:
    """The nest of a schedule after each rewrite: first the plain loops, last what is written."""
    made = _Stages(plan)
    _STRATEGIES[plan.strategy](made)
    return made.found


def _flat(s: _Stages) -> None:
    """Blocks of an outer axis; in each, some vectors at a time."""
    plan, rank = s.plan, len(s.kernel.outer)
    if not rank:
        return
    var, block = outer_var(rank - 1), f"{outer_var(rank - 1)}b"
    s.apply(rewrites.tile, var, plan.ends[-1] if plan.ends else plan.block, block)
    for k in range(rank - 1):
        s.apply(rewrites.parallelize, outer_var(k))
    s.apply(rewrites.parallelize, block)
    if plan.ends:
        s.apply(split_rows, var, plan.ends)
    # Only whole vectors may bypass the caches, so each piece has to begin with one.
    if not any(end % plan.lanes for end in plan.ends[:-1]):
        s.apply(memory.stream, var, rank - 1, plan.lanes)
    s.apply(rewrites.vectorize, var, plan.lanes)
    s.apply(rewrites.interleave, var, plan.unroll)
    step = plan.lanes * plan.unroll
    requests = [
        Prefetch(k, PREFETCH_DISTANCE + line)
        for k in plan.prefetched
        for line in range(0, step * s.kernel.operands[k].dtype.itemsize, LINE)
    ]
    # Not in the vectors: the one with more instructions would fall behind, and each line be used
    # from its second half on.
    s.apply(memory.prefetch_rows, block, var, requests)


def _rows(s: _Stages) -> None:
    """Lanes along the last inner axis, one outer iteration (a row) at a time."""
    plan, kernel = s.plan, s.kernel
    if kernel.accumulations():
        s.apply(memory.accumulate_in_blocks, plan.accumulated, plan.block, plan.lanes)
    else:
        for k in range(len(kernel.outer)):
            s.apply(rewrites.parallelize, outer_var(k))
    s.apply(rewrites.hoist, varying_inside(kernel))
    # A saved value that is stored to a result anyway is read again from there, not from scratch.
    elided = elided_scratch(kernel)
    for k, buffer in enumerate(s.nest.buffers):
        names = {
            x.value for x in statements(s.nest.body) if isinstance(x, Store) and x.operand == k
        }
        if buffer.space == "scratch" and names & elided.keys():
            s.apply(memory.use_buffer, k, elided[names.pop()])
    last = len(kernel.inner) - 1
    for number in range(len(kernel.loop_phases)):
        var = inner_var(last, number)
        loops = [n for n in walk(s.nest.body) if isinstance(n, Loop) and n.var == var]
        if not loops:
            continue
        body = list(statements(loops))
        s.apply(memory.stream, inner_var(0, number), len(kernel.outer) + last, plan.lanes)
        s.apply(rewrites.vectorize, var, plan.lanes)
        s.apply(rewrites.interleave, var, row_unroll(kernel, body))
        if plan.prefetch_phase == number:
            s.apply(memory.prefetch, var, list(_next_row(plan, set(elided.values()))))


def _next_row(plan: Schedule, elided: set[int]) -> list[Prefetch]:
    """The same position of the next row, and the lines that this row will store.

    If rows are short, a later row than the next one. A value saved in a result buffer is stored by
    this very phase, and stores that bypass the caches need no prefetch.
    """
    found: list[Prefetch] = []
    for k in (*plan.prefetched, *(k for k in plan.store_prefetched if k not in elided)):
        operand = plan.kernel.operands[k]
        row = plan.kernel.inner[-1] * operand.dtype.itemsize
        write = k in plan.store_prefetched
        distance = 0 if write else operand.outer[-1] * -(-_PREFETCH_BYTES // row)
        found.append(Prefetch(k, distance, row >= _LONG, write))
    return found


def _columns(s: _Stages) -> None:
    """Lanes along the last outer axis; a block of its iterations loops over the inner axes."""
    plan, kernel, rank = s.plan, s.kernel, len(s.kernel.outer)
    var, block, last = outer_var(rank - 1), f"{outer_var(rank - 1)}b", len(kernel.inner) - 1
    s.apply(rewrites.tile, var, plan.block, block)
    for name in (*(outer_var(k) for k in range(rank - 1)), block):
        s.apply(rewrites.parallelize, name)
    if plan.align is not None:
        s.apply(rewrites.align, block, var, plan.align, plan.lanes)
    s.apply(memory.distribute, var, plan.lanes)
    tiles: list[tuple[str, list[int]]] = []
    for number, phase in enumerate(kernel.loop_phases):
        row = inner_var(last, number)
        used = {x.operand for x in phase.body if isinstance(x, Load)}
        packed = [k for k in plan.packed if k in used and plan.register_tiles]
        if packed:
            tiles.append((row, packed))
            _strips(s, row, var, packed)
        elif phase.body:
            _packed_columns(s, row, var, used)
    s.apply(memory.stream, var, rank - 1, plan.lanes)
    s.apply(rewrites.vectorize, var, plan.lanes)
    for row, packed in tiles:
        _register_tiles(s, row, var, packed)


def _packed_columns(s: _Stages, row: str, var: str, used: set[int]) -> None:
    """Strided operands are transposed in tiles; each step loads accumulators from scratch once."""
    plan, lanes = s.plan, s.plan.lanes
    requests = [
        Prefetch(k, TRANSPOSE_TILE * s.kernel.operands[k].inner[-1])
        for k in plan.prefetched
        if k in used and k not in plan.packed
    ]
    distances = {k: TRANSPOSE_TILE if k in plan.prefetched else 0 for k in plan.packed}
    s.apply(memory.prefetch_rows, row, var, requests)
    s.apply(memory.pack, row, TRANSPOSE_TILE, var, lanes, distances)
    loops = [n for n in walk(s.nest.body) if isinstance(n, Loop) and n.var == row]
    if any(isinstance(x, Reduce) for x in statements(loops)):
        s.apply(rewrites.unroll_and_jam, row, plan.unroll)


def _strips(s: _Stages, row: str, var: str, packed: list[int]) -> None:
    """Strips of a few lines of each row are read, row after row.

    Rows whose distance is a power of two map to few cache sets, so only some dozens of their lines
    can be resident.
    """
    sizes = [s.kernel.operands[k].dtype.itemsize for k in packed]
    s.apply(rewrites.tile, row, max(_STRIP // min(sizes), s.plan.lanes), f"{row}b")
    s.apply(rewrites.interchange, row, var)


def _register_tiles(s: _Stages, row: str, var: str, packed: list[int]) -> None:
    """Strided operands are transposed in registers, tile by tile, and reduced there."""
    plan, rank = s.plan, s.nest.rank
    blocks, strips = s.loop(f"{var}b"), s.loop(f"{row}b")
    aligned = plan.align is not None
    count = Count(blocks.var, s.nest.extents[rank - 1], blocks.step, aligned=aligned)
    requests = [
        PrefetchTile(k, strips.axes[0], rank - 1, count, plan.lanes, _PREFETCH_TILES, strips.step)
        for k in plan.prefetched
    ]
    step = min(plan.unroll, plan.lanes)
    s.apply(memory.transpose_in_register, row, var, packed, step, requests)


def _tiles(s: _Stages) -> None:
    """A register tile of accumulators, as in a GEMM microkernel: rows by vectors of columns."""
    plan, kernel, rank = s.plan, s.kernel, len(s.kernel.outer)
    row, column = outer_var(rank - 2), outer_var(rank - 1)
    s.apply(rewrites.contract)
    s.apply(rewrites.tile, row, plan.block, f"{row}b")
    for name in (*(outer_var(k) for k in range(rank - 2)), f"{row}b"):
        s.apply(rewrites.parallelize, name)
    s.apply(memory.stream, column, rank - 1, plan.lanes)
    s.apply(rewrites.vectorize, column, plan.lanes)
    s.apply(rewrites.unroll_and_jam, column, plan.unroll)
    s.apply(rewrites.unroll_and_jam, row, plan.block)
    s.apply(rewrites.unroll_short, plan.max_unrolled)
    # If few tiles decide what is loaded, each is written out: LLVM then folds their predicates.
    is_guarded = any(getattr(x, "predicate", None) for x in kernel.statements())
    if is_guarded and kernel.outer[-1] // (plan.lanes * plan.unroll) <= _WRITTEN_OUT:
        s.apply(rewrites.unroll, column)


def _short(s: _Stages) -> None:
    """Blocks of rows; in each, groups of rows that are whole vectors together."""
    plan = s.plan
    assert plan.group is not None
    row = plan.group.axis(s.kernel)
    var = outer_var(row)
    s.apply(rewrites.tile, var, plan.block, f"{var}b")
    for name in (*(outer_var(k) for k in range(row)), f"{var}b"):
        s.apply(rewrites.parallelize, name)
    s.apply(vectorize_rows, var, plan.group, plan.lanes)


_STRATEGIES: Final = {
    "flat": _flat, "rows": _rows, "columns": _columns, "tiles": _tiles, "short": _short
}  # fmt: skip
