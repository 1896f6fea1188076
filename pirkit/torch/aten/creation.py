"""Tensors out of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.element_types import TO_TORCH
from pirkit.torch.libtorch import torch
from pirkit.torch.rules import rule


@rule("full", "new_full", "full_like")
def _(b: AtenBuilder, *args: Any, **_: Any) -> Value:
    value = args[-1]
    if isinstance(value, Value):
        return b.expand(b.cast(value, b.dtype), b.shape)
    return b.const(value, b.dtype, b.shape)


@rule("zeros", "zeros_like", "new_zeros", "_new_zeros_with_same_feature_meta",
      "empty.memory_format", "empty_like", "new_empty",
      "new_empty_strided", "empty_strided", "empty_permuted")  # fmt: skip
def _(b: AtenBuilder, *_: Any, **__: Any) -> Value:
    return b.const(0, b.dtype, b.shape)


@rule("ones", "ones_like", "new_ones")
def _(b: AtenBuilder, *_: Any, **__: Any) -> Value:
    return b.const(1, b.dtype, b.shape)


@rule("scalar_tensor")
def _(b: AtenBuilder, value: Any, **_: Any) -> Value:
    return b.typed(value, b.dtype)


@rule("fill.Scalar", "fill.Tensor")
def _(b: AtenBuilder, x: Value, value: Any) -> Value:
    return b.expand(b.typed(value, x.dtype), x.shape)


@rule("arange.start_step", "arange.start", "arange")
def _(b: AtenBuilder, *args: Any, **_: Any) -> Any:
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if b.dtype.is_float:  # torch multiplies, Paddle adds step by step
        count = b.arange(start=0, end=b.shape[0], step=1, dtype=dt.int64)
        return b.add(b.cast(count, b.dtype) * step, b.const(start, b.dtype))
    return b.cast(b.arange(start=start, end=end, step=step, dtype=dt.int64), b.dtype)


@rule("linspace")
def _(b: AtenBuilder, start: Any, end: Any, steps: int, **_: Any) -> Any:
    """Integers, as torch's kernel rounds them; a decomposition makes floating numbers."""
    if isinstance(start, Value) or isinstance(end, Value) or steps > 4096:
        return NotImplemented
    found = torch.linspace(start, end, steps, dtype=TO_TORCH[b.dtype])
    return b.cast(b.reshape(b.integers(found.tolist()), b.shape), b.dtype)


@rule("prims.iota")
def _(b: AtenBuilder, count: int, *, start: int = 0, step: int = 1, **_: Any) -> Value:
    end = start + count * step
    return b.cast(b.arange(start=start, end=end, step=step, dtype=dt.int64), b.dtype)


@rule("eye", "eye.m")
def _(b: AtenBuilder, n: int, m: int | None = None, **_: Any) -> Value:
    return b.eye(num_rows=n, num_columns=n if m is None else m, dtype=b.dtype)


@rule("tril_indices")
def _(b: AtenBuilder, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
    return _places(b, np.tril_indices(rows, offset, columns))


@rule("triu_indices")
def _(b: AtenBuilder, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
    return _places(b, np.triu_indices(rows, offset, columns))


def _places(b: AtenBuilder, found: Sequence[Any]) -> Value:
    flat = [int(n) for axis in found for n in axis]
    return b.cast(b.reshape(b.integers(flat), b.shape), b.dtype)
