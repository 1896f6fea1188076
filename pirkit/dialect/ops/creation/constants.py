"""Tensors made from lists of numbers, and the sizes of tensors as tensors."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import CONSTANT, CONSTANT_LIKE, COPY
from pirkit.dialect.opdef import WRITE, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import numel, show, stored
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant, constants
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = CONSTANT


@op
class AssignValueInplace:
    """Writes a list of numbers into the storage of `output`.

    C1: there is one value, or as many as the shape needs.
    C2: `output` has this shape and dtype.
    """

    name = "pd_op.assign_value_"
    pure_form = "pd_op.assign_value"
    traits = (COPY,)
    signature = (
        "output ; shape: i32[], dtype: dtype, values: scalar[], place: place = undefined -> out"
    )
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64, dt.bool_)
    inplace = {"out": "output"}
    effects = WRITE
    reads_meta_only = ("output",)


@op
class AssignValue:
    """A list of numbers as a tensor.

    C1: there is one value, or as many as the shape needs.
    """

    name = "pd_op.assign_value"
    traits = (CONSTANT_LIKE,)
    signature = "; shape: i32[], dtype: dtype, values: scalar[], place: place = undefined -> out"


@infer_meta(AssignValue, AssignValueInplace)
def _(
    *output: TensorMeta,
    shape: tuple[int, ...],
    dtype: DType,
    values: tuple[complex, ...],
    **_: object,
) -> TensorMeta:
    fits = len(values) in (1, numel(shape)) and all(d >= 0 for d in shape)
    require(fits, "C1", f"{len(values)} values do not fill the shape {show(shape)}")
    made = TensorMeta(tuple(shape), dtype)
    return stored(made, output[0]) if output else made


@reference(AssignValue, AssignValueInplace)
def _(
    *_: Array, shape: tuple[int, ...], dtype: DType, values: tuple[complex, ...], **others: object
) -> Array:
    if len(values) == 1:
        return np.full(shape, constant(values[0], dtype))
    return constants(values, dtype).reshape(shape)


@samples(AssignValueInplace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 2), shape=(2, 2), dtype=s.dtype, values=(1, 0, 1, 1))
    yield s(s.tensor(), shape=(), dtype=s.dtype, values=(1,))


@bad_samples(AssignValueInplace)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), shape=(2,), dtype=s.dtype, values=(1, 2, 3))
    yield "C2", s(s.tensor(3), shape=(2,), dtype=s.dtype, values=(1,))


@samples(AssignValue)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 2), dtype=dt.float32, values=(1.5, 2.5, -1.0, 0.0))
    yield s(shape=(2,), dtype=dt.int64, values=(2**53 + 1, 7))
    yield s(shape=(0,), dtype=dt.float32, values=())


@bad_samples(AssignValue)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(2,), dtype=dt.float32, values=(1.0, 2.0, 3.0))
    yield "C1", s(shape=(-1,), dtype=dt.float32, values=(1.0,))


@op
class Shape:
    """The sizes of `input` as a 1-D int32 tensor."""

    name = "pd_op.shape"
    signature = "input -> out"
    dtypes = dt.ANY
    reads_meta_only = ("input",)


@op
class Shape64:
    """The sizes of `input` as a 1-D int64 tensor."""

    name = "pd_op.shape64"
    signature = "input -> out"
    dtypes = dt.ANY
    reads_meta_only = ("input",)


@op
class Numel:
    """The number of elements of `x` as a 0-D int64 tensor."""

    name = "pd_op.numel"
    signature = "x -> size"
    dtypes = dt.ANY
    reads_meta_only = ("x",)


@op
class IsEmpty:
    """Whether `x` has no elements, as a 0-D tensor."""

    name = "pd_op.is_empty"
    signature = "x -> out"
    dtypes = dt.ANY
    reads_meta_only = ("x",)


@infer_meta(Shape)
def _(input: TensorMeta) -> TensorMeta:
    return TensorMeta((input.rank,), dt.int32)


@infer_meta(Shape64)
def _(input: TensorMeta) -> TensorMeta:
    return TensorMeta((input.rank,), dt.int64)


@infer_meta(Numel)
def _(x: TensorMeta) -> TensorMeta:
    return TensorMeta((), dt.int64)


@infer_meta(IsEmpty)
def _(x: TensorMeta) -> TensorMeta:
    return TensorMeta((), dt.bool_)


@reference(Shape)
def _(input: Array) -> Array:
    return np.asarray(input.shape, np.int32)


@reference(Shape64)
def _(input: Array) -> Array:
    return np.asarray(input.shape, np.int64)


@reference(Numel)
def _(x: Array) -> Array:
    return np.asarray(x.size, np.int64)


@reference(IsEmpty)
def _(x: Array) -> Array:
    return np.asarray(x.size == 0)


@samples(Shape, Shape64, Numel, IsEmpty)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))
