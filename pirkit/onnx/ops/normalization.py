"""Normalization by batch, instance, layer and group, and dropout."""

from __future__ import annotations

import math
from typing import Any

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@rule("BatchNormalization")
def _(
    b: NodeBuilder, x: Value, scale: Value, bias: Value, mean: Value, variance: Value,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, spatial: int = 1,
) -> Any:  # fmt: skip
    if not spatial:
        raise b.unsupported("with statistics of each element has no rule")
    vectors = [b.cast(v, x.dtype) for v in (scale, bias, mean, variance)]
    if not training_mode:
        out = b.batch_norm(
            x, vectors[2], vectors[3], *vectors[:2], is_test=True, momentum=momentum,
            epsilon=epsilon, data_format="NCHW", use_global_stats=True,
            trainable_statistics=False,
        )[0]  # fmt: skip
        return (out, *[None] * (b.outputs - 1))
    axes = tuple([d for d in range(x.rank) if d != 1])
    center = b("pd_op.mean", x, axis=axes, keepdim=True)
    rest = b.subtract(x, center)
    spread = b("pd_op.mean", b.multiply(rest, rest), axis=axes, keepdim=True)
    shape = (x.shape[1], *[1] * (x.rank - 2))
    scaled = b.multiply(b.multiply(rest, b.rsqrt(spread + epsilon)), b.reshape(vectors[0], shape))
    out = b.add(scaled, b.reshape(vectors[1], shape))
    flat = (x.shape[1],)
    moved = [b.add(old * momentum, b.cast(b.reshape(new, flat), old.dtype) * (1 - momentum))
             for old, new in ((mean, center), (variance, spread))]  # fmt: skip
    return out, *moved


@rule("InstanceNormalization")
def _(b: NodeBuilder, x: Value, scale: Value, bias: Value, epsilon: float = 1e-5) -> Value:
    return b.instance_norm(x, scale, bias, epsilon=epsilon)[0]


@rule("LayerNormalization")
def _(
    b: NodeBuilder, x: Value, scale: Value, bias: Value | None = None, axis: int = -1,
    epsilon: float = 1e-5, stash_type: int = 1,
) -> Any:  # fmt: skip
    begin = b.axis(axis, x.rank)
    count = math.prod(x.shape[begin:])
    plain = scale.shape == x.shape[begin:] and begin > 0 and -1 not in x.shape[begin:]
    if not plain or b.outputs > 1 or (bias is not None and bias.shape != scale.shape):
        return _by_parts(b, x, scale, bias, tuple(range(begin, x.rank)), epsilon)
    vectors = [None if v is None else b.reshape(v, (count,)) for v in (scale, bias)]
    return b.layer_norm(x, *vectors, epsilon=epsilon, begin_norm_axis=begin)[0]


def _by_parts(
    b: NodeBuilder, x: Value, scale: Value, bias: Value | None, axes: tuple[int, ...],
    epsilon: float,
) -> tuple[Value, ...]:  # fmt: skip
    """Layer norm by simple ops, for scales of any shape, and for mean and deviation as outputs."""
    wide = b.widened(x)
    mean = b("pd_op.mean", wide, axis=axes, keepdim=True)
    rest = b.subtract(wide, mean)
    inverse = b.rsqrt(b("pd_op.mean", b.multiply(rest, rest), axis=axes, keepdim=True) + epsilon)
    out = b.multiply(b.cast(b.multiply(rest, inverse), x.dtype), scale)
    out = out if bias is None else b.add(out, bias)
    return (out, *(b.cast(v, dt.float32) for v in (mean, inverse)))[: b.outputs]


@rule("GroupNormalization")
def _(
    b: NodeBuilder, x: Value, scale: Value, bias: Value, num_groups: int,
    epsilon: float = 1e-5, stash_type: int = 1,
) -> Any:  # fmt: skip
    channels = x.shape[1] if x.shape[1] != UNKNOWN else b.static(x)[1]
    if scale.shape[0] != channels:  # before operator set 21 a number for each group
        each = channels // num_groups
        scale, bias = (b.reshape(b.expanded(b.unsqueezed(v, (1,)), (num_groups, each)),
                                 (channels,)) for v in (scale, bias))  # fmt: skip
    shape = x.shape
    given = b.reshape(x, (*shape[:2], 1, math.prod(b.static(x)[2:]))) if x.rank != 4 else x
    out = b.group_norm(given, scale, bias, epsilon=epsilon, groups=num_groups,
                       data_format="NCHW")[0]  # fmt: skip
    return b.reshape(out, shape)


@rule("LRN")
def _(
    b: NodeBuilder, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    """``x / (bias + alpha / size * sum of the squares of adjacent channels) ** beta``."""
    low = (size - 1) // 2
    around = [0, 0, low, size - 1 - low, *[0, 0] * (x.rank - 2)]
    squares = b.pad(b.multiply(x, x), paddings=tuple(around), pad_value=0.0)
    near = [b.cut(squares, 1, i, i + 1 - size or 2**31 - 1) for i in range(size)]
    total = b.total(near)
    assert total is not None
    divisor = b.elementwise_pow(total * (alpha / size) + bias, b.const(beta, x.dtype))
    return b.divide(x, divisor)


@rule("LpNormalization")
def _(b: NodeBuilder, x: Value, axis: int = -1, p: int = 2) -> Value:
    place = (b.axis(axis, x.rank),)
    if p == 1:
        size = b.sum(b.abs(x), place, keepdim=True)
    else:
        size = b.sqrt(b.sum(b.multiply(x, x), place, keepdim=True))
    zero = b.equal(size, b.scalar(0, size))
    return b.divide(x, b.where(zero, b.ones_like(size), size))


@rule("Dropout")
def _(
    b: NodeBuilder, x: Value, ratio: Any = None, training: Value | None = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """At inference the input, and a mask of ones; in training the random numbers are pirkit's."""
    trains = training is not None and bool(b.known(training, "training_mode").item())
    amount = b.known(ratio, "ratio").item() if isinstance(ratio, Value) else ratio
    if trains and amount != 0.0:
        share = 0.5 if amount is None else float(amount)
        out, kept = b.dropout(x, p=share, mode="upscale_in_train", seed=seed or 0,
                              fix_seed=seed is not None)  # fmt: skip
        return out, b.cast(kept, dt.bool_)
    mask = b.const(True, dt.bool_, b.static(x)) if b.outputs > 1 else None
    return x, mask
