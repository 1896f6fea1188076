"""Bitwise ops on integers; on booleans they are the logical ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.kinds import ELEMENTWISE, INVOLUTION, SELECTIVE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import deferred
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE

INTEGER_BITS: Final = (*dt.INTS, dt.bool_, dt.uint8, dt.int8, dt.int16)


class _Bitwise:
    """C1: the shapes broadcast.
    C2: the dtypes are equal.
    C3: the dtype is bool or an integer.
    """

    signature = "x, y -> out"
    dtypes = INTEGER_BITS
    inplace = {"out": "x"}


@op
class BitwiseAnd(_Bitwise):
    """The bits set in both."""

    name = "pd_op.bitwise_and"
    traits = (SELECTIVE,)


@op
class BitwiseOr(_Bitwise):
    """The bits set in one or both."""

    name = "pd_op.bitwise_or"
    traits = (SELECTIVE,)


@op
class BitwiseXor(_Bitwise):
    """The bits set in just one."""

    name = "pd_op.bitwise_xor"


@op
class BitwiseNot:
    """The bits not set.

    C3: the dtype is bool or an integer.
    """

    name = "pd_op.bitwise_not"
    traits = (INVOLUTION,)
    signature = "x -> out"
    dtypes = INTEGER_BITS
    inplace = {"out": "x"}


PAIRS: Final = (
    (BitwiseAnd, deferred.bitwise_and),
    (BitwiseOr, deferred.bitwise_or),
    (BitwiseXor, deferred.bitwise_xor),
)


def _require_bits(x: TensorMeta) -> None:
    is_valid = x.dtype.is_integer or x.dtype is dt.bool_
    require(is_valid, "C3", f"{x.dtype} has no bits to work on")


@infer_meta(*(o for o, _ in PAIRS))
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(x.dtype is y.dtype, "C2", f"dtypes {x.dtype} and {y.dtype} differ")
    _require_bits(x)
    return TensorMeta(broadcast(x.shape, y.shape, constraint="C1"), x.dtype)


@infer_meta(BitwiseNot)
def _(x: TensorMeta) -> TensorMeta:
    _require_bits(x)
    return x


for _op, _function in PAIRS:
    reference(_op)(in_f32(_function))


reference(BitwiseNot)(in_f32(deferred.bitwise_not))


@samples(*(o for o, _ in PAIRS))
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 1), s.tensor(3))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(0, 2), s.tensor(2))


@samples(BitwiseNot)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))


@bad_samples(*(o for o, _ in PAIRS))
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.tensor(3))
    yield "C2", s(s.ints((2,), 0, 5, dt.int32), s.ints((2,), 0, 5, dt.int64))
    yield "C3", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float32))


@bad_samples(BitwiseNot)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C3", s(s.tensor(2, dtype=dt.float32))
