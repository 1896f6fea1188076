"""Index rules of frames: an element of a window is at an affine index, and no data tell it."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Choose, Fill, Load, Node, Opaque, Reduction
from pirkit.dialect.opdef import index_maps
from pirkit.index.expr import Expr, floor
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Guard, space

OPEN = Opaque("how many frames there are is known only at run time")


@index_maps("pd_op.frame")
def _frame(call: MapCall) -> Load | Opaque:
    """Element ``k`` of frame ``f`` is at ``f * hop + k``."""
    first, hop = call.attrs["axis"] == 0, call.attrs["hop_length"]
    if is_sized(call.meta("x").shape[0 if first else -1]):
        return OPEN
    here = call.here()
    frame, element, rest = (
        (here[0], here[1], here[2:]) if first else (here[-1], here[-2], here[:-2])
    )
    place = frame * hop + element
    return call.load("x", (place, *rest) if first else (*rest, place))


@index_maps("pd_op.overlap_add")
def _overlap_add(call: MapCall) -> Reduction | Load | Choose | Opaque:
    """Place ``p`` is element ``p % hop + m * hop`` of frame ``p // hop - m``, for each ``m``."""
    first, hop = call.attrs["axis"] == 0, call.attrs["hop_length"]
    shape = call.meta("x").shape
    count, length = shape[:2] if first else (shape[-1], shape[-2])
    if is_sized(count) or is_sized(length):
        return OPEN
    if not count:
        return Opaque("it reads an empty tensor")
    here = call.here()
    place, rest = (here[0], here[1:]) if first else (here[-1], here[:-1])
    turns = -(-length // hop)
    (turn,) = space((turns,), "r")
    frame: Expr = floor(place, hop) - turn
    element = place % hop + turn * hop
    index = (frame, element, *rest) if first else (*rest, element, frame)
    guards = [g for g in (Guard(frame, count), Guard(element, length)) if not g.is_true]
    body: Node = call.load("x", index)
    if guards:
        body = Choose(tuple(guards), body, Fill(0, call.out.dtype))
    return Reduction("pd_op.sum", body, (turns,), {"dtype": None}) if turns != 1 else body
