"""Optimizers: the steps of PyTorch's, in place where memory is donated; schedules; L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops, optim
from pirkit.diag.errors import UsageError

RNG: Final = np.random.default_rng(0)
PARAMS: Final = {"w": RNG.standard_normal((5, 4)), "b": RNG.standard_normal(4)}
X: Final = RNG.standard_normal((20, 5))
Y: Final = RNG.standard_normal((20, 4))


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((ops.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()


def stepped(optimizer: optim.Optimizer) -> Callable[..., Any]:
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = pirkit.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return value, optim.apply_updates(params, updates), state

    return step


def trained(optimizer: optim.Optimizer, *, compiled: bool = True, kind: Any = np.float64) -> Any:
    step = stepped(optimizer)
    step = pirkit.jit(step, donate_argnums=(0, 1)) if compiled else step
    params = {k: v.astype(kind) for k, v in PARAMS.items()}
    state = optimizer.init(params)
    for _ in range(12):
        _, params, state = step(params, state, X.astype(kind), Y.astype(kind))
    return params, state, step


OPTIMIZERS: Final[dict[str, tuple[optim.Optimizer, Callable[[Any, Any], Any]]]] = {
    "sgd": (optim.sgd(0.1), lambda t, p: t.SGD(p, 0.1)),
    "momentum": (optim.sgd(0.1, 0.9), lambda t, p: t.SGD(p, 0.1, 0.9)),
    "nesterov": (optim.sgd(0.1, 0.9, True), lambda t, p: t.SGD(p, 0.1, 0.9, nesterov=True)),
    "adam": (optim.adam(0.01), lambda t, p: t.Adam(p, 0.01)),
    "adamw": (optim.adamw(0.01), lambda t, p: t.AdamW(p, 0.01)),
}


def _of_torch(make: Callable[[Any, Any], Any], schedule: Any = None, clip: Any = None) -> Any:
    torch = pytest.importorskip("torch")
    params = {k: torch.tensor(v, requires_grad=True) for k, v in PARAMS.items()}
    x, y = torch.tensor(X), torch.tensor(Y)
    optimizer = make(torch.optim, list(params.values()))
    scheduler = schedule(torch.optim.lr_scheduler, optimizer) if schedule else None
    for _ in range(12):
        optimizer.zero_grad()
        ((torch.tanh(x @ params["w"] + params["b"]) - y) ** 2).mean().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(list(params.values()), clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
    return {k: v.detach().numpy() for k, v in params.items()}


def _same(found: Any, wanted: Any, rtol: float = 1e-10) -> None:
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_pytorch(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    wanted = _of_torch(theirs)
    _same(trained(ours)[0], wanted)
    _same(trained(ours, compiled=False)[0], wanted)


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_parameters_and_moments_are_written_in_place(name: str) -> None:
    params, state, step = trained(OPTIMIZERS[name][0], kind=np.float32)
    kinds = {str(v.dtype) for v in pirkit.tree.leaves((params, state)) if v.shape}
    assert kinds == {"float32"}
    large = [v for v in pirkit.tree.leaves((params, state)) if len(v.shape) == 2]
    before = [v.address for v in large]
    _, params, state = step(params, state, X.astype(np.float32), Y.astype(np.float32))
    after = [v.address for v in pirkit.tree.leaves((params, state)) if len(v.shape) == 2]
    assert after == before
    ((compiled,),) = step._compiled.values()
    assert compiled.whole.native is not None
    assert len(compiled.whole.native.steps) < 12, "one kernel updates a parameter and its moments"


SCHEDULES: Final[dict[str, tuple[Any, Any]]] = {
    "exponential": (optim.exponential_decay(0.1, 1, 0.9), lambda s, o: s.ExponentialLR(o, 0.9)),
    "cosine": (optim.cosine_decay(0.1, 8, 0.01), lambda s, o: s.LambdaLR(
        o, lambda n: (0.01 + 0.09 * 0.5 * (1 + np.cos(min(n / 8, 1) * np.pi))) / 0.1)),
    "piecewise": (optim.piecewise(0.1, {4: 0.5, 8: 0.1}), lambda s, o: s.LambdaLR(
        o, lambda n: 1 if n < 4 else 0.5 if n < 8 else 0.05)),
    "warmup": (optim.warmup(4, optim.exponential_decay(0.1, 1, 0.9)), lambda s, o: s.LambdaLR(
        o, lambda n: n / 4 if n < 4 else 0.9 ** (n - 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    ours, theirs = SCHEDULES[name]
    _same(trained(optim.sgd(ours))[0], _of_torch(lambda t, p: t.SGD(p, 0.1), theirs), 1e-9)


def test_clipping_by_the_norm_of_all_gradients() -> None:
    both = optim.chain(optim.clip_by_global_norm(0.05), optim.sgd(0.5))
    wanted = _of_torch(lambda t, p: t.SGD(p, 0.5), clip=0.05)
    _same(trained(both)[0], wanted, 1e-4)  # PyTorch adds 1e-6 to the norm


def rosenbrock(p: Any) -> Any:
    x = p["x"]
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() * 100.0 + ((1.0 - x[:-1]) ** 2).sum()


def test_lbfgs_finds_a_minimum() -> None:
    optimizer = optim.lbfgs()

    @pirkit.jit
    def step(params: Any, state: Any) -> Any:
        value, grads = pirkit.value_and_grad(rosenbrock)(params)
        updates, state = optimizer.update(grads, state, params, value=value, value_fn=rosenbrock)
        return value, optim.apply_updates(params, updates), state

    params = {"x": np.array([-1.2, 1.0, -0.5, 0.8])}
    state, values = optimizer.init(params), list[float]()
    for _ in range(60):
        value, params, state = step(params, state)
        values.append(float(value))
    assert all(b <= a for a, b in pairwise(values))
    np.testing.assert_allclose(params["x"], 1.0, atol=1e-6)
    np.testing.assert_allclose(state.value, rosenbrock(params), atol=1e-12)
    (first,) = [line for line in step.explain().splitlines() if line[0].isdigit()]
    assert "first call" in first


WRONG: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "decay without parameters": (
        lambda: optim.adamw(0.1).update(PARAMS, optim.adamw(0.1).init(PARAMS)), "weight decay"),
    "no parameters": (lambda: optim.sgd(0.1).init({}), "no parameters"),
    "another tree": (
        lambda: optim.adam(0.1).update({"w": X}, optim.adam(0.1).init(PARAMS)), "structure"),
    "mixed types": (lambda: optim.lbfgs().init([X, X.astype(np.float32)]), "one element type"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told(name: str) -> None:
    call, text = WRONG[name]
    with pytest.raises(UsageError, match=text):
        call()
