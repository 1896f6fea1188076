"""Quasi-affine index expressions, in a normal form in which most equal functions are one object.

An expression is an integer combination of atoms plus a constant. An atom is an iterator, a floor
division of an expression, an expression along an axis that is possibly broadcast, or a
data-dependent number (an element of an index tensor). There is no `mod`: ``a mod c`` is
``a - c * floor(a / c)``, so that delinearization followed by linearization cancels. Expressions are
hash-consed: equality is identity. The tables hold expressions weakly, so they do not grow.

Coefficients and extents may be symbolic sizes (`extent.py`). Simplifications then hold for all
sizes of at least 1; if a size is 0, there is no element to index.

The normal form is sound: expressions that are one object are one function. It is not complete; how
many equal functions it identifies is measured by enumeration in ``tests/index``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from math import gcd
from typing import Any, Final

from pirkit.index.extent import Undecided, divided, expected, is_sized, reaches, shared, sign
from pirkit.index.extent import order as order_of
from pirkit.index.interning import Held, interned

Bounds = tuple[int, int]
"""The smallest and the largest value, both inclusive."""

Limits = tuple[int | None, int | None]
"""Bounds, either of which may be unknown (None) or symbolic."""

Order = tuple[Any, ...]
"""A sort key of atoms and expressions: their nested structure, so that it is unique."""


class Atom:
    """A term of a combination; compared by identity, ordered by structure.

    ``order`` does not depend on when the atom was created, so the text of a program does not depend
    on what the process did before.
    """

    __slots__ = ("__weakref__", "limits", "order", "sized")

    def __init__(self, limits: Limits, order: Order, sized: bool) -> None:
        self.limits = limits
        self.order = order
        self.sized = sized
        """True if it contains a symbolic size."""
        _count("atoms")

    @property
    def bounds(self) -> Bounds:
        """The limits, where both are known."""
        return _known(self.limits)


class Iter(Atom):
    """An iterator over 0 to ``extent`` - 1; it is identified by its name and extent."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: int) -> None:
        super().__init__(_along(extent), (0, len(name), name, *order_of(extent)), is_sized(extent))
        self.name = name
        self.extent = extent

    def __repr__(self) -> str:
        return self.name


class Floor(Atom):
    """``floor(inner / by)``, with ``by`` > 1."""

    __slots__ = ("by", "inner")

    def __init__(self, inner: Expr, by: int) -> None:
        sized = inner.sized or is_sized(by)
        limits = _limits_of_floor(inner, by) if sized else _floors(inner.bounds, by)
        super().__init__(limits, (1, inner.order, *order_of(by)), sized)
        self.inner = inner
        self.by = by

    def __repr__(self) -> str:
        inner = repr(self.inner)
        return (
            f"({inner}) / {_number(self.by)}" if " " in inner else f"{inner} / {_number(self.by)}"
        )


class Broadcast(Atom):
    """``inner`` along an axis of symbolic ``extent``; 0 if that is 1 at run time (broadcast)."""

    __slots__ = ("extent", "inner")

    def __init__(self, inner: Expr, extent: int) -> None:
        super().__init__(_along(extent), (3, inner.order, *order_of(extent)), True)
        self.inner = inner
        self.extent = extent

    def __repr__(self) -> str:
        return f"spread({self.inner!r}, {self.extent!r})"


class Read(Atom):
    """A data-dependent index: an element of tensor ``source``, in [0, ``extent``).

    With ``from_end`` the element may be negative and then counts from the end.
    """

    __slots__ = ("extent", "from_end", "index", "source")

    def __init__(
        self, source: int, index: tuple[Expr, ...], extent: int, from_end: bool = True
    ) -> None:
        super().__init__(
            _along(extent),
            (2, source, tuple(e.order for e in index), *order_of(extent), from_end),
            is_sized(extent) or any(e.sized for e in index),
        )
        self.source = source
        self.index = index
        self.extent = extent
        self.from_end = from_end

    def __repr__(self) -> str:
        return f"@{self.source}<{self.extent}>[{', '.join(map(repr, self.index))}]"


class Expr:
    """``constant + sum(coefficient * atom)``. Created only by the functions below."""

    __slots__ = (
        "__weakref__",
        "_limits",
        "constant",
        "has_reads",
        "iter",
        "iters",
        "order",
        "sized",
        "terms",
    )

    terms: tuple[tuple[Atom, int], ...]
    constant: int
    iters: frozenset[Iter]
    iter: Iter | None
    """The iterator, if the expression is exactly one."""
    has_reads: bool

    def __init__(self, terms: tuple[tuple[Atom, int], ...], constant: int) -> None:
        self.terms = terms
        self.constant = constant
        self.order: Order = (
            len(terms), *((atom.order, order_of(k)) for atom, k in terms), order_of(constant)
        )  # fmt: skip
        self.sized = is_sized(constant) or any(a.sized or is_sized(k) for a, k in terms)
        found: set[Iter] = set()
        self.has_reads = False
        for atom, _ in terms:
            if isinstance(atom, Iter):
                found.add(atom)
            elif isinstance(atom, Floor | Broadcast):
                found |= atom.inner.iters
                self.has_reads |= atom.inner.has_reads
            elif isinstance(atom, Read):
                self.has_reads = True
                for e in atom.index:
                    found |= e.iters
        self.iters = frozenset(found)
        is_atom = len(terms) == 1 and terms[0][1] == 1 and constant == 0
        only = terms[0][0] if is_atom else None
        self.iter = only if isinstance(only, Iter) else None
        self._limits: Limits | None = None

    @property
    def limits(self) -> Limits:
        """Lower and upper bound, not always tight; None for an unknown one."""
        if self._limits is None:
            self._limits = _limits(self) if self.sized else _bounds(self.terms, self.constant)
            if not self.sized:
                self._limits = _sharper(self, self.bounds)
        return self._limits

    @property
    def bounds(self) -> Bounds:
        """The limits, where both are known."""
        return _known(self.limits)

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

    def __repr__(self) -> str:
        parts = [_term(atom, factor) for atom, factor in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _term(atom: Atom, factor: int) -> str:
    text = repr(atom)
    if not is_sized(factor) and factor == 1:
        return text
    return (
        f"{_number(factor)} * ({text})"
        if isinstance(atom, Floor)
        else f"{_number(factor)} * {text}"
    )


def _number(number: int) -> str:
    text = repr(number)
    return f"({text})" if " " in text else text


MAX_FLOORS: Final = 4
"""Largest number of floors in an expression for which tighter bounds are computed."""

COUNTS: Final[dict[str, int]] = {"atoms": 0, "expressions": 0, "simplifications": 0}
"""Counts of created objects; tests use them to check that work is linear in the program."""

_ATOMS: Final[dict[Any, Held]] = {}
_EXPRS: Final[dict[Any, Held]] = {}
"""Atoms and expressions by what they are made of, while something refers to them."""
_RECENT: Final[deque[Expr]] = deque(maxlen=4096)
"""Expressions that stay, since most are made again soon."""
_FLOORS: Final[dict[tuple[Expr, int], Expr]] = {}
"""Simplified floors; at most `MOST_FLOORS`."""
MOST_FLOORS: Final = 4096


def _count(what: str) -> None:
    COUNTS[what] += 1


def _known(limits: Limits) -> Bounds:
    low, high = limits
    if low is None or high is None:
        raise Undecided("how far an index goes")
    return low, high


def _along(extent: int) -> Limits:
    """The limits of an index along an axis."""
    return 0, extent - 1 if is_sized(extent) else max(extent - 1, 0)


def _floors(bounds: Bounds, by: int) -> Bounds:
    return bounds[0] // by, bounds[1] // by


def _limits_of_floor(inner: Expr, by: int) -> Limits:
    """Limits of a symbolic floor; for a symbolic divisor only the sign is known."""
    low, high = inner.limits
    if is_sized(by):
        return 0 if reaches(low, 0) else None, high if reaches(high, 0) else None
    found = [n if n is None or is_sized(n) else n // by for n in (low, high)]
    for k, n in enumerate((low, high)):
        if n is not None and is_sized(n):
            entire, rest = divided(n, by)
            found[k] = entire if not is_sized(rest) else None
    return found[0], found[1]


def _limits(expr: Expr) -> Limits:
    """Limits of a symbolic combination; recognizes remainders as `_bounds` does."""
    left, constant = dict(expr.terms), expr.constant
    low: int | None = 0
    high: int | None = 0
    for atom, factor in expr.terms:
        if not isinstance(atom, Floor) or atom not in left:
            continue
        times, rest = divided(-factor, atom.by)
        part = _remainder_of(atom, times, left) if not rest and times else None
        side = sign(times)
        if part is None or side is None:
            continue
        for inner, coefficient in part.terms:
            left[inner] = left[inner] - times * coefficient
            if not left[inner]:
                del left[inner]
        del left[atom]
        constant = constant - times * part.constant
        span = times * (atom.by - 1)
        low, high = (low, high + span) if side > 0 else (low + span, high)
    for atom, factor in left.items():
        side = sign(factor)
        ends = atom.limits if side == 1 else atom.limits[::-1]
        if side is None:
            ends = (None, None)
        low = None if low is None or ends[0] is None else low + factor * ends[0]
        high = None if high is None or ends[1] is None else high + factor * ends[1]
    return None if low is None else low + constant, None if high is None else high + constant


def _bounds(terms: tuple[tuple[Atom, int], ...], constant: int) -> Bounds:
    """Bounds of a combination; recognizes that ``e - c * floor(e / c)`` is in [0, c)."""
    left = dict(terms)
    low = high = constant
    for atom, factor in terms:
        if not isinstance(atom, Floor) or atom not in left or factor % atom.by:
            continue
        entire = -(factor // atom.by)
        part = _remainder_of(atom, entire, left)
        if part is None:
            continue
        for inner, coefficient in part.terms:
            left[inner] -= entire * coefficient
            if not left[inner]:
                del left[inner]
        del left[atom]
        low -= entire * part.constant
        high -= entire * part.constant
        span = entire * (atom.by - 1)
        low, high = low + min(span, 0), high + max(span, 0)
    for atom, factor in left.items():
        ends = (factor * atom.bounds[0], factor * atom.bounds[1])
        low, high = low + min(ends), high + max(ends)
    return low, high


def _sharper(expr: Expr, known: Bounds) -> Bounds:
    """Bounds that also recognize remainders whose two terms were simplified differently."""
    low, high = known
    floors = [(a, k) for a, k in expr.terms if isinstance(a, Floor)]
    if not 0 < len(floors) <= MAX_FLOORS or len(expr.terms) == 1:
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


def _remainder_of(atom: Floor, entire: int, left: Mapping[Atom, int]) -> Expr | None:
    """The expression whose remainder is contained in the combination; None if there is none."""
    inner = atom.inner
    if all(left.get(a) == entire * k for a, k in inner.terms):
        return inner
    return None


def single(atom: Atom) -> Expr:
    """The expression that is one atom."""
    return _make({atom: 1}, 0)


def _make(terms: dict[Atom, int], constant: int) -> Expr:
    kept = [(a, k) for a, k in terms.items() if k]
    if len(kept) > 1:
        kept.sort(key=_by_order)
    key = tuple(kept), constant
    held = _EXPRS.get(key)
    found = None if held is None else held()
    if found is None:
        found = interned(_EXPRS, key, partial(_new_expr, *key))
        _RECENT.append(found)
    return found


def _new_expr(terms: tuple[tuple[Atom, int], ...], constant: int) -> Expr:
    _count("expressions")
    return Expr(terms, constant)


def _by_order(term: tuple[Atom, int]) -> Order:
    return term[0].order


def const(number: int) -> Expr:
    """A constant."""
    return _make({}, number)


def as_expr(value: Expr | int) -> Expr:
    """The expression itself, or that of a number."""
    return value if isinstance(value, Expr) else const(value)


def iterator(name: str, extent: int) -> Expr:
    """The iterator of a name and extent; 0 for an extent of 1."""
    if extent == 1:
        return const(0)
    return single(interned(_ATOMS, (Iter, name, extent), partial(Iter, name, extent)))


def read(source: int, index: Iterable[Expr], extent: int, from_end: bool = True) -> Expr:
    """An element of an index tensor; one object for each tensor and index."""
    key = source, tuple(index), extent, from_end
    return single(interned(_ATOMS, (Read, *key), partial(Read, *key)))


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


def broadcast(expr: Expr, extent: int) -> Expr:
    """An index along an axis that is broadcast if its extent is 1."""
    if not is_sized(extent):
        return const(0) if extent == 1 else expr
    if within(expr, extent):
        return expr
    return single(interned(_ATOMS, (Broadcast, expr, extent), partial(Broadcast, expr, extent)))


def within(expr: Expr, extent: int) -> bool:
    """True if the limits prove that an expression is in ``[0, extent)``."""
    low, high = expr.limits
    return reaches(low, 0) and high is not None and reaches(extent - 1 - high, 0)


def floor(expr: Expr, by: int) -> Expr:
    """``floor(expr / by)`` for ``by`` > 0."""
    if by == 1:
        return expr
    key = (expr, by)
    found = _FLOORS.get(key)
    if found is None:
        _count("simplifications")
        make = _sized_floor if expr.sized or is_sized(by) else _floor
        found = make(expr, by)
        if len(_FLOORS) >= MOST_FLOORS:
            _FLOORS.clear()
        _FLOORS[key] = found
    return found


def _sized_floor(expr: Expr, by: int) -> Expr:
    """Like `_floor`, with symbolic sizes: each rule applies if it provably holds for all sizes."""
    for entire in (0, -1):
        if within(expr - by * entire, by):
            return const(entire)
    if expr.terms and sign(expr.terms[0][1]) == -1:
        return floor((by - 1) - expr, by) * -1
    over = [(a, *divided(k, by)) for a, k in expr.terms]
    entire, constant = divided(expr.constant, by)
    rest = _make({a: k for a, _, k in over}, constant)
    if rest is not expr:
        return _make({a: k for a, k, _ in over}, entire) + floor(rest, by)
    # the lowest digit is dropped, as in `_floor`, if it provably is one
    for step in _steps(rest, by):
        parts = [(a, *divided(k, step)) for a, k in rest.terms]
        high, low = divided(rest.constant, step)
        if within(_make({a: rest_k for a, _, rest_k in parts if rest_k}, low), step) and all(
            not k or not rest_k for _, k, rest_k in parts
        ):
            return floor(_make({a: k for a, k, _ in parts}, high), divided(by, step)[0])
    for atom, k in rest.terms:
        if isinstance(atom, Floor) and not is_sized(k) and k == 1:
            others = combine((rest, 1), (_make({atom: 1}, 0), -1))
            return floor(combine((atom.inner, 1), (others, atom.by)), atom.by * by)
    return _held_floor(rest, by)


def _steps(expr: Expr, by: int) -> list[int]:
    """Common factors of ``by`` and some coefficients, largest first."""
    found = dict.fromkeys(shared(k, by) for _, k in expr.terms)
    left = [step for step in found if is_sized(step) or step > 1]
    return sorted(left, key=expected, reverse=True)


def _floor(expr: Expr, by: int) -> Expr:
    low, high = expr.bounds
    if low // by == high // by:
        return const(low // by)
    if len(expr.terms) == 1 and expr.terms[0][0].bounds == (0, 1):  # a 0/1 atom: linear in it
        atom, k = expr.terms[0]
        first = expr.constant // by
        return _make({atom: (expr.constant + k) // by - first}, first)
    if expr.terms[0][1] < 0:  # of floor(-e / by) and floor(e / by), one is enough
        return floor((by - 1) - expr, by) * -1
    # integer multiples of `by` come out of the floor, so that remainders cancel
    rest = _make({a: k % by for a, k in expr.terms}, expr.constant % by)
    if rest is not expr:
        over = {a: k // by for a, k in expr.terms}
        return _make(over, expr.constant // by) + floor(rest, by)
    if by == 2 and expr.constant == 1:  # floor((e + 1) / 2) = e - floor(e / 2)
        return expr - 1 - floor(expr - 1, 2)
    # floor((step * h + l) / by) = floor(h / (by / step)) if 0 <= l < step: the lowest digit is
    # dropped
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
    return _held_floor(rest, by)


def _held_floor(rest: Expr, by: int) -> Expr:
    return single(interned(_ATOMS, (Floor, rest, by), partial(Floor, rest, by)))


def _shared_factors(expr: Expr, by: int) -> list[int]:
    """Common factors > 1 of ``by`` and some coefficients, largest first."""
    found = {gcd(k, by) for _, k in expr.terms}
    found |= {gcd(a, b) for a in found for b in found}
    return sorted((f for f in found if f > 1), reverse=True)
