"""The sizes of values by their types: elements and bytes."""

from __future__ import annotations

from math import prod

from xdsl.ir import Attribute

from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import Meta, TensorMeta, TokenMeta, VecMeta


def bytes_of(type_: Attribute) -> int:
    """The size of a value in bytes; an unknown dimension counts as 1."""
    return sum(_count(m) * m.dtype.np.itemsize for m in _tensors(type_))


def elements(type_: Attribute) -> int:
    """The number of elements of a value; an unknown dimension counts as 1."""
    return sum(map(_count, _tensors(type_)))


def is_token(type_: Attribute) -> bool:
    """True for the type of the tokens of a stack."""
    return isinstance(meta_of(type_), TokenMeta)


def _tensors(type_: Attribute) -> tuple[TensorMeta, ...]:
    meta: Meta = meta_of(type_)
    if isinstance(meta, VecMeta):
        return meta.items
    return (meta,) if isinstance(meta, TensorMeta) else ()


def _count(meta: TensorMeta) -> int:
    return prod(max(d, 1) if d < 0 else d for d in meta.shape)
