"""Index maps: from the iterators of one space to the elements of a tensor.

A map is a tuple of expressions, one for each axis of the tensor, over the iterators of a *space*.
Spaces are numbered sets of iterators ``i0, i1...`` with their extents: the canonical space of a
tensor is that of its own axes, so that equal maps of different ops are the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from pirkit.index.expr import Expr, Floor, Iter, Read, as_expr, const, floor, iterator, substitute

Index = tuple[Expr, ...]
"""One expression for each axis."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Holds where ``0 <= value < bound``."""

    value: Expr
    bound: int

    @property
    def is_true(self) -> bool:
        low, high = self.value.bounds
        return low >= 0 and high < self.bound

    @property
    def is_false(self) -> bool:
        low, high = self.value.bounds
        return high < 0 or low >= self.bound

    def __repr__(self) -> str:
        return f"0 <= {self.value!r} < {self.bound}"


def space(extents: Sequence[int], letter: str = "i") -> Index:
    """The iterators of a space as expressions: of a tensor, each element once."""
    return tuple([iterator(f"{letter}{k}", n) for k, n in enumerate(extents)])


def bindings(outer: Index, values: Index) -> dict[Iter, Expr]:
    """What each iterator of a space stands for, given the value on each axis."""
    return {e.iter: v for e, v in zip(outer, values, strict=True) if e.iter is not None}


def compose(index: Index, values: Mapping[Iter, Expr]) -> Index:
    """A map after another: iterators of the first are values of the second."""
    return tuple([substitute(e, values) for e in index])


def flat(index: Sequence[Expr | int], extents: Sequence[int]) -> Expr:
    """Row-major position of an element: the digits of a number, put together."""
    found = const(0)
    for value, n in zip(index, extents, strict=True):
        found = found * n + as_expr(value)
    return found


def digits(position: Expr, extents: Sequence[int]) -> Index:
    """The index of the element at a row-major position."""
    found: list[Expr] = []
    for n in reversed(extents):
        found.append(position % n if n else const(0))
        position = floor(position, n) if n else const(0)
    return tuple(found[::-1])


def inverse(index: Index, outer: Index, extents: Sequence[int]) -> Index | None:
    """The map back, over the canonical space of a tensor; None where the map is no bijection.

    The digits of the tensor's axes have to be digits of the iterators: each iterator is met whole,
    on one axis, alone or as one of the digits of the axis; steps of 1 and -1 only.
    """
    if prod(extents) != prod(_extent(e) for e in outer):
        return None
    here = space(extents)
    found: dict[Iter, Expr] = {}
    if not all(_solve(e, a, n, found) for e, a, n in zip(index, here, extents, strict=True)):
        found = {}  # digits that are no iterators, put together, may be
        if not _solve(flat(index, extents), flat(here, extents), prod(extents), found):
            return None
    if any(e.iter is not None and e.iter not in found for e in outer):
        return None
    values = tuple([found[e.iter] if e.iter is not None else const(0) for e in outer])
    return values if compose(index, bindings(outer, values)) == here else None


def _extent(expr: Expr) -> int:
    return expr.iter.extent if expr.iter is not None else 1


def _solve(expr: Expr, axis: Expr, extent: int, found: dict[Iter, Expr]) -> bool:
    """Read the iterators of one axis off its value, those of the largest steps first."""
    rest, left = axis - expr.constant, extent
    for atom, k in sorted(expr.terms, key=lambda t: -abs(t[1])):
        if not isinstance(atom, Iter) or atom in found:
            return False
        step = abs(k)
        if left != atom.extent * step:
            return False
        if k < 0:
            rest = rest + step * (atom.extent - 1)
        digit = floor(rest, step)
        found[atom] = digit if k > 0 else atom.extent - 1 - digit
        rest, left = rest - digit * step, step
    return left == 1 or not expr.terms


def image_size(index: Index, extents: Sequence[int]) -> int:
    """How many elements of a tensor a map touches, at most."""
    bound = prod(extents)
    iters = {i for e in index for i in e.iters}
    reached = prod(i.extent for i in iters)
    box = prod(e.bounds[1] - e.bounds[0] + 1 for e in index)
    return min(bound, reached, box) if not any(e.has_reads for e in index) else min(bound, reached)


def evaluate(expr: Expr, values: Mapping[Iter, int]) -> int:
    """The value of an expression without reads at one point."""
    total = expr.constant
    for atom, k in expr.terms:
        if isinstance(atom, Iter):
            total += k * values[atom]
        elif isinstance(atom, Floor):
            total += k * (evaluate(atom.inner, values) // atom.by)
        elif isinstance(atom, Read):
            raise TypeError(f"{atom!r} is known only when the program runs")
    return total


def points(iters: Iterable[Iter], limit: int) -> Iterator[dict[Iter, int]]:
    """Points of a space, at most ``limit``: all if it is small, else those near its corners."""
    ordered = sorted(iters, key=lambda i: i.order)
    size = prod(i.extent for i in ordered)
    if size <= limit:
        ranges = [list(range(i.extent)) for i in ordered]
    else:
        corners = [{0, 1, i.extent // 2, i.extent - 1} for i in ordered]
        ranges = [sorted(c & set(range(i.extent))) for c, i in zip(corners, ordered, strict=True)]
    for count, values in enumerate(product(*ranges)):
        if count >= limit:
            return
        yield dict(zip(ordered, values, strict=True))


def witness(left: Index, right: Index, limit: int = 4096) -> dict[Iter, int] | None:
    """A point where two maps differ; None if none was found. Opaque numbers are not compared."""
    iters = {i for e in (*left, *right) for i in e.iters}
    if any(e.has_reads for e in (*left, *right)):
        return None
    for point in points(iters, limit):
        if any(evaluate(a, point) != evaluate(b, point) for a, b in zip(left, right, strict=True)):
            return point
    return None
