"""At which indices an op needs the values of its kernel, and what tiles could serve of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tiling import Axes, permutes
from pirkit.dialect.types import meta_of
from pirkit.index.index_maps import Index, bindings, compose, space
from pirkit.lowering.fusion.index_conflicts import VISIT_LIMIT, cost_of
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.runtime.meta import TensorMeta

Indices = dict[Index, None]
"""Different indices, in the order in which they were met."""


@dataclass
class Needs:
    """The indices at which an op needs members of its kernel, and other values.

    ``sizes`` are the bytes of an element of the others; ``tiles`` members that tiles can serve, if
    that was asked for.
    """

    members: dict[SSAValue, Indices] = field(default_factory=dict[SSAValue, Indices])
    others: dict[SSAValue, Indices] = field(default_factory=dict[SSAValue, Indices])
    sizes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    tiles: list[Unit] = field(default_factory=list[Unit])


class Reader:
    """An op that is to join a kernel of some members, of which some are held in tiles.

    What is known without reading anything (``is_free``) is made anew wherever it is needed.
    """

    def __init__(
        self,
        unit: Unit,
        members: Mapping[SSAValue, Unit],
        in_tiles: Collection[SSAValue],
        is_free: Callable[[SSAValue], bool],
    ) -> None:
        self.unit, self.members, self.in_tiles, self.is_free = unit, members, in_tiles, is_free

    def needs(self, tile: bool = False) -> Needs | None:
        """What the op needs; None if that is too much to follow.

        What is held in tiles is not looked behind, nor, with ``tile``, what tiles can serve.
        """
        found, left = Needs(), list[tuple[int, SSAValue]]()
        self._add(self.unit, {space(self.unit.meta.shape): None}, found, left)
        count = 0
        while left:
            member = self.members[heapq.heappop(left)[1]]
            indices = found.members[member.result]
            count += len(indices)
            if count > VISIT_LIMIT:
                return None
            if member.result in self.in_tiles or member.is_reduction:
                continue
            if tile and len(indices) > 1 and member.computes and self.permute(member, indices):
                found.tiles.append(member)
                continue
            self._add(member, indices, found, left)
        return found

    def _add(
        self, reader: Unit, at: Indices, found: Needs, left: list[tuple[int, SSAValue]]
    ) -> None:
        """What one op needs at some indices; those that come later in a program are looked at
        first, so that all is known of an op that is.
        """
        here = [bindings(space(reader.meta.shape), index) for index in at]
        for read in reader.reads:
            value = read.source
            indices = {compose(read.index, held): None for held in here}
            if value in self.members:
                if value not in found.members:
                    heapq.heappush(left, (-self.members[value].order, value))
                found.members.setdefault(value, {}).update(indices)
            elif not self.is_free(value):
                found.sizes[value] = cast(TensorMeta, meta_of(value.type)).dtype.itemsize
                found.others.setdefault(value, {}).update(indices)

    def permute(self, member: Unit, indices: Iterable[Index]) -> bool:
        """Whether indices of a member go through all loops of the op, in some order."""
        return all(permutes(self.unit.meta.shape, i, member.meta.shape) for i in indices)

    def additions(self, needs: Needs) -> int:
        """Scalar ops per element that it costs to compute members at all their indices."""
        found = ((self.members[v], len(at) - 1) for v, at in needs.members.items())
        again = ((u, n) for u, n in found if not u.is_reduction and u not in needs.tiles)
        return sum(cost_of(u) * n for u, n in again if u.result not in self.in_tiles)

    @property
    def reduces(self) -> bool:
        """True if the op, or a member, reduces elements."""
        return self.unit.is_reduction or any(u.is_reduction for u in self.members.values())

    def reads_tiles_directly(self, needs: Needs) -> bool:
        """Whether the op can join what is held in tiles: it reads it in the loops that it has."""
        held = ((v, at) for v, at in needs.members.items() if v in self.in_tiles)
        return not self.reduces and all(self.permute(self.members[v], at) for v, at in held)

    def orders(self, indices: Indices) -> list[Axes]:
        """The axes of the op that the axes of a value go along, by index; single elements have
        none.
        """
        own = [e.iter.name for e in space(self.unit.meta.shape) if e.iter is not None]
        return [tuple([own.index(e.iter.name) for e in i if e.iter is not None]) for i in indices]
