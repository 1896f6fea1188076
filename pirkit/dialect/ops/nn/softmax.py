"""Activations that read more than one element: softmax, gated and parametric ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pirkit.dialect.kinds import NONNEGATIVE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, normalize_axis, numel, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "normalization"


@op
class Softmax:
    """`e ** x` divided by its sum along `axis`, without overflow.

    C1: `axis` is in [-rank, rank).
    C2: `x` is a float tensor.
    """

    name = "pd_op.softmax"
    traits = (NONNEGATIVE,)
    signature = "x ; axis: i32 -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "x"}


@op
class LogSoftmax:
    """Logarithm of the softmax along `axis`.

    Exact also far below the largest element, where Paddle's kernel stops at -64.

    C1: `axis` is in [-rank, rank).
    C2: `x` is a float tensor.
    """

    name = "pd_op.log_softmax"
    signature = "x ; axis: i32 = -1 -> out"
    dtypes = dt.FLOATS


@infer_meta(Softmax, LogSoftmax)
def _(x: TensorMeta, *, axis: int) -> TensorMeta:
    normalize_axis(axis, x.rank, "C1")
    require(x.dtype.is_float, "C2", f"not defined for {x.dtype}", help="cast it to float32")
    return x


def _shifted(x: Array, axis: int) -> Array:
    """``x`` less its maximum along the axis, with at least one dimension."""
    at_least_1d = np.atleast_1d(x)
    top = np.max(at_least_1d, axis=axis, keepdims=True, initial=-np.inf)
    return at_least_1d - top


@reference(Softmax)
@in_f32
def _(x: Array, *, axis: int) -> Any:
    shifted = _shifted(x, axis)
    e = np.exp(shifted)
    return (e / np.sum(e, axis=axis, keepdims=True)).reshape(x.shape)


@reference(LogSoftmax)
@in_f32
def _(x: Array, *, axis: int) -> Any:
    shifted = _shifted(x, axis)
    total = np.sum(np.exp(shifted), axis=axis, keepdims=True)
    return (shifted - np.log(total)).reshape(x.shape)


@samples(Softmax, LogSoftmax)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=-1)
    yield s(s.tensor(2, 3, 4), axis=1)
    yield s(s.tensor(2, 3, low=-300.0, high=300.0), axis=0)
    yield s(s.tensor(), axis=-1)
    yield s(s.tensor(0, 3), axis=1)


@bad_samples(Softmax, LogSoftmax)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C1", s(s.tensor(2, 3), axis=-3)
    yield "C2", s(s.ints((3,), 0, 5), axis=0)


@op
class FusedSoftmaxMask:
    """The softmax of `x [N, heads, rows, columns]` plus `mask [N, 1, rows, columns]` along rows.

    C1: both have four dimensions, and the sizes of `mask` are those of `x`, or 1.
    """

    name = "pd_op.fused_softmax_mask"
    traits = (NONNEGATIVE,)
    signature = "x, mask -> out"
    dtypes = dt.FLOATS
    same_dtype = ("x", "mask")


@infer_meta(FusedSoftmaxMask)
def _(x: TensorMeta, mask: TensorMeta) -> TensorMeta:
    fits = x.rank == mask.rank == 4
    fits = fits and all(m == 1 or same_dim(m, d) for m, d in zip(mask.shape, x.shape, strict=True))
    require(fits, "C1", f"x {x} and mask {mask}")
    return x


@reference(FusedSoftmaxMask)
@in_f32
def _(x: Array, mask: Array) -> Any:
    e = np.exp(_shifted(x + mask, -1))
    return e / np.sum(e, axis=-1, keepdims=True)


@samples(FusedSoftmaxMask)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4, 5), s.tensor(2, 1, 4, 5))
    yield s(s.tensor(1, 1, 8, 8), s.tensor(1, 1, 8, 8))


@bad_samples(FusedSoftmaxMask)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3, 4, 5), s.tensor(2, 4, 5))
    yield "C1", s(s.tensor(2, 3, 4, 5), s.tensor(2, 1, 4, 4))


@op
class Swiglu:
    """`silu(x) * y`; without `y`, of the two halves of `x` along its last axis.

    C1: `x` and `y` have the same shape and dtype.
    C2: without `y`, the last dimension of `x` is even.
    C3: `x` is a float tensor.
    """

    name = "pd_op.swiglu"
    signature = "x, y? -> out"
    dtypes = dt.FLOATS


@infer_meta(Swiglu)
def _(x: TensorMeta, y: TensorMeta | None) -> TensorMeta:
    require(x.dtype.is_float, "C3", f"not defined for {x.dtype}", help="cast it to float32")
    if y is not None:
        same = x.rank == y.rank and all(map(same_dim, x.shape, y.shape))
        require(same and x.dtype is y.dtype, "C1", f"{x} and {y} differ")
        return x.with_shape(broadcast(x.shape, y.shape))
    last = x.shape[-1] if x.rank else 1
    require(last == UNKNOWN or last % 2 == 0, "C2", f"{show(x.shape)} has no two halves")
    return x.with_shape((*x.shape[:-1], last if last == UNKNOWN else last // 2))


@in_f32
def _gated(gate: Array, value: Array) -> Any:
    return gate / (1 + np.exp(-gate)) * value


@reference(Swiglu)
def _(x: Array, y: Array | None) -> Array:
    gate, value = np.split(x, 2, axis=-1) if y is None else (x, y)
    return _gated(gate, value)


@samples(Swiglu)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 4), None)
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(0, 4), None)


@bad_samples(Swiglu)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3))
    yield "C2", s(s.tensor(2, 3), None)
    yield "C3", s(s.ints((2,), 0, 5), None)


@op
class Prelu:
    """`x` above 0, else `alpha * x`, with a learned `alpha`.

    `mode` says what shares one element of `alpha`: `all`, a `channel`, or an `element` of each
    sample; `data_format` (`NCHW` or `NHWC`) where the channels are.

    C1: `mode` is `all`, `channel` or `element`, and `data_format` a layout.
    C2: `alpha` has as many elements as the mode needs.
    C3: `x` and `alpha` are float tensors of one dtype.
    C4: with mode `channel`, `x` has at least two dimensions; with `element`, at least one.
    """

    name = "pd_op.prelu"
    signature = 'x, alpha ; data_format: str = "NCHW", mode: str = "all" -> out'
    dtypes = dt.FLOATS


def _alpha_shape(shape: tuple[int, ...], data_format: str, mode: str) -> tuple[int, ...]:
    """The shape in which ``alpha`` broadcasts against ``x``."""
    if mode == "all":
        return (1,) * len(shape)
    if mode == "element":
        return (1, *shape[1:])
    channel = len(shape) - 1 if data_format[-1] == "C" else 1
    return tuple(d if i == channel else 1 for i, d in enumerate(shape))


@infer_meta(Prelu)
def _(x: TensorMeta, alpha: TensorMeta, *, data_format: str, mode: str) -> TensorMeta:
    known = mode in ("all", "channel", "element") and data_format != ""
    require(known, "C1", f"mode {mode!r} or data_format {data_format!r} is unknown")
    least = {"all": 0, "channel": 2, "element": 1}[mode]
    require(x.rank >= least, "C4", f"mode {mode} needs {least} dimensions, got {show(x.shape)}")
    needed = numel(_alpha_shape(x.shape, data_format, mode))
    fits = same_dim(numel(alpha.shape), needed)
    require(fits, "C2", f"alpha has shape {show(alpha.shape)}, mode {mode} needs {needed} elements")
    same = x.dtype is alpha.dtype and x.dtype.is_float
    require(same, "C3", f"dtypes {x.dtype} and {alpha.dtype} are not one float type")
    return x


@in_f32
def _bent(x: Array, slope: Array) -> Any:
    return np.where(x > 0, x, slope * x)


@reference(Prelu)
def _(x: Array, alpha: Array, *, data_format: str, mode: str) -> Array:
    slope = alpha.reshape(_alpha_shape(x.shape, data_format, mode))
    return _bent(x, slope)


@samples(Prelu)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(1))
    yield s(s.tensor(2, 3, 4, 4), s.tensor(3), mode="channel")
    yield s(s.tensor(2, 4, 4, 3), s.tensor(3), mode="channel", data_format="NHWC")
    yield s(s.tensor(2, 3, 2), s.tensor(1, 3, 2), mode="element")
    yield s(s.tensor(), s.tensor(1))


@bad_samples(Prelu)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(1), mode="row")
    yield "C1", s(s.tensor(2, 3), s.tensor(3), mode="channel", data_format="")
    yield "C2", s(s.tensor(2, 3), s.tensor(2), mode="channel")
    yield "C3", s(s.tensor(2, dtype=dt.float32), s.tensor(1, dtype=dt.float64))
    yield "C4", s(s.tensor(3), s.tensor(3), mode="channel")
