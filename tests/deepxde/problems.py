"""What models of both of DeepXDE's backends are made of; nothing here names a framework."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np

dde: Final[Any] = importlib.import_module("deepxde")


def net(*sizes: int) -> Any:
    return dde.nn.FNN(list(sizes), "tanh", "Glorot uniform")


def adam(**more: Any) -> list[dict[str, Any]]:
    return [{"optimizer": "adam", "lr": 1e-3, **more}]


def sine(x: Any) -> Any:
    return np.sin(np.pi * x[:, 0:1])


def on_right(x: Any, on: Any) -> Any:
    return on and dde.utils.isclose(x[0], 1)


def beam() -> Any:
    """The Euler beam, clamped on the left."""
    geom = dde.geometry.Interval(0, 1)

    def second(y: Any, x: Any) -> Any:
        return dde.grad.hessian(y, x)

    def start(x: Any, on: Any) -> Any:
        return on and dde.utils.isclose(x[0], 0)

    bcs = [
        dde.icbc.DirichletBC(geom, lambda x: 0, start),
        dde.icbc.NeumannBC(geom, lambda x: 0, start),
        dde.icbc.OperatorBC(geom, lambda x, y, _: second(y, x), on_right),
        dde.icbc.OperatorBC(geom, lambda x, y, _: dde.grad.jacobian(second(y, x), x), on_right),
    ]
    data = dde.data.PDE(geom, lambda x, y: second(second(y, x), x) + 1, bcs, 10, 2)
    return dde.Model(data, net(1, 8, 8, 1)), adam(), []
