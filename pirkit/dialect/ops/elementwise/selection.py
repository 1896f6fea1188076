"""Elementwise selection between tensors."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import ELEMENTWISE, EXACT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.promotion import promote
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, of_array

KIND = ELEMENTWISE


@op
class Where:
    """`x` where `condition` holds, else `y`. Unlike Paddle's, it broadcasts.

    C1: the three shapes broadcast.
    C2: the dtypes of `x` and `y` are equal, or both float, or one is complex, or one is 0-D.
    C3: `condition` is bool.
    """

    name = "pd_op.where"
    traits = (EXACT,)
    signature = "condition, x, y -> out"
    dtypes = dt.BOOL
    inplace = {"out": "x"}


@infer_meta(Where)
def _(condition: TensorMeta, x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(condition.dtype is dt.bool_, "C3", f"the condition is {condition.dtype}, not bool")
    shape = broadcast(condition.shape, x.shape, y.shape, constraint="C1")
    return TensorMeta(shape, promote(x, y, "C2"))


@reference(Where)
def _(condition: Array, x: Array, y: Array) -> Array:
    common = promote(of_array(x), of_array(y), "C2")
    return np.where(condition, convert(x, common), convert(y, common))


@samples(Where)
def _(s: SampleMaker) -> Iterator[Sample]:
    for dtype in (dt.float32, dt.bfloat16, dt.int64, dt.complex64):
        yield s(s.bools(2, 3), s.tensor(2, 3, dtype=dtype), s.tensor(2, 3, dtype=dtype))
    yield s(s.bools(), s.tensor(dtype=dt.float32), s.tensor(dtype=dt.float32))
    yield s(s.bools(0, 2), s.tensor(0, 2, dtype=dt.float32), s.tensor(0, 2, dtype=dt.float32))


@bad_samples(Where)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, dtype=dt.float32)
    yield "C1", s(s.bools(2), x, x)
    yield "C2", s(s.bools(3), s.ints((3,), 0, 2, dt.int32), s.ints((3,), 0, 2, dt.int64))
    yield "C3", s(x, x, x)


@op
class MaskedFill:
    """`value` where `mask` holds, else `x`.

    C1: `x` and `mask` broadcast, and `value` has one element or broadcasts to what they give.
    C2: `mask` is bool.
    """

    name = "pd_op.masked_fill"
    signature = "x, mask, value -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)
    inplace = {"out": "x"}


@infer_meta(MaskedFill)
def _(x: TensorMeta, mask: TensorMeta, value: TensorMeta) -> TensorMeta:
    require(mask.dtype is dt.bool_, "C2", f"the mask is {mask.dtype}, not bool")
    shape = broadcast(x.shape, mask.shape, constraint="C1")
    whole = broadcast(shape, value.shape, constraint="C1")
    fits = len(whole) == len(shape) and all(map(same_dim, whole, shape))
    fits = fits or all(d in (1, UNKNOWN) for d in value.shape)
    require(fits, "C1", f"{value} is larger than the {show(shape)} that it fills")
    return x.with_shape(shape)


@reference(MaskedFill)
def _(x: Array, mask: Array, value: Array) -> Array:
    filler = convert(value, dt.of_array(x))
    shape = np.broadcast_shapes(x.shape, mask.shape)
    if filler.size == 1:
        filler = filler.reshape(())
    return np.broadcast_to(np.where(mask, filler, x), shape)


@samples(MaskedFill)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.bools(2, 3), s.tensor())
    yield s(s.tensor(2, 3), s.bools(3), s.tensor(1))
    yield s(s.tensor(1), s.bools(3), s.tensor())
    yield s(s.tensor(2, 3), s.bools(2, 1), s.tensor(1, 1, 1))
    yield s(s.tensor(), s.bools(), s.tensor())
    yield s(s.tensor(0, 3), s.bools(0, 3), s.tensor())


@bad_samples(MaskedFill)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.bools(3), s.tensor())
    yield "C1", s(s.tensor(2, 3), s.bools(2, 3), s.tensor(3, 1, 1))
    yield "C2", s(s.tensor(2), s.tensor(2, dtype=dt.float32), s.tensor())
