"""Attributes that may come from tensors: a number, and a list of integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.tensor.dense import DenseTensor


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number; ``from_tensor`` is true if it was read from a tensor of one element."""

    value: bool | int | float | complex
    from_tensor: bool = False

    @classmethod
    def of(cls, source: Any) -> Scalar:
        """From a Python number or a tensor of one element."""
        if isinstance(source, Scalar):
            return source
        if isinstance(source, bool | int | float | complex):
            return cls(source)
        array = source.array if isinstance(source, DenseTensor) else np.asarray(source)
        if array.size != 1:
            raise UsageError(f"a scalar has one element, not {array.size}")
        return cls(array.reshape(()).item(), from_tensor=True)


@dataclass(frozen=True, slots=True)
class IntArray:
    """Integers; ``from_tensor`` is true if they were read from tensors."""

    values: tuple[int, ...]
    from_tensor: bool = False

    @classmethod
    def of(cls, source: Any) -> IntArray:
        """From a number, a list of them, a tensor, or a list of tensors of one element."""
        if isinstance(source, IntArray):
            return source
        if isinstance(source, int):
            return cls((source,))
        if isinstance(source, list | tuple):
            items = [Scalar.of(v) for v in cast("list[Any]", source)]
            return cls(tuple([_integer(i) for i in items]), any(i.from_tensor for i in items))
        array = source.array if isinstance(source, DenseTensor) else np.asarray(source)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise UsageError(f"{array.dtype}{list(array.shape)} is no list of integers")
        return cls(tuple(array.reshape(-1).tolist()), from_tensor=True)

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def _integer(scalar: Scalar) -> int:
    if not isinstance(scalar.value, int):
        raise UsageError(f"{scalar.value!r} is no integer")
    return int(scalar.value)
