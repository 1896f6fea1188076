"""What a model's Python reads, changes, draws or hides from derivatives is as it is in torch."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pytest

os.environ["DDE_BACKEND"] = "pytorch"
torch: Any = pytest.importorskip("torch")
dde: Any = pytest.importorskip("deepxde")
if dde.backend.backend_name != "pytorch":
    pytest.skip("deepxde runs on another backend", allow_module_level=True)

from tests.deepxde import test_accelerate as plain  # noqa: E402
from tests.deepxde.test_accelerate import adam, double, line, net, sine  # noqa: E402

__all__ = ["double"]

pytestmark = [  # of torch itself
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
]


class Stepping(dde.callbacks.Callback):
    """Halves a number that an equation reads, and a tensor, now and then."""

    held: Any = None

    def on_epoch_end(self) -> None:
        if self.model.train_state.step % 40 == 0:
            self.held["rate"] *= 0.5
            self.held["tensor"] = self.held["tensor"] * 0.5


class Replacing(dde.callbacks.Callback):  # pyright: ignore[reportUntypedBaseClass]
    """Puts a weight into other memory, and lets another one rest for a while."""

    def on_epoch_end(self) -> None:
        step, (first, last) = self.model.train_state.step, self.model.net.linears
        if step == 20:
            last.weight.data = last.weight.data * 1.5
        first.weight.requires_grad_(not 40 <= step < 60)
        first.weight.grad = None if 40 <= step < 60 else first.weight.grad


def model(equation: Any, network: Any = None, **compiled: Any) -> Any:
    bc = dde.icbc.DirichletBC(line(), sine, lambda _, on: on)
    data = dde.data.PDE(line(), equation, bc, 12, 2)
    return dde.Model(data, network or net(1, 8, 1)), adam(**compiled), []


def residual(x: Any, y: Any) -> Any:
    return -dde.grad.hessian(y, x) - torch.sin(x)


def case_numbers_and_tensors_that_change() -> Any:
    held: Any = {"rate": 1.0, "tensor": torch.ones(1, dtype=torch.float64)}
    made, compiles, _ = model(lambda x, y: residual(x, y) * held["rate"] + held["tensor"])
    stepping = Stepping()
    stepping.held = held
    return made, compiles, [stepping]


def case_hidden_from_slopes() -> Any:
    def equation(x: Any, y: Any) -> Any:
        r = residual(x, y)
        with torch.no_grad():
            weight = torch.softmax(torch.abs(r), 0)
        slope = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
        return r * weight + r.detach() * y + slope * r

    return model(equation)


def case_written_in_place() -> Any:
    def equation(x: Any, y: Any) -> Any:
        copy = y.clone()
        copy[2:5] = 0.0
        other = y * 1.0
        other += x
        return residual(x, y) + copy + other

    return model(equation)


def case_variable_that_rests() -> Any:
    rests = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64), requires_grad=False)
    learned = dde.Variable(1.0)
    return model(
        lambda x, y: -rests * dde.grad.hessian(y, x) - learned * torch.sin(x),
        external_trainable_variables=[rests, learned],
    )


def case_weights_that_move_and_rest() -> Any:
    made, _, _ = model(residual)
    return made, [{"optimizer": "rmsprop", "lr": 1e-3}, *adam()], [Replacing()]


class Idle(dde.nn.NN):
    """Weights that no loss reaches: one is not used, one is lost by differentiation."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.regularizer = net(1, 8, 1), ("l2", 0.3)
        self.unused = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def case_idle_weights_do_not_decay() -> Any:
    data = dde.data.PDE(line(), residual, [], 12, 2)
    network = Idle()
    weights = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.5)
    return dde.Model(data, network), [*adam(), {"optimizer": weights}], []


def case_arguments_and_parts() -> Any:
    def equation(x: Any, y: Any) -> Any:
        size = torch.norm(y, dim=1, keepdim=True) + torch.sum(y, 1, True, dtype=torch.float64)
        turned = torch.view_as_real(torch.exp(1j * y))[:, :, 0]
        odd = torch.as_tensor(np.arange(len(y)) % 2 == 1)
        return residual(x, y) * size + turned + y[odd].mean()

    return model(equation)


def case_transforms_of_torch() -> Any:
    network = net(1, 8, 1)

    def equation(x: Any, y: Any) -> Any:
        def u(point: Any) -> Any:
            return network(point)[0]

        bent = torch.vmap(torch.func.hessian(u))(x)[:, :, 0]
        slopes = [torch.func.vmap(f(u), in_dims=0)(x) for f in (torch.func.grad, torch.func.jacrev)]
        return bent + torch.func.vmap(torch.func.jacfwd(u))(x) * slopes[0] - slopes[1] * y

    return model(equation, network)


def case_functions_of_aten() -> Any:
    def equation(x: Any, y: Any) -> Any:
        ends = torch.max(y, dim=1, keepdim=True).values
        return residual(x, y) + torch.logsumexp(y, 0) + y.var(dim=0) * ends

    return model(equation)


def case_of_several_outputs() -> Any:
    def equation(x: Any, y: Any) -> Any:
        a, b = y.unbind(1)
        seeds = [torch.ones_like(a), torch.full_like(b, 2.0)]
        (slope,) = found = torch.autograd.grad([a, b], [x], seeds, None, True, True, True)
        slope = slope if isinstance(found, tuple) else 0 * slope
        return slope + torch.linalg.norm(y, dim=1, keepdim=True) * (x > 0).to(x.dtype)

    bc = dde.icbc.DirichletBC(line(), lambda x: x, lambda _, on: on, component=0)
    return dde.Model(dde.data.PDE(line(), equation, bc, 12, 2), net(1, 8, 2)), adam(), []


CASES: Final[dict[str, Any]] = {
    name.removeprefix("case_"): value for name, value in globals().items() if "case_" in name
}


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain.compared(CASES[name])


GENERATOR: Final = np.random.default_rng(0)


def drawn_by_numpy(x: Any, y: Any) -> Any:
    return residual(x, y) + np.random.rand()


def drawn_by_torch(x: Any, y: Any) -> Any:
    return residual(x, y) + torch.randn(1, dtype=torch.float64)


def written_through_a_view(x: Any, y: Any) -> Any:
    other = y * 1.0
    column = other[:, 0:1]
    column += x
    return residual(x, y) + other


class Reversed(torch.autograd.Function):  # pyright: ignore[reportUntypedBaseClass]
    """A function whose derivative is not that of what it computes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        return -slope


class Counting(dde.nn.NN):
    """A network that counts its calls, in Python or in a buffer."""

    def __init__(self, in_a_buffer: bool) -> None:
        super().__init__()
        self.regularizer, self.number, self.in_a_buffer = None, 0, in_a_buffer
        self.register_buffer("counter", torch.zeros(1, dtype=torch.float64))
        self.inner = net(1, 8, 1)

    def forward(self, x: Any) -> Any:
        if self.in_a_buffer:
            self.counter += 1
        else:
            self.number += 1
        return self.inner(x) * (1 + 0.01 * self.number + 0.01 * self.counter)


def of_unused(x: Any, y: Any) -> Any:
    slopes = torch.autograd.grad(x.sum(), (x, y), create_graph=True, allow_unused=True)
    return residual(x, y) + (0.0 if slopes[1] is None else 1.0)


def of_batches(x: Any, y: Any) -> Any:
    seeds = torch.stack([torch.ones_like(y), y])
    more = {"create_graph": True, "is_grads_batched": True}
    return residual(x, y) + torch.autograd.grad(y, x, seeds, **more)[0].sum(0)


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    "numpy": (lambda: model(drawn_by_numpy), "draws random numbers"),
    "torch": (lambda: model(drawn_by_torch), "draws random numbers"),
    "generator": (
        lambda: model(lambda x, y: residual(x, y) + GENERATOR.random()), "draws random numbers",
    ),
    "function": (
        lambda: model(lambda x, y: residual(x, y) + Reversed.apply(y)), "derivative of its own",
    ),
    "view": (lambda: model(written_through_a_view), "writes into a part"),
    "counter": (lambda: model(residual, Counting(False)), "`self.number`: 2 -> 3"),
    "buffer": (lambda: model(residual, Counting(True)), "writes into a tensor of its own"),
    "unused input": (lambda: model(of_unused), "an input that is not used"),
    "batched cotangents": (lambda: model(of_batches), "batches of cotangents"),
    "branch": (
        lambda: model(lambda x, y: residual(x, y) if y.sum() > 0 else y * x), "reads the content",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_from_call_to_call_is_left_to_torch(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, reason = REFUSED[name]
    start = GENERATOR.bit_generator.state
    _, expected = plain.trained(make, native=False)
    GENERATOR.bit_generator.state = start
    ours, found = plain.trained(make, native=True)
    assert reason in ours.accelerated.refused
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
