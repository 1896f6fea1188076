"""Sums of derivatives of values along directions, and tensors of such sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.types import meta_of
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta

SOME_SIZE: Final = 7919
"""The number used for sizes that are known at run time only: a prime, so that no reshape of static
sizes splits it, and larger than the steps of rolls and slices."""
Array = np.ndarray[Any, Any]
Place = tuple[int, ...]


class Direction(Struct, frozen=True):
    """A direction in which a variable moves: one element of each row, or of all, or a tensor."""

    variable: SSAValue
    by: Place | SSAValue
    """The element that grows by one, or the tensor that is added. Without indices, all elements of
    a row grow."""
    in_rows: bool = True
    """Whether ``by`` is an element of each row (index of the first axis), or of the tensor."""


class Root(Struct, frozen=True):
    """A value that is differentiated, or one element in each of its rows."""

    value: SSAValue
    place: Place


Monomial = tuple[Direction, ...]
Sum = dict[tuple[Root, Monomial], float]
"""Derivatives of roots along directions, with factors."""


class Form(Struct, frozen=True):
    """A tensor each of whose elements is a `Sum`. Along the first ``lead`` axes, the rows, all sums
    are alike, so ``elements`` has the other axes only."""

    lead: int
    elements: Array

    @property
    def order(self) -> int:
        """The highest order of a derivative in it."""
        return max((len(m) for e in self.elements.flat for _, m in cast(Sum, e)), default=0)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor."""
    return cast(TensorMeta, meta_of(value.type)).shape


def dtype_of(value: SSAValue) -> DType | None:
    """The element type of a tensor; None for a list."""
    meta = meta_of(value.type)
    return meta.dtype if isinstance(meta, TensorMeta) else None


def static(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with some number for each size that is known at run time only."""
    return tuple([SOME_SIZE if n == UNKNOWN else n for n in shape])


def total(parts: Sequence[tuple[Any, float]]) -> Sum:
    """The sum of several, each times a factor."""
    found: Sum = {}
    for part, factor in parts:
        for key, number in part.items():
            found[key] = found.get(key, 0.0) + factor * number
    return {k: v for k, v in found.items() if v}


def weighted(elements: Array, weights: Array) -> Sum:
    """The sum of the elements of a tensor, each times its weight."""
    return total([(e, float(w)) for e, w in zip(elements.flat, weights.flat, strict=True)])


def scaled(form: Form, factors: Array) -> Form:
    """A tensor of sums with each element times its factor."""
    elements = np.empty(form.elements.shape, object)
    for place in np.ndindex(elements.shape):
        elements[place] = total([(form.elements[place], float(factors[place]))])
    return Form(form.lead, elements)


def derived(given: Any, way: dict[Direction, float], numbers: dict[Direction, int]) -> Sum:
    """The derivative of a sum along a sum of directions.

    ``numbers`` orders directions as they are met, so that each mixed derivative is written in one
    way; it grows by those of ``way`` that are new.
    """
    for direction in way:
        numbers.setdefault(direction, len(numbers))
    found: Sum = {}
    for (root, monomial), number in cast(Sum, given).items():
        for direction, factor in way.items():
            key = (root, tuple(sorted((*monomial, direction), key=numbers.__getitem__)))
            found[key] = found.get(key, 0.0) + number * factor
    return {k: v for k, v in found.items() if v}
