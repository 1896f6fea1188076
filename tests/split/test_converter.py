"""A converter of a small framework: its own tracer, pirkit's public names, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pirkit

Array = np.ndarray[Any, Any]


# --- the framework: arrays with numpy's operators, computed at once or traced --------------------


class Tensor:
    """Elements, or a node of a trace: what computes it, and from what."""

    def __init__(self, data: Any = None, how: tuple[Any, ...] = (), name: str = "") -> None:
        self.data, self.how, self.name = data, how, name

    def __matmul__(self, other: Tensor) -> Tensor:
        return apply("matmul", self, other)

    def __add__(self, other: Tensor) -> Tensor:
        return apply("add", self, other)

    def __sub__(self, other: Tensor) -> Tensor:
        return apply("sub", self, other)

    def __mul__(self, other: Tensor) -> Tensor:
        return apply("mul", self, other)


def keep(buffer: Array, new: Array) -> Array:
    buffer[...] = new
    return buffer


def repeat(times: int, body: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return apply("repeat", x, times=times, body=body)


def repeated(x: Array, times: int, body: Callable[[Tensor], Tensor]) -> Array:
    for _ in range(times):
        x = body(Tensor(x)).data
    return x


EAGER: dict[str, Callable[..., Array]] = {
    "matmul": np.matmul,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "mean": lambda x, axis: x.mean(axis),
    "keep": keep,
    "repeat": repeated,
}


def apply(op: str, *inputs: Tensor, **options: Any) -> Tensor:
    if any(t.data is None for t in inputs):
        return Tensor(how=(op, inputs, options))
    return Tensor(EAGER[op](*(t.data for t in inputs), **options))


# --- the converter -------------------------------------------------------------------------------

OPS: dict[str, Callable[..., Any]] = {
    "matmul": lambda b, x, y: b.matmul(x, y),
    "add": lambda b, x, y: x + y,
    "sub": lambda b, x, y: x - y,
    "mul": lambda b, x, y: x * y,
    "tanh": lambda b, x: b.tanh_(b.assign(x)),
    "relu": lambda b, x: b.relu(x),
    "mean": lambda b, x, axis: b.mean(x, axis=[axis], keepdim=False),
    "keep": lambda b, buffer, new: b.assign_out_(new, buffer),
}


def convert(function: Callable[[Tensor], Tensor], x: Array, weights: dict[str, Array]) -> Any:
    """The program of a function of one tensor, whose weights are named arrays."""
    b = pirkit.ProgramBuilder()
    names = {id(array): name for name, array in weights.items()}
    made: dict[Tensor, Any] = {}

    def value_of(t: Tensor) -> Any:
        if t not in made:
            made[t] = made_of(t)
        return made[t]

    def made_of(t: Tensor) -> Any:
        if t.data is not None:
            name = names[id(t.data)]
            return b.parameter(name, t.data, trainable=not name.startswith("mean"))
        op, inputs, options = t.how
        if op == "repeat":
            return loop(value_of(inputs[0]), **options)
        return OPS[op](b, *map(value_of, inputs), **options)

    def loop(start: Any, times: int, body: Callable[[Tensor], Tensor]) -> Any:
        def turn(_: Any, state: Any) -> Any:
            inner = Tensor()
            made[inner] = state
            return value_of(body(inner))

        return pirkit.fori_loop(0, times, turn, start)

    given = Tensor()
    made[given] = b.input("x", x.shape, x.dtype)
    b.output("y", value_of(function(given)))
    return b.finish()


# --- the tests -----------------------------------------------------------------------------------


def network(weights: dict[str, Array]) -> Callable[[Tensor], Tensor]:
    w = {name: Tensor(array) for name, array in weights.items()}

    def run(x: Tensor) -> Tensor:
        h = apply("tanh", x @ w["w0"] + w["b0"])
        mean = apply("keep", w["mean"], apply("mean", h, axis=0))
        h = repeat(3, lambda s: apply("relu", s @ w["w1"]) + s, h - mean)
        return h @ w["w2"]

    return run


def drawn(seed: int) -> tuple[dict[str, Array], Array, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"w0": (3, 8), "b0": (8,), "mean": (8,), "w1": (8, 8), "w2": (8, 1)}
    weights = {n: rng.normal(size=s) * 0.3 for n, s in shapes.items()}
    x = rng.normal(size=(16, 3))
    return weights, x, np.sin(x.sum(1, keepdims=True))


def test_a_converted_program_computes_what_the_framework_does() -> None:
    weights, x, _ = drawn(0)
    program = convert(network(weights), x, weights)
    text = str(program)
    assert "pd_op.while" in text
    assert "pd_op.tanh_" in text
    assert "pd_op.assign_out_" in text
    shared = {n: a.copy() for n, a in weights.items()}
    want = network(weights)(Tensor(x)).data
    found = pirkit.compile(program, params=shared)(x=x)["y"]
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_converted_program_trains() -> None:
    weights, x, wanted = drawn(1)
    program = convert(network(weights), x, weights)
    step = pirkit.split.RunnableProgram(pirkit.split.forward_backward(program))
    params = [pirkit.tensor(weights[n].copy()) for n in step.names.fp]
    before: list[float] = []
    for turn in range(60):
        (y,) = outputs = step.forward([x], params)
        error = y.numpy() - wanted
        before.append(float((error**2).mean()))
        _, gradients = step.backward([pirkit.tensor(2 * error / error.size)], outputs)
        if turn == 0:
            check_slope(weights, x, wanted, dict(zip(step.names.fp, gradients, strict=True)))
        for p, g in zip(params, gradients, strict=True):
            if g is not None:
                p[...] = p - g * 0.05
    assert before[-1] < before[0] / 4
    assert step.plans()[0].counters.copies == 0


def check_slope(weights: dict[str, Array], x: Array, wanted: Array, found: dict[str, Any]) -> None:
    """The gradient along itself, against a central difference of the framework's own loss."""
    slopes = {n: g.numpy() for n, g in found.items() if g is not None}
    assert set(slopes) == {"w0", "b0", "w1", "w2"}

    def loss(step: float) -> float:
        moved = {n: a + step * slopes.get(n, 0) for n, a in weights.items()}
        return float(((network(moved)(Tensor(x)).data - wanted) ** 2).mean())

    difference = (loss(1e-6) - loss(-1e-6)) / 2e-6
    np.testing.assert_allclose(sum((g**2).sum() for g in slopes.values()), difference, rtol=1e-6)
