"""Code for one number of rows that serves all: what is compiled, and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pirkit.torch  # noqa: E402, F401  registers the backend
from pirkit.torch.compiled_graph import OFTEN, CompiledGraph  # noqa: E402
from pirkit.torch.tensor_runner import Runner  # noqa: E402

nn = torch.nn


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        q, k, v = self.mix(x).view(count, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(count, length, width))


def _encoder() -> Any:
    """Its rows are not the first dimension of all tensors."""
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


def _convolution() -> Any:
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    return nn.Sequential(*layers).eval()


def _perceptron() -> Any:
    return nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.GELU(), nn.Softmax(-1))


SEPARATE: Any = [
    (_perceptron, (5,)), (_convolution, (2, 6, 6)), (Attention, (3, 8)), (_encoder, (3, 8)),
]  # fmt: skip
NUMBERS = (6, 5, 13, 2, 12, 7)


@pytest.fixture
def compiled(monkeypatch: Any) -> list[dict[Any, int]]:
    """The sizes for which graphs are compiled."""
    found: list[dict[Any, int]] = []
    made = CompiledGraph.made

    def spy(self: CompiledGraph, sizes: dict[Any, int]) -> Any:
        found.append(sizes)
        return made(self, sizes)

    monkeypatch.setattr(CompiledGraph, "made", spy)
    torch._dynamo.reset()
    return found


def _rows(net: Any, shape: tuple[int, ...], count: int, dim: int = 0) -> Any:
    x = torch.randn(*shape[:dim], count, *shape[dim:], dtype=torch.float64, requires_grad=True)
    torch._dynamo.mark_dynamic(x, dim)
    return x


def _same(call: Any, net: Any, x: Any) -> None:
    held = [x, *(net.parameters() if isinstance(net, nn.Module) else ())]
    seen: list[Any] = []
    for function in (net, call):
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):  # the others have no second
            y = function(x)
        first = torch.autograd.grad(y.sin().sum(), held, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), held)
        seen.append([y, *first, *second])
    torch.testing.assert_close(*seen, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("build", "shape"), SEPARATE, ids=lambda v: getattr(v, "__name__", ""))
def test_one_code_serves_all_numbers_of_rows(
    build: Callable[[], Any], shape: tuple[int, ...], compiled: list[Any]
) -> None:
    net = build().double()
    call = torch.compile(net, backend="pirkit")
    for count in NUMBERS:
        _same(call, net, _rows(net, shape, count))
    assert [list(sizes.values()) for sizes in compiled] == [[NUMBERS[0]]]


def test_rows_that_are_not_the_first_dimension(compiled: list[Any]) -> None:
    def scaled(x: Any) -> Any:
        return (x / x.square().sum(0, keepdim=True)).permute(1, 2, 0)

    call = torch.compile(scaled, backend="pirkit")
    for count in NUMBERS:
        x = _rows(None, (4, 3), count, 1)
        _same(call, scaled, x)
        assert call(x).stride() == scaled(x).stride()
    assert len(compiled) == 1


@pytest.mark.parametrize(
    "mixes",
    [
        lambda x: x - x.mean(0),
        lambda x: x.softmax(0).tanh(),
        lambda x: x.sin() / x.shape[0],
        lambda x: x.flip(0).exp(),
        lambda x: torch.cat([x, x.sin()]).cumsum(1),
        lambda x: x.reshape(3, -1).cumsum(1),
        lambda x: x * torch.arange(x.shape[0])[:, None],
        lambda x: (x @ x.t()).tanh(),
        lambda x: x.sin().roll(1, 0),
        lambda x: x.t().reshape(-1, 3).tanh(),
        lambda x: x.cos().sum(),
    ],
)
def test_rows_that_depend_on_each_other_get_code_of_their_own(
    mixes: Callable[[Any], Any], compiled: list[Any]
) -> None:
    call = torch.compile(mixes, backend="pirkit")
    for count in NUMBERS[:3]:
        _same(call, mixes, _rows(None, (3,), count))
    assert len(compiled) == 3


def test_a_number_that_is_met_often_gets_code_of_its_own(compiled: list[Any]) -> None:
    call = torch.compile(torch.tanh, backend="pirkit")
    for count in [100, *[3] * (OFTEN + 2)]:
        x = _rows(None, (3,), count)
        torch.testing.assert_close(call(x), x.tanh())
    assert [list(sizes.values()) for sizes in compiled] == [[100], [3]]


def test_strides_of_dimensions_of_one_element_are_not_checked(monkeypatch: Any) -> None:
    checks: list[Any] = []
    guard = Runner._guard
    monkeypatch.setattr(Runner, "_guard", lambda *args: checks.append(args) or guard(*args))
    graphs: list[CompiledGraph] = []
    call = CompiledGraph.__call__

    def spy(self: CompiledGraph, *args: Any) -> Any:
        graphs.append(self)
        return call(self, *args)

    monkeypatch.setattr(CompiledGraph, "__call__", spy)
    torch._dynamo.reset()
    torch.compile(torch.tanh, backend="pirkit")(torch.randn(1, 3, 4))
    for length in (3, 5, 9):
        x = torch.randn(1, length, 4)[:, :3]
        torch.testing.assert_close(graphs[0](x), [x.tanh()])
    assert len(checks) == 1
