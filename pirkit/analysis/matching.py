"""Which operations of two programs correspond, by what they compute and by who uses them.

Names and numbers of values do not count, so that all others stay matched when a pass removes four
operations of a thousand. Three steps, each linear in the size of the programs, match

1. operations that compute the same of the same inputs (a hash of everything above them);
2. of the others, those whose results are used in the same way (a hash of everything below them);
3. of the others, those of the same name that are next to matched ones: they make the same operand,
   or use the same result.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.op_ids import OP_ID
from pirkit.dialect.operation import bodies, with_nested


class Matching(Struct, frozen=True):
    """The operations of two modules that correspond."""

    pairs: Mapping[Operation, Operation]
    """Operation of the first module -> operation of the second."""
    removed: tuple[Operation, ...]
    """Operations of the first module without a partner, in order."""
    added: tuple[Operation, ...]
    """Operations of the second module without a partner, in order."""

    def values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """Pairs of values that correspond: results and block arguments of matched operations."""
        for old, new in self.pairs.items():
            yield from zip(_defined(old), _defined(new), strict=False)

    def changed(self) -> Iterator[tuple[Operation, Operation]]:
        """Pairs whose attributes, types or operands differ."""
        partners = dict(self.values())
        for old, new in self.pairs.items():
            operands = [partners.get(value) for value in old.operands]
            if _label(old) != _label(new) or operands != list(new.operands):
                yield old, new


def match_programs(first: ModuleOp, second: ModuleOp) -> Matching:
    """Match the operations of two modules."""
    matcher = _Matcher(list(with_nested(first)), list(with_nested(second)))
    matcher.pair(matcher.first[0], matcher.second[0])  # the modules
    matcher.match(_keys_from_inputs)
    matcher.match(_keys_from_users)
    matcher.match_neighbours(_sole_users)
    matcher.match_neighbours(_users)
    pairs, partners = matcher.pairs, matcher.partners
    removed = tuple(op for op in matcher.first if op not in pairs)
    return Matching(pairs, removed, tuple(op for op in matcher.second if op not in partners))


_Numbers = dict[Hashable, int]
_Keys = Callable[[Sequence[Operation], Mapping[Operation, int], _Numbers], Mapping[Operation, int]]
"""Gives each operation a number; equal numbers in two programs make a pair. It takes the operations
in order, the numbers of pairs found before, and a table of numbers that both programs share."""


class _Matcher:
    def __init__(self, first: Sequence[Operation], second: Sequence[Operation]) -> None:
        self.first = first
        self.second = second
        self.pairs: dict[Operation, Operation] = {}
        self.partners: dict[Operation, Operation] = {}

    def pair(self, old: Operation, new: Operation) -> None:
        self.pairs[old] = new
        self.partners[new] = old

    def match(self, keys_of: _Keys) -> None:
        """Pair operations of equal keys: the first with the first, the second with the second."""
        numbers: _Numbers = {}
        known = {op: -1 - index for index, op in enumerate(self.pairs)}
        keys = keys_of(self.first, known, numbers)
        known = {new: known[old] for old, new in self.pairs.items()}
        new_keys = keys_of(self.second, known, numbers)
        waiting: defaultdict[int, deque[Operation]] = defaultdict(deque)
        for op in self.first:
            if op not in self.pairs:
                waiting[keys[op]].append(op)
        for op in self.second:
            if op not in self.partners and waiting[new_keys[op]]:
                self.pair(waiting[new_keys[op]].popleft(), op)

    def match_neighbours(self, users_of: _Users) -> None:
        """Pair neighbours of pairs, and theirs, as long as there are any."""
        queue = deque(self.pairs.items())
        while queue:
            old, new = queue.popleft()
            for pair in (*_producers(old, new), *self._users(old, new, users_of)):
                if pair[0].name == pair[1].name and self._is_free(*pair):
                    self.pair(*pair)
                    queue.append(pair)

    def _is_free(self, old: Operation, new: Operation) -> bool:
        return old not in self.pairs and new not in self.partners

    def _users(
        self, old: Operation, new: Operation, users_of: _Users
    ) -> Iterator[tuple[Operation, Operation]]:
        for before, after in zip(_defined(old), _defined(new), strict=False):
            others = users_of(after, self.partners)
            for key, users in users_of(before, self.pairs).items():
                yield from zip(users, others.get(key, ()), strict=False)


def _producers(old: Operation, new: Operation) -> Iterator[tuple[Operation, Operation]]:
    for before, after in zip(old.operands, new.operands, strict=False):
        if isinstance(before, OpResult) and isinstance(after, OpResult):
            yield before.op, after.op


_Users = Callable[[SSAValue, Mapping[Operation, Any]], Mapping[Hashable, list[Operation]]]


def _users(value: SSAValue, matched: Mapping[Operation, Any]) -> dict[Hashable, list[Operation]]:
    """The users of a value that are not matched, by name and position of the operand."""
    found: defaultdict[Hashable, list[Operation]] = defaultdict(list)
    for use in value.uses:
        if use.operation not in matched:
            found[use.operation.name, use.index].append(use.operation)
    return found


def _sole_users(
    value: SSAValue, matched: Mapping[Operation, Any]
) -> Mapping[Hashable, list[Operation]]:
    """The users that cannot be replaced by another one, matched ones included."""
    every = _users(value, {})
    return {k: v for k, v in _users(value, matched).items() if len(every[k]) == 1}


def _keys_from_inputs(
    ops: Sequence[Operation], known: Mapping[Operation, int], numbers: _Numbers
) -> Mapping[Operation, int]:
    keys: dict[Operation, int] = {}

    def key_of(value: SSAValue) -> Hashable:
        if isinstance(value, OpResult):
            return keys[value.op], value.index
        block = value.owner
        parent = block.parent_op() if not isinstance(block, Operation) else None
        region = block.parent if not isinstance(block, Operation) else None
        place = parent.regions.index(region) if parent and region else 0
        return keys[parent] if parent else 0, place, getattr(value, "index", 0), "argument"

    for op in ops:
        parent = op.parent_op()
        key = (_label(op), *map(key_of, op.operands), "in", keys[parent] if parent else None)
        keys[op] = known[op] if op in known else numbers.setdefault(key, len(numbers))
    return keys


def _keys_from_users(
    ops: Sequence[Operation], known: Mapping[Operation, int], numbers: _Numbers
) -> Mapping[Operation, int]:
    keys: dict[Operation, int] = {}
    for op in reversed(ops):
        if op in known:
            keys[op] = known[op]
            continue
        users = (sorted((keys[u.operation], u.index) for u in r.uses) for r in op.results)
        keys[op] = numbers.setdefault((_label(op), *map(tuple, users)), len(numbers))
    return keys


def _defined(op: Operation) -> list[SSAValue]:
    """Results of an operation, and arguments of its blocks."""
    return [*op.results, *(arg for region in bodies(op) for arg in region.block.args)]


def _label(op: Operation) -> Hashable:
    """The label of an operation: all of it except its operands and the operations inside."""
    types = tuple(result.type for result in op.results)
    if isinstance(op, KernelOp):
        return op.name, op.kernel, types
    held = (op.properties | op.attributes).items()
    return op.name, frozenset(item for item in held if item[0] != OP_ID), types
