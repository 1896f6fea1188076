"""Three hundred random compositions of operations: every way to a derivative gives the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.frontend.compile import compile
from pirkit.frontend.tracing import Traced, trace
from tests.prim.compositions import Array, Composition, composition, direction

SEEDS: Final = range(300)
STEP: Final = 1e-5
WHOLE: Final = "taylor,expand-gradients,cse"
DECOMPOSED: Final = "expand-gradients,decompose,verify-primitive"


def weights_of(c: Composition) -> tuple[Array, Array]:
    """What the elements of the result are weighted with, and the direction of all slopes."""
    rng = np.random.default_rng(len(c.steps))
    return rng.uniform(0.5, 1.5, c.x.shape), direction(c.x)


def first(c: Composition) -> Callable[[Any, Any], Any]:
    """Value and gradient."""
    return pirkit.value_and_grad(lambda x, w: (c.ours(x) * w).sum())


def all_ways(c: Composition) -> Callable[[Any, Any, Any], Any]:
    """Value, gradient, and the slope of the gradient by reverse and by forward mode."""

    def ways(x: Any, w: Any, v: Any) -> Any:
        value, gradient = first(c)(x, w)
        along = pirkit.grad(lambda y: (first(c)(y, w)[1] * v).sum())
        _, forward = pirkit.jvp(lambda y: first(c)(y, w)[1], (x,), (v,))
        return value, gradient, along(x), forward

    return ways


def runner(traced: Traced, pipeline: str, *arrays: Array) -> Callable[[Array], list[Array]]:
    """What computes the outputs of a traced function for other values of its first argument."""
    executable = compile(traced.program, pipeline=pipeline)

    def run(x: Array) -> list[Array]:
        feeds: dict[str, Any] = {f"x{i}": a for i, a in enumerate((x, *arrays))} | traced.captured
        found = executable.run(feeds)
        return [found[f"y{i}"] for i in range(len(found))]

    return run


def close(found: Array, expected: Array, bound: float, what: str) -> None:
    """Within ``bound`` of the largest element: small ones are differences of large ones."""
    scale = 1.0 + float(np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * scale, err_msg=what)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_composition(seed: int) -> None:
    c = composition(seed)
    w, v = weights_of(c)
    traced = trace(all_ways(c), (c.x, w, v))
    run = runner(traced, WHOLE, w, v)
    value, gradient, reverse, forward = run(c.x)
    close(forward, reverse, 1e-10, f"forward over reverse, {c}")
    parts = runner(trace(first(c), (c.x, w)), DECOMPOSED, w)(c.x)
    for one, whole in zip(parts, (value, gradient), strict=True):
        close(one, whole, 1e-10, f"decomposed, {c}")
    up, down = run(c.x + STEP * v), run(c.x - STEP * v)
    close((gradient * v).sum(), (up[0] - down[0]) / (2 * STEP), 1e-6, f"gradient, {c}")
    close(reverse, (up[1] - down[1]) / (2 * STEP), 1e-5, f"second order, {c}")


@pytest.mark.parametrize("seeds", [SEEDS[i : i + 20] for i in SEEDS[::20]], ids=lambda s: f"{s[0]}")
def test_compositions_in_jax(seeds: Sequence[int]) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    for seed in seeds:
        c = composition(seed)
        w, v = weights_of(c)
        gradient = jax.grad(lambda x, c=c, w=w: (c.theirs(jax.numpy, x) * w).sum())
        expected = jax.jvp(gradient, (c.x,), (v,))
        ours = pirkit.grad(lambda x, c=c, w=w: (c.ours(x) * w).sum())
        for found, wanted in zip(pirkit.jvp(ours, (c.x,), (v,)), expected, strict=True):
            close(np.asarray(found), np.asarray(wanted), 1e-9, str(c))
