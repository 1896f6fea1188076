"""Constants, ranges and random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.element_types import element_type
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

Array = np.ndarray[Any, Any]


@rule("Constant")
def _(
    b: NodeBuilder, value: Array | None = None, value_float: float | None = None,
    value_floats: Sequence[float] | None = None, value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    if value is None and (value_float is not None or value_floats is not None):
        value = np.asarray(value_floats if value_float is None else value_float, np.float32)
    elif value is None and (value_int is not None or value_ints is not None):
        value = np.asarray(value_ints if value_int is None else value_int, np.int64)
    if value is None:
        raise b.unsupported("is sparse or no number")
    return b.array(value, b.node.name or b.node.output[0])


@rule("ConstantOfShape")
def _(b: NodeBuilder, shape: Value, value: Array | None = None) -> Value:
    filled = np.zeros(1, np.float32) if value is None else value
    number, dtype = filled.item(), dt.of_array(filled)
    known = b.evaluated(shape.ssa)
    if known is not None:
        return b.const(number, dtype, [int(n) for n in known])
    return b.full_with_tensor(b.const(number, dtype), shape=shape, dtype=dtype)


@rule("Shape")
def _(b: NodeBuilder, x: Value, start: int = 0, end: int | None = None) -> Value:
    if UNKNOWN not in x.shape:
        return b.array(np.asarray(x.shape[slice(start, end)], np.int64))
    found = b.shape_of(x)
    first, last, _ = slice(start, end).indices(x.rank)
    return b.cut(found, 0, first, max(last, first))


@rule("Size")
def _(b: NodeBuilder, x: Value) -> Value:
    return b.cast(b.numel(x), dt.int64)


@rule("Range")
def _(b: NodeBuilder, start: Value, limit: Value, delta: Value) -> Value:
    if start.dtype.is_integer and any(b.evaluated(v.ssa) is None for v in (start, limit, delta)):
        bounds = {"start": start, "end": limit, "step": delta}
        return b.arange(dtype=start.dtype, **{n: b.reshape(v, (1,)) for n, v in bounds.items()})
    bounds = [b.known(v, n) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta"))]
    first, last, step = (np.ravel(n)[0] for n in bounds)
    return b.array(np.arange(first, last, step, dtype=start.dtype.np))


@rule("EyeLike")
def _(b: NodeBuilder, x: Value, dtype: int | None = None, k: int = 0) -> Value:
    kind = x.dtype if dtype is None else element_type(dtype)
    rows, columns = b.static(x)
    return b.array(np.eye(rows, columns, k).astype(kind.np))


@rule("RandomNormal", "RandomUniform")
def _(
    b: NodeBuilder, shape: Sequence[int], dtype: int = 1, seed: float | None = None, **how: float
) -> Value:
    return _drawn(b, tuple(shape), element_type(dtype), seed, how)


@rule("RandomNormalLike", "RandomUniformLike")
def _(
    b: NodeBuilder, x: Value, dtype: int | None = None, seed: float | None = None, **how: float
) -> Value:
    kind = x.dtype if dtype is None else element_type(dtype)
    return _drawn(b, b.static(x), kind, seed, how)


def _drawn(
    b: NodeBuilder, shape: Sequence[int], dtype: Any, seed: float | None, how: dict[str, float]
) -> Value:
    """Random numbers of pirkit's generator: of the distribution of ONNX, not with its bits."""
    number = int(seed or 0)
    if "Normal" in b.node.op_type:
        return b.gaussian(shape=shape, mean=how.get("mean", 0.0), std=how.get("scale", 1.0),
                          seed=number, dtype=dtype)  # fmt: skip
    return b.uniform(shape=shape, min=how.get("low", 0.0), max=how.get("high", 1.0),
                     dtype=dtype, seed=number)  # fmt: skip


@rule("Bernoulli")
def _(b: NodeBuilder, x: Value, dtype: int | None = None, seed: float | None = None) -> Value:
    return b.cast(b.bernoulli(x), x.dtype if dtype is None else element_type(dtype))
