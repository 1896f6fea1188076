"""PyTorch as an untyped module: its own annotations are partial, and it may not be installed.

Everything of this room that needs torch imports it from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

torch: Any = import_module("torch")
fx: Any = import_module("torch.fx")
dynamo: Any = import_module("torch._dynamo")
prims_common: Any = import_module("torch._prims_common")
decomposition: Any = import_module("torch._decomp")
proxy_tensor: Any = import_module("torch.fx.experimental.proxy_tensor")
flex_attention: Any = import_module("torch._higher_order_ops.flex_attention")
effects: Any = import_module("torch._higher_order_ops.effects")
functional_tensor: Any = import_module("torch._subclasses.functional_tensor")
functional_utils: Any = import_module("torch._functorch._aot_autograd.functional_utils")
aot_autograd: Any = import_module("torch._functorch.aot_autograd")
forward_ad: Any = import_module("torch.autograd.forward_ad")
grad_mode: Any = import_module("torch.autograd.grad_mode")
python_dispatch: Any = import_module("torch._dispatch.python")
pytree: Any = import_module("torch.utils._pytree")
guards: Any = import_module("torch._guards")
overrides: Any = import_module("torch.overrides")
storage_refs: Any = import_module("torch.multiprocessing.reductions")
symbolic_shapes: Any = import_module("torch.fx.experimental.symbolic_shapes")
sympify: Any = import_module("sympy").sympify

aten: Final[Any] = torch.ops.aten
"""The namespace of ATen's overloads."""


def listed(given: Any) -> list[Any]:
    """What a graph or an op returns as a list: one result, or several."""
    return list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]


def returned_by(graph: Any) -> list[Any]:
    """The nodes and numbers that a graph returns."""
    return listed(next(iter(reversed(graph.nodes))).args[0])
