"""The loss of `warprnnt` against all alignments one by one, and its derivatives."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError

RNG = np.random.default_rng(5)
INPUT = RNG.normal(size=(2, 3, 3, 4))
LABEL = np.array([[1, 3], [2, 2]], np.int32)
STEPS, COUNTS = np.array([3, 2], np.int32), np.array([2, 1], np.int32)


def by_alignments(x: Any, blank: int) -> Any:
    """Each way to choose the emissions among the moves; the last move is a blank."""
    losses: list[float] = []
    for n, (steps, count) in enumerate(zip(STEPS, COUNTS, strict=True)):
        logs = x[n] - np.log(np.exp(x[n]).sum(-1, keepdims=True))
        total = -np.inf
        for emissions in combinations(range(steps + count - 1), count):
            t = u = 0
            way = 0.0
            for move in range(steps + count):
                emits = move in emissions
                way += logs[t, u, LABEL[n, u] if emits else blank]
                t, u = (t, u + 1) if emits else (t + 1, u)
            total = np.logaddexp(total, way)
        losses.append(-total)
    return np.array(losses)


def loss(x: Any, weight: float = 0.0) -> Any:
    found = ops.warprnnt(x, LABEL, STEPS, COUNTS, blank=0, fastemit_lambda=weight)
    return found[0] if isinstance(found, tuple) else found


def differences(function: Any, x: Any, step: float = 1e-5) -> Any:
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[place] = step
        out[place] = (function(x + move) - function(x - move)) / (2 * step)
    return out


def test_the_loss_is_that_of_all_alignments() -> None:
    np.testing.assert_allclose(np.asarray(loss(INPUT)), by_alignments(INPUT, 0), rtol=1e-12)


def test_the_derivative_is_the_slope() -> None:
    found = pirkit.grad(lambda x: ops.sum(loss(x), axis=(0,)))(INPUT)
    wanted = differences(lambda x: by_alignments(x, 0).sum(), INPUT)
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-8)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_second_derivative_is_the_slope_of_the_first(weight: float) -> None:
    seed = RNG.normal(size=INPUT.shape)
    first = pirkit.grad(lambda x: ops.sum(loss(x, weight), axis=(0,)))
    second = pirkit.grad(lambda x: ops.sum(first(x) * seed, axis=(0, 1, 2, 3)))
    wanted = differences(lambda x: (np.asarray(first(x)) * seed).sum(), INPUT)
    np.testing.assert_allclose(np.asarray(second(INPUT)), wanted, atol=1e-7)


def test_weights_of_emissions_change_the_derivative_alone() -> None:
    """Emissions count one and a half: the sum of both parts grows with the number of labels."""
    np.testing.assert_array_equal(np.asarray(loss(INPUT, 0.5)), np.asarray(loss(INPUT)))
    plain, more = (
        np.asarray(pirkit.grad(lambda x, w=w: ops.sum(loss(x, w), axis=(0,)))(INPUT))
        for w in (0.0, 0.5)
    )
    assert not np.allclose(plain, more)
    np.testing.assert_allclose(more.sum(-1), 0.0, atol=1e-12)


def test_lengths_beyond_the_storage_are_refused() -> None:
    with pytest.raises(PirkitError, match="labels"):
        ops.warprnnt(INPUT, LABEL, STEPS, COUNTS + 2)
