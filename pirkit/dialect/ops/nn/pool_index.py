"""Maximum pooling that also returns the index of each maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.pool import (
    LOWEST,
    Windows,
    check_kernel,
    gather,
    out_sizes,
    pool_slides,
    spans,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "window"


@op
class MaxPool2dWithIndex:
    """Largest element of each window of `x [N, C, H, W]`, and its number in `H * W` order.

    The number is -1 for a window outside of the image.

    C1: `x` has four dimensions.
    C2: `kernel_size` has two positive numbers.
    C3: strides and paddings fit two spatial dimensions.
    C4: the window fits into the padded input.
    """

    name = "pd_op.max_pool2d_with_index"
    signature = (
        "x ; kernel_size: i32[], strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
        "global_pooling: bool = False, adaptive: bool = False, ceil_mode: bool = False "
        "-> out, mask"
    )
    dtypes = dt.FLOATS


@op
class MaxPool3dWithIndex:
    """`max_pool2d_with_index` for volumes `[N, C, D, H, W]`.

    C1: `x` has five dimensions.
    C2: `kernel_size` has three positive numbers.
    C3: strides and paddings fit three spatial dimensions.
    C4: the window fits into the padded input.
    """

    name = "pd_op.max_pool3d_with_index"
    signature = (
        "x ; kernel_size: i32[], strides: i32[] = [1, 1, 1], paddings: i32[] = [0, 0, 0], "
        "global_pooling: bool = False, adaptive: bool = False, ceil_mode: bool = False "
        "-> out, mask"
    )
    dtypes = dt.FLOATS


@infer_meta(MaxPool2dWithIndex)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta, TensorMeta]:
    return _pooled_with_index(x, 2, **attributes)


@infer_meta(MaxPool3dWithIndex)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta, TensorMeta]:
    return _pooled_with_index(x, 3, **attributes)


def _pooled_with_index(
    x: TensorMeta,
    n: int,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
) -> tuple[TensorMeta, TensorMeta]:
    require(x.rank == n + 2, "C1", f"{x} has not {n + 2} dimensions")
    check_kernel(kernel_size, n)
    lengths = x.shape[2:]
    moves = pool_slides(lengths, kernel_size, strides, paddings, "EXPLICIT", global_pooling, "C3")
    if global_pooling:
        out: tuple[int, ...] = (1,) * n
    else:
        out = out_sizes(moves, lengths, adaptive, ceil_mode, "C4")
    meta = x.with_shape((*x.shape[:2], *out))
    return meta, meta.with_dtype(dt.int32)


@reference(MaxPool2dWithIndex, MaxPool3dWithIndex)
def _(
    x: Array,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
) -> tuple[Array, Array]:
    lengths = x.shape[2:]
    moves = pool_slides(lengths, kernel_size, strides, paddings, "EXPLICIT", global_pooling, "C3")
    adaptive = adaptive and not global_pooling
    positions = out_sizes(moves, lengths, adaptive, ceil_mode, "C4")
    return first_maxima(
        x, [spans(*each, adaptive) for each in zip(moves, lengths, positions, strict=True)]
    )


def first_maxima(x: Array, every: Sequence[Windows]) -> tuple[Array, Array]:
    """The largest element of each window of the dimensions after the second, and its number."""
    lengths = x.shape[2:]
    best = widened(x)
    numbers: Array = np.arange(prod(lengths), dtype=np.int32)
    index: Array = np.broadcast_to(numbers.reshape(lengths), x.shape)
    # The last dimension first: of equal elements the one with the smallest number stays.
    for i in reversed(range(len(lengths))):
        best, index = _best(best, index, i + 2, every[i])
    return np.where(index < 0, LOWEST, best).astype(x.dtype), index


def _best(x: Array, index: Array, axis: int, windows: Windows) -> tuple[Array, Array]:
    """The largest element of each window along one dimension, and its number."""
    shape = (*x.shape[:axis], len(windows[0]), *x.shape[axis + 1 :])
    best, number = np.full(shape, -np.inf, x.dtype), np.full(shape, -1, np.int32)
    candidates = gather(x, axis, windows, -np.inf)
    for value, at in zip(candidates, gather(index, axis, windows, -1), strict=True):
        better = (value > best) | np.isnan(value) | ((number < 0) & (at >= 0))
        best, number = np.where(better, value, best), np.where(better, at, number)
    return best, number


@samples(MaxPool2dWithIndex)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 2, 5, 6)
    yield s(x, kernel_size=(2, 3), strides=(2, 2), paddings=(1, 1))
    yield s(x, kernel_size=(2, 2), strides=(2, 2), ceil_mode=True)
    yield s(x, kernel_size=(3, 4), adaptive=True)
    yield s(x, kernel_size=(1, 1), global_pooling=True)


@samples(MaxPool3dWithIndex)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(1, 2, 4, 5, 6)
    yield s(x, kernel_size=(2, 3, 2), strides=(2, 2, 2), paddings=(0, 1, 1))
    yield s(x, kernel_size=(3, 2, 4), adaptive=True)


@bad_samples(MaxPool2dWithIndex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4)
    yield "C1", s(s.tensor(2, 4, 4), kernel_size=(2, 2))
    yield "C2", s(x, kernel_size=(2, 2, 2))
    yield "C3", s(x, kernel_size=(2, 2), strides=(0, 1))
    yield "C4", s(x, kernel_size=(5, 2))


@bad_samples(MaxPool3dWithIndex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4, 4)
    yield "C1", s(s.tensor(1, 2, 4, 4), kernel_size=(2, 2, 2))
    yield "C2", s(x, kernel_size=(2, -2, 2))
    yield "C3", s(x, kernel_size=(2, 2, 2), paddings=(0, 0))
    yield "C4", s(x, kernel_size=(2, 2, 6))
