"""The algebra of truncated Taylor series: the rows that are carried, and their products.

Along one curve the rows of ``u`` are its Taylor coefficients ``u_0, u_1 ... u_K``, and
``(u v)_k = sum of u_j v_{k-j}``. In general a row is a sum of coefficients of a series in several
directions, homogeneous of some degree, and the rows of a product are sums of products of rows::

    (u v)_m = sum over (a, b, c) in pairs[m] of c * u_a * v_b

That holds if the rows are closed under contraction, so that they form an algebra (a Weil algebra;
Griewank, Utke, Walther, Evaluating higher derivative tensors by forward propagation of univariate
Taylor series, 2000, treats the case of single directions). Row 0 is the value, and the rows are
sorted by degree, so that each is computed from earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

Monomial = tuple[int, ...]
"""The directions of a mixed derivative in ascending order: ``(0, 0, 1)`` is ``d3/dx0 dx0 dx1``."""

Functional = Mapping[Monomial, float]
"""A sum of Taylor coefficients."""


class Algebra(Struct, frozen=True, eq=False):
    """The rows of a series by number; row 0, the value, has degree 0."""

    degrees: tuple[int, ...]
    pairs: tuple[tuple[tuple[int, int, float], ...], ...]

    @property
    def size(self) -> int:
        """The number of rows besides the value."""
        return len(self.degrees) - 1

    @property
    def degree(self) -> int:
        """The highest order."""
        return self.degrees[-1]


@lru_cache(maxsize=64)
def powers(order: int) -> Algebra:
    """The coefficients 0 to ``order`` along one curve."""
    pairs = [tuple([(j, k - j, 1.0) for j in range(k + 1)]) for k in range(order + 1)]
    return Algebra(tuple(range(order + 1)), tuple(pairs))


class Rows(Struct, frozen=True, eq=False):
    """An algebra, and what its rows are: row m is ``functionals[m]``, 1 at ``pivots[m]``.

    No other row has the monomial ``pivots[m]``.
    """

    algebra: Algebra
    functionals: tuple[Functional, ...]
    pivots: tuple[Monomial, ...]

    def coordinates(self, wanted: Functional) -> dict[int, float]:
        """The rows, with factors, whose sum is a functional of their span."""
        found = {m: wanted.get(p, 0.0) for m, p in enumerate(self.pivots)}
        return {m: factor for m, factor in found.items() if factor}


def rows_for(wanted: Sequence[Functional]) -> Rows:
    """The fewest rows from which all wanted sums of Taylor coefficients follow.

    They are spanned by the wanted ones and what remains of them when a direction is taken away
    (Macaulay's inverse system). So a Laplacian in n dimensions needs n + 2 rows, where its terms
    one by one need 2 n + 1, and the square of a Laplacian in two dimensions 9 where they need 13.

    Any number may be the degree of a direction. If that of t is twice that of x, ``u_t - u_xx`` is
    homogeneous, and one row, beside those of ``u`` and ``u_x``.
    """
    plain = _rows(wanted, {})
    weights = _weights(wanted)
    other = _rows(wanted, weights) if weights else plain
    return min(plain, other, key=lambda rows: rows.algebra.size)


def _degree(monomial: Monomial, weights: Mapping[int, int]) -> int:
    return sum([weights.get(i, 1) for i in monomial])


def _weights(wanted: Sequence[Functional]) -> dict[int, int]:
    """Degrees other than 1 of directions, so that sums of pure derivatives are homogeneous.

    The highest order of a direction in no mixed derivative divides the order of what it is added
    to.
    """
    orders: dict[int, int] = {}
    mixed: set[int] = set()
    for m in (m for f in wanted for m in f):
        if len(set(m)) > 1:
            mixed.update(m)
        else:
            orders[m[0]] = max(len(m), orders.get(m[0], 0))
    found: dict[int, int] = {}
    for f in wanted:
        order = max(map(len, f))
        for i in {i for m in f for i in m} - mixed:
            if orders[i] < order and order % orders[i] == 0:
                found[i] = max(order // orders[i], found.get(i, 1))
    return found


def _rows(wanted: Sequence[Functional], weights: Mapping[int, int]) -> Rows:
    """The rows for the parts of functionals that are homogeneous with these weights."""
    given: dict[int, list[dict[Monomial, float]]] = {}
    for f in wanted:
        parts: dict[int, dict[Monomial, float]] = {}
        for m, factor in f.items():
            parts.setdefault(_degree(m, weights), {})[m] = factor
        for degree, part in parts.items():
            given.setdefault(degree, []).append(part)
    spans: list[list[dict[Monomial, float]]] = []
    for degree in range(max(given, default=0), 0, -1):
        spans.append(_reduced(given.get(degree, [])))
        for c in (c for f in spans[-1] for c in _contractions(f)):
            given.setdefault(_degree(next(iter(c)), weights), []).append(c)
    functionals = [{(): 1.0}, *[f for span in reversed(spans) for f in span]]
    pivots = _pivots(functionals)
    pairs = [_pairs(f, pivots) for f in functionals]
    algebra = Algebra(tuple([_degree(p, weights) for p in pivots]), tuple(pairs))
    return Rows(algebra, tuple(functionals), tuple(pivots))


def _contractions(f: Functional) -> list[dict[Monomial, float]]:
    """The contraction of a functional with a series that is one direction times another series."""
    found: list[dict[Monomial, float]] = []
    for direction in sorted({i for m in f for i in m}):
        left: dict[Monomial, float] = {}
        for m, factor in f.items():
            if direction in m:
                at = m.index(direction)
                left[m[:at] + m[at + 1 :]] = factor
        found.append(left)
    return found


def _reduced(given: Sequence[Functional]) -> list[dict[Monomial, float]]:
    """The reduced basis of a span: each has a monomial with factor 1 that no other one has."""
    basis: list[tuple[Monomial, dict[Monomial, float]]] = []
    for f in given:
        rest = dict(f)
        for pivot, other in basis:
            _subtract(rest, other, rest.get(pivot, 0.0))
        if not rest:
            continue
        pivot = max(rest, key=lambda m: abs(rest[m]))
        scale = rest[pivot]
        rest = {m: v / scale for m, v in rest.items()}
        rest[pivot] = 1.0
        for _, other in basis:
            _subtract(other, rest, other.get(pivot, 0.0))
        basis.append((pivot, rest))
    return [f for _, f in sorted(basis, key=lambda each: each[0])]


def _subtract(f: dict[Monomial, float], other: Functional, factor: float) -> None:
    if factor:
        for m, v in other.items():
            before = f.get(m, 0.0)
            f[m] = before - factor * v
            if abs(f[m]) <= 1e-12 * abs(before):
                del f[m]


def _pivots(functionals: Sequence[Functional]) -> list[Monomial]:
    """For each functional a monomial with factor 1 that no other one has."""
    users: dict[Monomial, int] = {}
    for f in functionals:
        for m in f:
            users[m] = users.get(m, 0) + 1
    return [next(m for m, v in f.items() if v == 1.0 and users[m] == 1) for f in functionals]


def _pairs(f: Functional, pivots: Sequence[Monomial]) -> tuple[tuple[int, int, float], ...]:
    found: list[tuple[int, int, float]] = []
    for a, p in enumerate(pivots):
        for b, q in enumerate(pivots):
            factor = f.get(tuple(sorted(p + q)), 0.0)
            if factor:
                found.append((a, b, factor))
    return tuple(found)
