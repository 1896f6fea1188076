"""Chooses values that a kernel recomputes instead of reading them from another kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from xdsl.ir import SSAValue

from pirkit.index.extent import expected
from pirkit.lowering.fusion.groups import Group
from pirkit.lowering.fusion.index_conflicts import cost_of
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.lowering.fusion.overlapping import BROADCAST_SHARE, broadcasts_of
from pirkit.lowering.fusion.turned_rows import turns_rows
from pirkit.runtime.meta import TensorMeta


def again(
    unit: Unit,
    values: Iterable[SSAValue],
    held: Mapping[SSAValue, None],
    found: Equations,
    most: int,
    group: Group,
) -> list[Unit]:
    """The ops to recompute in the ``group`` of ``unit`` instead of reading some of ``values``.

    They cost at most ``most`` additions per element and read fewer bytes than the value has, not
    counting what the kernel reads anyway (``held``). If nobody else reads the value, up to 2.25
    times its bytes are allowed, as it is then neither written nor waited for. Values that ops of
    the kernel use as indices have to be stored, so none of these is recomputed, nor are
    transpositions of what it looks up by rows.
    """
    made: dict[SSAValue, Unit] = {}
    decide = group.places | _deciding([unit])
    for value in values:
        source = found.unit_of(value)
        if source is None or source.is_free or value in made:
            continue
        chain = _chain(source, found, held, most)
        if chain is None or any(u.result in decide for u in chain[0]):
            continue
        members = {u.result: u for u in chain[0]}
        if turns_rows(unit, members, found.is_free, most) is not None:
            continue
        places = _deciding(chain[0])
        if not places.isdisjoint(group.units) or not places.isdisjoint(made):
            continue
        size = _size(value, found)
        alone = all(use.operation is unit.op for use in value.uses)
        limit = 2 * size + size // 4 if alone else size - 1
        if sum(_size(v, found) for v in chain[1] if v not in held) <= limit:
            made |= members
            decide |= places
            most -= chain[2]
    return list(made.values())


def _chain(
    unit: Unit, found: Equations, held: Mapping[SSAValue, None], most: int
) -> tuple[list[Unit], set[SSAValue], int] | None:
    """The ops that compute a value from materialized ones, what they read, and their cost in
    additions per element; None if that exceeds ``most`` or needs a reduction.
    """
    chain: dict[SSAValue, Unit] = {}
    reads: set[SSAValue] = set()
    stack = [unit]
    cost = 0
    while stack:
        unit = stack.pop()
        if unit.result in chain:
            continue
        cost += cost_of(unit)
        if unit.is_reduction or cost > most or len(chain) > most:
            return None
        chain[unit.result] = unit
        decide = _deciding([unit])
        broadcasts = broadcasts_of(unit, found)
        for value in unit.tensors:
            source = found.unit_of(value)
            if value in broadcasts and broadcasts[value].cost > most // BROADCAST_SHARE:
                chain |= {u.result: u for u in broadcasts[value].moves}
                reads.add(broadcasts[value].value.result)
            elif source is None or source.is_reduction or value in decide or value in held:
                reads.add(value)
            elif not source.is_free:
                stack.append(source)
    return None if reads & chain.keys() else (list(chain.values()), reads, cost)


def _deciding(units: Iterable[Unit]) -> set[SSAValue]:
    """The values that decide where ops read others."""
    return {r.source for u in units for r in u.reads if r.decides}


def _size(value: SSAValue, found: Equations) -> int:
    """Bytes of a value; dynamic sizes count as their expected value."""
    meta = cast(TensorMeta, found.shapes.named(value))
    return expected(meta.numel) * meta.dtype.itemsize
