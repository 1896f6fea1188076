"""Sizes get names: equal ones one name, as far as the ops of a block tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pirkit.dialect.opdef import RuleTable
from pirkit.index.extent import Undecided, divided, is_sized, larger, named, order, smaller
from pirkit.index.size_solver import SYMMETRIC, Derived

result_shapes: Final = RuleTable("result_shapes", "pirkit.dialect.rules.index_maps")
"""``rule(call, sizes) -> list of shapes``: those of the results, in sizes of the operands.

Takes a :class:`pirkit.dialect.map_expr.call.MapCall` whose operands may have named sizes. A size of
which nothing is known is None; ops without a rule have new sizes. May raise Undecided.
"""

Dims = tuple[int | None, ...]


class Sizes:
    """The named sizes of a block: new ones, and those that follow from others."""

    def __init__(self) -> None:
        self.count = 0
        self.derived: list[Derived] = []
        self.checks: list[Derived] = []
        """What the ops ask of sizes besides; their names stand for nothing."""
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}

    def new(self) -> int:
        """A size of which nothing is known."""
        self.count += 1
        return named(f"s{self.count - 1}")

    def broadcast(self, *sizes: int) -> int:
        """The size to which axes are spread: that of all but the ones of a single element."""
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
        """Note that sizes have to go together as a rule says."""
        if (rule, args) not in self._known and not (rule == "equal" and args[0] == args[1]):
            found = self._known[rule, args] = self.new()
            self.checks.append(Derived(repr(found), rule, args))

    def quotient(self, total: int, part: int) -> int:
        """How often one size goes into another, which it divides."""
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
        """How many elements there are in steps over some."""
        if step == 1:
            return count
        found = Derived("", "steps", (count, step)).value({})
        return self._follows("steps", (count, step)) if found is None else found

    def reduced(self, count: int, target: int) -> int:
        """How many elements of an axis are reduced to one of another, which has as many, or
        one.
        """
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
    """The sizes that a kernel says follow from others; what else follows has names of its own."""

    def __init__(self, declared: Iterable[Derived]) -> None:
        super().__init__()
        for size in declared:
            self._known[size.rule, size.args] = named(size.name)

    def new(self) -> int:
        self.count += 1
        return named(f"other{self.count}")


ENDLESS: Final = 2**31 - 1
"""The end of a slice that goes to the end of its axis, or any larger number."""


def place_of(n: int, bound: int, sizes: Sizes) -> int:
    """Where a bound of a slice lies on an axis; one below 0 counts from the end.

    A size that follows from others is taken off the end: laws of indices hold for sizes from 1 on.
    """
    return n - sizes.smaller(-bound, n) if bound < 0 else sizes.smaller(bound, n)


def bounds_of(n: int, start: int, end: int, sizes: Sizes) -> tuple[int, int]:
    """First and last, excluded, of the elements that a slice of an axis takes."""
    first = place_of(n, start, sizes)
    if end >= ENDLESS:
        return first, n
    last = place_of(n, end, sizes)
    is_after = start == 0 or (start <= end and (start < 0) == (end < 0))
    return first, last if is_after else sizes.larger(last, first)
