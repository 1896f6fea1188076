"""Tensors filled with one number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from pirkit.dialect.kinds import CONSTANT, CONSTANT_LIKE
from pirkit.dialect.opdef import WRITE, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import numel, requested, show, stored
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant, convert, rounded
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = CONSTANT

Sizes = tuple[int | None, ...] | None
"""An ``intarray``: None for an unknown element, or for an unknown length."""


@op
class Full:
    """A tensor filled with one number, converted to `dtype` as C does.

    The attribute is a float64, which rounds integers beyond 2^53: `assign_value` holds those.

    C1: no size is negative.
    """

    name = "pd_op.full"
    traits = (CONSTANT_LIKE,)
    signature = "; shape: intarray, value: f64, dtype: dtype = float32, place: place = cpu -> out"


@infer_meta(Full)
def _(*, shape: Sizes, dtype: DType, **_: object) -> TensorMeta:
    return TensorMeta(requested(shape), dtype)


@reference(Full)
def _(*, shape: tuple[int, ...], value: float, dtype: DType, **_: object) -> Array:
    return np.full(shape, constant(value, dtype))


@samples(Full)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 3), value=1.5)
    yield s(shape=(), value=2**53 + 1, dtype=dt.int64)
    yield s(shape=(0, 2), value=True, dtype=dt.bool_)
    yield s(shape=(1,), value=0.1, dtype=dt.bfloat16)


@bad_samples(Full)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(2, -3), value=0.0)


@op
class FullInplace:
    """Fills the storage of `output` with one number.

    C1: no size is negative.
    C2: `output` has this shape and dtype.
    """

    name = "pd_op.full_"
    pure_form = "pd_op.full"
    signature = (
        "output ; shape: intarray, value: f64, dtype: dtype = float32, place: place = cpu -> out"
    )
    dtypes = (*dt.REAL, dt.bool_)
    inplace = {"out": "output"}
    effects = WRITE
    reads_meta_only = ("output",)


@infer_meta(FullInplace)
def _(output: TensorMeta, *, shape: Sizes, dtype: DType, **_: object) -> TensorMeta:
    return stored(TensorMeta(requested(shape), dtype), output)


@reference(FullInplace)
def _(output: Array, *, shape: tuple[int, ...], value: float, dtype: DType, **_: object) -> Array:
    return np.full(shape, constant(value, dtype))


@samples(FullInplace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), shape=(2, 3), value=1.0, dtype=s.dtype)


@bad_samples(FullInplace)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), shape=(-2,), value=0.0, dtype=s.dtype)
    yield "C2", s(s.tensor(2), shape=(3,), value=0.0, dtype=s.dtype)


@op
class FullIntArray:
    """A list of integers as a 1-D tensor; feeds axes and shapes.

    C1: `dtype` is an integer type.
    """

    name = "pd_op.full_int_array"
    traits = (CONSTANT_LIKE,)
    signature = "; value: i64[], dtype: dtype = float32, place: place = cpu -> out"


@infer_meta(FullIntArray)
def _(*, value: tuple[int, ...], dtype: DType, **_: object) -> TensorMeta:
    require(dtype.is_integer, "C1", f"a list of integers cannot have dtype {dtype}")
    return TensorMeta((len(value),), dtype)


@reference(FullIntArray)
def _(*, value: tuple[int, ...], dtype: DType, **_: object) -> Array:
    return np.asarray(value, np.int64).astype(dtype.np)


@samples(FullIntArray)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(value=(2, -1, 3), dtype=dt.int64)
    yield s(value=(), dtype=dt.int64)
    yield s(value=(7,), dtype=dt.int32)


@bad_samples(FullIntArray)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(value=(1,), dtype=dt.float32)


@op
class FullLike:
    """A tensor of the shape of `x` filled with one number.

    C1: `value` is in the range of the element type.
    """

    name = "pd_op.full_like"
    signature = "x, value: scalar ; dtype: dtype = None, place: place = undefined -> out"
    dtypes = dt.ANY
    reads_meta_only = ("x",)


@infer_meta(FullLike)
def _(x: TensorMeta, *, value: float | None, dtype: DType | None, **_: object) -> TensorMeta:
    out = x.with_dtype(dtype or x.dtype)
    if value is not None:
        _require_in_range(value, out.dtype)
    return out


@reference(FullLike)
def _(x: Array, *, value: float, dtype: DType | None, **_: object) -> Array:
    element = dtype or dt.of_array(x)
    _require_in_range(value, element)
    return np.full(x.shape, constant(value, element))


def _require_in_range(value: complex, dtype: DType) -> None:
    if isinstance(value, complex) or dtype.is_complex:
        return
    if dtype.is_float:
        fits = not isfinite(value) or isfinite(rounded(value, dtype))
        require(fits, "C1", f"{value} is out of the range of {dtype}")
        return
    low, high = (0, 1) if dtype is dt.bool_ else _range(dtype)
    require(low <= value <= high, "C1", f"{value} is out of the range of {dtype}")


def _range(dtype: DType) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    return (0, 2**bits - 1) if dtype.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@samples(FullLike)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), value=1.0)
    yield s(s.tensor(2, 3), value=3.9, dtype=dt.int32)
    yield s(s.tensor(), value=0.0)
    yield s(s.tensor(0, 2), value=1, dtype=dt.bfloat16)


@bad_samples(FullLike)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), value=300.0, dtype=dt.int8)
    yield "C1", s(s.tensor(2), value=-1, dtype=dt.uint8)
    yield "C1", s(s.tensor(2), value=1e6, dtype=dt.float16)


@op
class FullBatchSizeLike:
    """A tensor filled with one number, of which one size is a size of `input`.

    Paddle writes it where a program computes with a number and a tensor whose batch size is
    unknown, as in `2.0 / x`. The size at `output_dim_idx` of `shape` is that of `input` at
    `input_dim_idx`.

    C1: no other size is negative.
    C2: `input` and `shape` have these dimensions.
    """

    name = "pd_op.full_batch_size_like"
    signature = (
        "input ; shape: i32[], dtype: dtype, value: f64, input_dim_idx: i32, output_dim_idx: i32, "
        "place: place = cpu -> out"
    )
    dtypes = dt.ANY
    reads_meta_only = ("input",)


@infer_meta(FullBatchSizeLike)
def _(
    input: TensorMeta, *, shape: Sequence[int], dtype: DType, input_dim_idx: int,
    output_dim_idx: int, **_: object,
) -> TensorMeta:  # fmt: skip
    exist = 0 <= input_dim_idx < input.rank and 0 <= output_dim_idx < len(shape)
    require(exist, "C2", f"no dimension {input_dim_idx} of {input}, or {output_dim_idx} of {shape}")
    sizes = [*shape]
    sizes[output_dim_idx] = 0
    made = [*requested(sizes)]
    made[output_dim_idx] = input.shape[input_dim_idx]
    return TensorMeta(tuple(made), dtype)


@reference(FullBatchSizeLike)
def _(
    input: Array, *, shape: Sequence[int], dtype: DType, value: float, input_dim_idx: int,
    output_dim_idx: int, **_: object,
) -> Array:  # fmt: skip
    sizes = [*shape]
    sizes[output_dim_idx] = input.shape[input_dim_idx]
    return np.full(sizes, constant(value, dtype))


@samples(FullBatchSizeLike)
def _(s: SampleMaker) -> Iterator[Sample]:
    first = {"input_dim_idx": 0, "output_dim_idx": 0}
    yield s(s.tensor(2, 3), shape=(-1, 4), dtype=dt.float32, value=2.0, **first)
    yield s(
        s.tensor(2, 3), shape=(5, 1, -1), dtype=dt.int64, value=7.9, input_dim_idx=1,
        output_dim_idx=2,
    )  # fmt: skip
    yield s(s.tensor(0, 3), shape=(-1,), dtype=dt.float64, value=-0.0, **first)


@bad_samples(FullBatchSizeLike)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    first = {"input_dim_idx": 0, "output_dim_idx": 0}
    yield "C1", s(s.tensor(2), shape=(-1, -2), dtype=dt.float32, value=0.0, **first)
    yield "C2", s(s.tensor(), shape=(-1,), dtype=dt.float32, value=0.0, **first)


@op
class FullWithTensor:
    """A tensor filled with the one element of `value`.

    C1: no size is negative.
    C2: `value` has one element.
    """

    name = "pd_op.full_with_tensor"
    signature = "value, shape: intarray ; dtype: dtype = float32 -> out"
    dtypes = dt.REAL


@infer_meta(FullWithTensor)
def _(value: TensorMeta, *, shape: Sizes, dtype: DType) -> TensorMeta:
    require(numel(value.shape) in (1, -1), "C2", f"value has shape {show(value.shape)}")
    return TensorMeta(requested(shape), dtype)


@reference(FullWithTensor)
def _(value: Array, *, shape: tuple[int, ...], dtype: DType) -> Array:
    return np.full(shape, convert(value.reshape(()), dtype))


@samples(FullWithTensor)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1), shape=(2, 3))
    yield s(s.tensor(), shape=(2,), dtype=dt.int64)
    yield s(s.tensor(1), shape=())
    yield s(s.tensor(1), shape=(0, 3), dtype=dt.float64)


@bad_samples(FullWithTensor)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(1), shape=(2, -3))
    yield "C2", s(s.tensor(2), shape=(2,))


@op
class Empty:
    """A tensor with undefined elements; here they are 0.

    C1: no size is negative.
    """

    name = "pd_op.empty"
    signature = "shape: intarray ; dtype: dtype = float32, place: place = cpu -> out"


@infer_meta(Empty)
def _(*, shape: Sizes, dtype: DType, **_: object) -> TensorMeta:
    return TensorMeta(requested(shape), dtype)


@reference(Empty)
def _(*, shape: tuple[int, ...], dtype: DType, **_: object) -> Array:
    return np.zeros(shape, dtype.np)


@samples(Empty)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 0))
    yield s(shape=(0,), dtype=dt.int64)


@bad_samples(Empty)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(-2,))


@op
class EmptyLike:
    """A tensor of the shape of `x` with undefined elements; here they are 0."""

    name = "pd_op.empty_like"
    signature = "x ; dtype: dtype = None, place: place = undefined -> out"
    dtypes = dt.ANY
    reads_meta_only = ("x",)


@infer_meta(EmptyLike)
def _(x: TensorMeta, *, dtype: DType | None, **_: object) -> TensorMeta:
    return x.with_dtype(dtype or x.dtype)


@reference(EmptyLike)
def _(x: Array, *, dtype: DType | None, **_: object) -> Array:
    return np.zeros(x.shape, dtype.np if dtype else x.dtype)


@samples(EmptyLike)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(0, 2))
    yield s(s.tensor(2, 0), dtype=dt.int64)
