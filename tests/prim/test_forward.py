"""Forward mode: one sweep by the Taylor rules, reverse mode twice where an op has none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit import ops
from pirkit.dialect.build import Builder, Value
from pirkit.frontend.tracing import trace
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from tests.prim.differentiation import Array, Traced
from tests.prim.test_control_flow import branch, if_, loop, nested, no_turn, times

X: Final = np.array([0.3, 0.7, -0.4])
V: Final = np.array([1.0, -2.0, 0.5])
A: Final = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, -0.4], [0.0, 0.1, 1.0]])


def remarks(f: Any, *args: Any) -> list[tuple[str, str]]:
    traced = trace(f, args)
    report = run_pipeline(traced.program.module, "taylor,expand-gradients")
    told = [r for r in report.remarks if r.pass_name == "expand-gradients"]
    return [(r.kind, r.message) for r in told]


def size(f: Any, *args: Any) -> int:
    traced = trace(f, args)
    run_pipeline(traced.program.module, "taylor,expand-gradients,canonicalize,cse,dce")
    return len(list(traced.program.entry(None).block.ops))


def along(f: Any) -> Any:
    return lambda x, v: pirkit.jvp(f, (x,), (v,))[1]


def network(x: Any) -> Any:
    w = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [0.2, 0.2, 0.2]])
    for _ in range(3):
        x = ops.tanh(ops.matmul(x, w))
    return x


def test_one_sweep_where_all_rules_are_there() -> None:
    ((kind, message),) = remarks(along(network), X, V)
    assert (kind, message) == ("passed", "forward mode: a series of order 1 through 6 ops")
    twice = size(lambda x, v: pirkit.vjp(lambda u: pirkit.vjp(network, x)[1](u)[0], x)[1](v), X, V)
    assert size(along(network), X, V) < twice


def test_reverse_mode_twice_where_a_rule_lacks() -> None:
    def f(x: Any) -> Any:
        return ops.svd(x)[1]

    ((kind, message),) = remarks(along(f), A, A)
    assert kind == "missed"
    assert message.startswith("`pd_op.svd` has no Taylor series: reverse mode twice")
    _, found = pirkit.jvp(f, (A,), (A,))
    np.testing.assert_allclose(found, np.linalg.svd(A)[1], rtol=1e-10)  # it is homogeneous


@pytest.mark.parametrize("order", [1, 2])
def test_results_that_share_an_op_which_reverse_mode_decomposes(order: int) -> None:
    def f(x: Any) -> Any:
        mean = (x * x).mean()
        return ops.svd(x)[1], mean * mean, mean, ops.exp(mean)

    def along(f: Any) -> Any:
        return lambda x: pirkit.jvp(f, (x,), (A,))[1]

    along_all, along_three = f, lambda x: f(x)[1:]
    for _ in range(order):
        along_all, along_three = along(along_all), along(along_three)
    for ours, other in zip(along_all(A)[1:], along_three(A), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-10)


FACTORIZATIONS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "svd": (lambda x: ops.svd(x)[0] ** 2.0, lambda x: np.linalg.svd(x)[0] ** 2),
    "qr": (lambda x: ops.qr(x)[1] ** 2.0, lambda x: np.linalg.qr(x)[1] ** 2),
    "eig": (lambda x: ops.abs(ops.eigvals(x)).sum(), lambda x: abs(np.linalg.eigvals(x)).sum()),
}


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_higher_derivatives_where_a_rule_lacks(name: str) -> None:
    """Of a curve with an acceleration, against a polynomial through values beside it."""
    ours, theirs = FACTORIZATIONS[name]
    rng = np.random.default_rng(5)
    x, slope, bend = (rng.normal(size=(3, 3)) for _ in range(3))
    _, found = pirkit.jet(ours, (x,), ([slope, bend, np.zeros_like(x)],))
    times = 0.02 * np.cos(np.pi * (np.arange(16) + 0.5) / 16)
    values = np.array([np.ravel(theirs(x + t * slope + t * t * bend / 2)) for t in times])
    fitted = np.polynomial.polynomial.polyfit(times / 0.02, values, 9)
    for k, derivative in enumerate(found, 1):
        wanted = fitted[k] * math.factorial(k) / 0.02**k
        np.testing.assert_allclose(np.ravel(derivative), wanted, rtol=1e-4, atol=1e-3 * k)


FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "network": network,
    "softmax": lambda x: ops.softmax(x * x, axis=-1),
    "norm": lambda x: ops.layer_norm(
        ops.unsqueeze(x, [0]), None, None, epsilon=0.125, begin_norm_axis=1
    )[0],
    "sort": lambda x: ops.argsort(ops.sin(x * 4.0))[0],
    "solve": lambda x: ops.solve(A + ops.diag(x), ops.exp(x)),
    "cumprod": lambda x: ops.cumprod(ops.cos(x), 0),
    "decomposed": lambda x: ops.logsumexp(ops.mish(x, 20.0), [0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_over_reverse_is_reverse_over_reverse(name: str) -> None:
    """And forward over forward, and a Hessian each way."""
    f = FUNCTIONS[name]
    weights = np.array([0.6, 1.4, -0.9])

    def height(x: Any) -> Any:
        return (f(x) * weights).sum()

    def slope(x: Any) -> Any:
        return (pirkit.grad(height)(x) * V).sum()

    reverse = pirkit.grad(slope)(X)
    _, forward = pirkit.jvp(pirkit.grad(height), (X,), (V,))
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-12)
    twice = pirkit.jvp(lambda x: pirkit.jvp(height, (x,), (V,))[1], (X,), (V,))[1]
    np.testing.assert_allclose(twice, np.sum(np.asarray(reverse) * V), rtol=1e-9)
    np.testing.assert_allclose(pirkit.hessian(height)(X) @ V, reverse, rtol=1e-9, atol=1e-12)


def test_values_from_before_stay_good_behind_a_derivative() -> None:
    """What was recorded in front of a derivative is still there to be used behind it."""

    def f(x: Any) -> Any:
        slope = pirkit.grad(lambda z: ops.sin(z).sum())(x)
        share = ops.softmax(x, axis=-1)
        _, (first,) = pirkit.jet(lambda z: ops.exp(z) * share, (x,), ([np.ones(3)],))
        return (slope * first * share).sum()

    found = pirkit.grad(f)(X)
    step = 1e-6
    for i, e in enumerate(np.eye(3) * step):
        difference = (float(f_of(X + e)) - float(f_of(X - e))) / (2 * step)
        np.testing.assert_allclose(np.asarray(found)[i], difference, rtol=1e-6)


def f_of(x: Array) -> Array:
    share = np.exp(x) / np.exp(x).sum()
    return np.sum(np.cos(x) * np.exp(x) * share * share)


# --- branches and loops --------------------------------------------------------------------------


def swaps(b: Builder, x: Value, w: Value) -> Value:
    """A loop that carries two values, of which one gets its slope from the other in turn two."""
    from tests.prim.test_control_flow import while_

    zero = b.const(0, dt.int64)
    return while_(
        b,
        lambda b, s: s[0] < 3,
        lambda b, s: [s[0] + 1, b.sin(s[2] * w), b.softmax(s[1] * x, axis=-1)],
        [zero, w, w * w],
    )[2]


def only_one_side(b: Builder, x: Value, w: Value) -> Value:
    return if_(b, b.sum(x, (0,)) > 0.5, lambda: b.exp(x * w), lambda: w * 1.5)


FLOWS: Final[dict[str, Callable[[Builder, Value, Value], Value]]] = {
    "branch": branch,
    "one side": only_one_side,
    "loop": loop,
    "no turn": no_turn,
    "nested": nested,
    "swaps": swaps,
    "loop of branches": lambda b, x, w: times(
        b, 3, lambda s: if_(b, b.sum(s, (0,)) > 0.4, lambda: b.sin(s) * x, lambda: s + w), x
    ),
}
POINTS: Final = (np.array([0.3, 0.6, 0.2]), np.array([-0.5, 0.1, 0.2]))
W: Final = np.array([0.8, -0.4, 0.6])


@pytest.mark.parametrize("point", POINTS, ids=["above", "below"])
@pytest.mark.parametrize("name", FLOWS)
def test_a15_series_through_branches_and_loops(name: str, point: Array) -> None:
    """Orders 1 to 3 along a line, against nested reverse mode."""
    f, way = FLOWS[name], np.array([0.7, -0.3, 0.9])
    t = Traced([point, W, way, np.array(0.0)])
    b, (x, w, v, s) = t.b, t.args
    y = b.sum(f(b, x + v * s, w), (0,))
    slopes: list[Value] = []
    for _ in range(3):
        (slope,) = t.grad(slopes[-1] if slopes else y, [s])
        slopes.append(b.zeros_like(s) if slope is None else slope)
    want = t.run({f"d{k}": slope for k, slope in enumerate(slopes, 1)})
    found = _series(f, point, way, 3)
    for k in (1, 2, 3):
        np.testing.assert_allclose(
            found[f"d{k}"].sum(), want[f"d{k}"], rtol=1e-9, atol=1e-11, err_msg=f"order {k}"
        )


def _series(f: Any, point: Array, way: Array, order: int) -> dict[str, Array]:
    t = Traced([point, W, way])
    x, w, v = t.args
    y = f(t.b, x, w)
    found: Sequence[Value] | Value = t.b("pir.jet", y, x, v, targets=1, given=(1,), order=order)
    values = found if isinstance(found, tuple) else (found,)
    report = run_pipeline(ModuleOp([t.program.clone()]), "expand-gradients")
    assert [r.kind for r in report.remarks] == ["passed"]
    return t.run({f"d{k}": d for k, d in enumerate(values, 1)}, "expand-gradients")


def test_a_branch_that_draws_is_not_repeated() -> None:
    def drop(b: Builder, x: Value) -> Value:
        return b.dropout(x, None, p=0.5, mode="upscale_in_train", seed=0)[0]

    t = Traced([X])
    (x,) = t.args
    y = if_(t.b, t.b.sum(x, (0,)) > -1.0, lambda: drop(t.b, x * x), lambda: x)
    slope = t.b("pir.jet", y, x, t.b.ones_like(x), targets=1, given=(1,), order=1)
    found = t.run({"y": y, "slope": slope}, "expand-gradients")
    kept = found["y"] != 0
    np.testing.assert_allclose(found["slope"], np.where(kept, 4 * X, 0), rtol=1e-12)


@pytest.mark.parametrize("unroll", [False, True])
def test_a_constant_that_a_loop_joins_gets_no_cotangent(unroll: bool) -> None:
    """The tangent of a row of `scan` is zero, and is joined with that of the state."""
    start, rows = np.array([0.3, -0.2]), np.array([0.5, 0.7, 1.1])

    def slope(p: Any) -> Any:
        def step(u: Any, t: Any) -> Any:
            return u + (ops.concat([u, t.reshape((1,))]) * p)[1:] * u, t

        def end(u: Any) -> Any:
            return pirkit.scan(step, u, rows, unroll=unroll)[0]

        return pirkit.jvp(end, (start,), (np.ones(2),))[1].sum()

    p, h = np.array([0.4, 0.6, -0.5]), 1e-6
    expected = [(slope(p + h * e) - slope(p - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(pirkit.grad(slope)(p), expected, rtol=1e-6)
