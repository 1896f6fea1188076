"""Quantization that is simulated in floating point, as training for quantized inference does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import (
    bad_samples,
    decompose,
    infer_meta,
    op,
    reference,
    require,
    samples,
    vjp,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"

TINY: Final = 1e-30
"""A scale up to this counts as 0; Paddle adds `ADDED` to it before it divides."""
ADDED: Final = 1e-6


@op
class FakeQuantizeDequantizeAbsMax:
    """`x` rounded to `2 * levels + 1` numbers from `-max|x|` to `max|x|`, and that maximum.

    `levels` is `2**(bit_length - 1) - 1`. `round_type` 0 rounds halves to even, 1 away from 0. The
    gradient passes as if nothing was rounded (Jacob et al., CVPR 2018).

    C1: `x` has elements, `bit_length` is 2 to 16, and `round_type` 0 or 1.
    """

    name = "pd_op.fake_quantize_dequantize_abs_max"
    signature = "x ; bit_length: i32 = 8, round_type: i32 = 1 -> out, out_scale"
    dtypes = (dt.float32,)


@op
class FakeChannelWiseQuantizeDequantizeAbsMax:
    """`fake_quantize_dequantize_abs_max` of each slice along `quant_axis`.

    C1: `x` has elements, `bit_length` is 2 to 16, and `round_type` 0 or 1.
    C2: `quant_axis` is 0 or 1, and `x` has it.
    """

    name = "pd_op.fake_channel_wise_quantize_dequantize_abs_max"
    signature = (
        "x ; bit_length: i32 = 8, round_type: i32 = 1, quant_axis: i32 = 0 -> out, out_scale"
    )
    dtypes = (dt.float32,)


@op
class FakeQuantizeDequantizeMovingAverageAbsMax:
    """`fake_quantize_dequantize_abs_max` by a moving average of the maxima.

    In training, `out_accum = moving_rate * in_accum + max|x|`, `out_state = moving_rate * in_state
    + 1`, and the scale is their quotient. In test mode the scale is `in_scale`, and nothing
    changes.

    C1: `x` has elements, `bit_length` is 2 to 16, and `round_type` 0 or 1.
    C2: `in_scale`, `in_accum` and `in_state` have one element each, of the type of `x`.
    C3: in training, `in_accum` and `in_state` are there.
    """

    name = "pd_op.fake_quantize_dequantize_moving_average_abs_max"
    signature = (
        "x, in_scale, in_accum?, in_state? ; moving_rate: f32 = 0.9, bit_length: i32 = 8, "
        "is_test: bool = False, round_type: i32 = 1 -> out, out_scale, out_state?, out_accum?"
    )
    dtypes = (dt.float32,)
    inplace = {"out_scale": "in_scale", "out_state": "in_state", "out_accum": "in_accum"}


def _check(shape: Sequence[int], bit_length: int, round_type: int) -> None:
    fits = 0 not in shape and 2 <= bit_length <= 16 and round_type in (0, 1)
    require(fits, "C1", f"{[*shape]}, bit_length {bit_length}, round_type {round_type}")


@infer_meta(FakeQuantizeDequantizeAbsMax)
def _(x: TensorMeta, *, bit_length: int, round_type: int) -> tuple[TensorMeta, ...]:
    _check(x.shape, bit_length, round_type)
    return x, x.with_shape((1,))


@infer_meta(FakeChannelWiseQuantizeDequantizeAbsMax)
def _(
    x: TensorMeta, *, bit_length: int, round_type: int, quant_axis: int
) -> tuple[TensorMeta, ...]:
    _check(x.shape, bit_length, round_type)
    require(quant_axis in (0, 1) and quant_axis < x.rank, "C2", f"quant_axis {quant_axis} of {x}")
    return x, x.with_shape((x.shape[quant_axis],))


@infer_meta(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(
    x: TensorMeta, in_scale: TensorMeta, in_accum: TensorMeta | None, in_state: TensorMeta | None,
    *, bit_length: int, round_type: int, is_test: bool, **_: object,
) -> tuple[TensorMeta | None, ...]:  # fmt: skip
    _check(x.shape, bit_length, round_type)
    every = [m for m in (in_scale, in_accum, in_state) if m is not None]
    fits = all(m.numel in (1, -1) and m.dtype is x.dtype for m in every)
    require(fits, "C2", f"{', '.join(map(str, every))}")
    require(is_test or len(every) == 3, "C3", "training needs `in_accum` and `in_state`")
    return x, in_scale, in_state, in_accum


def _rounded(x: Array, scale: Array, bit_length: int, round_type: int) -> Array:
    """``x`` at the levels of ``scale``, which broadcasts to it."""
    _check(x.shape, bit_length, round_type)
    top = np.float32(2 ** (bit_length - 1) - 1)
    inverse = 1 / np.where(scale <= TINY, scale + np.float32(ADDED), scale)
    if round_type == 0:
        found = np.clip(np.rint(top * inverse * x), -top - 1, top)
    else:
        level = top * inverse * np.clip(x, -scale, scale)
        found = np.trunc(level + np.copysign(np.float32(0.5), level))
    return found * scale / top


def _peak(x: Array, axes: tuple[int, ...] | None = None) -> Array:
    return np.max(np.abs(x), axis=axes, initial=0)


@reference(FakeQuantizeDequantizeAbsMax)
def _(x: Array, *, bit_length: int, round_type: int) -> tuple[Array, ...]:
    scale = _peak(x).reshape(1)
    return _rounded(x, scale[0], bit_length, round_type), scale


@reference(FakeChannelWiseQuantizeDequantizeAbsMax)
def _(x: Array, *, bit_length: int, round_type: int, quant_axis: int) -> tuple[Array, ...]:
    scale = _peak(x, tuple(i for i in range(x.ndim) if i != quant_axis))
    shape = (*(1,) * quant_axis, -1, *(1,) * (x.ndim - quant_axis - 1))
    return _rounded(x, scale.reshape(shape), bit_length, round_type), scale


@reference(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(
    x: Array, in_scale: Array, in_accum: Array | None, in_state: Array | None, *,
    moving_rate: float, bit_length: int, is_test: bool, round_type: int,
) -> tuple[Array | None, ...]:  # fmt: skip
    scale, accum, state = in_scale, in_accum, in_state
    if not is_test and in_accum is not None and in_state is not None:
        rate = np.float32(moving_rate)
        accum, state = rate * in_accum + _peak(x), rate * in_state + np.float32(1)
        scale = (accum.reshape(()) / state.reshape(())).reshape(in_scale.shape)
    return _rounded(x, scale.reshape(()), bit_length, round_type), scale, state, accum


# --- decompositions and derivatives --------------------------------------------------------------


def _levels(c: OpCall, x: Value, scale: Value) -> Value:
    b, top = c.b, float(2 ** (c.bit_length - 1) - 1)
    inverse = 1.0 / b.where(scale <= TINY, scale + ADDED, scale)
    if c.round_type == 0:
        level = b.round(inverse * top * x)
        found = b.minimum(b.maximum(level, b.const(-top - 1, x.dtype)), b.const(top, x.dtype))
    else:
        level = inverse * top * b.minimum(b.maximum(x, -scale), scale)
        half = b.where(level < 0.0, b.const(-0.5, x.dtype), b.const(0.5, x.dtype))
        found = b.trunc(level + half)
    return found * scale / top


def _largest(b: Builder, x: Value, axes: tuple[int, ...], *, keepdim: bool = False) -> Value:
    size = b.abs(x)  # `max` takes an empty list of axes for all of them
    return b("pd_op.max", size, axis=axes, keepdim=keepdim) if axes else size


@decompose(FakeQuantizeDequantizeAbsMax)
def _(c: OpCall) -> tuple[Value, ...]:
    scale = _largest(c.b, c.x, tuple(range(c.x.rank)))
    return _levels(c, c.x, scale), c.b.reshape(scale, (1,))


@decompose(FakeChannelWiseQuantizeDequantizeAbsMax)
def _(c: OpCall) -> tuple[Value, ...]:
    x = c.x
    scale = _largest(c.b, x, tuple(i for i in range(x.rank) if i != c.quant_axis), keepdim=True)
    return _levels(c, x, scale), c.b.reshape(scale, (-1,))


@decompose(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(c: OpCall) -> tuple[Any, ...]:
    b, x, scale, accum, state = c.b, c.x, c.in_scale, c.in_accum, c.in_state
    if not c.is_test:
        accum = accum * c.moving_rate + _largest(b, x, tuple(range(x.rank)))
        state = state * c.moving_rate + 1.0
        scale = b.reshape_like(b.reshape(accum, ()) / b.reshape(state, ()), scale)
    return _levels(c, x, b.reshape(scale, ())), scale, state, accum


@vjp(FakeQuantizeDequantizeAbsMax, FakeChannelWiseQuantizeDequantizeAbsMax)
def _(c: OpCall, g: Value | None, _scale: Value | None) -> Value | None:
    return g


@vjp(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(c: OpCall, g: Value | None, *_: Value | None) -> tuple[Value | None, ...]:
    return g, None, None, None


# --- samples -------------------------------------------------------------------------------------


@samples(FakeQuantizeDequantizeAbsMax, FakeChannelWiseQuantizeDequantizeAbsMax)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 3))
    yield s(s.tensor(4, 3), bit_length=3, round_type=0)
    yield s(np.zeros((2, 3), np.float32))
    if s.definition.base is FakeChannelWiseQuantizeDequantizeAbsMax:
        yield s(s.tensor(2, 3, 4), quant_axis=1)


@samples(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(s: SampleMaker) -> Iterator[Sample]:
    one = [s.array([v], dt.float32) for v in (1.0, 2.0, 3.0)]
    yield s(s.tensor(4, 3), *one, bit_length=3)
    yield s(s.tensor(4, 3), *one, round_type=0)
    yield s(s.tensor(4, 3), *one, is_test=True)


@bad_samples(FakeQuantizeDequantizeAbsMax, FakeChannelWiseQuantizeDequantizeAbsMax)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 3), bit_length=1)
    yield "C1", s(s.tensor(4, 0))
    if s.definition.base is FakeChannelWiseQuantizeDequantizeAbsMax:
        yield "C2", s(s.tensor(4), quant_axis=1)


@bad_samples(FakeQuantizeDequantizeMovingAverageAbsMax)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    one = s.array([1.0], dt.float32)
    yield "C1", s(s.tensor(4), one, one, one, round_type=2)
    yield "C2", s(s.tensor(4), s.tensor(2), one, one)
    yield "C2", s(s.tensor(4), one, one, s.array([1.0], dt.bfloat16))
    yield "C3", s(s.tensor(4), one)
