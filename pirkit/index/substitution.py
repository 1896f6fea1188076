"""Substitution in index expressions: of iterators, tensor numbers and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pirkit.index.expr import (
    Atom,
    Broadcast,
    Expr,
    Floor,
    Iter,
    Read,
    broadcast,
    combine,
    const,
    floor,
    iterator,
    read,
    single,
)
from pirkit.index.extent import at
from pirkit.index.extent import names_of as names_in


def substitute(expr: Expr, values: Mapping[Iter, Expr]) -> Expr:
    """The expression with iterators substituted."""
    if values.keys().isdisjoint(expr.iters):
        return expr
    if (only := expr.iter) is not None:  # as most are
        return values[only]

    def change(atom: Atom) -> Expr:
        if isinstance(atom, Iter):
            return values.get(atom, single(atom))
        return _inside(atom, lambda e: substitute(e, values))

    return combine((const(expr.constant), 1), *((change(a), k) for a, k in expr.terms))


def renumber(expr: Expr, source_of: Callable[[int], int]) -> Expr:
    """The expression with the tensors that it reads renumbered."""
    if not expr.has_reads:
        return expr

    def change(atom: Atom) -> Expr:
        if isinstance(atom, Read):
            index = [renumber(e, source_of) for e in atom.index]
            return read(source_of(atom.source), index, atom.extent, atom.from_end)
        return _inside(atom, lambda e: renumber(e, source_of))

    return combine((const(expr.constant), 1), *((change(a), k) for a, k in expr.terms))


def resized(expr: Expr, sizes: Mapping[str, int]) -> Expr:
    """The expression with symbolic sizes substituted, also in the extents of iterators.

    A floor division by a size of 0 becomes 0, as there is no element to index.
    """
    if not expr.sized:
        return expr

    def change(atom: Atom) -> Expr:
        if isinstance(atom, Iter):
            return iterator(atom.name, at(atom.extent, sizes))
        return _inside(atom, lambda e: resized(e, sizes), lambda n: at(n, sizes))

    terms = [(change(a), at(k, sizes)) for a, k in expr.terms]
    return combine((const(at(expr.constant, sizes)), 1), *terms)


def _inside(
    atom: Atom, change: Callable[[Expr], Expr], number: Callable[[int], int] = lambda n: n
) -> Expr:
    """An atom with its operands transformed."""
    match atom:
        case Floor():
            by = number(atom.by)
            return floor(change(atom.inner), by) if by else const(0)
        case Broadcast():
            return broadcast(change(atom.inner), number(atom.extent))
        case Read():
            index = [change(e) for e in atom.index]
            return read(atom.source, index, number(atom.extent), atom.from_end)
        case _:
            return single(atom)


def reads_of(expr: Expr) -> list[Read]:
    """The data-dependent atoms in an expression, inner ones first."""
    found: list[Read] = []
    for atom, _ in expr.terms:
        for e in _parts(atom):
            found += reads_of(e)
        if isinstance(atom, Read):
            found.append(atom)
    return found


def numbers_of(expr: Expr) -> Iterator[int]:
    """All coefficients, constants and extents in an expression."""
    yield expr.constant
    for atom, factor in expr.terms:
        yield factor
        if isinstance(atom, Iter | Broadcast | Read):
            yield atom.extent
        if isinstance(atom, Floor):
            yield atom.by
        for e in _parts(atom):
            yield from numbers_of(e)


def names_of(expr: Expr) -> list[str]:
    """The symbols in an expression, each once."""
    return names_in(numbers_of(expr)) if expr.sized else []


def _parts(atom: Atom) -> Iterator[Expr]:
    if isinstance(atom, Floor | Broadcast):
        yield atom.inner
    elif isinstance(atom, Read):
        yield from atom.index
