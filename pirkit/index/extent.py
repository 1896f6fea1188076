"""Sizes that are known only when the program runs: polynomials of named sizes.

``named("s0")`` adds and multiplies like the number that it stands for, so that shapes, steps and
bounds may hold either; to the type checker it is an int. A name stands for one size everywhere.
Sums and products that are equal for all sizes are equal; comparing with ``<`` answers where the
answer is the same for all sizes, and raises :class:`Undecided` elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product as choices
from math import gcd
from typing import Any, Final, cast

Monomial = tuple[str, ...]
"""Names that are multiplied, sorted; none for the number 1."""

EXPECTED: Final = 64
"""What choices that only cost time take a size to be."""


class Undecided(Exception):
    """A question about sizes that has no answer for all of them; the message is the question."""


class Extent:
    """A polynomial that is no number, with integer factors. Made with :func:`named`."""

    __slots__ = ("terms",)

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms

    def __add__(self, other: Any) -> int:
        if not isinstance(other, int | Extent):
            return NotImplemented
        found = Counter(_terms(self))
        found.update(_terms(other))
        return _made(found)

    def __neg__(self) -> int:
        return self * -1

    def __sub__(self, other: Any) -> int:
        return self + other * -1 if isinstance(other, int | Extent) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return self * -1 + other

    def __mul__(self, other: Any) -> int:
        if not isinstance(other, int | Extent):
            return NotImplemented
        found: Counter[Monomial] = Counter()
        for one, factor in self.terms:
            for more, times in _terms(other).items():
                found[tuple(sorted(one + more))] += factor * times
        return _made(found)

    __radd__ = __add__
    __rmul__ = __mul__

    def __bool__(self) -> bool:
        """It is not 0 for all sizes."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: int) -> bool:
        return _compared(other - self, 1, f"{self!r} < {other!r}")

    def __ge__(self, other: int) -> bool:
        return _compared(self - other, 0, f"{self!r} >= {other!r}")

    def __gt__(self, other: int) -> bool:
        return _compared(self - other, 1, f"{self!r} > {other!r}")

    def __le__(self, other: int) -> bool:
        return _compared(other - self, 0, f"{self!r} <= {other!r}")

    def __repr__(self) -> str:
        return " + ".join(map(_shown, self.terms)).replace("+ -", "- ")


def _shown(term: tuple[Monomial, int]) -> str:
    names, factor = term
    if not names:
        return str(factor)
    text = " * ".join(names)
    return text if factor == 1 else f"{factor} * {text}"


def named(name: str) -> int:
    """The size of that name."""
    return _made({(name,): 1})


def _terms(number: Any) -> dict[Monomial, int]:
    if isinstance(number, Extent):
        return dict(number.terms)
    return {(): number} if number else {}


def _by_degree(names: Monomial) -> tuple[int, Monomial]:
    return len(names), names


def _made(terms: Mapping[Monomial, int]) -> int:
    left = {names: factor for names, factor in terms.items() if factor}
    if not left.keys() - {()}:
        return left.get((), 0)
    ordered = sorted(left, key=lambda names: (-len(names), names))
    return cast(int, Extent(tuple([(names, left[names]) for names in ordered])))


def is_sized(number: int) -> bool:
    """True for a size that is known only when the program runs."""
    return isinstance(number, Extent)


def order(number: int) -> tuple[Any, ...]:
    """What sorts numbers and sizes together."""
    return (1, number.terms) if isinstance(number, Extent) else (0, number)


def names_of(numbers: Iterable[int]) -> list[str]:
    """The names that sizes are made of, each once, as they are met."""
    found: dict[str, None] = {}
    for number in numbers:
        if isinstance(number, Extent):
            found.update(dict.fromkeys(n for names, _ in number.terms for n in names))
    return list(found)


def at(number: int, sizes: Mapping[str, int]) -> int:
    """The number with names replaced by sizes; others stay."""
    if not isinstance(number, Extent):
        return number
    total = 0
    for names, factor in number.terms:
        for name in names:
            factor = factor * sizes[name] if name in sizes else factor * named(name)
        total = total + factor
    return total


def expected(number: int) -> int:
    """A number for choices that only cost time."""
    return at(number, dict.fromkeys(names_of((number,)), EXPECTED))


def least(number: int, each: int = 1) -> int | None:
    """A number that a size is never below, if every named size is at least ``each`` (0 or 1).

    None where none is seen. With ``each`` 1, a size is taken as 1 + something that is not negative.
    """
    if not isinstance(number, Extent):
        return number
    found: Counter[Monomial] = Counter()
    for names, factor in number.terms:
        for term_value in choices(*([(), (name,)] if each else [(name,)] for name in names)):
            found[tuple(sorted(n for part in term_value for n in part))] += factor
    lowest = found.pop((), 0)
    return lowest if all(factor >= 0 for factor in found.values()) else None


def reaches(number: int | None, bound: int) -> bool:
    """True if a number is seen to be at least ``bound`` where every named size is at least 1."""
    lowest = None if number is None else least(number - bound)
    return lowest is not None and lowest >= 0


def sign(number: int) -> int | None:
    """1 for a number that is never negative, -1 for one that is never positive, else None."""
    if reaches(number, 0):
        return 1
    return -1 if reaches(-number, 0) else None


def larger(one: int, other: int) -> int:
    """The larger of two numbers. Raises Undecided where either may be."""
    for first, second in ((one, other), (other, one)):
        lowest = least(first - second, 0)
        if lowest is not None and lowest >= 0:
            return first
    raise Undecided(f"{one!r} < {other!r}")


def smaller(one: int, other: int) -> int:
    """The smaller of two numbers. Raises Undecided where either may be."""
    return one + other - larger(one, other)


def _compared(difference: int, bound: int, question: str) -> bool:
    """Whether a difference is at least ``bound`` for all sizes, zeros included."""
    lowest, highest = least(difference, 0), least(-difference, 0)
    if lowest is not None and lowest >= bound:
        return True
    if highest is not None and -highest < bound:
        return False
    raise Undecided(question)


def divided(number: int, by: int) -> tuple[int, int]:
    """Quotient and rest: ``number == by * quotient + rest``, the rest without multiples of ``by``.

    Of numbers, the floor and what is left.
    """
    if not isinstance(number, Extent) and not isinstance(by, Extent):
        return divmod(number, by)
    lead, unit = max(_terms(by).items(), key=lambda t: _by_degree(t[0]))
    left, quotient, rest = number, 0, 0
    while left:
        names, factor = max(_terms(left).items(), key=lambda t: _by_degree(t[0]))
        over = _without(names, lead)
        times = factor // unit if over is not None else 0
        multiple = _made({over: times}) if over is not None else 0
        quotient = quotient + multiple
        left = left - by * multiple
        term_value = _made({names: _terms(left).get(names, 0)})
        rest, left = rest + term_value, left - term_value
    return quotient, rest


def _without(names: Monomial, less: Monomial) -> Monomial | None:
    """A product divided by another; None if that is no divisor."""
    left = Counter(names)
    left.subtract(Counter(less))
    return tuple(sorted(left.elements())) if min(left.values(), default=0) >= 0 else None


def shared(one: int, other: int) -> int:
    """The largest product of a number and names that divides every term of both."""
    terms = [*_terms(one).items(), *_terms(other).items()]
    if not terms:
        return 0
    names = Counter(terms[0][0])
    for more, _ in terms:
        names &= Counter(more)
    return _made({tuple(sorted(names.elements())): gcd(*(factor for _, factor in terms))})
