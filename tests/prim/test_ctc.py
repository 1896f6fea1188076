"""Connectionist temporal classification: what is too long, and what is not known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pirkit.dialect.build import Value
from tests.prim.differentiation import Array, Traced

RNG = np.random.default_rng(3)


def traced(inputs: list[Array], known: bool) -> tuple[Traced, Value, Value]:
    t = Traced(inputs, known=known)
    logits, label, steps, lengths = t.args
    loss, _ = t.b.warpctc(logits, label, steps, lengths, blank=0, norm_by_times=False)
    return t, logits, loss


def slope(inputs: list[Array], pipeline: str, *, known: bool = True) -> tuple[Array, Array]:
    """The loss and the derivative of its sum."""
    t, _, loss = traced(inputs, known)
    value = t.run({"loss": loss}, pipeline)["loss"]
    t, logits, loss = traced(inputs, known)
    (gradient,) = t.grad(t.b.sum(loss, (0, 1)), [logits])
    assert gradient is not None
    return value, t.run({"gradient": gradient}, pipeline)["gradient"]


def inputs(time: int, label: list[list[int]], steps: list[int], lengths: list[int]) -> list[Array]:
    return [
        RNG.normal(size=(time, len(steps), 4)),
        np.array(label, np.int32),
        np.array(steps),
        np.array(lengths),
    ]


def likelihood(logits: Array, label: list[int]) -> float:
    """The probability of a label, by trying all ways."""
    shares: Array = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    total = 0.0
    for way in product(range(logits.shape[1]), repeat=len(logits)):
        merged = [k for i, k in enumerate(way) if k and (i == 0 or way[i - 1] != k)]
        if merged == label:
            total += float(np.prod([shares[t, k] for t, k in enumerate(way)]))
    return total


@pytest.mark.parametrize("pipeline", ["", "decompose"])
def test_the_loss_is_the_sum_over_all_ways(pipeline: str) -> None:
    given = inputs(4, [[1, 1], [3, 2], [2, 0]], [4, 3, 4], [2, 2, 1])
    loss, _ = slope(given, pipeline)
    wanted = [
        likelihood(given[0][:n, i], given[1][i, :m].tolist())
        for i, (n, m) in enumerate(zip(given[2], given[3], strict=True))
    ]
    np.testing.assert_allclose(loss[:, 0], -np.log(wanted), rtol=1e-12)


def test_labels_that_do_not_fit_cost_nothing() -> None:
    for pipeline in ("", "decompose"):
        loss, gradient = slope(inputs(2, [[1, 1], [1, 2]], [2, 1], [2, 2]), pipeline)
        assert not loss.any()
        assert not gradient.any()


def test_the_derivative_does_not_need_to_know_sizes() -> None:
    given = inputs(5, [[1, 2], [3, 3]], [5, 4], [2, 2])
    for one, other in zip(slope(given, "decompose"), slope(given, "", known=False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)


def test_what_is_read_is_kept_where_an_op_is_taken_apart_on_trial() -> None:
    given = inputs(3, [[1, 2]], [3], [2])
    found: list[Array] = []
    for pipeline in ("", "decompose{profitable-only=true}"):
        t = Traced(given)
        _, slope = t.b.warpctc(*t.args, blank=0, norm_by_times=False)
        found.append(t.run({"slope": slope}, pipeline)["slope"])
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-14)


def test_long_sequences_stay_finite() -> None:
    given = inputs(60, [[1, 2, 3] * 4], [60], [12])
    given[0] = given[0] * 50
    for pipeline in ("", "decompose"):
        loss, gradient = slope(given, pipeline)
        assert np.isfinite(loss).all()
        np.testing.assert_allclose(gradient.sum(axis=-1), 0, atol=1e-9)
