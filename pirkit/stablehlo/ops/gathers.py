"""`gather`, `scatter` and `select_and_scatter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Dense
from pirkit.stablehlo.ops.regions import combiner_of
from pirkit.stablehlo.ops.views import padded
from pirkit.stablehlo.ops.windows import Window
from pirkit.stablehlo.rules import rule

_REDUCED: Final = {"add": "add", "multiply": "mul", "maximum": "amax", "minimum": "amin"}
"""Combiner -> the ``reduce`` of `put_along_axis`, for indices that occur more than once."""


def _starts(b: HloBuilder, indices: Value, vector_dim: int) -> list[Value]:
    """The components of the index vectors, each an int64 tensor of the other dimensions."""
    if vector_dim == indices.rank:
        indices = b.reshape(indices, (*indices.shape, 1))
    wide = b.cast(indices, dt.int64)
    rest = tuple([n for d, n in enumerate(indices.shape) if d != vector_dim])
    return [b.reshape(b.cut(wide, vector_dim, i, i + 1), rest)
            for i in range(indices.shape[vector_dim])]  # fmt: skip


def _along(b: HloBuilder, numbers: Value, axes: Sequence[int], rank: int) -> Value:
    """``numbers`` in a shape that broadcasts: its dimensions are ``axes`` of a larger tensor."""
    shape = [1] * rank
    for size, axis in zip(numbers.shape, axes, strict=True):
        shape[axis] = size
    return b.reshape(numbers, tuple(shape))


class Windows:
    """The windows of a gather or scatter: for each element its index in the operand.

    ``shape`` is that of the operand, ``result`` that of the gathered tensor or the updates. Its
    ``window_dims`` run through a window, the others through the index vectors, whose components are
    along ``vector_dim`` of ``indices``. Of the operand's dimensions, ``mapped`` are those that the
    components index, ``skipped`` those that a window does not have, and ``batches`` those that run
    in parallel with the ``index_batches`` of the indices.
    """

    def __init__(
        self, b: HloBuilder, shape: Sequence[int], result: Sequence[int], indices: Value,
        vector_dim: int, window_dims: Sequence[int], skipped: Sequence[int], mapped: Sequence[int],
        batches: Sequence[int], index_batches: Sequence[int],
    ) -> None:  # fmt: skip
        named = {*skipped, *mapped, *batches}
        if not (named <= {*range(len(shape))} and {*window_dims} <= {*range(len(result))}):
            raise b.malformed(f"`{b.node.name}` names dimensions that its operands do not have")
        self.b, self.shape, self.rank = b, shape, len(result)
        self.outer = [d for d in range(self.rank) if d not in window_dims]
        kept = [d for d in range(len(shape)) if d not in skipped and d not in batches]
        self.inner = dict(zip(kept, window_dims, strict=True))
        self.sizes = {d: result[w] for d, w in self.inner.items()}
        self.starts: dict[int, Value] = {}
        for start, d in zip(_starts(b, indices, vector_dim), mapped, strict=True):
            self.starts[d] = _along(b, start, self.outer, self.rank)
        for d, i in zip(batches, index_batches, strict=True):
            at = self.outer[i - (i > vector_dim)]
            self.starts[d] = _along(b, b.counted(result[at]), [at], self.rank)

    def clamp(self) -> None:
        """Move windows that reach beyond the operand inside."""
        b = self.b
        for d, start in self.starts.items():
            room = self.shape[d] - self.sizes.get(d, 1)
            self.starts[d] = b.minimum(b.maximum(start, b.const(0, dt.int64)),
                                       b.const(room, dt.int64))  # fmt: skip

    def inside(self) -> Value | None:
        """Whether each window lies inside the operand; None if nothing is indexed."""
        b, found = self.b, None
        for d, start in self.starts.items():
            room = self.shape[d] - self.sizes.get(d, 1)
            fits = b.logical_and(b.greater_equal(start, b.const(0, dt.int64)),
                                 b.less_equal(start, b.const(room, dt.int64)))  # fmt: skip
            found = fits if found is None else b.logical_and(found, fits)
        return found

    def flat(self) -> Value:
        """The index of each element in the flattened operand, in a shape to broadcast."""
        b, found = self.b, None
        for d in range(len(self.shape)):
            at = self.starts.get(d)
            if d in self.inner and self.sizes[d] > 1:
                offset = _along(b, b.counted(self.sizes[d]), [self.inner[d]], self.rank)
                at = offset if at is None else b.add(at, offset)
            if at is None:
                continue
            at = b.scaled(at, prod(self.shape[d + 1 :]))
            found = at if found is None else b.add(found, at)
        return b.const(0, dt.int64, (1,) * self.rank) if found is None else found


@rule("gather")
def _(
    b: HloBuilder, x: Value, indices: Value, dimension_numbers: Mapping[str, Any],
    slice_sizes: Sequence[int], indices_are_sorted: bool = False,
) -> Value:  # fmt: skip
    """Windows of the operand; those that reach beyond its end are moved inside."""
    held = dimension_numbers
    result = b.outs[0].sizes
    collapsed, mapped = held.get("collapsed_slice_dims", []), held.get("start_index_map", [])
    batches = held.get("operand_batching_dims", [])
    vector_dim = held.get("index_vector_dim", 0)
    if 0 in result:
        return b.filled(0, x.dtype, result)
    windows = Windows(b, x.shape, result, indices, vector_dim, held.get("offset_dims", []),
                      collapsed, mapped, batches,
                      held.get("start_indices_batching_dims", []))  # fmt: skip
    for d, size in enumerate(slice_sizes):
        if windows.sizes.get(d, 1) != size:
            raise b.malformed("the sizes of a slice do not fit the result")
    windows.clamp()
    full = all(slice_sizes[d] == n for d, n in enumerate(x.shape) if d not in mapped)
    if not batches and len(mapped) == 1 and full and slice_sizes[mapped[0]] == 1:
        return _rows(b, x, windows, mapped[0], result)
    at = b.reshape(b.expanded(windows.flat(), result), (-1,))
    return b.reshape(b.gather(b.reshape(x, (-1,)), at, axis=0), result)


def _rows(b: HloBuilder, x: Value, windows: Windows, axis: int, result: Sequence[int]) -> Value:
    """A gather of whole slices along one dimension, as one `gather` along that axis."""
    at = b.reshape(windows.starts[axis], (-1,))
    found = b.gather(x, at, axis=axis)
    outer = [result[d] for d in windows.outer]
    found = b.reshape(found, (*x.shape[:axis], *outer, *x.shape[axis + 1 :]))
    # The position in `found` of each dimension of the result: those of the indices replace `axis`.
    places = {d: axis + i for i, d in enumerate(windows.outer)}
    for d, w in windows.inner.items():
        if d != axis:
            places[w] = d if d < axis else d + len(outer) - 1
    order = [places[w] for w in range(len(result)) if w in places]
    return b.reshape(b.permute(found, order), tuple(result))


@rule("scatter")
def _(
    b: HloBuilder, *values: Value, scatter_dimension_numbers: Mapping[str, Any],
    indices_are_sorted: bool = False, unique_indices: bool = False,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Windows of updates are combined with the operand; those that reach beyond it are left out.

    Raises UnsupportedError (PK0411) for a combiner other than set, add, multiply or an extremum,
    unless ``unique_indices`` is set.
    """
    count = (len(values) - 1) // 2
    held = scatter_dimension_numbers
    operands, indices, updates = values[:count], values[count], values[count + 1 :]
    if not updates[0].meta.numel or not operands[0].meta.numel:
        return operands
    windows = Windows(
        b, operands[0].shape, updates[0].shape, indices, held.get("index_vector_dim", 0),
        held.get("update_window_dims", []), held.get("inserted_window_dims", []),
        held.get("scatter_dims_to_operand_dims", []), held.get("input_batching_dims", []),
        held.get("scatter_indices_batching_dims", []),
    )  # fmt: skip
    size = operands[0].meta.numel
    fits, at = windows.inside(), windows.flat()
    if fits is not None:  # windows outside go to an element after the end
        at = b.where(fits, at, b.const(size, dt.int64))
    at = b.reshape(b.expanded(at, updates[0].shape), (-1,))
    how = combiner_of(b.node.regions[0]) if count == 1 else None
    if how in ("second", *_REDUCED):
        return _put(b, operands[0], at, updates[0], _REDUCED.get(how or "", "assign"))
    if not unique_indices:
        raise b.unsupported("combines elements by a function that pirkit cannot apply twice to one"
                            " place", "promise `unique_indices=True`, or add, multiply, or take the"
                            " least or the largest")  # fmt: skip
    last = b.const(size - 1, dt.int64)
    old = [b.gather(b.reshape(x, (-1,)), b.minimum(at, last), axis=0) for x in operands]
    new = b.elementwise(b.node.regions[0], [*old, *(b.reshape(u, (-1,)) for u in updates)])
    found = [_put(b, x, at, v, "assign") for x, v in zip(operands, new, strict=True)]
    return tuple(found)


def _put(b: HloBuilder, x: Value, at: Value, part: Value, how: str) -> Value:
    """Elements written at indices of the flattened tensor; index ``numel`` is dropped."""
    if how in ("amax", "amin"):
        x, part = (b.ordered(v, b.ins[0]) for v in (x, part))
    held = x.dtype
    narrow = how != "assign" and held not in dt.REAL and not held.is_complex
    wide, new = (b.cast(x, dt.int32), b.cast(part, dt.int32)) if narrow else (x, part)
    flat = b.pad(b.reshape(wide, (-1,)), paddings=(0, 1), pad_value=0)
    made = b.put_along_axis(flat, at, b.reshape(new, (-1,)), axis=0, reduce=how)
    found = b.cast(b.reshape(b.cut(made, 0, 0, x.meta.numel), x.shape), held)
    return b.ordered(found, b.ins[0]) if how in ("amax", "amin") else found


@rule("select_and_scatter")
def _(
    b: HloBuilder, x: Value, source: Value, init: Value, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None, padding: Dense | None = None,
) -> Value:  # fmt: skip
    """The derivative of max or min pooling.

    Each element of ``source`` is added at the first largest or least element of its window.
    """
    select, scatter = b.node.regions
    chosen = select.nodes[0].attributes.get("comparison_direction")
    if len(select.nodes) != 2 or chosen not in ("GE", "LE") or combiner_of(scatter) != "add":
        raise b.unsupported("selects by another function than the first largest or least element,"
                            " or does not add")  # fmt: skip
    window = Window.of(b, x.rank, window_dimensions, window_strides, None, None, padding)
    low, high = float("-inf"), float("inf")
    if x.dtype.is_integer:
        low, high = np.iinfo(x.dtype.np).min, np.iinfo(x.dtype.np).max
    worst = b.const(low if chosen == "GE" else high, x.dtype)
    zeros = (0,) * x.rank
    wide = padded(b, b.ordered(x, b.ins[0]), worst, window.low, window.high, zeros)
    parts = [b.reshape(p, (1, *p.shape)) for p in window.parts(b, wide)]
    stack = b.concat(parts, 0)
    which = b("pd_op.argmax" if chosen == "GE" else "pd_op.argmin", stack, axis=0)
    # Flat indices in the padded operand: of the first element of each window, and offsets in it.
    steps = [prod(wide.shape[d + 1 :]) for d in range(x.rank)]
    offsets = [int(np.dot(place, steps)) for place in np.ndindex(*window.sizes)]
    corner = np.zeros(source.shape, np.int64)
    for d, step in enumerate(steps):
        along = np.arange(source.shape[d]) * window.strides[d] * step
        corner = corner + along.reshape([-1 if i == d else 1 for i in range(x.rank)])
    moved = b.gather(b.integers(offsets), b.reshape(which, (-1,)), axis=0)
    at = b.add(moved, b.reshape(b.array(corner, "corners"), (-1,)))
    back = _put(b, b.const(0.0, x.dtype, wide.shape), at, source, "add")
    for d in range(x.rank):
        back = b.cut(back, d, window.low[d], window.low[d] + x.shape[d])
    return back if b.number_of(init) == 0 else b.add(back, b.expanded(init, x.shape))
