"""Sorting, and search in sorted tensors."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.aten_call import call_by_torch
from pirkit.torch.rules import rule


def _picked(b: AtenBuilder, x: Value, places: Value, dim: int) -> Any:
    return b.take_along_axis(x, places, axis=dim), places


@rule("sort", "sort.stable")
def _(b: AtenBuilder, x: Value, *args: Any, **options: Any) -> Any:
    """Both overloads are stable: equal elements keep their order."""
    named = dict(zip(("dim", "descending"), [a for a in args if not _is_stable(a, args)],
                     strict=False))  # fmt: skip
    dim, descending = (
        options.get("dim", named.get("dim", -1)),
        options.get("descending", named.get("descending", False)),
    )
    if not x.rank or x.dtype.is_complex:
        return NotImplemented
    is_known = x.dtype.is_float or x.dtype in (dt.int32, dt.int64)
    keys = x if is_known else b.cast(x, dt.int32)
    _, places = b.argsort(keys, axis=dim % x.rank, descending=descending, stable=True)
    return _picked(b, x, places, dim % x.rank)


def _is_stable(given: Any, args: Any) -> bool:
    """Whether an argument is the flag that the overload `stable` has before the dimension."""
    return len(args) == 3 and given is args[0]


@rule("topk")
def _(
    b: AtenBuilder, x: Value, k: int, dim: int = -1, largest: bool = True, in_order: bool = True
) -> Any:
    """The places are computed by torch, in a tenth of the time, and in its order of equal elements.

    So a mask that is drawn for these places, as for dropout, meets the same elements as in torch.
    """
    if not x.rank or k == 0 or not (x.dtype.is_float or x.dtype in (dt.int32, dt.int64)):
        return NotImplemented
    _, places = call_by_torch(b, [x, k, dim, largest, in_order], {}, "torch's order", [])
    return _picked(b, x, places, dim % x.rank)


@rule("kthvalue")
def _(b: AtenBuilder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The place is torch's, as that of `topk`."""
    if not x.rank or not x.dtype.is_float:
        return NotImplemented
    _, place = call_by_torch(b, [x, k, dim, keepdim], {}, "torch's order", [])
    kept = [1 if d == dim % x.rank else n for d, n in enumerate(x.shape)]
    found = b.take_along_axis(x, b.reshape(place, kept), axis=dim % x.rank)
    return b.reshape(found, b.shapes[0]), place


@rule("bucketize.Tensor", "searchsorted.Tensor")
def _(
    b: AtenBuilder, first: Value, second: Value, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Value | None = None,
) -> Any:  # fmt: skip
    """`bucketize` takes the sorted tensor last, `searchsorted` first."""
    swapped = "bucketize" in str(b.node.target)
    edges, x = (second, first) if swapped else (first, second)
    if sorter is not None or not edges.rank or edges.dtype is not x.dtype:
        return NotImplemented
    if edges.rank > 1 and (not x.rank or edges.shape[:-1] != x.shape[:-1]):
        return NotImplemented
    values = x if x.rank else b.reshape(x, (1,))
    found = b.searchsorted(edges, values, out_int32=out_int32, right=right or side == "right")
    return b.reshape(found, b.shape)
