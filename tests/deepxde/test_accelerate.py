"""DeepXDE models train in native code as they do in torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

os.environ["DDE_BACKEND"] = "pytorch"
torch: Any = pytest.importorskip("torch")
dde: Any = pytest.importorskip("deepxde")
if dde.backend.backend_name != "pytorch":
    pytest.skip("deepxde runs on another backend", allow_module_level=True)

from pirkit.deepxde import accelerate  # noqa: E402
from pirkit.deepxde.programs import Bound  # noqa: E402
from pirkit.diag.errors import InternalError  # noqa: E402
from tests.deepxde.problems import adam, beam, net, on_right, sine  # noqa: E402

torch.set_num_threads(1)  # several wait for each other, which takes most of the time
STEPS: Final = 100
Case = Callable[[], tuple[Any, list[dict[str, Any]], list[Any]]]
"""Gives a model, the arguments of each `compile`, and callbacks."""


@pytest.fixture(autouse=True)
def double() -> Any:
    dde.config.set_default_float("float64")
    options = dde.optimizers.config.LBFGS_options
    kept = dict(options)
    options |= {"maxiter": 20, "iter_per_step": 5, "fun_per_step": 10}
    yield
    options |= kept
    dde.config.set_default_float("float32")


def laplace(x: Any, y: Any) -> Any:
    return -dde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)


def on_left(x: Any, on: Any) -> Any:
    return on and dde.utils.isclose(x[0], -1)


def line() -> Any:
    return dde.geometry.Interval(-1, 1)


def poisson(*bcs: Any, points: int = 12, **more: Any) -> Any:
    held = list(bcs) or [dde.icbc.DirichletBC(line(), sine, lambda _, on: on)]
    return dde.data.PDE(line(), laplace, held, points, 2, solution=sine, num_test=20, **more)


def case_poisson() -> Any:
    return dde.Model(poisson(), net(1, 8, 8, 1)), adam(metrics=["l2 relative error"]), []


def case_inverse() -> Any:
    c = dde.Variable(2.0)
    geom = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))

    def pde(x: Any, y: Any) -> Any:
        y_t = dde.grad.jacobian(y, x, i=0, j=1)
        return y_t - c * dde.grad.hessian(y, x, i=0, j=0) + torch.exp(-x[:, 1:]) * torch.exp(c)

    places = np.vstack((np.linspace(-1, 1, 5), np.full(5, 1.0))).T
    seen = dde.icbc.PointSetBC(places, np.exp(-1.0) * np.sin(np.pi * places[:, 0:1]))
    start = dde.icbc.IC(geom, sine, lambda _, on: on)
    data = dde.data.TimePDE(geom, pde, [start, seen], 20, 8, 8, anchors=places)
    variable = dde.callbacks.VariableValue(c, period=50)
    return dde.Model(data, net(2, 8, 8, 1)), adam(external_trainable_variables=c), [variable]


def case_resampled() -> Any:
    data = poisson(points=10, train_distribution="pseudo")
    return dde.Model(data, net(1, 8, 1)), adam(), [dde.callbacks.PDEPointResampler(period=20)]


def case_transforms() -> Any:
    network = net(2, 8, 8, 1)
    network.apply_feature_transform(lambda x: torch.cat([torch.sin(np.pi * x), x**2], dim=1))
    network.apply_output_transform(lambda x, y: (1 - x**2) * y + x)
    more = {"loss_weights": [1, 100], "decay": ("step", 10, 0.5)}
    return dde.Model(poisson(), network), adam(**more), []


def case_robin_and_operator() -> Any:
    robin = dde.icbc.RobinBC(line(), lambda x, y: y, on_right)
    left = dde.icbc.OperatorBC(line(), lambda x, y, _: dde.grad.jacobian(y, x) * y, on_left)
    return dde.Model(poisson(robin, left), net(1, 8, 8, 1)), adam(), []


def case_neumann_and_periodic() -> Any:
    neumann = dde.icbc.NeumannBC(line(), lambda x: 2 * x, on_right)
    periodic = dde.icbc.PeriodicBC(line(), 0, on_left)
    return dde.Model(poisson(neumann, periodic), net(1, 8, 8, 1)), adam(), []


def case_parallel() -> Any:
    geom = dde.geometry.TimeDomain(0, 1)

    def system(x: Any, y: Any) -> Any:
        a, b, c = (y[:, i : i + 1] for i in range(3))
        return [
            dde.grad.jacobian(y, x, i=0) - 10 * (b - a),
            dde.grad.jacobian(y, x, i=1) - a * (15 - c) + b,
            dde.grad.jacobian(y, x, i=2) - a * b + c,
        ]

    starts = [dde.icbc.IC(geom, lambda x: -8, lambda _, on: on, component=i) for i in range(3)]
    data = dde.data.TimePDE(geom, system, starts, 10, 2)
    network = dde.nn.PFNN([1, [6, 6, 6], [5, 5, 5], 3], "sin", "Glorot uniform")
    return dde.Model(data, network), adam(), []


def case_auxiliary() -> Any:
    def pde(x: Any, y: Any, force: Any) -> Any:
        return dde.grad.hessian(y, x) - force

    bc = dde.icbc.DirichletBC(line(), lambda x: 0, lambda _, on: on)
    data = dde.data.PDE(line(), pde, bc, 12, 2, auxiliary_var_function=np.sin)
    network = dde.nn.FNN([1, 8, 1], "silu", "Glorot uniform", regularization=["l1", 1e-3])
    return dde.Model(data, network), adam(), []


def case_l2() -> Any:
    network = dde.nn.FNN([1, 8, 1], "gelu", "Glorot uniform", regularization=["l2", 1e-3])
    return dde.Model(poisson(), network), adam(), []


def case_adam_then_lbfgs() -> Any:
    return dde.Model(poisson(), net(1, 8, 1)), [*adam(), {"optimizer": "L-BFGS"}], []


def case_system_of_columns() -> Any:
    square = dde.geometry.Rectangle([0, 0], [1, 1])

    def pde(x: Any, y: Any) -> Any:
        u_xx, u_yy = (dde.grad.hessian(y, x, component=0, i=k, j=k) for k in range(2))
        u_xy = dde.grad.hessian(y, x, component=0, i=0, j=1)
        v_y = dde.grad.jacobian(y, x, i=1, j=1)
        return [u_xx + u_yy - v_y, v_y * y[:, 0:1] - u_xy]

    bc = dde.icbc.DirichletBC(square, lambda x: x[:, 0:1], lambda _, on: on, component=1)
    return dde.Model(dde.data.PDE(square, pde, bc, 20, 8), net(2, 8, 8, 2)), adam(), []


def case_function() -> Any:
    data = dde.data.Function(line(), lambda x: np.sin(3 * x + 1), 12, 10)
    return dde.Model(data, net(1, 8, 1)), [{"optimizer": "rmsprop", "lr": 1e-3}], []


CASES: Final[dict[str, Case]] = {
    name.removeprefix("case_"): value for name, value in globals().items() if "case_" in name
} | {"beam": beam}


def trained(make: Case, *, native: bool) -> tuple[Any, list[Any]]:
    dde.config.set_random_seed(1)
    model, compiles, callbacks = make()
    for arguments in compiles:
        model.compile(**arguments, verbose=0)
        if native:
            accelerate(model)
        model.train(iterations=STEPS, display_every=50, callbacks=callbacks, verbose=0)
    return model, [p.detach().numpy() for g in model.opt.param_groups for p in g["params"]]


def compared(make: Case) -> tuple[Any, Any]:
    """Train a model in torch and in native code; both must find the same. Returns both."""
    theirs, expected = trained(make, native=False)
    ours, found = trained(make, native=True)
    assert ours.accelerated.refused is None
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    for a, b in ((ours.losshistory.loss_train, theirs.losshistory.loss_train),
                 (ours.losshistory.loss_test, theirs.losshistory.loss_test)):  # fmt: skip
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    points = theirs.train_state.X_test
    np.testing.assert_allclose(ours.predict(points), theirs.predict(points), rtol=1e-7, atol=1e-8)
    return ours, theirs


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    compared(CASES[name])


def test_a_beam_is_one_native_call_with_one_series() -> None:
    model, _ = trained(beam, native=True)
    assert all(b.executable.native is not None for *_, b in model.accelerated._bound.values())


def test_new_points_need_no_new_code() -> None:
    model, _ = trained(case_resampled, native=True)
    assert len(model.accelerated.programs.held) <= 3


def test_saved_models_are_restored(tmp_path: Any) -> None:
    model, _ = trained(case_poisson, native=True)
    path = model.save(str(tmp_path / "model"), verbose=0)
    model.train(iterations=30, display_every=30, verbose=0)
    expected = [p.detach().numpy().copy() for p in model.net.parameters()]
    other, compiles, _ = case_poisson()
    other.compile(**compiles[0], verbose=0)
    accelerate(other)
    other.restore(path, verbose=0)
    other.train(iterations=30, display_every=30, verbose=0)
    for a, b in zip(other.net.parameters(), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-9, atol=1e-9)


def test_what_is_not_covered_runs_in_torch(capsys: pytest.CaptureFixture[str]) -> None:
    def case() -> Any:
        bc = dde.icbc.DirichletBC(line(), sine, lambda _, on: on)
        data = dde.data.PDE(line(), lambda x, y: torch.special.ndtri(y) * x, bc, 5, 2)
        return dde.Model(data, net(1, 4, 1)), adam(), []

    _, expected = trained(case, native=False)
    capsys.readouterr()
    _, found = trained(case, native=True)
    told = capsys.readouterr().err
    assert "special_ndtri" in told
    assert told.count("pirkit.deepxde: torch runs this model") == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_step_that_fails_is_repeated_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted once, and the line says that the error is one of pirkit."""
    _, expected = trained(case_poisson, native=False)
    calls = 0

    def run(bound: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InternalError("no memory")
        original(bound)

    original: Any = Bound.run
    monkeypatch.setattr(Bound, "run", run)
    model, found = trained(case_poisson, native=True)
    assert "internal error of pirkit" in model.accelerated.refused
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_each_change_of_loss_weights_is_noticed() -> None:
    """Also where their text stays: numpy prints eight digits."""
    weights = np.array([1.0, 100.0])
    model = dde.Model(poisson(), net(1, 4, 1))
    model.compile("adam", lr=1e-3, loss_weights=weights, verbose=0)
    accelerate(model)
    for known in (1, 2):
        model.train(iterations=1, verbose=0)
        assert len(model.accelerated._bound) == known
        weights += 1e-9


def test_a_condition_without_points_has_the_loss_that_the_framework_gives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The mean of nothing is NaN, and moves no weight."""
    bcs = [dde.icbc.DirichletBC(line(), sine, lambda _, on: False)]
    bcs.append(dde.icbc.DirichletBC(line(), sine, lambda _, on: on))
    found: list[Any] = []
    for is_native in (False, True):
        dde.config.set_random_seed(3)
        model = dde.Model(poisson(*bcs), net(1, 8, 1))
        model.compile("adam", lr=1e-3, verbose=0)
        if is_native:
            accelerate(model)
        history, _ = model.train(iterations=5, display_every=1, verbose=0)
        found.append((history.loss_train, [p.detach().numpy() for p in model.net.parameters()]))
    (losses, weights), (ours, moved) = found
    assert "torch runs this model" not in "".join(capsys.readouterr())
    assert np.isnan(np.asarray(losses)).any(axis=1).all()
    np.testing.assert_allclose(ours, losses, rtol=1e-9)
    for have, want in zip(moved, weights, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9)
