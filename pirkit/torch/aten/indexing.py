"""Reading at places that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


def counted(b: AtenBuilder, index: Value, size: int) -> Value:
    """Places counted from the front; negative ones count from the end."""
    index = b.cast(index, dt.int64)
    negative = b.less_than(index, b.const(0, dt.int64))
    return b("pd_op.where", negative, b.add(index, b.const(size, dt.int64)), index)


def flat_places(b: AtenBuilder, indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """The flat (row-major) index of each place in dimensions of these sizes."""
    found: Value | None = None
    for index, size in zip(indices, sizes, strict=True):
        place = counted(b, index, size)
        found = place if found is None else b.add(found * size, place)
    assert found is not None
    return found


def indexed_dims(indices: Sequence[Any]) -> tuple[list[int], bool]:
    """Which dimensions have an index, and whether they are neighbours."""
    dims = [d for d, index in enumerate(indices) if index is not None]
    return dims, dims == list(range(dims[0], dims[0] + len(dims)))


@rule("index.Tensor", "_unsafe_index.Tensor")
def _(b: AtenBuilder, x: Value, indices: Sequence[Any]) -> Any:
    """As in numpy: the index dimensions come where the first indexed one was, or in front if the
    indexed ones are not adjacent. NotImplemented for masks.
    """
    if any(i is not None and i.dtype in (dt.bool_, dt.uint8) for i in indices):
        return NotImplemented
    dims, together = indexed_dims(indices)
    sizes = [x.shape[d] for d in dims]
    places = flat_places(b, [indices[d] for d in dims], sizes)
    axis = dims[0] if together else 0
    if not together:
        x = b.permute(x, [*dims, *[d for d in range(x.rank) if d not in dims]])
    before, after = x.shape[:axis], x.shape[axis + len(dims) :]
    rows = b.reshape(x, (*before, math.prod(sizes), *after))
    places_in_row = b.reshape(places, (math.prod(places.shape),))
    picked = b.index_select(rows, places_in_row, axis=axis)
    return b.reshape(picked, (*before, *places.shape, *after))


@rule("embedding")
def _(
    b: AtenBuilder, weight: Value, index: Value, padding: int = -1, scale_grad: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """The row of the padding is read as it is, but gets no gradient."""
    if scale_grad or sparse:
        return NotImplemented
    found = b.embedding(index, weight, padding_idx=-1)
    if padding < 0:
        return found
    is_padding = b.equal(index, b.const(padding, index.dtype))
    mask = b.reshape(is_padding, (*index.shape, 1))
    return b("pd_op.where", mask, b.stopped(found), found)


@rule("index_select")
def _(b: AtenBuilder, x: Value, dim: int, index: Value) -> Value:
    if not x.rank:
        return b.reshape(x, b.shape)
    places = b.reshape(index, (math.prod(index.shape),))
    return b.index_select(x, places, axis=dim % x.rank)


@rule("gather")
def _(b: AtenBuilder, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """The index may be shorter than ``x`` in the other dimensions: the rest is not read."""
    if not x.rank:
        return b.reshape(x, b.shape)
    if not index.rank:
        index = b.reshape(index, (1,))
    dim %= x.rank
    for other in range(x.rank):
        if other != dim:
            x = b.cut(x, other, 0, index.shape[other])
    return b.reshape(b.take_along_axis(x, index, axis=dim), b.shape)


@rule("take")
def _(b: AtenBuilder, x: Value, index: Value) -> Value:
    count = math.prod(x.shape)
    places = b.reshape(counted(b, index, count), (math.prod(index.shape),))
    picked = b.index_select(b.reshape(x, (count,)), places, axis=0)
    return b.reshape(picked, index.shape)
