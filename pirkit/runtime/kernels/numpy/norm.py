"""Normalisations over rows: layer, group, instance, root mean square.

Rows are normalized block by block: mean, deviation and scaling run while a block is in cache.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.softmax import blocks, copy_back
from pirkit.runtime.kernels.numpy.windows import CHANNELS_LAST
from pirkit.runtime.registry import kernel

RowSlices = tuple[int, int]


def _normaliser(b: Binding, shape: RowSlices) -> Any:
    """Makes ``run(x, out, mean, variance, inverse)`` over ``[rows, elements]`` of float32 or 64.

    The last three take the statistics of each row, None if nobody wants them.
    """
    rows, size = shape
    kind = b.dtype.np.type
    epsilon, share = kind(b.attrs["epsilon"]), kind(1 / max(size, 1))
    parts = list(blocks(rows, size))
    most = max((p.stop - p.start for p in parts), default=0)
    center, variance_used = b.workspace((most, 1)), b.workspace((most, 1))
    xp = b.xp

    def run(
        x: Array, out: Array, mean: Array | None, variance: Array | None, inverse: Array | None
    ) -> None:
        for part in parts:
            count = part.stop - part.start
            one, goal, middle, width = x[part], out[part], center[:count], variance_used[:count]
            xp.add.reduce(one, axis=1, keepdims=True, out=middle)
            xp.multiply(middle, share, middle)
            xp.subtract(one, middle, goal)
            width[:, 0] = xp.einsum("ij,ij->i", goal, goal)
            xp.multiply(width, share, width)
            for running_out, held in ((mean, middle), (variance, width)):
                if running_out is not None:
                    running_out[part] = held[:, 0]
            xp.add(width, epsilon, width)
            xp.sqrt(width, width)
            xp.reciprocal(width, width)
            if inverse is not None:
                inverse[part] = width[:, 0]
            xp.multiply(goal, width, goal)

    return run


def _weigh(b: Binding, out: Array, scale: Array | None, bias: Array | None, shape: Any) -> None:
    if scale is not None:
        b.xp.multiply(out, scale.reshape(shape), out)
    if bias is not None:
        b.xp.add(out, bias.reshape(shape), out)


def _flat(array: Array | None) -> Array | None:
    return None if array is None else array.reshape(-1)


def _normalized(
    b: Binding, rows: int, size: int, view: tuple[int, ...], weights: tuple[int, ...],
    saves_inverse: bool = False,
) -> Step | None:  # fmt: skip
    """Rows of so many elements; in the shape ``view`` they are scaled by ``weights``.

    The last result is the variance of each row, or the inverse of its deviation.
    """
    if not rows * size:
        return None
    run = _normaliser(b, (rows, size))

    def step(x: Array, scale: Any, bias: Any, out: Array, mean: Any, width: Any) -> None:
        goal, width = out.reshape(rows, size), _flat(width)
        variance, inverse = (None, width) if saves_inverse else (width, None)
        run(x.reshape(rows, size), goal, _flat(mean), variance, inverse)
        _weigh(b, goal.reshape(view), scale, bias, weights)
        copy_back(out, goal)

    return step


@kernel("layer_norm", dtypes=dt.FLOATS, widen=True)
def layer_norm(b: Binding) -> Step | None:
    axis, shape = b.attrs["begin_norm_axis"], b.input().shape
    rows, size = prod(shape[:axis]), prod(shape[axis:])
    return _normalized(b, rows, size, (rows, size), (size,))


@kernel("instance_norm", dtypes=dt.FLOATS, widen=True)
def instance_norm(b: Binding) -> Step | None:
    n, channels, *rest = b.input().shape
    size = prod(rest)
    return _normalized(b, n * channels, size, (n, channels, size), (channels, 1), True)


@kernel("group_norm", dtypes=dt.FLOATS, widen=True)
def group_norm(b: Binding) -> Step | None:
    if b.attrs["data_format"] in CHANNELS_LAST:
        return None
    n, channels, *rest = b.input().shape
    rows, area = n * b.attrs["groups"], prod(rest)
    size = area * channels // b.attrs["groups"]
    return _normalized(b, rows, size, (n, channels, area), (channels, 1))


@kernel("rms_norm", dtypes=dt.FLOATS, widen=True)
def rms_norm(b: Binding) -> Step | None:
    shape = b.input().shape
    size = prod(shape[-len(b.attrs["normalized_shape"]) :])  # the shape may hold -1
    rows = prod(shape) // size if size else 0
    if not rows:
        return None
    kind = b.dtype.np.type
    epsilon, share = kind(b.attrs["epsilon"]), kind(1 / size)
    parts = list(blocks(rows, size))
    variance_used = b.workspace((max(p.stop - p.start for p in parts), 1))
    xp = b.xp

    def step(x: Array, scale: Array | None, out: Array, inverse: Array | None) -> None:
        source, goal, running_out = x.reshape(rows, size), out.reshape(rows, size), _flat(inverse)
        for part in parts:
            one, width = source[part], variance_used[: part.stop - part.start]
            width[:, 0] = xp.einsum("ij,ij->i", one, one)
            xp.multiply(width, share, width)
            xp.add(width, epsilon, width)
            xp.sqrt(width, width)
            xp.reciprocal(width, width)
            if running_out is not None:
                running_out[part] = width[:, 0]
            xp.multiply(one, width, goal[part])
        _weigh(b, goal, scale, None, (size,))
        copy_back(out, goal)

    return step
