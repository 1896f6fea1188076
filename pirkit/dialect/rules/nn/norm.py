"""Normalisation in terms of centred moments.

There is no vjp rule here on purpose: the parts are differentiated instead, so that the cotangents
of means and variances, which occur in nested derivatives, are not lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.reduction.reduction import count
from pirkit.dialect.windows import CHANNELS_LAST
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def _mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    n = count(b, x, axes)
    some = b.maximum(n, b.value(1.0, n)) if isinstance(n, Value) else max(n, 1)
    return b.sum(x, axes, keepdim=True) / some


def _moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """``x`` without its mean, the mean, and the biased variance."""
    mean = _mean(b, x, axes)
    centred = x - mean
    return centred, mean, _mean(b, centred * centred, axes)


def _scaled(c: OpCall, x: Value, shape: Sequence[int] | Value) -> Value:
    """``x * scale + bias`` in the element type of the operand ``x``, weights seen in ``shape``."""
    b = c.b
    if c.scale is not None:
        x = x * b.reshape(b.wide(c.scale), shape)
    if "bias" in {s.name for s in c.definition.operands} and c.bias is not None:
        x = x + b.reshape(b.wide(c.bias), shape)
    return b.cast(x, c.x.dtype)


def _sizes(b: Builder, x: Value, axes: Sequence[int]) -> tuple[int, ...] | Value:
    """The sizes along some axes, as a shape; computed when the program runs if need be."""
    sizes = tuple([x.shape[a] for a in axes])
    return sizes if sizes.count(UNKNOWN) < 2 else b.gather(b.shape_of(x), b.integers(axes), axis=0)


@decompose("pd_op.layer_norm")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x = c.b, c.b.wide(c.x)
    axes = tuple(range(c.begin_norm_axis, x.rank))
    centred, mean, variance = _moments(b, x, axes)
    out = _scaled(c, centred * b.rsqrt(variance + c.epsilon), _sizes(b, x, axes))
    return out, b.squeeze(mean, axis=axes), b.squeeze(variance, axis=axes)


@decompose("pd_op.rms_norm")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x = c.b, c.b.wide(c.x)
    begin = x.rank - len(c.normalized_shape)
    axes = tuple(range(begin, x.rank))
    if UNKNOWN in x.shape[begin:]:  # the run raises for other sizes
        batch = b.gather(b.shape_of(x), b.integers(range(begin)), axis=0)
        x = b.reshape(x, b.concat([batch, b.integers(c.normalized_shape)], axis=0))
    inverse = b.rsqrt(_mean(b, x * x, axes) + c.epsilon)
    return _scaled(c, x * inverse, c.normalized_shape), b.squeeze(inverse, axis=axes)


@decompose("pd_op.instance_norm")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x = c.b, c.b.wide(c.x)
    centred, mean, variance = _moments(b, x, tuple(range(2, x.rank)))
    inverse = b.rsqrt(variance + c.epsilon)
    y = _scaled(c, centred * inverse, (x.shape[1], *(1,) * (x.rank - 2)))
    rows = c.result_meta("saved_mean").shape
    return y, b.reshape(mean, rows), b.reshape(inverse, rows)


@decompose("pd_op.group_norm")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x, groups = c.b, c.b.wide(c.x), c.groups
    last = c.data_format in CHANNELS_LAST
    to_front = (0, x.rank - 1, *range(1, x.rank - 1))
    to_back = (0, *range(2, x.rank), 1)
    image = b.transpose(x, perm=to_front) if last else x
    batch, channels, *rest = image.shape
    if UNKNOWN in image.shape[1:]:
        flat = (0 if batch == UNKNOWN else batch, groups, UNKNOWN)
    else:
        per_group = channels // groups
        for n in rest:
            per_group *= n
        flat = (batch, groups, per_group)
    centred, mean, variance = _moments(b, b.reshape(image, flat), (2,))
    normal = b.reshape_like(centred * b.rsqrt(variance + c.epsilon), image)
    y = _scaled(c, normal, (channels, *(1,) * len(rest)))
    rows = (batch, groups)
    y = b.transpose(y, perm=to_back) if last else y
    return y, b.reshape(mean, rows), b.reshape(variance, rows)


@decompose("pd_op.batch_norm", "pd_op.sync_batch_norm_")
def _(c: OpCall) -> tuple[Value, ...]:
    """Without statistics, of one element per channel, `out` is `x`."""
    b, x = c.b, c.b.wide(c.x)
    channel = x.rank - 1 if c.data_format in CHANNELS_LAST else 1
    shape = tuple([UNKNOWN if i == channel else 1 for i in range(x.rank)])
    mean, variance = b.wide(c.mean), b.wide(c.variance)
    nothing = b.const(0, dt.uint8, (0,))
    if c.use_global_stats or (c.is_test and not c.trainable_statistics):
        inverse = b.rsqrt(variance + c.epsilon)
        normal = (x - b.reshape(mean, shape)) * b.reshape(inverse, shape)
        return _scaled(c, normal, shape), c.mean, c.variance, mean, inverse, nothing
    axes = tuple([i for i in range(x.rank) if i != channel])
    sizes = [x.shape[a] for a in axes]
    if all(n == 1 for n in sizes):
        unset = b.zeros_like(mean)
        return c.x, c.mean, c.variance, unset, unset, nothing
    centred, used, variance_used = _moments(b, x, axes)
    inverse = b.rsqrt(variance_used + c.epsilon)
    out = _scaled(c, centred * inverse, shape)
    used, variance_used, inverse = (b.squeeze(v, axis=axes) for v in (used, variance_used, inverse))
    keep = c.momentum if 0 not in x.shape else 1.0
    new_mean, new_variance = (
        v * keep + n * (1 - keep) for v, n in ((mean, used), (variance, variance_used))
    )
    if UNKNOWN in sizes:  # there may be no element or one per channel
        elements = b.value(count(b, x, axes), x)
        some = elements > 1.0
        new_mean = b.where(some, new_mean, mean)
        new_variance = b.where(some, new_variance, variance)
        if all(n in (1, UNKNOWN) for n in sizes):
            single = b.equal(elements, b.value(1.0, x))
            out = b.where(single, b.cast(x, out.dtype), out)
            used, inverse = (b.where(single, b.zeros_like(v), v) for v in (used, inverse))
    moved = b.cast(new_mean, c.mean.dtype), b.cast(new_variance, c.variance.dtype)
    return out, *moved, used, inverse, nothing
