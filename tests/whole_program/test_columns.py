"""Coordinates that are given one by one, put together as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.op_graph import NotNativeError
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    network,
    step_arguments,
)


def heat(params: Any, x: Any, t: Any) -> Any:
    one, zero = ops.full_like(x, 1.0), ops.full_like(x, 0.0)
    u, (ux, uxx) = pirkit.jet(
        lambda y: network(params, ops.concat([y, t], 1)), (x,), ((one, zero),)
    )
    _, (ut,) = pirkit.jet(lambda s: network(params, ops.concat([x, s], 1)), (t,), ((one,),))
    return ((ut + u * ux - uxx * 0.1) ** 2).mean()


def features(params: Any, x: Any, t: Any) -> Any:
    z = ops.concat([ops.sin(x * 3.0), ops.cos(x * 3.0)], -1)
    return ((network(params, z) - t) ** 2).mean()


def parts(params: Any, x: Any, t: Any) -> Any:
    u, v = ops.split(ops.concat([network(params, ops.concat([x, t], 1)), x], 1), [1, 1], 1)
    return ((u * v - t) ** 2).mean()


def numbers(params: Any, x: Any, t: Any) -> Any:
    along = ops.concat([ops.full_like(x, 2.0), ops.full_like(x, -1.0)], 1)
    return ((network(params, ops.concat([x, t], 1) * along + along) - x) ** 2).mean()


@pytest.mark.parametrize("function", [heat, features, parts, numbers])
@pytest.mark.parametrize("points", [3, 203])
def test_columns_of_several_values(function: Any, points: int) -> None:
    x = np.linspace(-1, 1, points, dtype="float32")[:, None]
    given = (step_arguments(9, (2, 6, 5, 1))[0], x, np.cos(x) + 1)
    step = pirkit.value_and_grad(function)
    assert_close(
        batch_lane_program(graph(step, given))(*leaves_of(given)), expected(step, given), 2e-5
    )


def test_a_result_of_joined_columns() -> None:
    x, y = np.arange(60, dtype="f").reshape(20, 3), np.arange(40, dtype="f").reshape(20, 2)
    program = batch_lane_program(graph(lambda x, y: ops.concat([y, x, y * 2.0], 1), (x, y)))
    np.testing.assert_array_equal(program(x, y)[0], np.concatenate([y, x, y * 2], 1))


def test_why_a_program_has_none() -> None:
    x = np.arange(60, dtype="f").reshape(20, 3)
    with pytest.raises(NotNativeError, match="makes batch rows of a value without a batch axis"):
        batch_lane_program(graph(lambda x, y: ops.concat([x, y], 0) * 2.0, (x, x + 1)))


def test_numbers_that_differ_from_row_to_row() -> None:
    def behind(x: Any, y: Any) -> Any:
        return y * ops.concat([ops.full_like(x, 1.0), ops.full_like(x, 2.0)], 0)

    x = np.zeros((20, 3), "float32")
    given = (x, np.concatenate([x, x]) + 1)
    np.testing.assert_array_equal(
        batch_lane_program(graph(behind, given))(*given)[0], expected(behind, given)[0]
    )
    x = np.zeros((20_000, 3), "float32")
    with pytest.raises(NotNativeError, match="one after the other"):
        batch_lane_program(graph(behind, (x, np.concatenate([x, x]))))
