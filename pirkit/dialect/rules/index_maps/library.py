"""Spaces of ops that a library runs: matmuls and convolutions."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Reduction
from pirkit.dialect.rules.index_maps.elementwise import aligned
from pirkit.dialect.windows import is_channels_last, slides
from pirkit.index.expr import Expr, floor
from pirkit.index.index_maps import Guard, Index, space


@library_spaces("pd_op.matmul")
def _matmul(call: MapCall) -> Reduction:
    x, y = call.meta("x").shape, call.meta("y").shape
    transposed = call.attrs["transpose_x"], call.attrs["transpose_y"]
    depth = x[-2:][0 if transposed[0] else -1]
    (k,) = space((depth,), "r")
    here = call.here()
    lead = here[: call.out.rank - (len(x) > 1) - (len(y) > 1)]
    left: Index = (k,)
    right: Index = (k,)
    if len(x) > 1:
        row = here[len(lead)]
        left = (*aligned(lead, x[:-2]), *((k, row) if transposed[0] else (row, k)))
    if len(y) > 1:
        column = here[-1]
        right = (*aligned(lead, y[:-2]), *((column, k) if transposed[1] else (k, column)))
    return _sum(call, call.load("x", left), call.load("y", right), (depth,))


@library_spaces("pd_op.conv2d", "pd_op.depthwise_conv2d", "pd_op.conv3d")
def _convolution(call: MapCall) -> Reduction:
    shape, filters = call.meta("input").shape, call.meta("filter").shape
    last = is_channels_last(call.attrs["data_format"], "C2")
    lengths = shape[1:-1] if last else shape[2:]
    a = call.attrs
    padding = a["paddings"], a["padding_algorithm"]
    moves = slides(lengths, filters[2:], a["strides"], *padding, a["dilations"], "C5")
    image, *rest = call.here()
    channel, places = (rest[-1], rest[:-1]) if last else (rest[0], rest[1:])
    depth, *offsets = space(filters[1:], "r")
    group = floor(channel, filters[0] // call.attrs["groups"])
    at: list[Expr] = [
        place * move.stride + offset * move.dilation - move.before
        for place, offset, move in zip(places, offsets, moves, strict=True)
    ]
    source = depth + group * filters[1]
    read: Node = call.load("input", (image, *at, source) if last else (image, source, *at))
    guards = [Guard(e, n) for e, n in zip(at, lengths, strict=True)]
    left = tuple([g for g in guards if not g.is_true])
    if left:
        read = Choose(left, read, Fill(0.0, call.out.dtype))
    return _sum(call, read, call.load("filter", (channel, depth, *offsets)), filters[1:])


def _sum(call: MapCall, one: Node, other: Load, extents: tuple[int, ...]) -> Reduction:
    body = Apply("pd_op.multiply", (one, other), call.out.dtype)
    return Reduction("pd_op.sum", body, extents, {"dtype": None})
