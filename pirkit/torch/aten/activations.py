"""Activations and losses by element."""

from __future__ import annotations

import math
from typing import Any

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import RULES, rule


@rule("gelu")
def _(b: AtenBuilder, x: Value, approximate: str = "none") -> Value:
    return b.gelu(x, approximate=approximate == "tanh")


@rule("silu")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.silu(x)


@rule("mish")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.multiply(x, b.tanh(b.softplus(x)))


@rule("leaky_relu")
def _(b: AtenBuilder, x: Value, slope: float = 0.01) -> Value:
    """The gradient at 0 is the slope, as in torch; `pd_op.leaky_relu` has Paddle's there."""
    positive = b.greater_than(x, b.const(0.0, x.dtype))
    return b("pd_op.where", positive, x, x * slope)


@rule("elu")
def _(b: AtenBuilder, x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    """Linear at 0 and NaN: the second derivative is 0 there, as in torch."""
    zero = b.const(0.0, x.dtype)
    negative = b.less_than(x, zero)
    low = b("pd_op.where", negative, x, zero)  # keeps the exponential finite
    curved = b.expm1(low * input_scale) * (alpha * scale)
    rest = x * scale
    if alpha * input_scale != 1:  # the slope at 0 is that of the curve
        rest = b("pd_op.where", b.equal(x, zero), x * (alpha * scale * input_scale), rest)
    return b("pd_op.where", negative, curved, rest)


@rule("celu")
def _(b: AtenBuilder, x: Value, alpha: Any = 1) -> Value:
    return RULES["aten.elu.default"](b, x, alpha, 1, 1 / alpha)


@rule("softplus")
def _(b: AtenBuilder, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    return b.softplus(x, beta=beta, threshold=threshold)


@rule("hardtanh")
def _(b: AtenBuilder, x: Value, low: Any = -1, high: Any = 1) -> Value:
    """The gradient is 0 at a bound, where that of `clamp` is 1."""
    least, most = b.const(low, x.dtype), b.const(high, x.dtype)
    found = b("pd_op.where", b.less_equal(x, least), least, x)
    return b("pd_op.where", b.greater_equal(x, most), most, found)


@rule("relu6")
def _(b: AtenBuilder, x: Value) -> Value:
    return b.relu6(x)


@rule("hardsigmoid")
def _(b: AtenBuilder, x: Value) -> Value:
    zero, one = b.const(0.0, x.dtype), b.const(1.0, x.dtype)
    inner = (x + 3.0) * (1 / 6)  # neither comparison below holds for NaN, which stays
    inner = b("pd_op.where", b.greater_equal(x, b.const(3.0, x.dtype)), one, inner)
    return b("pd_op.where", b.less_equal(x, b.const(-3.0, x.dtype)), zero, inner)


@rule("hardswish")
def _(b: AtenBuilder, x: Value) -> Value:
    """The gradient passes at NaN, as torch's does."""
    zero = b.const(0.0, x.dtype)
    inner = b.multiply(x, x + 3.0) * (1 / 6)
    inner = b("pd_op.where", b.less_than(x, b.const(3.0, x.dtype)), inner, x)
    return b("pd_op.where", b.less_equal(x, b.const(-3.0, x.dtype)), zero, inner)


@rule("log_sigmoid_forward")
def _(b: AtenBuilder, x: Value) -> Any:
    return b.logsigmoid(x), b.const(0.0, x.dtype, b.shapes[1])


@rule("_softmax")
def _(b: AtenBuilder, x: Value, dim: int, half_to_float: bool = False) -> Value:
    given = b.cast(x, b.dtype)
    return b.softmax(given, axis=dim) if x.rank else b.ones_like(given)


@rule("_safe_softmax")
def _(b: AtenBuilder, x: Value, dim: int, dtype: Any = None) -> Value:
    """A row without a finite score gives zeros, and gets no gradient."""
    given = b.cast(x, b.dtype)
    if not x.rank:
        return b.ones_like(given)
    lowest = b.equal(given, b.const(-math.inf, given.dtype))
    is_empty = b("pd_op.all", lowest, axis=(dim % x.rank,), keepdim=True)
    zero = b.const(0.0, given.dtype)
    return b.where(is_empty, zero, b.softmax(b.where(is_empty, zero, given), axis=dim))


@rule("_log_softmax")
def _(b: AtenBuilder, x: Value, dim: int, half_to_float: bool = False) -> Value:
    given = b.cast(x, b.dtype)
    return b.log_softmax(given, axis=dim) if x.rank else b.zeros_like(given)


@rule("glu")
def _(b: AtenBuilder, x: Value, dim: int = -1) -> Value:
    dim %= x.rank
    half = x.shape[dim] // 2
    return b.multiply(b.cut(x, dim, 0, half), b.sigmoid(b.cut(x, dim, half, 2 * half)))


@rule("_prelu_kernel")
def _(b: AtenBuilder, x: Value, weight: Value) -> Value:
    positive = b.greater_than(x, b.const(0.0, x.dtype))
    return b("pd_op.where", positive, x, b.multiply(x, weight))


@rule("mse_loss")
def _(b: AtenBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    (x, y), _ = b.promoted(x, y)
    gap = b.subtract(x, y)
    return reduced(b, b.multiply(gap, gap), reduction)


@rule("nll_loss_forward")
def _(
    b: AtenBuilder, x: Value, label: Value, weight: Value | None, reduction: int, ignored: int
) -> Any:
    """``x`` is ``[n, classes]`` or ``[classes]``; the mean divides by the sum of the weights."""
    rows = x if x.rank == 2 else b.reshape(x, (1, *x.shape))
    labels = b.reshape(label, (rows.shape[0],))
    counts = b.not_equal(labels, b.const(ignored, labels.dtype))
    safe = b("pd_op.where", counts, labels, b.const(0, labels.dtype))
    picked = b.reshape(
        b.take_along_axis(rows, b.reshape(safe, (rows.shape[0], 1)), axis=1), (rows.shape[0],)
    )
    share = b.cast(counts, x.dtype)
    if weight is not None:
        share = b.multiply(share, b.index_select(weight, safe, axis=0))
    zero = b.const(0.0, x.dtype)
    each = b("pd_op.where", counts, b.multiply(picked * -1.0, share), zero)
    if reduction == 0:
        return b.reshape(each, b.shapes[0]), zero
    total, mass = b.sum(each, (0,)), b.sum(share, (0,))
    return (b.divide(total, mass) if reduction == 1 else total), mass


def reduced(b: AtenBuilder, x: Value, reduction: int) -> Value:
    """A loss by element as it is (0), its mean (1) or its sum (2)."""
    if reduction == 0 or not x.rank:
        return x
    axes = tuple(range(x.rank))
    return b("pd_op.mean", x, axis=axes) if reduction == 1 else b.sum(x, axes)


@rule("smooth_l1_loss", "huber_loss")
def _(b: AtenBuilder, x: Value, y: Value, reduction: int = 1, width: float = 1.0) -> Value:
    """Both are quadratic up to ``width``; the smooth one is divided by it."""
    (x, y), _ = b.promoted(x, y)
    gap = b.subtract(x, y)
    size = b.abs(gap)
    is_smooth = "smooth" in str(b.node.target)
    if width == 0:
        return reduced(b, size if is_smooth else size * 0.0, reduction)
    curved, straight = b.multiply(gap, gap) * 0.5, (size - 0.5 * width) * width
    found = b("pd_op.where", b.less_than(size, b.const(width, x.dtype)), curved, straight)
    return reduced(b, found * (1 / width) if is_smooth else found, reduction)


@rule("soft_margin_loss")
def _(b: AtenBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    """By `softplus`, whose derivatives are finite; in torch's form squares of `exp` overflow."""
    (x, y), _ = b.promoted(x, y)
    loss = b.softplus(b.multiply(x, y) * -1.0, beta=1.0, threshold=40.0)
    return reduced(b, loss, reduction)


@rule("binary_cross_entropy")
def _(b: AtenBuilder, x: Value, y: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    """Logarithms are at least -100, as in torch, but those in the target's gradient are not."""
    zero = b.zeros_like(y)
    seed = b("pd_op.assign", zero)
    slope = b.subtract(b.log1p(x * -1.0), b.log(x))
    by_target = b.custom(zero, (y,), seed, (b.multiply(seed, slope),))
    loss = b.bce_loss(x, y) + by_target
    return reduced(b, loss if weight is None else b.multiply(loss, weight), reduction)
