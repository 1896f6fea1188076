"""Loops that Python unrolled, as operations on whole tensors.

A function that computes the same of ``y[0]``, ``y[1]``... and stacks what it finds is recorded as
one copy of its body for each slice, and all that follows takes as many times longer. Operations
that are the same but for the slice that they read are a family; one operation on all slices
replaces it, by the batching rules of `vmap`.

A derivative of each ``y[k]`` by one tensor that all share becomes one forward derivative for each
column of that tensor: of ``y`` as a whole, a reverse sweep would give the sum over the slices only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, MutableMapping
from contextlib import suppress
from math import prod
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from pirkit.analysis.effects import is_pure
from pirkit.analysis.linear_forms import GRADIENT
from pirkit.analysis.row_dependence import depends_by_rows
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched
from pirkit.frontend.batching_regions import Rows
from pirkit.frontend.vmap import all_rows
from pirkit.passes.base import PassContext
from pirkit.passes.cse import CsePass
from pirkit.passes.replace_ops import erase, replace
from pirkit.runtime.meta import TensorMeta

_LEAST: Final = 8
"""Slices from which on a loop is rerolled: fewer leave the program one loop over points."""
_MOST_COLUMNS: Final = 16
"""Columns of a variable up to which derivatives of all slices are forward ones."""
_MOST_COMPARED: Final = 1 << 16
"""Bytes up to which arrays are compared."""

Arrays = MutableMapping[str, Any]


class _Lane(Struct, frozen=True):
    """Where a value of an iteration is: the family, which result of its operations, the slice."""

    family: _Family
    result: int
    lane: int


class _Family(Struct, eq=False):
    """Operations that are the same but for the slice; ``source`` is the tensor of slices."""

    first: PirOp
    count: int
    source: SSAValue | None = None
    ops: dict[int, PirOp] = field(default_factory=dict[int, PirOp])
    operands: tuple[_Family, ...] = ()
    is_kept: bool = True


def reroll(module: ModuleOp, program: ProgramOp, captured: Arrays) -> None:
    """Replace what a program computes slice by slice and stacks.

    ``captured`` are the arrays of the program by the names of its inputs, and get those that stand
    for different arrays of the slices.
    """
    if not any(count >= _LEAST for count in _slices(program).values()):
        return
    _merge_equal(program, captured)
    CsePass().run(PassContext("cse", sum(1 for _ in program.operations)), module)
    found = _Finder(program, captured)
    found.run()
    if found.keep():
        # What has no form for all slices leaves the program as it was, but for unused operations.
        with suppress(UnsupportedError):
            _emit(found, captured)


def _merge_equal(program: ProgramOp, captured: Arrays) -> None:
    """Let one input stand for arrays of the same content."""
    known: dict[Hashable, SSAValue] = {}
    for op in program.operations:
        array = captured.get(op.attribute("name")) if op.name == "pd_op.data" else None
        if array is not None and (held := np.asarray(array)).nbytes <= _MOST_COMPARED:
            key = (held.dtype, held.shape, held.tobytes())
            first = known.setdefault(key, op.results[0])
            if first is not op.results[0]:
                op.results[0].replace_all_uses_with(first)


def _slices(program: ProgramOp) -> Counter[SSAValue]:
    return Counter(op.operands[0] for op in program.operations if _lane_of(op) is not None)


def _lane_of(op: PirOp) -> int | None:
    """The k of ``y[k]``."""
    if op.name != "pd_op.slice" or len(op.operands) > 1 or any(op.stop_gradient):
        return None
    begin, end = op.attribute("starts"), op.attribute("ends")
    alone = list(op.attribute("axes")) == [0] == list(op.attribute("decrease_axis"))
    return begin[0] if alone and 0 <= begin[0] == end[0] - 1 else None


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast(TensorMeta, meta_of(value.type)).shape


class _Finder:
    """The families of a program."""

    def __init__(self, program: ProgramOp, captured: Arrays) -> None:
        self.block: Block = program.block
        self.lanes: dict[SSAValue, _Lane] = {}
        self.families: dict[Hashable, _Family] = {}
        self.ends: dict[PirOp, tuple[_Lane, list[PirOp]]] = {}
        """Lists of the same result of all slices, with the operations that stack them."""
        self.captured = captured
        self._by_rows: dict[tuple[SSAValue, SSAValue], bool] = {}
        self._uses: Counter[Hashable] = Counter()

    def run(self) -> None:
        """Follow the operations of the block in order."""
        for each in list(self.block.ops):
            op = cast(PirOp, each)
            lane = _lane_of(op)
            count = 0 if lane is None else _shape(op.operands[0])[0]
            if lane is not None and op.operands[0] not in self.lanes and count >= _LEAST:
                self._enter(("slice", op.operands[0]), op, lane, count, op.operands[0])
            elif any(v in self.lanes for v in op.operands):
                self._member(op)

    def _key(self, op: PirOp, operands: Hashable) -> Hashable:
        types = tuple([r.type for r in op.results])
        own = [(k, v) for k, v in op.attributes.items() if k == "stop_gradient"]
        return op.name, operands, tuple(op.call_properties.items()), tuple(own), types

    def _member(self, op: PirOp) -> None:
        given = [self.lanes.get(v) for v in op.operands]
        lanes = [g for g in given if g is not None]
        if op.name == "pir.combine" and len({g.lane for g in lanes}) > 1:
            self._end(op, given)
        if len({(g.lane, g.family.count) for g in lanes}) > 1 or not is_pure(op) or op.regions:
            return
        if op.name == GRADIENT and not self._is_by_shared(op):
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

    def _read(self, op: PirOp, value: SSAValue) -> Any:
        """What operations of one family have in common of what they share: arrays may differ."""
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == "pd_op.data":
            if owner.attribute("name") in self.captured:
                return "captured", value.type, op.operands.index(value)
        return value

    def _enter(
        self, key: Hashable, op: PirOp, lane: int, count: int, source: SSAValue | None
    ) -> _Family:
        family = self.families.setdefault(key, _Family(op, count, source))
        family.ops[lane] = op
        for i, result in enumerate(op.results):
            self.lanes[result] = _Lane(family, i, lane)
        return family

    def _end(self, op: PirOp, given: list[_Lane | None]) -> None:
        first = given[0]
        if first is None or len(given) != first.family.count:
            return
        at = [(g.family, g.result, g.lane) if g is not None else None for g in given]
        if at == [(first.family, first.result, k) for k in range(len(given))]:
            users = [cast(PirOp, use.operation) for use in op.results[0].uses]
            if all(u.name == "pd_op.stack" and u.attribute("axis") == 0 for u in users):
                self.ends[op] = first, users

    def _is_by_shared(self, op: PirOp) -> bool:
        """Whether a derivative is one of each row of a slice by the same row of a shared tensor."""
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
        """Leave out families of which a slice is missing, or is read elsewhere."""
        families = list(self.families.values())
        for family in families:
            family.is_kept = len(family.ops) == family.count
        before = -1
        while before != (before := sum(f.is_kept for f in families)):
            for family in reversed(families):
                family.is_kept = family.is_kept and self._is_closed(family)
            for family in families:
                family.is_kept = family.is_kept and all(f.is_kept for f in family.operands)
        return any(lane.family.is_kept for lane, _ in self.ends.values())

    def _is_closed(self, family: _Family) -> bool:
        if family.source is not None:
            return True
        uses = (use.operation for op in family.ops.values() for r in op.results for use in r.uses)
        return all(self._is_inside(cast(PirOp, user)) for user in uses)

    def _is_inside(self, op: PirOp) -> bool:
        if op in self.ends:
            return True
        lane = self.lanes.get(op.results[0]) if op.results else None
        return lane is not None and lane.family.is_kept and lane.family.ops[lane.lane] is op


def _emit(found: _Finder, captured: Arrays) -> None:
    whole: dict[SSAValue, Any] = {}
    """By a value of the first slice of a family: what stands for the values of all slices."""
    for family in found.families.values():
        if not family.is_kept:
            continue
        first = family.first
        b = Builder(found.block, first, location=first.location)
        if family.source is not None:
            whole[first.results[0]] = Batched(b.wrap(family.source), True)
            continue
        values: dict[SSAValue, Any] = {}
        for k, value in enumerate(first.operands):
            lane = found.lanes.get(value)
            if lane is not None:
                values[value] = whole[lane.family.first.results[lane.result]]
            else:
                values[value] = _of_all(b, family, k, captured)
        made = _derivatives(b, first, values) if first.name == GRADIENT else \
            _batched(b, first, values, family.count)  # fmt: skip
        whole.update(zip(first.results, made, strict=True))
    for lane, users in found.ends.values():
        if lane.family.is_kept:
            held = whole[lane.family.first.results[lane.result]]
            for user in users:
                b = Builder(found.block, user, location=user.location)
                replace(user, [all_rows(b, held, lane.family.count).ssa])
    for op in [cast(PirOp, op) for op in reversed(list(found.block.ops))]:
        if op.results and not any(r.uses for r in op.results):
            if is_pure(op):
                erase(op)
            elif op.name == "pd_op.data" and captured.pop(op.attribute("name"), None) is not None:
                erase(op)


def _of_all(b: Builder, family: _Family, k: int, captured: Arrays) -> Batched:
    """An operand from outside: the same for all slices, or an array for each of them."""
    values = [family.ops[i].operands[k] for i in range(family.count)]
    if len(set(values)) == 1:
        return Batched(b.wrap(values[0]), False)
    owners = [cast(PirOp, v.owner) for v in values]
    name = f"captured{len(captured)}"
    captured[name] = np.stack([np.asarray(captured[o.attribute("name")]) for o in owners])
    meta, place = cast(TensorMeta, meta_of(values[0].type)), owners[0].attribute("place")
    shape = (family.count, *meta.shape)
    return Batched(b("pd_op.data", name=name, shape=shape, dtype=meta.dtype, place=place), True)


def _batched(b: Builder, op: PirOp, values: Mapping[SSAValue, Any], count: int) -> list[Any]:
    """The results of an operation on all slices."""
    block, clone = Block(), op.clone()
    end = create("pir.yield", clone.results)
    block.add_ops([clone, end])
    rows = Rows.of(b, count, block)
    rows.values.update(values)
    rows.run(clone)
    found = [rows.values[v] for v in end.operands]
    for each in reversed(list(block.ops)):
        each.detach()
        each.erase(safe_erase=False)
    return found


def _derivatives(b: Builder, op: PirOp, values: Mapping[SSAValue, Any]) -> list[Batched]:
    """The derivatives of all slices by shared tensors, along one column after the other."""
    target, cotangent = values[op.operands[0]].value, op.operands[1]
    found: list[Batched] = []
    for variable in op.operands[2:]:
        x = b.wrap(variable)
        columns: list[Value] = []
        for place in np.ndindex(*x.shape[1:]):
            unit = np.zeros(x.shape[1:])
            unit[place] = 1.0
            moved = b("pir.jet", target, x, _rows(b, x, unit), targets=1, given=(1,), order=1)
            if fill_value(cotangent) != 1:
                moved = b.multiply(moved, b.wrap(cotangent))
            over = tuple(range(2, moved.rank))
            columns.append(b.sum(moved, over, keepdim=False))
        joined = columns[0] if len(columns) == 1 else b("pd_op.stack", columns, axis=2)
        found.append(Batched(b.reshape(joined, (target.shape[0], *x.shape)), True))
    return found


def _rows(b: Builder, x: Value, row: np.ndarray[Any, Any]) -> Value:
    """A tensor like ``x`` with the same numbers in each row."""
    if (row == 1).all():
        return b.like(1.0, x)
    made = b.assign_value(shape=(1, *row.shape), dtype=x.dtype, values=row.ravel().tolist())
    return b.expand_like(made, x)
