"""The inverse of maximum pooling: elements are written back at the index of the maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.indexing import check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "window"


@op
class Unpool:
    """Images of `output_size` with the elements of `x [N, C, H, W]` at `indices`, else zero.

    An index is a number in the order of the rows of one image. `ksize`, `strides` and `padding`
    tell how the pooling was done, and change nothing.

    C1: `x` has four dimensions, and `indices` is as large, of int32 or int64.
    C2: `output_size` ends with two positive numbers.
    C3: the indices name elements of an image.
    """

    name = "pd_op.unpool"
    signature = (
        "x, indices, output_size: intarray ; ksize: i32[], strides: i32[], padding: i32[], "
        "data_format: str -> out"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"indices": dt.INTS}


@op
class Unpool3d:
    """`unpool` for volumes `[N, C, D, H, W]`.

    C1: `x` has five dimensions, and `indices` is as large, of int32 or int64.
    C2: `output_size` ends with three positive numbers.
    C3: the indices name elements of a volume.
    """

    name = "pd_op.unpool3d"
    signature = (
        "x, indices ; ksize: i32[], strides: i32[] = [1, 1, 1], paddings: i32[] = [0, 0, 0], "
        'output_size: i32[] = [0, 0, 0], data_format: str = "NCDHW" -> out'
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"indices": dt.INTS}


@infer_meta(Unpool, Unpool3d)
def _(
    x: TensorMeta, indices: TensorMeta, *, output_size: Sequence[int | None] | None, **attrs: Any
) -> TensorMeta:
    n = 2 if "padding" in attrs else 3
    places = indices.rank == n + 2 and indices.dtype in (dt.int32, dt.int64)
    fits = x.rank == n + 2 and places and all(map(same_dim, x.shape, indices.shape))
    require(fits, "C1", f"{indices} for the elements of {x}")
    sizes = [None] * n if output_size is None else list(output_size)[-n:]
    is_valid = len(sizes) == n and all(d is None or d > 0 for d in sizes)
    require(is_valid, "C2", f"output_size {show([d or UNKNOWN for d in sizes])}")
    return x.with_shape((*x.shape[:2], *(UNKNOWN if d is None else d for d in sizes)))


@reference(Unpool, Unpool3d)
def _(x: Array, indices: Array, *, output_size: Sequence[int], **_: Any) -> Array:
    lengths = tuple(output_size[-(x.ndim - 2) :])
    size = prod(lengths)
    check_index(indices, size, "C3", from_end=False)
    rows = x.shape[0] * x.shape[1]
    out = np.zeros((rows, size), x.dtype)
    elements = (rows, prod(x.shape[2:]))
    np.put_along_axis(out, indices.reshape(elements), x.reshape(elements), axis=1)
    return out.reshape(*x.shape[:2], *lengths)


@samples(Unpool)
def _(s: SampleMaker) -> Iterator[Sample]:
    usual = {"ksize": (2, 2), "strides": (2, 2), "padding": (0, 0), "data_format": "NCHW"}
    places = s.array([[[[1, 2], [9, 11]], [[4, 3], [8, 15]]]], dt.int32)
    yield s(s.tensor(1, 2, 2, 2), places, output_size=(4, 4), **usual)
    yield s(s.tensor(2, 1, 2, 2), places.reshape(2, 1, 2, 2), output_size=(4, 5), **usual)


@samples(Unpool3d)
def _(s: SampleMaker) -> Iterator[Sample]:
    places = s.array([1, 2, 9, 11, 17, 20, 25, 30], dt.int32).reshape(1, 1, 2, 2, 2)
    x = s.tensor(1, 1, 2, 2, 2)
    yield s(x, places, ksize=(2, 2, 2), strides=(2, 2, 2), output_size=(4, 4, 4))


@bad_samples(Unpool)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    usual = {"ksize": (2, 2), "strides": (2, 2), "padding": (0, 0), "data_format": "NCHW"}
    x, places = s.tensor(1, 1, 2, 2), s.array([[[[1, 2], [9, 11]]]], dt.int32)
    yield "C1", s(x, places[0], output_size=(4, 4), **usual)
    yield "C2", s(x, places, output_size=(4,), **usual)
    yield "C3", s(x, places, output_size=(3, 3), **usual)


@bad_samples(Unpool3d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    places = s.array([1, 2, 9, 11, 17, 20, 25, 30], dt.int32).reshape(1, 1, 2, 2, 2)
    x = s.tensor(1, 1, 2, 2, 2)
    yield "C1", s(x[0], places, ksize=(2, 2, 2), output_size=(4, 4, 4))
    yield "C2", s(x, places, ksize=(2, 2, 2), output_size=(4, 4, 0))
    yield "C3", s(x, places, ksize=(2, 2, 2), output_size=(3, 3, 3))
