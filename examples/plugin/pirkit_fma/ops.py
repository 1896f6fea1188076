"""The op `fma.multiply_add`: what it takes, what it gives, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


@op
class MultiplyAdd:
    """``x * y + z``, element by element.

    C1: the three operands have one shape and one dtype.
    """

    name = "fma.multiply_add"
    signature = "x, y, z -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "z"}  # noqa: RUF012


@infer_meta(MultiplyAdd)
def _(x: TensorMeta, y: TensorMeta, z: TensorMeta) -> TensorMeta:
    require(x == y == z, "C1", f"operands are {x}, {y} and {z}")
    return x


@reference(MultiplyAdd)
def _(x: Array, y: Array, z: Array) -> Array:
    return np.asarray(x * y + z)


@samples(MultiplyAdd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(), s.tensor(), s.tensor())


@bad_samples(MultiplyAdd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.tensor(3), s.tensor(2))
