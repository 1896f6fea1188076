"""Shapes, and parts of tensors. Programs have no views: each result is a value of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.capture_outputs import storage_of
from pirkit.torch.captured_graph import SOURCE
from pirkit.torch.element_types import OF_TORCH
from pirkit.torch.libtorch import torch
from pirkit.torch.node_error import NodeError
from pirkit.torch.rules import rule


@rule("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
      "flatten.using_ints", "_reshape_alias", "view_as", "unflatten.int",
      "view_copy")  # fmt: skip
def _(b: AtenBuilder, x: Value, *_: Any, **__: Any) -> Value:
    return b.reshape(x, b.shape)


@rule("clone", "contiguous", "alias", "lift_fresh_copy", "lift_fresh", "detach", "lift",
      "detach_copy", "alias_copy", "positive")  # fmt: skip
def _(b: AtenBuilder, x: Value, **_: Any) -> Value:
    return x


@rule("permute", "permute_copy")
def _(b: AtenBuilder, x: Value, order: Sequence[int]) -> Value:
    return b.permute(x, [d % x.rank for d in order])


@rule("transpose.int")
def _(b: AtenBuilder, x: Value, first: int, second: int) -> Value:
    order = list(range(x.rank))
    if order:
        first, second = first % x.rank, second % x.rank
        order[first], order[second] = second, first
    return b.permute(x, order)


@rule("t", "numpy_T", "mT")
def _(b: AtenBuilder, x: Value) -> Value:
    order = list(range(x.rank))
    return b.permute(x, [*order[:-2], *reversed(order[-2:])])


@rule("expand", "expand_copy", "broadcast_to")
def _(b: AtenBuilder, x: Value, *_: Any, **__: Any) -> Value:
    return b.expand(x, b.shape)


@rule("_to_copy", "to.dtype", "prims.convert_element_type")
def _(b: AtenBuilder, x: Any, *_: Any, **__: Any) -> Value:
    return b.typed(x, b.dtype)  # `vmap` casts numbers of Python too


@rule("copy")
def _(b: AtenBuilder, x: Value, y: Value, non_blocking: bool = False) -> Value:
    return b.expand(b.cast(y, x.dtype), x.shape)


@rule("slice.Tensor")
def _(
    b: AtenBuilder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    dim %= x.rank
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    if step == 1:
        return b.cut(x, dim, first, max(first, last))
    return b.strided_slice(
        x, starts=(first,), ends=(max(first, last),), strides=(step,), axes=(dim,)
    )


@rule("select.int")
def _(b: AtenBuilder, x: Value, dim: int, index: int) -> Value:
    dim, index = dim % x.rank, index % x.shape[dim % x.rank]
    return b.slice(x, starts=(index,), ends=(index + 1,), axes=(dim,), decrease_axis=(dim,))


@rule("split_with_sizes", "split_with_sizes_copy")
def _(b: AtenBuilder, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    ends = np.cumsum(sizes).tolist()
    return [b.cut(x, dim % x.rank, e - s, e) for s, e in zip(sizes, ends, strict=True)]


@rule("split.Tensor")
def _(b: AtenBuilder, x: Value, size: int, dim: int = 0) -> list[Value]:
    dim %= x.rank
    total = x.shape[dim]
    return [b.cut(x, dim, s, min(s + size, total)) for s in range(0, max(total, 1), max(size, 1))]


@rule("unbind.int", "unbind_copy.int")
def _(b: AtenBuilder, x: Value, dim: int = 0) -> list[Value]:
    dim %= x.rank
    return [
        b.slice(x, starts=(i,), ends=(i + 1,), axes=(dim,), decrease_axis=(dim,))
        for i in range(x.shape[dim])
    ]


@rule("cat")
def _(b: AtenBuilder, parts: Sequence[Value], dim: int = 0) -> Value:
    """As in torch, a tensor of shape ``(0,)`` is left out, also beside tensors of another rank."""
    whole = [b.cast(p, b.dtype) for p in parts if p.shape != (0,)]
    if not whole:
        return b.const(0, b.dtype, b.shape)
    return whole[0] if len(whole) == 1 else b.concat(whole, axis=dim % whole[0].rank)


@rule("stack")
def _(b: AtenBuilder, parts: Sequence[Value], dim: int = 0) -> Value:
    dim %= parts[0].rank + 1
    rows = [b.cast(p, b.dtype) for p in parts]
    with_axis = [b.reshape(p, (*p.shape[:dim], 1, *p.shape[dim:])) for p in rows]
    return with_axis[0] if len(rows) == 1 else b.concat(with_axis, axis=dim)


@rule("repeat", "tile")
def _(b: AtenBuilder, x: Value, times: Sequence[int]) -> Value:
    """Each dimension becomes two, of which the first is broadcast."""
    shape = (1,) * (len(times) - x.rank) + x.shape
    times = [1] * (len(shape) - len(times)) + list(times)
    pairs = [n for size in shape for n in (1, size)]
    spread = [n for k, size in zip(times, shape, strict=True) for n in (k, size)]
    return b.reshape(b.expand(b.reshape(x, pairs), spread), b.shape)


@rule("flip")
def _(b: AtenBuilder, x: Value, dims: Sequence[int]) -> Value:
    return b.flip(x, axis=b.axes(x, list(dims))) if dims else x


@rule("roll")
def _(b: AtenBuilder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not x.rank or 0 in x.shape:
        return x
    rows = x if dims else b.reshape(x, (math.prod(x.shape),))
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        dim %= rows.rank
        size = rows.shape[dim]
        at = (size - shift % size) % size
        if at:
            rows = b.concat([b.cut(rows, dim, at, size), b.cut(rows, dim, 0, at)], axis=dim)
    return b.reshape(rows, x.shape)


@rule("tril")
def _(b: AtenBuilder, x: Value, diagonal: int = 0) -> Value:
    return b.tril(x, diagonal=diagonal)


@rule("triu")
def _(b: AtenBuilder, x: Value, diagonal: int = 0) -> Value:
    return b.triu(x, diagonal=diagonal)


@rule("diagonal", "diagonal_copy")
def _(b: AtenBuilder, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    return b.diagonal(x, offset=offset, axis1=first, axis2=second)


@rule("constant_pad_nd")
def _(b: AtenBuilder, x: Value, pad: Sequence[int], value: Any = 0) -> Value:
    """``pad`` names the last dimension first; negative numbers cut elements off."""
    pairs = [(0, 0)] * (x.rank - len(pad) // 2)
    pairs += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for dim, (low, high) in enumerate(pairs):
        x = b.cut(x, dim, max(0, -low), x.shape[dim] - max(0, -high))
    flat = [max(0, n) for pair in pairs for n in pair]
    return b("pd_op.pad", x, pad_value=value, paddings=tuple(flat)) if any(flat) else x


@rule("as_strided", "as_strided_copy")
def _(
    b: AtenBuilder, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Value:
    """Elements of the storage of ``x``: its own, or those of the tensor of which it is a view.

    As in torch, no gradient flows to those that are not its own. Raises NodeError (PK0406) for
    memory that no value of the graph holds.
    """
    node = b.node.args[0]
    start = b.read(node.meta["val"].storage_offset()) if offset is None else offset
    places = _addresses(size, stride, start)
    numbers, is_own = _held_at(b, node, places)
    own = _elements(b, x, numbers)
    if is_own.all():
        return own
    held, is_found = node, is_own
    while not is_found.all():
        above: Any = next(iter(held.all_input_nodes), None)
        if above is None or not _share(held, above):
            raise _outside(b)
        held = above
        numbers, is_found = _held_at(b, held, places)
    others = b.stopped(_elements(b, b.read(held), numbers))
    return b.where(_mask(b, is_own), own, others)


@rule("as_strided_scatter")
def _(
    b: AtenBuilder, x: Value, source: Value, size: Sequence[int], stride: Sequence[int],
    offset: int | None = None,
) -> Any:  # fmt: skip
    """``x`` with ``source`` in place of a strided view of it.

    Raises NodeError (PK0406) unless all of the view is in ``x``.
    """
    fake = b.node.args[0].meta["val"]
    start = b.read(fake.storage_offset()) if offset is None else offset
    numbers, is_own = _held_at(b, b.node.args[0], _addresses(size, stride, start))
    if not is_own.all():
        raise _outside(b)
    origin = np.full(math.prod(x.shape), -1)
    origin[numbers.ravel()] = np.arange(numbers.size)
    origin = origin.reshape(x.shape)
    given = _elements(b, b.cast(source, x.dtype), np.maximum(origin, 0))
    return given if (origin >= 0).all() else b.where(_mask(b, origin >= 0), given, x)


def _outside(b: AtenBuilder) -> NodeError:
    cause = UnsupportedError(
        f"`{b.node.target}` names memory outside of its argument", code="PK0406",
        help="take the view from the tensor that owns the memory",
    )  # fmt: skip
    return NodeError(b.node.meta.get(SOURCE), cause)


def _mask(b: AtenBuilder, chosen: Any) -> Value:
    numbers = b.integers(chosen.ravel().astype(int).tolist())
    return b.cast(b.reshape(numbers, chosen.shape), dt.bool_)


def _elements(b: AtenBuilder, x: Value, numbers: Any) -> Value:
    """The elements at flat (row-major) indices, in the shape of the indices."""
    count = math.prod(x.shape)
    flat = b.reshape(x, (count,))
    if numbers.size == count and (numbers.ravel() == np.arange(count)).all():
        return b.reshape(flat, numbers.shape)
    index = b.integers(numbers.ravel().tolist())
    return b.reshape(b.index_select(flat, index, axis=0), numbers.shape)


def _addresses(size: Sequence[int], stride: Sequence[int], start: int) -> Any:
    """The offsets of the elements of a tensor in its storage, in its shape."""
    places = np.full(tuple(size), start, np.int64)
    for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape([-1 if d == dim else 1 for d in range(len(size))])
    return places


def _held_at(b: AtenBuilder, node: Any, places: Any) -> tuple[Any, Any]:
    """For each offset, the flat index of the element of a node there, and whether there is one."""
    fake = node.meta["val"]
    sizes, strides, start = b.read([list(fake.shape), list(fake.stride()), fake.storage_offset()])
    held = _addresses(sizes, strides, start).ravel()
    order = np.argsort(held, kind="stable")
    found = cast(Any, np.searchsorted)(held, places, sorter=order)
    numbers = order[np.minimum(found, held.size - 1)]
    return numbers, held[numbers] == places


def _share(view: Any, node: Any) -> bool:
    """Whether two nodes are in one storage, with elements of one type."""
    fakes = [n.meta.get("val") for n in (view, node)]
    if not all(isinstance(f, torch.Tensor) for f in fakes):
        return False
    return storage_of(fakes[0]) == storage_of(fakes[1]) and fakes[0].dtype == fakes[1].dtype


@rule("slice_scatter")
def _(
    b: AtenBuilder, x: Value, source: Value, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Value:  # fmt: skip
    dim %= x.rank
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    source = b.cast(source, x.dtype)
    if step == 1:
        parts = [b.cut(x, dim, 0, first), source, b.cut(x, dim, max(first, last), x.shape[dim])]
        held = [p for p in parts if p.shape[dim]]
        return held[0] if len(held) == 1 else b.concat(held or [x], axis=dim)
    return _set_value(b, x, source, dim, first, last, step)


@rule("select_scatter")
def _(b: AtenBuilder, x: Value, source: Value, dim: int, index: int) -> Value:
    dim %= x.rank
    index %= x.shape[dim]
    row = b.reshape(b.cast(source, x.dtype), (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    parts = [b.cut(x, dim, 0, index), row, b.cut(x, dim, index + 1, x.shape[dim])]
    held = [p for p in parts if p.shape[dim]]
    return held[0] if len(held) == 1 else b.concat(held, axis=dim)


def _set_value(
    b: AtenBuilder, x: Value, source: Value, dim: int, first: int, last: int, step: int
) -> Value:
    return b.set_value_with_tensor(
        x, source, starts=(first,), ends=(last,), steps=(step,), axes=(dim,),
        decrease_axes=(), none_axes=(),
    )  # fmt: skip


@rule("view.dtype")
def _(b: AtenBuilder, x: Value, dtype: Any) -> Any:
    return x if OF_TORCH[dtype] is x.dtype else NotImplemented


@rule("diag_embed")
def _(b: AtenBuilder, x: Value, offset: int = 0, first: int = -2, second: int = -1) -> Value:
    return b.diag_embed(x, offset=offset, dim1=first, dim2=second)


@rule("unfold", "unfold_copy")
def _(b: AtenBuilder, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along a dimension, as a last dimension."""
    if not x.rank:
        return b.reshape(x, b.shape)
    dim %= x.rank
    count = (x.shape[dim] - size) // step + 1
    places = [w * step + i for w in range(count) for i in range(size)]
    rows = b.index_select(x, b.integers(places), axis=dim)
    split = b.reshape(rows, (*x.shape[:dim], count, size, *x.shape[dim + 1 :]))
    order = [d for d in range(split.rank) if d != dim + 1]
    return b.permute(split, [*order, dim + 1])
