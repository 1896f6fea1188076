"""Convolutions do what a step alone does with their results, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from tests.whole_program.test_convolutions import whole_of
from tests.whole_program.test_matmul_summands import Array, check_steps, normal


def blocked(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, paddings=[1, 2], strides=[1, 2])


def nest(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, paddings=[0, 2])


def narrow(x: Any, w: Any) -> Any:
    return ops.conv2d(x, w, groups=5, paddings=[1, 1])


SIGNAL = normal(2, 3, 1, 70), normal(9, 3, 1, 5)
IMAGE = normal(2, 20, 9, 21), normal(17, 20, 3, 3)
"""Of more channels than a panel has, so that sums are added up in parts."""
GROUPS = normal(2, 10, 9, 11), normal(15, 2, 3, 2)


def silu(x: Any) -> Any:
    return x * ops.sigmoid(x)


PROGRAMS: dict[str, tuple[Any, tuple[Array, ...], int]] = {
    "a bias": (lambda x, w, b: blocked(x, w) + b, (*IMAGE, normal(17, 1, 1)), 2),
    "a bias and an activation": (
        lambda x, w, b: ops.relu(blocked(x, w) + b),
        (*IMAGE, normal(17, 1, 1)),
        2,
    ),
    "a scale and a shift": (
        lambda x, w, a, b: silu(blocked(x, w) * a + b),
        (*IMAGE, normal(17, 1, 1), normal(1, 17, 1, 1)),
        2,
    ),
    "a bias of short sums": (
        lambda x, w, b: ops.tanh(nest(x, w) + b),
        (*SIGNAL, normal(9, 1, 1)),
        1,
    ),
    "a summand of short sums": (
        lambda x, w, r: ops.relu(nest(x, w) + r),
        (*SIGNAL, normal(2, 9, 1, 70)),
        1,
    ),
    "a bias of narrow groups": (
        lambda x, w, b: ops.relu(narrow(x, w) + b),
        (*GROUPS, normal(15, 1, 1)),
        1,
    ),
    "a summand for each position": (
        lambda x, w, r: blocked(x, w) + r,
        (*IMAGE, normal(9, 12)),
        3,
    ),
    "the sum twice": (lambda x, w: ops.relu(blocked(x, w)) + blocked(x, w), IMAGE, 2),
    "what is computed later": (
        lambda x, w, b: nest(x, w) + ops.cumsum(b, 0) * 1.0,
        (*SIGNAL, normal(9, 1, 1)),
        3,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_reference(name: str) -> None:
    """In as many steps: packing the filter is one, and what follows sums is none."""
    check_steps(*PROGRAMS[name])


def test_a_convolution_that_is_a_result_stays() -> None:
    def both(x: Any, w: Any, b: Any) -> Any:
        made = nest(x, w)
        return made, ops.relu(made + b)

    given = *SIGNAL, normal(9, 1, 1)
    whole, exact = whole_of(both, given), both(*map(pirkit.from_numpy, given))
    assert whole.native is not None
    for found, wanted in zip(whole.native(*given), exact, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)
