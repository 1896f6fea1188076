"""Optimizer steps, and the scaling of losses in mixed precision, as arithmetic.

A rule gives the next values of what its op writes; the pass `decompose` writes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.reduction.vector_norm import euclidean
from pirkit.runtime import dtype as dt

Factor = Value | float
Results = tuple[Value | None, ...]


def number(b: Builder, x: Value) -> Value:
    """The one element of a tensor."""
    return b.reshape(b.wide(x), ())


def _factor(b: Builder, given: Any) -> Factor:
    return number(b, given) if isinstance(given, Value) else float(given)


def stepped(
    b: Builder, param: Value, master: Value | None, move: Callable[[Value], Value]
) -> tuple[Value, Value | None]:
    """The next parameter and master copy; the arithmetic is done on the wider one."""
    if master is None:
        return b.cast(move(b.wide(param)), param.dtype), None
    wide = b.cast(move(master), master.dtype)
    return b.cast(wide, param.dtype), wide


def averaged(b: Builder, mean: Value, value: Value, keep: Factor) -> Value:
    """The next value of a moving mean."""
    return b.wide(mean) * keep + value * (1 - keep)


@decompose("pd_op.sgd_")
def _(c: OpCall) -> Results:
    b, rate = c.b, number(c.b, c.learning_rate)
    return stepped(b, c.param, c.master_param, lambda p: p - rate * b.wide(c.grad))


@decompose("pd_op.momentum_")
def _(c: OpCall) -> Results:
    tensors = c.param, c.grad, c.velocity, c.learning_rate, c.master_param
    coefficient = c.regularization_coeff if c.regularization_method == "l2_decay" else 0.0
    return _momentum(c.b, *tensors, mu=c.mu, nesterov=c.use_nesterov, decay=coefficient)


@decompose("pd_op.merged_momentum_")
def _(c: OpCall) -> tuple[list[Value] | None, ...]:
    count = len(c.param)
    methods = c.regularization_method or [""] * count
    coefficients = c.regularization_coeff or [0.0] * count
    decays = [k if m == "l2_decay" else 0.0 for m, k in zip(methods, coefficients, strict=True)]
    settings = [{"mu": c.mu, "nesterov": c.use_nesterov, "decay": d} for d in decays]
    return _each(partial(_momentum, c.b), c.tensors(), settings)


def _momentum(
    b: Builder,
    param: Value,
    grad: Value,
    velocity: Value,
    learning_rate: Value,
    master: Value | None,
    *,
    mu: float,
    nesterov: bool,
    decay: float,
) -> Results:
    rate, gradient = number(b, learning_rate), b.wide(grad)
    if decay:
        gradient = gradient + (b.wide(param) if master is None else master) * decay
    speed = b.wide(velocity) * mu + gradient
    along = gradient + speed * mu if nesterov else speed
    param, master = stepped(b, param, master, lambda p: p - rate * along)
    return param, b.cast(speed, velocity.dtype), master


@decompose("pd_op.rmsprop_")
def _(c: OpCall) -> Results:
    b, gradient, mean = c.b, c.b.wide(c.grad), c.mean_grad
    variance = averaged(b, c.mean_square, gradient * gradient, c.decay)
    below = variance
    if c.centered:
        center = averaged(b, mean, gradient, c.decay)
        below, mean = variance - center * center, b.cast(center, mean.dtype)
    shift = number(b, c.learning_rate) * gradient / b.sqrt(below + c.epsilon)
    if c.momentum:
        shift = b.wide(c.moment) * c.momentum + shift
    param, master = stepped(b, c.param, c.master_param, lambda p: p - shift)
    new_moments = b.cast(shift, c.moment.dtype), b.cast(variance, c.mean_square.dtype)
    return param, *new_moments, mean, master


@decompose("pd_op.adagrad_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    total = b.wide(c.moment) + gradient * gradient
    step = number(b, c.learning_rate) * gradient / (b.sqrt(total) + c.epsilon)
    param, master = stepped(b, c.param, c.master_param, lambda p: p - step)
    return param, b.cast(total, c.moment.dtype), master


# --- with two moments ----------------------------------------------------------------------------


@decompose("pd_op.adam_")
def _(c: OpCall) -> Results:
    return _adam(c.b, *c.tensors(), **_settings(c), preserves_powers=c.use_global_beta_pow)


@decompose("pd_op.adamw_")
def _(c: OpCall) -> Results:
    decay = c.lr_ratio * c.coeff if c.with_decay else 0.0
    settings = {**_settings(c), "preserves_powers": c.use_global_beta_pow, "decay": decay}
    return _adam(c.b, *c.tensors(), **settings)


@decompose("pd_op.merged_adam_")
def _(c: OpCall) -> tuple[list[Value] | None, ...]:
    settings = {**_settings(c), "preserves_powers": c.use_global_beta_pow}
    return _each(partial(_adam, c.b), (*c.tensors(), None), [settings] * len(c.param))


def _settings(c: OpCall) -> dict[str, Any]:
    names = ("beta1", "beta2", "epsilon")
    return {n: _factor(c.b, getattr(c, n)) for n in names} | {"greatest": c.amsgrad}


def _adam(
    b: Builder,
    param: Value,
    grad: Value,
    learning_rate: Value,
    moment1: Value,
    moment2: Value,
    moment2_max: Value | None,
    beta1_pow: Value,
    beta2_pow: Value,
    master: Value | None,
    skip: Value | None,
    *,
    beta1: Factor,
    beta2: Factor,
    epsilon: Factor,
    greatest: bool,
    preserves_powers: bool,
    decay: float = 0.0,
) -> Results:
    old = param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master
    gradient, rate = b.wide(grad), number(b, learning_rate)
    mean = averaged(b, moment1, gradient, beta1)
    square = top = averaged(b, moment2, gradient * gradient, beta2)
    if greatest and moment2_max is not None:
        top = b.maximum(b.wide(moment2_max), square)
        moment2_max = b.cast(top, moment2_max.dtype)
    # Paddle's form: the corrections of both means are in the rate, and epsilon is scaled likewise.
    root = b.sqrt(1 - number(b, beta2_pow))
    size = rate * root / (1 - number(b, beta1_pow))
    step = size * (mean / (b.sqrt(top) + root * epsilon))

    def move(p: Value) -> Value:
        return (p * (1 - rate * decay) if decay else p) - step

    next_param, next_master = stepped(b, param, master, move)
    moments = b.cast(mean, moment1.dtype), b.cast(square, moment2.dtype)
    if not preserves_powers:
        beta1_pow, beta2_pow = _raised(b, beta1_pow, beta1), _raised(b, beta2_pow, beta2)
    new = next_param, *moments, moment2_max, beta1_pow, beta2_pow, next_master
    return _unless(b, skip, old, new)


def _raised(b: Builder, power: Value, factor: Factor) -> Value:
    return b.cast(b.wide(power) * factor, power.dtype)


def _unless(b: Builder, skip: Value | None, old: Results, new: Results) -> Results:
    """The new values, or the old ones where the step is skipped."""
    if skip is None:
        return new
    condition = b.reshape(b.cast(skip, dt.bool_), ())
    return tuple([n and o and b.where(condition, o, n) for o, n in zip(old, new, strict=True)])


@decompose("pd_op.lamb_")
def _(c: OpCall) -> Results:
    b, gradient = c.b, c.b.wide(c.grad)
    mean = averaged(b, c.moment1, gradient, c.beta1)
    square = averaged(b, c.moment2, gradient * gradient, c.beta2)
    direction = mean / (1 - number(b, c.beta1_pow))
    direction = direction / (b.sqrt(square / (1 - number(b, c.beta2_pow))) + c.epsilon)
    rate = number(b, c.learning_rate)

    def move(p: Value) -> Value:
        along = direction + p * c.weight_decay if c.weight_decay else direction
        adapts = c.always_adapt or c.weight_decay > 0
        return p - (rate * _trust(b, p, along) if adapts else rate) * along

    old = c.param, c.moment1, c.moment2, c.beta1_pow, c.beta2_pow, c.master_param
    param, master = stepped(b, c.param, c.master_param, move)
    moments = b.cast(mean, c.moment1.dtype), b.cast(square, c.moment2.dtype)
    powers = _raised(b, c.beta1_pow, c.beta1), _raised(b, c.beta2_pow, c.beta2)
    return _unless(b, c.skip_update, old, (param, *moments, *powers, master))


def _trust(b: Builder, param: Value, direction: Value) -> Value:
    """How much longer the parameter is than the direction; 1 if one of them is 0."""
    long, short = (euclidean(b, x, tuple(range(x.rank))) for x in (param, direction))
    is_known = b.logical_and(long > 0, short > 0)  # not of a parameter that holds a NaN
    return b.where(is_known, long / b.where(is_known, short, 1.0), 1.0)


def _each(
    step: Callable[..., Results], lists: Sequence[Any], settings: Sequence[dict[str, Any]]
) -> tuple[list[Value] | None, ...]:
    """Single steps by result; a list of one learning rate serves all, an absent list none."""
    count = len(settings)
    found = [
        step(*[None if x is None else x[i if len(x) == count else 0] for x in lists], **settings[i])
        for i in range(count)
    ]
    by_result = zip(*found, strict=True)
    return tuple([None if r[0] is None else [v for v in r if v is not None] for r in by_result])


# --- mixed precision -----------------------------------------------------------------------------


@decompose("pd_op.check_finite_and_unscale_")
def _(c: OpCall) -> tuple[list[Value], Value]:
    b = c.b
    factor = 1 / number(b, c.scale)
    found = b.const(False, dt.bool_)
    scaled: list[Value] = []
    for x in c.x:
        is_finite = b.all(b.isfinite(x), axis=(), keepdim=False)
        found = b.logical_or(found, b.logical_not(is_finite))
        scaled.append(b.cast(b.wide(x) * b.where(found, 0.0, factor), x.dtype))
    return scaled, b.reshape(found, (1,))


@decompose("pd_op.update_loss_scaling_")
def _(c: OpCall) -> tuple[list[Value] | Value, ...]:
    b, scale, good, bad = c.b, c.prev_loss_scaling, c.in_good_steps, c.in_bad_steps
    failed = b.reshape(b.cast(c.found_infinite, dt.bool_), ())
    gradients = [b.where(failed, 0.0, x) for x in c.x]
    none, one = b.zeros_like(good), b.ones_like(good)
    goods = b.where(failed, none, good + one)
    bads = b.where(failed, bad + one, none)
    shrinks = b.logical_and(failed, b.equal(bads, b.like(c.decr_every_n_nan_or_inf, bads)))
    grows = b.equal(goods, b.like(c.incr_every_n_steps, goods))
    grows = b.logical_and(b.logical_not(failed), grows)
    smaller, larger = b.maximum(scale * c.decr_ratio, b.ones_like(scale)), scale * c.incr_ratio
    new = b.where(
        b.logical_and(grows, b.isfinite(larger)), larger, b.where(shrinks, smaller, scale)
    )
    counts = b.where(grows, none, goods), b.where(shrinks, none, bads)
    stop = c.stop_update
    if isinstance(stop, Value):
        new_moments = _unless(b, stop, (scale, good, bad), (new, *counts))
        return gradients, *[v for v in new_moments if v is not None]
    return (gradients, scale, good, bad) if stop else (gradients, new, *counts)
