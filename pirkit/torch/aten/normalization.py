"""Normalization by layer, group and batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


@rule("native_layer_norm")
def _(
    b: AtenBuilder, x: Value, shape: Sequence[int], scale: Value | None, bias: Value | None,
    eps: float,
) -> Any:  # fmt: skip
    count = math.prod(shape)
    begin = x.rank - len(shape)
    if not begin:  # all of `x` is one row
        x, begin = b.reshape(x, (1, *x.shape)), 1
    vectors = [None if v is None else b.reshape(v, (count,)) for v in (scale, bias)]
    out, mean, variance = b.layer_norm(x, *vectors, epsilon=eps, begin_norm_axis=begin)
    rest: list[Value] = []
    for number, made in ((1, mean), (2, variance)):
        if b.is_used(number):  # torch gives them no gradient
            made = b.stopped(made if number == 1 else b.rsqrt(made + eps))
        rest.append(b.reshape(made, b.shapes[number]))
    return b.reshape(out, b.shapes[0]), *rest


@rule("native_group_norm")
def _(
    b: AtenBuilder, x: Value, scale: Value | None, bias: Value | None, n: int, c: int, hw: int,
    groups: int, eps: float,
) -> Any:  # fmt: skip
    out, mean, variance = b.group_norm(
        x, scale, bias, epsilon=eps, groups=groups, data_format="NCHW"
    )
    rstd = b.rsqrt(variance + eps) if b.is_used(2) else variance
    return out, b.reshape(mean, b.shapes[1]), b.reshape(rstd, b.shapes[2])


def normalized(
    b: AtenBuilder, x: Value, scale: Value | None, bias: Value | None, mean: Value,
    variance: Value, eps: float, *, training: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """The results of `pd_op.batch_norm` along dimension 1, of half precision computed in float32.

    Momentum is 0, so that in training the new statistics are those of the batch.
    """
    narrow = x.dtype in (dt.float16, dt.bfloat16)
    wide = b.wide(x) if narrow else x
    vectors = [None if v is None else b.cast(v, wide.dtype) for v in (scale, bias)]
    found = b.batch_norm(
        wide, b.cast(mean, wide.dtype), b.cast(variance, wide.dtype), *vectors,
        is_test=not training, momentum=0.0, epsilon=eps, data_format="NCHW",
        use_global_stats=not training, trainable_statistics=False,
    )  # fmt: skip
    return (b.cast(found[0], x.dtype), *found[1:])


def _trained(
    b: AtenBuilder, x: Value, scale: Any, bias: Any, mean: Any, variance: Any, momentum: float,
    eps: float,
) -> list[Any]:  # fmt: skip
    """Out, mean and inverse deviation of the batch, and the running statistics as torch moves them:
    by ``momentum`` towards the batch, with the unbiased variance.
    """
    wide = dt.float32 if x.dtype in (dt.float16, dt.bfloat16) else x.dtype
    none = b.const(0.0, wide, (x.shape[1],))
    out, batch_mean, batch_variance, _, inverse, _ = normalized(
        b, x, scale, bias, none, none, eps, training=True
    )
    count = math.prod(x.shape) // max(x.shape[1], 1)
    unbiased = count / max(count - 1, 1)
    found: list[Any] = [out]
    for number, moment in ((1, batch_mean), (2, inverse)):  # torch gives them no gradient
        found.append(b.stopped(moment) if b.is_used(number) else moment)
    for running, batch, factor in ((mean, batch_mean, 1.0), (variance, batch_variance, unbiased)):
        if running is not None:
            moved = b.add(running * (1 - momentum), b.cast(batch, running.dtype) *
                          (momentum * factor))  # fmt: skip
            found.append(b.stopped(moved))
    return found


@rule("_native_batch_norm_legit_functional")
def _(
    b: AtenBuilder, x: Value, scale: Any, bias: Any, mean: Value, variance: Value, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if training:
        return _trained(b, x, scale, bias, mean, variance, momentum, eps)
    out = normalized(b, x, scale, bias, mean, variance, eps, training=False)[0]
    empty = b.const(0.0, b.types[1], b.shapes[1])
    return out, empty, empty, mean, variance


@rule("_native_batch_norm_legit.no_stats")
def _(
    b: AtenBuilder, x: Value, scale: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _trained(b, x, scale, bias, None, None, momentum, eps)[:3]


@rule("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm")
def _(
    b: AtenBuilder, x: Value, scale: Any, bias: Any, mean: Any, variance: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if training:
        return _trained(b, x, scale, bias, None, None, momentum, eps)[:3]
    out = normalized(b, x, scale, bias, mean, variance, eps, training=False)[0]
    empty = b.const(0.0, b.types[1], b.shapes[1])
    return out, empty, empty


@rule("_native_batch_norm_legit_no_training")
def _(
    b: AtenBuilder, x: Value, scale: Any, bias: Any, mean: Value, variance: Value, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    out = normalized(b, x, scale, bias, mean, variance, eps, training=False)[0]
    empty = b.const(0.0, b.types[1], b.shapes[1])
    return out, empty, empty


@rule("_fused_rms_norm")
def _(
    b: AtenBuilder, x: Value, shape: Sequence[int], scale: Value | None, eps: float | None
) -> Any:
    axes = tuple(range(x.rank - len(shape), x.rank))
    wide = b.wide(x)
    # Without `eps` torch takes the machine epsilon of the type in which it computes.
    small = {dt.float64: 2.220446049250313e-16}.get(x.dtype, 1.1920928955078125e-07)
    mean = b("pd_op.mean", b.multiply(wide, wide), axis=axes, keepdim=True)
    inverse = b.rsqrt(mean + (small if eps is None else eps))
    out = b.multiply(wide, inverse)
    out = out if scale is None else b.multiply(out, b.cast(scale, wide.dtype))
    return b.cast(out, x.dtype), inverse
