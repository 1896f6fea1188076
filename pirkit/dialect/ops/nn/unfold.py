"""im2col and col2im: the windows of an image as columns, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import Slide, patches, require_positions
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "window"


@op
class Unfold:
    """The windows of `x` as columns of `[N, C * kernel, windows]`.

    `paddings` are top, left, bottom, right.

    C1: `x` has four dimensions.
    C2: kernel sizes, strides and dilations are two positive numbers, paddings four.
    C3: a window fits into the padded image.
    """

    name = "pd_op.unfold"
    signature = "x ; kernel_sizes: i32[], strides: i32[], paddings: i32[], dilations: i32[] -> out"
    dtypes = dt.FLOATS


@op
class Fold:
    """col2im: the columns of `x [N, C * kernel, windows]` accumulated into the windows of an image.

    `paddings` are top, left, bottom, right.

    C1: `x` has three dimensions.
    C2: kernel sizes, strides, dilations and `output_sizes` are two positive numbers, paddings four.
    C3: a window fits into the padded image.
    C4: `x` has as many columns as there are windows, and as many rows as whole kernels have.
    """

    name = "pd_op.fold"
    signature = (
        "x ; output_sizes: i32[], kernel_sizes: i32[], strides: i32[], paddings: i32[], "
        "dilations: i32[] -> out"
    )
    dtypes = (dt.float32, dt.float64)


def _slides(
    kernel_sizes: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Slide, Slide]:
    for numbers in (kernel_sizes, strides, dilations):
        fits = len(numbers) == 2 and min(numbers) > 0
        require(fits, "C2", f"{list(numbers)} are not two positive numbers")
    require(len(paddings) == 4 and min(paddings) >= 0, "C2", f"paddings are {list(paddings)}")
    top, left, bottom, right = paddings
    return (
        Slide(kernel_sizes[0], strides[0], dilations[0], top, bottom),
        Slide(kernel_sizes[1], strides[1], dilations[1], left, right),
    )


@infer_meta(Unfold)
def _(x: TensorMeta, **windows: Sequence[int]) -> TensorMeta:
    require(x.rank == 4, "C1", f"x has shape {show(x.shape)}")
    moves = _slides(**windows)
    counts = [m.positions(d) for m, d in zip(moves, x.shape[2:], strict=True)]
    require_positions(counts, "C3", x.shape[2:])
    channels = mul_dims(x.shape[1], moves[0].size, moves[1].size)
    return x.with_shape((x.shape[0], channels, mul_dims(*counts)))


@reference(Unfold)
def _(x: Array, **windows: Sequence[int]) -> Array:
    moves = _slides(**windows)
    columns = patches(x, moves).transpose(0, 1, 4, 5, 2, 3)
    n, c, kh, kw, h, w = columns.shape
    return columns.reshape(n, c * kh * kw, h * w)


@infer_meta(Fold)
def _(x: TensorMeta, *, output_sizes: Sequence[int], **windows: Sequence[int]) -> TensorMeta:
    require(x.rank == 3, "C1", f"x has shape {show(x.shape)}")
    fits = len(output_sizes) == 2 and min(output_sizes) > 0
    require(fits, "C2", f"output_sizes are {list(output_sizes)}")
    moves = _slides(**windows)
    counts = [m.positions(d) for m, d in zip(moves, output_sizes, strict=True)]
    require_positions(counts, "C3", output_sizes)
    rows, kernel = x.shape[1], moves[0].size * moves[1].size
    fits = same_dim(x.shape[2], mul_dims(*counts)) and (rows == UNKNOWN or rows % kernel == 0)
    require(fits, "C4", f"{show(x.shape)} for {counts} windows of {kernel} elements")
    channels = UNKNOWN if rows == UNKNOWN else rows // kernel
    return x.with_shape((x.shape[0], channels, *output_sizes))


@reference(Fold)
def _(x: Array, *, output_sizes: Sequence[int], **windows: Sequence[int]) -> Array:
    moves = _slides(**windows)
    (h, w), (height, width) = (
        [m.positions(d) for m, d in zip(moves, output_sizes, strict=True)],
        [d + m.before + m.after for m, d in zip(moves, output_sizes, strict=True)],
    )
    down, right = moves
    columns = x.reshape(
        x.shape[0], x.shape[1] // (down.size * right.size), down.size, right.size, h, w
    )
    out = np.zeros((*columns.shape[:2], height, width), x.dtype)
    for i in range(down.size):
        rows = slice(i * down.dilation, i * down.dilation + h * down.stride, down.stride)
        for j in range(right.size):
            at = slice(j * right.dilation, j * right.dilation + w * right.stride, right.stride)
            out[:, :, rows, at] += columns[:, :, i, j]
    return out[:, :, down.before : height - down.after, right.before : width - right.after]


def _attrs(**changed: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    usual = {"kernel_sizes": (2, 2), "strides": (1, 1), "paddings": (0,) * 4, "dilations": (1, 1)}
    return {**usual, **changed}


@samples(Unfold)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 5, 6)
    yield s(x, **_attrs())
    yield s(x, **_attrs(kernel_sizes=(3, 2), strides=(2, 1), paddings=(1, 0, 2, 1)))
    yield s(x, **_attrs(dilations=(2, 3)))


@samples(Fold)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 8, 6), output_sizes=(3, 4), **_attrs())
    changed = _attrs(kernel_sizes=(3, 2), strides=(2, 1), paddings=(1, 0, 1, 0))
    yield s(s.tensor(1, 6, 12), output_sizes=(6, 5), **changed)
    yield s(s.tensor(1, 4, 9), output_sizes=(5, 6), **_attrs(dilations=(2, 3)))


@bad_samples(Unfold)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 3, 5, 6)
    yield "C1", s(s.tensor(3, 5, 6), **_attrs())
    yield "C2", s(x, **_attrs(strides=(0, 1)))
    yield "C3", s(x, **_attrs(kernel_sizes=(9, 9)))


@bad_samples(Fold)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 8, 6)
    yield "C1", s(s.tensor(8, 6), output_sizes=(3, 4), **_attrs())
    yield "C2", s(x, output_sizes=(3, 0), **_attrs())
    yield "C3", s(x, output_sizes=(3, 4), **_attrs(kernel_sizes=(9, 9)))
    yield "C4", s(x, output_sizes=(3, 5), **_attrs())
