"""Index expressions in a normal form in which equal functions are, as a rule, the same object.

An expression is an integer combination of atoms plus a constant. An atom is an iterator, the floor
of an expression over a number, or a number that only the data tell. There is no `mod`: `a mod c` is
``a - c * floor(a / c)``, so that digits and their composition cancel by themselves. Expressions are
made once (hash-consed): equality is identity.

The form is sound: two expressions that are one object are one function. That it finds most equal
functions is measured, by enumeration, in ``tests/index``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import Any, Final

Bounds = tuple[int, int]
"""Smallest and largest value, both included."""

Order = tuple[Any, ...]
"""What sorts atoms and expressions: their structure, nested; equal only for the same one."""


class Atom:
    """What combinations are made of; compared by identity, ordered by what it says.

    ``order`` does not tell when the atom was made: one program gives one text, whatever this
    process did before.
    """

    __slots__ = ("bounds", "order")

    def __init__(self, bounds: Bounds, order: Order) -> None:
        self.bounds = bounds
        self.order = order
        _count("atoms")


class Iter(Atom):
    """An iterator: runs from 0 to ``extent`` - 1. Two iterators of one name and extent are one."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: int) -> None:
        super().__init__((0, max(extent - 1, 0)), (0, len(name), name, extent))
        self.name = name
        self.extent = extent

    def __repr__(self) -> str:
        return self.name


class Floor(Atom):
    """``floor(inner / by)``, with ``by`` > 1."""

    __slots__ = ("by", "inner")

    def __init__(self, inner: Expr, by: int) -> None:
        low, high = inner.bounds
        super().__init__((low // by, high // by), (1, inner.order, by))
        self.inner = inner
        self.by = by

    def __repr__(self) -> str:
        inner = repr(self.inner)
        return f"({inner}) / {self.by}" if " " in inner else f"{inner} / {self.by}"


class Read(Atom):
    """A number that the data tell: an element of tensor ``source``, from 0 to ``extent`` - 1."""

    __slots__ = ("extent", "index", "source")

    def __init__(self, source: int, index: tuple[Expr, ...], extent: int) -> None:
        super().__init__(
            (0, max(extent - 1, 0)), (2, source, tuple(e.order for e in index), extent)
        )
        self.source = source
        self.index = index
        self.extent = extent

    def __repr__(self) -> str:
        return f"@{self.source}<{self.extent}>[{', '.join(map(repr, self.index))}]"


class Expr:
    """A combination: ``constant + sum(coefficient * atom)``. Made with the functions below."""

    __slots__ = ("_bounds", "constant", "has_reads", "iters", "order", "terms")

    terms: tuple[tuple[Atom, int], ...]
    constant: int
    iters: frozenset[Iter]
    has_reads: bool

    def __init__(self, terms: tuple[tuple[Atom, int], ...], constant: int) -> None:
        self.terms = terms
        self.constant = constant
        self.order: Order = (len(terms), *((atom.order, k) for atom, k in terms), constant)
        found: set[Iter] = set()
        self.has_reads = False
        for atom, _ in terms:
            if isinstance(atom, Iter):
                found.add(atom)
            elif isinstance(atom, Floor):
                found |= atom.inner.iters
                self.has_reads |= atom.inner.has_reads
            elif isinstance(atom, Read):
                self.has_reads = True
                for e in atom.index:
                    found |= e.iters
        self.iters = frozenset(found)
        self._bounds: Bounds | None = None

    @property
    def bounds(self) -> Bounds:
        """Smallest and largest value, or numbers beyond them."""
        if self._bounds is None:
            self._bounds = _bounds(self.terms, self.constant)
            self._bounds = _sharper(self, self._bounds)
        return self._bounds

    def __add__(self, other: Expr | int) -> Expr:
        return combine((self, 1), (as_expr(other), 1))

    def __sub__(self, other: Expr | int) -> Expr:
        return combine((self, 1), (as_expr(other), -1))

    def __rsub__(self, other: int) -> Expr:
        return combine((as_expr(other), 1), (self, -1))

    def __mul__(self, factor: int) -> Expr:
        return combine((self, factor))

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> Expr:
        return floor(self, by)

    def __mod__(self, by: int) -> Expr:
        return self - floor(self, by) * by

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def iter(self) -> Iter | None:
        """The iterator that the expression is, if it is one."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            atom = self.terms[0][0]
            return atom if isinstance(atom, Iter) else None
        return None

    def __repr__(self) -> str:
        parts = [_term(atom, factor) for atom, factor in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _term(atom: Atom, factor: int) -> str:
    text = repr(atom)
    if factor == 1:
        return text
    return f"{factor} * ({text})" if isinstance(atom, Floor) else f"{factor} * {text}"


MOST_FLOORS: Final = 4
"""Floors of an expression up to which its bounds are looked at closely."""

COUNTS: Final[dict[str, int]] = {"atoms": 0, "expressions": 0, "simplifications": 0}
"""What has been made so far; tests read it to see that work grows with the program only."""

_ITERS: Final[dict[tuple[str, int], Expr]] = {}
_FLOORS: Final[dict[tuple[Expr, int], Expr]] = {}
_FLOOR_ATOMS: Final[dict[tuple[Expr, int], Floor]] = {}
_READS: Final[dict[tuple[int, tuple[Expr, ...], int], Expr]] = {}
_EXPRS: Final[dict[tuple[tuple[tuple[Atom, int], ...], int], Expr]] = {}


def _count(what: str) -> None:
    COUNTS[what] += 1


def _bounds(terms: tuple[tuple[Atom, int], ...], constant: int) -> Bounds:
    """Bounds of a combination; knows that ``e - c * floor(e / c)`` lies in [0, c)."""
    left = dict(terms)
    low = high = constant
    for atom, factor in terms:
        if not isinstance(atom, Floor) or atom not in left or factor % atom.by:
            continue
        whole = -(factor // atom.by)
        part = _remainder_of(atom, whole, left)
        if part is None:
            continue
        for inner, coefficient in part.terms:
            left[inner] -= whole * coefficient
            if not left[inner]:
                del left[inner]
        del left[atom]
        low -= whole * part.constant
        high -= whole * part.constant
        span = whole * (atom.by - 1)
        low, high = low + min(span, 0), high + max(span, 0)
    for atom, factor in left.items():
        ends = (factor * atom.bounds[0], factor * atom.bounds[1])
        low, high = low + min(ends), high + max(ends)
    return low, high


def _sharper(expr: Expr, known: Bounds) -> Bounds:
    """Bounds that see remainders whose two parts were simplified in different ways."""
    low, high = known
    floors = [(a, k) for a, k in expr.terms if isinstance(a, Floor)]
    if not 0 < len(floors) <= MOST_FLOORS or len(expr.terms) == 1:
        return known
    for atom, k in floors:
        by, sign = abs(k), -1 if k > 0 else 1
        if by == 1:
            continue
        one = _make({atom: 1}, 0)
        rest = combine((expr, sign), (one, by))  # sign * expr = rest - by * floor
        for shift in {0, rest.constant}:
            over = floor(rest - shift, by) - one
            if over.is_constant:
                first = by * over.constant + shift
                ends = (sign * first, sign * (first + by - 1))
                low, high = max(low, min(ends)), min(high, max(ends))
    return low, high


def _remainder_of(atom: Floor, whole: int, left: Mapping[Atom, int]) -> Expr | None:
    """The expression whose remainder is in the combination, if all of it is."""
    inner = atom.inner
    if all(left.get(a) == whole * k for a, k in inner.terms):
        return inner
    return None


def _make(terms: dict[Atom, int], constant: int) -> Expr:
    key = tuple(sorted(((a, k) for a, k in terms.items() if k), key=_by_order)), constant
    found = _EXPRS.get(key)
    if found is None:
        _count("expressions")
        found = _EXPRS[key] = Expr(*key)
    return found


def _by_order(term: tuple[Atom, int]) -> Order:
    return term[0].order


def const(number: int) -> Expr:
    """A constant."""
    return _make({}, number)


def as_expr(value: Expr | int) -> Expr:
    """The expression itself, or that of a number."""
    return value if isinstance(value, Expr) else const(value)


def iterator(name: str, extent: int) -> Expr:
    """The iterator of that name; one that runs once is 0."""
    if extent == 1:
        return const(0)
    found = _ITERS.get((name, extent))
    if found is None:
        found = _ITERS[name, extent] = _make({Iter(name, extent): 1}, 0)
    return found


def read(source: int, index: Iterable[Expr], extent: int) -> Expr:
    """An element of an index tensor; equal if tensor and place are."""
    key = source, tuple(index), extent
    found = _READS.get(key)
    if found is None:
        found = _READS[key] = _make({Read(*key): 1}, 0)
    return found


def combine(*parts: tuple[Expr, int]) -> Expr:
    """The sum of expressions, each times a number."""
    terms: dict[Atom, int] = {}
    constant = 0
    for expr, factor in parts:
        if not factor:
            continue
        constant += factor * expr.constant
        for atom, k in expr.terms:
            terms[atom] = terms.get(atom, 0) + factor * k
    return _make(terms, constant)


def floor(expr: Expr, by: int) -> Expr:
    """``floor(expr / by)`` for ``by`` > 0."""
    if by == 1:
        return expr
    key = (expr, by)
    found = _FLOORS.get(key)
    if found is None:
        _count("simplifications")
        found = _FLOORS[key] = _floor(expr, by)
    return found


def _floor(expr: Expr, by: int) -> Expr:
    low, high = expr.bounds
    if low // by == high // by:
        return const(low // by)
    if len(expr.terms) == 1 and expr.terms[0][0].bounds == (0, 1):  # two values lie on a line
        atom, k = expr.terms[0]
        first = expr.constant // by
        return _make({atom: (expr.constant + k) // by - first}, first)
    if expr.terms[0][1] < 0:  # of floor(-e / by) and floor(e / by), one is enough
        return floor((by - 1) - expr, by) * -1
    rest = _make({a: k % by for a, k in expr.terms}, expr.constant % by)
    if rest is not expr:
        over = {a: k // by for a, k in expr.terms}
        return _make(over, expr.constant // by) + floor(rest, by)
    if by == 2 and expr.constant == 1:  # floor((e + 1) / 2) = e - floor(e / 2)
        return expr - 1 - floor(expr - 1, 2)
    for step in _shared_factors(rest, by):
        low_part = _make({a: k for a, k in rest.terms if k % step}, rest.constant % step)
        if 0 <= low_part.bounds[0] and low_part.bounds[1] < step:
            high_part = combine((rest, 1), (low_part, -1))
            return floor(
                _make({a: k // step for a, k in high_part.terms}, high_part.constant // step),
                by // step,
            )
    for atom, k in rest.terms:
        if k == 1 and isinstance(atom, Floor):  # floor((floor(e / a) + m) / b), m an integer
            others = combine((rest, 1), (_make({atom: 1}, 0), -1))
            return floor(combine((atom.inner, 1), (others, atom.by)), atom.by * by)
    held = _FLOOR_ATOMS.get((rest, by))
    if held is None:
        held = _FLOOR_ATOMS[rest, by] = Floor(rest, by)
    return _make({held: 1}, 0)


def _shared_factors(expr: Expr, by: int) -> list[int]:
    """Numbers > 1 that divide ``by`` and some coefficients, largest first."""
    found = {gcd(k, by) for _, k in expr.terms}
    found |= {gcd(a, b) for a in found for b in found}
    return sorted((f for f in found if f > 1), reverse=True)


def substitute(expr: Expr, values: Mapping[Iter, Expr]) -> Expr:
    """The expression with iterators replaced."""
    if not any(i in values for i in expr.iters):
        return expr
    parts: list[tuple[Expr, int]] = [(const(expr.constant), 1)]
    for atom, k in expr.terms:
        parts.append((_substitute_atom(atom, values), k))
    return combine(*parts)


def _substitute_atom(atom: Atom, values: Mapping[Iter, Expr]) -> Expr:
    if isinstance(atom, Iter):
        return values.get(atom, _make({atom: 1}, 0))
    if isinstance(atom, Floor):
        return floor(substitute(atom.inner, values), atom.by)
    if isinstance(atom, Read):
        return read(atom.source, [substitute(e, values) for e in atom.index], atom.extent)
    raise TypeError(f"unknown atom {atom!r}")


def renumber(expr: Expr, source_of: Callable[[int], int]) -> Expr:
    """The expression with the tensors that it reads numbered anew."""
    if not expr.has_reads:
        return expr
    parts: list[tuple[Expr, int]] = [(const(expr.constant), 1)]
    for atom, k in expr.terms:
        one = _make({atom: 1}, 0)
        if isinstance(atom, Floor):
            one = floor(renumber(atom.inner, source_of), atom.by)
        elif isinstance(atom, Read):
            index = [renumber(e, source_of) for e in atom.index]
            one = read(source_of(atom.source), index, atom.extent)
        parts.append((one, k))
    return combine(*parts)


def reads_of(expr: Expr) -> list[Read]:
    """The numbers in the expression that the data tell, inner ones first."""
    found: list[Read] = []
    for atom, _ in expr.terms:
        if isinstance(atom, Floor):
            found += reads_of(atom.inner)
        elif isinstance(atom, Read):
            for e in atom.index:
                found += reads_of(e)
            found.append(atom)
    return found


def forget() -> None:
    """Drop all expressions. Those still held stay right, but equal new ones are other objects."""
    for table in (_ITERS, _FLOORS, _FLOOR_ATOMS, _READS, _EXPRS):
        table.clear()
