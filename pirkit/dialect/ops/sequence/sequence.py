"""Masks of padded sequences, slices of tensors, and shifts along time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.kinds import MOVEMENT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import show
from pirkit.dialect.windows import channels_back, channels_first, is_channels_last
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, is_addressable

KIND = MOVEMENT


@op
class SequenceMask:
    """For each length in `x`: as many ones, then zeros, `max_len` in all.

    A negative `max_len` stands for the greatest length there is.

    C1: `x` holds integers.
    """

    name = "pd_op.sequence_mask"
    signature = "x, max_len: i64 ; out_dtype: dtype -> y"
    dtypes = (dt.int32, dt.int64)


@op
class Crop:
    """The block of `x` of size `shape` that begins at `offsets`; size -1 goes up to the end.

    C1: `shape` and `offsets` have a number for each dimension.
    C2: the block lies in `x`.
    """

    name = "pd_op.crop"
    signature = "x, shape: intarray = [], offsets: intarray = [] -> out"
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64)


@op
class TemporalShift:
    """Channels of videos moved along time: the first to the next frame, others to the one before.

    `x [N * seg_num, C, H, W]` holds `seg_num` frames of each video. The first `C * shift_ratio`
    channels come from the frame before, as many that follow from the one after; there is zero
    where there is none.

    C1: `x` has four dimensions, and `data_format` is a layout with channels first or last.
    C2: `seg_num` divides the frames.
    C3: `shift_ratio` lies between 0 and 0.5.
    """

    name = "pd_op.temporal_shift"
    signature = 'x ; seg_num: i32, shift_ratio: f32 = 0.25, data_format: str = "NCHW" -> out'
    dtypes = (dt.float32, dt.float64)


@infer_meta(SequenceMask)
def _(x: TensorMeta, *, max_len: int | None, out_dtype: DType) -> TensorMeta:
    require(x.dtype.is_integer, "C1", f"{x} holds no lengths")
    last = UNKNOWN if max_len is None or max_len < 0 else max_len
    return TensorMeta((*x.shape, last), out_dtype)


@infer_meta(Crop)
def _(
    x: TensorMeta, *, shape: Sequence[int | None] | None, offsets: Sequence[int | None] | None
) -> TensorMeta:
    sizes = [None] * x.rank if shape is None else list(shape)
    starts = [None] * x.rank if offsets is None else list(offsets)
    fits = len(sizes) == len(starts) == x.rank
    require(fits, "C1", f"a block of {sizes} from {starts} of a tensor {show(x.shape)}")
    out: list[int] = []
    for length, size, start in zip(x.shape, sizes, starts, strict=True):
        inside = (size is None or size >= -1) and (start is None or start >= 0)
        out.append(UNKNOWN)
        if size is not None and size >= 0:
            out[-1] = size
        elif size is not None and start is not None and length != UNKNOWN:
            out[-1] = length - start
            inside = inside and start <= length  # else -1 would be no size
        if UNKNOWN not in (length, out[-1]):
            inside = inside and 0 <= out[-1] and (start or 0) + out[-1] <= length
        require(inside, "C2", f"{size} elements from {start} of {length}")
    return x.with_shape(out)


@infer_meta(TemporalShift)
def _(x: TensorMeta, *, seg_num: int, shift_ratio: float, data_format: str) -> TensorMeta:
    is_channels_last(data_format, "C1")
    require(x.rank == 4, "C1", f"{x} has not four dimensions")
    is_valid = seg_num > 0 and (x.shape[0] == UNKNOWN or x.shape[0] % seg_num == 0)
    require(is_valid, "C2", f"{x.shape[0]} frames in videos of {seg_num}")
    require(0 < shift_ratio < 0.5, "C3", f"shift_ratio {shift_ratio}")
    return x


@reference(SequenceMask)
def _(x: Array, *, max_len: int, out_dtype: DType) -> Array:
    count = max_len if max_len >= 0 else int(np.max(x, initial=0))
    out = TensorMeta((*x.shape, count), dt.int64)
    require(is_addressable(out), "size", f"{out} is larger than any memory")
    return (np.arange(count) < x[..., None]).astype(out_dtype.np)


@reference(Crop)
def _(x: Array, *, shape: Sequence[int], offsets: Sequence[int]) -> Array:
    ends = [d if n < 0 else s + n for d, n, s in zip(x.shape, shape, offsets, strict=True)]
    inside = all(0 <= s <= e <= d for s, e, d in zip(offsets, ends, x.shape, strict=True))
    require(inside, "C2", f"a block of {list(shape)} from {list(offsets)} of {show(x.shape)}")
    return x[tuple(map(slice, offsets, ends))]


def shifted_channels(channels: int, ratio: float) -> tuple[int, int]:
    """How many channels come from the frame before; where those from the next one end.

    As in Paddle the ratio is a float32.
    """
    share = np.float32(channels) * np.float32(ratio)
    return int(share), int(np.float32(channels) * np.float32(2) * np.float32(ratio))


@reference(TemporalShift)
def _(x: Array, *, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    last = is_channels_last(data_format, "C1")
    frames = channels_first(x, last)
    video = frames.reshape(len(frames) // seg_num, seg_num, *frames.shape[1:])
    first, second = shifted_channels(frames.shape[1], shift_ratio)
    out = video.copy()
    out[:, :, :second] = 0
    out[:, 1:, :first] = video[:, :-1, :first]
    out[:, :-1, first:second] = video[:, 1:, first:second]
    return channels_back(out.reshape(frames.shape), last)


@samples(SequenceMask)
def _(s: SampleMaker) -> Iterator[Sample]:
    lengths = s.array([[1, 0, 3], [2, 5, 4]])
    yield s(lengths, max_len=5, out_dtype=dt.int64)
    yield s(lengths, max_len=3, out_dtype=dt.float32)
    yield s(lengths[0], max_len=-1, out_dtype=dt.int32)


@samples(Crop)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 5), shape=(2, 3), offsets=(1, 0))
    yield s(s.tensor(4, 5), shape=(-1, 2), offsets=(1, 2))
    yield s(s.tensor(3), shape=(3,), offsets=(0,))


@samples(TemporalShift)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(6, 4, 1, 2), seg_num=3)
    yield s(s.tensor(4, 2, 1, 5), seg_num=2, shift_ratio=0.4, data_format="NHWC")


@bad_samples(SequenceMask)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, dtype=dt.float32), max_len=3, out_dtype=dt.int64)


@bad_samples(Crop)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 5)
    yield "C1", s(x, shape=(2,), offsets=(1,))
    yield "C2", s(x, shape=(2, 6), offsets=(1, 0))
    yield "C2", s(x, shape=(2, 3), offsets=(-1, 0))
    yield "C2", s(x, shape=(-1, 3), offsets=(5, 0))


@bad_samples(TemporalShift)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(6, 4, 1, 2)
    yield "C1", s(x[0], seg_num=3)
    yield "C2", s(x, seg_num=4)
    yield "C3", s(x, seg_num=3, shift_ratio=0.6)
