"""Rows that depend on sums over all rows, or on rows of another batch, run in lanes in stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program import batch_partition
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program, describe
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.lowering.whole_program.scheduling import without_views
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    network,
    step_arguments,
)

NODES = 6


def root(params: Any, x: Any, y: Any) -> Any:
    """A root of a mean: the cotangent of each row depends on the loss."""
    return ops.sqrt(((network(params, x) - y) ** 2).mean())


def quotient(params: Any, x: Any, y: Any) -> Any:
    """Rayleigh's quotient, and a second loss that divides by it."""
    u = network(params, x)
    ratio = (u * u * y).mean() / (u * u).mean()
    return ratio + ((u - ratio) ** 2).mean()


def centred(params: Any, x: Any, y: Any) -> Any:
    """Two normalisations over the batch, one behind the other."""
    h = ops.tanh(ops.matmul(x, params[0][0]) + params[0][1])
    h = (h - h.mean(0)) / ops.sqrt(((h - h.mean(0)) ** 2).mean(0) + 1e-3)
    out = ops.matmul(h, params[1][0]) + params[1][1]
    return ((ops.tanh(out - out.mean()) - y) ** 2).mean()


def integral(params: Any, x: Any, y: Any) -> Any:
    """Rows of one batch are values of the rows of another one."""
    nodes = (x * ops.full_like(params[0][0], 0.25)).reshape((-1, 1))
    inner = network(params, nodes).reshape((-1, NODES)) * ops.exp(-x)
    return ((network(params, x) - inner.sum(1, keepdim=True) + y) ** 2).mean()


@pytest.mark.parametrize("function", [root, quotient, centred, integral])
@pytest.mark.parametrize("points", [3, 37, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gradient_in_stages(function: Any, points: int, dtype: str) -> None:
    x = np.linspace(-1, 1, points, dtype=dtype)[:, None]
    widths = (1, 6, 1) if function is centred else (1, 6, 5, 1)
    given = (step_arguments(9, widths, dtype)[0], x, np.cos(x))
    step = pirkit.value_and_grad(function)
    made = graph(step, given)
    assert "stages" in describe(made)
    tolerance = 1e-12 if dtype == "float64" else 5e-5
    for fast_math in (False, True):
        program = batch_lane_program(graph(step, given), fast_math=fast_math)
        assert_close(program(*leaves_of(given)), expected(step, given), tolerance)


def results(params: Any, x: Any, y: Any) -> Any:
    """Results of each stage: rows, sums, one twice, other shapes, and what nothing computes."""
    u = network(params, x)
    share = u / u.sum()
    return (
        share.reshape((1, -1)),
        u,
        share,
        u.reshape((-1, 5)),
        (share * y).sum(),
        u,
        x.reshape((5, -1)),
        y,
        u.sum(),
    )


def test_results_of_each_stage() -> None:
    x = np.linspace(-1, 1, 40, dtype="float32")[:, None]
    given = (step_arguments(9, (1, 6, 5, 1))[0], x, np.cos(x))
    program = batch_lane_program(graph(results, given))
    assert "3 stages" in program.summary
    assert_close(program(*leaves_of(given)), expected(results, given), 5e-5)


def update(params: Any, x: Any, y: Any) -> Any:
    """A step whose last stage still reads what an earlier one updates."""
    scaled = y * 2.0 + ops.tanh(x)
    u = network(params, x)
    return scaled, u * (u * u).mean() + y, ((u - y) ** 2).mean()


def test_a_result_shares_no_input_that_a_later_stage_reads() -> None:
    x = np.linspace(-1, 1, 40, dtype="float32")[:, None]
    given = (step_arguments(9, (1, 6, 5, 1))[0], x, np.cos(x))
    program = batch_lane_program(graph(update, given))
    assert "stages" in program.summary
    arrays = [np.array(a) for a in leaves_of(given)]
    for result, source in sorted(program.in_place):
        if result == 2:
            continue
        inputs = [a.copy() for a in arrays]
        outputs = [np.empty(m.shape, m.dtype.np) for m in program.results]
        outputs[result] = inputs[source]
        program.bind(inputs, outputs)()
        assert_close(outputs, expected(update, given), 5e-5)
    assert program.in_place


def cheap(params: Any, x: Any, y: Any) -> Any:
    """The second stage reads `u`, and a row that takes three operations on it."""
    u = network(params, x)
    near = (u - y) * y + u
    return (near / near.mean() + ops.tanh(u)).sum(0)


def costly(params: Any, x: Any, y: Any) -> Any:
    u = network(params, x)
    near = ops.exp(u - y)
    return (near / near.mean() + ops.tanh(u)).sum(0)


def alone(params: Any, x: Any, y: Any) -> Any:
    """Nothing else reads `u` in the second stage."""
    u = network(params, x)
    near = (u - y) * y
    return (near / near.mean() + y).sum(0)


@pytest.mark.parametrize(
    ("function", "most", "wanted"),
    [
        (cheap, 3, {"add"}),
        (cheap, 2, {"add", "add of multiply"}),
        (costly, 8, {"add", "exp"}),
        (alone, 8, {"multiply"}),
    ],
)
def test_cheap_rows_are_computed_again(
    function: Any, most: int, wanted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are handed over: not those that few operations make of others."""
    monkeypatch.setattr(batch_partition, "_MAX_REPEATED", most)
    x = np.linspace(0.5, 1, 40, dtype="float32")[:, None]
    given = (step_arguments(9, (1, 6, 5, 1))[0], x, np.cos(x))
    whole = without_views(graph(function, given))
    first, second = batch_partition.stages_of(whole)[0]
    made = {op.out: op for op in first.ops}
    found: set[str] = set()
    for value in {*first.outputs} & {*second.inputs} & (first.rows or set()):
        op = made[value]
        parts = {made[a].name for a in op.args if a in made} - {"matmul"}
        found.add(" of ".join([op.name, *sorted(parts - {"add", "subtract", op.name})]))
    assert found == wanted
    assert_close(batch_lane_program(whole)(*leaves_of(given)), expected(function, given), 5e-5)


def test_what_no_stage_computes_in_lanes_is_refused() -> None:
    def mixed(params: Any, x: Any, y: Any) -> Any:
        u = network(params, x)
        return ops.matmul(u, u, transpose_y=True).sum() + (y / y.sum()).sum()

    x = np.linspace(-1, 1, 12, dtype="float32")[:, None]
    given = (step_arguments(9, (1, 6, 5, 1))[0], x, np.cos(x))
    with pytest.raises(NotNativeError):
        batch_lane_program(graph(mixed, given))


def test_rows_without_a_matmul_stay_in_kernels() -> None:
    x = np.linspace(1, 2, 40, dtype="float32")
    with pytest.raises(NotNativeError, match="a row depends on a sum over all rows"):
        batch_lane_program(graph(lambda x: x / x.sum(), (x,)))


def test_wide_layers_stay_in_kernels() -> None:
    x = np.linspace(-1, 1, 12, dtype="float32")[:, None]
    given = (step_arguments(9, (1, 65, 5, 1))[0], x, np.cos(x))
    with pytest.raises(NotNativeError, match="a row depends on a sum over all rows"):
        batch_lane_program(graph(pirkit.value_and_grad(root), given))
