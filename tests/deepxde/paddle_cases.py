"""Models of DeepXDE's Paddle backend, trained by Paddle and in native code.

Run by `test_paddle_backend.py` in a process of its own: DeepXDE has one backend for each process.
Each case gives a model, the arguments of each `compile`, and callbacks.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import numpy as np

from pirkit.deepxde import accelerate
from tests.deepxde.problems import adam, beam, dde, net, sine

paddle: Final[Any] = importlib.import_module("paddle")

STEPS: Final = 100


def on_boundary(_: Any, on: Any) -> Any:
    return on


def poisson(**more: Any) -> Any:
    line = dde.geometry.Interval(-1, 1)

    def pde(x: Any, y: Any) -> Any:
        return -dde.grad.hessian(y, x) - np.pi**2 * paddle.sin(np.pi * x)

    bc = dde.icbc.DirichletBC(line, sine, on_boundary)
    return dde.data.PDE(line, pde, bc, 12, 2, solution=sine, num_test=20, **more)


def case_poisson() -> Any:
    return dde.Model(poisson(), net(1, 8, 8, 1)), adam(metrics=["l2 relative error"]), []


def case_resampled() -> Any:
    data = poisson(train_distribution="pseudo")
    return dde.Model(data, net(1, 8, 1)), adam(), [dde.callbacks.PDEPointResampler(period=40)]


def case_decay_and_weights() -> Any:
    more = {"loss_weights": [1, 100], "decay": ("inverse time", 0.3)}
    network = net(1, 8, 1)
    network.apply_output_transform(lambda x, y: (1 - x**2) * y + paddle.sin(1.3 * x))
    return dde.Model(poisson(), network), adam(**more), []


def case_adam_then_lbfgs() -> Any:
    return dde.Model(poisson(), net(1, 8, 1)), [*adam(), {"optimizer": "L-BFGS"}], []


def case_rmsprop() -> Any:
    return dde.Model(poisson(), net(1, 8, 1)), [{"optimizer": "rmsprop", "lr": 1e-3}], []


def case_burgers() -> Any:
    line, time = dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 0.99)
    geom = dde.geometry.GeometryXTime(line, time)

    def pde(x: Any, y: Any) -> Any:
        slope_x, slope_t = (dde.grad.jacobian(y, x, i=0, j=j) for j in range(2))
        return slope_t + y * slope_x - 0.01 / np.pi * dde.grad.hessian(y, x, i=0, j=0)

    bc = dde.icbc.DirichletBC(geom, lambda x: 0, on_boundary)
    ic = dde.icbc.IC(geom, lambda x: -sine(x), lambda _, on: on)
    data = dde.data.TimePDE(geom, pde, [bc, ic], 60, 10, 20)
    return dde.Model(data, net(2, 12, 12, 1)), adam(), []


def case_inverse() -> Any:
    c = dde.Variable(2.0)
    geom = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))

    def pde(x: Any, y: Any) -> Any:
        y_t = dde.grad.jacobian(y, x, i=0, j=1)
        source = paddle.exp(-x[:, 1:]) * (paddle.sin(np.pi * x[:, 0:1]) + c**2)
        return y_t - c * dde.grad.hessian(y, x, i=0, j=0) + source * paddle.exp(c)

    places = np.vstack((np.linspace(-1, 1, 5), np.full(5, 1.0))).T
    seen = dde.icbc.PointSetBC(places, np.exp(-1.0) * sine(places))
    start = dde.icbc.IC(geom, sine, lambda _, on: on)
    data = dde.data.TimePDE(geom, pde, [start, seen], 20, 8, 8, anchors=places)
    variable = dde.callbacks.VariableValue(c, period=50)
    return dde.Model(data, net(2, 8, 8, 1)), adam(external_trainable_variables=c), [variable]


def case_system() -> Any:
    square = dde.geometry.Rectangle([0, 0], [1, 1])

    def pde(x: Any, y: Any) -> Any:
        u_xx, u_yy = (dde.grad.hessian(y, x, component=0, i=k, j=k) for k in range(2))
        v_y = dde.grad.jacobian(y, x, i=1, j=1)
        return [u_xx + u_yy - v_y, v_y * y[:, 0:1] - dde.grad.hessian(y, x, i=0, j=1)]

    bc = dde.icbc.DirichletBC(square, lambda x: x[:, 0:1], on_boundary, component=1)
    return dde.Model(dde.data.PDE(square, pde, bc, 20, 8), net(2, 8, 8, 2)), adam(), []


CASES: Final[dict[str, Any]] = {
    name.removeprefix("case_"): value for name, value in globals().items() if "case_" in name
} | {"beam": beam}


def trained(name: str, *, native: bool) -> tuple[Any, list[Any]]:
    dde.config.set_random_seed(1)
    model, compiles, callbacks = CASES[name]()
    for arguments in compiles:
        model.compile(**arguments, verbose=0)
        if native:
            accelerate(model)
        model.train(iterations=STEPS, display_every=50, callbacks=callbacks, verbose=0)
    held = [*model.net.parameters(), *model.external_trainable_variables]
    return model, [v.numpy() for v in held]


def compare(name: str) -> None:
    """Train a model in Paddle and in native code. Raises AssertionError for other weights."""
    theirs, expected = trained(name, native=False)
    ours, found = trained(name, native=True)
    assert ours.accelerated.refused is None, ours.accelerated.refused
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    for a, b in ((ours.losshistory.loss_train, theirs.losshistory.loss_train),
                 (ours.losshistory.loss_test, theirs.losshistory.loss_test)):  # fmt: skip
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    points = theirs.train_state.X_test
    np.testing.assert_allclose(ours.predict(points), theirs.predict(points), rtol=1e-7, atol=1e-8)


if __name__ == "__main__":
    dde.config.set_default_float("float64")
    options = {"maxiter": 20, "iter_per_step": 5, "fun_per_step": 10}
    dde.optimizers.config.LBFGS_options |= options
    for each in sys.argv[1:]:
        compare(each)
        print("equal:", each, flush=True)
