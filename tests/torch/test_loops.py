"""Loops of `torch._higher_order_ops` and their derivatives, beside loops of Python."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import while_loop  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import pirkit.torch  # noqa: E402, F401  registers the backend

F64 = torch.float64


def _while(xs: Any, h: Any, w: Any) -> Any:
    start = torch.tensor(0), h
    return while_loop(lambda i, c: i < 9, lambda i, c: (i + 1, (c @ w).tanh() + xs[0]), start)[1]


def _while_by_hand(xs: Any, h: Any, w: Any) -> Any:
    for _ in range(9):
        h = (h @ w).tanh() + xs[0]
    return h


def _recurrent(xs: Any, h: Any, w: Any) -> Any:
    return scan(lambda c, x: ((c @ w + x).tanh(), c * x), h, xs)


def _recurrent_by_hand(xs: Any, h: Any, w: Any) -> Any:
    rows = []
    for x in xs:
        rows.append(h * x)
        h = (h @ w + x).tanh()
    return h, torch.stack(rows)


def _backwards(xs: Any, h: Any, w: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        both = {"h": (c["h"] * x["a"] + x["b"]).sin(), "n": c["n"] + x["a"].sum()}
        return both, (c["h"].clone(), x["a"] * x["b"])

    state, rows = {"h": h, "n": w.sum()}, {"a": xs.movedim(0, 1), "b": xs.movedim(0, 1) * 2}
    return scan(step, state, rows, dim=1, reverse=True)


def _backwards_by_hand(xs: Any, h: Any, w: Any) -> Any:
    n, first, second = w.sum(), [], []
    for x in xs.flip(0):
        first.insert(0, h)
        second.insert(0, x * x * 2)
        h, n = (h * x + x * 2).sin(), n + x.sum()
    return {"h": h, "n": n}, (torch.stack(first, 1), torch.stack(second, 1))


def _mapped(xs: Any, h: Any, w: Any) -> Any:
    return map_rows(lambda x, h, w: (x @ w + h).tanh(), xs, h, w)


def _prefixes(xs: Any, h: Any, w: Any) -> Any:
    return associative_scan(lambda a, b: a * b, xs, 0, combine_mode="generic") * h @ w


def _prefixes_by_hand(xs: Any, h: Any, w: Any) -> Any:
    rows = [xs[0]]
    for x in xs[1:]:
        rows.append(rows[-1] * x)
    return torch.stack(rows) * h @ w


LOOPS = {
    "while": (_while, _while_by_hand),
    "scan": (_recurrent, _recurrent_by_hand),
    "trees of state and rows, from the last row": (_backwards, _backwards_by_hand),
    "map": (_mapped, lambda xs, h, w: (xs @ w + h).tanh()),
    "associative scan": (_prefixes, _prefixes_by_hand),
}


def _derivatives(function: Any, tensors: list[Any]) -> list[Any]:
    """What a function gives, its gradients by one sweep, and by another those of two orders."""
    outs = torch.utils._pytree.tree_leaves(function(*tensors))
    loss = sum(t.sin().sum() for t in outs)
    once = torch.autograd.grad(loss, tensors, retain_graph=True)
    found = [*outs, *once]
    for order in range(2):
        last = order == 1
        gradients = torch.autograd.grad(loss, tensors, create_graph=not last, retain_graph=True)
        found += gradients
        loss = sum(g.sin().sum() for g in gradients)
    return found


@pytest.mark.parametrize(("name", "rows"), [*((name, 11) for name in LOOPS), ("scan", 3)])
def test_loops_have_derivatives(name: str, rows: int) -> None:
    function, by_hand = LOOPS[name]
    compiled = torch.compile(function, backend="pirkit", fullgraph=True, options={"strict": True})
    draws = torch.Generator().manual_seed(1)
    tensors = [
        (torch.randn(*shape, dtype=F64, generator=draws) * 0.4).requires_grad_()
        for shape in ((rows, 2, 3), (2, 3), (3, 3))
    ]
    for found, expected in zip(
        _derivatives(compiled, tensors), _derivatives(by_hand, tensors), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
