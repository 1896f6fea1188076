"""Elements moved or repeated: tile, flip, roll, meshgrid, repeat_interleave, pixel_shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.kinds import MOVEMENT, VIEW
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, mul_dims, normalize_axes, normalize_axis, same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta, is_addressable

KIND = MOVEMENT

Sizes = Sequence[int | None] | None


@op
class Tile:
    """`x` repeated along each dimension; `repeat_times` may name more dimensions than `x` has.

    C1: no number of repetitions is negative.
    """

    name = "pd_op.tile"
    signature = "x, repeat_times: intarray = [] -> out"
    dtypes = dt.ANY


@infer_meta(Tile)
def _(x: TensorMeta, *, repeat_times: Sizes) -> TensorMeta:
    if repeat_times is None:
        return x.with_shape((UNKNOWN,) * max(x.rank, 1))
    times = [UNKNOWN if t is None else t for t in repeat_times]
    known = [t for t in repeat_times if t is not None]
    require(all(t >= 0 for t in known), "C1", f"repeat_times {known} are negative")
    rank = max(x.rank, len(times))
    dims = (1,) * (rank - x.rank) + x.shape
    times = [1] * (rank - len(times)) + times
    return x.with_shape(mul_dims(d, t) for d, t in zip(dims, times, strict=True))


@reference(Tile)
def _(x: Array, *, repeat_times: Sequence[int]) -> Array:
    return np.tile(x, tuple(repeat_times))


@op
class Flip:
    """`x` reversed along `axis`.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.flip"
    signature = "x ; axis: i32[] -> out"
    dtypes = dt.ANY


@infer_meta(Flip)
def _(x: TensorMeta, *, axis: Sequence[int]) -> TensorMeta:
    normalize_axes(axis, x.rank)
    return x


@reference(Flip)
def _(x: Array, *, axis: Sequence[int]) -> Array:
    return np.flip(x, tuple(axis)) if x.ndim else x


@op
class Roll:
    """`x` rotated by `shifts` along `axis`, and in row-major order if `axis` is empty.

    C1: each axis names a dimension of `x`.
    C2: there is one shift per axis, or one in all without axes.
    """

    name = "pd_op.roll"
    signature = "x, shifts: intarray = [] ; axis: i64[] = [] -> out"
    dtypes = dt.ANY


@infer_meta(Roll)
def _(x: TensorMeta, *, shifts: Sizes, axis: Sequence[int]) -> TensorMeta:
    for a in axis:
        normalize_axis(a, x.rank)
    if shifts is not None:
        fits = len(shifts) == max(len(axis), 1)
        require(fits, "C2", f"{len(shifts)} shifts for {len(axis)} axes")
    return x


@reference(Roll)
def _(x: Array, *, shifts: Sequence[int], axis: Sequence[int]) -> Array:
    if not axis or not x.ndim:
        return np.roll(x, shifts[0])
    return np.roll(x, tuple(shifts), tuple(axis))


@op
class MeshGrid:
    """The coordinates of a grid: one tensor per input, all of the grid's shape.

    C1: each input has at most one dimension.
    C2: the list is not empty, and of one dtype.
    """

    name = "pd_op.meshgrid"
    kind = VIEW
    signature = "inputs[] -> out[]"
    dtypes = dt.NUMBERS


@infer_meta(MeshGrid)
def _(inputs: VecMeta) -> VecMeta:
    require(len(inputs) > 0, "C2", "there are no inputs")
    for item in inputs.items:
        require(item.rank < 2, "C1", f"an input is a {item}")
        require(item.dtype is inputs.items[0].dtype, "C2", f"inputs are {inputs}")
    shape = tuple(item.shape[0] if item.rank else 1 for item in inputs.items)
    return VecMeta(tuple(item.with_shape(shape) for item in inputs.items))


@reference(MeshGrid)
def _(inputs: Sequence[Array]) -> list[Array]:
    return list(np.meshgrid(*inputs, indexing="ij"))


@op
class BroadcastTensors:
    """The tensors of a list, all broadcast to their common shape.

    C1: the shapes broadcast, and the list is not empty.
    """

    name = "pd_op.broadcast_tensors"
    kind = VIEW
    signature = "input[] -> out[]"
    dtypes = dt.NUMBERS


@infer_meta(BroadcastTensors)
def _(input: VecMeta) -> VecMeta:
    require(len(input) > 0, "C1", "there is nothing to broadcast")
    shape = broadcast(*(item.shape for item in input.items))
    return VecMeta(tuple(item.with_shape(shape) for item in input.items))


@reference(BroadcastTensors)
def _(input: Sequence[Array]) -> list[Array]:
    return list(np.broadcast_arrays(*input))


@op
class RepeatInterleave:
    """Each slice of `x` along `axis` `repeats` times, one after the other.

    C1: `axis` names a dimension of `x`.
    C2: `repeats` is not negative.
    """

    name = "pd_op.repeat_interleave"
    signature = "x ; repeats: i32, axis: i32, output_size: i64 = -1 -> out"
    dtypes = dt.ANY


@infer_meta(RepeatInterleave)
def _(x: TensorMeta, *, repeats: int, axis: int, **_: object) -> TensorMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, x.rank)
    require(repeats >= 0, "C2", f"repeats is {repeats}")
    return x.with_shape((*x.shape[:at], mul_dims(x.shape[at], repeats), *x.shape[at + 1 :]))


@reference(RepeatInterleave)
def _(x: Array, *, repeats: int, axis: int, **_: object) -> Array:
    return np.repeat(x, repeats, axis=axis)


@op
class RepeatInterleaveWithTensorIndex:
    """Each slice of `x` along `axis` as often as its number in `repeats` says.

    C1: `axis` names a dimension of `x`.
    C2: `repeats` is 1-D, of int32 or int64, with one number per slice or one for all.
    C3: no number is negative.
    C4: an `output_size` that is positive is their sum.
    """

    name = "pd_op.repeat_interleave_with_tensor_index"
    signature = "x, repeats ; axis: i32, output_size: i64 = -1 -> out"
    dtypes = dt.ANY


@infer_meta(RepeatInterleaveWithTensorIndex)
def _(x: TensorMeta, repeats: TensorMeta, *, axis: int, output_size: int) -> TensorMeta:
    require(x.rank > 0, "C1", "a tensor without dimensions has no axis")
    at = normalize_axis(axis, x.rank)
    counts = repeats.shape[0] if repeats.rank == 1 else 0
    fits = repeats.rank == 1 and (counts == 1 or same_dim(counts, x.shape[at]))
    require(fits and repeats.dtype in dt.INTS, "C2", f"repeats are a {repeats} for a {x}")
    total = output_size if output_size > 0 else UNKNOWN
    return x.with_shape((*x.shape[:at], total, *x.shape[at + 1 :]))


@reference(RepeatInterleaveWithTensorIndex)
def _(x: Array, repeats: Array, *, axis: int, output_size: int) -> Array:
    require(bool(np.all(repeats >= 0)), "C3", "a number of repeats is negative")
    total = sum(np.broadcast_to(repeats, x.shape[axis]).tolist())
    places = TensorMeta((total,), dt.int64)
    require(is_addressable(places), "size", f"{places} is larger than any memory")
    out = np.repeat(x, repeats, axis=axis)
    size = out.shape[axis]
    require(
        output_size <= 0 or output_size == size,
        "C4",
        f"{size} slices, output_size is {output_size}",
    )
    return out


@op
class PixelShuffle:
    """Channels rearranged to space: every `upscale_factor`² of them become a block of pixels.

    C1: `x` has four dimensions.
    C2: the square of `upscale_factor` divides the channels.
    C3: `data_format` is NCHW or NHWC.
    """

    name = "pd_op.pixel_shuffle"
    signature = "x ; upscale_factor: i32 = 1, data_format: str = NCHW -> out"
    dtypes = dt.FLOATS


@infer_meta(PixelShuffle)
def _(x: TensorMeta, *, upscale_factor: int, data_format: str) -> TensorMeta:
    require(x.rank == 4, "C1", f"x has rank {x.rank}")
    require(data_format in ("NCHW", "NHWC"), "C3", f"there is no format {data_format!r}")
    n, c, h, w = x.shape if data_format == "NCHW" else (x.shape[i] for i in (0, 3, 1, 2))
    square = upscale_factor * upscale_factor
    fits = upscale_factor > 0 and (c == UNKNOWN or c % square == 0)
    require(fits, "C2", f"{c} channels with an upscale_factor of {upscale_factor}")
    out_c = UNKNOWN if c == UNKNOWN else c // square
    out_h, out_w = mul_dims(h, upscale_factor), mul_dims(w, upscale_factor)
    channels_first = data_format == "NCHW"
    return x.with_shape((n, out_c, out_h, out_w) if channels_first else (n, out_h, out_w, out_c))


@reference(PixelShuffle)
def _(x: Array, *, upscale_factor: int, data_format: str) -> Array:
    r = upscale_factor
    first = x if data_format == "NCHW" else x.transpose(0, 3, 1, 2)
    n, c, h, w = first.shape
    out = first.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    out = out.reshape(n, c // (r * r), h * r, w * r)
    return out if data_format == "NCHW" else out.transpose(0, 2, 3, 1)


# --- samples -------------------------------------------------------------------------------------


@samples(Tile)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), repeat_times=(2, 1))
    yield s(s.tensor(3), repeat_times=(2, 2))
    yield s(s.tensor(1, 2), repeat_times=(2,))
    yield s(s.tensor(), repeat_times=(2,))
    yield s(s.tensor(2, 0), repeat_times=(2, 2))


@samples(Flip)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=(0,))
    yield s(s.tensor(2, 3, 4), axis=(0, -1))
    yield s(s.tensor(0, 3), axis=(1,))
    yield s(s.tensor(), axis=())


@samples(Roll)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), shifts=(1,))
    yield s(s.tensor(2, 3), shifts=(1, -2), axis=(0, -1))
    yield s(s.tensor(4), shifts=(7,), axis=(0,))


@samples(MeshGrid)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2), s.tensor(3)])
    yield s([s.tensor(), s.tensor(3), s.tensor(2)])


@samples(BroadcastTensors)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 1), s.tensor(3)])
    yield s([s.tensor(2), s.tensor(2)])


@samples(RepeatInterleave)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), repeats=2, axis=0)
    yield s(s.tensor(2, 3), repeats=3, axis=-1)


@samples(RepeatInterleaveWithTensorIndex)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.array([2, 1], dt.int32), axis=0)
    yield s(s.tensor(2, 3), s.array([0, 3, 1], dt.int64), axis=-1, output_size=4)
    yield s(s.tensor(2, 0), s.array([1, 2], dt.int64), axis=0)


@samples(PixelShuffle)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1, 8, 2, 3), upscale_factor=2)
    yield s(s.tensor(1, 2, 3, 9), upscale_factor=3, data_format="NHWC")


@bad_samples(Tile)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), repeat_times=(-1, 1))


@bad_samples(Flip)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))


@bad_samples(Roll)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), shifts=(1,), axis=(2,))
    yield "C2", s(s.tensor(2, 3), shifts=(1, 2), axis=(0,))


@bad_samples(MeshGrid)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(2, 2)])
    yield "C2", s([])


@bad_samples(BroadcastTensors)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(2), s.tensor(3)])


@bad_samples(RepeatInterleave)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), repeats=2, axis=2)
    yield "C2", s(s.tensor(2, 3), repeats=-1, axis=0)


@bad_samples(RepeatInterleaveWithTensorIndex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 3)
    yield "C1", s(x, s.array([1, 2], dt.int64), axis=2)
    yield "C2", s(x, s.array([1, 1, 1], dt.int64), axis=0)
    yield "C3", s(x, s.array([1, -1], dt.int64), axis=0)
    yield "C4", s(x, s.array([1, 2], dt.int64), axis=0, output_size=4)


@bad_samples(PixelShuffle)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 2, 2), upscale_factor=2)
    yield "C2", s(s.tensor(1, 3, 2, 2), upscale_factor=2)
    yield "C2", s(s.tensor(1, 4, 2, 2), upscale_factor=-2)
    yield "C3", s(s.tensor(1, 4, 2, 2), upscale_factor=2, data_format="NCWH")
