"""What changes around a compiled function is seen at the next call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.surroundings import Surroundings
from tests.frontend.test_jit import X, reasons


def test_arrays_around_are_read_at_each_call() -> None:
    w = np.ones(3)
    f = pirkit.jit(lambda x: x * w)
    np.testing.assert_allclose(f(X), X)
    w[:] = 2.0
    np.testing.assert_allclose(f(X), 2 * X)
    w = np.full(3, 5.0)
    np.testing.assert_allclose(f(X), 5 * X)
    assert len(reasons(f)) == 1
    w = np.full(1, 7.0)
    np.testing.assert_allclose(f(X), 7 * X)


def test_a_reason_is_how_a_call_differs_from_the_nearest_one() -> None:
    f = pirkit.jit(lambda x, n=2: x * n)
    f(X)
    f(X, 3)
    f(X, n=4)
    f(X.astype("float32"))
    f(X, 2.5)
    f(X[:1])
    told = reasons(f)[1:]
    assert "`n` is new" in told[0]
    assert "by name" in told[1]
    assert told[2].endswith("argument `x`: dtype float64 -> float32")
    assert "a Python int -> a Python float" in told[3]
    assert "argument `x`: shape (3,) -> (1,)" in told[4]


def test_what_else_changes_around_compiles_anew() -> None:
    settings = {"scale": 2.0, "w": X}
    other = [1.0]

    def helper(x: Any) -> Any:
        return x * settings["scale"] + other[0]

    f = pirkit.jit(lambda x: helper(x) + settings["w"])
    np.testing.assert_allclose(f(X), 3 * X + 1)
    settings["scale"] = 3.0
    np.testing.assert_allclose(f(X), 4 * X + 1)
    settings["w"] = X * 2
    np.testing.assert_allclose(f(X), 5 * X + 1)
    other[0] = 0.0
    np.testing.assert_allclose(f(X), 5 * X)
    settings["scale"], other[0] = 2.0, 1.0
    np.testing.assert_allclose(f(X), 4 * X + 1)
    found = reasons(f)
    assert len(found) == 3
    assert "2.0 -> 3.0" in found[1]
    assert "1.0 -> 0.0" in found[2]


def test_attributes_of_objects_are_watched() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = X
            self.power = 1

        def __call__(self, x: Any) -> Any:
            return (x * self.w) ** self.power

    model = Model()
    f = pirkit.jit(model)
    np.testing.assert_allclose(f(X), X * X)
    model.w = X * 3
    np.testing.assert_allclose(f(X), 3 * X * X)
    model.power = 2
    np.testing.assert_allclose(f(X), 9 * X**4)
    g = pirkit.jit(model.__call__)
    model.w = X
    np.testing.assert_allclose(g(X), X**4)


def test_tensors_that_are_computed_with_at_once_are_watched() -> None:
    t = pirkit.tensor(X.copy())
    f = pirkit.jit(lambda x: x * (t * 2.0))  # `t * 2.0` is no part of the program
    np.testing.assert_allclose(f(X), 2 * X * X)
    t[...] = X * 3
    np.testing.assert_allclose(f(X), 6 * X * X)


def test_replaced_functions_compile_anew() -> None:
    inner: Any = ops.sin
    f = pirkit.jit(lambda x: inner(x))
    np.testing.assert_allclose(f(X), np.sin(X))
    inner = ops.cos
    np.testing.assert_allclose(f(X), np.cos(X))


def test_only_what_a_user_can_change_is_watched() -> None:
    """Guards on globals of pirkit and on cells of its closures would cost time at each call."""
    rates = {"rate": 2.0}

    def f(x: Any) -> Any:
        return (x * rates["rate"]).sum()

    labels = [p.label for p in Surroundings.of(pirkit.value_and_grad(f)).places]
    assert labels == ["len(rates)", "rates['rate']"]


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k


class Shared:
    k = 2.0


@pytest.mark.parametrize(
    "holder", [Slotted(2.0), Shared, Shared()], ids=["slot", "class", "object of the class"]
)
def test_attributes_wherever_they_are(holder: Any) -> None:
    """Values in slots, of classes, and of classes read through their objects are watched."""
    f = pirkit.jit(lambda x: x * holder.k)
    np.testing.assert_allclose(f(X), X * 2)
    owner = Shared if isinstance(holder, Shared) else holder
    owner.k = 3.0
    try:
        np.testing.assert_allclose(f(X), X * 3)
    finally:
        owner.k = 2.0


class Functions:
    factor = 2.0

    @staticmethod
    def sine(x: Any) -> Any:
        return ops.sin(x)

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.factor


def test_functions_of_classes_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    f = pirkit.jit(lambda x: Functions.scaled(Functions.sine(x)))
    for _ in range(3):
        np.testing.assert_allclose(f(X), 2 * np.sin(X))
    assert sum(map(len, f._compiled.values())) == 1
    monkeypatch.setattr(Functions, "factor", 3.0)
    np.testing.assert_allclose(f(X), 3 * np.sin(X))
    monkeypatch.setattr(Functions, "sine", staticmethod(ops.cos))
    np.testing.assert_allclose(f(X), 3 * np.cos(X))


def test_sets_are_watched() -> None:
    flags = {"a"}
    f = pirkit.jit(lambda x: x * (2 if "b" in flags else 3))
    np.testing.assert_allclose(f(X), X * 3)
    flags.add("b")
    np.testing.assert_allclose(f(X), X * 2)
    assert "`flags`" in f.explain()
