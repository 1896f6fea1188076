"""Optimizer steps: a parameter and its state are overwritten by their next values.

With a master parameter, a float32 copy of one that is stored in half precision, the arithmetic is
done on that and rounded once. The adaptive ones with two moments are in ``adam``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from pirkit.dialect.opdef import (
    WRITE,
    OpDef,
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import numel, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "update"


class _Optimizer:
    dtypes = dt.FLOATS
    effects = WRITE
    domain = (0.1, 2.0)


@op
class Sgd(_Optimizer):
    """`param - learning_rate * grad`.

    C1: `param` is a float tensor.
    C2: `grad` has the shape of `param`.
    C3: `learning_rate` has one element.
    """

    name = "pd_op.sgd_"
    signature = (
        "param, learning_rate, grad, master_param? ; multi_precision: bool = False "
        "-> param_out, master_param_out?"
    )
    inplace = {"param_out": "param", "master_param_out": "master_param"}


@op
class Momentum(_Optimizer):
    """`velocity = mu * velocity + grad`, and `param` less `learning_rate` times that.

    The nesterov form goes along `grad + mu * velocity`. The regularization method `l2_decay` adds
    `regularization_coeff * param` to the gradient. As on Paddle's CPU, `rescale_grad` does nothing.

    C1: `param` is a float tensor.
    C2: `grad` and `velocity` have the shape of `param`.
    C3: `learning_rate` has one element.
    """

    name = "pd_op.momentum_"
    signature = (
        "param, grad, velocity, learning_rate, master_param? ; "
        "mu: f32, use_nesterov: bool = False, regularization_method: str = '', "
        "regularization_coeff: f32 = 0.0, multi_precision: bool = False, rescale_grad: f32 = 1.0 "
        "-> param_out, velocity_out, master_param_out?"
    )
    inplace = {"param_out": "param", "velocity_out": "velocity", "master_param_out": "master_param"}


@op
class Rmsprop(_Optimizer):
    """Steps divided by the root of a moving mean of the squared gradient, with momentum.

    The centered form subtracts the square of the moving mean of the gradient under the root.

    C1: `param` is a float tensor.
    C2: `grad` and the moving values have the shape of `param`.
    C3: `learning_rate` has one element.
    C4: the centered form has a `mean_grad`.
    """

    name = "pd_op.rmsprop_"
    signature = (
        "param, mean_square, grad, moment, learning_rate, mean_grad?, master_param? ; "
        "epsilon: f32 = 1e-10, decay: f32 = 0.9, momentum: f32 = 0.0, centered: bool = False, "
        "multi_precision: bool = False "
        "-> param_out, moment_out, mean_square_out, mean_grad_out?, master_param_outs?"
    )
    inplace = {
        "param_out": "param",
        "moment_out": "moment",
        "mean_square_out": "mean_square",
        "mean_grad_out": "mean_grad",
        "master_param_outs": "master_param",
    }


@op
class Adagrad(_Optimizer):
    """Steps divided by the root of the sum of all squared gradients.

    C1: `param` is a float tensor.
    C2: `grad` and `moment` have the shape of `param`.
    C3: `learning_rate` has one element.
    """

    name = "pd_op.adagrad_"
    signature = (
        "param, grad, moment, learning_rate, master_param? ; "
        "epsilon: f32 = 1e-6, multi_precision: bool = False "
        "-> param_out, moment_out, master_param_out?"
    )
    inplace = {"param_out": "param", "moment_out": "moment", "master_param_out": "master_param"}


def check_parameter(param: TensorMeta, *same_shaped: TensorMeta | None) -> None:
    """Require a float parameter (C1) and other tensors of its shape (C2)."""
    require(param.dtype.is_float, "C1", f"a parameter of dtype {param.dtype}")
    for other in same_shaped:
        if other is None:
            continue
        same = other.rank == param.rank and all(map(same_dim, other.shape, param.shape))
        shapes = f"shapes {show(other.shape)} and {show(param.shape)} differ"
        require(same, "C2", shapes)


def check_number(what: str, x: TensorMeta, constraint: str = "C3") -> None:
    """Require a tensor of one element."""
    one = numel(x.shape) in (1, UNKNOWN)
    require(one, constraint, f"`{what}` has the shape {show(x.shape)}, not one element")


def with_single_parameter(results: tuple[TensorMeta | None, ...]) -> tuple[TensorMeta | None, ...]:
    """The results as Paddle's programs state them: a float64 parameter becomes float32."""
    param, *rest = results
    if param is None or param.dtype is not dt.float64:
        return results
    return param.with_dtype(dt.float32), *rest


def stepped(
    param: Array, master: Array | None, move: Callable[[Array], Any]
) -> tuple[Array, Array | None]:
    """The next values of a parameter and its master copy; ``move`` maps wide ones to wide ones."""
    if master is None:
        return np.asarray(move(widened(param))).astype(param.dtype), None
    wide = np.asarray(move(master)).astype(master.dtype)
    return wide.astype(param.dtype), wide


def number(x: Array) -> Array:
    """The one element of a tensor, as a 0-D array of at least float32."""
    return widened(x).reshape(())


@infer_meta(Sgd)
def _(
    param: TensorMeta,
    learning_rate: TensorMeta,
    grad: TensorMeta,
    master_param: TensorMeta | None,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, grad, master_param)
    check_number("learning_rate", learning_rate)
    return param, master_param


@reference(Sgd)
def _(
    param: Array, learning_rate: Array, grad: Array, master_param: Array | None, **_: object
) -> tuple[Array | None, ...]:
    rate = number(learning_rate)
    return stepped(param, master_param, lambda p: p - rate * widened(grad))


@infer_meta(Momentum)
def _momentum(
    param: TensorMeta,
    grad: TensorMeta,
    velocity: TensorMeta,
    learning_rate: TensorMeta,
    master_param: TensorMeta | None,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, grad, velocity, master_param)
    check_number("learning_rate", learning_rate)
    return param, velocity, master_param


@paddle_meta(Momentum)
def _(*operands: TensorMeta | None, **attrs: Any) -> tuple[TensorMeta | None, ...]:
    return with_single_parameter(_momentum(*cast(Any, operands), **attrs))


@reference(Momentum)
def momentum_step(
    param: Array,
    grad: Array,
    velocity: Array,
    learning_rate: Array,
    master_param: Array | None,
    *,
    mu: float,
    use_nesterov: bool,
    regularization_method: str,
    regularization_coeff: float,
    **_: object,
) -> tuple[Array | None, ...]:
    """One step for one parameter: the next parameter, velocity and master parameter."""
    rate, gradient = number(learning_rate), widened(grad)
    if regularization_method == "l2_decay":
        wide = widened(param) if master_param is None else master_param
        gradient = gradient + regularization_coeff * wide
    speed = np.asarray(mu * widened(velocity) + gradient)
    along = gradient + mu * speed if use_nesterov else speed
    next_param, master = stepped(param, master_param, lambda p: p - rate * along)
    return next_param, speed.astype(velocity.dtype), master


@infer_meta(Rmsprop)
def _rmsprop(
    param: TensorMeta,
    mean_square: TensorMeta,
    grad: TensorMeta,
    moment: TensorMeta,
    learning_rate: TensorMeta,
    mean_grad: TensorMeta | None,
    master_param: TensorMeta | None,
    *,
    centered: bool,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, mean_square, grad, moment, mean_grad, master_param)
    check_number("learning_rate", learning_rate)
    require(not centered or mean_grad is not None, "C4", "`mean_grad` is missing")
    return param, moment, mean_square, mean_grad, master_param


@paddle_meta(Rmsprop)
def _(*operands: Any, centered: bool, **attrs: Any) -> tuple[TensorMeta | None, ...]:
    """Paddle's programs give `mean_grad` no sizes where it stays as it is."""
    *others, mean, master = _rmsprop(*operands, centered=centered, **attrs)
    return *others, mean if centered else mean and mean.with_shape((0,)), master


@reference(Rmsprop)
def _(
    param: Array,
    mean_square: Array,
    grad: Array,
    moment: Array,
    learning_rate: Array,
    mean_grad: Array | None,
    master_param: Array | None,
    *,
    epsilon: float,
    decay: float,
    momentum: float,
    centered: bool,
    **_: object,
) -> tuple[Array | None, ...]:
    gradient = widened(grad)
    variance = decay * widened(mean_square) + (1 - decay) * gradient * gradient
    below, mean = variance, mean_grad
    if centered and mean_grad is not None:
        center = decay * widened(mean_grad) + (1 - decay) * gradient
        below, mean = variance - center * center, np.asarray(center).astype(mean_grad.dtype)
    shift = momentum * widened(moment) + number(learning_rate) * gradient / np.sqrt(below + epsilon)
    next_param, master = stepped(param, master_param, lambda p: p - shift)
    new_moments = (
        np.asarray(shift).astype(moment.dtype),
        np.asarray(variance).astype(mean_square.dtype),
    )
    return next_param, *new_moments, mean, master


@infer_meta(Adagrad)
def _(
    param: TensorMeta,
    grad: TensorMeta,
    moment: TensorMeta,
    learning_rate: TensorMeta,
    master_param: TensorMeta | None,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, grad, moment, master_param)
    check_number("learning_rate", learning_rate)
    return param, moment, master_param


@reference(Adagrad)
def _(
    param: Array,
    grad: Array,
    moment: Array,
    learning_rate: Array,
    master_param: Array | None,
    *,
    epsilon: float,
    **_: object,
) -> tuple[Array | None, ...]:
    gradient = widened(grad)
    total = np.asarray(widened(moment) + gradient * gradient)
    rate = number(learning_rate)
    step = rate * gradient / (np.sqrt(total) + epsilon)
    next_param, master = stepped(param, master_param, lambda p: p - step)
    return next_param, total.astype(moment.dtype), master


SETTINGS: Final[dict[OpDef, tuple[str, tuple[dict[str, Any], ...]]]] = {
    Sgd: ("plgm", ({},)),
    Momentum: (
        "pgvlm",
        (
            {"mu": 0.9},
            {"mu": 0.9, "use_nesterov": True},
            {"mu": 0.5, "regularization_method": "l2_decay", "regularization_coeff": 0.25},
        ),
    ),
    Rmsprop: ("pvgvl.m", ({"momentum": 0.5, "epsilon": 0.01},)),
    Adagrad: ("pgvlm", ({"epsilon": 0.01},)),
}
"""Operands of the samples (parameter, gradient, value of the state, learning rate, master
parameter; a point for what is absent) and their attributes."""


def _operands(s: SampleMaker, form: str, *shape: int, master: bool) -> list[Array | None]:
    made: list[Array | None] = []
    for letter in form:
        if letter == "m":
            made.append(s.tensor(*shape, dtype=dt.float32) if master else None)
        elif letter == ".":
            made.append(None)
        else:
            made.append(s.tensor(1) if letter == "l" else s.tensor(*shape))
    return made


@samples(*SETTINGS)
def _(s: SampleMaker) -> Iterator[Sample]:
    form, settings = SETTINGS[s.definition]
    for attrs in settings:
        yield s(*_operands(s, form, 2, 3, master=False), **attrs)
    yield s(*_operands(s, form, master=False), **settings[0])
    yield s(*_operands(s, form, 0, 3, master=False), **settings[0])
    if s.dtype in (dt.float16, dt.bfloat16):
        args = _operands(s, form, 2, 3, master=True)
        yield s(*args, multi_precision=True, **settings[0])
    if s.definition is Rmsprop:
        args = [s.tensor(2, 3), s.tensor(2, 3, low=5.0, high=6.0), s.tensor(2, 3), s.tensor(2, 3)]
        yield s(*args, s.tensor(1), s.tensor(2, 3), centered=True)


@bad_samples(*SETTINGS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    form, settings = SETTINGS[s.definition]
    args = _operands(s, form, 2, 3, master=False)
    yield "C1", s(s.ints((2, 3), 0, 5), *args[1:], **settings[0])
    at = form.index("g")
    yield "C2", s(*args[:at], s.tensor(3, 2), *args[at + 1 :], **settings[0])
    at = form.index("l")
    yield "C3", s(*args[:at], s.tensor(2), *args[at + 1 :], **settings[0])
    if s.definition is Rmsprop:
        yield "C4", s(*args, centered=True)
