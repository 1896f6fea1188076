"""Splits the index set of a copy where a guard turns false, or a division leaves a remainder.

Blocks that the last channels do not fill are read under a guard, and written back at quotients of
an axis that the size of a block does not divide. Both gather lanes one by one. Over the indices
whose blocks are full there is neither, so that part is transposed in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values
from pirkit.lowering.codegen.ir.delinearize import (
    AffineIndex,
    SplitLoops,
    affine_forms_of,
    delinearized,
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
)

_COPIES = (Load, Constant, Index, Compute, Store)

Placed = tuple[Kernel, tuple[int, ...]]
"""A kernel, and the array of each operand."""


def split_index_sets(kernel: Kernel, arrays: tuple[int, ...]) -> list[Placed]:
    """The kernel over most of an axis, with plain loads, and over the rest; or else as a whole.

    Quotients and remainders are delinearized.
    """
    whole = delinearized(kernel, arrays)
    cut = None if _is_plain(whole[0]) else _cut(kernel)
    if cut is None:
        return [whole]
    axis, at = cut
    first = delinearized(_part(kernel, axis, 0, at), arrays)
    if not _is_plain(first[0]):
        return [whole]
    return [first, delinearized(_part(kernel, axis, at, kernel.outer[axis]), arrays)]


def _is_plain(kernel: Kernel) -> bool:
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    return all(s.at is None and s.predicate is None for s in loads)


def _cut(kernel: Kernel) -> tuple[int, int] | None:
    """An axis and where to cut it, at least in half; None if lanes need no transposed tiles."""
    statements = list(kernel.statements())
    if kernel.inner or not all(isinstance(s, _COPIES) for s in statements):
        return None
    stored = [kernel.operands[s.operand] for s in statements if isinstance(s, Store)]
    loaded = [kernel.operands[s.operand] for s in statements if isinstance(s, Load)]
    lanes = {o.outer.index(o.dtype.itemsize) for o in stored if o.dtype.itemsize in o.outer}
    strided = any(o.outer[k] not in (0, o.dtype.itemsize) for o in loaded for k in lanes)
    for axis, at in _ends(kernel) if strided else ():
        if axis not in lanes and 0 < kernel.outer[axis] - at <= at:
            return axis, at
    return None


def _ends(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """Axes, and the indices from which on a guard may fail or a division leaves a remainder."""
    loops = _loops(kernel)
    forms = affine_forms_of(kernel, loops)
    for s in kernel.statements():
        match s:
            case Compute(primitive="less_than", args=(a, b)) if a in forms and b in forms:
                below = forms[a].plus(forms[b], -1)
                high = loops.bounds(below)[1]
                for axis, factor in below.factors.items():
                    last = high - factor * (kernel.outer[axis] - 1)
                    if factor > 0 and last < 0 <= high:
                        yield axis, -last // factor + (-last % factor > 0)
            case Compute(primitive="quotient", args=(a, b)) if a in forms and b in forms:
                [*axes], by = forms[a].factors, forms[b].constant
                if len(axes) == 1 and forms[a] == AffineIndex({axes[0]: 1}, 0) and by > 0:
                    yield axes[0], kernel.outer[axes[0]] // by * by
            case _:
                continue


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
    """The statements without comparisons that always hold, and what depends on these."""
    loops = _loops(kernel)
    forms, holds, same = affine_forms_of(kernel, loops), set[str](), dict[str, str]()
    for s in kernel.statements():
        match s:
            case Compute(name, "less_than", (a, b)) if a in forms and b in forms:
                if loops.bounds(forms[a].plus(forms[b], -1))[1] < 0:
                    holds.add(name)
                yield s
            case Compute(name, "logical_and", (a, b)) if {a, b} <= holds:
                holds.add(name)
                yield s
            case Compute(name, "where", (condition, a, _)) if condition in holds:
                same[name] = same.get(a, a)
            case Compute(args=args):
                yield replace(s, args=tuple([same.get(a, a) for a in args]))
            case Store(value=value):
                yield replace(s, value=same.get(value, value))
            case Load(predicate=str(guard)) if guard in holds:
                yield replace(s, predicate=None)
            case _:
                yield s
