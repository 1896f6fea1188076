"""Index rules of ops that join tensors or split one."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Choose, Node, Opaque
from pirkit.dialect.opdef import index_maps
from pirkit.index.index_maps import Guard

MOST: Final = 16
"""Tensors that are joined by choosing; more are copied one after the other."""


@index_maps("pd_op.concat")
def _concat(call: MapCall) -> Node | Opaque:
    count = call.count("x")
    if count > MOST:
        return Opaque(f"it joins more than {MOST} tensors")
    axis, here = int(call.attrs["axis"]) % call.out.rank, call.here()
    widths = [call.meta("x", k).shape[axis] for k in range(count)]
    firsts = [0, *accumulate(widths)]
    found: Node | None = None
    for k in reversed(range(count)):
        if not widths[k] and (found is not None or k):
            continue
        place = here[axis] - firsts[k]
        piece = call.load("x", (*here[:axis], place, *here[axis + 1 :]), k)
        found = piece if found is None else Choose((Guard(place, widths[k]),), piece, found)
    return found if found is not None else Opaque("it joins nothing")


@index_maps("pd_op.stack")
def _stack(call: MapCall) -> Node | Opaque:
    count = call.count("x")
    if count > MOST:
        return Opaque(f"it joins more than {MOST} tensors")
    axis, here = int(call.attrs["axis"]) % call.out.rank, call.here()
    rest = (*here[:axis], *here[axis + 1 :])
    found: Node = call.load("x", rest, count - 1)
    for k in reversed(range(count - 1)):
        found = Choose((Guard(here[axis] - k, 1),), call.load("x", rest, k), found)
    return found
