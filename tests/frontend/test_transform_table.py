"""JAX's transforms beside ours: each row written once, for both, and compared; nested in pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, TraceError, UnsupportedError, UsageError
from pirkit.frontend.transforms import Function

X: Final = np.array([0.3, -0.7, 1.1])
ROWS: Final = np.array([[0.3, -0.7, 1.1], [1.2, 0.4, -0.2], [0.9, 0.8, 0.1], [-0.5, 0.6, 0.7]])
W: Final = np.array([[0.2, -0.4, 0.1], [0.5, 0.3, -0.6], [0.7, -0.1, 0.9]])
RTOL: Final = 1e-10

OURS: Final = SimpleNamespace(
    api=pirkit,
    **{n: getattr(pirkit, n) for n in ("cond", "while_loop", "fori_loop", "scan")},
    stop_gradient=pirkit.stop_gradient,
    np=SimpleNamespace(sin=ops.sin, cos=ops.cos, exp=ops.exp, log=ops.log, tanh=ops.tanh,
                       where=pirkit.where, concatenate=np.concatenate, clip=np.clip),
)  # fmt: skip


def jax_library() -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return SimpleNamespace(
        api=jax,
        **{n: getattr(jax.lax, n) for n in ("cond", "while_loop", "fori_loop", "scan")},
        stop_gradient=jax.lax.stop_gradient,
        np=jax.numpy,
    )


class Pair(NamedTuple):
    a: Any
    b: Any


def compare(ours: Any, theirs: Any) -> None:
    mine, others = pirkit.tree.leaves(ours), pirkit.tree.leaves(theirs)
    assert len(mine) == len(others)
    for x, y in zip(mine, others, strict=True):
        assert tuple(np.shape(x)) == tuple(np.shape(y))
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=RTOL, atol=1e-12)


# --- functions of three numbers to one, in every language feature ---


def smooth(m: Any) -> Function:
    return lambda x: (m.np.sin(x) * x * x[0]).sum()


def branched(m: Any) -> Function:
    return lambda x: m.cond(
        x.sum() > 0, lambda a: (m.np.sin(a) * x).sum(), lambda a: (a * 3.0).sum(), x * 2
    )


def counted(m: Any) -> Function:
    return lambda x: m.fori_loop(0, 4, lambda i, s: s * m.np.cos(x) + 1.0 * i, x).sum()


def scanned(m: Any) -> Function:
    def f(x: Any) -> Any:
        carry, ys = m.scan(lambda c, v: (c * v + 1.0, m.np.sin(c)), 0.5, x)
        return carry + (ys * x).sum()

    return f


def backwards(m: Any) -> Function:
    def f(x: Any) -> Any:
        carry, ys = m.scan(lambda c, v: (c + v[0] * v[1], {"c": c}), x[0], (x, x * x), reverse=True)
        return carry + (ys["c"] * x).sum()

    return f


def stopped(m: Any) -> Function:
    return lambda x: (m.stop_gradient(m.np.sin(x)) * x * x).sum()


def by_vjp(m: Any) -> Function:
    @m.api.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return m.np.sin(x) * y

    f.defvjp(
        lambda x, y: (f(x, y), (m.np.cos(x), m.np.sin(x), y)),
        lambda held, g: (2 * held[0] * g * held[2] * m.np.clip(g, -1, 0.5), 3 * held[1] * g),
    )
    return lambda x: (f(x, x * x) * x).sum()


def by_jvp(m: Any) -> Function:
    @m.api.custom_jvp
    def f(x: Any) -> Any:
        return m.np.log(1 + m.np.exp(x))

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * (1 - 1 / (1 + m.np.exp(x))) * 2.0

    return lambda x: (f(x) * x).sum()


def mapped(m: Any) -> Function:
    return lambda x: m.api.vmap(lambda row: m.np.tanh(row * x).sum())(ROWS).sum()


def compiled(m: Any) -> Function:
    return m.api.jit(smooth(m))


def of_a_derivative(m: Any) -> Function:
    return lambda x: m.api.grad(smooth(m))(x * x).sum()


def recomputed(m: Any) -> Function:
    return lambda x: (m.api.checkpoint(lambda y: m.np.sin(y * x) * y)(x) * x[1]).sum()


def drawn(m: Any) -> Function:
    def f(x: Any) -> Any:
        key = m.api.random.fold_in(m.api.random.split(m.api.random.key(3))[1], 5)
        return (m.api.random.normal(key, (3,), "float64") * m.np.sin(x)).sum()

    return f


FUNCTIONS: Final = (
    smooth, branched, counted, scanned, backwards, stopped, by_vjp, by_jvp, mapped, compiled,
    of_a_derivative, recomputed, drawn,
)  # fmt: skip

TRANSFORMS: Final[dict[str, Callable[[Any, Function], Function]]] = {
    "plain": lambda m, f: f,
    "grad": lambda m, f: m.api.grad(f),
    "value_and_grad": lambda m, f: m.api.value_and_grad(f),
    "jacrev": lambda m, f: m.api.jacrev(f),
    "jacfwd": lambda m, f: m.api.jacfwd(f),
    "jvp": lambda m, f: lambda x: m.api.jvp(f, (x,), (x * x,)),
    "vjp": lambda m, f: lambda x: m.api.vjp(f, x)[1](m.np.sin(x).sum()),
    "hessian": lambda m, f: m.api.hessian(f),
    "linearize": lambda m, f: lambda x: m.api.linearize(f, x)[1](x),
    "jit": lambda m, f: m.api.jit(f),
    "checkpoint": lambda m, f: m.api.checkpoint(f),
    "vmap": lambda m, f: lambda x: m.api.vmap(f)(W * x),
    "vmap of grad": lambda m, f: lambda x: m.api.vmap(m.api.grad(f))(W * x),
    "grad of vmap": lambda m, f: m.api.grad(lambda x: (m.api.vmap(f)(W * x) * x).sum()),
}
REVERSE_ONLY: Final = {by_vjp}
"""JAX has no forward derivative of a rule for reverse mode."""
FORWARD: Final = {"jacfwd", "jvp", "hessian", "linearize"}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_transform_of_each_function(function: Any, name: str) -> None:
    if function in REVERSE_ONLY and name in FORWARD:
        pytest.skip("jax has no forward mode of a custom_vjp")
    theirs, change = jax_library(), TRANSFORMS[name]
    compare(change(OURS, function(OURS))(X), change(theirs, function(theirs))(X))


def summed(m: Any, f: Function) -> Function:
    """Back to one number, for the next transform."""
    return lambda x: sum((v * v).sum() for v in pirkit.tree.leaves(f(x)))


NESTED: Final = ("grad", "jacfwd", "jvp", "jit", "jacrev", "vmap", "cond", "scan", "checkpoint")


def around(m: Any, name: str, f: Function) -> Function:
    """A transform of a function of three numbers to one."""
    if name == "vmap":
        return lambda x: m.api.vmap(lambda s: f(x * s))(np.array([0.5, 1.5]))
    if name == "cond":
        return lambda x: m.cond(x[0] > 0, f, lambda x: f(x * 2), x)
    if name == "scan":
        return lambda x: m.scan(lambda c, s: (c + f(x * s).sum(), f(c * x)), 0.5,
                                np.array([0.5, 1.5]))  # fmt: skip
    return TRANSFORMS[name](m, f)


@pytest.mark.parametrize("inner", NESTED)
@pytest.mark.parametrize("outer", NESTED)
def test_nested_two_deep_in_both_orders(outer: str, inner: str) -> None:
    def build(m: Any) -> Function:
        return around(m, outer, summed(m, around(m, inner, smooth(m))))

    compare(build(OURS)(X), build(jax_library())(X))


INSIDE: Final[dict[str, Callable[[Any, Function], Function]]] = {
    "cond": lambda m, f: lambda x: m.cond(x[0] > 0, f, lambda x: f(x * 2), x),
    "scan": lambda m, f: lambda x: m.scan(lambda c, s: (c + f(x * s), c), 0.5, x)[0],
    "fori_loop": lambda m, f: lambda x: m.fori_loop(0, 3, lambda i, c: c + f(x * c), 0.5),
    "cond in scan": lambda m, f: (
        lambda x: m.scan(lambda c, s: (m.cond(s > 0, f, lambda x: -f(x), x * c), s), 0.5, x)[0]
    ),
}


@pytest.mark.parametrize("forward", ["jvp", "jacfwd", "linearize"])
@pytest.mark.parametrize("name", INSIDE)
def test_stopped_derivatives_inside_of_branches_and_loops(name: str, forward: str) -> None:
    f = INSIDE[name](OURS, stopped(OURS))
    slopes = pirkit.grad(f)(X)
    along = (slopes * X * X).sum() if forward == "jvp" else (slopes * X).sum()
    found = TRANSFORMS[forward](OURS, f)(X)
    if forward == "jvp":
        found = found[1]
    if forward == "jacfwd":
        found = (found * X).sum()
    np.testing.assert_allclose(found, along, rtol=RTOL)


# --- loops whose number of turns the data tell: closed forms, since jax has no reverse mode ---


def test_while_loops_have_reverse_derivatives() -> None:
    def f(x: Any) -> Any:
        return pirkit.while_loop(lambda s: (s * s).sum() < 1000, lambda s: s * 3.0, x).sum()

    turns = 0
    while ((X * 3.0**turns) ** 2).sum() < 1000:
        turns += 1
    np.testing.assert_allclose(pirkit.grad(f)(X), np.full(3, 3.0**turns))
    np.testing.assert_allclose(pirkit.jit(pirkit.grad(f))(X), np.full(3, 3.0**turns))


def test_a_number_in_a_state_takes_the_type_of_the_body() -> None:
    found = pirkit.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + X), (0, X * 0))[1]
    np.testing.assert_allclose(found, 3 * X)
    assert pirkit.fori_loop(0, 3, lambda i, s: s + X[0], 0.0).dtype.name == "float64"


def test_python_control_flow_by_value_sees_through_cond() -> None:
    def f(x: Any) -> Any:
        y = pirkit.cond(x[0] > 0, lambda: x * 2, lambda: x)
        return y.sum() if y[0] > 0.5 else x.prod()

    np.testing.assert_allclose(pirkit.grad(f)(X), [2.0, 2.0, 2.0])


def test_bodies_that_differ_in_what_they_read_are_different_programs() -> None:
    """Derivatives outside of `jit` are compiled once for equal programs of the same lines."""

    def loop(x: Any, is_swapped: bool) -> Any:
        def body(state: Any) -> Any:
            a, b, i = state
            a, b = (b, a) if is_swapped else (a, b)
            return a - b, b * 1.0, i + 1

        return pirkit.while_loop(lambda s: s[2] < 1, body, (x[0], x[1], 0))[0]

    def scan(x: Any, is_swapped: bool) -> Any:
        def body(carry: Any, row: Any) -> Any:
            a, b = (row, carry) if is_swapped else (carry, row)
            return a - b, None

        return pirkit.scan(body, x[0], x[1:])[0]

    x = np.array([5.0, 3.0])
    for f in (loop, scan):
        for is_swapped in (False, True, False):
            value, slopes = pirkit.value_and_grad(partial(f, is_swapped=is_swapped))(x)
            sign = -1.0 if is_swapped else 1.0
            assert (float(value), slopes.tolist()) == (2 * sign, [sign, -sign])


def test_unrolled_scans_are_the_same() -> None:
    def f(x: Any, unroll: bool) -> Any:
        return pirkit.scan(lambda c, v: (c * v + 1.0, ops.sin(c)), x[0], x, unroll=unroll)

    compare(f(X, True), f(X, False))


# --- vmap ---

MAPPED: Final[dict[str, Callable[[Any], Any]]] = {
    "weights": lambda m: m.api.vmap(
        m.api.grad(lambda w, a: (m.np.tanh(a @ w) ** 2).sum()), in_axes=(None, 0))(W, ROWS),
    "axes": lambda m: m.api.vmap(lambda a, b: a * b, (1, 0), 1)(ROWS, np.ones((3, 4))),
    "tree of axes": lambda m: m.api.vmap(
        lambda p: p["a"] * p["b"], ({"a": 0, "b": None},))({"a": ROWS, "b": X}),
    "twice": lambda m: m.api.vmap(
        m.api.vmap(lambda a, b: a * b + 1, (None, 0)), (0, None))(X, X),
    "hessian": lambda m: m.api.vmap(m.api.hessian(lambda a: (m.np.sin(a) * a).sum() * a[0]))(ROWS),
    "max": lambda m: m.api.grad(
        lambda z: m.api.vmap(lambda a: a[0] * a[1:].sum() * m.np.sin(a).max())(z).sum())(ROWS),
    "joined": lambda m: m.api.vmap(lambda a: m.np.concatenate([a, X, a * 2]))(ROWS),
    "where": lambda m: m.api.vmap(lambda a: m.np.where(a > 0, a, -a))(ROWS),
    "reversed": lambda m: m.api.vmap(lambda a: a[::-1])(ROWS),
    "outer": lambda m: m.api.vmap(lambda a: a[:, None] * a[None])(ROWS),
    "argmax": lambda m: m.api.vmap(lambda a: a.argmax())(ROWS),
    "matrices": lambda m: m.api.vmap(lambda a, b: (a @ b).sum(axis=0))(
        ROWS.reshape(2, 2, 3), np.stack([W, W.T])),
    "closure": lambda m: m.api.grad(
        lambda z: m.api.vmap(lambda a: (a * z * z).sum())(ROWS).sum())(X),
    "custom rule inside": lambda m: m.api.vmap(m.api.grad(by_vjp(m)))(ROWS),
    "custom rule outside": lambda m: m.api.grad(
        lambda z: m.api.vmap(by_vjp(m))(z).sum())(ROWS),
    "loops that end at different turns": lambda m: m.api.jit(m.api.vmap(lambda x: m.while_loop(
        lambda s: (s * s).sum() < 1000, lambda s: s * 3.0 + x[0], x)))(ROWS),
    "a loop in a branch": lambda m: m.api.vmap(lambda x: m.cond(
        x[1] > 0,
        lambda: m.while_loop(lambda s: s < 10.0, lambda s: s * 2 + 1, x[2] * x[2] + 0.1),
        lambda: x.sum()))(ROWS),
    "loops in loops": lambda m: m.api.vmap(lambda x: m.scan(lambda c, v: (
        m.fori_loop(0, 3, lambda i, s: m.np.sin(s) * v + (s * W[0]).sum(), c),
        m.cond(v > 0, lambda: c, lambda: v)), x[0], x))(ROWS),
    "a custom rule in a loop": lambda m: m.api.vmap(m.api.grad(
        lambda x: m.fori_loop(0, 2, lambda i, s: s * by_vjp(m)(s * x), x).sum()))(ROWS),
    "rows of a loop's turns": lambda m: m.api.vmap(m.api.hessian(scanned(m)))(ROWS),
    "a shared condition": lambda m: m.api.vmap(lambda x, s: m.cond(
        s > 0, lambda: x * 2, lambda: x), in_axes=(0, None))(ROWS, X[0]),
    "jacobian of each row": lambda m: m.api.jit(m.api.vmap(m.api.jacrev(
        lambda a: m.np.sin(W @ a) * a[0])))(ROWS),
    "forward jacobian of each row": lambda m: m.api.vmap(m.api.jacfwd(
        lambda a: m.np.sin(W @ a) * a[0]))(ROWS),
    "keys": lambda m: m.api.vmap(lambda k, a: m.api.random.uniform(k, (3,), "float64") * a)(
        m.api.random.split(m.api.random.key(0), 4), ROWS),
    "custom forward rule": lambda m: m.api.grad(
        lambda z: m.api.vmap(by_jvp(m))(z).sum())(ROWS),
    "a result that rows share": lambda m: m.api.vmap(
        lambda a: (a, X * 2), out_axes=(0, None))(ROWS),
    "a tree of axes of results": lambda m: m.api.vmap(
        lambda a: {"a": a, "b": a.sum()}, out_axes={"a": 1, "b": 0})(ROWS),
    "jit": lambda m: m.api.jit(m.api.vmap(m.api.grad(lambda a: (a / (1 + a * a)).sum())))(ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_rows_at_once_are_rows_one_by_one(name: str) -> None:
    compare(MAPPED[name](OURS), MAPPED[name](jax_library()))


def test_derivatives_of_loops_that_end_at_different_turns_are_refused_over_rows() -> None:
    def f(x: Any) -> Any:
        return pirkit.while_loop(lambda s: s.sum() < 9, lambda s: s * 3.0 + 1.0, x).sum()

    with pytest.raises(UnsupportedError, match="mapped over rows") as caught:
        pirkit.vmap(pirkit.grad(f))(ROWS)
    assert caught.value.span is not None
    rows = pirkit.grad(lambda x: pirkit.vmap(f)(x).sum())(ROWS)
    np.testing.assert_allclose(rows, np.stack([pirkit.grad(f)(row) for row in ROWS]))


# --- derivatives of higher order use a rule once, and then go through its ops, as JAX's do ---


def _clipped(m: Any) -> Function:
    f = m.api.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda held, g: (m.np.clip(g, -1, 1),))
    return f


def _other_slope(m: Any) -> Function:
    f = m.api.custom_jvp(m.np.sin)
    f.defjvp(lambda p, t: (m.np.sin(p[0]), 3 * m.np.cos(p[0]) * t[0] * p[0]))
    return f


HIGHER: Final[dict[str, Callable[[Any, Function], Any]]] = {
    "thrice": lambda m, f: m.api.grad(m.api.grad(m.api.grad(f)))(X[0]),
    "rows": lambda m, f: m.api.jit(m.api.vmap(m.api.grad(m.api.grad(f))))(X),
    "around rows": lambda m, f: m.api.jacrev(m.api.vmap(m.api.grad(f)))(X),
    "jacobians": lambda m, f: m.api.jacrev(m.api.jacrev(lambda x: f(x).sum()))(X),
    "a loop": lambda m, f: m.api.grad(m.api.grad(
        lambda x: m.scan(lambda c, v: (f(c) * v, None), x, X)[0]))(X[0]),
    "beside each other": lambda m, f: m.api.grad(
        lambda x: m.api.grad(f)(x) * f(x) + m.api.grad(lambda z: f(z) * f(x))(x))(X[0]),
    "forward": lambda m, f: m.api.hessian(lambda x: f(x).sum())(X),
}  # fmt: skip


@pytest.mark.parametrize("name", HIGHER)
@pytest.mark.parametrize("rule", [_clipped, _other_slope])
def test_a_rule_is_that_of_the_innermost_derivative(rule: Any, name: str) -> None:
    if rule is _clipped and name == "forward":
        pytest.skip("jax has no forward mode of a custom_vjp")
    compare(*[HIGHER[name](m, _power_of(rule(m))) for m in (OURS, jax_library())])


def _power_of(f: Function) -> Function:
    return lambda x: f(x) ** 3 * x


def _own_slope(m: Any) -> Function:
    f = m.api.custom_jvp(m.np.exp)
    f.defjvp(lambda p, t: (f(p[0]), f(p[0]) * t[0] * 3))  # the rule calls what it belongs to
    return f


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rule", [_other_slope, _own_slope])
@pytest.mark.parametrize("way", ["of itself", "beside"])
def test_rules_in_rules_at_every_order(way: str, rule: Any, order: int) -> None:
    def build(m: Any) -> Function:
        f = rule(m)
        found = (lambda x: f(f(x))) if way == "of itself" else (lambda x: f(x) * f(2 * x))
        for _ in range(order):
            found = m.api.grad(found)
        return found

    compare(build(OURS)(X[0]), build(jax_library())(X[0]))


@pytest.mark.parametrize(
    "rule",
    [
        lambda np, g: np.where(g > 0.5, 0.5, g) * np.abs(g),
        lambda np, g: np.where((g > 0.1) & (np.sign(g) == 1), 3.0 * g, -g),
        lambda np, g: g * (g > 0.5).astype("float64"),
        lambda np, g: g * (np.arange(g.size) == np.argmax(g)),
    ],
)
def test_a_rule_may_decide_by_the_cotangent(rule: Any) -> None:
    """Conditions on a cotangent were computed for its stand-in, which holds zeros."""
    f = pirkit.custom_vjp(lambda x: 1.0 * x)
    f.defvjp(lambda x: (1.0 * x, None), lambda held, g: (rule(np, g),))
    x = np.array([-2.0, -0.2, 0.2, 0.4, 0.7, 3.0])
    for derive in (pirkit.grad, lambda h: pirkit.jit(pirkit.grad(h))):
        found = derive(lambda x: (f(x) ** 2).sum() / 2)(x)
        np.testing.assert_allclose(np.asarray(found), rule(np, x), rtol=1e-12)


def _rule_on_the_cotangent(m: Any) -> Function:
    """The rule calls a function with a rule, and what that is of depends on the cotangent."""
    inner = m.api.custom_vjp(m.np.sin)
    inner.defvjp(lambda x: (m.np.sin(x), x), lambda x, g: (3 * m.np.cos(x) * g,))
    outer = m.api.custom_vjp(m.np.sin)
    outer.defvjp(lambda x: (inner(x), x), lambda x, g: (inner(g * x) * 5,))
    return lambda x: (outer(x) * x).sum()


def _rule_of_two(m: Any) -> Function:
    """Two tangents of one shape, and the rule of another function in both terms."""
    inner = m.api.custom_jvp(lambda x: x**3)
    inner.defjvp(lambda p, t: (inner(p[0]), t[0] * p[0]))
    outer = m.api.custom_jvp(lambda x, y: inner(x) * y)
    outer.defjvp(lambda p, t: (outer(*p), inner(p[0]) * t[1] + 2 * t[0] * inner(p[1])))
    return lambda x: outer(x, inner(x)).sum()


@pytest.mark.parametrize("rule", [_rule_on_the_cotangent, _rule_of_two])
def test_rules_that_call_functions_with_rules(rule: Any) -> None:
    theirs = jax_library()

    def again(m: Any, f: Function) -> Function:
        return lambda x: (m.api.grad(f)(x) * ROWS[0]).sum()

    def found(m: Any) -> list[Any]:
        f = rule(m)
        return [m.api.grad(f)(X), m.api.grad(again(m, f))(X),
                m.api.grad(again(m, again(m, f)))(X)]  # fmt: skip

    compare(found(OURS), found(theirs))


def test_a_rule_does_not_decide_on_its_stand_ins() -> None:
    """A rule is recorded for cotangents that are not there yet."""
    by_sign = pirkit.custom_vjp(lambda x: x * 1.0)
    by_sign.defvjp(lambda x: (x * 1.0, x), lambda x, g: (g * 2 if g.sum() > 0 else -g,))
    with pytest.raises(TraceError, match="cotangent"):
        pirkit.grad(lambda x: by_sign(x).sum())(X)
    by_value = pirkit.custom_vjp(lambda x: x * 1.0)
    by_value.defvjp(lambda x: (x * 1.0, x), lambda x, g: (g * 2 if x.sum() > 0 else -g,))

    def f(x: Any) -> Any:
        y = by_value(x)
        return y.sum() * (1 if y.sum() > 0 else 10)

    np.testing.assert_allclose(pirkit.grad(f)(X), 2.0)
    np.testing.assert_allclose(pirkit.grad(f)(-X), -10.0)


def _through_sizes(m: Any, x: Any) -> Any:
    z = (x * x + 1j * m.np.sin(x)) * (1 + 0.5j)
    return (m.np.abs(z) * x + m.np.real(z / m.np.abs(z))).sum()


@pytest.mark.parametrize("way", ["hessian", "jacfwd of jacfwd", "jacrev of jacfwd", "jvp"])
def test_derivatives_of_real_numbers_through_complex_ones(way: str) -> None:
    import pirkit.numpy as pnp

    def found(m: Any) -> Any:
        f = lambda x: _through_sizes(m, x)  # noqa: E731
        if way == "jvp":
            return m.api.jvp(lambda y: m.api.jvp(f, (y,), (X,))[1], (X,), (X,))
        outer, _, inner = way.partition(" of ")
        return getattr(m.api, outer)(getattr(m.api, inner)(f) if inner else f)(X)

    compare(found(SimpleNamespace(api=pirkit, np=pnp)), found(jax_library()))


def test_the_direction_of_a_complex_number_turns() -> None:
    """`sign` of a complex number has a derivative, in forward mode as in reverse."""
    import pirkit.numpy as pnp

    def f(x: Any) -> Any:
        return (pnp.real(pnp.sign(x * x + 1j * x)) * X).sum()

    np.testing.assert_allclose(pirkit.jacfwd(f)(X), pirkit.grad(f)(X))
    np.testing.assert_allclose(pirkit.hessian(f)(X), pirkit.jacrev(pirkit.grad(f))(X), atol=1e-12)


def test_rules_take_arguments_by_name() -> None:
    f = pirkit.custom_vjp(lambda x, y=2.0: x * y)
    f.defvjp(lambda x, y: (x * y, y), lambda y, g: (g * y * 5, None))
    np.testing.assert_allclose(pirkit.grad(lambda x: f(x, y=3.0).sum())(X), np.full(3, 15.0))


# --- numbers keep their digits beside tensors of 64 bits ---

WEAK: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "arithmetic of numbers": lambda m, x, s: x * (s * 2 / 3 - s**2),
    "functions of numbers": lambda m, x, s: x * abs(-s - 1) + x / s,
    "a branch in a scan": lambda m, x, s: m.scan(
        lambda c, v: (m.cond(v > c, lambda: v, lambda: c * 0.9), c), s, x),
    "fori_loop": lambda m, x, s: m.fori_loop(0, 1, lambda i, c: c * x[0], s),
    "while_loop": lambda m, x, s: m.while_loop(lambda c: c < 0.05, lambda c: c * x[0], s) * x[0],
    "scan": lambda m, x, s: m.scan(lambda c, v: (c * v, c), s, x),
    "a scan that begins where another one is": lambda m, x, s: m.scan(
        lambda c, v: (m.scan(lambda d, w: (d * w, d), c, x)[0], c), s, x),
    "cond": lambda m, x, s: m.cond(x[0] > 0, lambda c: c * x[0], lambda c: x[0], s),
    "a number in one branch": lambda m, x, s: m.cond(x[0] > 0, lambda c: c, lambda c: x[0], s),
    "vmap": lambda m, x, s: m.api.vmap(lambda v, c: v * c, in_axes=(0, None))(x, s),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", WEAK)
def test_numbers_are_not_rounded(name: str, compiled: bool) -> None:
    def call(m: Any) -> Any:
        f = partial(WEAK[name], m)
        return m.api.jit(f)(np.ones(3), 0.1) if compiled else f(np.ones(3), 0.1)

    for ours, theirs in zip(
        *map(pirkit.tree.leaves, (call(OURS), call(jax_library()))), strict=True
    ):
        assert np.asarray(ours).tolist() == np.asarray(theirs).tolist()


# --- products ---


def test_products_with_vectors_are_closed_forms() -> None:
    def f(x: Any) -> Any:
        return (x * x * x).sum()

    np.testing.assert_allclose(pirkit.hvp(f, (X,), (ROWS[0],)), 6 * X * ROWS[0])
    np.testing.assert_allclose(pirkit.laplacian(f)(X), (6 * X).sum())
    np.testing.assert_allclose(pirkit.jit(pirkit.laplacian(f))(X), (6 * X).sum())
    y, push = pirkit.linearize(ops.sin, X)
    compare((y, push(X)), (np.sin(X), np.cos(X) * X))


def test_rules_for_each_argument() -> None:
    @pirkit.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, z, x, y: 5.0 * t, None)
    np.testing.assert_allclose(pirkit.grad(lambda x: f(x, x).sum())(X), np.full(3, 5.0))
    f.defjvps(None, None)
    np.testing.assert_allclose(pirkit.grad(lambda x: f(x, x).sum())(X), np.zeros(3))


@pytest.mark.parametrize("number", [1, -1])
def test_rules_get_arguments_without_derivatives_by_their_numbers(number: int) -> None:
    def f(x: Any, mode: Any = "twice") -> Any:
        return x * 2 if mode == "twice" else x

    forward = pirkit.custom_jvp(f, nondiff_argnums=number)
    forward.defjvp(lambda mode, given, tangents: (f(given[0], mode), 5.0 * tangents[0]))
    backward = pirkit.custom_vjp(f, nondiff_argnums=(number,))
    backward.defvjp(lambda x, mode: (f(x, mode), None), lambda mode, held, ct: (5.0 * ct,))
    rules: tuple[Any, ...] = (forward, backward)
    for rule in rules:
        for args in ((), ("once",)):
            np.testing.assert_allclose(rule(X, *args), f(X, *args))
            found = pirkit.grad(lambda x, args=args, rule=rule: rule(x, *args).sum())(X)
            np.testing.assert_allclose(found, np.full(3, 5.0))
    for wrong in (f, lambda *rest: rest[0]):
        with pytest.raises(UsageError, match="no argument"):
            pirkit.custom_jvp(wrong, nondiff_argnums=-3)


# --- arguments ---


def test_arguments_of_transforms() -> None:
    def f(p: Any, *, scale: Any) -> Any:
        return (p.a * p.b * scale).sum()

    p = Pair(X, X + 1)
    value, found = pirkit.value_and_grad(f)(p, scale=2.0)
    assert isinstance(found, Pair)
    compare(found, Pair(2 * p.b, 2 * p.a))
    np.testing.assert_allclose(value, f(p, scale=2.0))
    np.testing.assert_allclose(pirkit.grad(lambda x, y: (x * y).sum(), -1)(X, ROWS[0]), X)


WRONG: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "branches differ": (lambda: pirkit.cond(X[0] > 0, lambda: X, lambda: W), "in the other"),
    "branches of other trees": (
        lambda: pirkit.cond(X[0] > 0, lambda: X, lambda: (X, X)), "structure"),
    "state changes": (
        lambda: pirkit.while_loop(lambda s: s.sum() < 9, lambda s: s[:2], X), "begins as"),
    "condition of many": (
        lambda: pirkit.while_loop(lambda s: s < 9, lambda s: s * 2, X), "one boolean"),
    "scan without rows": (lambda: pirkit.scan(lambda c, x: (c, x), X), "rows"),
    "scan gives no pair": (lambda: pirkit.scan(lambda c, x: c, X, X), "no pair"),
    "rows differ": (lambda: pirkit.vmap(lambda a, b: a * b)(X, ROWS), "rows"),
    "no axis": (lambda: pirkit.vmap(lambda a: a, out_axes=None)(X), "differs"),
    "no rows": (lambda: pirkit.vmap(lambda a: a, in_axes=None)(X), "no rows"),
    "no rule": (lambda: pirkit.grad(pirkit.custom_vjp(lambda x: x.sum()))(X), "no rule"),
    "argnums": (lambda: pirkit.grad(lambda x: x.sum(), 1)(X), "by position"),
    "draws": (lambda: pirkit.vmap(
        lambda a: ops.uniform([3], dtype="float64", min=0.0, max=1.0) * a)(ROWS), "mapped"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(PirkitError, match=words) as caught:
        call()
    assert caught.value.help
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_branches_refuse_python_on_their_values() -> None:
    with pytest.raises(TraceError, match="the truth") as caught:
        pirkit.cond(X[0] > 0, lambda a: a if a[0] > 1 else -a, lambda a: a, X)
    assert caught.value.help is not None
    assert "pirkit.cond" in caught.value.help


# --- Jacobians of trees, in one sweep ---

JACOBIANS: Final[dict[str, Callable[[Any], Any]]] = {
    "trees": lambda m: m.api.jacrev(lambda p: {"s": m.np.sin(p["a"]) * p["b"], "n": p["b"] ** 2})(
        {"a": X, "b": 2.0 * np.ones(())}),
    "trees, forward": lambda m: m.api.jacfwd(lambda p: {"s": m.np.sin(p["a"]) * p["b"]})(
        {"a": ROWS[:, 0], "b": 2.0 * np.ones(())}),
    "several": lambda m: m.api.jacrev(lambda x, y: m.np.sin(x) * y.sum(), argnums=(0, 1))(X, W),
    "aux": lambda m: m.api.jacfwd(lambda x: (m.np.sin(x), x.sum()), has_aux=True)(W),
    "hessian of a tree": lambda m: m.api.hessian(
        lambda p: (p["a"] ** 2).sum() * (p["b"] ** 3).sum())({"a": X, "b": ROWS}),
    "hessian aux": lambda m: m.api.hessian(
        lambda x: ((m.np.sin(x) ** 2).sum(), x[0]), has_aux=True)(ROWS[:, 1]),
    "nested": lambda m: m.api.jacrev(m.api.jacfwd(lambda x: m.np.sin(x) * x.sum()))(W[0] * 2),
    "wide": lambda m: m.api.jit(m.api.jacrev(lambda x: m.np.tanh(ROWS @ x).T @ ROWS))(W),
    "by value": lambda m: m.api.jacrev(lambda x: x * 2 if x[0] > 0 else m.np.sin(x))(ROWS[:, 0]),
    "branches and loops": lambda m: m.api.jacrev(lambda x: m.cond(
        x[0] > 0, lambda h: h * 2, lambda h: h,
        m.scan(lambda c, v: (c * v + x, v), x, x[:3])[0]))(ROWS.reshape(12)),
    "a rule": lambda m: m.api.jacrev(m.api.jacrev(by_jvp(m)))(ROWS[:, 0] * np.ones(4)),
    "inside": lambda m: m.api.grad(
        lambda a: (m.api.jacrev(lambda x: m.np.sin(x * a) * a)(ROWS[:, 0]) ** 2).sum())(ROWS[:, 1]),
    "rows": lambda m: m.api.vmap(m.api.jacfwd(lambda x: m.np.sin(x) * x.sum()))(W @ ROWS.T),
    "empty": lambda m: m.api.jacrev(lambda x: x * 2)(np.ones(0)),
    "vjp aux": lambda m: (lambda y, back, aux: (y, back(y), aux))(
        *m.api.vjp(lambda x: (m.np.sin(x), x.sum()), X, has_aux=True)),
    "jvp aux": lambda m: m.api.jvp(
        lambda x: (m.np.sin(x), {"n": x.sum()}), (X,), (X,), has_aux=True),
}  # fmt: skip


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name: str) -> None:
    compare(JACOBIANS[name](OURS), JACOBIANS[name](jax_library()))


def test_a_jacobian_draws_random_numbers_once() -> None:
    pirkit.seed(0)
    found = np.asarray(pirkit.jacrev(lambda x: ops.dropout(x, p=0.5) * 1.0)(np.ones(32)))
    assert {*np.diag(found)} == {0.0, 2.0}
    np.testing.assert_array_equal(found, np.diag(np.diag(found)))


def test_a_jacobian_through_an_op_without_a_rule_for_rows() -> None:
    x = np.arange(36.0).reshape(1, 1, 6, 6)
    found = pirkit.jacrev(lambda x: ops.max_pool2d_with_index(x, [2, 2], [2, 2])[0].sum(axis=2))(x)
    np.testing.assert_allclose(np.asarray(found).sum(axis=(0, 1, 2)).sum(), 9.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: pirkit.vjp(lambda x: (x, x * 2), X)[1](X),
        lambda: pirkit.jvp(lambda x, y: x * y, (X, X), (X,)),
        lambda: pirkit.jacrev(lambda x: x.argmax())(X),
        lambda: pirkit.jacfwd(lambda x: x * 1.5)(np.arange(3)),
    ],
)
def test_wrong_derivatives_are_refused_with_a_remedy(wrong: Callable[[], Any]) -> None:
    with pytest.raises(PirkitError) as caught:
        wrong()
    assert caught.value.code == "PK0701"
    assert caught.value.help
