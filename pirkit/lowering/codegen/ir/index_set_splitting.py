"""Splits the index set of a copy where a guard turns false, or a division leaves a remainder.

Where channels are stored in blocks and the last block is partial, the copy into blocks reads under
a guard, and the copy back divides by a block size that does not divide the number of channels. A
concat of transposed operands reads each of them under a guard and selects one. Such copies gather
their lanes one by one. Over the indices of whole blocks, or of one operand of the concat, all
guards are constant: this part has plain loads, and is transposed in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values, without_unused_operands
from pirkit.lowering.codegen.ir.delinearize import (
    AffineIndex,
    SplitLoops,
    affine_forms_of,
    delinearized,
    fits,
)
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Statement,
    Store,
    renamed,
    varying,
)

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
    if _is_plain(whole[0]) or not is_copy:
        return [whole]
    parts = _parts(kernel, arrays, _MAX_PARTS)
    # Guards that all lanes of a vector share are cheap where lanes are contiguous.
    pays = _varies(kernel) or any(_is_strided(part) for part, _ in parts)
    return parts if parts and pays else [whole]


def _parts(kernel: Kernel, arrays: tuple[int, ...], most: int) -> list[Placed]:
    """The kernel over at most so many parts of an axis; none if that gives no plain loads."""
    lanes = _lanes(kernel)
    for at, axis in sorted({(at, axis) for axis, at in _ends(kernel)}):
        extent, least = kernel.outer[axis], _MIN_LANES if axis in lanes else 1
        if not least <= at <= extent - least or most < 2:
            continue
        first = delinearized(_part(kernel, axis, 0, at), arrays)
        if not _is_plain(first[0]):
            continue
        behind = _part(kernel, axis, at, extent)
        rest = _used(*delinearized(behind, arrays))
        more = [rest] if _is_plain(rest[0]) else _parts(behind, arrays, most - 1)
        # A part that stays guarded costs what it did before, so it must not be the larger one.
        if more or (extent - at <= at and axis not in lanes):
            return [_used(*first), *(more or [rest])]
    return []


def _used(kernel: Kernel, arrays: Sequence[int]) -> Placed:
    """The kernel without operands that only other parts read."""
    made, kept = without_unused_operands(kernel)
    return made, tuple([arrays[k] for k in kept])


def _is_plain(kernel: Kernel) -> bool:
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    return all(s.at is None and s.predicate is None for s in loads)


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
    loops = _loops(kernel)
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


def _bounds(
    kernel: Kernel, loops: SplitLoops, forms: Mapping[str, AffineIndex]
) -> dict[str, tuple[int, int]]:
    """The smallest and the largest value of each integer, and of quotients that are not affine."""
    found = {name: loops.bounds(form) for name, form in forms.items()}
    for s in kernel.statements():
        if not isinstance(s, Compute) or s.name in found or not found.keys() >= {*s.args}:
            continue
        given = [found[a] for a in s.args]
        if s.primitive == "add":
            total = given[0][0] + given[1][0], given[0][1] + given[1][1]
            found |= {s.name: total} if fits(total, s.dtype) else {}
        elif s.primitive == "quotient" and given[1][0] == given[1][1] > 0:
            found[s.name] = given[0][0] // given[1][0], given[0][1] // given[1][0]
    return found


def _loops(kernel: Kernel) -> SplitLoops:
    """The loops as they are."""
    parts = {axis: [(axis, extent, 1)] for axis, extent in enumerate(kernel.outer)}
    return SplitLoops(kernel, parts, list(kernel.outer))


def _part(kernel: Kernel, axis: int, low: int, high: int) -> Kernel:
    """The kernel over indices ``low`` to ``high`` of an axis, without guards that hold there."""
    outer = (*kernel.outer[:axis], high - low, *kernel.outer[axis + 1 :])
    operands = [replace(o, offset=o.offset + low * o.outer[axis]) for o in kernel.operands]
    (phase,) = kernel.loop_phases
    body = tuple([part for s in phase.body for part in _moved(s, axis, low)])
    moved = replace(kernel, outer=outer, operands=tuple(operands), loop_phases=(LoopPhase(body),))
    return replace(moved, loop_phases=without_dead_values([LoopPhase(tuple(_unguarded(moved)))]))


def _moved(s: Statement, axis: int, low: int) -> list[Statement]:
    """A statement for indices that begin at ``low``."""
    if not isinstance(s, Index) or s.axis != axis or not low:
        return [s]
    own, more = f"{s.name}.own", f"{s.name}.low"
    return [replace(s, name=own), Constant(more, s.dtype, low),
            Compute(s.name, "add", (own, more), s.dtype)]  # fmt: skip


def _unguarded(kernel: Kernel) -> Iterator[Statement]:
    """The statements without comparisons that always hold or never, and what depends on these."""
    loops = _loops(kernel)
    forms, known, same = affine_forms_of(kernel, loops), dict[str, bool](), dict[str, str]()
    bounds = _bounds(kernel, loops, forms)
    for statement in kernel.statements():
        s = renamed(statement, lambda name: same.get(name, name))
        match s:
            case Compute(name, "less_than" | "greater_equal" as order, (a, b)):
                if a in forms and b in forms:
                    low, high = loops.bounds(forms[a].plus(forms[b], -1))
                elif a in bounds and b in bounds:
                    low, high = bounds[a][0] - bounds[b][1], bounds[a][1] - bounds[b][0]
                else:
                    low, high = -1, 0
                if high < 0 or low >= 0:
                    known[name] = (high < 0) == (order == "less_than")
                yield s
            case Compute(name, "logical_and", (a, b)):
                if known.get(a) is False or known.get(b) is False:
                    known[name] = False
                elif known.get(a) and known.get(b):
                    known[name] = True
                yield s
            case Compute(name, "where", (condition, a, b)) if condition in known:
                same[name] = a if known[condition] else b
            case Load(predicate=str(guard)) if known.get(guard):
                yield replace(s, predicate=None)
            case _:
                yield s
