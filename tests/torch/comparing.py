"""Compiled functions beside uncompiled ones: values, writes, gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

import pirkit.torch  # noqa: F401  registers the backend

HALF = (torch.float16, torch.bfloat16)


def make(*shape: int, dtype: Any = torch.float32, grad: bool = True) -> Any:
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def observed(function: Callable[..., Any], args: tuple[Any, ...], module: Any) -> dict[str, Any]:
    """What a call gives and does: results, written inputs and buffers, gradients."""
    held = [
        a.detach().clone(memory_format=torch.preserve_format).requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    ]
    torch.manual_seed(3)
    given = held if module is None else [module, *held]
    found = function(*given)
    results = [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
    seen = {f"result {i}": t.detach().clone() for i, t in enumerate(results)}
    tensors = [a for a in held if isinstance(a, torch.Tensor)]
    seen |= {f"input {i}": t.detach().clone() for i, t in enumerate(tensors)}
    live = [t for t in results if t.requires_grad]
    if live:
        sum(t.double().sin().sum() for t in live).backward()
        seen |= {f"gradient {i}": t.grad for i, t in enumerate(tensors) if t.grad is not None}
    if module is not None:
        seen |= {f"buffer {n}": b.clone() for n, b in module.named_buffers()}
        seen |= {f"gradient {n}": p.grad for n, p in module.named_parameters()}
    seen["requires_grad"] = [t.requires_grad for t in results]
    return seen


def same(
    function: Callable[..., Any], *args: Any, module: Any = None, dynamic: bool | None = None,
    options: Any = None, fullgraph: bool = True,
) -> None:  # fmt: skip
    """Assert that the compiled function does what the function does."""
    expected = observed(function, args, copy.deepcopy(module))
    compiled = torch.compile(
        function, backend="pirkit", dynamic=dynamic, options=options, fullgraph=fullgraph
    )
    actual = observed(compiled, args, copy.deepcopy(module))
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            tolerance = 3e-2 if value.dtype in HALF else 1e-4
            torch.testing.assert_close(
                actual[name],
                value,
                rtol=tolerance,
                atol=tolerance,
                msg=lambda s, n=name: f"{n}: {s}",
            )
        else:
            assert actual[name] == value, name
