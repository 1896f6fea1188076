"""Solves for the common outer loops of a kernel and the iteration mapping of each value.

Producer and consumer can share a loop without a barrier if the consumer iteration that reads an
element is the producer iteration that computed it. A group therefore has *loops*, and each of its
values an *iteration mapping* (``rows``): for each loop, the iteration that computes an element, as
an expression over the element's index. If a reader accesses a value with mapping ``R`` through the
index map ``m``, it reads at iteration ``R o m``, which must be its own mapping. A loop for which
two reads disagree is dropped; the group keeps the loops on which all its values agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from math import prod
from typing import Final

from msgspec import Struct, field
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tree import Reduction
from pirkit.dialect.opdef import lookup
from pirkit.index.expr import Expr, Iter
from pirkit.index.extent import expected
from pirkit.index.index_maps import Index, bindings, compose, inverse, space
from pirkit.index.substitution import substitute
from pirkit.lowering.fusion.index_equations import Unit

IterationMap = dict[int, Expr]
"""From loop number to the iteration, an expression over the canonical iterators of a value."""

_NUMBERS: Final = count()


MAX_GATHERED: Final = 1 << 16
"""Largest number of elements that each iteration accumulates into: they must stay in cache."""

VISIT_LIMIT: Final = 256
"""Largest number of (value, index) pairs that are followed on the way to an input."""


def elements(extents: Iterable[int]) -> int:
    """The number of elements; dynamic sizes count as their expected value."""
    return expected(prod(extents))


class Loops(Struct):
    """The common loops of a group (``extents``) and the iteration mappings of its values."""

    extents: dict[int, int] = field(default_factory=dict[int, int])
    rows: dict[SSAValue, IterationMap] = field(default_factory=dict[SSAValue, IterationMap])
    seen: dict[SSAValue, IterationMap] = field(default_factory=dict[SSAValue, IterationMap])
    """The iterations at which a reduction reads inputs: hints for later joins, no constraints."""
    work: int = 0
    """Number of elements of the largest reduction, result times reduced axes."""

    @property
    def parallel_iterations(self) -> int:
        """The number of iterations of the common loops, which threads can share."""
        return elements(self.extents.values())

    def rename(self, same: Mapping[int, int]) -> None:
        """Merge loops: each key of ``same`` becomes its value."""
        for held in (self.rows, self.seen) if same else ():
            for value, rows in held.items():
                held[value] = {same.get(a, a): e for a, e in rows.items()}


class JoinedLoops(Struct, frozen=True):
    """The loops after an op joins: the op's mapping, merged loops, and the extents that are left.

    ``new`` is true if the op defines the loops, as the first reduction of a group does.
    """

    rows: IterationMap | None
    same: dict[int, int]
    extents: dict[int, int]
    new: bool
    work: int


def solve(
    unit: Unit, groups: Iterable[Loops], members: Mapping[SSAValue, Unit] | None = None
) -> JoinedLoops:
    """The loops that an op has in common with the groups that it reads from."""
    held = list(groups)
    extents = {axis: n for g in held for axis, n in g.extents.items()}
    work = max((g.work for g in held), default=0)
    if unit.is_sink:
        return JoinedLoops(None, {}, extents, False, work)
    if isinstance(unit.value, Reduction):
        work = max(work, elements((*unit.meta.shape, *unit.value.extents)))
    inner = unit.value.extents if isinstance(unit.value, Reduction) else ()
    inner_iters = {e.iter for e in space(inner, "r") if e.iter is not None}
    found: list[IterationMap] = []
    dropped: set[int] = set()
    for read in unit.reads:
        group = next((g for g in held if read.source in g.rows), None)
        if group is None:
            continue
        source = space(read.shape)
        own_iters = {e.iter for e in source}
        # an accumulated value is complete only after these loops, so a reader cannot share them
        dropped |= {a for a, e in group.rows[read.source].items() if not own_iters >= e.iters}
        at = bindings(source, read.index)
        rows = {a: e for a, e in group.rows[read.source].items() if a in group.extents}
        found.append(dict(zip(rows, compose(tuple(rows.values()), at), strict=True)))
    if not found:
        if not unit.is_reduction:
            return JoinedLoops(None, {}, extents, False, work)
        if any(g.rows for g in held):
            rows = _by_inputs(unit, held, members or {})
            remaining = {a: n for a, n in extents.items() if a in rows}
            return JoinedLoops(rows, {}, remaining, True, work)
        own: IterationMap = {}
        for e in space(unit.meta.shape):
            if e.iter is not None:
                number = next(_NUMBERS)
                own[number] = e
                extents[number] = e.iter.extent
        return JoinedLoops(own, {}, extents, True, work)
    # a loop stays common if all reads agree on the iteration and it does not depend on the
    # iterators that this op reduces
    agreed: IterationMap = {}
    same: dict[int, int] = {}
    for rows in found:
        for axis, iteration in rows.items():
            if inner_iters & iteration.iters or agreed.get(axis, iteration) is not iteration:
                dropped.add(axis)
            else:
                agreed[axis] = iteration
    agreed = {a: t for a, t in agreed.items() if a not in dropped}
    # loops of two groups with one iteration expression are the same loop
    by_iteration: dict[Expr, int] = {}
    for axis, iteration in list(agreed.items()):
        if iteration in by_iteration and iteration.terms:
            same[axis] = by_iteration[iteration]
            del agreed[axis]
        else:
            by_iteration[iteration] = axis
    left = {a: n for a, n in extents.items() if a not in dropped and a not in same}
    common = set(extents)
    for group in held:
        if group.rows:
            common &= {same.get(a, a) for a in group.extents}
    left = {a: n for a, n in left.items() if a in common}
    agreed = {a: t for a, t in agreed.items() if a in common}
    return JoinedLoops(agreed, same, left, False, work)


def gathered(unit: Unit, loops: Loops) -> IterationMap | None:
    """The iteration mapping of a reduction over the common loops themselves.

    It accumulates into memory in each iteration, and its result is complete after the last one
    (for example a bias gradient next to row-wise ops). None if the reduction does not run over the
    common loops, or if a kernel of its own is better: it reduces along the contiguous axis, or
    accumulates into more than ``MAX_GATHERED`` elements.
    """
    value = unit.value
    if not isinstance(value, Reduction) or not lookup(value.op).combiner or not loops.extents:
        return None
    # all operands must be computed at one iteration, else there is none at which to accumulate
    found: IterationMap | None = None
    for read in unit.reads:
        held = loops.rows.get(read.source)
        if held is None:
            continue
        source = space(read.shape)
        own_iters = {e.iter for e in source}
        # what was accumulated in these loops is complete only after them
        if any(a not in held or not own_iters >= held[a].iters for a in loops.extents):
            return None
        at = bindings(source, read.index)
        rows = {a: substitute(held[a], at) for a in loops.extents}
        if found not in (None, rows):
            return None
        found = rows
    parallel_iterations = {a: e.iter for a, e in (found or {}).items()}
    inner = {e.iter for e in space(value.extents, "r")} - {None}
    own = {e.iter for e in space(unit.meta.shape)} - {None}
    taken = set(parallel_iterations.values())
    whole = all(
        i is not None and i.extent == loops.extents[a] for a, i in parallel_iterations.items()
    )
    if (
        found is None
        or not whole
        or len(taken) < len(parallel_iterations)
        or taken.isdisjoint(inner)
    ):
        return None
    if elements([i.extent for i in own - taken if i is not None]) > MAX_GATHERED:
        return None
    # a reduction along the contiguous axis vectorizes better in a kernel of its own
    for read in unit.reads:
        last = read.index[-1].iters if read.index else frozenset[Iter]()
        if not taken.isdisjoint(last) and any(not taken >= e.iters for e in read.index):
            return None
    return found


def _by_inputs(unit: Unit, held: list[Loops], members: Mapping[SSAValue, Unit]) -> IterationMap:
    """The mapping of a reduction whose operands have none, from an input that it shares with
    another reduction of the group.
    """
    extents = unit.value.extents if isinstance(unit.value, Reduction) else ()
    inner = {e.iter for e in space(extents, "r") if e.iter is not None}
    stack = [(r.source, r.shape, r.index) for r in unit.reads]
    met: set[tuple[SSAValue, Index]] = set()
    while stack:
        value, shape, index = stack.pop()
        if (value, index) in met or len(met) == VISIT_LIMIT:
            continue
        met.add((value, index))
        at = bindings(space(shape), index)
        if value in members:
            stack += [(r.source, r.shape, compose(r.index, at)) for r in members[value].reads]
            continue
        for group in held:
            parallel_iterations = {
                a: e for a, e in group.seen.get(value, {}).items() if a in group.extents
            }
            rows = dict(
                zip(
                    parallel_iterations,
                    compose(tuple(parallel_iterations.values()), at),
                    strict=True,
                )
            )
            if rows and not any(inner & e.iters for e in rows.values()):
                return rows
    return {}


def reading(units: Iterable[Unit], loops: Loops) -> dict[SSAValue, IterationMap]:
    """The iteration at which each value is read, by inverting the index maps of its readers."""
    found = dict(loops.rows)
    for unit in reversed(list(units)):
        extents = unit.value.extents if isinstance(unit.value, Reduction) else ()
        outer = (*space(unit.meta.shape), *space(extents, "r"))
        for read in unit.reads if unit.result in found else ():
            back = inverse(read.index, outer, read.shape) if read.source not in found else None
            if back is not None:
                parallel_iterations = {
                    a: e for a, e in found[unit.result].items() if a in loops.extents
                }
                at = bindings(outer, back)
                found[read.source] = {a: substitute(e, at) for a, e in parallel_iterations.items()}
    return found


def propagate(unit: Unit, rows: IterationMap, members: dict[SSAValue, Unit], loops: Loops) -> None:
    """Propagate the mapping of a reduction backwards to the values that it reads, and record the
    iterations at which inputs are read (``seen``).
    """
    stack: list[tuple[Unit, IterationMap]] = [(unit, rows)]
    while stack:
        reader, parallel_iterations = stack.pop()
        extents = reader.value.extents if isinstance(reader.value, Reduction) else ()
        outer = (*space(reader.meta.shape), *space(extents, "r"))
        for read in reader.reads:
            member = members.get(read.source)
            if read.source in loops.rows or (member is not None and member.is_reduction):
                continue
            back = inverse(read.index, outer, read.shape)
            if back is None:
                continue
            at = bindings(outer, back)
            found = dict(
                zip(
                    parallel_iterations,
                    compose(tuple(parallel_iterations.values()), at),
                    strict=True,
                )
            )
            if member is None:
                loops.seen.setdefault(read.source, found)
                continue
            loops.rows[read.source] = found
            stack.append((member, found))
