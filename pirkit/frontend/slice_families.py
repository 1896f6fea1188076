"""Which operations of a program are the same for each slice ``y[0]``, ``y[1]``... of a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, MutableMapping
from math import prod
from typing import Any, Final, cast

from msgspec import Struct, field
from xdsl.ir import Attribute, Block, SSAValue

from pirkit.analysis.effects import is_pure
from pirkit.analysis.linear_forms import GRADIENT
from pirkit.analysis.row_dependence import depends_by_rows
from pirkit.dialect.operation import PirOp, ProgramOp, span_of
from pirkit.dialect.types import meta_of
from pirkit.frontend.unrolled_loops import LEAST, slice_of
from pirkit.passes.base import Remark
from pirkit.runtime.meta import TensorMeta

_MOST_COLUMNS: Final = 16
"""Most columns of a variable in derivatives of all slices: each takes one forward derivative."""
_MOST_BYTES: Final = 1 << 26
"""Most bytes of a value of all slices: a loop over larger slices may be there to save memory."""
_MOST_REMARKS: Final = 3

Arrays = MutableMapping[str, Any]


class Lane(Struct, frozen=True):
    """Where a value of an iteration is: the family, which result of its operations, which slice."""

    family: Family
    result: int
    lane: int


class Family(Struct, eq=False):
    """Operations that are the same but for the slice."""

    first: PirOp
    count: int
    """The number of slices of the tensor."""
    source: SSAValue | None = None
    """The tensor, if the operations are those that take its slices."""
    ops: dict[int, PirOp] = field(default_factory=dict[int, PirOp])
    """The operations by the number of the slice."""
    operands: tuple[Family, ...] = ()
    """The families whose results they read."""
    is_kept: bool = True
    """Whether one operation on all slices replaces them."""


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast(TensorMeta, meta_of(value.type)).shape


def _nbytes(value: SSAValue) -> int:
    meta = meta_of(value.type)
    return meta.numel * meta.dtype.itemsize if isinstance(meta, TensorMeta) else 0


class Finder:
    """The families of a program."""

    def __init__(self, program: ProgramOp, captured: Arrays) -> None:
        self.block: Block = program.block
        self.lanes: dict[SSAValue, Lane] = {}
        self.families: dict[Hashable, Family] = {}
        self.ends: dict[PirOp, tuple[Lane, list[PirOp]]] = {}
        """Lists of the same result of all slices, with the operations that stack them."""
        self.sums: dict[PirOp, list[PirOp]] = {}
        """Sums of results of slices by their last addition: the additions in order."""
        self.added: dict[PirOp, set[Family]] = {}
        """By such an addition: families of which the sum has the results of all slices."""
        self.refused: dict[PirOp, str] = {}
        """Why an operation that reads a slice is in no family."""
        self.captured = captured
        self._by_rows: dict[tuple[SSAValue, SSAValue], bool] = {}
        self._uses: Counter[Hashable] = Counter()

    def run(self) -> None:
        """Follow the operations of the block in order."""
        sums = _sums(self.block)
        for each in list(self.block.ops):
            op = cast(PirOp, each)
            cut = slice_of(op)
            count = 0 if cut is None else _shape(op.operands[0])[0]
            if cut is not None and op.operands[0] not in self.lanes and count >= LEAST:
                key = "slice", op.operands[0], cut.drops, cut.cuts
                self._enter(key, op, cut.row, count, op.operands[0])
            elif any(v in self.lanes for v in op.operands):
                self._member(op)
            if op in sums:
                self._sum(sums[op])

    def _sum(self, additions: list[PirOp]) -> None:
        # The first addition may add two results of the first slice, as an addition of each other
        # slice does: then the sum over the slices begins after it.
        chains = [chain for chain in (additions, additions[1:]) if self._families_of(chain)]
        for chain in chains[:1]:
            self.sums[chain[-1]] = chain
            self.added.update(dict.fromkeys(chain, self._families_of(chain)))
            for op in chain:  # the sum is no result of a slice
                self.lanes.pop(op.results[0], None)

    def _families_of(self, additions: list[PirOp]) -> set[Family]:
        """The families of which a sum has the results of all slices."""
        given = [lane for v in terms_of(additions) if (lane := self.lanes.get(v)) is not None]
        found: dict[Family, list[tuple[int, int]]] = {}
        for lane in given:
            found.setdefault(lane.family, []).append((lane.result, lane.lane))
        return {
            family
            for family, places in found.items()
            if len({lane for _, lane in places}) == family.count
            and len(places) == len(set(places)) == family.count * len({r for r, _ in places})
        }

    def _key(self, op: PirOp, operands: Hashable) -> Hashable:
        types = tuple([r.type for r in op.results])
        own = [(k, v) for k, v in op.attributes.items() if k == "stop_gradient"]
        return op.name, operands, tuple(op.call_properties.items()), tuple(own), types

    def _member(self, op: PirOp) -> None:
        """Enter an operation that reads results of slices, or note why it is in no family."""
        given = [self.lanes.get(v) for v in op.operands]
        lanes = [g for g in given if g is not None]
        if op.name == "pir.combine" and len({g.lane for g in lanes}) > 1:
            self._end(op, given)
        refused = self._refusal(op, lanes)
        if refused:
            self.refused[op] = refused
            return
        pairs = zip(given, op.operands, strict=True)
        reads = tuple(
            [(id(g.family), g.result) if g is not None else self._read(op, v) for g, v in pairs]
        )
        key = self._key(op, reads)
        lane, count = lanes[0].lane, lanes[0].family.count
        self._uses[key, lane] += 1
        family = self._enter((key, self._uses[key, lane]), op, lane, count, None)
        family.operands = tuple({g.family: None for g in lanes})

    def _refusal(self, op: PirOp, lanes: list[Lane]) -> str:
        """Why an operation is in no family; empty if it is in one."""
        if len({(g.lane, g.family.count) for g in lanes}) > 1:
            return "reads several slices, other than to stack them along axis 0 or to add them up"
        if not is_pure(op) or op.regions:
            return "has no form for all slices"
        if op.name == GRADIENT and not self._is_by_shared(op):
            return "is a derivative other than of rows by the same rows of what all slices share"
        if any(_nbytes(r) * lanes[0].family.count > _MOST_BYTES for r in op.results):
            return f"takes more than {_MOST_BYTES >> 20} MiB for all slices"
        return ""

    def _read(self, op: PirOp, value: SSAValue) -> Any:
        """What operations of one family have in common in an operand from outside of the slices.

        Captured arrays only need the same type, other values have to be the same.
        """
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == "pd_op.data":
            if owner.attribute("name") in self.captured:
                return "captured", value.type, op.operands.index(value)
        return value

    def _enter(
        self, key: Hashable, op: PirOp, lane: int, count: int, source: SSAValue | None
    ) -> Family:
        """Put an operation into the family of a key."""
        family = self.families.setdefault(key, Family(op, count, source))
        family.ops[lane] = op
        for i, result in enumerate(op.results):
            self.lanes[result] = Lane(family, i, lane)
        return family

    def _end(self, op: PirOp, given: list[Lane | None]) -> None:
        """Note a list of the same result of all slices in order, if it is stacked along axis 0."""
        first = given[0]
        if first is None or len(given) != first.family.count:
            return
        at = [(g.family, g.result, g.lane) if g is not None else None for g in given]
        if at == [(first.family, first.result, k) for k in range(len(given))]:
            users = [cast(PirOp, use.operation) for use in op.results[0].uses]
            if all(u.name == "pd_op.stack" and u.attribute("axis") == 0 for u in users):
                self.ends[op] = first, users

    def _is_by_shared(self, op: PirOp) -> bool:
        """Whether a derivative is of each row of a slice by the same row of shared tensors only."""
        if op.attribute("targets") != 1 or any(v in self.lanes for v in op.operands[1:]):
            return False
        (target, _, *wrt) = op.operands
        lane = self.lanes[target]
        rows = _shape(target)
        for x in wrt:
            shape = _shape(x)
            if not rows or shape[:1] != rows[:1] or prod(shape[1:]) > _MOST_COLUMNS:
                return False
        first = lane.family.first.results[lane.result]
        for x in wrt:
            if (first, x) not in self._by_rows:
                self._by_rows[first, x] = depends_by_rows(first, x) is None
        return all(self._by_rows[first, x] for x in wrt)

    # --- which are kept ---

    def keep(self) -> bool:
        """Leave out families of which a slice is missing, or is read elsewhere.

        Returns whether there is anything left to replace.
        """
        families = list(self.families.values())
        for family in families:
            family.is_kept = len(family.ops) == family.count
        # A family that is left out reads slices of others, which are left out in the next round.
        before = -1
        while before != (before := sum(f.is_kept for f in families)):
            for family in reversed(families):
                family.is_kept = family.is_kept and self._is_closed(family)
            for family in families:
                family.is_kept = family.is_kept and all(f.is_kept for f in family.operands)
        held = [lane.family for lane, _ in self.ends.values()]
        return any(f.is_kept for f in (*held, *(f for fs in self.added.values() for f in fs)))

    def remarks(self) -> list[Remark]:
        """Why loops stay unrolled: the operations that read results of single slices."""
        found: dict[str, Remark] = {}
        for family in self.families.values():
            if len(family.ops) == family.count:
                for user in self._outside(family):
                    lane = self.lanes.get(user.results[0]) if user.results else None
                    some = lane is not None and len(lane.family.ops)
                    if some == family.count:
                        continue  # a family with all slices: the reason is where it is read
                    why = self.refused.get(user, "reads a single slice")
                    if some:
                        why = f"is the same, numbers included, for {some} of the slices only"
                    message = (
                        f"a loop over {family.count} slices stays unrolled: `{user.name}` {why}"
                    )
                    found.setdefault(message, Remark("missed", "reroll", message, span_of(user)))
        return list(found.values())[:_MOST_REMARKS]

    def _is_closed(self, family: Family) -> bool:
        return family.source is not None or next(self._outside(family), None) is None

    def _outside(self, family: Family) -> Iterator[PirOp]:
        """The operations that read results of single slices."""
        for op in family.ops.values():
            for result in op.results:
                for use in result.uses:
                    user = cast(PirOp, use.operation)
                    if not self._is_inside(user, family):
                        yield user

    def _is_inside(self, op: PirOp, read: Family) -> bool:
        if op in self.ends or read in self.added.get(op, ()):
            return True
        lane = self.lanes.get(op.results[0]) if op.results else None
        return lane is not None and lane.family.is_kept and lane.family.ops[lane.lane] is op


def _sums(block: Block) -> dict[PirOp, list[PirOp]]:
    """Sums of many terms, by their last addition: the additions in order."""
    found: dict[PirOp, list[PirOp]] = {}
    for each in block.ops:
        op = cast(PirOp, each)
        if op.name == "pd_op.add" and _adds_floats(op):
            owners = [cast(PirOp, v.owner) for v in op.operands if v.owner in found]
            before = [o for o in owners if o.results[0].has_one_use() and _type(o) == _type(op)]
            additions = found.pop(before[0]) if before else []
            additions.append(op)
            found[op] = additions
    return {op: additions for op, additions in found.items() if len(additions) >= LEAST - 1}


def _adds_floats(op: PirOp) -> bool:
    """Whether an addition is of floats, and at most one operand is broadcast."""
    meta = meta_of(_type(op))
    is_float = isinstance(meta, TensorMeta) and meta.dtype.is_float
    return is_float and any(v.type == _type(op) for v in op.operands)


def _type(op: PirOp) -> Attribute:
    return op.results[0].type


def terms_of(additions: list[PirOp]) -> list[SSAValue]:
    """The terms of a sum, given its additions."""
    between = {op.results[0] for op in additions[:-1]}
    return [v for op in additions for v in op.operands if v not in between]
