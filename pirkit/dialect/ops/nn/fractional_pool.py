"""Maximum pooling by windows of uneven sizes, whose ends one random number moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.pool import Windows
from pirkit.dialect.ops.nn.pool_index import first_maxima
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "window"


@op
class FractionalMaxPool2d:
    """Largest element of each of `output_size` windows of `x [N, C, H, W]`, and its number.

    The windows divide the image into parts of nearly equal sizes; `random_u` decides where they
    begin (Graham, 2014). With a positive `kernel_size` they have that size, and overlap or leave
    gaps. As in Paddle, the mask is computed whatever `return_mask` is; a window without elements
    has the number -1.

    C1: `x` has four dimensions.
    C2: `output_size` has two positive numbers.
    C3: `kernel_size` has two numbers, and that many windows of that size fit into the image.
    C4: `random_u` is between 0 and 1. Paddle draws a number for 0, pirkit does not.
    """

    name = "pd_op.fractional_max_pool2d"
    signature = (
        "x ; output_size: i32[], kernel_size: i32[] = [0, 0], random_u: f32 = 0.0, "
        "return_mask: bool = True -> out, mask"
    )
    dtypes = dt.FLOATS


@op
class FractionalMaxPool3d:
    """`fractional_max_pool2d` for volumes `[N, C, D, H, W]`.

    C1: `x` has five dimensions.
    C2: `output_size` has three positive numbers.
    C3: `kernel_size` has three numbers, and that many windows of that size fit into the volume.
    C4: `random_u` is between 0 and 1. Paddle draws a number for 0, pirkit does not.
    """

    name = "pd_op.fractional_max_pool3d"
    signature = (
        "x ; output_size: i32[], kernel_size: i32[] = [0, 0, 0], random_u: f32 = 0.0, "
        "return_mask: bool = True -> out, mask"
    )
    dtypes = dt.FLOATS


@infer_meta(FractionalMaxPool2d)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta, TensorMeta]:
    return _pooled(x, 2, **attributes)


@infer_meta(FractionalMaxPool3d)
def _(x: TensorMeta, **attributes: Any) -> tuple[TensorMeta, TensorMeta]:
    return _pooled(x, 3, **attributes)


def _pooled(
    x: TensorMeta,
    n: int,
    *,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    random_u: float,
    **_: object,
) -> tuple[TensorMeta, TensorMeta]:
    require(x.rank == n + 2, "C1", f"{x} has not {n + 2} dimensions")
    positive = len(output_size) == n and min(output_size) > 0
    require(positive, "C2", f"output_size {list(output_size)}")
    fits = len(kernel_size) == n and all(
        length == UNKNOWN or length >= max(1, count - 1 + max(size, 0))
        for length, count, size in zip(x.shape[2:], output_size, kernel_size, strict=True)
    )
    require(fits, "C3", f"{list(output_size)} windows of size {list(kernel_size)} in {x}")
    require(0 < random_u < 1, "C4", f"random_u {random_u:g}; pass a number for `random_u`")
    meta = x.with_shape((*x.shape[:2], *output_size))
    return meta, meta.with_dtype(dt.int32)


def fractional_windows(
    lengths: Sequence[int], counts: Sequence[int], sizes: Sequence[int], u: float
) -> list[Windows]:
    """The windows of each dimension; all are computed in single precision, as Paddle does."""
    return [_spans(*each, u) for each in zip(lengths, counts, sizes, strict=True)]


def _spans(length: int, count: int, size: int, u: float) -> Windows:
    one, i = np.float32(1), np.arange(count, dtype=np.float32)
    if size > 0:
        step = np.float32(length - size) / np.float32(max(count - 1, 1))
        shift = np.float32(u)
    else:
        step = np.float32(length) / np.float32(count)
        least = length // count
        most = min(
            np.float32(least + 2) / step - one,
            np.float32(length + 1 - least) / step - np.float32(count - 1),
        )
        shift = np.float32(u) * most
    first = int(shift * step)
    starts = ((i + shift) * step).astype(np.int64) - first
    ends = starts + size if size > 0 else ((i + one + shift) * step).astype(np.int64) - first
    return np.maximum(starts, 0), np.minimum(ends, length)


@reference(FractionalMaxPool2d, FractionalMaxPool3d)
def _(
    x: Array, *, output_size: Sequence[int], kernel_size: Sequence[int], random_u: float, **_: Any
) -> tuple[Array, Array]:
    lengths = x.shape[2:]
    return first_maxima(x, fractional_windows(lengths, output_size, kernel_size, random_u))


@samples(FractionalMaxPool2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 2, 7, 6)
    yield s(x, output_size=(3, 4), random_u=0.25)
    yield s(x, output_size=(3, 4), kernel_size=(2, 3), random_u=0.75)
    yield s(x, output_size=(7, 1), random_u=0.5)


@samples(FractionalMaxPool3d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(1, 2, 4, 5, 6)
    yield s(x, output_size=(2, 3, 4), random_u=0.25)
    yield s(x, output_size=(2, 3, 4), kernel_size=(2, 0, 3), random_u=0.75)


@bad_samples(FractionalMaxPool2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4)
    yield "C1", s(s.tensor(2, 4, 4), output_size=(2, 2), random_u=0.5)
    yield "C2", s(x, output_size=(2, 0), random_u=0.5)
    yield "C3", s(x, output_size=(2, 2), kernel_size=(4, 2), random_u=0.5)
    yield "C4", s(x, output_size=(2, 2))


@bad_samples(FractionalMaxPool3d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4, 4)
    yield "C1", s(s.tensor(1, 2, 4, 4), output_size=(2, 2, 2), random_u=0.5)
    yield "C2", s(x, output_size=(2, 2), random_u=0.5)
    yield "C3", s(x, output_size=(2, 2, 2), kernel_size=(1, 1), random_u=0.5)
    yield "C4", s(x, output_size=(2, 2, 2), random_u=1.0)
