"""Shapes of results in sizes that are known only when the program runs.

A rule stands for `infer_meta` where the sizes of operands have names instead of numbers: put
numbers for the names, and it gives what `infer_meta` gives. None is a size that it does not tell.
"""

from __future__ import annotations

from itertools import zip_longest
from math import prod
from typing import cast

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.symbolic_shapes import Dims, Sizes, bounds_of, result_shapes
from pirkit.dialect.ops.movement.shape import reshaped
from pirkit.dialect.rules.index_maps.elementwise_maps import NAMES, elementwise
from pirkit.index.extent import Undecided, is_sized

Shapes = list[Dims]


def broadcast_shapes(sizes: Sizes, *shapes: tuple[int, ...]) -> Dims:
    """The shape to which some shapes are spread: axes align at the end."""
    columns = zip_longest(*(reversed(s) for s in shapes), fillvalue=1)
    return tuple([sizes.broadcast(*column) for column in columns])[::-1]


@result_shapes(*elementwise())
def _elementwise(call: MapCall, sizes: Sizes) -> Shapes:
    shapes = [call.meta(n).shape for n in call.names if call.count(n)]
    return [broadcast_shapes(sizes, *shapes)]


@result_shapes(
    *(f"pd_op.{name}" for name in NAMES),
    *(f"pd_op.{name}" for name in ("full_like", "flip", "roll", "cumprod", "cholesky", "inverse")),
    *(f"pd_op.{name}" for name in ("argsort", "cummax", "cummin", "softmax", "log_softmax")),
    "pd_op.put_along_axis",
    "pd_op.scatter",
)
def _same(call: MapCall, sizes: Sizes) -> Shapes:
    return [call.meta(call.names[0]).shape] * len(call.results)


@result_shapes("pd_op.scatter_nd_add")
def _scatter_nd_add(call: MapCall, sizes: Sizes) -> Shapes:
    shape, index = call.meta("x").shape, call.meta("index").shape
    if not is_sized(index[-1]):
        wanted = (*index[:-1], *shape[index[-1] :])
        for n, m in zip(call.meta("updates").shape, wanted, strict=True):
            sizes.check("equal", n, m)
    return [shape]


@result_shapes("pd_op.reduce_as")
def _reduce_as(call: MapCall, sizes: Sizes) -> Shapes:
    shape, wanted = call.meta("x").shape, call.meta("target").shape
    for n, size in zip(reversed(shape), reversed(wanted), strict=False):
        if not is_sized(size) and size != 1:
            sizes.check("equal", n, size)
    return [wanted]


@result_shapes("pd_op.full")
def _full(call: MapCall, sizes: Sizes) -> Shapes:
    return [tuple(call.attrs["shape"])]


@result_shapes("pd_op.cumsum")
def _cumsum(call: MapCall, sizes: Sizes) -> Shapes:
    shape = call.meta("x").shape
    return [(prod(shape),) if call.attrs["flatten"] else shape]


@result_shapes("pd_op.reshape")
def _reshape(call: MapCall, sizes: Sizes) -> Shapes:
    shape, wanted = call.meta("x").shape, list(call.attrs["shape"])
    if 0 in shape and not any(map(is_sized, (*shape, *wanted))):
        return [reshaped(shape, wanted)]
    if 0 in shape and not {0, -1}.isdisjoint(wanted):
        raise Undecided("whose sizes a reshape of no elements keeps")
    for axis, n in enumerate(wanted):
        if not is_sized(n) and n == 0 and axis < len(shape):
            wanted[axis] = shape[axis]
    axis = next((a for a, n in enumerate(wanted) if not is_sized(n) and n == -1), None)
    if axis is None:
        sizes.check("equal", prod(shape), prod(wanted))
        return [tuple(wanted)]
    before, after = wanted[:axis], wanted[axis + 1 :]
    rest = prod(before) * prod(after)
    return [(*before, sizes.quotient(prod(shape), rest), *after)]


@result_shapes("pd_op.flatten")
def _flatten(call: MapCall, sizes: Sizes) -> Shapes:
    shape = call.meta("x").shape
    if not shape:
        return [(1,)]
    first, last = (call.attrs[name] % len(shape) for name in ("start_axis", "stop_axis"))
    return [(*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])]


@result_shapes("pd_op.unsqueeze")
def _unsqueeze(call: MapCall, sizes: Sizes) -> Shapes:
    shape = list(call.meta("x").shape)
    for axis in call.attrs["axis"]:
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return [tuple(shape)]


@result_shapes("pd_op.squeeze")
def _squeeze(call: MapCall, sizes: Sizes) -> Shapes:
    shape = call.meta("x").shape
    axes = {a % len(shape) for a in call.attrs["axis"]} if shape else set[int]()
    for axis, n in enumerate(shape):
        if is_sized(n) and (axis in axes or not axes):
            raise Undecided(f"{n!r} == 1")
    gone = {axis for axis, n in enumerate(shape) if n == 1 and (axis in axes or not axes)}
    return [tuple([n for axis, n in enumerate(shape) if axis not in gone])]


@result_shapes("pd_op.transpose")
def _transpose(call: MapCall, sizes: Sizes) -> Shapes:
    shape = call.meta("x").shape
    perm: tuple[int, ...] = call.attrs["perm"]
    return [tuple([shape[axis] for axis in perm])]


@result_shapes("pd_op.expand")
def _expand(call: MapCall, sizes: Sizes) -> Shapes:
    shape, wanted = call.meta("x").shape, list(call.attrs["shape"])
    for axis, n in enumerate(reversed(shape), 1):
        if not is_sized(wanted[-axis]) and wanted[-axis] == -1:
            wanted[-axis] = n
    return [tuple(wanted)]


@result_shapes("pd_op.expand_as")
def _expand_as(call: MapCall, sizes: Sizes) -> Shapes:
    return [call.meta("y").shape if call.count("y") else tuple(call.attrs["target_shape"])]


@result_shapes("pd_op.tile")
def _tile(call: MapCall, sizes: Sizes) -> Shapes:
    pairs = zip_longest(
        reversed(call.meta("x").shape), reversed(call.attrs["repeat_times"]), fillvalue=1
    )
    return [tuple([n * times for n, times in pairs])[::-1]]


@result_shapes("pd_op.slice")
def _slice(call: MapCall, sizes: Sizes) -> Shapes:
    shape: list[int] = list(call.meta("input").shape)
    dropped: set[int] = {axis % len(shape) for axis in call.attrs["decrease_axis"]}
    axes: tuple[int, ...] = call.attrs["axes"]
    for axis, start, end in zip(axes, call.attrs["starts"], call.attrs["ends"], strict=True):
        if axis % len(shape) in dropped:
            continue
        first, last = bounds_of(shape[axis], start, end, sizes)
        shape[axis] = last - first
    left = tuple([n for axis, n in enumerate(shape) if axis not in dropped])
    return [left if left or not call.out.rank else (1,)]


@result_shapes("pd_op.strided_slice")
def _strided_slice(call: MapCall, sizes: Sizes) -> Shapes:
    shape: list[int | None] = list(call.meta("x").shape)
    starts, ends, steps = (call.attrs[name] for name in ("starts", "ends", "strides"))
    for k, axis in enumerate(cast("tuple[int, ...]", call.attrs["axes"])):
        first, last = bounds_of(call.meta("x").shape[axis], starts[k], ends[k], sizes)
        shape[axis] = sizes.steps(last - first, steps[k]) if steps[k] > 0 else None
    return [tuple(shape)]


@result_shapes("pd_op.diagonal")
def _diagonal(call: MapCall, sizes: Sizes) -> Shapes:
    shape, offset = call.meta("x").shape, int(call.attrs["offset"])
    first, second = (int(call.attrs[name]) % len(shape) for name in ("axis1", "axis2"))
    down, right = shape[first] + min(offset, 0), shape[second] - max(offset, 0)
    others = tuple([n for axis, n in enumerate(shape) if axis not in (first, second)])
    return [(*others, sizes.larger(sizes.smaller(down, right), 0))]


@result_shapes("pd_op.pad")
def _pad(call: MapCall, sizes: Sizes) -> Shapes:
    around = call.attrs["paddings"]
    shape = call.meta("x").shape
    return [tuple([n + around[2 * k] + around[2 * k + 1] for k, n in enumerate(shape)])]


@result_shapes("pd_op.concat")
def _concat(call: MapCall, sizes: Sizes) -> Shapes:
    shapes = [call.meta("x", k).shape for k in range(call.count("x"))]
    axis = int(call.attrs["axis"]) % len(shapes[0])
    joined = sum(s[axis] for s in shapes)
    columns = list(zip(*shapes, strict=True))
    for k, column in enumerate(columns):
        for n in column[1:] if k != axis else ():
            sizes.check("equal", column[0], n)
    same = [next((n for n in column if not is_sized(n)), column[0]) for column in columns]
    return [tuple([joined if k == axis else n for k, n in enumerate(same)])]


@result_shapes("pd_op.stack")
def _stack(call: MapCall, sizes: Sizes) -> Shapes:
    count, shape = call.count("x"), list(call.meta("x").shape)
    shape.insert(int(call.attrs["axis"]) % (len(shape) + 1), count)
    return [tuple(shape)]


@result_shapes("pd_op.gather", "pd_op.index_select")
def _gather(call: MapCall, sizes: Sizes) -> Shapes:
    shape, index = call.meta("x").shape, call.meta("index").shape
    axis = int(call.attrs["axis"] or 0) % len(shape)
    inner = index[: call.out.rank - len(shape) + 1]
    return [(*shape[:axis], *inner, *shape[axis + 1 :])]


@result_shapes("pd_op.gather_nd")
def _gather_nd(call: MapCall, sizes: Sizes) -> Shapes:
    shape, index = call.meta("x").shape, call.meta("index").shape
    if is_sized(index[-1]):
        return [(None,) * call.out.rank]
    return [(*index[:-1], *shape[index[-1] :])]


@result_shapes("pd_op.take_along_axis")
def _take_along_axis(call: MapCall, sizes: Sizes) -> Shapes:
    shape, places = call.meta("arr").shape, call.meta("indices").shape
    axis = int(call.attrs["axis"]) % len(shape)
    return [
        tuple(
            [
                n if k == axis or n == m else None
                for k, (n, m) in enumerate(zip(places, shape, strict=True))
            ]
        )
    ]


@result_shapes("pd_op.embedding")
def _embedding(call: MapCall, sizes: Sizes) -> Shapes:
    return [(*call.meta("x").shape, call.meta("weight").shape[1])]


@result_shapes(
    *(f"pd_op.{name}" for name in ("sum", "max", "min", "amax", "amin", "prod", "all", "any"))
)
def _reduction(call: MapCall, sizes: Sizes) -> Shapes:
    axes = () if call.attrs.get("reduce_all") else tuple(call.attrs["axis"] or ())
    return [_reduced(call.meta("x").shape, axes, call.attrs["keepdim"])]


@result_shapes("pd_op.argmax", "pd_op.argmin")
def _place(call: MapCall, sizes: Sizes) -> Shapes:
    axes = () if call.attrs["flatten"] else (call.attrs["axis"],)
    return [_reduced(call.meta("x").shape, axes, call.attrs["keepdims"])]


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keeps: bool) -> Dims:
    gone = {a % len(shape) for a in axes} if shape and axes else set(range(len(shape)))
    if keeps:
        return tuple([1 if axis in gone else n for axis, n in enumerate(shape)])
    return tuple([n for axis, n in enumerate(shape) if axis not in gone])


@result_shapes("pd_op.topk")
def _topk(call: MapCall, sizes: Sizes) -> Shapes:
    shape = list(call.meta("x").shape)
    if shape:
        shape[call.attrs["axis"]] = int(call.attrs["k"])
    return [tuple(shape)] * 2


@result_shapes("pd_op.matmul")
def _matmul(call: MapCall, sizes: Sizes) -> Shapes:
    x, y = (call.meta(name).shape for name in ("x", "y"))
    left, right = len(x) > 1, len(y) > 1
    rows = (x[-1] if call.attrs["transpose_x"] else x[-2],) if left else ()
    columns = (y[-2] if call.attrs["transpose_y"] else y[-1],) if right else ()
    return [(*broadcast_shapes(sizes, x[:-2], y[:-2]), *rows, *columns)]


@result_shapes("pd_op.conv2d", "pd_op.conv3d", "pd_op.depthwise_conv2d")
def _convolution(call: MapCall, sizes: Sizes) -> Shapes:
    shape, count = call.meta("input").shape, call.meta("filter").shape[0]
    inner = (None,) * (len(shape) - 2)
    last = call.attrs["data_format"][-1] == "C"
    return [(shape[0], *inner, count) if last else (shape[0], count, *inner)]


@result_shapes("pd_op.pool2d", "pd_op.pool3d")
def _pool(call: MapCall, sizes: Sizes) -> Shapes:
    shape = call.meta("x").shape
    inner = (None,) * (len(shape) - 2)
    last = call.attrs["data_format"][-1] == "C"
    return [(shape[0], *inner, shape[-1]) if last else (*shape[:2], *inner)]
