"""Signals as overlapping frames, and back, for short-time Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "transform"


@op
class Frame:
    """Frames of `frame_length` elements, `hop_length` apart.

    Along the last dimension they become columns, `[..., frame_length, frames]`; along the first
    one rows, `[frames, frame_length, ...]`.

    C1: `x` has at least one dimension.
    C2: `axis` is 0 or -1.
    C3: `frame_length` and `hop_length` are positive, and a frame fits into `x`.
    """

    name = "pd_op.frame"
    signature = "x ; frame_length: i32, hop_length: i32, axis: i32 = -1 -> out"
    dtypes = dt.NUMBERS


@op
class OverlapAdd:
    """The sum of overlapping frames at a distance of `hop_length`: the transpose of `frame`.

    C1: `x` has at least two dimensions.
    C2: `axis` is 0 or -1.
    C3: `hop_length` is positive.
    """

    name = "pd_op.overlap_add"
    signature = "x ; hop_length: i32, axis: i32 = -1 -> out"
    dtypes = dt.NUMBERS


@infer_meta(Frame)
def _(x: TensorMeta, *, frame_length: int, hop_length: int, axis: int) -> TensorMeta:
    require(x.rank > 0, "C1", f"{x} has no frames")
    require(axis in (0, -1), "C2", f"axis {axis} is neither the first nor the last")
    size = x.shape[axis]
    fits = frame_length > 0 and hop_length > 0 and (size == UNKNOWN or frame_length <= size)
    require(fits, "C3", f"frames of {frame_length} elements every {hop_length} in {size}")
    count = UNKNOWN if size == UNKNOWN else 1 + (size - frame_length) // hop_length
    if axis == 0:
        return x.with_shape((count, frame_length, *x.shape[1:]))
    return x.with_shape((*x.shape[:-1], frame_length, count))


@infer_meta(OverlapAdd)
def _(x: TensorMeta, *, hop_length: int, axis: int) -> TensorMeta:
    require(x.rank > 1, "C1", f"{x} has no frames")
    require(axis in (0, -1), "C2", f"axis {axis} is neither the first nor the last")
    require(hop_length > 0, "C3", f"frames every {hop_length} elements")
    pair = x.shape[:2] if axis == 0 else (x.shape[-1], x.shape[-2])
    size = UNKNOWN if UNKNOWN in pair else (pair[0] - 1) * hop_length + pair[1]
    return x.with_shape((size, *x.shape[2:]) if axis == 0 else (*x.shape[:-2], size))


@paddle_meta(OverlapAdd)
def _(x: TensorMeta, **how: Any) -> TensorMeta:
    found: TensorMeta = infer_meta.of(OverlapAdd)(x, **how)
    return found.with_dtype(dt.float32)


@reference(Frame)
def _(x: Array, *, frame_length: int, hop_length: int, axis: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, frame_length, axis=axis)
    if axis == 0:
        return np.moveaxis(windows[::hop_length], -1, 1)
    return np.swapaxes(windows[..., ::hop_length, :], -1, -2)


@reference(OverlapAdd)
def _(x: Array, *, hop_length: int, axis: int) -> Array:
    frames: Array = x if axis == 0 else np.moveaxis(x, (-1, -2), (0, 1))
    count, length = int(frames.shape[0]), int(frames.shape[1])
    out = np.zeros(((count - 1) * hop_length + length, *frames.shape[2:]), x.dtype)
    for k in range(length if count else 0):
        out[k : k + (count - 1) * hop_length + 1 : hop_length] += frames[:, k]
    return out if axis == 0 else np.moveaxis(out, 0, -1)


@samples(Frame)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(10), frame_length=4, hop_length=3)
    yield s(s.tensor(10), frame_length=4, hop_length=3, axis=0)
    yield s(s.tensor(2, 7), frame_length=3, hop_length=1)
    yield s(s.tensor(7, 2), frame_length=2, hop_length=4, axis=0)
    yield s(s.tensor(2, 0, 5), frame_length=5, hop_length=2)


@samples(OverlapAdd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 3), hop_length=2)
    yield s(s.tensor(4, 3), hop_length=2, axis=0)
    yield s(s.tensor(2, 2, 3), hop_length=3)
    yield s(s.tensor(3, 2, 2), hop_length=1, axis=0)
    yield s(s.tensor(0, 4, 3), hop_length=2)


@bad_samples(Frame)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(), frame_length=1, hop_length=1)
    yield "C2", s(s.tensor(2, 3, 4), frame_length=1, hop_length=1, axis=1)
    yield "C3", s(s.tensor(4), frame_length=5, hop_length=1)
    yield "C3", s(s.tensor(4), frame_length=2, hop_length=0)


@bad_samples(OverlapAdd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4), hop_length=1)
    yield "C2", s(s.tensor(2, 3, 4), hop_length=1, axis=1)
    yield "C3", s(s.tensor(4, 3), hop_length=0)
