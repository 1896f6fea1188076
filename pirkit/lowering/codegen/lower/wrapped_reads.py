"""Reads that wrap around along the vector axis, as in `roll`: two guarded reads of whole vectors.

The index ``(i + c) mod n`` differs from an affine one by a floor division that has two values. With
the division written out each lane would look up its element; with a guard each side is contiguous.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pirkit.dialect.map_expr.tree import Apply, Choose, Load, Node, walk
from pirkit.index.expr import Expr, Floor, Iter, floor
from pirkit.index.index_maps import Guard

LEAST_EXTENT: Final = 8
"""Shorter axes do not fill a vector."""


def split_wraps(root: Node, lanes: Iter) -> Node:
    """The tree with reads that wrap around along ``lanes`` split."""
    rebuilt: dict[int, Node] = {}
    for node in walk(root):
        done: Node = node
        match node:
            case Load():
                done = _split(node, lanes)
            case Choose():
                done = replace(node, yes=rebuilt[id(node.yes)], no=rebuilt[id(node.no)])
            case Apply():
                done = replace(node, args=tuple([rebuilt[id(a)] for a in node.args]))
            case _:
                pass
        rebuilt[id(node)] = done
    return rebuilt[id(root)]


def _split(load: Load, lanes: Iter) -> Node:
    along = [(k, e) for k, e in enumerate(load.index) if lanes in e.iters]
    if lanes.sized or lanes.extent < LEAST_EXTENT or len(along) != 1 or along[0][1].has_reads:
        return load
    [(axis, e)] = along
    wrap = _wrap_of(e, lanes)
    if wrap is None:
        return load
    inner, by, first = wrap
    quotient = floor(inner, by)

    def read(value: int) -> Load:
        moved = e + quotient * by - value * by
        return Load(load.source, (*load.index[:axis], moved, *load.index[axis + 1 :]))

    return Choose((Guard(inner - first * by, by),), read(first), read(first + 1))


def _wrap_of(e: Expr, lanes: Iter) -> tuple[Expr, int, int] | None:
    """``(inner, by, first)`` if ``e`` is ``inner mod by`` along ``lanes``, and more that does not
    depend on them; the quotient is ``first`` or one more.
    """
    over = [(a, k) for a, k in e.terms if isinstance(a, Floor) and lanes in a.inner.iters]
    if len(over) != 1 or over[0][0].sized:
        return None
    [(atom, factor)] = over
    inner = atom.inner
    # e = inner - by * floor(inner / by) + ..., both with step 1, and the floor has two values.
    steps = [dict(of.terms).get(lanes, 0) for of in (e, inner)]
    low, high = [n // atom.by for n in inner.bounds]
    if steps != [1, 1] or factor != -atom.by or high != low + 1:
        return None
    return inner, atom.by, low
