"""What the examples of this folder share: a network, derivatives of rows, and a training step."""

from itertools import pairwise

import numpy as np

import pirkit
from pirkit import ops, optim


def parameters(*sizes, seed=0, dtype="float32"):
    """Weights (a, b) by Glorot and biases (b,) of a network of these widths."""
    rng = np.random.default_rng(seed)
    pairs = pairwise(sizes)
    return [
        (rng.normal(0, np.sqrt(2 / (a + b)), (a, b)).astype(dtype), np.zeros(b, dtype))
        for a, b in pairs
    ]


def mlp(params, x, act=ops.tanh):
    """A network of rows ``x`` (n, widths[0]); the result is (n, widths[-1])."""
    for w, b in params[:-1]:
        x = act(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def d(u, k):
    """The derivative of ``u``, which maps rows (n, m) to numbers (n,), along column ``k``."""
    return lambda x: pirkit.grad(lambda x: u(x).sum())(x)[:, k]


def box(n, *ranges, seed=1, dtype="float32"):
    """``n`` random points (n, m) between the given limits of each of m coordinates."""
    low, high = np.array(ranges, dtype).T
    rng = np.random.default_rng(seed)
    return (low + (high - low) * rng.random((n, len(ranges)))).astype(dtype)


def edges(n, *ranges, seed=2, dtype="float32"):
    """``n`` random points on the sides of the box, in turn."""
    x = box(n, *ranges, seed=seed, dtype=dtype)
    for i in range(n):
        side = i % (2 * len(ranges))
        x[i, side // 2] = ranges[side // 2][side % 2]
    return x


def adam(loss, rate=1e-3):
    """A compiled Adam step: ``step(state, *data) -> value, state`` with ``state(params)`` first."""
    optimizer = optim.adam(rate)

    @pirkit.jit
    def step(state, *data):
        params, moments = state
        value, gradients = pirkit.value_and_grad(loss)(params, *data)
        updates, moments = optimizer.update(gradients, moments)
        return value, (optim.apply_updates(params, updates), moments)

    return step


def state(params):
    """Parameters and the state of Adam, as a step wants them."""
    return params, optim.adam(1e-3).init(params)


def train(loss, params, data, steps=1000):
    """Train with Adam, and print the loss now and then."""
    step, held = adam(loss), state(params)
    for i in range(steps):
        value, held = step(held, *data)
        if i % max(steps // 5, 1) == 0 or i == steps - 1:
            print(f"step {i:5}: loss {float(value):.3e}")
    return held[0]
