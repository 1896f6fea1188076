"""What is recorded the quick way is what torch's layers record."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.comparing import torch  # isort: skip
from pirkit.torch import quick_recording
from pirkit.torch.capture import capture


def _writes(x: Any, y: Any) -> Any:
    z = x * 2
    z[0] = y[1]
    z.mul_(3).view(-1)[1] += 1
    return z.t() + y.T, z


def _writes_through_views(x: Any, y: Any) -> Any:
    z = x + y
    a, b = z.split(2)
    c = a.transpose(0, 1)[1:].unsqueeze(0)
    c.mul_(2)
    z[:, 1:3].diagonal().add_(1)
    return a, b.expand(2, 2, 4) + 1, c.reshape(-1), z.unbind(0)[3]


def _gives_a_view(x: Any, y: Any) -> Any:
    z = (x + y).relu()
    return z[1:], z, y


def _several(x: Any, y: Any) -> Any:
    a, b = torch.split(torch.cat([x, y], 1), [1, 7], 1)
    found, places = torch.topk(b, 2)
    return a, found, places, *torch.var_mean(x, 1)


def _constant(x: Any, y: Any) -> Any:
    return x[torch.tensor([1, 0])] * torch.tensor(2.0) + torch.arange(4)


def _stops(x: Any, y: Any) -> Any:
    with torch.no_grad():
        z = x.exp() + 1
    return z * y.detach() + torch.nn.functional.dropout(y, 0.0)


def _composite(x: Any, y: Any) -> Any:
    z = torch.einsum("ij,kj->ik", x, y).softmax(-1)
    return torch.nn.functional.layer_norm(z, (4,)).std() + torch.logsumexp(y, 0).sum()


def _asserts(x: Any, y: Any) -> Any:
    return torch.linalg.solve(x, y) + torch.linalg.inv(y)


def _mapped(x: Any, y: Any) -> Any:
    return torch.vmap(lambda a, b: (a * b).cumsum(0) - b.mean())(x, y)


FUNCTIONS = [
    _writes, _writes_through_views, _gives_a_view, _several, _constant, _stops, _composite, _mapped,
    _asserts,
]  # fmt: skip


def recorded(function: Any, args: Any) -> tuple[list[Any], list[Any]]:
    """The nodes of a graph with what is known of their values, and its results."""
    numbers: dict[Any, int] = {}

    def known(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return [*map(known, value)] if isinstance(value, list | tuple) else value
        return tuple(value.shape), value.stride(), value.storage_offset(), value.dtype

    captured = capture(quick_recording.proxy_tensor.make_fx(function)(*args), args)
    found: list[Any] = []
    for node in captured.graph.nodes:
        numbers[node] = len(numbers)
        given = quick_recording.fx.map_arg((node.args, dict(node.kwargs)), numbers.__getitem__)
        cut = node.meta.get("pirkit_cut", False)
        found.append((node.op, str(node.target), given, known(node.meta.get("val")), cut))
    return found, captured.results


@pytest.mark.parametrize("function", FUNCTIONS)
def test_both_ways_record_the_same(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    args = [torch.rand(4, 4, generator=torch.Generator().manual_seed(k)) for k in (0, 1)]
    recorded(function, args)  # torch's cache of shapes may give another offset the second time
    quick = recorded(function, args)
    ways: list[Any] = []
    monkeypatch.setattr(quick_recording, "_recorded_name", lambda func: ways.append(func))
    monkeypatch.setattr(quick_recording, "_way", lambda func: None)
    usual = recorded(function, args)
    assert ways  # the usual way was taken
    assert quick == usual


def test_most_ops_are_recorded_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    usual: list[Any] = []
    call: Any = quick_recording.proxy_tensor.proxy_call

    def noted(mode: Any, func: Any, *rest: Any) -> Any:
        usual.append(func)
        return call(mode, func, *rest)

    monkeypatch.setattr(quick_recording.proxy_tensor, "proxy_call", noted)
    graph = torch.fx.symbolic_trace(lambda x, y: (x * y + 1).relu().t().sum(0).softmax(-1))
    found = capture(graph, [torch.rand(4, 4), torch.rand(4, 4)])
    assert usual == []
    assert len([n for n in found.graph.nodes if n.op == "call_function"]) == 6
