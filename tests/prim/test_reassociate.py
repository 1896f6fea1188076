"""Sums that share a factor and a weight: the same numbers from fewer operations."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.frontend.compile import run_passes
from pirkit.frontend.tracing import trace
from tests.tolerance import drift

RNG = np.random.default_rng(0)
POINTS, WIDTH, DEEP = 40, 6, 5


def layer(rows: int, columns: int) -> tuple[Any, Any]:
    return RNG.normal(size=(rows, columns)), RNG.normal(size=columns)


def shared(p: Any, x: Any, y: Any) -> Any:
    """Two operands with biases, and a factor that is a product itself."""
    (v, c), (w, b) = p
    factor = x @ v + c
    one, other = (factor * (np.tanh(y) @ w + b)).sum(axis=1), (np.sin(y) @ w * factor).sum(axis=-1)
    return (one * other).mean()


def kept(p: Any, x: Any, y: Any) -> Any:
    """Transposed weights, kept axes, and a factor that something else reads."""
    (v, c), (w, b) = p
    factor = np.tanh(x @ v + c)
    sums = [(factor * (f(y) @ w.T.T + b)).sum(axis=-1, keepdims=True) for f in (np.tanh, np.sin)]
    return (sums[0] * sums[1] + factor).mean()


def stacked(p: Any, x: Any, y: Any) -> Any:
    """A batch of points, and two layers without a function between them."""
    (v, c), (w, b) = p
    x, y = x.reshape(4, POINTS // 4, DEEP), y.reshape(4, POINTS // 4, DEEP)
    factor = x @ v + c
    sums = [(factor * (f(y) @ (v @ w.T) @ w + b)).sum(axis=2) for f in (np.tanh, np.sin)]
    return (sums[0] * sums[1]).mean()


def nested(p: Any, x: Any, y: Any) -> Any:
    """Sums of products that read the results of others."""
    (v, c), (w, b) = p
    factor, row = np.tanh(x @ v + c), c.reshape(1, -1)
    sums = [(factor * (f(y) @ w + b)).sum(axis=-1, keepdims=True) for f in (np.tanh, np.sin)]
    other = np.cos(x @ v)
    outer = [(other * (s @ row)).sum(axis=-1) for s in sums]
    return (outer[0] * outer[1]).mean()


def repeated(p: Any, x: Any, y: Any) -> Any:
    """A sum that reads one with the same factor and weight."""
    (v, c), _ = p
    factor, row = np.tanh(x @ v + c), c.reshape(1, -1)
    once = (factor * (y[:, :1] @ row)).sum(axis=-1, keepdims=True)
    return (factor * (once @ row)).sum(axis=-1, keepdims=True).mean()


def broadcast(p: Any, x: Any, y: Any) -> Any:
    """A bias that makes rows of a product of one column longer."""
    (v, c), (w, _) = p
    factor, column = x @ v, w[:, :1]
    sums = [(factor * (f(y) @ column + c)).sum(axis=-1) for f in (np.tanh, np.sin)]
    return (sums[0] * sums[1]).mean()


def converted(p: Any, x: Any, y: Any) -> Any:
    """Sums in another element type."""
    (v, c), (w, b) = p
    factor = x @ v + c
    sums = [ops.sum(factor * (f(y) @ w + b), axis=(1,), dtype="float32") for f in (np.tanh, np.sin)]
    return (sums[0] * sums[1]).mean()


@pytest.mark.parametrize("loss", [shared, kept, stacked, nested, repeated, broadcast, converted])
def test_values_and_gradients_are_the_same(loss: Callable[..., Any]) -> None:
    params = [layer(DEEP, WIDTH), layer(DEEP, WIDTH)]
    x, y = RNG.normal(size=(2, POINTS, DEEP))
    leaves = [*params[0], *params[1], x, y]
    program = trace(pirkit.value_and_grad(loss), [params, x, y]).program
    changed = run_passes(program, "taylor,reassociate,expand-gradients,@simplify")
    plain = run_passes(program, "taylor,expand-gradients,@simplify")
    assert (work(changed) < work(plain)) == (loss not in (broadcast, converted))
    inputs = {f"x{i}": a for i, a in enumerate(leaves)}
    found, wanted = (pirkit.compile(p, backend="reference")(**inputs) for p in (changed, plain))
    for name, value in wanted.items():
        assert drift(found[name], value) is None, name


@pytest.mark.parametrize("name", ["pd_op.sum", "pd_op.add", "pd_op.matmul"])
def test_a_gradient_that_is_stopped_stays_stopped(name: str) -> None:
    params = [layer(DEEP, WIDTH), layer(DEEP, WIDTH)]
    x, y = RNG.normal(size=(2, POINTS, DEEP))
    program = trace(pirkit.grad(shared), [params, x, y]).program
    for op in program.module.walk():
        if op.name == name:
            op.attributes["stop_gradient"] = encode("bool[]", (True,))
    inputs = {f"x{i}": a for i, a in enumerate([*params[0], *params[1], x, y])}
    found, wanted = (
        pirkit.compile(run_passes(program, f"{first}expand-gradients"), backend="reference")
        for first in ("reassociate,", "")
    )
    for key, value in wanted(**inputs).items():
        assert drift(found(**inputs)[key], value) is None, key


def work(program: Any) -> int:
    """Multiplications of the matmuls of a program."""
    ops = [op for op in program.module.walk() if isinstance(op, PirOp) and "matmul" in op.name]
    metas: list[Any] = [[meta_of(v.type) for v in (op.operands[0], op.results[0])] for op in ops]
    turned = [op.attribute("transpose_x") for op in ops]
    return sum(
        x.shape[-2 if t else -1] * prod(y.shape) for (x, y), t in zip(metas, turned, strict=True)
    )
