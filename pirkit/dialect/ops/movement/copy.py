"""Ops that return their input: copies, aliases and conversions."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import ALIAS, COPY, DETACH, ELEMENTWISE, EXACT, RESHAPE, VIEW
from pirkit.dialect.opdef import WRITE, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import show, unchanged
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta

KIND = VIEW


@op
class Cast:
    """`x` in another element type, converted as C does; see ``pirkit.runtime.convert``.

    C1: `dtype` is given.
    """

    name = "pd_op.cast"
    library_ns = {"to_int": 2.4}
    traits = (COPY,)
    kind = ELEMENTWISE
    cost = 0
    signature = "x ; dtype: dtype -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(Cast)
def _(x: TensorMeta, *, dtype: DType | None) -> TensorMeta:
    if dtype is None:
        require(False, "C1", "the dtype to cast to is undefined")
        return x
    return x.with_dtype(dtype)


@reference(Cast)
def _(x: Array, *, dtype: DType) -> Array:
    return convert(x, dtype)


@samples(Cast)
def _(s: SampleMaker) -> Iterator[Sample]:
    for target in (dt.float32, dt.int64, dt.bool_, dt.bfloat16):
        yield s(s.tensor(2, 3), dtype=target)
    yield s(s.tensor(), dtype=dt.float64)
    yield s(s.tensor(0, 2), dtype=dt.int32)


@bad_samples(Cast)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), dtype=None)


@op
class Assign:
    """A copy of `x`."""

    name = "pd_op.assign"
    traits = (EXACT, RESHAPE, COPY)
    signature = "x -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@op
class ShareData:
    """`x` itself under another name; the result shares its storage."""

    name = "pd_op.share_data"
    traits = (ALIAS, DETACH, RESHAPE)
    signature = "x -> out"
    dtypes = dt.ANY
    views = {"out": "x"}


@op
class Depend:
    """`x` itself under another name, once `dep` are computed: a barrier for the optimizer.

    What reads the result is not merged with what reads `x`, and does not run before `dep`. It is
    Paddle's `depend`, and JAX's `optimization_barrier`.
    """

    name = "pd_op.depend"
    traits = (ALIAS, RESHAPE)
    signature = "x, dep[] -> out"
    dtypes = dt.ANY
    views = {"out": "x"}
    reads_meta_only = ("dep",)


@op
class ShareDataInplace:
    """`x` itself under another name; writes nothing, despite its name."""

    name = "pd_op.share_data_"
    traits = (ALIAS, DETACH)
    signature = "x -> out"
    dtypes = dt.ANY
    views = {"out": "x"}


class _Transfer:
    signature = "x ; dst_place_type: i32 -> out"
    dtypes = dt.ANY


@op
class Memcpy(_Transfer):
    """A copy of `x` in another memory, as `Tensor.cpu()` gives it.

    `dst_place_type` is 0 for the host and 1 for a device.
    """

    name = "pd_op.memcpy"


@op
class CopyToDevice(_Transfer):
    """A copy of `x` in the memory of a device, whose number is that of Paddle's place."""

    name = "pd_op.memcpy_h2d"


@op
class CopyToHost(_Transfer):
    """A copy of `x` in the memory of the host."""

    name = "pd_op.memcpy_d2h"


infer_meta(Assign, ShareData, ShareDataInplace)(unchanged)
infer_meta(Memcpy, CopyToDevice, CopyToHost)(unchanged)


@reference(Assign)
def _(x: Array) -> Array:
    return x.copy()


@reference(Memcpy, CopyToDevice, CopyToHost)
def _(x: Array, **_: object) -> Array:
    return x.copy()


@samples(Memcpy, CopyToDevice, CopyToHost)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), dst_place_type=1)
    yield s(s.tensor(), dst_place_type=0)


@reference(ShareData, ShareDataInplace)
def _(x: Array) -> Array:
    return x


@infer_meta(Depend)
def _(x: Meta, dep: VecMeta) -> Meta:
    return x


@reference(Depend)
def _(x: Array, dep: list[Array]) -> Array:
    return x


@samples(Depend)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), [s.tensor(), s.tensor(4)])
    yield s(s.tensor(0, 2), [s.tensor(2)])


@samples(Assign, ShareData, ShareDataInplace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))


@op
class AssignOut:
    """Writes `x` into the storage of `output`, which takes its shape and dtype, as in Paddle.

    C1: `x` and `output` have as many elements.
    """

    name = "pd_op.assign_out_"
    pure_form = "pd_op.assign"
    signature = "x, output -> out"
    dtypes = dt.ANY
    inplace = {"out": "output"}
    effects = WRITE
    reads_meta_only = ("output",)


@infer_meta(AssignOut)
def _(x: TensorMeta, output: TensorMeta) -> TensorMeta:
    same = x.numel == output.numel or not (x.is_static and output.is_static)
    require(same, "C1", f"{show(x.shape)} and {show(output.shape)} have not as many elements")
    return x


@reference(AssignOut)
def _(x: Array, output: Array) -> Array:
    return x.copy()


@samples(AssignOut)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(), s.tensor())


@bad_samples(AssignOut)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3))
