"""The Euler beam: u'''' of a small network, by four gradients and by one jet.

python examples/euler_beam.py
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import pirkit
from pirkit import ops


def network(params: Any, x: Any) -> Any:
    """A network 1-20-20-20-1 with tanh."""
    for w, b in params[:-1]:
        x = ops.tanh(ops.add(ops.matmul(x, w), b))
    return ops.add(ops.matmul(x, params[-1][0]), params[-1][1])


def along(u: Any) -> Any:
    """The derivative of each row of ``u(params, x)`` along ``x``."""
    return lambda params, x: pirkit.grad(lambda p, y: u(p, y).sum(), 1)(params, x)


def residual(params: Any, x: Any) -> Any:
    """``u'''' + 1``: zero where the beam bends under its load."""
    return along(along(along(along(network))))(params, x) + 1.0


def loss(params: Any, x: Any) -> Any:
    return (residual(params, x) ** 2).mean()


def main() -> None:
    rng = np.random.default_rng(0)
    params = [
        (rng.standard_normal((a, b)) * np.sqrt(2 / (a + b)), np.zeros(b))
        for a, b in pairwise([1, 20, 20, 20, 1])
    ]
    x = np.linspace(0.0, 1.0, 11).reshape(-1, 1)
    value, gradients = pirkit.value_and_grad(loss)(params, x)
    print(f"loss {float(value):.12f}, gradients of {len(gradients)} layers")

    zero = np.zeros_like(x)
    series = (np.ones_like(x), zero, zero, zero)
    _, derivatives = pirkit.jet(lambda y: network(params, y), (x,), (series,))
    fourth = along(along(along(along(network))))(params, x)
    difference = float(np.abs(np.asarray(derivatives[3]) - np.asarray(fourth)).max())
    print(f"grad four times and jet differ by {difference:.1e}")


if __name__ == "__main__":
    main()
