"""Kernels that walk large arrays in blocks, against the rule of the op.

The arrays are larger than a block; once contiguous, so that they are cut flat, and once strided.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from pirkit.dialect.opdef import lookup
from pirkit.dialect.samples import Sample
from pirkit.runtime import bessel, special_functions
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.kernels.numpy.cache_blocks import BLOCK, walker
from pirkit.runtime.registry import CPU, KERNELS, Kernel
from tests.ops.calls import Call, complete
from tests.ops.test_kernels import check, run, strided

Array = np.ndarray[Any, Any]

RANDOM: Final = np.random.default_rng(5)
SHAPE: Final = (3, 130, 120)


def floats(low: float = -6.0, high: float = 6.0, dtype: dt.DType = dt.float32) -> Array:
    return RANDOM.uniform(low, high, SHAPE).astype(dtype.np)


def one() -> Array:
    return np.array([0.75], np.float32)


def odd() -> Array:
    """Numbers at and beyond the ends of what the functions tell apart."""
    values = [0.0, -0.0, 1e-30, 1e30, -1e30, 90.0, -90.0, np.inf, -np.inf, np.nan]
    return np.array(values, np.float32)


ACTIVATIONS: Final[dict[str, dict[str, Any]]] = {
    "sigmoid": {},
    "silu": {},
    "swish": {},
    "gelu": {},
    "elu": {"alpha": 0.5},
    "celu": {"alpha": 1.5},
    "selu": {},
    "softplus": {},
    "logsigmoid": {},
    "mish": {"lambda": 20.0},
    "softsign": {},
    "tanh_shrink": {},
    "stanh": {},
    "hardswish": {},
    "hardsigmoid": {},
    "relu": {},
    "relu6": {},
    "hardtanh": {},
    "leaky_relu": {},
    "softshrink": {},
    "hardshrink": {},
    "erf": {},
    "rsqrt": {},
    "round": {"decimals": 1},
}


def activations() -> Iterator[tuple[str, Sample]]:
    for op, attrs in ACTIVATIONS.items():
        yield op, Sample((floats(),), attrs)
        yield op, Sample((floats(dtype=dt.float64),), attrs)
        yield op, Sample((odd(),), attrs)
    yield "gelu", Sample((floats(),), {"approximate": True})
    yield "gelu", Sample((odd(),), {"approximate": True})
    yield "softplus", Sample((floats(),), {"beta": 2.0, "threshold": 1.0})
    yield "celu", Sample((odd(),), {"alpha": -1.5})
    yield "mish", Sample((floats(),), {"lambda": 1.0})


def choices() -> Iterator[tuple[str, Sample]]:
    condition = RANDOM.random(SHAPE) < 0.5
    for dtype in (dt.float32, dt.float16, dt.float64):
        yield "where", Sample((condition, floats(dtype=dtype), floats(dtype=dtype)))
    yield "where", Sample((condition[:1, :, :1], floats(), floats()[0, 0]))
    yield "cast", Sample((floats(-1e5, 1e5),), {"dtype": dt.int16})
    yield "cast", Sample((odd(),), {"dtype": dt.int32})


def steps() -> Iterator[tuple[str, Sample]]:
    def state(count: int) -> list[Array]:
        return [floats(0.1, 1.0) for _ in range(count)]

    param, grad = state(2)
    yield "sgd_", Sample((param, one(), grad))
    for is_nesterov in (False, True):
        attrs = {"mu": 0.9, "use_nesterov": is_nesterov}
        decay = {"regularization_method": "l2_decay", "regularization_coeff": 0.5}
        yield "momentum_", Sample((*state(3), one()), attrs)
        yield "momentum_", Sample((*state(3), one()), {**attrs, **decay})
    moments = (*state(2), None, one(), one())
    yield "adam_", Sample((param, grad, one(), *moments), {"epsilon": 0.01})
    yield "adamw_", Sample((param, grad, one(), *moments), {"epsilon": 0.01, "with_decay": True})
    moments = (*state(3), one(), one())
    yield "adam_", Sample((param, grad, one(), *moments), {"epsilon": 0.01, "amsgrad": True})
    yield "rmsprop_", Sample((*state(4), one()), {"epsilon": 0.01, "momentum": 0.5})
    yield "adagrad_", Sample((*state(3), one()), {"epsilon": 0.01})


EVERY: Final = [
    complete(lookup(f"pd_op.{op}"), sample)
    for family in (activations, choices, steps)
    for op, sample in family()
]


def kernel_of(call: Call) -> Kernel:
    dtype = first_dtype(call.metas)
    held = KERNELS.kernels(call.definition.base.name)
    (kernel,) = (k for k in held if k.key.dtype is dtype and k.key.backend == CPU)
    return kernel


@pytest.mark.parametrize("call", EVERY, ids=str)
def test_large_arrays_agree_with_the_reference(call: Call) -> None:
    kernel = kernel_of(call)
    expected = call.compute()
    for args in (call.args, tuple(map(strided, call.args))):
        found = run(kernel, call, args)
        if found is not None:
            check(found, expected, kernel, call)


@pytest.mark.parametrize(
    "shape", [(BLOCK + 1,), (1, BLOCK + 1), (BLOCK + 1, 1), (2, 3, 2 * BLOCK), (3, 5, 7000)]
)
def test_walk_visits_each_element_once(shape: tuple[int, ...]) -> None:
    def count(x: Array) -> None:
        x += 1

    walk = walker(Binding((), ()), shape, 0)
    for array in (np.zeros(shape, np.int32), np.zeros((*shape, 2), np.int32)[..., 0]):
        walk(count, array)
        assert (array == 1).all()


def test_erf_in_single_precision_is_as_accurate_as_the_type() -> None:
    x = np.concatenate([np.linspace(-6, 6, 20001), np.logspace(-30, 30, 200)]).astype(np.float32)
    found = np.empty_like(x)
    with np.errstate(over="ignore"):
        special_functions.erf_into(x, found, np.empty_like(x))
    expected = special_functions.erf(x.astype(np.float64))
    assert np.allclose(found, expected, rtol=4e-7, atol=0.0)


def test_special_functions_at_the_edges_of_their_range() -> None:
    """Next to a pole `sin(pi * x)` loses what `pi * x` was rounded by."""
    near = np.array([2.0**-30 - 1, -1 - 2.0**-30])
    distance = near + 1
    expected = -np.log(np.abs(distance)) + distance * (1 - np.euler_gamma)
    np.testing.assert_allclose(special_functions.lgamma(near), expected, rtol=1e-15)
    expected = 1 - np.euler_gamma - 1 / distance
    np.testing.assert_allclose(special_functions.digamma(near), expected, rtol=1e-15)
    assert bessel.bessel_i(np.array([1.7e308]), 0, scaled=False) == np.inf
