"""Convolution of images whose channels are in blocks, with what follows it on each element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.conv import correlate
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import patches, require_positions, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"

ACTIVATIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "hardswish": lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
}
"""What may be applied to the result."""


@op
class NchwcConv2d:
    """`conv2d` of images `[N, C/b, H, W, b]`, plus a bias `[K]` and a summand, then an activation.

    A filter `[K/b, C/b, kh, kw, b, b]` has blocks of filters last; `[C/b, kh, kw, b]` has one
    filter for each channel. An image `[N, C, H, W]` has a filter `[K/b, 1, kh, kw, C, b]`. The
    result is `[N, K/b, OH, OW, b]`. An image with g times the blocks of a filter of six dimensions
    has g groups, and so have the filters. If `channels` is not 0, only so many are multiplied:
    those after them in the last block may be anything. Programs of inference get this op from
    the pass `block-channels`; the layout is that of Liu et al. (USENIX ATC 2019) and of MLAS.

    C1: `input` has four or five dimensions, `filter` four or six, with the same dtype.
    C2: the channels of `input` are those of `filter`, and its blocks too, or those of each group.
    C3: strides, paddings and dilations fit two spatial dimensions, and the filter the image.
    C4: `bias` is a vector with one element per filter, `residual` has the type of the result.
    C5: `activation` is `identity`, `relu`, `relu6` or `hardswish`.
    C6: `channels` is 0, or ends in the last block of an image with blocks and a filter of six
    dimensions.
    """

    name = "pir.nchwc_conv2d"
    dtypes = (dt.float32, dt.float64)
    signature = (
        "input, filter, bias?, residual? ; strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
        'dilations: i32[] = [1, 1], activation: str = "identity", channels: i64 = 0 -> out'
    )


@infer_meta(NchwcConv2d)
def _(
    x: TensorMeta,
    filter: TensorMeta,
    bias: TensorMeta | None,
    residual: TensorMeta | None,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    activation: str,
    channels: int,
) -> TensorMeta:
    fits = x.rank in (4, 5) and filter.rank in (4, 6) and (x.rank, filter.rank) != (4, 4)
    require(fits, "C1", f"input {x} and filter {filter} have other dimensions")
    require(x.dtype is filter.dtype, "C1", f"dtypes {x.dtype} and {filter.dtype} differ")
    blocks, block = x.shape[1], x.shape[-1]
    held = (blocks, block) if x.rank == 5 else (1, blocks)
    if filter.rank == 4:
        takes, filters, sizes = (
            (filter.shape[0], filter.shape[3]),
            filter.shape[0],
            filter.shape[1:3],
        )
    else:
        takes, filters, sizes = filter.shape[1:5:3], filter.shape[0], filter.shape[2:4]
    agree = all(map(same_dim, held, takes))
    if x.rank == 5 and filter.rank == 6 and UNKNOWN not in (blocks, takes[0]):
        groups = blocks // takes[0] if takes[0] else 0
        fits = groups > 0 and groups * takes[0] == blocks
        fits = fits and (filters == UNKNOWN or filters % groups == 0)
        agree = fits and same_dim(block, takes[1])
    require(agree, "C2", f"input {show(x.shape)} does not fit filter {show(filter.shape)}")
    lengths = x.shape[2:4]
    moves = slides(lengths, sizes, strides, paddings, "EXPLICIT", dilations, "C3")
    out = [m.positions(n) for m, n in zip(moves, lengths, strict=True)]
    require_positions(out, "C3", lengths)
    made = TensorMeta((x.shape[0], filters, *out, filter.shape[-1]), x.dtype)
    for given, want in ((bias, (mul_dims(filters, made.shape[-1]),)), (residual, made.shape)):
        fits = given is None or (given.rank == len(want) and given.dtype is x.dtype)
        fits = fits and (given is None or all(map(same_dim, given.shape, want)))
        require(fits, "C4", f"{given} is not {show(want)} of {x.dtype}")
    require(activation in ACTIVATIONS, "C5", f"activation {activation!r} is not known")
    known = UNKNOWN not in (blocks, block)
    ends = filter.rank == 6 and x.rank == 5 and same_dim(blocks, filter.shape[1])
    ends = ends and (not known or 0 < blocks * block - channels < block)
    require(channels == 0 or ends, "C6", f"{channels} channels do not end in the last block")
    return made


@reference(NchwcConv2d)
def _(
    x: Array,
    filter: Array,
    bias: Array | None,
    residual: Array | None,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    activation: str,
    channels: int,
) -> Array:
    groups, block = 1, filter.shape[-1]
    if filter.ndim == 4:
        plain = np.moveaxis(filter, 3, 1).reshape(-1, 1, *filter.shape[1:3])
        groups = plain.shape[0]
    else:
        filters, blocks, *sizes, depth, _ = filter.shape
        plain = filter.transpose(0, 5, 1, 4, 2, 3).reshape(filters * block, blocks * depth, *sizes)
        groups = x.shape[1] // blocks if x.ndim == 5 else 1
    image = x if x.ndim == 4 else np.moveaxis(x, 4, 2).reshape(len(x), -1, *x.shape[2:4])
    if channels:
        image, plain = image[:, :channels], plain[:, :channels]
    lengths, extents = image.shape[2:], plain.shape[2:]
    moves = slides(lengths, extents, strides, paddings, "EXPLICIT", dilations, "C3")
    out = correlate(patches(image, moves), plain, groups)
    blocked = np.moveaxis(out.reshape(len(out), -1, block, *out.shape[2:]), 2, 4)
    if bias is not None:
        blocked = blocked + bias.reshape(-1, 1, 1, block)
    if residual is not None:
        blocked = blocked + residual
    return ACTIVATIONS[activation](blocked).astype(x.dtype, copy=False)


@samples(NchwcConv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, filter = s.tensor(2, 3, 5, 6, 4), s.tensor(2, 3, 3, 2, 4, 4)
    yield s(x, filter, s.tensor(8), None, strides=(2, 1), paddings=(1, 0), activation="relu")
    yield s(x, filter, None, s.tensor(2, 2, 3, 5, 4), activation="relu6")
    yield s(s.tensor(1, 3, 7, 7), s.tensor(2, 1, 3, 3, 3, 4), None, None, dilations=(2, 2))
    yield s(x, s.tensor(3, 3, 3, 4), s.tensor(12), None, paddings=(1, 1), activation="hardswish")
    yield s(x, filter, None, None, channels=10)
    yield s(s.tensor(1, 4, 5, 6, 4), s.tensor(6, 2, 3, 2, 4, 4), None, None, paddings=(1, 0))


@bad_samples(NchwcConv2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter = s.tensor(1, 2, 5, 5, 4), s.tensor(3, 2, 3, 3, 4, 4)
    yield "C1", s(s.tensor(5, 5, 4), filter, None, None)
    yield "C1", s(x, s.tensor(3, 2, 3, 3, 4, 4, dtype=dt.int32), None, None)
    yield "C2", s(s.tensor(1, 3, 5, 5, 4), filter, None, None)
    yield "C3", s(x, filter, None, None, strides=(0, 1))
    yield "C3", s(s.tensor(1, 2, 2, 5, 4), filter, None, None)
    yield "C4", s(x, filter, s.tensor(4), None)
    yield "C4", s(x, filter, None, s.tensor(1, 3, 5, 5, 4))
    yield "C5", s(x, filter, None, None, activation="selu")
    yield "C6", s(x, filter, None, None, channels=4)
    yield "C6", s(s.tensor(1, 3, 7, 7), s.tensor(2, 1, 3, 3, 3, 4), None, None, channels=2)
