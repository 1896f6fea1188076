"""Writes to a part of a tensor: by slices, or at computed indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, normalize_axes
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, widened
from pirkit.runtime.indexing import check_fills, fitted, part_shown, put_places, window
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = "scatter"

Sizes = Sequence[int | None] | None


def _check_part(
    x: TensorMeta,
    starts: Sizes,
    ends: Sizes,
    steps: Sizes,
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
    value: Sequence[int],
) -> None:
    named = [*axes, *decrease_axes]
    require(x.rank > 0 or not named, "C1", f"axes {named} of {x}")
    normalize_axes(axes, x.rank)
    normalize_axes(decrease_axes, x.rank)
    for bounds in (starts, ends, steps):
        same = bounds is None or len(bounds) == len(axes)
        require(same, "C2", f"{0 if bounds is None else len(bounds)} bounds for {len(axes)} axes")
    require(steps is None or 0 not in steps, "C3", "a step is 0")
    if starts is None or ends is None or steps is None or None in (*starts, *ends, *steps):
        return
    part = window(x.shape, axes, *map(_known, (starts, ends, steps)))
    _check_value(x, part, decrease_axes, none_axes, value)


def _known(bounds: Sequence[int | None]) -> list[int]:
    return [n for n in bounds if n is not None]


def _check_value(
    x: TensorMeta,
    part: list[slice],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
    value: Sequence[int],
) -> None:
    """Compare the shape of a value with that of a part, as far as the sizes are known."""
    sizes = [
        UNKNOWN if n == UNKNOWN else len(range(n)[p]) for n, p in zip(x.shape, part, strict=True)
    ]
    for axis in decrease_axes:
        count = sizes[axis]
        require(
            count in (1, UNKNOWN), "C5", f"{count} elements along axis {axis}, which is dropped"
        )
        sizes[axis] = 1
    dims, shown = iter(sizes), list[int]()
    for place in part_shown(sizes, decrease_axes, none_axes)[:-1]:
        size = 1 if place is None else next(dims)
        shown += [size] if place != 0 else []
    extra = len(value) - len(shown)
    lead = max(extra, 0) if all(n in (1, UNKNOWN) for n in value[: max(extra, 0)]) else 0
    check_fills(value[lead:], shown, "C6", "the value")


def _written(
    x: Array,
    value: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
) -> Array:
    """``x`` with ``value`` written over a part of it.

    The value fits the part as indexing shows it, leading dimensions of 1 apart.
    """
    out = x.copy()
    part = out[(*window(x.shape, axes, starts, ends, steps), ...)]  # a view of a number too
    seen = part[part_shown(part.shape, decrease_axes, none_axes)]
    try:
        seen[...] = fitted(value, seen.ndim)  # a view of `out`: the dots keep a single element one
    except ValueError as error:
        raise ValueError(f"a value of shape {value.shape} for a part of {seen.shape}") from error
    return out


@op
class SetValue:
    """`x` with `values`, in the given `shape`, written from `starts` to `ends` in `steps`.

    C1: `axes` and `decrease_axes` name dimensions of `x`, and none twice.
    C2: there is one start, end and step per axis.
    C3: no step is 0.
    C4: there are as many values as `shape` has elements, or one.
    C5: a dimension of `decrease_axes` has one element from its start to its end.
    C6: the value broadcasts to the part, leading dimensions of 1 apart.
    """

    name = "pd_op.set_value"
    signature = (
        "x, starts: intarray, ends: intarray, steps: intarray ; axes: i64[],"
        " decrease_axes: i64[], none_axes: i64[], shape: i64[], values: scalar[] -> out"
    )
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(SetValue)
def _(
    x: TensorMeta,
    *,
    starts: Sizes,
    ends: Sizes,
    steps: Sizes,
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
    shape: Sequence[int],
    values: Sequence[complex],
) -> TensorMeta:
    count = prod(shape)
    fits = len(values) in (1, count) and all(n >= 0 for n in shape)
    require(fits, "C4", f"{len(values)} values for shape {list(shape)}")
    _check_part(x, starts, ends, steps, axes, decrease_axes, none_axes, shape)
    return x


@reference(SetValue)
def _(
    x: Array,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
    shape: Sequence[int],
    values: Sequence[complex],
) -> Array:
    given = convert(np.asarray(values), dt.of_array(x))
    value = np.broadcast_to(given.reshape(()), shape) if given.size == 1 else given.reshape(shape)
    return _written(x, value, starts, ends, steps, axes, decrease_axes, none_axes)


@op
class SetValueWithTensor:
    """`x` with the tensor `values` written from `starts` to `ends` in `steps`.

    C1: `axes` and `decrease_axes` name dimensions of `x`, and none twice.
    C2: there is one start, end and step per axis.
    C3: no step is 0.
    C4: `values` has the dtype of `x`.
    C5: a dimension of `decrease_axes` has one element from its start to its end.
    C6: the value broadcasts to the part, leading dimensions of 1 apart.
    """

    name = "pd_op.set_value_with_tensor"
    signature = (
        "x, values, starts: intarray, ends: intarray, steps: intarray ; axes: i64[],"
        " decrease_axes: i64[], none_axes: i64[] -> out"
    )
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(SetValueWithTensor)
def _(
    x: TensorMeta,
    values: TensorMeta,
    *,
    starts: Sizes,
    ends: Sizes,
    steps: Sizes,
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
) -> TensorMeta:
    _check_part(x, starts, ends, steps, axes, decrease_axes, none_axes, values.shape)
    require(values.dtype is x.dtype, "C4", f"values are a {values}, x is a {x}")
    return x


@reference(SetValueWithTensor)
def _(
    x: Array,
    values: Array,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
) -> Array:
    return _written(x, values, starts, ends, steps, axes, decrease_axes, none_axes)


@op
class IndexPut:
    """`x` with `value` written, or with `accumulate` added, at `indices`.

    `indices` are coordinates along the first dimensions, which broadcast, or masks, each of which
    stands for as many dimensions as it has: NumPy's advanced indexing.

    C1: `indices` is not empty and covers no more dimensions than `x` has.
    C2: indices are bool, int32 or int64.
    C3: `value` has the dtype of `x`.
    C4: each index lies in its dimension.
    C5: indices broadcast together, and `value` to the elements that they choose.
    """

    name = "pd_op.index_put"
    signature = "x, indices[], value ; accumulate: bool = False -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@infer_meta(IndexPut)
def _(x: TensorMeta, indices: VecMeta, value: TensorMeta, **_: object) -> TensorMeta:
    covered = sum(i.rank if i.dtype is dt.bool_ else 1 for i in indices.items)
    fits = 0 < covered <= x.rank
    require(fits, "C1", f"indices cover {covered} dimensions of a tensor of rank {x.rank}")
    known = all(i.dtype in (dt.bool_, *dt.INTS) for i in indices.items)
    require(known, "C2", f"indices are {indices}")
    require(value.dtype is x.dtype, "C3", f"value is a {value}, x is a {x}")
    # How many elements a mask chooses is known when it runs.
    shapes = [(UNKNOWN,) if i.dtype is dt.bool_ else i.shape for i in indices.items]
    chosen = (*broadcast(*shapes, constraint="C5"), *x.shape[covered:])
    check_fills(value.shape, chosen, "C5", "the value")
    return x


@reference(IndexPut)
def _(x: Array, indices: Sequence[Array], value: Array, *, accumulate: bool) -> Array:
    where = put_places(x, indices, value)
    out = x.copy()
    if not accumulate:
        out[where] = value
        return out
    wide = widened(out).copy()
    if wide.dtype == np.bool_:
        np.logical_or.at(wide, where, value)
    else:
        np.add.at(wide, where, widened(value))
    return wide.astype(x.dtype)


# --- samples -------------------------------------------------------------------------------------


def _part(axes: tuple[int, ...], *bounds: tuple[int, ...], **more: Any) -> dict[str, Any]:
    starts, ends, steps = bounds
    attrs: dict[str, Any] = {"axes": axes, "starts": starts, "ends": ends, "steps": steps}
    return {**attrs, "decrease_axes": (), "none_axes": (), **more}


@samples(SetValue)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(3, 4)
    one: dict[str, Any] = {"shape": (1,), "values": (1.0,)}
    yield s(x, **_part((0,), (0,), (2,), (1,)), **one)
    yield s(x, **_part((0,), (1,), (2,), (1,), decrease_axes=(0,)), **one)
    yield s(x, **_part((0, 1), (0, 1), (3, 4), (2, 2)), shape=(2, 1), values=(0.0, 1.0))
    yield s(x, **_part((1,), (3,), (0,), (-2,)), shape=(2,), values=(0.0, 1.0))
    yield s(x, **_part((), (), (), ()), **one)


@samples(SetValueWithTensor)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(3, 4)
    yield s(x, s.tensor(4), **_part((0,), (1,), (2,), (1,), decrease_axes=(0,)))
    yield s(x, s.tensor(2, 1, 4), **_part((0,), (1,), (3,), (1,), none_axes=(1,)))
    yield s(x, s.tensor(1, 4), **_part((0,), (1,), (2,), (1,), decrease_axes=(0,), none_axes=(1,)))
    yield s(x, s.tensor(1, 3, 1, 4), **_part((), (), (), (), none_axes=(0, 1)))
    yield s(x, s.tensor(1, 1, 4), **_part((0,), (1,), (2,), (1,), decrease_axes=(0,)))
    yield s(x, s.tensor(), **_part((1,), (-1,), (100,), (1,)))
    yield s(x, s.tensor(3, 4), **_part((1,), (3,), (-100,), (-1,)))


@samples(IndexPut)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(3, 4)
    rows = s.array([0, -1], dt.int64)
    yield s(x, [rows], s.tensor(2, 4))
    yield s(x, [rows, s.array([1, 2], dt.int64)], s.tensor(2), accumulate=s.dtype.kind != "bool")
    yield s(x, [s.array([True, False, True], dt.bool_)], s.tensor())
    yield s(x, [s.array([[0], [1]], dt.int64), s.array([[1, 2]], dt.int64)], s.tensor())


@bad_samples(SetValue)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, 4)
    one: dict[str, Any] = {"shape": (1,), "values": (1.0,)}
    yield "C1", s(x, **_part((2,), (0,), (1,), (1,)), **one)
    yield "C1", s(s.tensor(), **_part((0,), (0,), (1,), (1,)), **one)
    yield "C1", s(s.tensor(), **_part((), (), (), (), decrease_axes=(0,)), **one)
    yield "C2", s(x, **_part((0,), (0, 1), (1,), (1,)), **one)
    yield "C3", s(x, **_part((0,), (0,), (1,), (0,)), **one)
    yield "C4", s(x, **_part((0,), (0,), (1,), (1,)), shape=(3,), values=(1.0, 2.0))
    yield "C5", s(x, **_part((0,), (3,), (4,), (1,), decrease_axes=(0,)), **one)
    yield "C6", s(x, **_part((0,), (0,), (2,), (1,)), shape=(3, 1), values=(1.0,))


@bad_samples(SetValueWithTensor)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, 4)
    yield "C1", s(x, s.tensor(), **_part((2,), (0,), (1,), (1,)))
    yield "C2", s(x, s.tensor(), **_part((0,), (0, 1), (1,), (1,)))
    yield "C3", s(x, s.tensor(), **_part((0,), (0,), (1,), (0,)))
    yield "C4", s(x, s.tensor(dtype=dt.int16), **_part((0,), (0,), (1,), (1,)))
    yield "C5", s(x, s.tensor(), **_part((0,), (0,), (2,), (1,), decrease_axes=(0,)))
    yield "C6", s(x, s.tensor(3), **_part((0,), (0,), (2,), (1,)))


@bad_samples(IndexPut)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, rows = s.tensor(3, 4), s.array([0, 1], dt.int64)
    yield "C1", s(x, [rows, rows, rows], s.tensor())
    yield "C2", s(x, [s.tensor(2, dtype=dt.float32)], s.tensor())
    yield "C3", s(x, [rows], s.tensor(dtype=dt.int16))
    yield "C4", s(x, [s.array([3], dt.int64)], s.tensor())
    yield "C5", s(x, [rows, s.array([0, 1, 2], dt.int64)], s.tensor())
    yield "C5", s(x, [rows], s.tensor(3, 1))
    yield "C5", s(x, [s.array([True, False, True], dt.bool_)], s.tensor(3, 4))
