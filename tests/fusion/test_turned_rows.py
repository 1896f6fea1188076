"""Rows at places from data are stored before or after they are transposed, if there are enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.lowering.fusion.groups import DEFAULT
from tests.fusion.pairs import is_fused_by, refusals


def after(table: Any, at: Any) -> Any:
    """The rows of some places, as columns."""
    return ops.exp(ops.transpose(ops.gather(table, at, axis=0) * 2.0, [1, 0]))


def before(table: Any, at: Any) -> Any:
    """The columns of some places, as rows."""
    return ops.exp(ops.gather(ops.transpose(table, [1, 0]), at, axis=0) * 2.0)


def given(function: Callable[..., Any], places: int, row: int, size: int) -> list[Any]:
    draw = np.random.default_rng(0)
    table = draw.standard_normal((size, row) if function is after else (row, size))
    return [table.astype(np.float32), draw.integers(-size, size, places)]


def kernels(program: Any, options: str = "") -> int:
    """The kernels; a transposition that is left alone is one, too."""
    made = pirkit.run_passes(program, f"decompose,dce,fuse{options}")
    return sum(o.name in ("pir.map_expr", "pd_op.transpose") for o in made.entry(None).block.ops)


@pytest.mark.parametrize("function", [after, before])
def test_rows_are_read_whole(function: Callable[..., Any]) -> None:
    table, at = given(function, 900, 32, 70)
    program = trace(function, (table, at)).program
    assert kernels(program) == 2
    assert kernels(program, "{recompute=24}") == 1
    rows = table[at].T if function is after else table.T[at]
    found = pirkit.compile(program).run({"x0": table, "x1": at})
    np.testing.assert_allclose(next(iter(found.values())), np.exp(2 * rows), rtol=1e-5)


def test_the_refusal_names_what_fuses_the_two() -> None:
    program = trace(after, tuple(given(after, 900, 32, 70))).program
    made = pirkit.run_passes(program, "decompose,dce").entry(None)
    found = [f for f in refusals(made, DEFAULT) if f[3] and f[3].kind == "cost"]
    assert found
    for block, one, other, refusal in found:
        assert refusal is not None
        assert "read across" in refusal.reason
        assert is_fused_by(refusal.remedy, made, block, one, other) is None


@pytest.mark.parametrize(
    ("function", "places", "row", "size"),
    [(after, 900, 3, 70), (after, 20, 32, 70), (before, 900, 3, 70), (before, 20, 32, 5000)],
)
def test_short_rows_and_few_places_are_no_reason(
    function: Callable[..., Any], places: int, row: int, size: int
) -> None:
    """Nor is a large table of which few rows are read."""
    program = trace(function, tuple(given(function, places, row, size))).program
    assert kernels(program) == 1
