"""Orders of elements."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


def _picked(b: AtenBuilder, x: Value, places: Value, dim: int) -> Any:
    return b.take_along_axis(x, places, axis=dim), places


@rule("sort", "sort.stable")
def _(b: AtenBuilder, x: Value, *args: Any, **options: Any) -> Any:
    """Stable in both forms, so that equal elements keep their order."""
    named = dict(zip(("dim", "descending"), [a for a in args if not _is_stable(a, args)],
                     strict=False))  # fmt: skip
    dim, descending = (
        options.get("dim", named.get("dim", -1)),
        options.get("descending", named.get("descending", False)),
    )
    if not x.rank or not (x.dtype.is_float or x.dtype in (dt.int32, dt.int64)):
        return NotImplemented
    _, places = b.argsort(x, axis=dim % x.rank, descending=descending, stable=True)
    return _picked(b, x, places, dim % x.rank)


def _is_stable(given: Any, args: Any) -> bool:
    """The overload `stable` has a flag in front of the dimension."""
    return len(args) == 3 and given is args[0]


@rule("topk")
def _(
    b: AtenBuilder, x: Value, k: int, dim: int = -1, largest: bool = True, in_order: bool = True
) -> Any:
    if not x.rank or k == 0 or not (x.dtype.is_float or x.dtype in (dt.int32, dt.int64)):
        return NotImplemented
    _, places = b.topk(x, k=k, axis=dim % x.rank, largest=largest, sorted=True)
    return _picked(b, x, places, dim % x.rank)
