"""Products of traced values, and their shapes and types, as numpy defines them."""

from __future__ import annotations

from math import prod as product
from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_elements import conj
from pirkit.frontend.numpy_reductions import total
from pirkit.frontend.numpy_rules import function, together, value_of
from pirkit.frontend.numpy_shapes import moveaxis, reshape, transpose
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused, size_of
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN


@function("dot")
def _dot(b: Builder, x: Any, y: Any) -> Value:
    x, y = value_of(b, x), value_of(b, y)
    if not x.rank or not y.rank:
        return apply_ufunc(b, np.multiply, (x, y))
    if y.rank > 2:
        raise refused("`dot` with a tensor of more than two axes", "use `@` or `pirkit.ops.matmul`")
    return apply_ufunc(b, np.matmul, (x, y))


@function("outer", "linalg.outer")
def _outer(b: Builder, x: Any, y: Any) -> Value:
    return apply_ufunc(b, np.multiply, (reshape(b, x, (-1, 1)), reshape(b, y, (1, -1))))


@function("vecdot", "linalg.vecdot")
def vecdot(b: Builder, x: Any, y: Any, axis: int = -1) -> Value:
    """The sum of ``conj(x) * y`` along an axis, counted from the end."""
    x, y = together(b, x, y)
    normalize_axis_index(axis, min(x.rank, y.rank))
    if x.shape[axis] != y.shape[axis]:
        raise refused(f"`vecdot` of {x.shape} and {y.shape}", "the summed axis has one size")
    x, y = moveaxis(b, x, axis, -1), moveaxis(b, y, axis, -1)
    return total(b, apply_ufunc(b, np.multiply, (conj(b, x), y)), -1, dtype=x.dtype)


@function("tensordot", "linalg.tensordot")
def _tensordot(b: Builder, x: Any, y: Any, axes: Any = 2) -> Value:
    x, y = together(b, x, y)
    if not np.iterable(axes):
        axes = (range(x.rank - index(axes), x.rank), range(index(axes)))
    left, right = [normalize_axis_tuple(a, v.rank) for a, v in zip(axes, (x, y), strict=True)]
    if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
        raise refused(f"`tensordot` of {x.shape} and {y.shape}", "summed axes have one size")
    if len(left) > 1:  # they are flattened, so that only their product would be compared
        _ = [size_of(v, i) for v, axes in ((x, left), (y, right)) for i in axes]
    rows, columns = _others(x, left), _others(y, right)
    flat = _matrix(b, transpose(b, x, (*rows, *left)), len(rows))
    other = _matrix(b, transpose(b, y, (*right, *columns)), len(right))
    found = apply_ufunc(b, np.matmul, (flat, other))
    if len(rows) == len(columns) == 1:
        return found
    return reshape(b, found, (*_sizes(x, rows), *_sizes(y, columns)))


def _matrix(b: Builder, x: Value, lead: int) -> Value:
    """The first axes as rows, the others as columns."""
    if (lead, x.rank) == (1, 2):
        return x
    return reshape(b, x, (_flat(x.shape[:lead]), _flat(x.shape[lead:])))


def _flat(sizes: tuple[int, ...]) -> int:
    return UNKNOWN if UNKNOWN in sizes else product(sizes)


def _sizes(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x.shape[i] for i in axes)


def _others(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(x.rank) if i not in axes)


@function("shape")
def _shape(b: Builder, x: Any) -> tuple[int, ...]:
    return value_of(b, x).shape


@function("ndim")
def _ndim(b: Builder, x: Any) -> int:
    return value_of(b, x).rank


@function("size")
def _size(b: Builder, x: Any, axis: int | None = None) -> int:
    x = value_of(b, x)
    return product([size_of(x, i) for i in (range(x.rank) if axis is None else (axis,))])


@function("result_type")
def _result_type(b: Builder, *given: Any) -> DType:
    return together(b, *given)[0].dtype
