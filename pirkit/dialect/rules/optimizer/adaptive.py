"""Optimizer steps with rates of their own for each element, as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.optimizer.adaptive import DECAY, LEAST_FREEDOM
from pirkit.dialect.rules.movement.movement import part
from pirkit.dialect.rules.optimizer.optimizer import Results, averaged, number, stepped


def _as_stored(b: Builder, values: Sequence[Value], like: Sequence[Value]) -> list[Value]:
    return [b.cast(v, x.dtype) for v, x in zip(values, like, strict=True)]


@decompose("pd_op.adamax_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    mean = averaged(b, c.moment, gradient, c.beta1)
    size = b.maximum(b.abs(gradient), b.wide(c.inf_norm) * c.beta2 + c.epsilon)
    step = number(b, c.learning_rate) / (1 - number(b, c.beta1_pow)) * (mean / size)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - step)
    return param, *_as_stored(b, (mean, size), (c.moment, c.inf_norm)), master


@decompose("pd_op.nadam_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    decay, power = b.wide(c.momentum_decay_pow) * DECAY, b.wide(c.beta2_pow) * c.beta2
    faded = decay**c.momentum_decay
    now = (1 - faded * 0.5) * c.beta1
    ahead = (1 - faded * (0.5 * DECAY**c.momentum_decay)) * c.beta1
    product = b.wide(c.mu_product) * now
    mean = averaged(b, c.moment1, gradient, c.beta1)
    square = averaged(b, c.moment2, gradient * gradient, c.beta2)
    along = ahead * mean / (1 - product * ahead) + (1 - now) * gradient / (1 - product)
    size = b.sqrt(square / (1 - power)) + c.epsilon
    step = number(b, c.learning_rate) * along / size
    param, master = stepped(b, c.param, c.master_param, lambda p: p - step)
    like = c.momentum_decay_pow, c.beta2_pow, c.mu_product, c.moment1, c.moment2
    return param, *_as_stored(b, (decay, power, product, mean, square), like), master


@decompose("pd_op.radam_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    power1, power2 = b.wide(c.beta1_pow) * c.beta1, b.wide(c.beta2_pow) * c.beta2
    spent = (b.wide(c.rho) * (c.beta2 - power2) + power2) / (1 - power2)
    mean = averaged(b, c.moment1, gradient, c.beta1)
    square = averaged(b, c.moment2, gradient * gradient, c.beta2)
    most = 2 / (1 - c.beta2) - 1
    freedom = most - spent * 2
    adapts = b.greater_than(freedom, b.const(LEAST_FREEDOM, freedom.dtype))
    safe = b.where(adapts, freedom, most)
    share = (safe - 4) * (safe - 2) / safe * (most / ((most - 4) * (most - 2)))
    size = (b.sqrt(square) + c.epsilon) / b.sqrt(1 - power2)
    plain = mean / (1 - power1)
    step = number(b, c.learning_rate) * b.where(adapts, plain * b.sqrt(share) / size, plain)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - step)
    like = c.beta1_pow, c.beta2_pow, c.rho, c.moment1, c.moment2
    return param, *_as_stored(b, (power1, power2, spent, mean, square), like), master


@decompose("pd_op.adadelta_")
def _(c: OpCall) -> Results:
    b, gradient, old = c.b, c.b.wide(c.grad), c.avg_squared_update
    square = averaged(b, c.avg_squared_grad, gradient * gradient, c.rho)
    step = b.sqrt((b.wide(old) + c.epsilon) / (square + c.epsilon)) * gradient
    update, rate = averaged(b, old, step * step, c.rho), number(b, c.learning_rate)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - rate * step)
    return param, *_as_stored(b, (square, update), (c.avg_squared_grad, old)), master


@decompose("pd_op.rprop_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    least, most, shrink, grow = (
        part(b, b.reshape(b.wide(x), (2,)), (0,), (i,), (i + 1,), (0,))
        for x in (c.learning_rate_range, c.etas)
        for i in (0, 1)
    )
    agreement = gradient * b.wide(c.prev)
    differs = agreement < 0
    factor = b.where(agreement > 0, grow, b.where(differs, shrink, b.ones_like(agreement)))
    gradient = b.where(differs, 0.0, gradient)
    rate = b.minimum(b.maximum(b.wide(c.learning_rate) * factor, least), most)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - b.sign(gradient) * rate)
    return param, *_as_stored(b, (gradient, rate), (c.prev, c.learning_rate)), master


@decompose("pd_op.asgd_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    total = b.wide(c.d) - b.wide(c.y) + gradient
    rate = number(b, c.learning_rate)
    rate = rate / b.cast(number(b, c.n), rate.dtype)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - rate * total)
    return param, *_as_stored(b, (total, gradient), (c.d, c.y)), master
