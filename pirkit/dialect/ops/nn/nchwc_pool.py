"""Maxima of windows of images whose channels are in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.windows import patches, require_positions, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "window"


@op
class NchwcMaxPool2d:
    """The maximum of each window of images `[N, C/b, H, W, b]`, without the padding; NaN if one is.

    Programs of inference get this op from the pass `block-channels`, where no window is outside of
    the image. `paddings` has two numbers, or four: top, bottom, left and right.

    C1: `input` has five dimensions.
    C2: kernel size, strides and paddings fit two spatial dimensions, and the window the image.
    """

    name = "pir.nchwc_max_pool2d"
    dtypes = (dt.float32, dt.float64, dt.uint8)
    signature = (
        "input ; kernel_size: i32[], strides: i32[] = [1, 1], paddings: i32[] = [0, 0] -> out"
    )


@infer_meta(NchwcMaxPool2d)
def _(
    x: TensorMeta, *, kernel_size: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> TensorMeta:
    require(x.rank == 5, "C1", f"input {x} has other dimensions")
    lengths = x.shape[2:4]
    moves = slides(lengths, kernel_size, strides, paddings, "EXPLICIT", (1, 1), "C2")
    out = [m.positions(n) for m, n in zip(moves, lengths, strict=True)]
    require_positions(out, "C2", lengths)
    return TensorMeta((*x.shape[:2], *out, x.shape[4]), x.dtype)


@reference(NchwcMaxPool2d)
def _(
    x: Array, *, kernel_size: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> Array:
    moves = slides(x.shape[2:4], kernel_size, strides, paddings, "EXPLICIT", (1, 1), "C2")
    more = ((0, 0), (0, 0), *[(m.before, m.after) for m in moves], (0, 0))
    image = np.moveaxis(
        np.pad(x, more, constant_values=0 if x.dtype == np.uint8 else -np.inf), 4, 2
    )
    inner = slides(image.shape[3:], kernel_size, strides, (0, 0), "EXPLICIT", (1, 1), "C2")
    return np.moveaxis(patches(image, inner).max((-2, -1)), 2, 4)


@samples(NchwcMaxPool2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 7, 6, 4), kernel_size=(3, 3), strides=(2, 2), paddings=(1, 1))
    yield s(s.tensor(1, 2, 5, 6, 4), kernel_size=(2, 3), paddings=(0, 1, 1, 0))


@bad_samples(NchwcMaxPool2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(1, 2, 5, 5), kernel_size=(3, 3))
    yield "C2", s(s.tensor(1, 2, 5, 5, 4), kernel_size=(3, 3), strides=(0, 1))
    yield "C2", s(s.tensor(1, 2, 2, 5, 4), kernel_size=(3, 3))
