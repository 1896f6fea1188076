"""Reductions, and sums along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.element_types import OF_TORCH
from pirkit.torch.rules import rule


def _wide(b: AtenBuilder, x: Value, dtype: Any = None) -> Value:
    """``x`` in the type in which a sum is computed."""
    given = b.cast(x, OF_TORCH[dtype] if dtype is not None else b.dtype)
    return b.wide(given)


@rule("sum.dim_IntList", "sum")
def _(b: AtenBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    axes = b.axes(x, dim)
    given = _wide(b, x, dtype)
    return b.cast(b.sum(given, axes, keepdim=keepdim), b.dtype)


@rule("mean.dim", "mean")
def _(b: AtenBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    axes = b.axes(x, dim)
    given = _wide(b, x, dtype)
    if not axes:
        return b.cast(given, b.dtype)
    return b.cast(b("pd_op.mean", given, axis=axes, keepdim=keepdim), b.dtype)


@rule("prod.dim_int", "prod")
def _(b: AtenBuilder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    axes = b.axes(x, dim)
    given = b.cast(x, b.dtype)
    if not axes:
        return given
    return b.prod(given, axis=axes, keepdim=keepdim, reduce_all=False)


def _extreme(op: str, b: AtenBuilder, x: Value, dim: Any = (), keepdim: bool = False) -> Any:
    """`amax` and `amin` share the gradient evenly between equal elements."""
    axes = b.axes(x, list(dim))
    if x.dtype is dt.bool_:
        joint = "any" if op == "amax" else "all"
        return b(f"pd_op.{joint}", x, axis=axes, keepdim=keepdim) if axes else x
    if x.dtype.itemsize < 4 and not x.dtype.is_float:
        return b.cast(b(f"pd_op.{op}", b.cast(x, dt.int32), axis=axes, keepdim=keepdim), x.dtype)
    return b(f"pd_op.{op}", x, axis=axes, keepdim=keepdim) if axes else x


def _whole(op: str, b: AtenBuilder, x: Value) -> Any:
    return _extreme(op, b, x)


rule("amax")(partial(_extreme, "amax"))
rule("amin")(partial(_extreme, "amin"))
rule("max")(partial(_whole, "amax"))
rule("min")(partial(_whole, "amin"))


def _with_place(op: str, b: AtenBuilder, x: Value, dim: int, keepdim: bool = False) -> Any:
    """The extreme element and its place, through which the gradient flows."""
    if not x.rank:
        return x, b.const(0, dt.int64)
    if not x.dtype.is_float and x.dtype not in (dt.int32, dt.int64):
        return NotImplemented
    dim %= x.rank
    kept = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    place = b.reshape(b.arg_extreme(op, x, dim, keepdims=True), kept)
    found = b.take_along_axis(x, place, axis=dim)
    return b.reshape(found, b.shapes[0]), b.reshape(place, b.shapes[1])


rule("max.dim")(partial(_with_place, "argmax"))
rule("min.dim")(partial(_with_place, "argmin"))


def _place(op: str, b: AtenBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    if x.dtype is dt.bool_ or not (x.dtype.is_float or x.dtype in (dt.int32, dt.int64)):
        x = b.cast(x, dt.int32)
    if not x.rank:
        return b.const(0, dt.int64)
    if dim is None:
        x, dim = b.reshape(x, (math.prod(x.shape),)), 0
    return b.reshape(b.arg_extreme(op, x, dim % x.rank), b.shape)


rule("argmax")(partial(_place, "argmax"))
rule("argmin")(partial(_place, "argmin"))


def _logic(op: str, b: AtenBuilder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    axes = b.axes(x, dim)
    held = b.cast(x, dt.bool_)
    found = b(f"pd_op.{op}", held, axis=axes, keepdim=keepdim) if axes else held
    return b.cast(b.reshape(found, b.shape), b.dtype)


for _name in ("any", "all"):
    rule(_name, f"{_name}.dim", f"{_name}.dims")(partial(_logic, _name))


@rule("cumsum")
def _(b: AtenBuilder, x: Value, dim: int, dtype: Any = None) -> Value:
    given = b.cast(x, b.dtype)
    return b.cumsum(given, axis=dim % x.rank) if x.rank else given


@rule("cumprod")
def _(b: AtenBuilder, x: Value, dim: int, dtype: Any = None) -> Value:
    given = b.cast(x, b.dtype)
    return b.cumprod(given, dim=dim % x.rank) if x.rank else given


def _running(op: str, b: AtenBuilder, x: Value, dim: int) -> Any:
    """The extreme element so far, and its place, through which the gradient flows."""
    if not x.rank or not x.dtype.is_float:
        return NotImplemented
    _, places = b(f"pd_op.{op}", x, axis=dim % x.rank)
    return b.take_along_axis(x, places, axis=dim % x.rank), places


rule("cummax")(partial(_running, "cummax"))
rule("cummin")(partial(_running, "cummin"))


@rule("logcumsumexp")
def _(b: AtenBuilder, x: Value, dim: int) -> Any:
    return b.cast(b.logcumsumexp(b.wide(x), axis=dim % x.rank), x.dtype) if x.rank else x


def _moments(
    b: AtenBuilder, x: Value, dim: Any, correction: Any, keepdim: bool
) -> tuple[Value, Value]:
    """Variance and mean; the divisor is the number of elements less the correction."""
    axes = b.axes(x, dim)
    wide = b.wide(x)
    mean = b("pd_op.mean", wide, axis=axes, keepdim=True) if axes else wide
    gap = b.subtract(wide, mean)
    count = math.prod(x.shape[a] for a in axes)
    divisor = max(count - (1 if correction is None else correction), 0)
    total = b.sum(b.multiply(gap, gap), axes, keepdim=keepdim)
    variance = b.divide(total, b.const(float(divisor), wide.dtype))
    kept = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    return variance, mean if keepdim else b.reshape(mean, kept)


@rule("var.correction")
def _(
    b: AtenBuilder, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    return b.cast(_moments(b, x, dim, correction, keepdim)[0], b.dtype)


@rule("std.correction")
def _(
    b: AtenBuilder, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    """The gradient at a deviation of zero is zero, as in torch."""
    variance = _moments(b, x, dim, correction, keepdim)[0]
    return b.cast(_off_zero(b, b.sqrt, variance), b.dtype)


@rule("std_mean.correction")
def _(
    b: AtenBuilder, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    variance, mean = _moments(b, x, dim, correction, keepdim)
    return b.cast(_off_zero(b, b.sqrt, variance), b.types[0]), b.cast(mean, b.types[1])


@rule("var_mean.correction")
def _(
    b: AtenBuilder, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    variance, mean = _moments(b, x, dim, correction, keepdim)
    return b.cast(variance, b.types[0]), b.cast(mean, b.types[1])


@rule("logsumexp")
def _(b: AtenBuilder, x: Value, dim: Any, keepdim: bool = False) -> Any:
    axes = b.axes(x, dim)
    given = b.cast(x, b.dtype)
    return b.logsumexp(given, axis=axes, keepdim=keepdim) if axes else given


@rule("linalg_vector_norm")
def _(
    b: AtenBuilder, x: Value, order: Any = 2, dim: Any = None, keepdim: bool = False,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """The gradient at zero is zero, as in torch; that of a plain root there is NaN."""
    if not x.dtype.is_float:
        return NotImplemented
    axes, given = b.axes(x, dim), _wide(b, x, dtype)
    size = b.abs(given)
    if order in (math.inf, -math.inf):
        found = _extreme("amax" if order > 0 else "amin", b, size, axes, keepdim) if axes else size
    elif order == 0:
        nonzero = b.not_equal(given, b.zeros_like(given))
        found = b.sum(b.cast(nonzero, given.dtype), axes, keepdim=keepdim)
    elif order == 1 or not axes:
        found = b.sum(size, axes, keepdim=keepdim) if axes else size
    elif order == 2:
        found = _off_zero(b, b.sqrt, b.sum(b.multiply(given, given), axes, keepdim=keepdim))
    else:
        at_zero = 0.0 if order > 0 else math.inf
        powers = _off_zero(b, lambda v: b.power(v, order), size, at_zero)
        total = b.sum(powers, axes, keepdim=keepdim)
        found = _off_zero(b, lambda v: b.power(v, 1 / order), total, at_zero)
    return b.cast(found, b.dtype)


def _off_zero(
    b: AtenBuilder, function: Callable[[Value], Value], x: Value, at_zero: float = 0.0
) -> Value:
    """A function of ``x``; ``at_zero``, with gradient zero, where ``x`` is zero."""
    is_zero = b.equal(x, b.const(0.0, x.dtype))
    return b.where(
        is_zero, b.const(at_zero, x.dtype), function(b.where(is_zero, b.const(1.0, x.dtype), x))
    )
