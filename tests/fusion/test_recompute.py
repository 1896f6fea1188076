"""What a kernel computes again of values that another one has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from tests.fusion.cases import Case


def test_what_is_made_of_a_value_that_is_read_anyway_is_not_read() -> None:
    c = Case()
    x = c.op("tanh", c.b.exp(c(64, 64)))
    square = x * x
    y = (x + c.b.cumsum(x + square, axis=0)) * square
    c.b("pir.shadow_output", y, output_name="y0")
    first, second = (k.kernel for k in plan_fusion(c.program.block, Policy()).kernels)
    assert len(first.outputs) == 2
    assert len(second.inputs) == 2


BROADCASTS: dict[str, tuple[Callable[[Case], Any], int, Policy]] = {
    "columns": (lambda c: c.op("tanh", c(512)) + c(400, 512), 2, Policy()),
    "rows": (lambda c: c.op("tanh", c(400, 1)) + c(400, 512), 2, Policy()),
    "beside a long chain": (lambda c: c.op("tanh", c(512)) + c.b.exp(c(400, 512)), 2, Policy()),
    "through a reshape": (
        lambda c: c.b.reshape(c.op("tanh", c(128, 32)), shape=[128, 1, 32]) * c(6, 32),
        2,
        Policy(),
    ),
    "cheap": (lambda c: (c(512) * c(512)) + c(400, 512), 1, Policy()),
    "two elements": (lambda c: c.op("tanh", c(2)) + c(4000, 2), 2, Policy()),
    "one element": (lambda c: c.op("tanh", c(1)) + c(400, 512), 1, Policy()),
    "small": (lambda c: c.op("tanh", c(8)) + c(4, 8), 1, Policy()),
    "allowed": (lambda c: c.op("tanh", c(512)) + c(400, 512), 1, Policy(recompute=48)),
    "of a reduction": (
        lambda c: (x := c(400, 512)) * c.op("tanh", c.b.sum(x, axis=[1], keepdim=True)),
        1,
        Policy(),
    ),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_what_is_broadcast_is_stored_if_it_is_costly(name: str) -> None:
    build, kernels, policy = BROADCASTS[name]
    c = Case()
    c.b("pir.shadow_output", build(c), output_name="y0")
    assert len(plan_fusion(c.program.block, policy).kernels) == kernels


def test_a_kernel_does_not_compute_again_what_it_would_broadcast() -> None:
    c = Case()
    small = c.op("tanh", c(128, 32))
    large = c.b.reshape(small, shape=[128, 1, 32]) * c(6, 32)
    y = c.b.matmul(c.b.reshape(large, shape=[768, 32]), c(32, 32))
    c.b("pir.shadow_output", c.b.reshape(y, shape=[128, 6, 32]) * large, output_name="y0")
    kernels = [k.kernel for k in plan_fusion(c.program.block, Policy()).kernels]
    assert [str(k).count("tanh") > 0 for k in kernels] == [True, *[False] * (len(kernels) - 1)]


def test_an_index_that_is_computed_from_lookups_is_stored() -> None:
    """As the types of tokens in BERT, whose embeddings are added to others."""

    def f(at: Any, names: Any, table: Any, more: Any) -> Any:
        kinds = (names[at] * 3 + 1) % 5
        x = table[kinds.reshape(-1)].reshape(2, 32, 128) + more
        return x - x.mean(-1, keepdims=True)

    rng = np.random.default_rng(0)
    table, more = rng.standard_normal((5, 128)), rng.standard_normal((2, 32, 128))
    given = np.arange(64).reshape(2, 32), np.arange(64)[::-1].copy(), table, more
    np.testing.assert_allclose(pirkit.jit(f)(*given), f(*given), rtol=1e-12, atol=1e-12)


def test_what_a_kernel_computes_decides_no_index_of_it() -> None:
    """Neither if one of its values needs it as a number, and another one as a place."""

    def f(x: Any, table: Any) -> Any:
        first = np.clip(x, 0, 63).astype(np.int64)
        at = first - (x < table[first]) + ((x >= table[first + 1]) & (first < 63))
        at = np.where(x > 50, 64, at)
        sums = np.zeros(65) + x[:1] * 0
        return pirkit.ops.put_along_axis(sums, at, x, axis=0, reduce="add")[:64]

    rng = np.random.default_rng(0)
    x, table = rng.uniform(0, 64, 1000), np.arange(65.0) + rng.uniform(-0.5, 0.5, 65)
    at = np.where(x > 50, 64, np.searchsorted(table, x, side="right") - 1)
    at = np.where((x <= 50) & (at < 0), -1, at)
    wanted = np.zeros(65)
    np.add.at(wanted, at, x)
    np.testing.assert_allclose(pirkit.jit(f)(x, table), wanted[:64], rtol=1e-12)
