"""Optimizer steps with rates of their own for each element: adamax, nadam, radam, adadelta, rprop;
and the averaged gradients of asgd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.opdef import (
    WRITE,
    OpDef,
    bad_samples,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.optimizer.optimizer import check_number, check_parameter, number, stepped
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import numel, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "update"

Results = tuple[Array | None, ...]

DECAY: Final = 0.96
"""What the momentum of nadam decays by in each step, before the exponent `momentum_decay`."""
LEAST_FREEDOM: Final = 5.0
"""Radam divides by the root where the moving mean has more degrees of freedom than this."""


class _Adaptive:
    dtypes = dt.FLOATS
    effects = WRITE
    domain = (0.1, 0.9)


@op
class Adamax(_Adaptive):
    """Adam with a decaying maximum of |gradient| in place of the root (Kingma and Ba, 2015).

    C1: `param` is a float tensor.
    C2: `grad` and the moving values have the shape of `param`.
    C3: `learning_rate` and `beta1_pow` have one element.
    """

    name = "pd_op.adamax_"
    signature = (
        "param, grad, learning_rate, moment, inf_norm, beta1_pow, master_param? ; "
        "beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8, multi_precision: bool = False "
        "-> param_out, moment_out, inf_norm_out, master_param_out?"
    )
    inplace = {f"{n}_out": n for n in ("param", "moment", "inf_norm", "master_param")}


@op
class Nadam(_Adaptive):
    """Adam with Nesterov momentum, which grows from step to step (Dozat, 2016).

    Unlike those of adam, the powers and `mu_product` are kept for each element, as Paddle does.

    C1: `param` is a float tensor.
    C2: `grad`, the moments, the powers and `mu_product` have the shape of `param`.
    C3: `learning_rate` has one element.
    """

    name = "pd_op.nadam_"
    signature = (
        "param, grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, "
        "master_param? ; beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8, "
        "momentum_decay: f32 = 0.004, multi_precision: bool = False "
        "-> param_out, momentum_decay_pow_out, beta2_pow_out, mu_product_out, moment1_out, "
        "moment2_out, master_param_out?"
    )
    inplace = {
        f"{n}_out": n
        for n in (
            "param", "momentum_decay_pow", "beta2_pow", "mu_product", "moment1", "moment2",
            "master_param",
        )
    }  # fmt: skip


@op
class Radam(_Adaptive):
    """Adam that divides by the root only when its variance is tractable (Liu et al., 2020).

    Unlike those of adam, the powers and `rho` are kept for each element, as Paddle does.

    C1: `param` is a float tensor.
    C2: `grad`, the moments, the powers and `rho` have the shape of `param`.
    C3: `learning_rate` has one element.
    C4: `beta2` is not 1: the length of the moving mean, `2 / (1 - beta2) - 1`, is finite.
    """

    name = "pd_op.radam_"
    signature = (
        "param, grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2, master_param? ; "
        "beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8, multi_precision: bool = False "
        "-> param_out, beta1_pow_out, beta2_pow_out, rho_out, moment1_out, moment2_out, "
        "master_param_out?"
    )
    inplace = {
        f"{n}_out": n
        for n in (
            "param", "beta1_pow", "beta2_pow", "rho", "moment1", "moment2", "master_param",
        )
    }  # fmt: skip


@op
class Adadelta(_Adaptive):
    """The gradient, times the root mean square of former steps over its own (Zeiler, 2012).

    C1: `param` is a float tensor.
    C2: `grad` and the moving values have the shape of `param`.
    C3: `learning_rate` has one element.
    """

    name = "pd_op.adadelta_"
    signature = (
        "param, grad, avg_squared_grad, avg_squared_update, learning_rate, master_param? ; "
        "rho: f32 = 0.95, epsilon: f32 = 1e-6, multi_precision: bool = False "
        "-> param_out, moment_out, inf_norm_out, master_param_out?"
    )
    inplace = {
        "param_out": "param",
        "moment_out": "avg_squared_grad",
        "inf_norm_out": "avg_squared_update",
        "master_param_out": "master_param",
    }


@op
class Rprop(_Adaptive):
    """Steps against the sign of the gradient (Riedmiller and Braun, 1993).

    `learning_rate` has a rate for each element, which is multiplied by `etas[1]` while the sign
    stays, by `etas[0]` where it has changed, and kept within `learning_rate_range`. Where the sign
    has changed there is no step, and `prev_out` is 0.

    C1: `param` is a float tensor.
    C2: `grad`, `prev` and `learning_rate` have the shape of `param`.
    C3: `learning_rate_range` and `etas` have two elements.
    """

    name = "pd_op.rprop_"
    signature = (
        "param, grad, prev, learning_rate, master_param?, learning_rate_range, etas ; "
        "multi_precision: bool = False -> param_out, prev_out, learning_rate_out, master_param_out?"
    )
    inplace = {f"{n}_out": n for n in ("param", "prev", "learning_rate", "master_param")}


@op
class Asgd(_Adaptive):
    """A step along the mean of the last `n` gradients: `d` is their sum, `y` the oldest of them.

    C1: `param` is a float tensor.
    C2: `grad`, `d` and `y` have the shape of `param`.
    C3: `learning_rate` and `n` have one element.
    """

    name = "pd_op.asgd_"
    operand_dtypes = {"n": dt.REAL}
    signature = (
        "param, grad, learning_rate, d, y, n, master_param? ; multi_precision: bool = False "
        "-> param_out, d_out, y_out, master_param_out?"
    )
    inplace = {f"{n}_out": n for n in ("param", "d", "y", "master_param")}


FORMS: Final[dict[OpDef, str]] = {
    Adamax: "ppnppnm",
    Nadam: "ppnpppppm",
    Radam: "ppnpppppm",
    Adadelta: "ppppnm",
    Rprop: "ppppm22",
    Asgd: "ppnppnm",
}
"""Operands: of the shape of the parameter, numbers, pairs, and the master parameter."""


def _rule(form: str, definition: OpDef) -> Callable[..., tuple[TensorMeta | None, ...]]:
    names = [o.name for o in definition.operands]
    written = [names.index(definition.inplace[r.name]) for r in definition.results]

    def rule(*operands: TensorMeta | None, **given: object) -> tuple[TensorMeta | None, ...]:
        if definition is Radam:
            require(given["beta2"] != 1, "C4", "a `beta2` of 1")
        param, *same_shaped = (x for x, kind in zip(operands, form, strict=True) if kind in "pm")
        if param is not None:
            check_parameter(param, *same_shaped)
        for name, x, kind in zip(names, operands, form, strict=True):
            if kind == "n" and x is not None:
                check_number(name, x)
            if kind == "2" and x is not None:
                pair = numel(x.shape) in (2, UNKNOWN)
                require(pair, "C3", f"`{name}` has the shape {show(x.shape)}, not two elements")
        return tuple([operands[i] for i in written])

    return rule


for _op, _form in FORMS.items():
    infer_meta(_op)(_rule(_form, _op))


def _as_stored(values: Sequence[Any], like: Sequence[Array]) -> Results:
    return tuple([np.asarray(v).astype(x.dtype) for v, x in zip(values, like, strict=True)])


def _averaged(mean: Array, value: Any, keep: float) -> Array:
    return np.asarray(keep * widened(mean) + (1 - keep) * value)


@reference(Adamax)
def _(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    inf_norm: Array,
    beta1_pow: Array,
    master_param: Array | None,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    **_: object,
) -> Results:
    gradient = widened(grad)
    mean = _averaged(moment, gradient, beta1)
    size = np.maximum(np.abs(gradient), beta2 * widened(inf_norm) + epsilon)
    step = number(learning_rate) / (1 - number(beta1_pow)) * (mean / size)
    next_param, master = stepped(param, master_param, lambda p: p - step)
    return next_param, *_as_stored((mean, size), (moment, inf_norm)), master


@reference(Nadam)
def _(
    param: Array,
    grad: Array,
    learning_rate: Array,
    momentum_decay_pow: Array,
    beta2_pow: Array,
    mu_product: Array,
    moment1: Array,
    moment2: Array,
    master_param: Array | None,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
    **_: object,
) -> Results:
    gradient = widened(grad)
    decay, power = widened(momentum_decay_pow) * DECAY, widened(beta2_pow) * beta2
    faded = decay**momentum_decay
    now = beta1 * (1 - 0.5 * faded)
    ahead = beta1 * (1 - 0.5 * faded * DECAY**momentum_decay)
    product = widened(mu_product) * now
    mean, square = (
        _averaged(moment1, gradient, beta1),
        _averaged(moment2, gradient * gradient, beta2),
    )
    along = ahead * mean / (1 - product * ahead)
    along = along + (1 - now) * gradient / (1 - product)
    size = np.sqrt(square / (1 - power)) + epsilon
    step = number(learning_rate) * along / size
    next_param, master = stepped(param, master_param, lambda p: p - step)
    like = momentum_decay_pow, beta2_pow, mu_product, moment1, moment2
    return next_param, *_as_stored((decay, power, product, mean, square), like), master


@reference(Radam)
def _(
    param: Array,
    grad: Array,
    learning_rate: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    rho: Array,
    moment1: Array,
    moment2: Array,
    master_param: Array | None,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    **_: object,
) -> Results:
    gradient = widened(grad)
    power1, power2 = widened(beta1_pow) * beta1, widened(beta2_pow) * beta2
    spent = (widened(rho) * (beta2 - power2) + power2) / (1 - power2)
    mean, square = (
        _averaged(moment1, gradient, beta1),
        _averaged(moment2, gradient * gradient, beta2),
    )
    most = 2 / (1 - beta2) - 1
    freedom = most - 2 * spent
    step = mean / (1 - power1)
    known = freedom > LEAST_FREEDOM
    free = np.where(known, freedom, most)
    share = (free - 4) * (free - 2) * most / ((most - 4) * (most - 2) * free)
    size = (np.sqrt(square) + epsilon) / np.sqrt(1 - power2)
    step = number(learning_rate) * np.where(known, step * np.sqrt(share) / size, step)
    next_param, master = stepped(param, master_param, lambda p: p - step)
    like = beta1_pow, beta2_pow, rho, moment1, moment2
    return next_param, *_as_stored((power1, power2, spent, mean, square), like), master


@reference(Adadelta)
def _(
    param: Array,
    grad: Array,
    avg_squared_grad: Array,
    avg_squared_update: Array,
    learning_rate: Array,
    master_param: Array | None,
    *,
    rho: float,
    epsilon: float,
    **_: object,
) -> Results:
    gradient = widened(grad)
    square = _averaged(avg_squared_grad, gradient * gradient, rho)
    step = np.sqrt((widened(avg_squared_update) + epsilon) / (square + epsilon)) * gradient
    update = _averaged(avg_squared_update, step * step, rho)
    rate = number(learning_rate)
    next_param, master = stepped(param, master_param, lambda p: p - rate * step)
    return next_param, *_as_stored((square, update), (avg_squared_grad, avg_squared_update)), master


@reference(Rprop)
def _(
    param: Array,
    grad: Array,
    prev: Array,
    learning_rate: Array,
    master_param: Array | None,
    learning_rate_range: Array,
    etas: Array,
    **_: object,
) -> Results:
    gradient = widened(grad)
    (least, most), (shrink, grow) = (widened(x).reshape(2) for x in (learning_rate_range, etas))
    agreement = gradient * widened(prev)
    factor = np.where(agreement > 0, grow, np.where(agreement < 0, shrink, 1))
    gradient = np.where(agreement < 0, 0, gradient)
    rate = np.clip(widened(learning_rate) * factor, least, most)
    next_param, master = stepped(param, master_param, lambda p: p - np.sign(gradient) * rate)
    return next_param, *_as_stored((gradient, rate), (prev, learning_rate)), master


@reference(Asgd)
def _(
    param: Array,
    grad: Array,
    learning_rate: Array,
    d: Array,
    y: Array,
    n: Array,
    master_param: Array | None,
    **_: object,
) -> Results:
    gradient = widened(grad)
    total = widened(d) - widened(y) + gradient
    rate = number(learning_rate) / number(n)
    next_param, master = stepped(param, master_param, lambda p: p - rate * total)
    return next_param, *_as_stored((total, gradient), (d, y)), master


def _operands(s: SampleMaker, *shape: int, master: bool = False) -> list[Array | None]:
    made: dict[str, Callable[[], Array | None]] = {
        "p": lambda: s.tensor(*shape),
        "n": lambda: s.tensor(1),
        "2": lambda: s.array([0.5, 1.25]),
        "m": lambda: s.tensor(*shape, dtype=dt.float32) if master else None,
    }
    return [made[kind]() for kind in FORMS[s.definition]]


@samples(*FORMS)
def _(s: SampleMaker) -> Iterator[Sample]:
    attrs = {n: 0.01 for n in s.definition.attr_kinds if n == "epsilon"}
    yield s(*_operands(s, 2, 3), **attrs)
    yield s(*_operands(s), **attrs)
    yield s(*_operands(s, 0, 3), **attrs)
    if s.dtype in (dt.float16, dt.bfloat16):
        yield s(*_operands(s, 2, 3, master=True), multi_precision=True, **attrs)
    if s.definition is Asgd:
        yield s(*_operands(s, 3)[:5], s.array([4], dt.int64), None)
    if s.definition is Rprop:
        slopes = s.array([0.5, -0.25, 2.0]), s.array([1.0, 1.0, 0.0])
        rest = s.array([0.1, 0.2, 0.05]), None, s.array([0.01, 0.15]), s.array([0.5, 1.25])
        yield s(s.tensor(3), *slopes, *rest)
    if s.definition is Radam:
        late = [s.array([v] * 3) for v in (0.3, 0.99, 200.0)]
        early = [s.array([v] * 3) for v in (0.9, 0.999, 1.0)]
        yield s(s.tensor(3), s.tensor(3), s.tensor(1), *early, s.tensor(3), s.tensor(3), **attrs)
        yield s(s.tensor(3), s.tensor(3), s.tensor(1), *late, s.tensor(3), s.tensor(3), **attrs)


@bad_samples(*FORMS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    form = FORMS[s.definition]
    args = _operands(s, 2, 3)
    yield "C1", s(s.ints((2, 3), 0, 5), *args[1:])
    yield "C2", s(args[0], s.tensor(3, 2), *args[2:])
    at = form.index("2" if "2" in form else "n")
    yield "C3", s(*args[:at], s.tensor(3), *args[at + 1 :])
    if s.definition is Radam:
        yield "C4", s(*args, beta2=1.0)
