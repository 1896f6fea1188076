"""Spaces of ops that a library runs: matmuls and convolutions."""

from __future__ import annotations

from pirkit.dialect.map_expr.call import LIBRARY, MapCall
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Opaque, Reduction
from pirkit.dialect.opdef import index_maps
from pirkit.dialect.rules.index_maps.elementwise_maps import aligned
from pirkit.dialect.windows import is_channels_last, slides
from pirkit.index.expr import Expr, const, floor
from pirkit.index.index_maps import Guard, Index, space


@library_spaces("pd_op.matmul")
def _matmul(call: MapCall) -> Reduction:
    depth = _depth(call)
    return _sum(call, *_factors(call, *space((depth,), "r")), (depth,))


@index_maps("pd_op.matmul")
def _outer_product(call: MapCall) -> Apply | Opaque:
    """Columns times rows, such as the gradient of a matrix that one vector is multiplied by.

    They fuse with what reads them. A sum of one product begins with 0.0: -0.0 becomes 0.0.
    """
    dtype = call.out.dtype
    if _depth(call) != 1 or dtype.is_complex:
        return LIBRARY
    product = Apply("pd_op.multiply", _factors(call, const(0)), dtype)
    return Apply("pd_op.add", (product, Fill(0.0, dtype)), dtype) if dtype.is_float else product


def _depth(call: MapCall) -> int:
    return call.meta("x").shape[-2:][0 if call.attrs["transpose_x"] else -1]


def _factors(call: MapCall, k: Expr) -> tuple[Load, Load]:
    """The elements of both operands whose product is term k."""
    x, y = call.meta("x").shape, call.meta("y").shape
    transposed = call.attrs["transpose_x"], call.attrs["transpose_y"]
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
    return call.load("x", left), call.load("y", right)


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
