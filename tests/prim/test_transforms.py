"""Functional transforms: nested, on trees, inside each other, and at once on tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import ConstraintError, PirkitError, UsageError
from pirkit.frontend import transforms

X = np.array([0.3, -0.7, 1.1])


def tanh_sum(x: Any) -> Any:
    return ops.tanh(x).sum()


def nested(order: int) -> Any:
    f: Any = tanh_sum
    for _ in range(order - 1):
        f = summed(pirkit.grad(f))
    return pirkit.grad(f)


def summed(g: Any) -> Any:
    return lambda x: g(x).sum()


def test_grad_nests() -> None:
    t = np.tanh(X)
    s = 1 - t * t
    expected = [s, -2 * t * s, -2 * s * s + 4 * t * t * s]
    for order, value in enumerate(expected, 1):
        np.testing.assert_allclose(nested(order)(X), value, rtol=1e-12)


def test_the_variable_of_an_inner_derivative_is_its_own() -> None:
    outer = pirkit.grad(lambda x: x * pirkit.grad(lambda y: x * y)(x))
    np.testing.assert_allclose(outer(np.array(3.0)), 6.0)


def test_vjp_and_jvp() -> None:
    y, pullback = pirkit.vjp(ops.sin, X)
    np.testing.assert_allclose(y, np.sin(X))
    np.testing.assert_allclose(pullback(np.array([1.0, 2.0, 0.0]))[0], np.cos(X) * [1, 2, 0])
    y, tangent = pirkit.jvp(ops.sin, (X,), (np.array([1.0, 0.0, 2.0]),))
    np.testing.assert_allclose(tangent, np.cos(X) * [1, 0, 2])


def test_jacobians_and_hessian() -> None:
    w = np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])

    def f(x: Any) -> Any:
        return ops.tanh(ops.matmul(x, w))

    expected = ((1 - np.tanh(X @ w) ** 2) * w).T
    np.testing.assert_allclose(pirkit.jacrev(f)(X), expected, rtol=1e-12)
    np.testing.assert_allclose(pirkit.jacfwd(f)(X), expected, rtol=1e-12)
    found = pirkit.hessian(lambda x: (x * x * x).sum())(X)
    np.testing.assert_allclose(found, np.diag(6 * X), atol=1e-15)


def test_forward_over_reverse_equals_reverse_over_reverse() -> None:
    f = pirkit.grad(lambda x: (ops.exp(x) * ops.sin(x)).sum())
    np.testing.assert_allclose(pirkit.jacfwd(f)(X), pirkit.jacrev(f)(X), rtol=1e-12, atol=1e-15)


def test_trees_and_several_arguments() -> None:
    params = {"w": np.ones((3, 2)), "b": np.zeros(2)}
    x = np.full((4, 3), 0.5)

    def loss(p: Any, x: Any) -> Any:
        return ops.add(ops.matmul(x, p["w"]), p["b"]).sum()

    value, grads = pirkit.value_and_grad(loss)(params, x)
    np.testing.assert_allclose(value, 12.0)
    np.testing.assert_allclose(grads["w"], np.full((3, 2), 2.0))
    np.testing.assert_allclose(grads["b"], [4.0, 4.0])
    by_both = pirkit.grad(loss, argnums=(0, 1))(params, x)
    np.testing.assert_allclose(by_both[1], np.full((4, 3), 2.0))


def test_aux_is_handed_through() -> None:
    def f(x: Any) -> Any:
        y = ops.exp(x)
        return y.sum(), y

    found, y = pirkit.grad(f, has_aux=True)(X)
    np.testing.assert_allclose(found, np.exp(X))
    np.testing.assert_allclose(y, np.exp(X))


def test_arrays_from_around_are_read_at_each_call() -> None:
    w = np.ones(3)
    f = pirkit.grad(lambda x: (x * w).sum())
    np.testing.assert_allclose(f(X), 1.0)
    w[:] = 5.0
    np.testing.assert_allclose(f(X), 5.0)


def test_what_does_not_depend_has_a_derivative_of_zeros() -> None:
    np.testing.assert_array_equal(pirkit.grad(lambda x: ops.exp(x * 0.0).sum())(X), 0.0)
    found = pirkit.grad(lambda x, y: ops.exp(y).sum())(X, X)
    np.testing.assert_array_equal(found, np.zeros(3))


def test_the_result_has_to_be_one_number() -> None:
    with pytest.raises(UsageError, match="one floating number"):
        pirkit.grad(ops.tanh)(X)


def test_values_of_another_trace_are_refused() -> None:
    leaked: list[Any] = []
    pirkit.grad(lambda x: leaked.append(x) or x.sum())(X)
    with pytest.raises(UsageError, match="another"):
        pirkit.grad(lambda x: (x * leaked[0]).sum())(X)


def test_indexing() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for index in [(0,), (..., 1), (slice(None), slice(1, 3)), (1, None, -1), (slice(0, 2), ..., 2)]:
        found = pirkit.vjp(lambda v, index=index: v[index] * 1.0, x)[0]
        np.testing.assert_array_equal(found, x[index])


def test_jet_gives_derivatives_along_a_curve() -> None:
    y, found = pirkit.jet(ops.tanh, (X,), ((np.ones(3), np.zeros(3), np.zeros(3)),))
    t = np.tanh(X)
    s = 1 - t * t
    np.testing.assert_allclose(y, t)
    for one, other in zip(found, [s, -2 * t * s, -2 * s * s + 4 * t * t * s], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_jet_along_a_curved_path_and_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.sin(x * y)

    at = (np.array(0.4), np.array(1.3))
    step = 1e-4

    def curve(s: float) -> Any:
        x, y = at[0] + s * 0.7 + s * s / 2 * 0.3, at[1] - s * 1.1
        return np.sin(x * y)

    _, (first, second) = pirkit.jet(
        f, at, ((np.array(0.7), np.array(0.3)), (np.array(-1.1), np.array(0.0)))
    )
    np.testing.assert_allclose(first, (curve(step) - curve(-step)) / (2 * step), rtol=1e-6)
    expected = (curve(step) - 2 * curve(0.0) + curve(-step)) / step**2
    np.testing.assert_allclose(second, expected, rtol=1e-5)


def test_jet_inside_grad_and_grad_inside_jet() -> None:
    def second(x: Any) -> Any:
        _, found = pirkit.jet(ops.tanh, (x,), ((np.ones(3), np.zeros(3)),))
        return found[1].sum()

    t = np.tanh(X)
    s = 1 - t * t
    third = -2 * s * s + 4 * t * t * s
    np.testing.assert_allclose(pirkit.grad(second)(X), third, rtol=1e-12)
    slope = pirkit.grad(tanh_sum)
    _, found = pirkit.jet(slope, (X,), ((np.ones(3), np.zeros(3)),))
    np.testing.assert_allclose(found[1], third, rtol=1e-12)


def test_numbers_are_directions_everywhere() -> None:
    x = np.array([0.3, 0.7])
    for one in (1, 1.0, True, np.float32(1.0)):
        np.testing.assert_array_equal(pirkit.jvp(ops.sin, (x,), (one,))[1], np.cos(x))
    np.testing.assert_array_equal(pirkit.jvp(ops.sin, (x,), (0.1,))[1], np.cos(x) * 0.1)
    _, (first, second) = pirkit.jet(ops.sin, (x,), ((1, 0),))
    np.testing.assert_allclose([first, second], [np.cos(x), -np.sin(x)], rtol=1e-15)
    inner: Any = lambda y: pirkit.jvp(ops.sin, (y,), (2.0,))[1].sum()  # noqa: E731
    np.testing.assert_allclose(pirkit.grad(inner)(x), -2 * np.sin(x), rtol=1e-15)


WRONG: Final = {
    "shape": np.ones(1),
    "rank": np.array(1.0),
    "more dimensions": np.ones((1, 2)),
    "precision": np.ones(2, np.float32),
    "complex": np.ones(2) * 1j,
}


@pytest.mark.parametrize("way", WRONG.values(), ids=WRONG)
def test_directions_of_another_type_are_refused(way: Any) -> None:
    x = np.array([0.3, 0.7])
    with pytest.raises(ConstraintError, match=r"the derivative of a"):
        pirkit.jvp(ops.sin, (x,), (way,))
    with pytest.raises(ConstraintError, match=r"the derivative of a"):
        pirkit.jet(ops.sin, (x,), ((way,),))


def test_a_complex_number_is_no_direction_of_a_real_tensor() -> None:
    with pytest.raises(UsageError, match="is no derivative of a"):
        pirkit.jvp(ops.sin, (np.ones(2),), (1j,))
    np.testing.assert_array_equal(pirkit.jvp(ops.square, (np.ones(2) + 0j,), (1j,))[1], [2j, 2j])


def test_jets_of_order_zero_are_values() -> None:
    y, found = pirkit.jet(ops.sin, (X,), ([],))
    np.testing.assert_array_equal(y, np.sin(X))
    assert list(found) == []


def test_the_cotangent_of_a_value_of_unknown_size_has_any() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3), "float64")
    chosen = b("pd_op.masked_select", x, b.greater_than(x, b.zeros_like(x)))
    b.output("y", chosen * chosen)
    program = b.finish()
    given = np.arange(6.0).reshape(2, 3) - 2.5
    for transform in (lambda f: f, pirkit.jit):
        found = transform(lambda x, c: pirkit.vjp(lambda x: program(x=x), x)[1](c))
        np.testing.assert_allclose(found(given, np.ones(3))[0], 2 * given * (given > 0))
    with pytest.raises(PirkitError, match="do not broadcast"):
        pirkit.vjp(lambda x: program(x=x), given)[1](np.ones(7))


def test_what_does_not_depend_on_its_argument_has_no_tangent() -> None:
    ones = np.ones(2)
    for result in (ones, pirkit.tensor(ones), 1.0, np.inf, True):
        value, tangent = pirkit.jvp(lambda _, r=result: r, (ones,), (ones,))
        assert np.shape(tangent) == np.shape(value)
        assert not np.any(np.asarray(tangent))


def test_the_program_that_is_used_stays_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = type(transforms._EXECUTABLES)()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(transforms, "_EXECUTABLES", kept)
    monkeypatch.setattr(transforms, "CACHED_PROGRAMS", 2)
    functions: list[Any] = [np.sin, np.cos, np.sin, np.tanh]
    made: list[Any] = []
    for f in functions:
        pirkit.grad(f)(1.0)
        made += [exe for exe in kept.values() if exe not in made]
    assert [*kept.values()] == [made[0], made[2]]
