"""Gathers and scatters: reads and writes at data-dependent indices."""

from __future__ import annotations

from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.indexing import check_index
from pirkit.runtime.kernels.cupy.elementary import converted
from pirkit.runtime.kernels.cupy.results import Binary, Unary, computes

_SUMMED = (*dt.FLOATS, *dt.INTS)


def _coordinates(index: Any, shape: tuple[int, ...], constraint: str) -> tuple[Any, ...]:
    found = tuple([index[..., i] for i in range(len(shape))])
    for coordinate, size in zip(found, shape, strict=True):
        check_index(coordinate, size, constraint)
    return found


@computes("gather_nd", dtypes=dt.ANY)
def gather_nd(b: Binding) -> Binary | None:
    sizes = b.input().shape[: b.input(1).shape[-1]]
    return lambda x, index: x[_coordinates(index, sizes, "C2")]


def _along(b: Binding, axis: int, constraint: str) -> Step | None:
    """A function from places along an axis to the index of an array; None as in ``along_axis``."""
    xp, shape, index = b.xp, b.input().shape, b.input(1).shape
    if not shape:
        return None
    axis %= len(shape)
    if any(i != axis and n > size for i, (n, size) in enumerate(zip(index, shape, strict=True))):
        return None
    lines = [
        xp.arange(n).reshape([n if k == i else 1 for k in range(len(index))])
        for i, n in enumerate(index)
    ]

    def grid(places: Any) -> tuple[Any, ...]:
        check_index(places, shape[axis], constraint)
        return (*lines[:axis], places, *lines[axis + 1 :])

    return grid


@computes("take_along_axis", dtypes=dt.ANY)
def take_along_axis(b: Binding) -> Binary | None:
    grid = _along(b, b.attrs["axis"], "C3")
    if grid is None:
        return None
    return lambda x, index: x[grid(index)]


def _add(xp: Any, out: Any, at: Any, values: Any) -> None:
    """Adds at places that may repeat, in no fixed order.

    Cupy adds unsigned words of 64 bits, and no signed ones.
    """
    if out.dtype == dt.int64.np:
        out, values = out.view("u8"), values.view("u8")
    xp.add.at(out, at, values)


@computes("scatter_nd_add", dtypes=_SUMMED, widen=True)
def scatter_nd_add(b: Binding) -> Step | None:
    xp, depth = b.xp, b.input(1).shape[-1]
    sizes, lead = b.input().shape[:depth], tuple(range(len(b.input(1).shape) - 1))

    def run(x: Any, index: Any, updates: Any) -> Any:
        if not depth:
            return x + updates.sum(axis=lead, dtype=x.dtype)
        out = x.copy()
        _add(xp, out, _coordinates(index, sizes, "C3"), updates)
        return out

    return run


@computes("put_along_axis", dtypes=dt.REAL, widen=True)
def put_along_axis(b: Binding) -> Step | None:
    """Assigns or adds; which of several values assigned to one place stays is undefined.

    Products, means and extrema are left to the CPU.
    """
    xp, reduce, shape = b.xp, b.attrs["reduce"], b.input(1).shape
    starts_anew = reduce != "assign" and not b.attrs["include_self"]
    grid = _along(b, b.attrs["axis"], "C4")
    if grid is None or reduce not in ("assign", "add"):
        return None

    def run(arr: Any, indices: Any, values: Any) -> Any:
        out, at = arr.copy(), grid(indices)
        values = xp.broadcast_to(values, shape)
        if starts_anew:
            out[at] = 0
        if reduce == "add":
            _add(xp, out, at, values)
        else:
            out[at] = values
        return out

    return run


@computes("full_with_tensor", dtypes=dt.REAL)
def full_with_tensor(b: Binding) -> Unary | None:
    """The one element of the operand, everywhere."""
    source, target = b.dtype, b.output().dtype
    return lambda value: converted(b.xp, value.reshape(()), source, target)
