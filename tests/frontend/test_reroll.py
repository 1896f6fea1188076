"""Loops that Python unrolled over slices are one operation each, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.reroll import reroll
from pirkit.frontend.tracing import trace

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]


def arrays(count: int) -> tuple[Array, ...]:
    draw = np.random.default_rng(0).normal
    return tuple([draw(size=s) for s in ((count, 5), (6, 2), (2, 5), (count, 6))])


def run(function: Body, count: int, *, rerolled: bool) -> tuple[list[Array], int]:
    """Results, and the number of operations."""
    given = arrays(count)
    traced = trace(function, given)
    program = traced.program
    if rerolled:
        reroll(program.module, program.main, traced.captured)
    inputs = {f"x{i}": a for i, a in enumerate(given)} | traced.captured
    found = pirkit.compile(program).run(inputs)
    return [found[n] for n in sorted(found)], sum(1 for _ in program.main.operations)


def fields(branch: Any, x: Any, w: Any) -> Any:
    return (
        branch @ ops.transpose(ops.tanh(x @ w), perm=(1, 0)) * ops.transpose(x[:, :1], perm=(1, 0))
    )


def d(y: Any, x: Any, k: int) -> Any:
    slopes = y.b("pir.gradient", y, y.b.ones_like(y), x, targets=1, wrt=1)
    return slopes[:, k : k + 1]


def residual(branch: Any, x: Any, w: Any, source: Any) -> Any:
    whole, losses = fields(branch, x, w), []
    for k in range(branch.shape[0]):
        y = whole[k].reshape((6, 1))
        wanted = d(y, x, 1) + d(d(y, x, 0), x, 0) * y - source[k].reshape((6, 1))
        losses.append((wanted**2).mean() + (y[:2] - np.full((2, 1), k / 7.0)).sum())
    return (ops.stack(losses, axis=0) ** 2).sum()


def weighted(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """A cotangent other than one, of several columns."""
    whole, found = fields(branch, x, w), []
    for k in range(branch.shape[0]):
        y: Any = ops.concat([whole[k].reshape((6, 1)), ops.sin(whole[k].reshape((6, 1)))], axis=1)
        found.append(y.b("pir.gradient", y, x * 2.0, x, targets=1, wrt=1))
    return ops.stack(found, axis=0), source.sum()


def mixed_rows(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """A row of a slice depends on all rows of ``x``: no forward derivative gives its gradient."""
    whole, found = fields(branch, x, w), []
    for k in range(branch.shape[0]):
        y = ops.cumsum(whole[k], axis=0).reshape((6, 1))
        found.append((d(y, x, 0) * x[:, 1:2]).sum())
    return ops.stack(found, axis=0), source.sum()


def read_elsewhere(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """A slice goes to the next one, so the loop is none over slices alone."""
    whole, found, state = fields(branch, x, w), [], source[0] * 0.0
    for k in range(branch.shape[0]):
        state = ops.tanh(state + whole[k])
        found.append(state.sum())
    return ops.stack(found, axis=0)


def added(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """Two terms of each slice, with what is added first, on either side, and read again."""
    total, other = x.sum(), w.sum()
    for k in range(branch.shape[0]):
        total = total + ops.sin(branch[k]).sum() + (branch[k] @ ops.transpose(w, perm=(1, 0))).sum()
    for k in range(branch.shape[0]):
        other = (source[k] * total).mean() + other
    return other, total


def added_tensors(branch: Any, x: Any, w: Any, source: Any) -> Any:
    return sum((ops.tanh(x @ w) * b.reshape((1, 5)) for b in branch), 1.0)


def added_in_part(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """Of one slice two terms, of another none, and a number that differs."""
    total = x.sum()
    for k in range(branch.shape[0]):
        if k != 3:
            total = total + ops.sin(branch[k]).sum()
        total = total + ops.cos(branch[k]).sum() + (ops.exp(branch[k]) * (k + 2)).mean()
    return total + ops.sin(branch[1]).sum()


def narrow(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """Slices that keep their axis, and parts of rows."""
    parts = [ops.tanh(branch[k : k + 1, 1:3]) @ w for k in range(branch.shape[0])]
    return (ops.stack(parts, axis=0) ** 2).sum()


def elements(branch: Any, x: Any, w: Any, source: Any) -> Any:
    """Single elements, and two terms of each slice, of which the first starts the sum."""
    rows = range(branch.shape[0])
    return sum(ops.sin(branch[k, 0] * w[0, 0]) * branch[k, 2] + source[k, 1:].sum() for k in rows)


@pytest.mark.parametrize(
    "function",
    [
        residual,
        weighted,
        narrow,
        elements,
        mixed_rows,
        read_elsewhere,
        added,
        added_tensors,
        added_in_part,
    ],
)
def test_results_are_those_of_the_unrolled_loop(function: Body) -> None:
    plain, rerolled = (run(function, 9, rerolled=r)[0] for r in (False, True))
    for wanted, found in zip(plain, rerolled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("function", [residual, weighted, added, added_tensors, narrow, elements])
def test_operations_do_not_grow_with_the_slices(function: Body) -> None:
    assert len({run(function, n, rerolled=True)[1] for n in (8, 20)}) == 1
    assert run(function, 20, rerolled=False)[1] > 60


def test_few_slices_stay() -> None:
    assert run(residual, 7, rerolled=True)[1] == run(residual, 7, rerolled=False)[1]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (added, ""),
        (read_elsewhere, "loop over 9 slices stays unrolled: `pd_op.add` reads several slices"),
        (mixed_rows, "`pir.gradient` is a derivative other than of rows by the same rows"),
        (added_in_part, "`pd_op.scale` is the same, numbers included, for 1 of the slices only"),
        (
            lambda b, x, w, s: [ops.sin(b[k]) for k in range(9)],
            "`pir.shadow_output` has no form for all",
        ),
    ],
)
def test_jit_says_why_a_loop_stays_unrolled(function: Body, why: str) -> None:
    compiled = pirkit.jit(function)
    given = arrays(9)
    found = pirkit.tree.flatten(compiled(*given))[0]
    for one, wanted in zip(found, run(function, 9, rerolled=False)[0], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-13)
    assert why in compiled.explain()
    assert ("stays unrolled" in compiled.explain()) == bool(why)


def test_large_chunks_stay_apart() -> None:
    """A loop over chunks keeps memory low."""

    def chunks(x: Any) -> Any:
        return sum((x[k] @ ops.transpose(x[k], perm=(1, 0))).sum() for k in range(8))

    assert "takes more than 64 MiB" in _explained(chunks, np.ones((8, 1100, 2)))
    assert "stays" not in _explained(chunks, np.ones((8, 11, 2)))


def _explained(function: Body, *given: Array) -> str:
    compiled = pirkit.jit(function)
    compiled(*given)
    return str(compiled.explain())


def test_jit_compiles_one_operation_for_all_slices() -> None:
    """Arrays of the closure are read anew at each call, and none stands for another one."""
    scale = np.ones(5)

    def loss(w: Any, x: Any) -> Any:
        return sum((ops.tanh(x[k] @ w) * scale).sum() for k in range(x.shape[0]))

    x = np.random.default_rng(0).normal(size=(12, 6, 2))
    w = arrays(2)[2]
    compiled = pirkit.jit(pirkit.grad(loss))
    assert sum(op.name == "pd_op.tanh" for op in compiled.lower(w, x).main.operations) == 12
    for factor in (1.0, 3.0):
        scale[:] = factor
        np.testing.assert_allclose(compiled(w, x), pirkit.grad(loss)(w, x), rtol=1e-12)
    assert "stays" not in compiled.explain()
