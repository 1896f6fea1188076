"""Symbolic sizes: integer polynomials of named symbols, for dynamic shapes.

``named("s0")`` supports the arithmetic of an int, so shapes, strides and bounds can contain either;
to the type checker it is an int. Equal polynomials are equal objects. ``<`` returns a bool if the
answer is the same for all sizes, and raises :class:`Undecided` otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product as choices
from math import gcd
from typing import Any, Final, cast

Monomial = tuple[str, ...]
"""The symbols of a product, sorted; empty for 1."""

EXPECTED: Final = 64
"""The value assumed for a symbolic size in decisions that affect only performance."""


class Undecided(Exception):
    """A comparison whose answer depends on the sizes; the message is the question."""


class Extent:
    """A non-constant polynomial with integer coefficients, created by :func:`named`."""

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
        """True: a non-constant polynomial is not identically 0."""
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
    """The symbol of a name."""
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
    """True for a symbolic size."""
    return isinstance(number, Extent)


def order(number: int) -> tuple[Any, ...]:
    """A sort key for integers and symbolic sizes."""
    return (1, number.terms) if isinstance(number, Extent) else (0, number)


def names_of(numbers: Iterable[int]) -> list[str]:
    """The symbols in some sizes, each once, in order of occurrence."""
    found: dict[str, None] = {}
    for number in numbers:
        if isinstance(number, Extent):
            found.update(dict.fromkeys(n for names, _ in number.terms for n in names))
    return list(found)


def at(number: int, sizes: Mapping[str, int]) -> int:
    """The size with symbols substituted; symbols without a value stay."""
    if not isinstance(number, Extent):
        return number
    total = 0
    for names, factor in number.terms:
        for name in names:
            factor = factor * sizes[name] if name in sizes else factor * named(name)
        total = total + factor
    return total


def expected(number: int) -> int:
    """The value with every symbol ``EXPECTED``, for decisions that affect only performance."""
    return at(number, dict.fromkeys(names_of((number,)), EXPECTED))


def least(number: int, each: int = 1) -> int | None:
    """A lower bound of a size if every symbol is at least ``each`` (0 or 1); None if unknown.

    With ``each`` 1, every symbol ``s`` is replaced by ``1 + t`` with ``t >= 0``; the bound is the
    constant term if all other coefficients are non-negative.
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
    """True if a number is provably at least ``bound`` for all symbols of at least 1."""
    lowest = None if number is None else least(number - bound)
    return lowest is not None and lowest >= 0


def sign(number: int) -> int | None:
    """1 for a provably non-negative number, -1 for a non-positive one, else None."""
    if reaches(number, 0):
        return 1
    return -1 if reaches(-number, 0) else None


def larger(one: int, other: int) -> int:
    """The larger of two numbers. Raises Undecided if that depends on the sizes."""
    for first, second in ((one, other), (other, one)):
        lowest = least(first - second, 0)
        if lowest is not None and lowest >= 0:
            return first
    raise Undecided(f"{one!r} < {other!r}")


def smaller(one: int, other: int) -> int:
    """The smaller of two numbers. Raises Undecided if that depends on the sizes."""
    return one + other - larger(one, other)


def _compared(difference: int, bound: int, question: str) -> bool:
    """Whether a difference is at least ``bound`` for all symbols of at least 0; may raise
    Undecided.
    """
    lowest, highest = least(difference, 0), least(-difference, 0)
    if lowest is not None and lowest >= bound:
        return True
    if highest is not None and -highest < bound:
        return False
    raise Undecided(question)


def divided(number: int, by: int) -> tuple[int, int]:
    """Polynomial division: ``number == by * quotient + rest``; for integers, `divmod`."""
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
    """The quotient of two monomials; None if the second does not divide the first."""
    left = Counter(names)
    left.subtract(Counter(less))
    return tuple(sorted(left.elements())) if min(left.values(), default=0) >= 0 else None


def shared(one: int, other: int) -> int:
    """The largest monomial, with coefficient, that divides every term of both numbers."""
    terms = [*_terms(one).items(), *_terms(other).items()]
    if not terms:
        return 0
    names = Counter(terms[0][0])
    for more, _ in terms:
        names &= Counter(more)
    return _made({tuple(sorted(names.elements())): gcd(*(factor for _, factor in terms))})
