"""Optimizer steps for gradients of some rows, beside the step of the dense gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from pirkit import ops, tensor
from pirkit.diag.errors import RuntimeFault, UnsupportedError, UsageError
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.selected_rows import SelectedRows

Array = np.ndarray[Any, Any]
HEIGHT: Final = 7
RATE: Final = np.array([0.1], np.float32)
POWERS: Final = (np.array([0.9], np.float32), np.array([0.999], np.float32))
NUMBERS: Final = ([1, 3, 1], [3, 5, 5], [0, 1, 2])


class State:
    """A parameter, and room for three tensors of its shape and two powers."""

    def __init__(self, dtype: Any = np.float32) -> None:
        start = np.arange(3 * HEIGHT).reshape(HEIGHT, 3) / 10 - 1
        self.param = tensor(start.astype(dtype))
        self.moments = [tensor(np.zeros((HEIGHT, 3), dtype)) for _ in range(3)]
        self.powers = [tensor(p.copy()) for p in POWERS]

    def arrays(self) -> list[Array]:
        return [np.asarray(t) for t in (self.param, *self.moments, *self.powers)]


def gradient(step: int, dtype: Any = np.float32) -> SelectedRows:
    value = (np.arange(9).reshape(3, 3) / 5 - 0.7 + step * 0.1).astype(dtype)
    return SelectedRows(NUMBERS[step], tensor(value), HEIGHT)


Call = Callable[[State, Any], Any]


def sgd(s: State, grad: Any) -> Any:
    return ops.sgd_(s.param, RATE, grad)


def momentum(s: State, grad: Any) -> Any:
    return ops.momentum_(s.param, grad, s.moments[0], RATE, mu=0.9)


def nesterov(s: State, grad: Any) -> Any:
    return ops.momentum_(
        s.param, grad, s.moments[0], RATE, mu=0.9, use_nesterov=True,
        regularization_method="l2_decay", regularization_coeff=0.05,
    )  # fmt: skip


def adagrad(s: State, grad: Any) -> Any:
    return ops.adagrad_(s.param, grad, s.moments[0], RATE, epsilon=1e-3)


def rmsprop(s: State, grad: Any) -> Any:
    square, moment, _ = s.moments
    return ops.rmsprop_(s.param, square, grad, moment, RATE, epsilon=1e-3, decay=0.95)


def adam(s: State, grad: Any, **attrs: Any) -> Any:
    mean, square, _ = s.moments
    return ops.adam_(s.param, grad, RATE, mean, square, None, *s.powers, epsilon=1e-3, **attrs)


def amsgrad(s: State, grad: Any) -> Any:
    return ops.adam_(
        s.param, grad, RATE, *s.moments, *s.powers, epsilon=1e-3, amsgrad=True
    )  # fmt: skip


def adamw(s: State, grad: Any, **attrs: Any) -> Any:
    mean, square, _ = s.moments
    attrs = {"epsilon": 1e-3, "coeff": 0.1, "with_decay": True, **attrs}
    return ops.adamw_(s.param, grad, RATE, mean, square, None, *s.powers, **attrs)


EVERY: Final = (sgd, momentum, nesterov, adagrad, rmsprop, adam, amsgrad, adamw)

PADDLE: Final = {
    "sgd": ([-0.69, -0.65, -0.61], [0.44, 0.5, 0.56]),
    "momentum": ([-0.6558, -0.6842, -0.7126], [0.386, 0.41, 0.434]),
    "nesterov": ([-0.623318, -0.700815, -0.778312], [0.318534, 0.306866, 0.295198]),
    "adagrad": ([-0.64502, -0.782477, -0.66377], [0.400166, 0.5001, 0.600071]),
    "rmsprop": ([-0.508798, -1.316152, -1.225196], [0.064714, 0.157193, 0.255051]),
}
"""Rows 1 and 5 of the parameter after three steps in Paddle 3.3.1."""


def moved(call: Call, *, dense: bool = False, dtype: Any = np.float32) -> State:
    state = State(dtype)
    for step in range(3):
        grad = gradient(step, dtype)
        call(state, grad.to_dense() if dense else grad)
    return state


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("call", EVERY)
def test_rows_mean_what_the_dense_gradient_means(call: Call, dtype: Any) -> None:
    exact = 2e-3 if dtype == np.float16 else 1e-6
    rows, dense = moved(call, dtype=dtype), moved(call, dense=True, dtype=dtype)
    for ours, theirs in zip(rows.arrays(), dense.arrays(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=exact, atol=exact)


@pytest.mark.parametrize("call", [c for c in EVERY if c.__name__ in PADDLE])
def test_numbers_of_paddle(call: Call) -> None:
    found = np.asarray(moved(call).param)[[1, 5]]
    np.testing.assert_allclose(found, PADDLE[call.__name__], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", [adam, adamw])
def test_the_lazy_mode_leaves_other_rows_alone(call: Any) -> None:
    lazy, dense = State(), State()
    call(lazy, gradient(0), lazy_mode=True)
    call(dense, gradient(0).to_dense())
    before = State().arrays()
    decay = np.float32(1 - 0.1 * 0.1 if call is adamw else 1)
    for number, (ours, theirs, first) in enumerate(
        zip(lazy.arrays()[:3], dense.arrays()[:3], before[:3], strict=True)
    ):
        np.testing.assert_allclose(ours[[1, 3]], theirs[[1, 3]], rtol=1e-6)
        others = [0, 2, 4, 5, 6]
        np.testing.assert_array_equal(ours[others], first[others] * (decay if not number else 1))
    np.testing.assert_array_equal(lazy.arrays()[4], dense.arrays()[4])


@pytest.mark.parametrize("call", [adam, adamw])
def test_a_step_that_is_left_out_changes_nothing(call: Any) -> None:
    state = State()
    call(state, gradient(0), lazy_mode=True, skip_update=np.array([True]))
    for ours, first in zip(state.arrays(), State().arrays(), strict=True):
        np.testing.assert_array_equal(ours, first)


def test_a_step_gives_and_counts_what_it_writes() -> None:
    state = State()
    param, velocity = momentum(state, gradient(0))
    assert param is state.param
    assert velocity is state.moments[0]
    assert (param.version, velocity.version) == (1, 1)
    assert sgd(state, gradient(0)) is state.param


def test_a_gradient_without_rows() -> None:
    for call in EVERY:
        state = State()
        call(state, SelectedRows([], tensor(np.zeros((0, 3), np.float32)), HEIGHT))
        assert np.isfinite(state.arrays()[0]).all()


def test_what_does_not_fit_is_refused() -> None:
    state = State()
    with pytest.raises(UsageError, match="a gradient of shape"):
        sgd(state, SelectedRows([0], tensor(np.zeros((1, 3), np.float32)), 5))
    with pytest.raises(UnsupportedError, match="only the gradient"):
        ops.sgd_(gradient(0), RATE, state.param)
    with pytest.raises(UnsupportedError, match="takes no selected rows"):
        momentum(state, gradient(0, np.float64))
    fixed = np.zeros((HEIGHT, 3), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeFault, match="read-only"):
        ops.sgd_(DenseTensor(fixed), RATE, gradient(0))
