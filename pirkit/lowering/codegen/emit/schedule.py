"""Chooses how a loop nest runs on a CPU: the vectorized axis, the block size, packing, prefetches.

flat     no inner axes: elementwise, one vector of outer iterations at a time.
rows     lanes along an inner axis: one outer iteration (a row) at a time; values that a later phase
         reads are saved in a row of scratch memory.
columns  lanes along an outer axis: a block of outer iterations loops over the inner axes together,
         its accumulators are in scratch memory; strided operands are transposed in tiles.
tiles    lanes along the last outer axis: a register tile of accumulators, as in a GEMM microkernel.
short    no inner axes and a short last axis: vectors cross the rows (`short_rows.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.lane_axis import (
    lane_axis_of,
    lane_count,
    lanes_for,
    loaded_operands,
    packed_operands,
    transposed_axis_of,
)
from pirkit.lowering.codegen.emit.short_rows import ShortRows, row_group
from pirkit.lowering.codegen.ir.canonicalize import canonical, with_axes
from pirkit.lowering.codegen.ir.element_types import types_of
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Kernel,
    Load,
    Reduce,
    RuntimeAssert,
    Statement,
    Store,
    accumulated_axes,
    check,
    defines,
    saved_values,
    varying_inside,
)
from pirkit.lowering.codegen.ir.row_pieces import row_ends
from pirkit.lowering.codegen.math.primitives import is_costly
from pirkit.runtime.native.target import Target

Strategy = Literal["flat", "rows", "columns", "tiles", "short"]

_FLAT_BLOCK = 8192
"""Elements of a block of a flat kernel, the unit of work of a thread."""
_COLUMN_BLOCK = 4096
"""Columns of a block, at most."""
_TRANSPOSED_BLOCK = 128
"""Columns of a block whose strided operands are transposed; twice as many for large kernels."""
_ENOUGH_BLOCKS = 16
"""Number of blocks from which they are made larger: enough of them remain for the threads."""
_TILE_ROWS = 4
"""Rows of a register tile."""
_ACCUMULATORS = 16
"""Vector registers that a tile may use for its accumulators."""
_SHORT_REDUCTION = 64
"""Inner iterations up to which a tile pays even if its iterations share no loads."""
_PAGE = 4096
"""Bytes of a page of memory: neither prefetchers of CPUs nor entries of TLBs reach beyond it."""
_STREAMS = 8
"""Runs of memory that a CPU prefetches side by side."""
_MAX_UNROLLED = 64
"""Body copies up to which the inner loops of a register tile are unrolled completely."""
PREFETCH_DISTANCE: Final = 1 << 12
"""Bytes by which a flat loop prefetches ahead."""
TRANSPOSE_TILE: Final = 256
"""Elements along the last inner axis that are transposed into scratch at once."""
_HEAVY_BODY = 24
"""Weight from which a body is not unrolled: its own instructions fill the pipeline."""
_COMPUTE_BOUND = 12
"""Weight from which the reorder buffer does not reach the next loads: prefetch by software."""
_MAX_REGISTER_TILES = 2
"""Operands that are transposed in registers; more of them would spill."""


class Schedule(Struct, frozen=True):
    """A kernel with its axes in loop order; the vectorized axis is the last of its group."""

    kernel: Kernel
    strategy: Strategy
    lanes: int
    unroll: int
    block: int
    """Outer iterations of a block along the vectorized axis; for ``rows`` 1, or the iterations that
    share an accumulator; for ``tiles`` the rows of a register tile.
    """
    packed: tuple[int, ...] = ()
    """Operands that are transposed in tiles before the body reads them."""
    prefetch_phase: int | None = None
    """The phase that prefetches the next row of the operands ``prefetched`` while it computes. A
    flat loop prefetches `PREFETCH_DISTANCE` bytes ahead, one with transposed operands the next
    `TRANSPOSE_TILE`.
    """
    prefetched: tuple[int, ...] = ()
    store_prefetched: tuple[int, ...] = ()
    """Operands that a later phase writes: the same phase prefetches their lines for writing."""
    max_unrolled: int = 0
    """Body copies up to which the inner loops of a register tile are unrolled."""
    register_tiles: bool = False
    """Whether the body is unrolled over VxV tiles that are transposed in registers."""
    align: int | None = None
    """The operand at whose vector boundaries blocks begin: then its vectors cross no cache line."""
    accumulated: int = 0
    """How many of the last outer axes accumulate; a block runs its part of them in order."""
    ends: tuple[int, ...] = ()
    """Where the pieces of the rows of a flat kernel end; a block is then a row."""
    group: ShortRows | None = None
    """The rows that vectors cross; a block is so many rows."""

    @property
    def blocks(self) -> int:
        """Independent units of work; no bit of the result depends on which thread runs them."""
        if self.kernel.accumulations():
            first = len(self.kernel.outer) - self.accumulated
            iterations = math.prod(self.kernel.outer[first:])
            return math.prod(self.kernel.outer[:first]) * -(-iterations // self.block)
        if self.group is not None:
            *others, rows = self.kernel.outer[: self.group.axis(self.kernel) + 1]
            return math.prod(others) * -(-rows // self.block)
        if self.strategy == "rows" or not self.kernel.outer:
            return math.prod(self.kernel.outer)
        *others, last = self.kernel.outer
        if self.strategy == "tiles":
            *others, last = others
        # Aligned blocks begin later, so there is a short one before them.
        return math.prod(others) * (-(-last // self.block) + (self.align is not None))


def schedule(kernel: Kernel, target: Target) -> Schedule:
    """Choose how a kernel runs on a CPU. Raises InternalError if it is not well formed."""
    check(kernel)
    kernel = canonical(kernel)
    rank = len(kernel.outer)
    axis = lane_axis_of(kernel)
    if axis is None:
        return Schedule(kernel, "flat", 1, 1, 1)
    if (plan := _short_rows(kernel, target)) is not None:
        return plan
    lanes = lane_count(kernel, axis, target)
    outer, inner = list(range(rank)), list(range(rank, rank + len(kernel.inner)))
    group = outer if axis < rank else inner
    group.remove(axis)
    if kernel.accumulations():
        return _accumulating(kernel, inner, axis, lanes, target)
    # Lanes along an inner axis: rows. A reduction then ends with one reduction of lanes per row.
    if axis >= rank:
        ordered = with_axes(kernel, outer, [*inner, axis])
        plan = Schedule(ordered, "rows", lanes, 1, 1)
        return _with_row_prefetch(plan, target)
    # Lanes along an outer axis. If some operands are contiguous along another axis, that axis
    # becomes the last inner one, and these operands are transposed in tiles.
    traversed = transposed_axis_of(kernel, axis, inner or outer)
    if kernel.inner and traversed is None:
        if tiled := _tiled(kernel, axis, outer, inner, lanes, target):
            return tiled
    elif traversed is None:
        ordered = with_axes(kernel, [*outer, axis], ())
        lanes = min(lanes, lanes_for(kernel.outer[axis]))
        unroll = 1 if _weight(kernel) > _HEAVY_BODY else 2
        streamed, ends = _streamed_operands(ordered, target), row_ends(ordered)
        return Schedule(ordered, "flat", lanes, unroll, _FLAT_BLOCK, prefetched=streamed, ends=ends)
    if traversed is not None:
        (inner if traversed in inner else outer).remove(traversed)
        inner.append(traversed)
    ordered = with_axes(kernel, [*outer, axis], inner)
    packed = packed_operands(ordered) if traversed is not None else ()
    unroll = 1 if _weight(kernel) > _HEAVY_BODY else 4
    # Loops over transposed tiles jump from row to row, so they prefetch in software.
    memory_bound = _memory_bound_operands(ordered, target) if packed else ()
    register_tiles = bool(packed) and _fits_register_tiles(ordered, packed)
    block = _column_block(ordered, lanes, target, bool(packed), register_tiles)
    return Schedule(
        ordered,
        "columns",
        lanes,
        unroll,
        block,
        packed,
        prefetched=memory_bound,
        register_tiles=register_tiles,
        align=_alignable(ordered, memory_bound, lanes) if register_tiles else None,
    )


def _short_rows(kernel: Kernel, target: Target) -> Schedule | None:
    """Vectors across short rows, of as many lanes as the widest element type of any axis has."""
    lanes = min((lane_count(kernel, k, target) for k in range(len(kernel.outer))), default=1)
    group = row_group(kernel, lanes)
    if group is None:
        return None
    groups = max(1, _FLAT_BLOCK // (group.columns(kernel) * group.rows))
    return Schedule(kernel, "short", lanes, 1, groups * group.rows, group=group)


def _accumulating(
    kernel: Kernel, inner: list[int], axis: int, lanes: int, target: Target
) -> Schedule:  # fmt: skip
    """Rows in blocks that share an accumulator; one thread runs a block in order."""
    shared = accumulated_axes(kernel)
    others = [k for k in range(len(kernel.outer)) if k not in shared]
    ordered = with_axes(kernel, [*others, *shared], [*inner, axis])
    # Without partial results all iterations that share an accumulator are one block.
    block_size = max(g.block_size for g in kernel.accumulations())
    block = block_size or max(1, math.prod([kernel.outer[k] for k in shared]))
    plan = Schedule(ordered, "rows", lanes, 1, block, accumulated=len(shared))
    return _with_row_prefetch(plan, target)


def _alignable(kernel: Kernel, operands: Iterable[int], lanes: int) -> int | None:
    """An operand that is contiguous along the lanes, and whose rows are whole vectors apart."""
    # Non-temporal stores need blocks that begin at multiples of a vector of the result.
    if any(o.stream for o in kernel.operands):
        return None
    for k in operands:
        operand, size = kernel.operands[k], kernel.operands[k].dtype.itemsize
        strides = (*operand.outer[:-1], *operand.inner)
        if operand.outer[-1] == size and all(n % (lanes * size) == 0 for n in strides):
            return k
    return None


def _fits_register_tiles(kernel: Kernel, packed: tuple[int, ...]) -> bool:
    """Whether the body is light enough to be unrolled over a VxV tile, and only reduces."""
    light = len(packed) <= _MAX_REGISTER_TILES and _weight(kernel) <= _COMPUTE_BOUND
    body_statements = (s for phase in kernel.loop_phases for s in phase.body)
    return (
        light
        # The body is emitted V times, for whole and for partial tiles: it only loads and reduces.
        and not saved_values(kernel)
        and not any(isinstance(s, (Store, RuntimeAssert)) for s in body_statements)
    )


def _tiled(
    kernel: Kernel, axis: int, outer: list[int], inner: list[int], lanes: int, target: Target
) -> Schedule | None:  # fmt: skip
    """A plan with accumulators in registers, if loads are shared or the reduction is short."""
    if len(kernel.loop_phases) != 1 or not outer:
        return None
    (phase,) = kernel.loop_phases
    body = phase.body
    if any(isinstance(s, (Store, Accumulate, RuntimeAssert)) for s in body):
        return None
    reduction_count = sum(isinstance(s, Reduce) for s in body)

    def shared(row: int) -> int:
        """How many operands iterations of a tile share along its rows or its columns."""
        total = 0
        for k in {s.operand for s in body if isinstance(s, Load)}:
            o = kernel.operands[k]
            strides = (*o.outer, *o.inner)
            # Windows of a convolution: neighboring rows read overlapping elements.
            sliding = strides[row] != 0 and strides[row] in o.inner
            total += strides[axis] == 0 or strides[row] == 0 or sliding
        return total

    row = max(outer, key=lambda k: (shared(k), kernel.outer[k] >= _TILE_ROWS, k))
    iterations = math.prod(kernel.inner)
    # A reduction whose iterations share no loads gains nothing from a register tile if it is long,
    # and loses if it reads from memory a line here and there: it had better read whole rows.
    scattered = iterations > _STREAMS and any(
        o.size > target.l2_bytes and max(o.inner, default=0) >= _PAGE for o in kernel.operands
    )
    if not reduction_count or (shared(row) < 2 and (iterations > _SHORT_REDUCTION or scattered)):
        return None
    ordered = with_axes(kernel, [*(k for k in outer if k != row), row, axis], inner)
    rows = min(_TILE_ROWS if shared(row) else 1, kernel.outer[row])
    vectors = min(2, max(1, kernel.outer[axis] // lanes))
    # With one vector the inner loops can be unrolled completely, with two they cannot.
    if rows * iterations <= _MAX_UNROLLED < vectors * rows * iterations:
        vectors = 1
    if reduction_count * rows * vectors > _ACCUMULATORS:
        rows = vectors = 1
    return Schedule(ordered, "tiles", lanes, vectors, rows, max_unrolled=_MAX_UNROLLED)


def _with_row_prefetch(plan: Schedule, target: Target) -> Schedule:
    """Prefetch the next row in the phase that computes most, since other phases wait for memory."""
    kernel = plan.kernel
    along = varying_inside(kernel)
    weights = [_weight_of([s for s in x.body if defines(s) in along]) for x in kernel.loop_phases]
    prefetch_phase = max(range(len(weights)), key=lambda k: weights[k])
    # The phase that computes most already streams the row: there is nothing to overlap.
    if not kernel.outer or prefetch_phase == 0:
        return plan
    read = {s.operand for phase in kernel.loop_phases for s in phase.body if isinstance(s, Load)}
    prefetched = [
        k
        for k in sorted(read & loaded_operands(kernel))
        if kernel.operands[k].inner[-1] == kernel.operands[k].dtype.itemsize
        and kernel.operands[k].outer[-1]
    ]
    types = types_of(kernel)
    resident_types = [types[name] for name in saved_values(kernel)] + [
        kernel.operands[k].dtype for k in prefetched
    ]
    # The next row must not evict the present one: together they get half of the L2 cache.
    if math.prod(kernel.inner) * sum(d.itemsize for d in resident_types) > target.l2_bytes // 2:
        return plan
    later = [line for phase in kernel.loop_phases[prefetch_phase + 1 :] for line in phase.body]
    written = sorted({s.operand for s in later if isinstance(s, Store)} - loaded_operands(kernel))
    store_prefetched = [
        k
        for k in written
        if kernel.operands[k].inner[-1] == kernel.operands[k].dtype.itemsize
        and not kernel.operands[k].stream
    ]
    return replace(
        plan,
        prefetch_phase=prefetch_phase,
        prefetched=tuple(prefetched),
        store_prefetched=tuple(store_prefetched),
    )


def _memory_bound_operands(kernel: Kernel, target: Target) -> tuple[int, ...]:
    """Operands that move along the last inner axis and are larger than the L2 cache."""
    large = (
        k for k in sorted(loaded_operands(kernel)) if kernel.operands[k].size > target.l2_bytes
    )
    return tuple([k for k in large if kernel.operands[k].inner[-1]])


def _streamed_operands(kernel: Kernel, target: Target) -> tuple[int, ...]:
    """Contiguous operands larger than the L2 cache, if the body of a flat loop is compute-bound."""
    if _weight(kernel) < _COMPUTE_BOUND:
        return ()
    return tuple(
        k
        for k in sorted(loaded_operands(kernel))
        if kernel.operands[k].outer[-1] == kernel.operands[k].dtype.itemsize
        and kernel.operands[k].size > target.l2_bytes
        and all(kernel.operands[k].outer)
    )


def _weight(kernel: Kernel) -> int:
    """Estimated instructions of the bodies."""
    return _weight_of(kernel.statements())


def _weight_of(statements: Iterable[Statement]) -> int:
    return sum(
        # An elementary function is a polynomial of about a dozen instructions.
        12 if is_costly(s.primitive) else 1
        for s in statements
        if isinstance(s, Compute)
    )  # fmt: skip


def row_unroll(kernel: Kernel, body: Iterable[Statement]) -> int:
    """Copies of a row's body, with accumulators of their own: they hide the latency of adds."""
    row = kernel.inner[-1] if kernel.inner else 1
    if row < 128:
        return 1
    return 2 if _weight_of(body) > 2 * _HEAVY_BODY else 4


def _column_block(
    kernel: Kernel, lanes: int, target: Target, packed: bool, register_tiles: bool
) -> int:  # fmt: skip
    """Columns per block: rows and saved values of several phases must fit half of the L2 cache."""
    if packed:
        enough = (
            register_tiles and math.prod(kernel.outer) >= _ENOUGH_BLOCKS * 2 * _TRANSPOSED_BLOCK
        )
        # Wide blocks read longer runs of contiguous operands; narrow ones keep threads busy.
        return max(2 * _TRANSPOSED_BLOCK if enough else _TRANSPOSED_BLOCK, lanes)
    # Each later phase reads the operands and saved values of the block again: from L2, if they fit.
    traversed_operands = [o for o in kernel.operands if any(o.inner)]
    saved_bytes = 8 * len(saved_values(kernel))
    # A single phase reads its operands once, so nothing has to stay in a cache.
    if len(kernel.loop_phases) == 1:
        return _COLUMN_BLOCK
    column = math.prod(kernel.inner) * (
        sum(o.dtype.itemsize for o in traversed_operands) + saved_bytes
    )
    fitting = target.l2_bytes // 2 // max(column, 1) // lanes * lanes
    return max(4 * lanes, min(_COLUMN_BLOCK, fitting))
