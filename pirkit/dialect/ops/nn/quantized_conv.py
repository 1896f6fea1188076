"""Convolution of 8-bit images and filters, plain and over blocked channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.conv import correlate
from pirkit.dialect.ops.nn.nchwc_conv import ACTIVATIONS
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import patches, require_positions, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "contraction"

MAX_TERMS: Final = (2**31 - 1) // (255 * 128)
"""Terms at most of sums of products of an unsigned and a signed byte that an int32 holds."""
GROUP: Final = 4
"""Channels of a filter that lie together."""


@op
class QuantizedConv2d:
    """`conv2d` of images `[N, C, H, W]` in uint8 with a filter `[K, C, kh, kw]` in int8; float32.

    Products are added exactly, in int32, then `offsets [K]`, which hold biases and what a zero
    point of the image contributes; the float32 nearest to a sum is multiplied by the scale of its
    filter, `scales [K]`. So results have the same bits on every CPU (Jacob et al., CVPR 2018). The
    padding is 0: an image in which another number stands for 0 is padded before. The pass
    `quantize` makes this op, and `block-channels` the one over blocked channels; other CPU code
    decomposes it into a convolution of float32, whose sums are rounded beyond 2**24.

    C1: `input` is uint8 and `filter` int8, with four dimensions each.
    C2: `input` has the channels of `filter`.
    C3: strides, paddings and dilations fit two spatial dimensions, and the filter the image.
    C4: `scales [K]` is float32, `offsets [K]` int32.
    C5: a filter has at most 65,793 elements.
    """

    name = "pir.quantized_conv2d"
    dtypes = (dt.uint8,)
    signature = (
        "input, filter, scales, offsets? ; strides: i32[] = [1, 1], paddings: i32[] = [0, 0], "
        "dilations: i32[] = [1, 1] -> out"
    )


@op
class NchwcQuantizedConv2d:
    """`pir.quantized_conv2d` of images `[N, C/d, H, W, d]`, and what follows it, in this order.

    A filter `[K/b, C/d, kh, kw, d/4, b, 4]` has four channels of each filter together. The scaled
    sum, a bias `[K]` and a summand are added, each rounded to float32; the summand has the shape of
    the result, and if it is uint8, it counts as `(residual - zeros[1]) * residual_scale`. Then
    comes the activation. The result `[N, K/b, OH, OW, b]` is float32; with a `rate [1]` it is
    uint8, the even integer nearest to `value * rate`, plus `zeros[0]`, within 0 to 255.

    C1: `input` is uint8, `filter` int8, with five and seven dimensions.
    C2: the channels of `input` are those of `filter`, and its blocks too.
    C3: strides, paddings and dilations fit two spatial dimensions, and the filter the image.
    C4: `scales` and `bias` are vectors of float32 with one element per filter, `offsets` of int32.
    C5: a filter has at most 65,793 elements.
    C6: `residual` has the shape of the result; it is float32, or uint8 with a `residual_scale`.
    C7: `residual_scale` and `rate` are one float32 each, `zeros` two numbers of 0 to 255.
    C8: `activation` is `identity`, `relu`, `relu6` or `hardswish`.
    """

    name = "pir.nchwc_quantized_conv2d"
    dtypes = (dt.uint8,)
    signature = (
        "input, filter, scales, bias?, residual?, residual_scale?, rate?, offsets? ; "
        "strides: i32[] = [1, 1], paddings: i32[] = [0, 0], dilations: i32[] = [1, 1], "
        'activation: str = "identity", zeros: i32[] = [0, 0] -> out'
    )


def _positions(
    x: TensorMeta, sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:  # fmt: skip
    lengths = x.shape[2:4]
    moves = slides(lengths, sizes, strides, paddings, "EXPLICIT", dilations, "C3")
    out = [m.positions(n) for m, n in zip(moves, lengths, strict=True)]
    require_positions(out, "C3", lengths)
    return out


def _require_bytes(x: TensorMeta, filter: TensorMeta, ranks: tuple[int, int]) -> None:
    fits = x.dtype is dt.uint8 and filter.dtype is dt.int8 and (x.rank, filter.rank) == ranks
    require(fits, "C1", f"input {x} and filter {filter} are no uint8 and int8 of {ranks} sizes")


def _require_vector(
    given: TensorMeta | None, length: int, what: str, condition: str, kind: DType = dt.float32
) -> None:
    if given is not None:
        fits = given.rank == 1 and same_dim(given.shape[0], length) and given.dtype is kind
        require(fits, condition, f"{what} {given} is not {kind}[{length}]")


def _require_terms(sizes: Sequence[int]) -> None:
    terms = 1
    for n in sizes:
        terms = mul_dims(terms, n)
    require(terms <= MAX_TERMS, "C5", f"sums of {terms:,} products may leave int32")


@infer_meta(QuantizedConv2d)
def _(
    x: TensorMeta, filter: TensorMeta, scales: TensorMeta, offsets: TensorMeta | None, *,
    strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int],
) -> TensorMeta:  # fmt: skip
    _require_bytes(x, filter, (4, 4))
    agree = same_dim(x.shape[1], filter.shape[1])
    require(agree, "C2", f"input {show(x.shape)} does not fit filter {show(filter.shape)}")
    out = _positions(x, filter.shape[2:], strides, paddings, dilations)
    _require_vector(scales, filter.shape[0], "scales", "C4")
    _require_vector(offsets, filter.shape[0], "offsets", "C4", dt.int32)
    _require_terms(filter.shape[1:])
    return TensorMeta((x.shape[0], filter.shape[0], *out), dt.float32)


@infer_meta(NchwcQuantizedConv2d)
def _(
    x: TensorMeta, filter: TensorMeta, scales: TensorMeta, bias: TensorMeta | None,
    residual: TensorMeta | None, residual_scale: TensorMeta | None, rate: TensorMeta | None,
    offsets: TensorMeta | None, *, strides: Sequence[int], paddings: Sequence[int],
    dilations: Sequence[int], activation: str, zeros: Sequence[int],
) -> TensorMeta:  # fmt: skip
    _require_bytes(x, filter, (5, 7))
    held = filter.shape[1], mul_dims(filter.shape[4], GROUP), filter.shape[6]
    agree = all(map(same_dim, (x.shape[1], x.shape[4], GROUP), held))
    require(agree, "C2", f"input {show(x.shape)} does not fit filter {show(filter.shape)}")
    out = _positions(x, filter.shape[2:4], strides, paddings, dilations)
    filters = mul_dims(filter.shape[0], filter.shape[5])
    _require_vector(scales, filters, "scales", "C4")
    _require_vector(bias, filters, "bias", "C4")
    _require_vector(offsets, filters, "offsets", "C4", dt.int32)
    _require_terms((*filter.shape[1:5], GROUP))
    made = TensorMeta(
        (x.shape[0], filter.shape[0], *out, filter.shape[5]),
        dt.float32 if rate is None else dt.uint8,
    )
    if residual is not None:
        known = dt.float32 if residual_scale is None else dt.uint8
        fits = residual.rank == 5 and all(map(same_dim, residual.shape, made.shape))
        require(fits and residual.dtype is known, "C6", f"{residual} is not {show(made.shape)}")
    else:
        require(residual_scale is None, "C6", "there is a scale and no summand")
    _require_vector(residual_scale, 1, "residual_scale", "C7")
    _require_vector(rate, 1, "rate", "C7")
    fits = len(zeros) == 2 and all(0 <= z <= 255 for z in zeros)
    require(fits, "C7", f"zeros {list(zeros)} are no two numbers of 0 to 255")
    require(activation in ACTIVATIONS, "C8", f"activation {activation!r} is not known")
    return made


def _sums(
    x: Array, filter: Array, offsets: Array | None, strides: Sequence[int],
    paddings: Sequence[int], dilations: Sequence[int],
) -> Array:  # fmt: skip
    """The exact sums, which float64 holds, as the nearest float32."""
    moves = slides(x.shape[2:], filter.shape[2:], strides, paddings, "EXPLICIT", dilations, "C3")
    windows = patches(x.astype(np.float64), moves)
    found = correlate(windows, filter.astype(np.float64), 1)
    found = found if offsets is None else found + offsets[:, None, None]
    return found.astype(np.float32)


@reference(QuantizedConv2d)
def _(
    x: Array, filter: Array, scales: Array, offsets: Array | None = None, **how: Sequence[int]
) -> Array:
    return _sums(x, filter, offsets, **how) * scales[:, None, None]


@reference(NchwcQuantizedConv2d)
def _(
    x: Array, filter: Array, scales: Array, bias: Array | None, residual: Array | None,
    residual_scale: Array | None, rate: Array | None, offsets: Array | None = None, *,
    activation: str, zeros: Sequence[int], **how: Sequence[int],
) -> Array:  # fmt: skip
    filters, blocks, *sizes, groups, block, _ = filter.shape
    plain = filter.transpose(0, 5, 1, 4, 6, 2, 3)
    plain = plain.reshape(filters * block, blocks * groups * GROUP, *sizes)
    image = np.moveaxis(x, 4, 2).reshape(len(x), -1, *x.shape[2:4])
    found = _sums(image, plain, offsets, **how)
    found = np.moveaxis(found.reshape(len(x), filters, block, *found.shape[2:]), 2, 4)
    found = found * scales.reshape(-1, 1, 1, block)
    if bias is not None:
        found = found + bias.reshape(-1, 1, 1, block)
    if residual is not None:
        summand = residual
        if residual_scale is not None:
            summand = (residual.astype(np.float32) - np.float32(zeros[1])) * residual_scale
        found = found + summand
    found = ACTIVATIONS[activation](found).astype(np.float32, copy=False)
    if rate is None:
        return found
    rounded = np.rint(found * rate) + np.float32(zeros[0])
    return np.clip(np.nan_to_num(rounded, nan=0.0), 0, 255).astype(np.uint8)


@samples(QuantizedConv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, filter = s.tensor(2, 3, 5, 6), _bytes(s, 4, 3, 3, 2)
    yield s(x, filter, _floats(s, 4), strides=(2, 1), paddings=(1, 0))
    offsets = s.tensor(4, dtype=dt.int32)
    yield s(x, filter, _floats(s, 4), offsets, dilations=(2, 2), paddings=(0, 1, 1, 0))


@samples(NchwcQuantizedConv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x, filter, scales = s.tensor(2, 3, 5, 6, 4), _bytes(s, 2, 3, 3, 2, 1, 8, 4), _floats(s, 16)
    offsets = s.tensor(16, dtype=dt.int32)
    yield s(x, filter, scales, None, None, None, None, offsets, strides=(2, 1), paddings=(1, 0))
    summand, one = s.tensor(2, 2, 3, 5, 8), _floats(s, 1)
    yield s(x, filter, scales, scales, summand, one, one, activation="relu", zeros=(0, 128))
    summand = _floats(s, 2, 2, 3, 5, 8)
    yield s(x, filter, scales, None, summand, None, one, activation="hardswish", zeros=(128, 0))


@bad_samples(QuantizedConv2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter, scales = s.tensor(1, 2, 5, 5), _bytes(s, 3, 2, 3, 3), _floats(s, 3)
    yield "C1", s(x, s.tensor(3, 2, 3, 3), scales)
    yield "C1", s(_bytes(s, 1, 2, 5, 5), filter, scales)
    yield "C2", s(s.tensor(1, 3, 5, 5), filter, scales)
    yield "C3", s(x, filter, scales, strides=(0, 1))
    yield "C3", s(s.tensor(1, 2, 2, 5), filter, scales)
    yield "C4", s(x, filter, _floats(s, 4))
    yield "C4", s(x, filter, scales, scales)
    yield "C5", s(s.tensor(1, 65794, 1, 1), _bytes(s, 1, 65794, 1, 1), _floats(s, 1))


@bad_samples(NchwcQuantizedConv2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter, scales = s.tensor(1, 2, 5, 5, 4), _bytes(s, 3, 2, 3, 3, 1, 8, 4), _floats(s, 24)
    none, one, more = (None, None, None), _floats(s, 1), _floats(s, 1, 3, 3, 3, 8)
    yield "C1", s(x, s.tensor(3, 2, 3, 3, 1, 8, 4), scales, None, *none)
    yield "C2", s(s.tensor(1, 3, 5, 5, 4), filter, scales, None, *none)
    yield "C3", s(x, filter, scales, None, *none, dilations=(0, 1))
    yield "C4", s(x, filter, _floats(s, 8), None, *none)
    yield "C4", s(x, filter, scales, one, *none)
    yield "C4", s(x, filter, scales, None, *none, scales)
    wide = s.tensor(1, 1, 1, 1, 65796), _bytes(s, 1, 1, 1, 1, 16449, 8, 4)
    yield "C5", s(*wide, _floats(s, 8), None, *none)
    yield "C6", s(x, filter, scales, None, more, one, None)
    yield "C6", s(x, filter, scales, None, None, one, None)
    yield "C7", s(x, filter, scales, None, None, None, scales)
    yield "C7", s(x, filter, scales, None, *none, zeros=(0, 256))
    yield "C8", s(x, filter, scales, None, *none, activation="selu")


def _bytes(s: SampleMaker, *shape: int) -> Any:
    return s.tensor(*shape, dtype=dt.int8)


def _floats(s: SampleMaker, *shape: int) -> Any:
    return s.tensor(*shape, dtype=dt.float32)
