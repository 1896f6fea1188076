"""`torch.autograd.grad` and `backward` inside of compiled functions; updates in place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from pirkit.torch import autograd_function  # noqa: E402
from tests.torch.comparing import same  # noqa: E402


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        yield


def _forces(energy: Callable[[Any, Any], Any], **options: Any) -> Callable[[Any, Any], Any]:
    def loss(x: Any, w: Any) -> Any:
        y = x * 2
        (force,) = torch.autograd.grad(energy(y, w).sum(), y, **(options or {"create_graph": True}))
        return (force * w).square().sum()

    return loss


def _twice(x: Any, w: Any) -> Any:
    y = x * 2
    (first,) = torch.autograd.grad((y @ w).tanh().sum(), y, create_graph=True)
    (second,) = torch.autograd.grad(first.sin().sum(), y, create_graph=True)
    return second.square().sum()


def _hidden(y: Any, w: Any) -> Any:
    with torch.no_grad():
        factor = (y @ w).cos()
    return (y @ w).tanh() * factor


def _by_data(y: Any, w: Any) -> Any:
    z = y @ w
    z.data.copy_(z.data + w.data)
    return z.sin() * w


def _written(x: Any, w: Any) -> Any:
    y = x * 2
    y.mul_(w)
    (found,) = torch.autograd.grad(y.sin().sum(), y, create_graph=True)
    return (found * y).sum()


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g[0] * 3 * x.cos()


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "forces": _forces(lambda y, w: (y @ w).tanh()),
    "constant forces": _forces(lambda y, w: (y @ w).tanh(), retain_graph=True),
    "a detached factor": _forces(lambda y, w: (y @ w).tanh() * (y @ w).tanh().detach()),
    "a factor under no_grad": _forces(_hidden),
    "two derivatives": _twice,
    "a write through data": _forces(_by_data),
    "a write": _written,
    "with respect to an argument": lambda x, w: (
        torch.autograd.grad((x @ w).tanh().sum(), x, create_graph=True)[0].square().sum()
    ),
    "a checkpoint": _forces(
        lambda y, w: checkpoint(lambda z: (z @ w).tanh(), y, use_reentrant=False)
    ),
    "a random choice": _forces(
        lambda y, w: (y @ w).tanh().gather(1, torch.poisson(w.detach().abs()).long() % 3)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_inside_of_a_graph_are_those_of_eager(name: str) -> None:
    same(FUNCTIONS[name], *[torch.randn(3, 3, requires_grad=True) for _ in range(2)])


@pytest.mark.parametrize("name", ["forces", "two derivatives"])
def test_no_op_is_left_to_torch(name: str) -> None:
    given = [torch.randn(3, 3, requires_grad=True) for _ in range(2)]
    same(FUNCTIONS[name], *given, options={"strict": True})


def test_a_function_with_its_own_derivative_is_refused() -> None:
    function = torch.compile(
        _forces(lambda y, w: _Own.apply(y @ w)), backend="pirkit", options={"strict": True}
    )
    with pytest.raises(Exception, match="own derivative in a graph that asks for gradients"):
        function(*[torch.randn(3, 3, requires_grad=True) for _ in range(2)])


def _stepped(model: Any, x: Any, backend: str | None) -> list[Any]:
    def gradients(x: Any) -> Any:
        y = x.detach().requires_grad_()
        (force,) = torch.autograd.grad(model(y).sum(), y, create_graph=True)
        loss = force.square().sum()
        loss.backward()
        return loss.detach()

    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    step = optimizer.step
    if backend is not None:
        gradients = torch.compile(gradients, backend=backend, options={"strict": True})
        step = torch.compile(step, backend=backend)
    losses: list[Any] = []
    for _ in range(4):
        optimizer.zero_grad()
        losses.append(gradients(x))
        step()
    return [*losses, *model.parameters()]


def test_a_step_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, other = torch.randn(5, 3), copy.deepcopy(model)
    expected = _stepped(model, x, None)
    monkeypatch.delattr(autograd_function, "_APPLY")  # nothing that is returned has a gradient
    actual = _stepped(other, x, "pirkit")
    for found, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_an_update_is_written_where_the_argument_lies() -> None:
    def update(p: Any, g: Any, s: Any) -> Any:
        s.mul_(0.9).add_(g)
        p.sub_(s * 0.1)
        return p.sum()

    p, g, s = torch.randn(6), torch.randn(6), torch.zeros(6)
    places = p.data_ptr(), s.data_ptr()
    q, r = p.clone(), s.clone()
    compiled = torch.compile(update, backend="pirkit")
    for _ in range(3):
        versions = p._version, s._version
        torch.testing.assert_close(compiled(p, g, s), update(q, g, r))
        torch.testing.assert_close((p, s), (q, r))
        assert p._version > versions[0]
        assert s._version > versions[1]
    assert places == (p.data_ptr(), s.data_ptr())
    same(update, *[torch.randn(6, 4).t()[:, :3] for _ in range(3)])  # not in rows: copied


def test_exchanged_arguments() -> None:
    def exchange(a: Any, b: Any) -> Any:
        old = a.clone()
        a.copy_(b + 1)
        b.copy_(old * 2)
        return a.cumsum(0) + b

    same(exchange, torch.randn(7), torch.randn(7))
