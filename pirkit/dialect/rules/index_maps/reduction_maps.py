"""Index rules of reductions: an outer space of results, an inner one of what is reduced."""

from __future__ import annotations

from math import prod
from typing import Any

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Load, Opaque, Reduction
from pirkit.dialect.opdef import index_maps, lookup
from pirkit.index.expr import Expr
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import digits, space


def _reduced(call: MapCall, axes: tuple[int, ...], attrs: dict[str, Any]) -> Reduction | Load:
    """The reduction over some axes, whether or not the result keeps them as axes of length 1."""
    shape = call.meta("x").shape
    gone = {a % len(shape) for a in axes} if axes else set(range(len(shape)))
    extents = tuple([shape[a] for a in sorted(gone)])
    inner = iter(space(extents, "r"))
    size = call.out.rank == len(shape)
    outer = iter(call.here())
    index: list[Expr] = []
    for axis in range(len(shape)):
        if axis not in gone:
            index.append(next(outer))
        else:
            index.append(next(inner))
            if size:
                next(outer)
    return Reduction(call.definition.name, call.load("x", tuple(index)), extents, attrs)


@index_maps("pd_op.sum", "pd_op.max", "pd_op.min", "pd_op.amax", "pd_op.amin", "pd_op.prod")
def _reduce(call: MapCall) -> Reduction | Load | Opaque:
    if call.meta("x").rank == 0:
        return Opaque("it has no axis to go over")
    axes = tuple(call.attrs["axis"] or ())
    if call.attrs.get("reduce_all"):
        axes = ()
    held = {k: v for k, v in call.attrs.items() if k == "dtype"}
    return _reduced(call, axes, held)


@index_maps("pd_op.all", "pd_op.any")
def _quantify(call: MapCall) -> Reduction | Load | Opaque:
    if call.meta("x").rank == 0:
        return Opaque("it has no axis to go over")
    return _reduced(call, tuple(call.attrs["axis"] or ()), {})


@index_maps("pd_op.reduce_as")
def _as(call: MapCall) -> Reduction | Load | Opaque:
    """Axes that the other shape lacks, or has with one element, are summed.

    Where only the sizes tell, the sum goes over all elements or over one: the place on such an axis
    is where the result is, or where the sum is, as one of the two is always 0.
    """
    shape, wanted = call.meta("x").shape, call.meta("target").shape
    if 0 in shape and any(map(is_sized, wanted)):
        return Opaque("it sums no elements, and the run knows over which axes")
    lead = len(shape) - len(wanted)
    over: dict[int, int] = {axis: shape[axis] for axis in range(lead)}
    for axis, (n, size) in enumerate(zip(shape[lead:], wanted, strict=True), lead):
        if size != n and (is_sized(size) or size == 1):
            over[axis] = call.sizes.reduced(n, size)
    inner = dict(zip(over, space(tuple(over.values()), "r"), strict=True))
    index: list[Expr] = [inner[axis] for axis in range(lead)]
    for axis, place in enumerate(call.here(), lead):
        index.append(place + inner[axis] if axis in inner else place)
    if not over and call.out.dtype is not call.meta("x").dtype:
        return Opaque("it counts, over no axes")
    body, extents = call.load("x", tuple(index)), tuple(over.values())
    return Reduction(lookup("pd_op.sum").name, body, extents, {"dtype": None}) if over else body


@index_maps("pd_op.argmax", "pd_op.argmin")
def _place(call: MapCall) -> Reduction | Load | Opaque:
    shape = call.meta("x").shape
    if not shape or 0 in shape:
        return Opaque("it has no axis to go over")
    attrs = {"dtype": call.attrs["dtype"]}
    if not call.attrs["flatten"]:
        return _reduced(call, (call.attrs["axis"],), attrs)
    (position,) = space((prod(shape),), "r")
    body = call.load("x", digits(position, shape))
    return Reduction(call.definition.name, body, (prod(shape),), attrs)
