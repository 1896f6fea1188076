"""Batch normalisation, with running statistics that training updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.opdef import WRITE, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.norm import check_weights, moments, scaled, statistics_dtype, widened
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.dialect.windows import is_channels_last
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "normalization"

_REST: Final = (
    "is_test: bool, momentum: f32, epsilon: f32, data_format: str, use_global_stats: bool, "
    "trainable_statistics: bool "
    "-> out, mean_out, variance_out, saved_mean, saved_variance, reserve_space"
)


@op
class BatchNorm:
    """Normalise each channel over the batch, then scale and shift it.

    In training the statistics are those of the batch, and the running ones move towards them:
    `running * momentum + batch * (1 - momentum)`, with the biased variance. With
    `use_global_stats`, or with `is_test` but not `trainable_statistics`, the running statistics are
    used and kept. `saved_mean` and `saved_variance`, the latter as `1 / sqrt(variance + epsilon)`,
    are what was used. (Paddle leaves them uninitialised where the running ones are used.)
    `reserve_space` is empty: no kernel of pirkit needs scratch.

    One element per channel has no statistics: in training `out` is then `x` and nothing moves, as
    in Paddle.

    C1: `x` has two to five dimensions.
    C2: `data_format` is a layout with channels first or last.
    C3: `mean`, `variance`, `scale` and `bias` are vectors with one element per channel.
    C4: they have the element type of `x`, where float16 and bfloat16 count as float32; running
    statistics keep theirs.
    """

    name = "pd_op.batch_norm"
    signature = f"x, mean, variance, scale?, bias? ; {_REST}"
    dtypes = dt.FLOATS
    inplace = {"mean_out": "mean", "variance_out": "variance"}


@op
class SyncBatchNorm:
    """`batch_norm_` over all devices of a run, of which pirkit has one.

    C1: `x` has two to five dimensions.
    C2: `data_format` is a layout with channels first or last.
    C3: `mean`, `variance`, `scale` and `bias` are vectors with one element per channel.
    C4: they have the element type of `x`, where float16 and bfloat16 count as float32; running
    statistics keep theirs.
    """

    name = "pd_op.sync_batch_norm_"
    pure_form = "pd_op.batch_norm"  # which it is on one device
    signature = f"x, mean, variance, scale, bias ; {_REST}"
    dtypes = dt.FLOATS
    inplace = {"mean_out": "mean", "variance_out": "variance"}
    effects = WRITE


@infer_meta(BatchNorm, SyncBatchNorm)
def _(
    x: TensorMeta,
    mean: TensorMeta,
    variance: TensorMeta,
    scale: TensorMeta | None,
    bias: TensorMeta | None,
    *,
    data_format: str,
    **_: object,
) -> tuple[TensorMeta, ...]:
    require(2 <= x.rank <= 5, "C1", f"{x} has not two to five dimensions")
    channels = x.shape[-1 if is_channels_last(data_format, "C2") else 1]
    for what, running in (("mean", mean), ("variance", variance)):
        fits = running.rank == 1 and same_dim(running.shape[0], channels)
        require(fits, "C3", f"{what} {running} is no vector of {channels} elements")
    check_weights(scale, bias, channels, "C3")
    wide = statistics_dtype(x.dtype)
    for row in (mean, variance, *(w for w in (scale, bias) if w is not None)):
        require(statistics_dtype(row.dtype) is wide, "C4", f"{row} beside {x}")
    known = channels if channels != UNKNOWN else mean.shape[0]
    row = TensorMeta((known,), wide)
    moved = (row.with_dtype(mean.dtype), row.with_dtype(variance.dtype))
    return x, *moved, row, row, TensorMeta((0,), dt.uint8)


@reference(BatchNorm, SyncBatchNorm)
def _(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    bias: Array | None,
    *,
    is_test: bool,
    momentum: float,
    epsilon: float,
    data_format: str,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> tuple[Array, ...]:
    wide = widened(x)
    channel = x.ndim - 1 if is_channels_last(data_format, "C2") else 1
    shape = tuple(n if i == channel else 1 for i, n in enumerate(x.shape))
    kept = mean.dtype, variance.dtype
    mean, variance = widened(mean), widened(variance)
    kind = wide.dtype.type
    if use_global_stats or (is_test and not trainable_statistics):
        used, variance_used = mean, variance
    else:
        axes = tuple(i for i in range(x.ndim) if i != channel)
        used, variance_used = (m.reshape(-1) for m in moments(wide, axes))
        if x.size == x.shape[channel]:
            unset = np.zeros_like(mean)
            moved = mean.astype(kept[0]), variance.astype(kept[1])
            return x, *moved, unset, unset, np.zeros(0, np.uint8)
        if x.size:
            keep = kind(momentum)
            mean = mean * keep + used * (1 - keep)
            variance = variance * keep + variance_used * (1 - keep)
    inverse = 1 / np.sqrt(variance_used + kind(epsilon))
    normal = (wide - used.reshape(shape)) * inverse.reshape(shape)
    out = scaled(normal, scale, bias, shape).astype(x.dtype)
    moved = mean.astype(kept[0]), variance.astype(kept[1])
    return out, *moved, used, inverse, np.zeros(0, np.uint8)


_TRAIN: Final = {
    "is_test": False,
    "momentum": 0.9,
    "epsilon": 1e-5,
    "data_format": "NCHW",
    "use_global_stats": False,
    "trainable_statistics": False,
}


@samples(SyncBatchNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    wide = statistics_dtype(s.dtype)
    mean, scale, bias = (s.tensor(2, dtype=wide) for _ in range(3))
    variance = s.tensor(2, dtype=wide, low=0.5, high=2)
    yield s(s.tensor(3, 2, 4), mean, variance, scale, bias, **_TRAIN)
    if s.dtype is not wide:
        half = s.tensor(2), s.tensor(2, low=0.5, high=2)
        yield s(s.tensor(3, 2, 4), *half, scale, bias, **_TRAIN)
    yield s(s.tensor(3, 2), mean, variance, scale, bias, **{**_TRAIN, "is_test": True})


@samples(BatchNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    wide = statistics_dtype(s.dtype)
    x = s.tensor(3, 2, 4, 3)
    mean, scale, bias = (s.tensor(2, dtype=wide) for _ in range(3))
    variance = s.tensor(2, dtype=wide, low=0.5, high=2)
    yield s(x, mean, variance, scale, bias, **_TRAIN)
    yield s(x, mean, variance, scale, bias, **{**_TRAIN, "is_test": True})
    yield s(x, mean, variance, None, None, **{**_TRAIN, "use_global_stats": True, "epsilon": 0.1})
    yield s(
        s.tensor(3, 4, 2), mean, variance, scale, None,
        **{**_TRAIN, "data_format": "NHWC", "is_test": True, "trainable_statistics": True},
    )  # fmt: skip
    yield s(s.tensor(4, 2), mean, variance, None, bias, **{**_TRAIN, "momentum": 0.25})
    yield s(s.tensor(0, 2, 3), mean, variance, None, None, **_TRAIN)
    yield s(s.tensor(1, 2, 1), mean, variance, scale, bias, **_TRAIN)


@bad_samples(BatchNorm, SyncBatchNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, two, three = s.tensor(2, 2, 3), s.tensor(2), s.tensor(3)
    yield "C1", s(two, two, two, two, two, **_TRAIN)
    yield "C2", s(x, two, two, two, two, **{**_TRAIN, "data_format": "CN"})
    yield "C3", s(x, three, two, two, two, **_TRAIN)
    yield "C3", s(x, two, two, three, two, **_TRAIN)
    other = s.tensor(2, dtype=dt.float32 if s.dtype is dt.float64 else dt.float64)
    yield "C4", s(x, two, other, two, two, **_TRAIN)
    yield "C4", s(x, two, two, other, two, **_TRAIN)
