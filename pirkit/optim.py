"""Optimizers as pairs of pure functions, in the shape of optax::

    optimizer = pirkit.optim.adamw(1e-3)
    state = optimizer.init(params)


    @pirkit.jit(donate_argnums=(0, 1))
    def step(params, state, x, y):
        value, grads = pirkit.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return value, pirkit.optim.apply_updates(params, updates), state

States are trees of tensors: they are saved, mapped over and donated like parameters. With donation
the new parameters and moments are written where the old ones were. A learning rate is a number or a
schedule, which is a function from the number of the step (an int64 tensor, from 0) to a rate.

Parameters are trees of floating tensors, and so are their gradients; numbers of a state have the
element type of their parameter. UsageError is raised for a tree of another structure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import pi
from operator import add, mul
from typing import Any, Final, NamedTuple, cast

import numpy as np

from pirkit import ops
from pirkit.dialect.build import Value
from pirkit.frontend import tree
from pirkit.frontend.control_flow import while_loop
from pirkit.frontend.traced_value import where
from pirkit.frontend.transforms import value_and_grad
from pirkit.frontend.user_line import wrong_call
from pirkit.runtime.tensor.dense import DenseTensor

Schedule = Callable[[Any], Any]
Rate = float | Schedule

_SUFFICIENT: Final = 1e-4
_CURVATURE: Final = 0.9


class Optimizer(NamedTuple):
    """Two pure functions: ``init(params)`` gives a state, ``update(grads, state, params)`` what is
    added to the parameters, and the next state."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """The parameters with the updates added."""
    return tree.map(add, params, updates)


# --- first order ---------------------------------------------------------------------------------


class MomentumState(NamedTuple):
    """``count`` steps were taken; ``trace`` is the decayed sum of gradients, None without it."""

    count: Any
    trace: Any


def sgd(learning_rate: Rate, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Gradient descent, with Polyak's or Nesterov's momentum (Sutskever et al., ICML 2013).

    As PyTorch's and optax's: the trace is ``momentum * trace + grad``.
    """

    def init(params: Any) -> MomentumState:
        return MomentumState(_count(params), _zeros(params) if momentum else None)

    def update(grads: Any, state: MomentumState, params: Any = None) -> tuple[Any, MomentumState]:
        rate, found, trace = _rate(learning_rate, state.count), grads, state.trace
        if momentum:
            trace = tree.map(_blend(momentum, 1), trace, grads)
            found = tree.map(_blend(momentum, 1), trace, grads) if nesterov else trace
        return tree.map(_scaled(-rate), found), MomentumState(state.count + 1, trace)

    return Optimizer(init, update)


class AdamState(NamedTuple):
    """``count`` steps were taken; ``mu`` and ``nu`` are means of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


def adam(learning_rate: Rate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adam (Kingma and Ba, ICLR 2015), as PyTorch's and optax's."""
    return adamw(learning_rate, b1, b2, eps, weight_decay=0.0)


def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019): the rate times
    ``weight_decay`` of each parameter is subtracted from it."""

    def init(params: Any) -> AdamState:
        return AdamState(_count(params), _zeros(params), _zeros(params))

    def update(grads: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        if weight_decay and params is None:
            raise wrong_call("weight decay needs the parameters", "`update(grads, state, params)`")
        rate, count = _rate(learning_rate, state.count), state.count + 1
        mu = tree.map(_blend(b1, 1 - b1), state.mu, grads)
        nu = tree.map(_blend(b2, 1 - b2), state.nu, tree.map(mul, grads, grads))
        steps = _double(count)
        first, root = rate / (1 - b1**steps), (1 - b2**steps) ** 0.5

        def one(m: Any, n: Any, *p: Any) -> Any:
            found = m * _like(first, m) / (n**0.5 / _like(root, m) + eps)
            return -(found + p[0] * _like(rate * weight_decay, m)) if p else -found

        updates = tree.map(one, mu, nu, *[params] if weight_decay else [])
        return updates, AdamState(count, mu, nu)

    return Optimizer(init, update)


# --- gradients before a step ---------------------------------------------------------------------


def global_norm(grads: Any) -> Any:
    """The root of the sum of the squares of all elements."""
    return reduce(add, [(g * g).sum() for g in tree.leaves(grads)]) ** 0.5


def clip_by_global_norm(limit: float) -> Optimizer:
    """Gradients scaled such that their global norm is at most ``limit``; first in a `chain`."""

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        norm = global_norm(grads)
        return tree.map(_scaled(where(norm > limit, limit / norm, norm * 0 + 1)), grads), state

    def init(params: Any) -> None:
        return None

    return Optimizer(init, update)


def chain(*parts: Optimizer) -> Optimizer:
    """Each part takes what the one before it gives."""

    def init(params: Any) -> tuple[Any, ...]:
        return tuple([part.init(params) for part in parts])

    def update(grads: Any, state: Any, params: Any = None, **more: Any) -> tuple[Any, Any]:
        after: list[Any] = []
        for part, each in zip(parts, state, strict=True):
            extra = more if part is parts[-1] else {}
            grads, found = part.update(grads, each, params, **extra)
            after.append(found)
        return grads, tuple(after)

    return Optimizer(init, update)


# --- schedules -----------------------------------------------------------------------------------


def exponential_decay(first: float, steps: int, factor: float) -> Schedule:
    """``first`` times ``factor`` for each ``steps`` steps, continuously."""
    return lambda count: first * factor ** (_double(count) / steps)


def cosine_decay(first: float, steps: int, last: float = 0.0) -> Schedule:
    """A rate that falls from ``first`` to ``last`` along half a cosine, and then stays."""

    def schedule(count: Any) -> Any:
        part = np.minimum(_double(count) / steps, 1.0)
        return last + (first - last) * 0.5 * (1 + np.cos(part * pi))

    return schedule


def piecewise(first: float, factors: dict[int, float]) -> Schedule:
    """``first``, times each factor from its step on."""

    def schedule(count: Any) -> Any:
        rate = _double(count) * 0 + first
        for step, factor in sorted(factors.items()):
            rate = where(_double(count) >= step, rate * factor, rate)
        return rate

    return schedule


def warmup(steps: int, then: Rate) -> Schedule:
    """A linear rise from 0 over ``steps`` steps, then ``then`` from its start."""

    def schedule(count: Any) -> Any:
        now = _double(count)
        after = _rate(then, np.maximum(now - steps, 0.0))
        return where(now < steps, _rate(then, now * 0) * now / steps, after)

    return schedule


# --- second order --------------------------------------------------------------------------------


class LbfgsState(NamedTuple):
    """``steps`` and ``changes`` are the last differences of parameters and of gradients, newest
    first, as rows; ``weights`` are the inverses of their products, 0 where there is none yet.
    ``value`` and ``grad`` are those at the new parameters, for the next update."""

    count: Any
    steps: Any
    changes: Any
    weights: Any
    value: Any
    grad: Any


def lbfgs(memory_size: int = 10, max_steps: int = 25, learning_rate: float = 1.0) -> Optimizer:
    """L-BFGS (Liu and Nocedal, Math. Programming 45, 1989) with a search for Wolfe's conditions.

    ``update(grads, state, params, value=value, value_fn=f)`` needs the value of the function and
    the function itself, of parameters alone, which it calls up to ``max_steps`` times: bisection by
    Lewis and Overton (Math. Programming 141, 2013), from the step ``learning_rate``. All parameters
    have one element type. The new value and gradient are in the state; after the first step they
    save an evaluation.
    """

    def init(params: Any) -> LbfgsState:
        flat = _flat(params)
        rows = _full(flat, (memory_size, flat.shape[0]))
        return LbfgsState(
            _count(params), rows, rows, _full(flat, (memory_size,)), _full(flat, ()), _zeros(params)
        )

    def update(
        grads: Any, state: LbfgsState, params: Any, *, value: Any, value_fn: Callable[[Any], Any]
    ) -> tuple[Any, LbfgsState]:
        at, slope = _flat(params), _flat(grads)
        way = -_two_loops(slope, state, memory_size)
        descent = (way * slope).sum()
        is_down = descent < 0  # rounding may spoil the matrix: then along the gradient
        way, descent = where(is_down, way, -slope), where(is_down, descent, -(slope * slope).sum())
        # the first step has no scale yet: it is as long as 1 at most
        length = where(state.count == 0, 1 / np.maximum(1.0, abs(slope).sum()), descent * 0 + 1)

        def of_flat(flat: Any) -> Any:
            return value_fn(_like_tree(flat, params))

        both = value_and_grad(of_flat)
        size, new_value, new_slope = _searched(
            both, at, way, _like(value, at), descent, slope, length * learning_rate, max_steps
        )
        step, change = way * size, new_slope - slope
        product = (step * change).sum()
        is_curved = product > 0
        weight = where(is_curved, 1 / where(is_curved, product, product * 0 + 1), product * 0)

        def pushed(rows: Any, row: Any) -> Any:
            return where(is_curved, np.concatenate([row[None], rows[:-1]]), rows)

        after = LbfgsState(
            state.count + 1, pushed(state.steps, step), pushed(state.changes, change),
            pushed(state.weights, weight), new_value, _like_tree(new_slope, params),
        )  # fmt: skip
        return _like_tree(step, params), after

    return Optimizer(init, update)


def _two_loops(slope: Any, state: LbfgsState, size: int) -> Any:
    """The inverse Hessian that the memory stands for, times a gradient."""
    q, factors = slope, list[Any]()
    for i in range(size):
        factor = state.weights[i] * (state.steps[i] * q).sum()
        factors.append(factor)
        q = q - state.changes[i] * factor
    newest = (state.changes[0] * state.changes[0]).sum() * state.weights[0]
    q = q * where(newest > 0, 1 / where(newest > 0, newest, newest * 0 + 1), newest * 0 + 1)
    for i in reversed(range(size)):
        back = state.weights[i] * (state.changes[i] * q).sum()
        q = q + state.steps[i] * (factors[i] - back)
    return q


def _searched(
    both: Callable[[Any], tuple[Any, Any]],
    at: Any,
    way: Any,
    value: Any,
    descent: Any,
    slope: Any,
    first: Any,
    most: int,
) -> tuple[Any, Any, Any]:
    """A step that descends enough and leaves enough curvature; its value and gradient.

    If none is found, the best that descends; 0 where there is none.
    """

    def again(state: Any) -> Any:
        tries, is_done = state[0], state[1]
        return (tries < most) & (is_done == 0)

    def iteration(state: Any) -> Any:
        tries, _, low, high, size, best = state
        found, gradient = both(at + way * size)
        falls = found <= value + descent * size * _SUFFICIENT
        flat = (gradient * way).sum() >= descent * _CURVATURE
        better = falls & (flat | (found <= best[1]))
        new = (size, found, gradient)
        best = tuple([where(better, a, b) for a, b in zip(new, best, strict=True)])
        low, high = where(falls & ~flat, size, low), where(falls, high, size)
        following = where(high < np.inf, (low + high) * 0.5, size * 2)
        is_done = (falls & flat).astype("int64")
        return tries + 1, is_done, low, high, where(is_done == 1, size, following), best

    zero = descent * 0
    start = (0, 0, zero, zero + np.inf, first, (zero, value, slope))
    return while_loop(again, iteration, start)[5]


# --- numbers and trees ---------------------------------------------------------------------------


def _rate(given: Any, count: Any) -> Any:
    """A learning rate as a number, or a tensor in double precision."""
    return given(count) if callable(given) else given


def _double(count: Any) -> Any:
    return count.astype("float64") if hasattr(count, "astype") else float(count)


def _like(number: Any, leaf: Any) -> Any:
    """A number beside a leaf, which keeps its element type."""
    return number if isinstance(number, int | float) else number.astype(leaf.dtype)


def _scaled(rate: Any) -> Callable[[Any], Any]:
    def scaled(leaf: Any) -> Any:
        return leaf * _like(rate, leaf)

    return scaled


def _blend(keep: float, share: float) -> Callable[[Any, Any], Any]:
    def blended(old: Any, new: Any) -> Any:
        return old * keep + new * share

    return blended


def _count(params: Any) -> Any:
    leaves = tree.leaves(params)
    if not leaves:
        raise wrong_call("there are no parameters", "pass a tree of tensors")
    return _full(leaves[0], (), "int64")


def _zeros(params: Any) -> Any:
    return tree.mapped(lambda p: _full(p, np.shape(p)), params)


def _full(like: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Zeros, in the program that records ``like``."""
    if isinstance(like, Value):
        return ops.full(shape, 0.0, dtype=dtype or like.dtype) + (cast(Any, like).sum() * 0).astype(
            dtype or like.dtype
        )
    kind = np.asarray(like).dtype if dtype is None else dtype
    return DenseTensor(np.zeros(shape, kind))


def _flat(params: Any) -> Any:
    leaves = tree.leaves(params)
    if len({str(p.dtype) for p in leaves}) != 1:
        raise wrong_call(
            "`lbfgs` takes parameters of one element type", "convert them with `astype`"
        )
    return np.concatenate([p.reshape((-1,)) for p in leaves])


def _like_tree(flat: Any, params: Any) -> Any:
    leaves, shape = tree.flatten(params)
    found: list[Any] = []
    first = 0
    for leaf in leaves:
        size = int(np.prod(np.shape(leaf), dtype=int))
        found.append(flat[first : first + size].reshape(tuple(np.shape(leaf))))
        first += size
    return tree.unflatten(shape, iter(found))
