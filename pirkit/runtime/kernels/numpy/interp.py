"""Resizing of images: one axis after the other, with precomputed source indices and weights."""

from __future__ import annotations

from math import prod
from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.interpolation import taps_along
from pirkit.runtime.kernels.numpy.cache_blocks import BLOCK
from pirkit.runtime.registry import kernel


@kernel("nearest_interp", dtypes=(*dt.FLOATS, *dt.INTS, dt.uint8))
def nearest(b: Binding) -> Step | None:
    """Elements are moved, not weighted, so every type keeps its bits."""
    return _resize(b) if b.attrs["interp_method"] == "nearest" else None


@kernel(
    "linear_interp",
    "bilinear_interp",
    "bicubic_interp",
    "trilinear_interp",
    dtypes=dt.FLOATS,
    widen=True,
)
def interp(b: Binding) -> Step | None:
    """Weighted sums along each dimension."""
    return _resize(b)


def _resize(b: Binding) -> Step | None:
    """None where a size is the value of a tensor, which runs the reference rule."""
    if any(m is not None for m in b.inputs[1:]) or not b.input().numel or not b.output().numel:
        return None
    shape = b.input().shape
    n = len(shape) - 2
    last = b.attrs["data_format"] != "NCHW"
    first = 1 if last else 2
    lengths, sizes = shape[first : first + n], b.output().shape[first : first + n]
    scales = b.attrs["scale"] or (None,) * n
    method, corners, mode = (b.attrs[a] for a in ("interp_method", "align_corners", "align_mode"))
    taps = [
        taps_along(method, *each, corners, mode)
        for each in zip(lengths, sizes, scales, strict=True)
    ]
    planes, inner = prod(shape[:first]), prod(shape[first + n :])
    some = max(min(BLOCK // (max(prod(lengths), prod(sizes)) * inner), planes), 1)
    stages = _stages(b, some, lengths, sizes, taps, inner)
    xp = b.xp

    def step(x: Array, *rest: Array) -> None:
        out = rest[-1]
        source = x.reshape(planes, *lengths, inner)
        goal = out.reshape(planes, *sizes, inner)
        for start in range(0, planes, some):
            block = source[start : start + some]
            count = len(block)
            for axis, held, term, parts in stages:
                total = goal[start : start + some] if held is None else held[:count]
                for k, (at, weight) in enumerate(parts):
                    target = total if k == 0 or term is None else term[:count]
                    xp.take(block, at, axis, target, "clip")
                    if weight is not None:
                        xp.multiply(target, weight, target)
                    if k:
                        xp.add(total, target, total)
                block = total
        if not out.flags.c_contiguous:
            out[...] = goal.reshape(out.shape)

    return step


def _stages(
    b: Binding,
    some: int,
    lengths: tuple[int, ...],
    sizes: tuple[int, ...],
    taps: list[Any],
    inner: int,
) -> list[tuple[int, Array | None, Array | None, list[tuple[Array, Array | None]]]]:
    """Axis, result, scratch and taps of each dimension; those that shrink most come first.

    The last one has no array for its result, since it writes into that of the call.
    """
    kind = b.dtype.np
    order = sorted(range(len(lengths)), key=lambda i: (sizes[i] / lengths[i], -i))
    current = list(lengths)
    stages: list[Any] = []
    for place, i in enumerate(order):
        current[i] = sizes[i]
        room = (some, *current, inner)
        row = (-1, *(1,) * (len(lengths) - i))
        parts = [(at, None if w is None else w.astype(kind).reshape(row)) for at, w in taps[i]]
        held = b.workspace(room) if place < len(order) - 1 else None
        stages.append((i + 1, held, b.workspace(room) if len(parts) > 1 else None, parts))
    return stages
