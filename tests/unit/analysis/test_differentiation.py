"""Which operations lie between variables and targets."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from pirkit import ops
from pirkit.analysis import differentiation
from pirkit.analysis.differentiation import paths_between
from pirkit.dialect.operation import PirOp
from pirkit.frontend.tracing import trace


def chains(x: Any) -> Any:
    """Chains of three operations each, with a constant, beside each other."""
    return [ops.tanh(ops.sin(x) * np.full(3, float(k))) for k in range(40)]


def test_only_what_a_target_depends_on_is_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    block = trace(chains, (np.ones(3),)).program.main.block
    variable = next(iter(block.ops)).results[0]
    targets = [op.results[0] for op in block.ops if cast(PirOp, op).name == "pd_op.tanh"]
    visited: list[PirOp] = []
    demand: Any = differentiation._Demand  # pyright: ignore[reportPrivateUsage]
    visit = demand.visit
    monkeypatch.setattr(demand, "visit", lambda self, op: visited.append(op) or visit(self, op))
    for target in targets:
        names = [op.name for op in paths_between(block, [target], [variable]).ops]
        assert names == ["pd_op.sin", "pd_op.multiply", "pd_op.tanh"]
    assert len(visited) == 3 * len(targets)
    first, last = targets[0], targets[-1]
    assert len(paths_between(block, [last, first], [variable]).ops) == 6
