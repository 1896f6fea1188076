"""Conversion to and from element types that are only stored."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "algorithm"


@op
class ConvertStorage:
    """`x` in an element type that is only stored, or in the one that stands for such a type.

    Floats are rounded to even (powers of 2, `f8e8m0fnu`, upwards), and keep to the largest number
    of the type if they `saturate`; else they become infinite or NaN. Of integers the low bits stay.

    C1: one of the types is stored, and the other is the one that stands for it.
    """

    name = "pir.convert_storage"
    signature = "x ; dtype: dtype, saturate: bool = True -> out"
    dtypes = (*dict.fromkeys(dt.HELD_IN.values()), *dt.STORED)


@infer_meta(ConvertStorage)
def _(x: TensorMeta, *, dtype: DType | None, **_: object) -> TensorMeta:
    fits = dtype is not None and (
        dt.HELD_IN.get(dtype) is x.dtype or dt.HELD_IN.get(x.dtype) is dtype
    )
    require(fits, "C1", f"{x.dtype} does not stand for {dtype}, nor is it stood for")
    return x.with_dtype(dtype or x.dtype)


@reference(ConvertStorage)
def _(x: Array, *, dtype: DType, saturate: bool) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype is dt.BY_NAME["float8_e8m0fnu"]:
            return _powers(np.asarray(x), saturate).view(dtype.np)
        if dtype in dt.STORED and dtype.is_float and saturate:
            largest = float(dtype.limits.max)
            x = np.clip(x, -largest, largest)
        return np.asarray(x).astype(dtype.np)


def _powers(x: Array, saturate: bool) -> Array:
    """The exponents of the next powers of 2, with a bias of 127; 255 is NaN."""
    bits = x.view(np.uint32)
    exponent = (bits >> 23) & 255
    found = np.minimum(exponent + ((bits & 0x7FFFFF) != 0), 254 if saturate else 255)
    return np.where(exponent == 255, 255, found).astype(np.uint8)


@samples(ConvertStorage)
def _(s: SampleMaker) -> Iterator[Sample]:
    if s.dtype in dt.HELD_IN:
        yield s(s.tensor(2, 3), dtype=dt.HELD_IN[s.dtype])
        return
    for stored in dt.HELD_IN:
        if dt.HELD_IN[stored] is s.dtype:
            yield s(s.tensor(2, 3), dtype=stored)


@bad_samples(ConvertStorage)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, dtype=dt.float32), dtype=dt.uint16)
    yield "C1", s(s.tensor(3, dtype=dt.float32), dtype=None)
