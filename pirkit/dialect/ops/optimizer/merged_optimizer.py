"""Optimizer steps for lists of parameters: one op for a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pirkit.dialect.opdef import (
    WRITE,
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.optimizer.adam import adam_step
from pirkit.dialect.ops.optimizer.optimizer import check_number, check_parameter, momentum_step
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array
from pirkit.runtime.meta import TensorMeta, VecMeta

KIND = "update"

Lists = list[Array] | None


@op
class MergedAdam:
    """A step of `adam_` for each parameter of a list.

    C1: the parameters are float tensors.
    C2: each gradient and moment has the shape of its parameter.
    C3: the learning rates and the powers have one element.
    C4: the lists are of one length, and not empty.
    C5: `amsgrad` has a `moment2_max`.
    """

    name = "pd_op.merged_adam_"
    signature = (
        "param[], grad[], learning_rate[], moment1[], moment2[], moment2_max[]?, beta1_pow[], "
        "beta2_pow[], master_param[]?, beta1: scalar = 0.9, beta2: scalar = 0.999, "
        "epsilon: scalar = 1e-8 ; multi_precision: bool = False, "
        "use_global_beta_pow: bool = False, amsgrad: bool = False "
        "-> param_out[], moment1_out[], moment2_out[], moment2_max_out[]?, beta1_pow_out[], "
        "beta2_pow_out[], master_param_out[]?"
    )
    dtypes = dt.FLOATS
    effects = WRITE
    domain = (0.1, 0.9)
    inplace = {
        f"{name}_out": name
        for name in (
            "param", "moment1", "moment2", "moment2_max", "beta1_pow", "beta2_pow", "master_param",
        )
    }  # fmt: skip


@op
class MergedMomentum:
    """A step of `momentum_` for each parameter of a list.

    `regularization_method` and `regularization_coeff` have an element for each, or none.

    C1: the parameters are float tensors.
    C2: each gradient and velocity has the shape of its parameter.
    C3: the learning rates have one element.
    C4: the lists are of one length, and not empty; there may be one learning rate for all.
    """

    name = "pd_op.merged_momentum_"
    signature = (
        "param[], grad[], velocity[], learning_rate[], master_param[]? ; "
        "mu: f32, use_nesterov: bool = False, regularization_method: str[] = [], "
        "regularization_coeff: f32[] = [], multi_precision: bool = False, "
        "rescale_grad: f32 = 1.0 -> param_out[], velocity_out[], master_param_out[]?"
    )
    dtypes = dt.FLOATS
    effects = WRITE
    domain = (0.1, 2.0)
    inplace = {"param_out": "param", "velocity_out": "velocity", "master_param_out": "master_param"}


@infer_meta(MergedAdam)
def _(
    param: VecMeta,
    grad: VecMeta,
    learning_rate: VecMeta,
    moment1: VecMeta,
    moment2: VecMeta,
    moment2_max: VecMeta | None,
    beta1_pow: VecMeta,
    beta2_pow: VecMeta,
    master_param: VecMeta | None,
    *,
    amsgrad: bool,
    **_: object,
) -> tuple[VecMeta | None, ...]:
    _check(param, grad, moment1, moment2, moment2_max, master_param)
    for each in (learning_rate, beta1_pow, beta2_pow):
        _check_numbers(each, len(param))
    require(not amsgrad or moment2_max is not None, "C5", "amsgrad without moment2_max")
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


@infer_meta(MergedMomentum)
def _(
    param: VecMeta,
    grad: VecMeta,
    velocity: VecMeta,
    learning_rate: VecMeta,
    master_param: VecMeta | None,
    *,
    regularization_method: Sequence[str],
    regularization_coeff: Sequence[float],
    **_: object,
) -> tuple[VecMeta | None, ...]:
    _check(param, grad, velocity, master_param)
    _check_numbers(learning_rate, 1 if len(learning_rate) == 1 else len(param))
    for listed in (regularization_method, regularization_coeff):
        fits = len(listed) in (0, len(param))
        require(fits, "C4", f"regularization {list(listed)} for {len(param)} parameters")
    return param, velocity, master_param


def _check_numbers(given: VecMeta, count: int) -> None:
    require(len(given) == count, "C4", f"{len(given)} numbers for {count} parameters")
    for each in given.items:
        check_number("learning rate or power", each)


def _check(param: VecMeta, *same_shaped: VecMeta | None) -> None:
    count = len(param)
    require(count > 0, "C4", "no parameter")
    for others in same_shaped:
        if others is None:
            continue
        require(len(others) == count, "C4", f"lists of {len(others)} and {count} tensors")
        for one, other in zip(param.items, others.items, strict=True):
            check_parameter(one, other)


def _unsized(x: VecMeta | None) -> VecMeta | None:
    return x and VecMeta((TensorMeta((0,), dt.float32),) * len(x))


@paddle_meta(MergedAdam)
def _(*operands: VecMeta | None, **_: object) -> tuple[VecMeta | None, ...]:
    """Paddle gives the results in programs neither sizes nor element types."""
    written = (0, 3, 4, 5, 6, 7, 8)
    return tuple([_unsized(operands[i]) for i in written])


@paddle_meta(MergedMomentum)
def _(*operands: VecMeta | None, **_: object) -> tuple[VecMeta | None, ...]:
    """Paddle gives the results in programs neither sizes nor element types."""
    return tuple([_unsized(operands[i]) for i in (0, 2, 4)])


def _each(
    step: Callable[..., Sequence[Any]], lists: Sequence[Lists], settings: Sequence[dict[str, Any]]
) -> tuple[Lists, ...]:
    """The results of single steps by result; an absent list is absent in every step.

    A list of one element (a learning rate) serves all parameters.
    """
    count = len(lists[0] or ())
    stretched = [x * count if x and len(x) == 1 else x for x in lists]
    found = [
        step(*[None if x is None else x[i] for x in stretched], **settings[i]) for i in range(count)
    ]
    results = [list(r) for r in zip(*found, strict=True)]
    return tuple([None if r[0] is None else r for r in results])


@reference(MergedAdam)
def _(*lists: Lists, **attrs: Any) -> tuple[Lists, ...]:
    count = len(lists[0] or ())
    return _each(adam_step, (*lists, None), [attrs] * count)


@reference(MergedMomentum)
def _(
    *lists: Lists,
    regularization_method: Sequence[str],
    regularization_coeff: Sequence[float],
    **attrs: Any,
) -> tuple[Lists, ...]:
    count = len(lists[0] or ())
    decays = zip(
        regularization_method or [""] * count, regularization_coeff or [0.0] * count, strict=True
    )
    return _each(
        momentum_step,
        lists,
        [{**attrs, "regularization_method": m, "regularization_coeff": c} for m, c in decays],
    )


def _two(s: SampleMaker) -> list[Array]:
    return [s.tensor(2, 3), s.tensor(4)]


@samples(MergedAdam)
def _(s: SampleMaker) -> Iterator[Sample]:
    rates, powers = [s.tensor(1), s.tensor(1)], [s.tensor(1), s.tensor(1)]
    state = _two(s), _two(s), rates, _two(s), _two(s)
    yield s(*state, None, powers, powers, epsilon=0.01)
    yield s(*state, _two(s), powers, powers, epsilon=0.01, amsgrad=True)


@samples(MergedMomentum)
def _(s: SampleMaker) -> Iterator[Sample]:
    rates = [s.tensor(1), s.tensor(1)]
    yield s(_two(s), _two(s), _two(s), rates, mu=0.9)
    methods = {"regularization_method": ("l2_decay", ""), "regularization_coeff": (0.25, 0.0)}
    yield s(_two(s), _two(s), _two(s), rates[:1], mu=0.9, use_nesterov=True, **methods)


@bad_samples(MergedMomentum)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, rate = _two(s), [s.tensor(1)]
    integers = [s.ints((2,), 0, 5)]
    yield "C1", s(integers, integers, integers, rate, mu=0.9)
    yield "C2", s(x, x[::-1], x, rate, mu=0.9)
    yield "C3", s(x, x, x, [s.tensor(2)], mu=0.9)
    yield "C4", s(x, x[:1], x, rate, mu=0.9)
    yield "C4", s([], [], [], rate, mu=0.9)


@bad_samples(MergedAdam)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, ones, integers = _two(s), [s.tensor(1), s.tensor(1)], [s.ints((2,), 0, 5)]
    one = ones[:1]
    yield "C1", s(integers, integers, one, integers, integers, None, one, one)
    yield "C2", s(x, x[::-1], ones, x, x, None, ones, ones)
    yield "C3", s(x, x, [s.tensor(2), s.tensor(2)], x, x, None, ones, ones)
    yield "C4", s(x, x, ones, x, x, None, one, ones)
    yield "C4", s([], [], [], [], [], None, [], [])
    yield "C5", s(x, x, ones, x, x, None, ones, ones, amsgrad=True)
