"""Tensors joined along an axis, or stacked as the slices of a new one."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel


@kernel("concat", dtypes=dt.ANY, portable=True)
def concat(b: Binding) -> Step:
    """One call; numpy copies each tensor to its place."""
    axis, join = b.attrs["axis"], b.xp.concatenate

    def step(x: Sequence[Array], out: Array) -> None:
        join(x, axis, out)

    return step


@kernel("stack", dtypes=dt.ANY, portable=True)
def stack(b: Binding) -> Step:
    """Each tensor is a slice of one element along the new dimension."""
    axis = b.attrs["axis"] % b.output().rank
    slot, join = (*[slice(None)] * axis, None), b.xp.concatenate

    def step(x: Sequence[Array], out: Array) -> None:
        join([each[slot] for each in x], axis, out)

    return step


@kernel("broadcast_tensors", dtypes=dt.NUMBERS, form="new", portable=True)
def broadcast_tensors(b: Binding) -> Step:
    """Views with strides of zero."""
    broadcast = b.xp.broadcast_arrays

    def step(x: Sequence[Array]) -> list[Array]:
        return list(broadcast(*x))

    return step


@kernel("meshgrid", dtypes=dt.NUMBERS, form="new", portable=True)
def meshgrid(b: Binding) -> Step:
    """Each tensor lies in a dimension of its own and is repeated in the others."""
    items, broadcast = b.items(), b.xp.broadcast_to
    shape = tuple(item.numel for item in items)
    own = [(*[1] * i, size, *[1] * (len(items) - i - 1)) for i, size in enumerate(shape)]

    def step(x: Sequence[Array]) -> list[Array]:
        return [broadcast(each.reshape(alone), shape) for each, alone in zip(x, own, strict=True)]

    return step
