"""Splits the index set of a copy where a guard turns false, or a division leaves a remainder.

Where channels are stored in blocks and the last block is partial, the copy into blocks reads under
a guard, and the copy back divides by a block size that does not divide the number of channels. A
concat of transposed operands reads each of them under a guard and selects one. Such copies gather
their lanes one by one. Over the indices of whole blocks, or of one operand of the concat, all
guards are constant: this part has plain loads, and is transposed in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values, without_unused_operands
from pirkit.lowering.codegen.ir.delinearize import (
    AffineIndex,
    affine_forms_of,
    delinearized,
)
from pirkit.lowering.codegen.ir.guards import guard_changes, loops_over, plain_loads, without_guards
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Statement,
    Store,
    varying,
)
from pirkit.lowering.codegen.ir.row_pieces import row_ends

_COPIES = (Load, Constant, Index, Compute, Store)
_MIN_LANES: Final = 16
"""A part has at least so many elements along the lanes."""
_MAX_PARTS: Final = 16
"""A copy is split into at most so many parts: each is a nest that takes milliseconds to compile."""

Placed = tuple[Kernel, tuple[int, ...]]
"""A kernel, and the array of each operand."""


def split_index_sets(kernel: Kernel, arrays: tuple[int, ...]) -> list[Placed]:
    """The kernel over parts of an axis, with plain loads; or else as a whole.

    Only over the last part, which is the smaller half, loads may stay guarded. Quotients and
    remainders are delinearized.
    """
    whole = delinearized(kernel, arrays)
    is_copy = not kernel.inner and all(isinstance(s, _COPIES) for s in kernel.statements())
    if _is_plain(whole[0]) or not is_copy or row_ends(kernel):
        return [whole]
    parts = _parts(kernel, arrays, _MAX_PARTS)
    # Guards that all lanes of a vector share are cheap where lanes are contiguous.
    pays = _varies(kernel) or any(_is_strided(part) for part, _ in parts)
    return parts if parts and pays else [whole]


def _parts(kernel: Kernel, arrays: tuple[int, ...], most: int) -> list[Placed]:
    """The kernel over at most so many parts of an axis; none if that gives no plain loads."""
    lanes = _lanes(kernel)
    ends = {*_ends(kernel), *guard_changes(kernel)}
    # Rows stay whole if they can, and the first part is as large as it can be.
    for axis, at in sorted(ends, key=lambda end: (end[0] in lanes, -end[1], end[0])):
        extent, least = kernel.outer[axis], _MIN_LANES if axis in lanes else 1
        if not least <= at <= extent - least or most < 2:
            continue
        first = delinearized(_part(kernel, axis, 0, at), arrays)
        if not _is_settled(first[0]):
            continue
        behind = _part(kernel, axis, at, extent)
        rest = _used(*delinearized(behind, arrays))
        more = [rest] if _is_settled(rest[0]) else _parts(behind, arrays, most - 1)
        # A part that stays guarded costs what it did before, so it must not be the larger one.
        if more or (extent - at <= at and axis not in lanes):
            return [_used(*first), *(more or [rest])]
    return []


def _used(kernel: Kernel, arrays: Sequence[int]) -> Placed:
    """The kernel without operands that only other parts read."""
    made, kept = without_unused_operands(kernel)
    return made, tuple([arrays[k] for k in kept])


def _is_plain(kernel: Kernel) -> bool:
    return plain_loads(kernel.statements())


def _is_settled(kernel: Kernel) -> bool:
    """Whether loads are plain, if necessary in pieces of rows."""
    return _is_plain(kernel) or bool(row_ends(kernel))


def _lanes(kernel: Kernel) -> set[int]:
    """The axes along which stored operands are contiguous."""
    stored = [kernel.operands[s.operand] for s in kernel.statements() if isinstance(s, Store)]
    return {o.outer.index(o.dtype.itemsize) for o in stored if o.dtype.itemsize in o.outer}


def _varies(kernel: Kernel) -> bool:
    """Whether a guard differs between lanes."""
    guards = {s.predicate for s in kernel.statements() if isinstance(s, Load)}
    return any(guards & varying(kernel, axis) for axis in _lanes(kernel))


def _is_strided(kernel: Kernel) -> bool:
    """Whether a loaded operand is strided along the lanes."""
    loaded = [kernel.operands[s.operand] for s in kernel.statements() if isinstance(s, Load)]
    return any(o.outer[k] not in (0, o.dtype.itemsize) for o in loaded for k in _lanes(kernel))


def _ends(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """Axes, and the indices from which on a guard may fail or a division leaves a remainder."""
    loops = loops_over(kernel)
    forms = affine_forms_of(kernel, loops)
    for s in kernel.statements():
        match s:
            case Compute(primitive="less_than", args=(a, b)) if a in forms and b in forms:
                # The guard holds where a - b is negative. `last` is the largest a - b at index 0 of
                # the axis; from index ceil(-last / factor) on a - b may be 0 or more.
                below = forms[a].plus(forms[b], -1)
                high = loops.bounds(below)[1]
                for axis, factor in below.factors.items():
                    last = high - factor * (kernel.outer[axis] - 1)
                    if factor > 0 and last < 0 <= high:
                        yield axis, -last // factor + (-last % factor > 0)
            # Up to the last multiple of the divisor the axis is made of whole blocks.
            case Compute(primitive="quotient", args=(a, b)) if a in forms and b in forms:
                [*axes], by = forms[a].factors, forms[b].constant
                if len(axes) == 1 and forms[a] == AffineIndex({axes[0]: 1}, 0) and by > 0:
                    yield axes[0], kernel.outer[axes[0]] // by * by
            case _:
                continue


def _part(kernel: Kernel, axis: int, low: int, high: int) -> Kernel:
    """The kernel over indices ``low`` to ``high`` of an axis, without guards that hold there."""
    outer = (*kernel.outer[:axis], high - low, *kernel.outer[axis + 1 :])
    operands = [replace(o, offset=o.offset + low * o.outer[axis]) for o in kernel.operands]
    (phase,) = kernel.loop_phases
    body = tuple([part for s in phase.body for part in _moved(s, axis, low)])
    moved = replace(kernel, outer=outer, operands=tuple(operands), loop_phases=(LoopPhase(body),))
    body = tuple(without_guards(moved, loops_over(moved)))
    return replace(moved, loop_phases=without_dead_values([LoopPhase(body)]))


def _moved(s: Statement, axis: int, low: int) -> list[Statement]:
    """A statement for indices that begin at ``low``."""
    if not isinstance(s, Index) or s.axis != axis or not low:
        return [s]
    own, more = f"{s.name}.own", f"{s.name}.low"
    return [replace(s, name=own), Constant(more, s.dtype, low),
            Compute(s.name, "add", (own, more), s.dtype)]  # fmt: skip
