"""Functions that are computed again for derivatives: the same numbers, and less that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError
from pirkit.frontend.transforms import Function

RNG: Final = np.random.default_rng(3)
SIZE: Final = 32
PARAMS: Final = [
    {n: RNG.standard_normal((SIZE, SIZE)) / SIZE for n in ("w", "v")} for _ in range(3)
]
X: Final = RNG.standard_normal((128, SIZE))


def layer(p: Any, h: Any) -> Any:
    return ops.tanh(h @ p["w"] + ops.sin(h) @ p["v"])


def branched(p: Any, h: Any) -> Any:
    h = pirkit.cond(h.sum() > 0, lambda: ops.sin(h @ p["w"]), lambda: h * 2.0)
    return pirkit.fori_loop(0, 3, lambda i, s: ops.tanh(s @ p["v"]) + s, h)


def with_gradient(p: Any, h: Any) -> Any:
    slope = pirkit.grad(lambda z: (ops.tanh(z @ p["w"]) ** 2).sum())(h)
    return slope @ p["v"] + h


def loss(one: Function) -> Function:
    def summed(params: Any, x: Any) -> Any:
        for p in params:
            x = one(p, x)
        return (x * x).mean()

    return summed


def scanned(one: Function) -> Function:
    def summed(params: Any, x: Any) -> Any:
        rows = pirkit.tree.map(lambda *each: np.stack(each), *params)
        return (pirkit.scan(lambda c, p: (one(p, c), None), x, rows)[0] ** 2).mean()

    return summed


WAYS: Final[dict[str, Callable[[Function], Any]]] = {
    "value": lambda f: f(PARAMS, X),
    "grad": lambda f: pirkit.grad(f, (0, 1))(PARAMS, X),
    "jit": lambda f: pirkit.jit(pirkit.value_and_grad(f))(PARAMS, X),
    "jvp": lambda f: pirkit.jvp(lambda x: f(PARAMS, x), (X,), (X,)),
    "hvp": lambda f: pirkit.hvp(lambda x: f(PARAMS, x), (X,), (X,)),
    "reverse twice": lambda f: pirkit.grad(
        lambda x: (pirkit.grad(f, 1)(PARAMS, x) ** 2).sum() * 1e4)(X),
    "vmap outside": lambda f: pirkit.vmap(lambda x: f(PARAMS, x[None]))(X[:3]),
    "vmap inside": lambda f: pirkit.grad(
        lambda x: pirkit.vmap(lambda row: f(PARAMS, row[None]))(x).sum())(X[:3]),
}  # fmt: skip


CASES: Final = [
    *[(layer, loss, way) for way in WAYS],
    *[(layer, scanned, way) for way in ("jit", "hvp")],
    *[(branched, loss, way) for way in ("jit", "reverse twice")],
    *[(with_gradient, loss, way) for way in ("jit", "reverse twice")],
]


@pytest.mark.parametrize(("one", "shape", "way"), CASES)
def test_numbers_are_those_of_the_function(one: Function, shape: Any, way: str) -> None:
    found = pirkit.tree.leaves(WAYS[way](shape(pirkit.checkpoint(one))))
    wanted = pirkit.tree.leaves(WAYS[way](shape(one)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)


def _saved(f: Function) -> int:
    program = pirkit.trace(f, PARAMS, X)
    return pirkit.split.forward_backward(program, mode="save-all").report.bytes


def _memory(f: Function) -> int:
    compiled = pirkit.compile(pirkit.trace(pirkit.grad(f), PARAMS, X))
    assert compiled.native is not None
    return compiled.native.memory


@pytest.mark.parametrize("measure", [_saved, _memory], ids=["saved", "memory"])
def test_less_is_kept(measure: Callable[[Function], int]) -> None:
    plain = measure(loss(layer))
    again = measure(loss(pirkit.checkpoint(layer)))
    sums = measure(loss(pirkit.checkpoint(layer, policy=("add",))))
    assert again < 0.7 * plain
    assert again < sums
    assert measure(loss(pirkit.checkpoint(layer, policy=lambda n: n == "add"))) == sums


def test_loops_keep_only_the_carry() -> None:
    def stored(one: Function) -> int:
        program = pirkit.run_passes(pirkit.trace(pirkit.grad(scanned(one)), PARAMS, X), "@simplify")
        pushes = [op for op in program.module.walk() if op.name == "pir.tuple_push"]
        return sum(len(op.operands) - 1 for op in pushes)

    assert stored(pirkit.checkpoint(layer)) < stored(layer)


def test_numbers_that_were_drawn_are_kept() -> None:
    @pirkit.checkpoint
    def dropped(x: Any) -> Any:
        return ops.dropout(ops.sin(x) * x, p=0.5)

    def summed(x: Any) -> Any:
        y = dropped(x)
        return y.sum(), y

    (_, y), slope = pirkit.jit(pirkit.value_and_grad(summed, has_aux=True))(X)
    y, slope = np.asarray(y), np.asarray(slope)
    np.testing.assert_array_equal(y == 0, slope == 0)
    assert 0.3 < (y == 0).mean() < 0.7


def test_draws_in_loops_are_refused() -> None:
    def drawn(x: Any) -> Any:
        return pirkit.fori_loop(0, 3, lambda i, s: s * ops.gaussian((3,), 0.0, 1.0, 0), x)

    with pytest.raises(PirkitError, match="draws random numbers") as caught:
        pirkit.grad(lambda x: pirkit.checkpoint(drawn)(x).sum())(np.ones(3, np.float32))
    assert "pirkit.random" in (caught.value.help or "")


def test_as_a_decorator_and_on_numbers() -> None:
    @pirkit.checkpoint(policy=("matmul",))
    def f(x: Any, *, n: int) -> Any:
        """Doc."""
        return x * n

    assert f.__doc__ == "Doc."
    assert f(3.0, n=2) == 6.0
    np.testing.assert_allclose(pirkit.grad(lambda x: f(x, n=2).sum())(X), 2.0)
