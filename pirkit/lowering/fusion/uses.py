"""Computes at which indices an op needs the values of its kernel, and which of them tiles could
provide.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from math import prod
from typing import cast

from msgspec import Struct, field
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tiling import Axes, permutes
from pirkit.dialect.types import meta_of
from pirkit.index.extent import expected
from pirkit.index.index_maps import Index, space
from pirkit.lowering.fusion.index_conflicts import VISIT_LIMIT, cost_of
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.runtime.meta import TensorMeta

Indices = dict[Index, None]
"""Distinct indices, in order of first use."""


class Needs(Struct):
    """The indices at which an op needs members of its kernel, and values from outside.

    ``sizes`` are the element sizes in bytes of the latter; ``tiles`` are members that tiles can
    provide (only with ``tile=True``).
    """

    members: dict[SSAValue, Indices] = field(default_factory=dict[SSAValue, Indices])
    others: dict[SSAValue, Indices] = field(default_factory=dict[SSAValue, Indices])
    sizes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    tiles: list[Unit] = field(default_factory=list[Unit])


class Reader:
    """An op that may join a kernel with some members, of which some are tiled.

    Constant-like values (``is_free``) are rematerialized at each use and never counted.
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
        """The indices that the op needs; None if there are more than ``VISIT_LIMIT``.

        The search stops at tiled values and, with ``tile``, at values that tiles can provide.
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
        """Add what one op needs at some indices. Members are visited in reverse program order, so
        that all indices of a member are known when it is visited.
        """
        found_at = [reader.reads_at(index) for index in at]
        for k, read in enumerate(reader.reads):
            value = read.source
            indices = {each[k]: None for each in found_at}
            if value in self.members:
                if value not in found.members:
                    heapq.heappush(left, (-self.members[value].order, value))
                found.members.setdefault(value, {}).update(indices)
            elif not self.is_free(value):
                found.sizes[value] = cast(TensorMeta, meta_of(value.type)).dtype.itemsize
                found.others.setdefault(value, {}).update(indices)

    def permute(self, member: Unit, indices: Iterable[Index]) -> bool:
        """Whether each index of a member is a permutation of the op's loops."""
        return all(permutes(self.unit.meta.shape, i, member.meta.shape) for i in indices)

    def additions(self, needs: Needs) -> int:
        """The cost of recomputing members at their further indices, in additions per element."""
        several = [self.members[v] for v, at in needs.members.items() if len(at) > 1]
        # An op has fewer elements than a member whose slices it reads: each slice is computed once,
        # as long as they are not more than the member has, and nobody else needs all of it.
        here = {self.unit.op, *(self.members[v].op for v in needs.members)}
        own = max(expected(prod(self.unit.meta.shape)), 1)
        is_sliced = all(use.operation in here for u in several for use in u.result.uses)
        cost = 0
        for u in several:
            if not (u.is_reduction or u in needs.tiles or u.result in self.in_tiles):
                once = expected(prod(u.meta.shape)) // own if is_sliced else 1
                cost += cost_of(u) * max(len(needs.members[u.result]) - max(once, 1), 0)
        return cost

    @property
    def reduces(self) -> bool:
        """True if the op or a member is a reduction."""
        return self.unit.is_reduction or any(u.is_reduction for u in self.members.values())

    def reads_tiles_directly(self, needs: Needs) -> bool:
        """Whether the op can join a tiled kernel: it reads tiles by permutations of its loops."""
        held = ((v, at) for v, at in needs.members.items() if v in self.in_tiles)
        return not self.reduces and all(self.permute(self.members[v], at) for v, at in held)

    def orders(self, indices: Indices) -> list[Axes]:
        """For each index, the op's axis of each axis of the value (without axes of one element)."""
        own = [e.iter.name for e in space(self.unit.meta.shape) if e.iter is not None]
        return [tuple([own.index(e.iter.name) for e in i if e.iter is not None]) for i in indices]
