"""Index maps: from an iteration space to the elements of a tensor.

A map is a tuple of expressions, one for each axis of the tensor, over the iterators of a *space*,
a list of iterators ``i0, i1...`` with their extents. The canonical space of a tensor has one
iterator for each axis; since all maps use it, equal maps of different ops are the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final

from msgspec import Struct

from pirkit.index.expr import Expr, Floor, Iter, Read, as_expr, const, floor, iterator, within
from pirkit.index.extent import EXPECTED, expected, is_sized, reaches, sign
from pirkit.index.substitution import names_of, resized, substitute

Index = tuple[Expr, ...]
"""One expression for each axis."""


class Guard(Struct, frozen=True):
    """The condition ``0 <= value < bound``."""

    value: Expr
    bound: int

    @property
    def is_true(self) -> bool:
        return within(self.value, self.bound)

    @property
    def is_false(self) -> bool:
        low, high = self.value.limits
        below = high is not None and reaches(-1 - high, 0)
        above = low is not None and reaches(low - self.bound, 0)
        return below or above or (not is_sized(self.bound) and self.bound <= 0)

    def __repr__(self) -> str:
        return f"0 <= {self.value!r} < {self.bound}"


def space(extents: Sequence[int], letter: str = "i") -> Index:
    """The iterators of a space as expressions: the identity map of a tensor of these extents."""
    return _space(tuple(extents), letter)


@lru_cache(maxsize=512)
def _space(extents: tuple[int, ...], letter: str) -> Index:
    return tuple([iterator(f"{letter}{k}", n) for k, n in enumerate(extents)])


def bindings(outer: Index, values: Index) -> dict[Iter, Expr]:
    """The substitution of a space's iterators by the values on its axes."""
    return {e.iter: v for e, v in zip(outer, values, strict=True) if e.iter is not None}


def compose(index: Index, values: Mapping[Iter, Expr]) -> Index:
    """Function composition: the iterators of ``index`` are substituted by ``values``."""
    return tuple([substitute(e, values) for e in index])


def at_sizes(index: Index, sizes: Mapping[str, int]) -> Index:
    """A map with symbolic sizes substituted."""
    return tuple([resized(e, sizes) for e in index])


def flat(index: Sequence[Expr | int], extents: Sequence[int]) -> Expr:
    """Linearization: the row-major position of an element."""
    found = const(0)
    for value, n in zip(index, extents, strict=True):
        found = found * n + as_expr(value)
    return found


def digits(position: Expr, extents: Sequence[int]) -> Index:
    """Delinearization: the index of the element at a row-major position, which is in range."""
    found: list[Expr] = []
    for n in extents[:0:-1]:
        found.append(position % n if n else const(0))
        position = floor(position, n) if n else const(0)
    if extents:
        found.append(position if extents[0] else const(0))
    return tuple(found[::-1])


def inverse(index: Index, outer: Index, extents: Sequence[int]) -> Index | None:
    """The inverse map, over the canonical space of a tensor; None if it is not found.

    It is found for bijections in which each iterator occurs entirely on one axis, alone or as one
    of the axis' mixed-radix digits, in either direction.
    """
    if prod(extents) != prod(_extent(e) for e in outer):
        return None
    here = space(extents)
    found: dict[Iter, Expr] = {}
    if not all(_solve(e, a, n, found) for e, a, n in zip(index, here, extents, strict=True)):
        found = {}  # linearized, the digits of several axes may be whole iterators
        if not _solve(flat(index, extents), flat(here, extents), prod(extents), found):
            return None
    if any(e.iter is not None and e.iter not in found for e in outer):
        return None
    values = tuple([found[e.iter] if e.iter is not None else const(0) for e in outer])
    # the solution is a guess of digits: it counts only if the composition is the identity
    return values if compose(index, bindings(outer, values)) == here else None


def _extent(expr: Expr) -> int:
    return expr.iter.extent if expr.iter is not None else 1


def _solve(expr: Expr, axis: Expr, extent: int, found: dict[Iter, Expr]) -> bool:
    """Solve one axis for its iterators, those with the largest strides first."""
    rest, left = axis - expr.constant, extent
    for atom, k in sorted(expr.terms, key=lambda t: -abs(expected(t[1]))):
        side = sign(k)
        if not isinstance(atom, Iter) or atom in found or side is None:
            return False
        step = k * side
        # the digits of a mixed radix number: extent times stride is the stride of the next digit
        if left != atom.extent * step:
            return False
        if side < 0:  # a reversed axis: its digit is extent - 1 - i
            rest = rest + step * (atom.extent - 1)
        digit = floor(rest, step)
        found[atom] = digit if side > 0 else atom.extent - 1 - digit
        rest, left = rest - digit * step, step
    return left == 1 or not expr.terms


def image_size(index: Index, extents: Sequence[int]) -> int:
    """An upper bound of the number of elements that a map touches, for static sizes."""
    bound = prod(extents)
    iters = {i for e in index for i in e.iters}
    reached = prod(i.extent for i in iters)
    box = prod(e.bounds[1] - e.bounds[0] + 1 for e in index)
    return min(bound, reached, box) if not any(e.has_reads for e in index) else min(bound, reached)


def evaluate(expr: Expr, values: Mapping[Iter, int]) -> int:
    """The value of an expression without reads, for values of its iterators and symbols."""
    if expr.sized:
        sizes = {i.name: n for i, n in values.items()}
        expr = resized(expr, {name: sizes[name] for name in names_of(expr)})
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
    """Points of a space, at most ``limit``: all of a small one, else those near its corners."""
    ordered = sorted(iters, key=lambda i: i.order)
    size = prod(i.extent for i in ordered)
    if size <= limit:
        ranges = [list(range(i.extent)) for i in ordered]
    else:
        corners = [(i, {0, 1, i.extent // 2, i.extent - 1}) for i in ordered]
        ranges = [sorted(k for k in corner if 0 <= k < i.extent) for i, corner in corners]
    for count, values in enumerate(product(*ranges)):
        if count >= limit:
            return
        yield dict(zip(ordered, values, strict=True))


TRIED: Final = (5, 2, 3, EXPECTED)
"""The values tried for symbolic sizes in the search for a witness."""


def witness(left: Index, right: Index, limit: int = 4096) -> dict[Iter, int] | None:
    """A point at which two maps differ; None if none was found, or if they depend on data.

    The point also assigns values to symbolic sizes, as iterators without extent.
    """
    if any(e.has_reads for e in (*left, *right)):
        return None
    names = {name for e in (*left, *right) for name in names_of(e)}
    if names:
        for size in TRIED:
            sizes = dict.fromkeys(names, size)
            found = witness(at_sizes(left, sizes), at_sizes(right, sizes), limit)
            if found is not None:
                return {Iter(name, 0): size for name in sorted(names)} | found
        return None
    iters = {i for e in (*left, *right) for i in e.iters}
    for point in points(iters, limit):
        if any(evaluate(a, point) != evaluate(b, point) for a, b in zip(left, right, strict=True)):
            return point
    return None
