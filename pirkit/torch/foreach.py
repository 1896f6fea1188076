"""Decompositions of `torch._foreach_*`: the same op of each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from pirkit.torch.libtorch import aten, torch

_OPS: Final = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min clone copy cos cosh div erf "
    "erfc exp expm1 floor frac lerp lgamma log log10 log1p log2 max maximum minimum mul neg "
    "norm pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc zero"
).split()


def _addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * (a / b)


def _addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * a * b


def _maximum(x: Any, y: Any) -> Any:
    return torch.clamp(x, min=y)


def _minimum(x: Any, y: Any) -> Any:
    return torch.clamp(x, max=y)


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "addcdiv": _addcdiv, "addcmul": _addcmul, "maximum": _maximum, "minimum": _minimum,
    "norm": _norm, "copy": aten.copy, "zero": torch.zeros_like,
}  # fmt: skip
"""Where the op of one tensor has another name, or takes no number as the list's does."""


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
    named: dict[str, Any] = dict(zip([a.name for a in op._schema.arguments], args, strict=False))
    numbers: Any = named.get("scalars")
    given: list[Any] = list(args)
    if isinstance(numbers, torch.Tensor):  # one tensor, with a number for each
        given[-1] = torch.unbind(numbers)
    columns = [cast("Sequence[Any]", a) if isinstance(a, list | tuple) else None for a in given]
    count = max(len(column) for column in columns if column is not None)
    rows = [[a] * count if c is None else c for a, c in zip(given, columns, strict=True)]
    return [each(*row, **kwargs) for row in zip(*rows, strict=True)]
