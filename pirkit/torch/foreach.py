"""Decompositions of `torch._foreach_*`: the same op of each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pirkit.torch.libtorch import aten, torch

_OPS: Final = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp "
    "expm1 floor frac lerp lgamma log log10 log1p log2 max maximum minimum mul neg norm pow "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
).split()

_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    # where the op of one tensor has another name, or takes no number
    "addcdiv": lambda x, a, b, value=1: x + value * (a / b),
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "maximum": lambda x, y: torch.clamp(x, min=y),
    "minimum": lambda x, y: torch.clamp(x, max=y),
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
}


def foreach() -> dict[Any, Callable[..., Any]]:
    """The decompositions, by overload."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in _OPS:
        packet = getattr(aten, f"_foreach_{name}")
        each = _OTHERS.get(name) or getattr(torch, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if op._schema.returns and not op._schema.is_mutable:
                found[op] = partial(_mapped, op, each)
    return found


def _mapped(op: Any, each: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """``each`` with the elements of all lists in turn, and with the other arguments as they are."""
    named = dict(zip([a.name for a in op._schema.arguments], args, strict=False))
    numbers = named.get("scalars")
    if isinstance(numbers, torch.Tensor):  # a tensor of a number for each
        args = (*args[:-1], numbers.unbind())
    count = max(len(a) for a in args if isinstance(a, list | tuple))
    columns = [a if isinstance(a, list | tuple) else [a] * count for a in args]
    return [each(*row, **kwargs) for row in zip(*columns, strict=True)]
