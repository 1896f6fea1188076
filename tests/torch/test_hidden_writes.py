"""Writes and reads that autograd does not see: gradients are those of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")

import pirkit.torch  # noqa: E402, F401  registers the backend

F = torch.nn.functional


def _scaled(x: Any, w: Any) -> Any:
    y = x * w
    with torch.no_grad():
        y.mul_(y.norm())
    return y.sin()


def _a_part(x: Any, w: Any) -> Any:
    y = x * w
    first, last = y[:2], y[1:3]
    with torch.no_grad():
        first.mul_(3)
    return y.sin(), last.exp()


def _twice(x: Any, w: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        y[1:].mul_(3)
    y.mul_(w)
    with torch.no_grad():
        y.clamp_(-1, 1)
    return y, y.sin()


def _by_out(x: Any, w: Any) -> Any:
    y = x * w
    with torch.no_grad():
        torch.mul(x, 2, out=y)
    return y * x


def _lists(x: Any, w: Any) -> Any:
    both = [x * w, x + w]
    with torch.no_grad():
        torch._foreach_mul_(both, 2.0)
    return both[0] * both[1]


def _data(x: Any, w: Any) -> Any:
    y = x * 2
    y.data.copy_(y.data + w.data)
    return y.sin() * w


def _copied_into_detached(x: Any, w: Any) -> Any:
    y = x * 3
    y.detach().copy_(w)
    return y * w


def _complex(x: Any, w: Any) -> Any:
    y = torch.complex(x, w)
    with torch.no_grad():
        y.mul_(2)
        y.real.add_(1)
    return y.abs()


def _state(x: Any, w: Any) -> Any:
    y = (x * 2).detach()
    y += w * w
    return y.sin()


def _detached_before(x: Any, w: Any) -> Any:
    y = x * 2
    z = y.detach()
    y.add_(w)
    return z * x


def _of_an_input(x: Any, w: Any) -> Any:
    with torch.no_grad():
        w.clamp_(-0.5, 0.5)
    return (x * w).sin()


def _checkpointed(x: Any, w: Any) -> Any:
    def block(x: Any) -> Any:
        with torch.no_grad():
            largest = x.max()
        return (x - largest).exp() * w + (x.round() - x).detach()

    return torch.utils.checkpoint.checkpoint(block, x * 2, use_reentrant=False)


CASES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    f.__name__.strip("_"): f
    for f in (_scaled, _a_part, _twice, _by_out, _lists, _data, _copied_into_detached, _complex,
              _state, _detached_before, _of_an_input, _checkpointed)
} | {
    "gumbel_softmax": lambda x, w: F.gumbel_softmax(x * w, hard=True),
    "cosine_similarity": lambda x, w: F.cosine_similarity(x[None], w[None], eps=9.0),
}  # fmt: skip


def _derivatives(function: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    leaves = [torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    given = [leaf.clone() for leaf in leaves]
    results = function(*given)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    weights = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)
    loss: Any = sum((r.sin() * weights[: r.numel()]).sum() for r in results)
    options = {"allow_unused": True, "materialize_grads": True}
    first = torch.autograd.grad(loss, leaves, create_graph=True, **options)
    seen = [*results, *given, *first]
    if any(g.requires_grad for g in first):
        seen += torch.autograd.grad(sum(g.square().sum() for g in first), leaves, **options)
    return [t.detach().clone() for t in seen]


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_writes_and_reads_that_autograd_does_not_see(name: str) -> None:
    expected = _derivatives(CASES[name])
    found = _derivatives(torch.compile(CASES[name], backend="pirkit"))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_memory_with_two_gradients_is_run_by_torch() -> None:
    """A detached tensor that is written has another gradient than the one of its memory."""

    def both(x: Any, w: Any) -> Any:
        y = x * 2
        z = y.detach()
        z.mul_(w)
        return y.sin(), z.exp()

    found = _derivatives(torch.compile(both, backend="pirkit"))
    torch.testing.assert_close(found, _derivatives(both), rtol=1e-9, atol=1e-9)
