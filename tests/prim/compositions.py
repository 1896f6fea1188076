"""Random functions of a matrix: steps drawn one by one, each where the values so far allow it.

A step is written twice, for ``pirkit.ops`` and for ``jax.numpy``. Attributes that ops hold in
single precision, as Paddle declares them, are numbers that are exact there. What has kinks tells
how far the values are from them; a step too close to one is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pirkit import ops

Array = np.ndarray[Any, Any]
Form = Callable[[Any, Any, Any], Any]
"""A step: the namespace of functions, then two matrices."""

EPSILON: Final = 2.0**-16
NEAREST: Final = 1e-2
"""The least distance from a kink."""
LARGEST: Final = 20.0
"""The greatest value that a step may give; more would drown differences in rounding."""
STEEPEST: Final = 30.0
"""The greatest slope, so that differences do not step over a kink."""
ASIDE: Final = 1e-5
"""How far the point lies that tells slopes."""


def _everywhere(x: Array, y: Array) -> float:
    return np.inf


def _from_zero(x: Array, y: Array) -> float:
    return float(np.abs(x).min())


def _above_zero(x: Array, y: Array) -> float:
    return float(x.min()) * 0.1


def _from_ties(x: Array, y: Array) -> float:
    rows = np.sort(x, axis=1)
    return float(np.diff(rows, axis=1).min(initial=np.inf))


def _from_each_other(x: Array, y: Array) -> float:
    return float(np.abs(x - y).min())


def _from_one(x: Array, y: Array) -> float:
    return float(np.abs(np.abs(x) - 1.0).min())


@dataclass(frozen=True)
class Step:
    """One operation on matrices, whose result is a matrix again."""

    name: str
    ours: Form
    theirs: Form
    margin: Callable[[Array, Array], float] = _everywhere
    """How far the two matrices are from where the step has no derivative."""


def _both(name: str, form: Form, margin: Callable[[Array, Array], float] = _everywhere) -> Step:
    """A step whose functions have the same names and arguments in both namespaces."""
    return Step(name, form, form, margin)


def _named(name: str) -> Step:
    """A step that is one function of that name."""
    return _both(name, lambda o, x, y: getattr(o, name)(x))


def _norm(j: Any, x: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / j.sqrt((centred * centred).mean(1, keepdims=True) + EPSILON)


def _softplus(j: Any, x: Any) -> Any:
    return j.logaddexp(x, 0.0)


STEPS: Final = (
    *[_named(name) for name in ("tanh", "sin", "cos", "expm1", "square")],
    _both("exp", lambda o, x, y: o.exp(o.sin(x))),
    _both("log", lambda o, x, y: o.log(x * x + 1.2)),
    _both("sqrt", lambda o, x, y: o.sqrt(x), _above_zero),
    _both("quotient", lambda o, x, y: x / (y * y + 0.7)),
    _both("power", lambda o, x, y: (x * x + 0.5) ** 1.3),
    _both("cube", lambda o, x, y: x**3),
    _both("abs", lambda o, x, y: o.abs(x), _from_zero),
    _both("sum of two", lambda o, x, y: x + y * 0.5),
    _both("product", lambda o, x, y: x * y),
    _both("difference", lambda o, x, y: 1.5 - x - y),
    _both("maximum", lambda o, x, y: o.maximum(x, y), _from_each_other),
    _both("minimum", lambda o, x, y: o.minimum(x, y), _from_each_other),
    _both("where", lambda o, x, y: o.where(x > 0.0, x * y, o.sin(x)), _from_zero),
    _both("row of itself", lambda o, x, y: x * x[0:1, :]),
    _both("column of itself", lambda o, x, y: x + y[:, 1:2]),
    Step("sigmoid", lambda o, x, y: o.sigmoid(x), lambda j, x, y: 1 / (1 + j.exp(-x))),
    Step("swish", lambda o, x, y: o.swish(x), lambda j, x, y: x / (1 + j.exp(-x))),
    Step("softplus", lambda o, x, y: o.softplus(x), lambda j, x, y: _softplus(j, x)),
    Step("mish", lambda o, x, y: o.mish(x, 20.0), lambda j, x, y: x * j.tanh(_softplus(j, x))),
    Step("atan", lambda o, x, y: o.atan(x), lambda j, x, y: j.arctan(x)),
    Step("asinh", lambda o, x, y: o.asinh(x), lambda j, x, y: j.arcsinh(x)),
    Step("relu", lambda o, x, y: o.relu(x), lambda j, x, y: j.maximum(x, 0.0), _from_zero),
    Step(
        "leaky relu",
        lambda o, x, y: o.leaky_relu(x, 0.1),
        lambda j, x, y: j.where(x > 0, x, 0.1 * x),
        _from_zero,
    ),
    Step(
        "elu",
        lambda o, x, y: o.elu(x, 0.75),
        lambda j, x, y: j.where(x > 0, x, 0.75 * j.expm1(x)),
        _from_zero,
    ),
    Step(
        "clip",
        lambda o, x, y: o.clip(x, -1.0, 1.0),
        lambda j, x, y: j.clip(x, -1.0, 1.0),
        _from_one,
    ),
    Step(
        "softmax",
        lambda o, x, y: o.softmax(x, axis=-1),
        lambda j, x, y: j.exp(x) / j.exp(x).sum(1, keepdims=True),
    ),
    Step(
        "log softmax",
        lambda o, x, y: o.log_softmax(x, axis=0),
        lambda j, x, y: x - j.log(j.exp(x).sum(0, keepdims=True)),
    ),
    Step(
        "logsumexp",
        lambda o, x, y: y + o.logsumexp(x, axis=[1], keepdim=True),
        lambda j, x, y: y + j.log(j.exp(x).sum(1, keepdims=True)),
    ),
    Step(
        "layer norm",
        lambda o, x, y: o.layer_norm(x, None, None, epsilon=EPSILON, begin_norm_axis=1),
        lambda j, x, y: _norm(j, x),
        lambda x, y: float(x.std(1).min()),
    ),
    Step(
        "norm",
        lambda o, x, y: x / (o.p_norm(y, porder=2.0, axis=1, keepdim=True) + 0.5),
        lambda j, x, y: x / (j.sqrt((y * y).sum(1, keepdims=True)) + 0.5),
        lambda x, y: float(np.linalg.norm(y, axis=1).min()),
    ),
    Step(
        "mean",
        lambda o, x, y: x - o.mean(y, [0], keepdim=True),
        lambda j, x, y: x - y.mean(0, keepdims=True),
    ),
    Step(
        "sum",
        lambda o, x, y: y * o.sum(x, [1], keepdim=True),
        lambda j, x, y: y * x.sum(1, keepdims=True),
    ),
    Step(
        "max",
        lambda o, x, y: y + o.max(x, [1], keepdim=True),
        lambda j, x, y: y + x.max(1, keepdims=True),
        _from_ties,
    ),
    Step(
        "prod",
        lambda o, x, y: y + o.prod(x, [1], keepdim=True, reduce_all=False),
        lambda j, x, y: y + x.prod(1, keepdims=True),
    ),
    Step("cumsum", lambda o, x, y: o.cumsum(x, 1), lambda j, x, y: j.cumsum(x, 1)),
    Step("cumprod", lambda o, x, y: o.cumprod(x, 1), lambda j, x, y: j.cumprod(x, 1)),
    Step(
        "logcumsumexp",
        lambda o, x, y: o.logcumsumexp(x, 1),
        lambda j, x, y: j.log(j.cumsum(j.exp(x), 1)),
    ),
    Step(
        "sort", lambda o, x, y: o.argsort(x, 1)[0] * y, lambda j, x, y: j.sort(x, 1) * y, _from_ties
    ),
    Step(
        "topk",
        lambda o, x, y: y + o.topk(x, 2, axis=1)[0][:, 1:2],
        lambda j, x, y: y + j.sort(x, 1)[:, -2][:, None],
        _from_ties,
    ),
    Step(
        "matmul",
        lambda o, x, y: o.matmul(o.matmul(x, y, transpose_y=True), x) * 0.3,
        lambda j, x, y: ((x @ y.T) @ x) * 0.3,
    ),
    Step(
        "transpose",
        lambda o, x, y: o.reshape(o.transpose(x, [1, 0]), [3, 4]),
        lambda j, x, y: x.T.reshape(3, 4),
    ),
    Step("flip", lambda o, x, y: o.flip(x, [1]), lambda j, x, y: x[:, ::-1]),
    Step("roll", lambda o, x, y: o.roll(x, [1], [0]), lambda j, x, y: j.roll(x, 1, 0)),
    Step(
        "concat",
        lambda o, x, y: o.concat([x[1:, :], y[0:1, :]], axis=0),
        lambda j, x, y: j.concatenate([x[1:, :], y[0:1, :]], 0),
    ),
    Step(
        "gather",
        lambda o, x, y: o.gather(x, np.array([2, 0, 0]), axis=0),
        lambda j, x, y: x[np.array([2, 0, 0])],
    ),
    Step(
        "pad",
        lambda o, x, y: o.pad(x[:, 1:3], 0.4, [0, 0, 1, 1]),
        lambda j, x, y: j.pad(x[:, 1:3], ((0, 0), (1, 1)), constant_values=0.4),
    ),
    Step(
        "tile",
        lambda o, x, y: o.tile(x[:, 0:2], [1, 2]) * y,
        lambda j, x, y: j.tile(x[:, 0:2], (1, 2)) * y,
    ),
    Step(
        "expand",
        lambda o, x, y: o.expand(x[1:2, :], [3, 4]) - y,
        lambda j, x, y: j.broadcast_to(x[1:2, :], (3, 4)) - y,
    ),
    Step(
        "stack",
        lambda o, x, y: o.sum(o.stack([x, y, x], axis=1) ** 2, [1]) * 0.2,
        lambda j, x, y: (j.stack([x, y, x], 1) ** 2).sum(1) * 0.2,
    ),
    Step("tril", lambda o, x, y: o.tril(x, 0) + y, lambda j, x, y: j.tril(x) + y),
)


@dataclass
class Composition:
    """A function of a matrix: each step takes two of the values before it."""

    x: Array
    steps: list[tuple[Step, int, int]] = field(default_factory=list[tuple[Step, int, int]])

    def __str__(self) -> str:
        return "; ".join(f"{s.name}({i}, {j})" for s, i, j in self.steps)

    def ours(self, x: Any) -> Any:
        """The function, in ``pirkit.ops``."""
        values = [x]
        for step, i, j in self.steps:
            values.append(step.ours(ops, values[i], values[j]))
        return values[-1]

    def theirs(self, jnp: Any, x: Any) -> Any:
        """The function, in ``jax.numpy``."""
        values = [x]
        for step, i, j in self.steps:
            values.append(step.theirs(jnp, values[i], values[j]))
        return values[-1]


def direction(x: Array) -> Array:
    """Along which slopes are taken."""
    return np.random.default_rng(x.size).standard_normal(x.shape)


def composition(seed: int) -> Composition:
    """A composition of 5 to 15 steps; the same for the same seed."""
    rng = np.random.default_rng(seed)
    made = Composition(rng.uniform(-1.5, 1.5, (3, 4)))
    values = [made.x]
    beside = [made.x + ASIDE * direction(made.x)]
    length = int(rng.integers(5, 16))
    while len(made.steps) < length:
        step = STEPS[int(rng.integers(len(STEPS)))]
        i = len(values) - 1
        j = int(rng.integers(len(values)))
        if step.margin(values[i], values[j]) < NEAREST:
            continue
        found = np.asarray(step.ours(ops, values[i], values[j]))
        moved = np.asarray(step.ours(ops, beside[i], beside[j]))
        if np.abs(found).max() > LARGEST or np.abs(moved - found).max() > ASIDE * STEEPEST:
            continue
        made.steps.append((step, i, j))
        values.append(found)
        beside.append(moved)
    return made
