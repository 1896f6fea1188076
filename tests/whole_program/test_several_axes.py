"""Rows of several axes as rows of one: how many columns, terms and moves there may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program import several_axes
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.lowering.whole_program.several_axes import runs, with_rows_of_one_axis
from tests.whole_program.networks import assert_close, expected, graph

X = np.random.default_rng(5).standard_normal((37, 6))
W = np.random.default_rng(6).standard_normal((6, 12))


def turned(x: Any, w: Any) -> Any:
    """Two transposed matrices at each point, and a sum of four columns of them."""
    h = ops.reshape(ops.tanh(x @ w), [37, 3, 4])
    across = ops.transpose(ops.sin(ops.transpose(h, perm=[0, 2, 1])), perm=[0, 2, 1])
    return (across * h).sum(2)


def test_numbers_listed_by_the_program() -> None:
    """Such a list may also be data beside rows of several axes, as the counts of `equal_all`."""

    def equal(x: Any, y: Any) -> Any:
        return ops.equal_all(ops.reshape(x, [2, 3]), ops.reshape(y, [2, 3]))

    other = np.where(np.arange(37)[:, None] == 5, X + 1, X)
    found = pirkit.jit(pirkit.vmap(equal), fast_math=True)(X, other)
    assert found.tolist() == [k != 5 for k in range(37)]


def rewritten() -> list[Op] | None:
    """The operations on matrices; None if the program is left as it is."""
    given = graph(turned, (X, W))
    made = with_rows_of_one_axis(given)
    return None if made is given else made.ops


def test_rows_of_several_axes_are_matrices() -> None:
    assert rewritten() is not None
    program = batch_lane_program(graph(turned, (X, W)))
    assert_close(program(X, W), expected(turned, (X, W)), 1e-12)


def _moves(found: list[Op]) -> int:
    return sum(sum(1 for _ in runs(op.attrs["columns"])) for op in found if op.name == "choose")


BOUNDS: dict[str, Callable[[list[Op]], int]] = {
    "_MAX_RUNS": _moves,
    "_MAX_COLUMNS": lambda found: 12,
    "_MAX_PARTS": lambda found: 4,
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_program_beyond_a_bound_is_left_as_it_is(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rewritten()
    assert found is not None
    most = BOUNDS[bound](found)
    monkeypatch.setattr(several_axes, bound, most)
    assert rewritten() is not None
    monkeypatch.setattr(several_axes, bound, most - 1)
    assert rewritten() is None


def test_columns_that_lie_side_by_side_move_together() -> None:
    columns = [(0, 2), (0, 3), (1, 4), (-1, 0.5), (-1, 0.5), (-1, 1.5), (1, 0), (0, 1)]
    assert list(runs(columns)) == [
        (0, 0, 2, 2),
        (2, 1, 4, 1),
        (3, -1, 0.5, 2),
        (5, -1, 1.5, 1),
        (6, 1, 0, 1),
        (7, 0, 1, 1),
    ]
    assert [count for *_, count in runs([(-1, 0.0), (-1, -0.0), (-1, -0.0)])] == [1, 2]
