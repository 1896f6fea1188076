"""Metas (abstract values): shape and element type of a value, without its elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final, cast

from msgspec import Struct

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import np

UNKNOWN: Final = -1
"""A dynamic dimension: its size is known only at run time."""


class TensorMeta(Struct, frozen=True, weakref=True):
    """Shape and element type of a dense tensor; a dimension may be ``UNKNOWN``."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return UNKNOWN not in self.shape

    @property
    def numel(self) -> int:
        """Number of elements, or UNKNOWN."""
        return prod(self.shape) if self.is_static else UNKNOWN

    def with_shape(self, shape: Iterable[int]) -> TensorMeta:
        return TensorMeta(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorMeta:
        return TensorMeta(self.shape, dtype)

    def __str__(self) -> str:
        dims = "".join(f"{'?' if d == UNKNOWN else d}x" for d in self.shape)
        return f"tensor<{dims}{self.dtype.short}>"


MAX_ARRAY_BYTES: Final = 2**63 - 1
"""Bytes of the largest array: strides and offsets are signed 64-bit integers."""


def is_addressable(meta: Meta | None) -> bool:
    """Whether arrays of that meta can exist: their known dimensions span at most
    `MAX_ARRAY_BYTES`.

    As in numpy, a dimension of size zero counts as one, and so does an unknown one here.
    """
    if isinstance(meta, VecMeta):
        return all(map(is_addressable, meta.items))
    if not isinstance(meta, TensorMeta):
        return True
    return prod([d for d in meta.shape if d > 0]) * meta.dtype.itemsize <= MAX_ARRAY_BYTES


class VecMeta(Struct, frozen=True):
    """A list of tensors, created by ``builtin.combine`` and unpacked by ``builtin.split``."""

    items: tuple[TensorMeta, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return f"vec[{', '.join(map(str, self.items))}]"


class TokenMeta(Struct, frozen=True):
    """A value other than a tensor: ``stack``, ``inlet`` or ``outlet`` of a gradient stack."""

    kind: str

    def __str__(self) -> str:
        return self.kind


Meta = TensorMeta | VecMeta | TokenMeta


def tensor(shape: Sequence[int], dtype: DType) -> TensorMeta:
    """The meta of a tensor of that shape and dtype."""
    return TensorMeta(tuple(shape), dtype)


def vec(items: Iterable[TensorMeta]) -> VecMeta:
    """The meta of a list of tensors."""
    return VecMeta(tuple(items))


def of_value(value: Any) -> Meta:
    """The meta of a run-time value: an array, or a list of arrays."""
    if isinstance(value, list | tuple):
        return VecMeta(tuple(of_array(v) for v in cast("list[Any]", value)))
    return of_array(value)


def of_array(array: np.ndarray[Any, Any]) -> TensorMeta:
    """The meta of an array. Raises KeyError for a numpy dtype without an element type."""
    return TensorMeta(tuple(array.shape), dt.of_array(array))


def is_unset(declared: Meta, actual: Meta) -> bool:
    """True for what was never filled and has no elements: Paddle declares it without dimensions."""
    if isinstance(declared, VecMeta) and isinstance(actual, VecMeta):
        return len(declared) == len(actual) and all(map(is_unset, declared.items, actual.items))
    if not isinstance(declared, TensorMeta) or not isinstance(actual, TensorMeta):
        return False
    return (declared.shape, actual.shape) == ((), (0,)) and declared.dtype is actual.dtype


def compatible(declared: Meta | None, actual: Meta | None) -> bool:
    """True if a value of meta ``actual`` conforms to the declared type ``declared``.

    Unknown dimensions on either side match any size.
    """
    if isinstance(declared, TensorMeta) and isinstance(actual, TensorMeta):
        return (
            declared.dtype is actual.dtype
            and len(declared.shape) == len(actual.shape)
            and all(
                a == b or a == UNKNOWN or b == UNKNOWN
                for a, b in zip(declared.shape, actual.shape, strict=True)
            )
        )
    if isinstance(declared, VecMeta) and isinstance(actual, VecMeta):
        return len(declared) == len(actual) and all(map(compatible, declared.items, actual.items))
    return declared == actual
