"""Index rules of ops that write where another tensor says."""

from __future__ import annotations

from typing import Final

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Opaque, Scatter
from pirkit.dialect.opdef import index_maps
from pirkit.dialect.rules.index_maps.elementwise_maps import aligned
from pirkit.index.expr import const, read
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Index, space

WAYS: Final = {
    **{name: name for name in ("assign", "add", "mul", "amin", "amax")},
    "multiply": "mul",
}
"""How elements are reduced, by the name that the attribute has for it."""


@index_maps("pd_op.scatter_nd_add")
def _scatter_nd_add(call: MapCall) -> Scatter | Opaque:
    shape, index = call.meta("x").shape, call.meta("index")
    count = index.shape[-1]
    if 0 in shape or not count or is_sized(count):
        return Opaque("its places have no number of axes")
    places = index.shape[:-1]
    if 0 in places or 0 in call.meta("updates").shape:
        return Opaque("there is no place to write to")
    extents = (*places, *shape[count:])
    point = space(extents, "r")
    lead, rest = point[: len(places)], point[len(places) :]
    named = [read(call.source("index"), (*lead, const(axis)), shape[axis]) for axis in range(count)]
    return _into(call, "x", "updates", "add", (*named, *rest), extents)


@index_maps("pd_op.scatter")
def _scatter(call: MapCall) -> Scatter | Opaque:
    shape, index, updates = (call.meta(name).shape for name in ("x", "index", "updates"))
    if not call.attrs["overwrite"]:
        return Opaque("it clears the rows before it adds to them")
    if 0 in shape or 0 in updates:
        return Opaque("there is no place to write to")
    extents = updates if len(updates) == len(shape) else (1, *updates)
    row, *rest = space(extents, "r")
    place = (row, const(0))[: len(index)]
    named = read(call.source("index"), place, shape[0])
    start, body = (
        call.load("x", call.here()),
        call.load("updates", (row, *rest)[len(shape) - len(updates) :]),
    )
    return Scatter("assign", start, body, (named, *rest), extents)


@index_maps("pd_op.put_along_axis")
def _put_along_axis(call: MapCall) -> Scatter | Opaque:
    shape, places = call.meta("arr").shape, call.meta("indices").shape
    way = WAYS.get(call.attrs["reduce"])
    if way is None or not call.attrs["include_self"]:
        return Opaque("it asks what was written where")
    if not shape or 0 in shape:
        return Opaque("there is no place to write to")
    axis = int(call.attrs["axis"]) % len(shape)
    for k, (n, m) in enumerate(zip(places, shape, strict=True)):
        if k != axis and n != m and (is_sized(n) or is_sized(m) or n > m):
            return Opaque("its indices may be longer than what is written into")
    values = call.meta("values").shape
    if values and any(n not in (1, m) for n, m in zip(values, places, strict=True)):
        return Opaque("what it writes may not be spread to its indices")
    point = space(places, "r")
    found = read(call.source("indices"), point, shape[axis])
    index = (*point[:axis], found, *point[axis + 1 :])
    return _into(call, "arr", "values", way, index, places)


def _into(
    call: MapCall, into: str, values: str, how: str, index: Index, extents: tuple[int, ...]
) -> Scatter:
    start = call.load(into, call.here())
    point = space(extents, "r")
    body = call.load(values, aligned(point, call.meta(values).shape))
    return Scatter(how, start, body, index, extents)
