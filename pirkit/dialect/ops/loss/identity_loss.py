"""A loss that is computed already, as the value that a program minimizes."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import (
    bad_samples,
    decompose,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"


@op
class IdentityLoss:
    """The sum (`reduction` 0) or the mean (1) of `x`, or `x` itself (2).

    C1: `reduction` is 0, 1 or 2.
    """

    name = "pd_op.identity_loss"
    signature = "x ; reduction: i32 = 1 -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "x"}


@infer_meta(IdentityLoss)
def _(x: TensorMeta, *, reduction: int) -> TensorMeta:
    require(reduction in (0, 1, 2), "C1", f"reduction {reduction}")
    return x if reduction == 2 else x.with_shape(())


@reference(IdentityLoss)
@in_f32
def _(x: Array, *, reduction: int) -> Array:
    return x.copy() if reduction == 2 else np.asarray(x.mean() if reduction else x.sum())


@decompose(IdentityLoss)
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    if c.reduction == 2:
        return b.assign(x)
    return b.mean(x, axis=(), keepdim=False) if c.reduction else b.sum(x, range(x.rank))


@samples(IdentityLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3), reduction=0)
    yield s(s.tensor(2, 3), reduction=2)


@bad_samples(IdentityLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), reduction=3)
