"""Transpositions that would make a kernel look up single elements instead of rows.

An embedding, or an image that is sampled at positions from data, is read in whole rows: the place
is looked up and compared with its bounds once for each row, whose elements are next to each other.
A kernel that also transposes what is read, or the result, does that for each element. Storing the
rows first costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from xdsl.ir import SSAValue

from pirkit.index.expr import Iter
from pirkit.index.extent import expected
from pirkit.index.index_maps import Index, space
from pirkit.index.substitution import reads_of
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.uses import Reader
from pirkit.runtime.machine_costs import GATHER_ADDS, LAUNCH_ADDS, LOOKUP_ADDS, MEMORY_BYTE_ADDS

_ROW: Final = 16
"""Elements of a row from which it is read in vectors."""


def turns_rows(
    unit: Unit, members: Mapping[SSAValue, Unit], is_free: Callable[[SSAValue], bool], most: int
) -> Refusal | None:
    """The refusal of an op with which a kernel would look up each element of rows, if that costs
    more than to store them; None for other ops.
    """
    inside = [r for r in unit.reads if r.source in members and r.index]
    last = space(unit.meta.shape)[-1].iter if unit.meta.shape else None
    turned = next((r for r in inside if _row(r.index) not in (None, last)), None)
    looked_up = next((r for r in inside if _row(r.index) is last and _is_looked_up(r.index)), None)
    found = turned or looked_up
    if most >= LOOKUP_ADDS or unit.is_reduction or last is None or found is None:
        return None
    if found is turned and not any(r.decides for m in members.values() for r in m.reads):
        return None
    needs = Reader(unit, members, (), is_free).needs()
    if needs is None:
        return None
    every = [i for at in needs.others.values() for i in at if _is_looked_up(i)]
    across = sum(_row(i) not in ((None, last) if found is turned else (last,)) for i in every)
    stored = expected(prod(found.shape)) * 2 * unit.meta.dtype.itemsize * MEMORY_BYTE_ADDS
    if expected(prod(unit.meta.shape)) * across * GATHER_ADDS - stored < LAUNCH_ADDS:
        return None
    reason = "rows at places from data would be read across, each element by a lookup of its own"
    ops = (members[found.source].op, unit.op)
    return Refusal("cost", ops, reason, remedy=f"fuse{{recompute={LOOKUP_ADDS}}}")


def _is_looked_up(index: Index) -> bool:
    return any(map(reads_of, index))


def _row(index: Index) -> Iter | None:
    """The loop along the last axis of what is read, if it is one that reads a row."""
    found = index[-1].iter
    return None if found is None or expected(found.extent) < _ROW else found
