"""Sizes for rules: numbers where they are static, else computed by ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.rules.movement.movement import part
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN

Size = Value | int
"""A number, or a list of one computed number."""
REFUSED: Final = -2
"""A size that `reshape` refuses. It stands for an invalid size that is known only at run time."""


def sizes_of(b: Builder, x: Value) -> list[Size]:
    """The sizes of ``x`` one by one."""
    if UNKNOWN not in x.shape:
        return [*x.shape]
    shape = b.shape_of(x)
    return [
        part(b, shape, (0,), (i,), (i + 1,)) if d == UNKNOWN else d for i, d in enumerate(x.shape)
    ]


def shape_of(b: Builder, x: Value, count: int | None = None) -> tuple[int, ...] | Value:
    """The first sizes of ``x``, computed where the program does not tell."""
    known = x.shape[:count]
    return b.shape_of(x)[:count] if UNKNOWN in known else known


def in_shape(b: Builder, x: Value, sizes: Sequence[Size]) -> Value:
    """``x`` reshaped."""
    known = [d if isinstance(d, int) else UNKNOWN for d in sizes]
    if known.count(UNKNOWN) == 0 or (known.count(UNKNOWN) == 1 and 0 not in known):
        return b.reshape(x, known)
    return b.reshape(x, b.concat([as_list(b, d) for d in sizes], axis=0))


def as_list(b: Builder, size: Size) -> Value:
    """A size as a list of one number."""
    return b.integers((size,)) if isinstance(size, int) else size


def as_shape(b: Builder, sizes: Sequence[Size]) -> tuple[int, ...] | Value:
    """Sizes as a shape: numbers if all are known."""
    known = [d for d in sizes if isinstance(d, int)]
    if len(known) == len(sizes):
        return tuple(known)
    return b.concat([as_list(b, d) for d in sizes], axis=0)


def grown(b: Builder, size: Size, times: int) -> Size:
    """``size * times``."""
    return size * times if isinstance(size, int) else b.scale(size, scale=times)


def product(b: Builder, one: Size, other: Size) -> Size:
    """``one * other``."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    return as_list(b, one) * as_list(b, other)


def shrunk(b: Builder, size: Size, by: int) -> Size:
    """``size // by``."""
    return size // by if isinstance(size, int) else b.floor_divide(size, b.integers((by,)))


def zeros(b: Builder, sizes: Sequence[Size], dtype: DType) -> Value:
    """Zeros with these sizes."""
    zero = b.const(0.0 if dtype.is_float else 0, dtype)
    return b.expand(zero, shape=as_shape(b, sizes))
