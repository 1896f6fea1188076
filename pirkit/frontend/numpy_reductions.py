"""Reductions, extrema and cumulative sums of traced values, as numpy defines them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod as product
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_rules import axes_of, function, typed, value_of, wide_of
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type
from pirkit.runtime.tensor.methods import Axis


@function("sum")
def total(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    """The sum over some axes, accumulated in the type that numpy takes."""
    x = value_of(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else wide_of(x.dtype))
    # `pd_op.sum` of int32 is int64.
    return b.cast(b.sum(x, axes_of(x, axis), keepdim=keepdims), x.dtype)


@function("prod")
def _prod(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    x = value_of(b, x)
    x = b.cast(x, element_type(dtype) if dtype is not None else wide_of(x.dtype))
    axes = axes_of(x, axis)
    return x if not axes else b.prod(x, axis=axes, keepdim=keepdims, reduce_all=False)


@function("mean")
def mean(
    b: Builder, x: Any, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Value:
    """The mean over some axes."""
    x = value_of(b, x)
    inexact = x.dtype.is_float or x.dtype.is_complex
    x = b.cast(x, element_type(dtype) if dtype is not None else x.dtype if inexact else dt.float64)
    axes = axes_of(x, axis)
    return x if not axes else b.mean(x, axis=axes, keepdim=keepdims)


@function("var")
def _var(
    b: Builder,
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float = 0,
) -> Value:
    x = typed(b, value_of(b, x), dtype)
    if dtype is not None and not (x.dtype.is_float or x.dtype.is_complex):
        raise refused(f"a variance in {x.dtype}", "take a floating dtype, and `astype` the result")
    axes = axes_of(x, axis)
    centered = apply_ufunc(b, np.subtract, (x, mean(b, x, axes, keepdims=True)))
    squares = centered * (b.conj(centered) if centered.dtype.is_complex else centered)
    squares = b("pd_op.real", squares) if squares.dtype.is_complex else squares
    sizes = [x.shape[i] for i in axes]
    if UNKNOWN in sizes:
        raise refused("`var` over axes of unknown size", "give the traced argument a known shape")
    found = mean(b, squares, axes, keepdims=keepdims)
    count, less = product(sizes), ddof or correction
    if less < count or not less:
        return b.scaled(found, count / (count - less)) if less else found
    return apply_ufunc(b, np.divide, (found, 0.0))  # as numpy: infinite, or NaN for a sum of 0


@function("std")
def _std(b: Builder, x: Any, *arguments: Any, **options: Any) -> Value:
    return b("pd_op.sqrt", _var(b, x, *arguments, **options))


def _extreme(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
        x = value_of(b, x)
        axes = axes_of(x, axis)
        if 0 in [x.shape[i] for i in axes]:
            raise refused(f"`{op}` of no elements", "reduce over axes that have elements")
        return x if not axes else b(f"pd_op.{op}", x, axis=axes, keepdim=keepdims)

    return rule


function("max", "amax")(_extreme("max"))
function("min", "amin")(_extreme("min"))


def _logical(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
        x = b.cast(value_of(b, x), dt.bool_)
        axes = axes_of(x, axis)
        return x if not axes else b(f"pd_op.{op}", x, axis=axes, keepdim=keepdims)

    return rule


function("any")(_logical("any"))
function("all")(_logical("all"))


def _place(op: str) -> Callable[..., Value]:
    def rule(b: Builder, x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
        x = value_of(b, x)
        if 0 in x.shape:
            raise refused(f"`{op}` of no elements", "search a value that has elements")
        if axis is None:
            found = b.arg_extreme(op, b.reshape(x, (-1,)), 0)
            return b.reshape(found, (1,) * x.rank if keepdims else ())
        return b.arg_extreme(op, x, normalize_axis_index(axis, x.rank), keepdims=keepdims)

    return rule


function("argmax")(_place("argmax"))
function("argmin")(_place("argmin"))


def _cumulative(op: str, place: str, first: int) -> Callable[..., Value]:
    def rule(
        b: Builder,
        x: Any,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
    ) -> Value:
        x = value_of(b, x)
        x = b.cast(x, element_type(dtype) if dtype is not None else wide_of(x.dtype))
        x, axis = (
            (b.reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis_index(axis, x.rank))
        )
        found = b(f"pd_op.{op}", x, **{place: axis})
        if not include_initial:
            return found
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return b.concat([b.const(first, x.dtype, shape), found], axis=axis)

    return rule


function("cumsum", "cumulative_sum")(_cumulative("cumsum", "axis", 0))
function("cumprod", "cumulative_prod")(_cumulative("cumprod", "dim", 1))


@function("count_nonzero")
def _count_nonzero(b: Builder, x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    return total(b, apply_ufunc(b, np.not_equal, (value_of(b, x), 0)), axis, keepdims=keepdims)
