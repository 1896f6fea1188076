"""Number ranges, unit matrices and one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, isfinite
from typing import Any

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.kinds import CONSTANT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import HALF_TYPES, constant, convert, in_f32, rounded
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = CONSTANT


@op
class Arange:
    """`start`, `start + step`... up to but without `end`; `dtype` holds the three numbers first.

    As in Paddle, there are `ceil((end - start) / step)` numbers, rounded in `dtype` (half precision
    in float32), and float ranges add up step by step, so that rounding accumulates.

    C1: `step` is not 0.
    C2: `start`, `end` and `step` are finite, and so is the number of numbers.
    """

    name = "pd_op.arange"
    signature = (
        "start: scalar, end: scalar, step: scalar ; "
        "dtype: dtype = float64, place: place = cpu -> out"
    )


def _length(start: float, end: float, step: float, dtype: DType) -> int:
    message = f"a range from {start} to {end} by {step}"
    require(all(map(isfinite, (start, end, step))), "C2", message)
    numbers = [constant(v, dtype) for v in (start, end, step)]
    low, high, by = (int(n) if dtype.is_integer else float(n) for n in numbers)
    require(by != 0, "C1", "the step is 0")
    if dtype.is_integer:
        return max(0, -((int(low) - int(high)) // int(by)))
    wide = dt.float32 if dtype in HALF_TYPES else dtype
    count = rounded(rounded(high - low, wide) / by, wide)
    require(isfinite(count), "C2", message)
    return max(0, ceil(count))


@infer_meta(Arange)
def _(
    *, start: float | None, end: float | None, step: float | None, dtype: DType, **_: object
) -> TensorMeta:
    require(step is None or step != 0, "C1", "the step is 0")
    if start is None or end is None or step is None:
        return TensorMeta((UNKNOWN,), dtype)
    return TensorMeta((_length(start, end, step, dtype),), dtype)


@reference(Arange)
def _(*, start: float, end: float, step: float, dtype: DType, **_: object) -> Array:
    count = _length(start, end, step, dtype)

    @in_f32
    def add_up(first: Array, by: Array) -> Any:
        terms = np.full(count, by)
        terms[:1] = first
        return np.cumsum(terms, dtype=first.dtype)

    return add_up(constant(start, dtype), constant(step, dtype))


@samples(Arange)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(start=0, end=5, step=2, dtype=dt.int64)
    yield s(start=5.0, end=0.0, step=-1.5, dtype=dt.float32)
    yield s(start=0, end=0, step=1, dtype=dt.int32)
    yield s(start=0.0, end=1.0, step=0.3)
    yield s(start=0.0, end=0.6, step=0.1, dtype=dt.float32)
    yield s(start=5, end=0, step=1, dtype=dt.int64)


@bad_samples(Arange)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(start=0, end=5, step=0, dtype=dt.int64)
    yield "C2", s(start=0.0, end=inf, step=1.0, dtype=dt.float64)
    yield "C2", s(start=0.0, end=1e300, step=1.0, dtype=dt.float32)


@op
class Linspace:
    """`number` values from `start` to `stop`, both included; computed in float64 for integers.

    C1: `start` and `stop` have one element.
    C2: `number` is not negative.
    """

    name = "pd_op.linspace"
    signature = "start, stop, number: i64 ; dtype: dtype, place: place = undefined -> out"
    dtypes = dt.REAL


@infer_meta(Linspace)
def _(
    start: TensorMeta, stop: TensorMeta, *, number: int | None, dtype: DType, **_: object
) -> TensorMeta:
    one = all(d in (1, UNKNOWN) for d in (*start.shape, *stop.shape))
    require(one, "C1", "start and stop have one element each")
    require(number is None or number >= 0, "C2", f"{number} values")
    return TensorMeta((UNKNOWN if number is None else number,), dtype)


@reference(Linspace)
def _(start: Array, stop: Array, *, number: int, dtype: DType, **_: object) -> Array:
    wide = dt.float64 if dtype.is_integer or dtype is dt.float64 else dt.float32
    first, last = (convert(v.reshape(()), wide) for v in (start, stop))
    return convert(np.linspace(first, last, number, dtype=wide.np), dtype)


@samples(Linspace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([0.0]), s.array([10.0]), number=4, dtype=dt.int32)
    yield s(s.array(-1.0), s.array(1.0), number=7, dtype=dt.float32)
    yield s(s.array([2.0]), s.array([3.0]), number=1, dtype=dt.float64)
    yield s(s.array([2.0]), s.array([3.0]), number=0, dtype=dt.float32)


@bad_samples(Linspace)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.tensor(1), number=3, dtype=dt.float32)
    yield "C2", s(s.tensor(1), s.tensor(1), number=-3, dtype=dt.float32)


@op
class Logspace:
    """Powers of `base`, whose `num` exponents go from `start` to `stop`, both included.

    The three take the element type `dtype` first, as in Paddle.

    C1: `start`, `stop` and `base` have one element.
    C2: `num` is not negative.
    """

    name = "pd_op.logspace"
    signature = "start, stop, num: i64, base ; dtype: dtype, place: place = undefined -> out"
    dtypes = (dt.float32, dt.float64, *dt.INTS)


@infer_meta(Logspace)
def _(
    start: TensorMeta,
    stop: TensorMeta,
    base: TensorMeta,
    *,
    num: int | None,
    dtype: DType,
    **_: object,
) -> TensorMeta:
    one = all(d in (1, UNKNOWN) for d in (*start.shape, *stop.shape, *base.shape))
    require(one, "C1", "start, stop and base have one element each")
    require(num is None or num >= 0, "C2", f"{num} values")
    return TensorMeta((UNKNOWN if num is None else num,), dtype)


@reference(Logspace)
def _(start: Array, stop: Array, base: Array, *, num: int, dtype: DType, **_: object) -> Array:
    wide = np.float64 if dtype.is_integer or dtype is dt.float64 else np.float32
    first, last, root = (convert(v.reshape(()), dtype).astype(wide) for v in (start, stop, base))
    return convert(np.power(root, np.linspace(first, last, num, dtype=wide)), dtype)


@samples(Logspace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([0.0]), s.array([3.5]), s.array([10.0]), num=4, dtype=dt.int64)
    yield s(s.array(-1.0), s.array(1.0), s.array(2.0), num=7, dtype=dt.float32)
    yield s(s.array([0.0]), s.array([3.0]), s.array([-2.0]), num=4, dtype=dt.float64)
    yield s(s.array([2.0]), s.array([3.0]), s.array([2.0]), num=1, dtype=dt.float64)
    yield s(s.array([2.0]), s.array([3.0]), s.array([2.0]), num=0, dtype=dt.float32)


@bad_samples(Logspace)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.tensor(1), s.tensor(1), num=3, dtype=dt.float32)
    yield "C2", s(s.tensor(1), s.tensor(1), s.tensor(1), num=-3, dtype=dt.float32)


@op
class Eye:
    """Ones on the diagonal of a matrix of zeros; -1 columns means as many as rows.

    C1: no size is negative.
    """

    name = "pd_op.eye"
    signature = (
        "num_rows: i64, num_columns: i64 ; dtype: dtype = float32, place: place = undefined -> out"
    )


@infer_meta(Eye)
def _(*, num_rows: int | None, num_columns: int | None, dtype: DType, **_: object) -> TensorMeta:
    rows = UNKNOWN if num_rows is None else num_rows
    require(num_rows is None or num_rows >= 0, "C1", f"{num_rows} rows")
    require(num_columns is None or num_columns >= -1, "C1", f"{num_columns} columns")
    columns = {None: UNKNOWN, -1: rows}.get(num_columns, num_columns)
    return TensorMeta((rows, UNKNOWN if columns is None else columns), dtype)


@reference(Eye)
def _(*, num_rows: int, num_columns: int, dtype: DType, **_: object) -> Array:
    columns = num_rows if num_columns == -1 else num_columns
    return np.eye(num_rows, columns, dtype=dtype.np)


@samples(Eye)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(num_rows=2, num_columns=3)
    yield s(num_rows=3, num_columns=-1, dtype=dt.int64)
    yield s(num_rows=0, num_columns=2, dtype=dt.float64)


@bad_samples(Eye)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(num_rows=-2, num_columns=2)


@op
class OneHot:
    """A float32 vector per element of `x`: 1 at that index, 0 elsewhere.

    Refuses at run time an index outside [0, `num_classes`).

    C1: `x` is an integer tensor.
    C2: `num_classes` is positive.
    """

    name = "pd_op.one_hot"
    signature = "x, num_classes: i64 -> out"
    dtypes = dt.INTS
    domain = (0.0, 3.0)


@infer_meta(OneHot)
def _(x: TensorMeta, *, num_classes: int | None) -> TensorMeta:
    require(x.dtype.is_integer, "C1", f"indices of dtype {x.dtype}")
    require(num_classes is None or num_classes > 0, "C2", f"{num_classes} classes")
    return TensorMeta((*x.shape, UNKNOWN if num_classes is None else num_classes), dt.float32)


@reference(OneHot)
def _(x: Array, *, num_classes: int) -> Array:
    if x.size and not (x.min() >= 0 and x.max() < num_classes):
        raise RuntimeFault(f"one_hot: an index is outside [0, {num_classes})")
    if not x.size:
        return np.zeros((*x.shape, num_classes), np.float32)
    return (x[..., None] == np.arange(num_classes)).astype(np.float32)


@samples(OneHot)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), num_classes=4)
    yield s(s.tensor(), num_classes=5)
    yield s(s.tensor(0, 2), num_classes=4)


@bad_samples(OneHot)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, dtype=dt.float32), num_classes=4)
    yield "C2", s(s.tensor(2), num_classes=0)
