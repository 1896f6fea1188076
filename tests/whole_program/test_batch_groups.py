"""Programs with several sets of points: equations inside a domain, conditions on its boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    network,
    step,
    step_arguments,
)
from tests.whole_program.test_calls import whole


def column(points: int, start: float = -1.0) -> Any:
    return np.linspace(start, 1, points, dtype="float32")[:, None]


def loss(params: Any, x: Any, edges: Any, values: Any, more: Any) -> Any:
    one, zero = ops.full_like(x, 1.0), ops.full_like(x, 0.0)
    _, (_, second) = pirkit.jet(lambda y: network(params, y), (x,), ((one, zero),))
    known = ((network(params, edges) - values) ** 2).mean()
    slope = pirkit.jet(lambda y: network(params, y), (more,), ((ops.full_like(more, 1.0),),))[1][0]
    return ((second + 1.0) ** 2).mean() + known * 10.0 + (slope * slope).mean()


def arguments(inside: int, edges: int, more: int) -> tuple[Any, ...]:
    params = step_arguments(9, (1, 7, 5, 1))[0]
    return params, column(inside), column(edges), column(edges) * 0.5, column(more, 0.25)


@pytest.mark.parametrize(
    ("inside", "edges", "more"),
    [(40, 2, 1), (203, 3, 37), (515, 150, 150), (20, 300, 16), (5, 3, 2), (64, 64, 64)],
)
def test_losses_over_several_sets(inside: int, edges: int, more: int) -> None:
    given, function = arguments(inside, edges, more), pirkit.value_and_grad(loss)
    program = batch_lane_program(graph(function, given))
    assert_close(program(*leaves_of(given)), expected(function, given), 5e-5)


def test_all_are_told() -> None:
    program = batch_lane_program(graph(pirkit.value_and_grad(loss), arguments(203, 3, 37)))
    assert "batches of 203 and 3 and 37 rows" in program.summary


def test_results_that_are_rows_of_either_set() -> None:
    def both(x: Any, y: Any, w: Any) -> Any:
        p, q = ops.tanh(ops.matmul(x, w)), ops.matmul(y, w)
        return p, p.sum(0) + q.sum(0), q * 2.0, ops.matmul(q, w, transpose_y=True) + y

    rng = np.random.default_rng(3)
    x, y, w = (rng.standard_normal(s).astype("float32") for s in ((150, 3), (37, 3), (3, 6)))
    made, inputs = whole(both, x, y, w)
    assert made.native is not None
    assert not made.reasons
    assert_close(list(made.run(inputs).values()), expected(both, (x, y, w)), 2e-5)


def test_a_result_over_rows_that_another_set_reads_later() -> None:
    """Two sets of as many points: what the first writes the second must still read."""

    def both(x: Any, y: Any, w: Any) -> Any:
        return ops.matmul(x, w), ops.matmul(y, w) * 2.0

    rng = np.random.default_rng(4)
    x, y, w = (rng.standard_normal(s).astype("float32") for s in ((90, 4), (90, 4), (4, 4)))
    native = batch_lane_program(graph(both, (x, y, w)))
    wanted = native(x, y, w)
    for result in (0, 1):
        for source in (0, 1):
            held = [x.copy(), y.copy(), w]
            results = [np.empty_like(r) for r in wanted]
            results[result] = held[source]
            native.bind(held, results)()
            for a, b in zip(results, wanted, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_set_that_depends_on_sums_over_another_runs_after_it() -> None:
    def centred(x: Any, y: Any, w: Any) -> Any:
        return ops.matmul(y, w) - ops.matmul(x, w).mean(0)

    rng = np.random.default_rng(5)
    given = [rng.standard_normal(s).astype("float32") for s in ((90, 4), (20, 4), (4, 4))]
    native = batch_lane_program(graph(centred, given))
    assert "2 stages" in native.summary
    assert_close(native(*given), expected(centred, given), 2e-5)
    made, inputs = whole(centred, *given)
    assert_close(list(made.run(inputs).values()), expected(centred, given), 2e-5)


def test_estimated_time_counts_the_products_of_a_matmul() -> None:
    def work(width: int) -> int:
        arguments = step_arguments(96, (1, width, width, 1))
        return batch_lane_program(graph(step, arguments)).work

    assert work(128) > 8 * work(32)  # 16 times the products


def test_sums_over_one_set_are_one_reduction() -> None:
    """In a tree of additions they need not stand side by side."""

    def both(x: Any, y: Any, w: Any) -> Any:
        p, q = ops.tanh(ops.matmul(x, w)), ops.tanh(ops.matmul(y, w))
        across = [ops.matmul(a, b, transpose_x=True) for a, b in ((p, x), (q, y), (p * p, p))]
        return (across[0] + across[1]) + across[2], (p.sum(0) + q.sum(0)) + (p * x).sum(0)

    ones = np.ones(3, "float32")
    given = (
        column(70) * ones,
        column(33) * ones,
        np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3),
    )
    program = batch_lane_program(graph(both, given))
    # two of each set, of which one is of products
    assert "4 sums over the batch" in program.summary
    assert_close(program(*given), expected(both, given), 2e-5)
