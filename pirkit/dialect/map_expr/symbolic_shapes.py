"""Symbolic sizes of a block: shape rules infer which sizes are equal or derived from others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pirkit.dialect.opdef import RuleTable
from pirkit.index.extent import Undecided, divided, is_sized, larger, named, order, smaller
from pirkit.index.size_solver import SYMMETRIC, Derived

result_shapes: Final = RuleTable("result_shapes", "pirkit.dialect.rules.index_maps")
"""``rule(call, sizes) -> list of shapes``: the shapes of the results, in terms of operand sizes.

Takes a :class:`pirkit.dialect.map_expr.call.MapCall` whose operands may have symbolic sizes. An
unknown size is None; the results of ops without a rule get new symbols. May raise Undecided.
"""

Dims = tuple[int | None, ...]


class Sizes:
    """Creates the symbols of a block: new ones, and those derived from others."""

    def __init__(self) -> None:
        self.count = 0
        self.derived: list[Derived] = []
        self.checks: list[Derived] = []
        """Constraints on sizes that ops impose; the names of these entries are not used."""
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}

    def new(self) -> int:
        """A new symbol."""
        self.count += 1
        return named(f"s{self.count - 1}")

    def broadcast(self, *sizes: int) -> int:
        """The broadcast size of axes: the common size of those that are not 1."""
        left = [n for n in dict.fromkeys(sizes) if is_sized(n) or n != 1]
        wide = [n for n in left if not is_sized(n)]
        if wide:
            if len(left) > 1:
                self.check("broadcast", *sorted(left, key=order))
            return wide[0]
        if len(left) < 2:
            return left[0] if left else 1
        return self._follows("broadcast", tuple(sorted(left, key=order)))

    def check(self, rule: str, *args: int) -> None:
        """Record a constraint: a derivation rule must succeed for these sizes."""
        if (rule, args) not in self._known and not (rule == "equal" and args[0] == args[1]):
            found = self._known[rule, args] = self.new()
            self.checks.append(Derived(repr(found), rule, args))

    def quotient(self, total: int, part: int) -> int:
        """The exact quotient of two sizes."""
        found, rest = divided(total, part)
        return (
            found if not is_sized(rest) and rest == 0 else self._follows("quotient", (total, part))
        )

    def smaller(self, one: int, other: int) -> int:
        """The smaller of two sizes."""
        try:
            return smaller(one, other)
        except Undecided:
            return self._follows("smaller", (one, other))

    def larger(self, one: int, other: int) -> int:
        """The larger of two sizes."""
        try:
            return larger(one, other)
        except Undecided:
            return self._follows("larger", (one, other))

    def steps(self, count: int, step: int) -> int:
        """The number of elements of a slice with a step: the quotient rounded up."""
        if step == 1:
            return count
        found = Derived("", "steps", (count, step)).value({})
        return self._follows("steps", (count, step)) if found is None else found

    def reduced(self, count: int, target: int) -> int:
        """The number of elements reduced to one, for a target axis of 1 or as many elements."""
        if count == target or target == 1:
            return 1 if count == target else count
        return self._follows("folded", (count, target))

    def _follows(self, rule: str, args: tuple[int, ...]) -> int:
        args = tuple(sorted(args, key=order)) if rule in SYMMETRIC else args
        found = self._known.get((rule, args))
        if found is None:
            found = self._known[rule, args] = self._entered(rule, args)
        return found

    def _entered(self, rule: str, args: tuple[int, ...]) -> int:
        found = self.new()
        self.derived.append(Derived(repr(found), rule, args))
        return found


class DeclaredSizes(Sizes):
    """The derived sizes that a kernel declares; further derivations create new symbols."""

    def __init__(self, declared: Iterable[Derived]) -> None:
        super().__init__()
        for size in declared:
            self._known[size.rule, size.args] = named(size.name)

    def new(self) -> int:
        self.count += 1
        return named(f"other{self.count}")


ENDLESS: Final = 2**31 - 1
"""The end of a slice from which on it means the end of the axis."""


def place_of(n: int, bound: int, sizes: Sizes) -> int:
    """The position of a slice bound on an axis of ``n`` elements, clamped; a negative one counts
    from the end.

    For a negative bound, the derived size is subtracted from ``n``: rewrite rules of indices assume
    sizes of at least 1.
    """
    return n - sizes.smaller(-bound, n) if bound < 0 else sizes.smaller(bound, n)


def bounds_of(n: int, start: int, end: int, sizes: Sizes) -> tuple[int, int]:
    """The first (inclusive) and last (exclusive) position of a slice of an axis."""
    first = place_of(n, start, sizes)
    if end >= ENDLESS:
        return first, n
    last = place_of(n, end, sizes)
    is_after = start == 0 or (start <= end and (start < 0) == (end < 0))
    return first, last if is_after else sizes.larger(last, first)
