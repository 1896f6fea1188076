"""Reductions, cumulative sums and products, arg-reductions, `TopK` and `Unique`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt

Reduce = Callable[[NodeBuilder, Value, tuple[int, ...], bool], Value]


def _sum(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return b.cast(b.sum(x, axes, keepdim=keep), x.dtype)


def _prod(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return b.cast(b.prod(x, axis=axes, keepdim=keep, reduce_all=len(axes) == x.rank), x.dtype)


def _mean(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return b("pd_op.mean", x, axis=axes, keepdim=keep)


def _best(op: str) -> Reduce:
    def reduce(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
        if 0 in x.shape:
            return _of_nothing(b, op, x, axes, keep)
        if x.dtype is dt.bool_:
            op_of_bools = b.any if op == "max" else b.all
            return op_of_bools(x, axis=axes, keepdim=keep)
        wide = b.cast(x, dt.int32) if x.dtype in (dt.int8, dt.uint8, dt.int16) else x
        return b.cast(b(f"pd_op.{op}", wide, axis=axes, keepdim=keep), x.dtype)

    return reduce


def _of_nothing(b: NodeBuilder, op: str, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """The maximum or minimum of no elements: the bound of the element type."""
    kept = [(1 if d in axes else n) for d, n in enumerate(x.shape) if keep or d not in axes]
    low = op == "max"
    if x.dtype.is_float:
        return b.const(-np.inf if low else np.inf, x.dtype, kept)
    if x.dtype is dt.bool_:
        return b.const(not low, x.dtype, kept)
    bounds = np.iinfo(x.dtype.np)
    return b.const(int(bounds.min if low else bounds.max), x.dtype, kept)


def _log_sum_exp(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return b.logsumexp(x, axis=axes, keepdim=keep, reduce_all=False)


def _in_float(reduce: Reduce) -> Reduce:
    """Integers are reduced in float64, and the result is truncated to their type."""

    def reduced(b: NodeBuilder, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
        if x.dtype.is_float:
            return reduce(b, x, axes, keep)
        return b.cast(reduce(b, b.cast(x, dt.float64), axes, keep), x.dtype)

    return reduced


_REDUCED: Final[dict[str, Reduce]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _prod,
    "ReduceMax": _best("max"),
    "ReduceMin": _best("min"),
    "ReduceL1": lambda b, x, axes, keep: _sum(b, b.abs(x), axes, keep),
    "ReduceL2": _in_float(lambda b, x, axes, keep: b.sqrt(_sum(b, b.multiply(x, x), axes, keep))),
    "ReduceSumSquare": lambda b, x, axes, keep: _sum(b, b.multiply(x, x), axes, keep),
    "ReduceLogSum": _in_float(lambda b, x, axes, keep: b.log(_sum(b, x, axes, keep))),
    "ReduceLogSumExp": _in_float(_log_sum_exp),
}


def _enter(name: str, reduce: Reduce) -> None:
    @rule(name)
    def _(
        b: NodeBuilder, x: Value, given: Value | None = None, axes: Sequence[int] | None = None,
        keepdims: int = 1, noop_with_empty_axes: int = 0,
    ) -> Value:  # fmt: skip
        listed = b.integers_of(given, "axes") if axes is None else list(axes)
        if not listed and noop_with_empty_axes:
            return _pointwise(b, name, x)
        places = tuple(sorted({b.axis(a, x.rank) for a in listed or range(x.rank)}))
        return reduce(b, x, places, bool(keepdims)) if x.rank else _pointwise(b, name, x)


def _pointwise(b: NodeBuilder, name: str, x: Value) -> Value:
    """A reduction over no dimensions: only its element-wise part remains."""
    if name == "ReduceLogSum" and not x.dtype.is_float:
        return b.cast(b.log(b.cast(x, dt.float64)), x.dtype)
    if name in ("ReduceL1", "ReduceL2"):
        return b.abs(x)
    if name == "ReduceSumSquare":
        return b.multiply(x, x)
    return b.log(x) if name == "ReduceLogSum" else x


for _name, _reduce in _REDUCED.items():
    _enter(_name, _reduce)


def _arg(name: str, op: str) -> None:
    @rule(name)
    def _(
        b: NodeBuilder, x: Value, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        place = b.axis(axis, x.rank)
        given = b.flip(x, axis=(place,)) if select_last_index else x
        found = b(f"pd_op.{op}", given, axis=place, keepdims=bool(keepdims), dtype=dt.int64)
        if select_last_index:
            last = b.static(x)[place] - 1
            return b.subtract(b.const(last, dt.int64), found)
        return found


_arg("ArgMax", "argmax")
_arg("ArgMin", "argmin")


@rule("CumSum")
def _(b: NodeBuilder, x: Value, axis: Value, exclusive: int = 0, reverse: int = 0) -> Value:
    (place,) = b.integers_of(axis, "axis") or [0]
    found = b.cumsum(x, axis=b.axis(place, x.rank), flatten=False, exclusive=bool(exclusive),
                     reverse=bool(reverse))  # fmt: skip
    return b.cast(found, x.dtype)


@rule("CumProd")
def _(b: NodeBuilder, x: Value, axis: Value, exclusive: int = 0, reverse: int = 0) -> Value:
    (place,) = b.integers_of(axis, "axis") or [0]
    return b.cumprod(x, dim=b.axis(place, x.rank), exclusive=bool(exclusive),
                     reverse=bool(reverse))  # fmt: skip


@rule("TopK")
def _(
    b: NodeBuilder, x: Value, k: Value | None = None, axis: int = -1, largest: int = 1,
    sorted: int = 1, **old: Any,
) -> Any:  # fmt: skip
    (count,) = [int(old["k"])] if k is None else b.integers_of(k, "k") or [0]
    place = b.axis(axis, x.rank)
    if not x.shape[place] or not count:
        raise b.unsupported("of no elements has no rule")
    values, indices = b.topk(x, k=count, axis=place, largest=bool(largest), sorted=True)
    return values, b.cast(indices, dt.int64)


@rule("Unique")
def _(b: NodeBuilder, x: Value, axis: int | None = None, sorted: int = 1) -> Any:
    axes = () if axis is None else (b.axis(axis, x.rank),)
    made = tuple(b.unique(x, return_index=True, return_inverse=True, return_counts=True,
                          axis=axes, dtype=dt.int64, is_sorted=True))  # fmt: skip
    if sorted:
        return made
    found, first, inverse, counts = made
    first, order = b.argsort(first, axis=0, descending=False, stable=True)
    _, rank = b.argsort(order, axis=0, descending=False, stable=True)
    return (b.gather(found, order, axis=axes[0] if axes else 0), first,
            b.gather(rank, inverse, axis=0), b.gather(counts, order, axis=0))  # fmt: skip
