"""Index rules of ops that read where another tensor says."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.tree import Choose, Fill, Load, Node, Opaque
from pirkit.dialect.opdef import index_maps
from pirkit.index.expr import const, read
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Guard, Index


@index_maps("pd_op.gather", "pd_op.index_select")
def _gather(call: MapCall) -> Load | Opaque:
    shape, here = call.meta("x").shape, call.here()
    index = call.meta("index")
    axis = int(call.attrs["axis"] or 0) % len(shape)
    if 0 in shape:
        return Opaque("it reads an empty tensor")
    width = len(shape) - 1
    inner = call.out.rank - width
    if inner not in (0, 1) or index.rank > 2:
        return Opaque("its index has several axes")
    place: Index = (*here[axis : axis + inner], const(0), const(0))[: index.rank]
    if index.rank == 2 and index.shape[1] != 1:
        return Opaque("its index has several axes")
    found = read(call.source("index"), place, shape[axis])
    return call.load("x", (*here[:axis], found, *here[axis + inner :]))


@index_maps("pd_op.gather_nd")
def _gather_nd(call: MapCall) -> Load | Opaque:
    shape, index, here = call.meta("x").shape, call.meta("index").shape, call.here()
    count = index[-1]
    if 0 in shape or not count or is_sized(count):
        return Opaque("its places have no number of axes")
    lead, rest = here[: len(index) - 1], here[len(index) - 1 :]
    named = [read(call.source("index"), (*lead, const(axis)), shape[axis]) for axis in range(count)]
    return call.load("x", (*named, *rest))


@index_maps("pd_op.take_along_axis")
def _take_along_axis(call: MapCall) -> Load | Opaque:
    shape, here = call.meta("arr").shape, call.here()
    if not shape or 0 in shape:
        return Opaque("it has no axis to read along, or no elements")
    axis = int(call.attrs["axis"]) % len(shape)
    for k, n in enumerate(shape):
        if k != axis and n != call.out.shape[k]:
            return Opaque("its indices are spread")
    found = read(call.source("indices"), here, shape[axis])
    return call.load("arr", (*here[:axis], found, *here[axis + 1 :]))


@index_maps("pd_op.embedding")
def _embedding(call: MapCall) -> Node | Opaque:
    rows, _ = call.meta("weight").shape
    if not rows:
        return Opaque("it reads an empty tensor")
    *place, column = call.here()
    found = read(call.source("x"), tuple(place), rows, from_end=False)
    load = call.load("weight", (found, column))
    padding = call.attrs["padding_idx"]
    if padding < 0:
        return load
    return Choose((Guard(found - padding, 1),), Fill(0.0, call.out.dtype), load)
