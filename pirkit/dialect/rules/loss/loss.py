"""Losses as compositions, in the forms that do not overflow."""

from __future__ import annotations

from math import exp
from typing import Any, Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, jet, vjp
from pirkit.dialect.rules.movement.movement import from_start
from pirkit.dialect.rules.movement.size_ops import as_list, sizes_of
from pirkit.dialect.rules.reduction.reduction import count
from pirkit.dialect.rules.taylor.series import (
    Series,
    integrated,
    power,
    product,
    scaled,
    squared,
    times,
)
from pirkit.runtime import dtype as dt

LOG_LIMIT: Final = 1e20
"""Paddle's bound on the logarithm of a given probability."""


def _reduced(b: Builder, loss: Value, reduction: str) -> Value:
    """All elements, their sum, or their mean."""
    if reduction == "none":
        return loss
    axes = tuple(range(loss.rank))
    total = b.sum(loss, axes)
    if reduction == "sum":
        return total
    return total / count(b, loss, axes if reduction == "mean" else axes[:1])


@decompose("pd_op.cross_entropy_with_softmax")
def _(c: OpCall) -> Any:
    """``-label . log_softmax`` for soft labels, the label's element of it for hard ones."""
    b, x, label = c.b, c.input, c.label
    axis = c.axis % x.rank
    wide = b.wide(x)
    if c.use_softmax:
        some = x.shape[axis] != 0
        shifted = wide - b("pd_op.max", wide, axis=(axis,), keepdim=True) if some else wide
        powers = b.exp(shifted)
        total = b.sum(powers, (axis,), keepdim=True)
        logs = shifted - b.log(total)
        softmax = b.cast(powers / total, x.dtype)
    else:
        most = b.value(LOG_LIMIT, wide)
        logs = b.minimum(b.maximum(b.log(wide), b.value(-LOG_LIMIT, wide)), most)
        softmax = x
    if c.soft_label:
        label = b.cast(label, logs.dtype)
        terms = b.where(b.equal(label, b.zeros_like(label)), 0.0, logs * label)
        loss = -b.sum(terms, (axis,), keepdim=True)
        return softmax, b.cast(loss, x.dtype)
    label = b.cast(label, dt.int64)
    ignored = b.equal(label, b.value(c.ignore_index, label))
    safe = b.where(ignored, b.zeros_like(label), from_start(b, label))
    picked = b.take_along_axis(logs, safe, axis=axis)
    loss = b.where(ignored, b.zeros_like(picked), -picked)
    return softmax, b.cast(loss, x.dtype)


@decompose("pd_op.sigmoid_cross_entropy_with_logits")
def _(c: OpCall) -> Value:
    """``(1 - label) x + pos_weight (max(-x, 0) + log(1 + exp(-|x|)))``, exact slope at 0."""
    b, x = c.b, c.x
    wide = b.wide(x)
    target = b.cast(c.label, wide.dtype)
    sign = b.cast(wide >= 0, wide.dtype) * 2 - 1
    size = wide * sign
    softplus = b.log1p(b.exp(-size)) + (size - wide) * 0.5  # of -x: sign is a constant
    if c.pos_weight is not None:
        softplus = softplus * b.cast(c.pos_weight, wide.dtype)
        loss = (1 - target) * wide + softplus
    else:
        loss = wide - wide * target + softplus
    keep_mask = b.not_equal(c.label, b.value(float(c.ignore_index), c.label))
    loss = b.where(keep_mask, loss, b.zeros_like(loss))
    if c.normalize:
        count = b.sum(b.cast(keep_mask, wide.dtype), tuple(range(x.rank)))
        loss = loss / b.maximum(count, b.ones_like(count))
    return b.cast(loss, x.dtype)


@decompose("pd_op.bce_loss")
def _(c: OpCall) -> Value:
    """Logarithms are not less than -100, as in Paddle, and constant beyond."""
    b, p, y = c.b, c.b.wide(c.input), c.b.wide(c.label)
    floor = b.value(-100.0, p)

    def log_of(x: Value) -> Value:
        is_far = b.less_equal(b.abs(x), b.value(exp(-100.0), x))
        return b.where(is_far, floor, b.maximum(b.log(b.where(is_far, 1.0, x)), floor))

    return b.cast(-(y * log_of(p) + (1 - y) * log_of(1 - p)), c.input.dtype)


@vjp("pd_op.bce_loss")
def _(c: OpCall, g: Value) -> Value:
    """Paddle's, of `bce_loss_grad`: finite at probabilities 0 and 1, which a sigmoid reaches."""
    b, p, y = c.b, c.b.wide(c.input), c.b.wide(c.label)
    slope = (p - y) / b.maximum((1 - p) * p, b.value(1e-12, p))
    return g * b.cast(slope, g.dtype)


@jet("pd_op.bce_loss")
def _(c: OpCall, x: Series, _label: Series) -> Series:
    """From the slope of the reverse rule, so that both modes agree at 0 and 1."""
    b, label = c.b, c.b.wide(c.label)
    full: Series = [v and b.wide(v) for v in (c.input, *x)]
    p = b.wide(c.input)
    is_flat = b.less_equal((1 - p) * p, b.value(1e-12, p))
    minus = [scaled(v, -1) for v in squared(b, full)]
    curved = [b.total(pair) for pair in zip(full, minus, strict=True)]
    limits = [1e-12, *[0.0] * len(x)]
    variance = [v and b.where(is_flat, n, v) for n, v in zip(limits, curved, strict=True)]
    slope = product(b, [p - label, *full[1:]], power(b, variance, -1), times)
    found = [integrated(b, slope, full, k) for k in range(1, len(full))]
    return [v and b.cast(v, c.out.dtype) for v in found]


@decompose("pd_op.huber_loss")
def _(c: OpCall) -> tuple[Value, Value]:
    """Half the square within ``delta``, linear outside."""
    b, delta = c.b, c.delta
    residual = b.wide(c.label) - b.wide(c.input)
    size = b.abs(residual)
    inner, outer = residual * residual * 0.5, (size - delta / 2) * delta
    dtype = c.input.dtype
    return b.cast(b.where(size <= delta, inner, outer), dtype), b.cast(residual, dtype)


@decompose("pd_op.kldiv_loss")
def _(c: OpCall) -> Value:
    """``label (log(label) - x)``, zero where the label is not above zero; NaN passes."""
    b, x, label = c.b, c.b.wide(c.x), c.b.wide(c.label)
    if c.log_target:
        loss = b.exp(label) * (label - x)
    else:
        is_none = label <= 0
        safe = b.where(is_none, b.ones_like(label), label)
        loss = b.where(is_none, b.zeros_like(label), label * (b.log(safe) - x))
    return b.cast(_reduced(b, loss, c.reduction), c.x.dtype)


@decompose("pd_op.log_loss")
def _(c: OpCall) -> Value:
    b, p, y, small = c.b, c.b.wide(c.input), c.b.wide(c.label), c.epsilon
    loss = -(y * b.log(p + small)) - (1 - y) * b.log(1 - p + small)
    return b.cast(loss, c.input.dtype)


@decompose("pd_op.nll_loss")
def _(c: OpCall) -> tuple[Value, Value]:
    b, x = c.b, c.b.wide(c.input)
    label = b.cast(c.label, dt.int64)
    ignored = b.equal(label, b.value(c.ignore_index, label))
    safe = b.where(ignored, b.zeros_like(label), from_start(b, label))
    picked = b.squeeze(b.take_along_axis(x, b.unsqueeze(safe, axis=(1,)), axis=1), axis=(1,))
    share = b.ones_like(picked)
    if c.weight is not None:
        by_class = b.gather(b.cast(c.weight, x.dtype), b.reshape(safe, (-1,)), axis=0)
        share = b.reshape_like(by_class, picked)
    share = b.where(ignored, b.zeros_like(share), share)
    losses = b.where(ignored, b.zeros_like(picked), -(picked * share))
    axes, dtype = tuple(range(losses.rank)), c.input.dtype
    if c.reduction == "none":
        return b.cast(losses, dtype), b.const(0.0, dtype)
    out, total = b.sum(losses, axes), b.sum(share, axes)
    if c.reduction == "mean":
        out = out / b.where(b.equal(total, b.zeros_like(total)), 1.0, total)
    return b.cast(out, dtype), b.cast(total, dtype)


@decompose("pd_op.label_smooth")
def _(c: OpCall) -> Value:
    b, label = c.b, c.b.wide(c.label)
    if c.prior_dist is None:
        classes = count(b, label, (label.rank - 1,))
        prior = (
            b.value(1.0, label) / classes if not isinstance(classes, int) else 1.0 / max(classes, 1)
        )
    else:
        prior = b.reshape(b.wide(c.prior_dist), (-1,))
    return b.cast(label * (1 - c.epsilon) + prior * c.epsilon, c.label.dtype)


@decompose("pd_op.accuracy")
def _(c: OpCall) -> tuple[Value, Value, Value]:
    b = c.b
    indices, label = b.cast(c.indices, dt.int64), b.cast(c.label, dt.int64)
    is_hit = b.any(b.equal(indices, label), axis=(1,), keepdim=False)
    hits = b.sum(b.cast(is_hit, dt.int32), (0,))
    rows = b.cast(b.reshape(as_list(b, sizes_of(b, indices)[0]), ()), dt.int32)
    most = b.maximum(rows, b.ones_like(rows))
    return b.cast(hits, dt.float32) / b.cast(most, dt.float32), b.cast(hits, dt.int32), rows
