"""Derivatives of `where`, of any order and in any mode, are those of the branch that is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline

Function = Callable[[Any], Any]
Array = np.ndarray[Any, Any]

X: Final = np.array([0.0, 0.25, 1.0, 4.0, -2.0, 0.1, -0.5])


def slope(f: Function) -> Function:
    """The derivative of each element of the result by the same element, in reverse mode."""
    return lambda x: pirkit.grad(lambda x: f(x).sum())(x)


def forward(f: Function) -> Function:
    return lambda x: pirkit.jvp(f, (x,), (x * 0.0 + 1.0,))[1]


# --- random compositions ---------------------------------------------------------------------


SMOOTH: Final = ("tanh", "sin", "scaled", "square")
PARTIAL: Final = ("sqrt", "log", "inverse", "root", "exp of inverse", "log over root")
"""Functions of a positive number that are infinite, NaN or steep at others."""


def applied(name: str, m: Any, x: Any) -> Any:
    """A function by name, in the namespace ``m``."""
    return {
        "tanh": lambda: m.tanh(x),
        "sin": lambda: m.sin(x),
        "scaled": lambda: 1.5 * x - 0.25,
        "square": lambda: x * x,
        "sqrt": lambda: m.sqrt(x),
        "log": lambda: m.log(x),
        "inverse": lambda: 1.0 / x,
        "root": lambda: x**-1.5,
        "exp of inverse": lambda: m.exp(-1.0 / x),
        "log over root": lambda: m.log(x) / m.sqrt(x),
    }[name]()


@dataclass(frozen=True)
class Node:
    """A value, from the values before it: ``guards`` name the functions for positive numbers."""

    name: str
    of: int
    other: int
    guards: tuple[str, ...] = ()


def nodes(seed: int) -> list[Node]:
    rng = np.random.default_rng(seed)
    found: list[Node] = []
    for count in range(1, int(rng.integers(3, 6))):
        kind = rng.choice([*SMOOTH, "plus", "times", *["guard"] * 4, "two guards", "inner guard"])
        guards = tuple(rng.choice(PARTIAL, 2)) if "guard" in kind else ()
        of, other = int(rng.integers(max(0, count - 2), count)), int(rng.integers(count))
        found.append(Node(str(kind), of, other, guards))
    return found


def composed(made: Sequence[Node], m: Any, x: Any, where: Callable[..., Any]) -> Any:
    """The composition; ``where`` takes functions for its branches."""
    values = [x]
    for node in made:
        u, v = values[node.of], values[node.other]
        if node.name == "plus":
            found = u + 0.5 * v
        elif node.name == "times":
            found = u * v
        elif node.name in SMOOTH:
            found = applied(node.name, m, u)
        else:
            f, g = (lambda name=name, u=u: applied(name, m, u) for name in node.guards)
            if node.name == "guard":  # the other branch, or both, read other values too
                found = where(u > 0.05, lambda u=u, v=v, f=f: f() * v, lambda v=v: v * v)
            elif node.name == "two guards":
                both = where(u <= 0.0, lambda v=v: v, f), where(u > 0.0, g, lambda u=u: 2.0 * u)
                found = both[0] + both[1]
            else:
                found = where(
                    u > 0.0,
                    lambda u=u, f=f, g=g: where(u < 1.5, lambda: f() + m.sqrt(1.5 - u), g),
                    lambda v=v: m.sin(v),
                )
        values.append(applied("tanh", m, found) if node.guards else found)
    return values[-1]


def ours(made: Sequence[Node]) -> Function:
    """The composition in pirkit: both branches are computed."""
    return lambda x: composed(made, ops, x, lambda c, a, b: pirkit.where(c, a(), b()))


def expected(made: Sequence[Node], jax: Any, x: float) -> list[float]:
    """Three derivatives at one number, through the branches that are taken there, in jax."""
    found: list[float] = []

    def taken(condition: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        while not isinstance(condition, bool):
            condition = getattr(condition, "primal", condition)
            condition = condition if hasattr(condition, "primal") else bool(condition)
        return a() if condition else b()

    def f(x: Any) -> Any:
        return composed(made, jax.numpy, x, taken)

    for _ in range(3):
        f = jax.grad(f)
        found.append(float(f(x)))
    return found


WAYS: Final = ("r", "f", "rr", "rf", "fr", "rrr", "rfr")
"""Derivatives in reverse and forward mode, the inner one first."""


def in_all_modes(f: Function) -> Function:
    def ways(x: Any) -> list[Any]:
        found: dict[str, Function] = {"": f}
        for way in WAYS:
            found[way] = (slope if way[-1] == "r" else forward)(found[way[:-1]])
        return [found[way](x) for way in WAYS]

    return ways


@pytest.mark.parametrize("seed", range(5))
def test_compositions_of_guards(seed: int) -> None:
    jax = pytest.importorskip("jax")
    made = nodes(seed)
    with jax.enable_x64(True):
        wanted = [
            np.array(v) for v in zip(*[expected(made, jax, float(x)) for x in X], strict=True)
        ]
    traced = trace(in_all_modes(ours(made)), (X,))
    executable = compile(traced.program, pipeline="taylor,expand-gradients,cse")
    found = executable.run({"x0": X} | traced.captured)
    for i, way in enumerate(WAYS):
        exact = wanted[len(way) - 1]
        off = np.abs(found[f"y{i}"] - exact) / (1.0 + np.abs(exact))
        assert off.max() < 1e-7, f"{way}: {off}, {made}"


# --- what lies between the slope and the branch ------------------------------------------------


Z: Final = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
"""Rows, the first of which has no direction."""


def norm(z: Any) -> Any:
    return ops.sqrt(ops.sum(z * z, [1], keepdim=True))


def direction(z: Any) -> Any:
    r = norm(z)
    return pirkit.where(r > 0.0, z / r, 0.0 * z)


def expanded(p: Any) -> Any:
    return pirkit.where(Z > 0.0, ops.log(Z * p) * p, 0.0 * Z * p)


def missing(p: Any) -> Any:
    y = np.array([[np.nan, 1.0], [2.0, np.inf], [0.5, np.nan]])
    return pirkit.where(np.isfinite(y), (y - Z * p) ** 2, 0.0 * Z)


def columns(x: Any) -> Any:
    return pirkit.where(x[:, 0] > 0.0, ops.sqrt(ops.concat([x, x], axis=1)[:, 2]), x[:, 1])


BETWEEN: Final[dict[str, tuple[Function, Array, Callable[[], Array]]]] = {
    "a norm, of rows": (direction, Z, lambda: np.array(
        [[0, 0], [16 / 125 - 12 / 125, 9 / 125 - 12 / 125], [0, 1]])),
    "a parameter for all elements": (expanded, np.array([2.0]), lambda: np.array(
        [sum(np.log(2 * Z[Z > 0]) + 1)])),
    "data that is missing": (missing, np.array([2.0]), lambda: np.array([27.0])),
    "columns": (columns, Z, lambda: np.array([[0, 1], [0.5 / 3**0.5, 0], [0.5, 0]])),
}  # fmt: skip


@pytest.mark.parametrize("name", BETWEEN)
def test_first_derivatives(name: str) -> None:
    f, at, exact = BETWEEN[name]
    found = np.asarray(pirkit.jit(slope(f))(at))
    np.testing.assert_allclose(found, exact(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BETWEEN)
def test_second_derivatives(name: str) -> None:
    """Reverse over reverse mode against differences, where there are derivatives."""
    f, at, _ = BETWEEN[name]
    first = pirkit.jit(slope(f))
    found = np.asarray(pirkit.jit(slope(slope(f)))(at))
    assert np.isfinite(found).all()
    h, rows = 1e-6, np.arange(len(at)).reshape(-1, *[1] * (at.ndim - 1)) == len(at) - 1
    moved = [np.asarray(first(at + rows * step)) for step in (h, -h)]
    wanted = (moved[0] - moved[1]) / (2 * h)
    np.testing.assert_allclose(found[-1], wanted[-1], rtol=1e-6, atol=1e-6)


def test_a_loss_of_slopes_has_slopes() -> None:
    """A reverse sweep over a series whose branch has an infinite slope."""

    def loss(p: Any, x: Any) -> Any:
        def u(x: Any) -> Any:
            return pirkit.where(x > 0.0, ops.sqrt(x) * p, x * p)

        return (slope(slope(u))(x) ** 2).sum()

    found = np.asarray(pirkit.jit(pirkit.grad(loss))(np.array([3.0]), X))
    np.testing.assert_allclose(found, [6 * (0.0625 * X[X > 0] ** -3.0).sum()], rtol=1e-12)


def test_a_loop_inside_a_branch_of_python() -> None:
    """Cotangents are masked before they enter a loop."""

    def f(x: Any) -> Any:
        y = pirkit.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, pirkit.where(x > 0.0, ops.sqrt(s[1]), s[1])),
            (0, x),
        )[1]  # fmt: skip
        return pirkit.where(x > 0.0, ops.log(y), y)

    found = np.asarray(pirkit.jit(slope(f))(X))
    np.testing.assert_allclose(found, np.where(X > 0, 0.25 / np.where(X > 0, X, 1), 1), rtol=1e-12)


def test_linear_branches_are_not_masked() -> None:
    """No op is added to what cannot spoil a zero."""

    def f(x: Any) -> Any:
        return pirkit.where(x > 0.0, 2.0 * x - 1.0, -x).sum()

    program = trace(pirkit.grad(f), (X,)).program
    run_pipeline(program.module, "expand-gradients,cse,dce")
    assert str(program.main).count("pd_op.where(") == 2  # the cotangent of each branch


def test_conditions_are_computed_once() -> None:
    """Each order would repeat those of the one before for each of its cotangents."""
    rng = np.random.default_rng(0)
    x, grid = rng.normal(size=(1, 2, 5, 6)), rng.uniform(-0.9, 0.9, (1, 4, 3, 2))

    def sampled(x: Any, grid: Any) -> Any:
        return (ops.grid_sample(x, grid) ** 2).sum()

    def slopes(x: Any, grid: Any) -> Any:
        return (pirkit.grad(sampled, 1)(x, grid) ** 2).sum()

    counts = list[int]()
    for function in (sampled, slopes):
        program = pirkit.trace(pirkit.grad(function, 1), x, grid)
        module = run_passes(program, "taylor,expand-gradients")
        counts.append(len(list(module.main.operations)))
    assert counts[1] < 4 * counts[0]


@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_complex_numbers_are_no_elements(size: int) -> None:
    """They have an axis of their own, whose length may be that of the tensor."""
    x = np.linspace(-1.0, 1.3, size * size).reshape(size, size)

    def parts(p: Any) -> Any:
        return ops.sin(ops.as_real(ops.complex(p, p * p))) * np.array([1.0, 3.0])

    def guarded(p: Any) -> Any:
        return parts(pirkit.where(p > 0, p, 0.0 * p))

    found, plain = (np.asarray(slope(slope(f))(x)) for f in (guarded, parts))
    np.testing.assert_allclose(found, np.where(x > 0, plain, 0.0), rtol=1e-12)
    pairs = np.stack([x, x + 0.5], axis=-1)
    root = lambda p: ops.abs(ops.as_complex(pirkit.where(p > 0, ops.sqrt(p), 0.0)))  # noqa: E731
    radius = np.sqrt(np.maximum(pairs, 1e-300).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(np.asarray(slope(root)(pairs)), (pairs > 0) / radius / 2, rtol=1e-12)
