"""Networks of the corpus, written with Python's control flow: Paddle's numbers, and training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CONTROL: Final = ("pd_op.if", "pd_op.while")


def while_tanh(p: Any, x: Any, n: Any) -> Any:
    y, i = x, np.zeros(1, np.int64)
    while i < n:
        y = np.tanh(y * p["loop_0.w_0"]) + x
        i = i + 1
    return y, i


def if_else(p: Any, x: Any) -> Any:
    if x.mean() > 0:
        y = x @ p["linear_0.w_0"] + p["linear_0.b_0"]
    else:
        y = np.tanh(x @ p["linear_1.w_0"] + p["linear_1.b_0"]) * 2.0
    return np.maximum(y, 0.0), (y * y).sum()


def while_until_small(p: Any, x: Any) -> Any:
    turns = np.int32(0)
    while abs(x).max() > 0.1 and turns < 50:
        x = x * 0.7
        turns = turns + np.int32(1)
    return x + p["loop_eval_0.w_0"], turns


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def cell(p: Any, layer: int, x: Any, h: Any, c: Any) -> Any:
    """One step of an LSTM; gates in Paddle's order: input, forget, candidate, output."""
    w, u, b, d = (p[f"lstm_cell_{layer}.{name}"] for name in ("w_0", "w_1", "b_0", "b_1"))
    gates = x @ w.T + b + h @ u.T + d
    n = h.shape[1]
    i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm(p: Any, x: Any) -> Any:
    rows = np.swapaxes(x, 0, 1)
    steps = np.arange(rows.shape[0]).reshape((-1, 1, 1))
    hs, cs = [], []
    for layer in range(2):  # Python's: a turn for each layer
        h = np.zeros((2, 6), np.float32)
        c = np.zeros((2, 6), np.float32)
        made = np.zeros((5, 2, 6), np.float32)
        for t, row in enumerate(rows):  # a loop of the program
            h, c = cell(p, layer, row, h, c)
            made = np.where(steps == t, h, made)
        rows = made
        hs.append(h)
        cs.append(c)
    y = np.swapaxes(rows, 0, 1) @ p["linear_0.w_0"] + p["linear_0.b_0"]
    return y, np.stack(hs), np.stack(cs)


NETWORKS: Final[dict[str, Callable[..., Any]]] = {
    f.__name__: f for f in (while_tanh, if_else, while_until_small, lstm)
}


class Recorded:
    """The numbers of a folder of the corpus."""

    def __init__(self, name: str) -> None:
        self.folder = CORPUS / name
        self.meta = json.loads((self.folder / "meta.json").read_text())
        self.params = self.table("params")

    def table(self, name: str, step: str = "") -> dict[str, Any]:
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return {}
        with np.load(path) as held:
            return {k.removeprefix(step): held[k] for k in held.files if k.startswith(step)}

    def close(self, found: Any, expected: Any) -> None:
        scale = np.abs(expected).max(initial=0) + 1e-3
        assert np.abs(np.asarray(found) - expected).max(initial=0) <= 1e-4 * scale


@pytest.mark.parametrize("name", NETWORKS)
def test_numbers_of_paddle(name: str) -> None:
    recorded, network = Recorded(name), pirkit.to_static(NETWORKS[name])
    params = {k: v for k, v in recorded.params.items() if v.dtype == np.float32}
    for step in ("step1/", "step2/"):
        inputs = list(recorded.table("inputs", step).values())
        outputs = recorded.table("outputs", step)
        found = network(params, *inputs)
        for i, expected in outputs.items():
            recorded.close(found[int(i)], expected)
        wanted = recorded.table("output_grads", step)
        if not wanted:
            continue
        chosen = [int(i) for i in wanted]

        def picked(p: Any, inputs: Any = inputs, chosen: Any = chosen) -> Any:
            result = network(p, *inputs)
            return [result[i] for i in chosen]

        _, pullback = pirkit.vjp(picked, params)
        (slopes,) = pullback(list(wanted.values()))
        for k, expected in recorded.table("param_grads", step).items():
            recorded.close(slopes[k], expected)
        rate = recorded.meta["learning_rate"]
        params = {k: np.asarray(v - rate * np.asarray(slopes[k])) for k, v in params.items()}
    program = pirkit.trace(network, params, *inputs)
    assert any(op.name in CONTROL for op in program.entry(None).block.walk())


@pytest.mark.parametrize("name", ["while_tanh", "if_else", "lstm"])
def test_training_equals_plain_python(name: str) -> None:
    """The plain function is traced at each step, where `if` and `while` go by value."""
    recorded, plain = Recorded(name), NETWORKS[name]
    inputs = list(recorded.table("inputs", "step1/").values())
    target = recorded.table("outputs", "step2/")["0"]

    def loss(network: Any) -> Any:
        def of(p: Any) -> Any:
            return ((network(p, *inputs)[0] - target) ** 2).mean()

        return of

    step = pirkit.jit(pirkit.value_and_grad(loss(pirkit.to_static(plain))))
    by_value = pirkit.value_and_grad(loss(plain))
    params = {k: v for k, v in recorded.params.items() if v.dtype == np.float32}
    losses: list[float] = []
    for _ in range(6):
        value, slopes = step(params)
        expected, _ = by_value(params)
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        losses.append(float(value))
        params = {k: np.asarray(v - 0.4 * np.asarray(slopes[k])) for k, v in params.items()}
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.95 * losses[0]
