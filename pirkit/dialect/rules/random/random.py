"""Random distributions and activations in terms of uniform numbers; the draws are the same."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import reduce

from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.movement import END, arange, part, refused
from pirkit.dialect.rules.movement.size_ops import shape_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.bessel import QUANTILE_FAR_TAIL, QUANTILE_TAIL
from pirkit.runtime.draws import truncation
from pirkit.runtime.meta import UNKNOWN

TINY = sys.float_info.min


def uniform(b: Builder, shape: Sequence[int] | Value, seed: int = 0) -> Value:
    """Numbers spread evenly between 0 and 1."""
    return b.uniform(shape=shape, min=0.0, max=1.0, dtype=dt.float64, seed=seed)


@decompose("pd_op.truncated_gaussian_random")
def _(c: OpCall) -> Value:
    """The inverse of the distribution function, at a uniform number between its bounds."""
    b, least, most = c.b, c.a, c.op.attribute("b")
    low, high, factor = truncation(c.mean, c.std, least, most)
    drawn = b.uniform(
        shape=c.shape, min=low, max=high, dtype=dt.float64, seed=c.seed, place=c.place
    )
    inside = b.clip(drawn, min=TINY, max=1 - 2.0**-53)
    number = _small_quantile(b, inside) if high < 1e-6 else b.erfinv(inside * 2 - 1) * math.sqrt(2)
    return b.cast(b.clip(number * factor + c.mean, min=least, max=most), c.dtype)


def _small_quantile(b: Builder, probability: Value) -> Value:
    """The normal quantile of probabilities that `2 * p - 1` would round."""
    depth = b.sqrt(-b.log(probability))
    ratios: list[Value] = []
    for polynomials, start in ((QUANTILE_TAIL, 1.6), (QUANTILE_FAR_TAIL, 5.0)):
        above, below = (_polynomial(p, depth - start) for p in polynomials)
        ratios.append(above / below)
    return -b.where(depth <= 5, *ratios)


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    return reduce(lambda total, c: total * x + c, coefficients[1:], x * 0 + coefficients[0])


@decompose("pd_op.exponential_")
def _(c: OpCall) -> Value:
    """The inverse of the distribution function, at a uniform number."""
    b, x = c.b, c.x
    return b.cast(_times(b, shape_of(b, x)) * (1 / c.lam), x.dtype)


def _times(b: Builder, shape: Sequence[int] | Value) -> Value:
    """Numbers of the exponential law with rate 1."""
    return -b.log1p(-uniform(b, shape))


@decompose("pd_op.dirichlet")
def _(c: OpCall) -> Value:
    drawn: Value = c.b.standard_gamma(c.alpha)
    return drawn / c.b.sum(drawn, (drawn.rank - 1,), keepdim=True)


@decompose("pd_op.multinomial")
def _(c: OpCall) -> Value:
    """A row with too few weights, or one that is none, is refused."""
    b, count = c.b, c.num_samples
    if isinstance(count, Value):
        return NotImplemented
    weights = b.cast(c.x, dt.float64)
    last = weights.rank - 1
    weighted = b.sum(b.cast(weights > 0, dt.int64), (last,), keepdim=True)
    is_weight = b.logical_and(weights >= 0, weights < math.inf)
    are_weights = b.all(is_weight, axis=(last,), keepdim=True)
    few = weighted < (1 if c.replacement else count)
    none = refused(b, b.logical_or(few, b.logical_not(are_weights)))
    if not c.replacement:
        times = _times(b, shape_of(b, weights)) / weights
        order: Value = b.argsort(times, axis=last, stable=True)[1]
        return b.take_along_axis(order, b.integers(range(count)) + none, axis=last)
    ends: Value = b.cumsum(weights, axis=last)
    total = part(b, ends, (last,), (-1,), (END,))
    shape: Sequence[int] | Value = (*weights.shape[:-1], count)
    if UNKNOWN in shape:
        shape = b.concat(
            [part(b, b.shape_of(weights), (0,), (0,), (last,)), b.integers((count,))], axis=0
        )
    drawn = uniform(b, shape) * total
    is_behind = b.less_equal(b.unsqueeze(ends, axis=(-2,)), b.unsqueeze(drawn, axis=(-1,)))
    return b.sum(b.cast(is_behind, dt.int64), (weights.rank,)) + none


@decompose("pd_op.gumbel_softmax")
def _(c: OpCall) -> Value:
    """A hard choice has the gradient of the softmax: it is added less itself."""
    b, x = c.b, c.x
    if not x.rank:
        return b.ones_like(x)
    axis = c.axis % x.rank
    drawn = b.maximum(uniform(b, shape_of(b, x)), b.const(TINY, dt.float64))
    noise = -b.log(-b.log(drawn))
    scores = (b.cast(x, dt.float64) + noise) * (1 / c.temperature)
    soft: Value = b.cast(b.softmax(scores, axis=axis), x.dtype)
    if not c.hard:
        return soft
    constant: Value = b.assign(soft)
    b.emitted[-1].attributes["stop_gradient"] = encode("bool[]", (True,))
    at = b.argmax(constant, axis=axis, keepdims=True)
    places = b.reshape(arange(b, x, axis), (-1, *[1] * (x.rank - 1 - axis)))
    return b.cast(b.equal(places, at), x.dtype) + (soft - constant)


@decompose("pd_op.gumbel_softmax_grad")
def _(c: OpCall) -> Value:
    """Of a softmax with temperature 1, as Paddle computes it: the op does not hold another."""
    b, out, g = c.b, c.out, c.out_grad
    if not out.rank:
        return b.zeros_like(out)
    weighted = g * out
    return weighted - out * b.sum(weighted, (c.axis,), keepdim=True)


@decompose("pd_op.poisson_grad")
def _(c: OpCall) -> Value:
    return c.b.zeros_like(c.out_grad)


@decompose("pd_op.rrelu")
def _(c: OpCall) -> tuple[Value, Value]:
    b, x = c.b, c.b.wide(c.x)
    slope: Value | float = (c.lower + c.upper) / 2
    if not c.is_test:
        drawn = uniform(b, shape_of(b, x)) * (c.upper - c.lower) + c.lower
        slope = b.cast(drawn, x.dtype)
    noise = b.cast(b.where(x < 0, slope, b.ones_like(x)), c.x.dtype)
    return b.cast(x * b.wide(noise), c.x.dtype), noise


@vjp("pd_op.rrelu")
def _(c: OpCall, g: Value | None, _: None = None) -> Value | None:
    """Reads the slopes that were drawn, and draws nothing itself."""
    return None if g is None else g * c.noise
