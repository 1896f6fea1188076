"""Optimizer steps with moving means of the gradient and of its square: adam, adamw, lamb.

Both means start at 0, so they are divided by `1 - beta ** step` (Kingma and Ba, 2015). Programs
keep the powers `beta ** step` in tensors of one element.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from pirkit.dialect.ops.optimizer.optimizer import (
    check_number,
    check_parameter,
    number,
    stepped,
    with_single_parameter,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "update"

Results = tuple[Array | None, ...]

_ADAM_OPERANDS: Final = (
    "param, grad, learning_rate, moment1, moment2, moment2_max?, beta1_pow, beta2_pow, "
    "master_param?, skip_update?, beta1: scalar = 0.9, beta2: scalar = 0.999, "
    "epsilon: scalar = 1e-8"
)
_ADAM_RESULTS: Final = (
    "param_out, moment1_out, moment2_out, moment2_max_out?, beta1_pow_out, beta2_pow_out, "
    "master_param_out?"
)


class _Adam:
    """C1: `param` is a float tensor.
    C2: `grad` and the moments have the shape of `param`.
    C3: `learning_rate` and the powers have one element.
    C4: `amsgrad` has a `moment2_max`.
    """

    dtypes = dt.FLOATS
    operand_dtypes = {"skip_update": dt.BOOL}
    effects = WRITE
    domain = (0.1, 0.9)
    inplace = {
        f"{name}_out": name
        for name in (
            "param", "moment1", "moment2", "moment2_max", "beta1_pow", "beta2_pow", "master_param",
        )
    }  # fmt: skip


@op
class Adam(_Adam):
    """A step along the mean of the gradient, divided by the root of the mean of its square.

    With `amsgrad` it is divided by the root of the greatest mean of the square so far (Reddi et
    al., 2018). `use_global_beta_pow` leaves the powers as they are; a true `skip_update` leaves
    everything. `epsilon` is added to the corrected root.
    """

    name = "pd_op.adam_"
    signature = (
        f"{_ADAM_OPERANDS} ; lazy_mode: bool = False, "
        "min_row_size_to_use_multithread: i64 = 1000, multi_precision: bool = False, "
        f"use_global_beta_pow: bool = False, amsgrad: bool = False -> {_ADAM_RESULTS}"
    )


@op
class Adamw(_Adam):
    """Adam on a parameter that first decays by `learning_rate * lr_ratio * coeff` of itself.

    `lr_ratio` scales the decay alone, as on Paddle's CPU.
    """

    name = "pd_op.adamw_"
    signature = (
        f"{_ADAM_OPERANDS} ; lr_ratio: f32 = 1.0, coeff: f32 = 0.01, with_decay: bool = False, "
        "lazy_mode: bool = False, min_row_size_to_use_multithread: i64 = 1000, "
        "multi_precision: bool = False, use_global_beta_pow: bool = False, amsgrad: bool = False "
        f"-> {_ADAM_RESULTS}"
    )


@op
class Lamb(_Adam):
    """Adam's direction plus `weight_decay * param`, scaled to the norm of the parameter.

    It is scaled if `weight_decay` is positive or with `always_adapt`, unless a norm is 0 (You et
    al., 2020).

    C1: `param` is a float tensor.
    C2: `grad` and the moments have the shape of `param`.
    C3: `learning_rate` and the powers have one element.
    """

    name = "pd_op.lamb_"
    signature = (
        "param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, master_param?, "
        "skip_update? ; weight_decay: f32, beta1: f32 = 0.9, beta2: f32 = 0.999, "
        "epsilon: f32 = 1e-6, always_adapt: bool = False, multi_precision: bool = False "
        "-> param_out, moment1_out, moment2_out, beta1_pow_out, beta2_pow_out, master_param_outs?"
    )
    inplace = {
        "param_out": "param",
        "moment1_out": "moment1",
        "moment2_out": "moment2",
        "beta1_pow_out": "beta1_pow",
        "beta2_pow_out": "beta2_pow",
        "master_param_outs": "master_param",
    }


@infer_meta(Adam, Adamw)
def _(
    param: TensorMeta,
    grad: TensorMeta,
    learning_rate: TensorMeta,
    moment1: TensorMeta,
    moment2: TensorMeta,
    moment2_max: TensorMeta | None,
    beta1_pow: TensorMeta,
    beta2_pow: TensorMeta,
    master_param: TensorMeta | None,
    skip_update: TensorMeta | None,
    *,
    amsgrad: bool,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, grad, moment1, moment2, moment2_max, master_param)
    _check_numbers(learning_rate, beta1_pow, beta2_pow)
    require(not amsgrad or moment2_max is not None, "C4", "`moment2_max` is missing")
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


@infer_meta(Lamb)
def _lamb(
    param: TensorMeta,
    grad: TensorMeta,
    learning_rate: TensorMeta,
    moment1: TensorMeta,
    moment2: TensorMeta,
    beta1_pow: TensorMeta,
    beta2_pow: TensorMeta,
    master_param: TensorMeta | None,
    skip_update: TensorMeta | None,
    **_: object,
) -> tuple[TensorMeta | None, ...]:
    check_parameter(param, grad, moment1, moment2, master_param)
    _check_numbers(learning_rate, beta1_pow, beta2_pow)
    return param, moment1, moment2, beta1_pow, beta2_pow, master_param


@paddle_meta(Lamb)
def _(*operands: TensorMeta | None, **attrs: Any) -> tuple[TensorMeta | None, ...]:
    return with_single_parameter(_lamb(*cast(Any, operands), **attrs))


def _check_numbers(rate: TensorMeta, *powers: TensorMeta) -> None:
    check_number("learning_rate", rate)
    for power in powers:
        check_number("beta_pow", power)


def _averaged(mean: Array, value: Any, keep: float) -> Array:
    """The next value of a moving mean."""
    return np.asarray(keep * widened(mean) + (1 - keep) * value)


def _power(power: Array, factor: float) -> Array:
    return np.asarray(widened(power) * factor).astype(power.dtype)


def adam_step(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    moment2_max: Array | None,
    beta1_pow: Array,
    beta2_pow: Array,
    master_param: Array | None,
    skip_update: Array | None,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    use_global_beta_pow: bool = False,
    amsgrad: bool = False,
    decay: float = 0.0,
    **_: object,
) -> Results:
    """One step for one parameter: the next values of everything that it writes."""
    if skip_update is not None and skip_update.reshape(()).item():
        return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param
    gradient, rate = widened(grad), number(learning_rate)
    mean, square = (
        _averaged(moment1, gradient, beta1),
        _averaged(moment2, gradient * gradient, beta2),
    )
    top, greatest = square, moment2_max
    if amsgrad and moment2_max is not None:
        top = np.maximum(widened(moment2_max), square)
        greatest = top.astype(moment2_max.dtype)
    root = np.sqrt(1 - number(beta2_pow))
    step = rate * root / (1 - number(beta1_pow)) * (mean / (np.sqrt(top) + epsilon * root))
    next_param, master = stepped(
        param, master_param, lambda p: (p * (1 - rate * decay) if decay else p) - step
    )
    powers = beta1_pow, beta2_pow
    if not use_global_beta_pow:
        powers = _power(beta1_pow, beta1), _power(beta2_pow, beta2)
    moments = mean.astype(moment1.dtype), square.astype(moment2.dtype)
    return next_param, *moments, greatest, *powers, master


reference(Adam)(adam_step)


@reference(Adamw)
def _(*arrays: Any, lr_ratio: float, coeff: float, with_decay: bool, **attrs: Any) -> Results:
    return adam_step(*arrays, decay=lr_ratio * coeff if with_decay else 0.0, **attrs)


@reference(Lamb)
def _(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    master_param: Array | None,
    skip_update: Array | None,
    *,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    always_adapt: bool,
    **_: object,
) -> Results:
    if skip_update is not None and skip_update.reshape(()).item():
        return param, moment1, moment2, beta1_pow, beta2_pow, master_param
    gradient = widened(grad)
    mean, square = (
        _averaged(moment1, gradient, beta1),
        _averaged(moment2, gradient * gradient, beta2),
    )
    direction = mean / (1 - number(beta1_pow))
    direction = direction / (np.sqrt(square / (1 - number(beta2_pow))) + epsilon)

    def move(p: Array) -> Any:
        along = np.asarray(direction + weight_decay * p)
        ratio = _trust(p, along) if always_adapt or weight_decay > 0 else 1.0
        return p - number(learning_rate) * ratio * along

    next_param, master = stepped(param, master_param, move)
    moments = mean.astype(moment1.dtype), square.astype(moment2.dtype)
    return next_param, *moments, _power(beta1_pow, beta1), _power(beta2_pow, beta2), master


def _trust(param: Array, direction: Array) -> Any:
    """How much longer the parameter is than the direction; 1 if one of them is 0."""
    long, short = np.linalg.norm(param.reshape(-1)), np.linalg.norm(direction.reshape(-1))
    return long / short if long > 0 and short > 0 else 1.0


SETTINGS: Final[dict[OpDef, tuple[dict[str, Any], ...]]] = {
    Adam: ({"epsilon": 0.01}, {"epsilon": 0.01, "use_global_beta_pow": True}),
    Adamw: (
        {"epsilon": 0.01, "with_decay": True, "lr_ratio": 0.5, "coeff": 0.25},
        {"epsilon": 0.01, "coeff": 0.25},
    ),
    Lamb: (
        {"weight_decay": 0.25, "epsilon": 0.01},
        {"weight_decay": 0.0, "epsilon": 0.01, "always_adapt": True},
        {"weight_decay": 0.0, "epsilon": 0.01},
    ),
}
"""Attributes of the samples."""


def _operands(s: SampleMaker, *shape: int, greatest: bool = False) -> list[Array | None]:
    """All operands of one step; lamb has no greatest mean of the square."""
    means = [s.tensor(*shape), s.tensor(*shape)]
    highest = [] if s.definition is Lamb else [s.tensor(*shape) if greatest else None]
    first = [s.tensor(*shape), s.tensor(*shape), s.tensor(1)]
    return [*first, *means, *highest, s.tensor(1), s.tensor(1), None, None]


@samples(*SETTINGS)
def _(s: SampleMaker) -> Iterator[Sample]:
    settings = SETTINGS[s.definition]
    for attrs in settings:
        yield s(*_operands(s, 2, 3), **attrs)
    yield s(*_operands(s), **settings[0])
    yield s(*_operands(s, 2, 3)[:-1], np.array([True]), **settings[0])
    if s.definition is not Lamb:
        yield s(*_operands(s, 2, 3, greatest=True), amsgrad=True, **settings[0])
    if s.dtype in (dt.float16, dt.bfloat16):
        master = s.tensor(2, 3, dtype=dt.float32)
        args = _operands(s, 2, 3)[:-2]
        yield s(*args, master, None, multi_precision=True, **settings[0])


@bad_samples(*SETTINGS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    attrs = SETTINGS[s.definition][0]
    param, grad, rate, *rest = _operands(s, 2, 3)
    yield "C1", s(s.ints((2, 3), 0, 5), grad, rate, *rest, **attrs)
    yield "C2", s(param, s.tensor(3, 2), rate, *rest, **attrs)
    yield "C3", s(param, grad, s.tensor(2), *rest, **attrs)
    if s.definition is not Lamb:
        yield "C4", s(param, grad, rate, *rest, amsgrad=True, **attrs)
