"""Derivatives of Fourier transforms, which are Fourier transforms in the opposite direction."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import vjp
from pirkit.dialect.ops.sequence.fft import OPPOSITE
from pirkit.dialect.rules.movement.movement import END, arange, part
from pirkit.dialect.rules.movement.size_ops import as_list, sizes_of
from pirkit.runtime.meta import UNKNOWN


def _back(c: OpCall) -> dict[str, Any]:
    """Attributes of the opposite direction with the same scale."""
    return {"axes": c.axes, "normalization": OPPOSITE[c.normalization], "forward": not c.forward}


@vjp("pd_op.fft_c2c")
def _(c: OpCall, g: Value) -> Value:
    return c.b.fft_c2c(g, **_back(c))


@vjp("pd_op.fft_r2c")
def _(c: OpCall, g: Value) -> Value:
    """The terms that were cut off have no cotangent, the imaginary parts of real input neither."""
    b, x = c.b, c.x
    entire = _sized_as(b, g, x, c.axes[-1] % x.rank) if c.onesided else g
    return b.real(b.fft_c2c(entire, **_back(c)))


@vjp("pd_op.fft_c2r")
def _(c: OpCall, g: Value) -> Value:
    """Each term but the first, and the middle one of an even number, stands for two."""
    b, x = c.b, c.x
    axis: int = c.axes[-1] % x.rank
    half: Value = b.fft_r2c(g, onesided=True, **_back(c))
    places = arange(b, half, axis)
    is_single = b.equal(places, b.zeros_like(places))
    if c.last_dim_size <= 0 or c.last_dim_size % 2 == 0:
        last = as_list(b, sizes_of(b, half)[axis]) - b.integers((1,))
        is_single = b.logical_or(is_single, b.equal(places, last))
    times = b.where(is_single, b.const(1.0, g.dtype), b.const(2.0, g.dtype))
    times = b.cast(b.reshape(times, (-1, *[1] * (x.rank - 1 - axis))), x.dtype)
    return _sized_as(b, half * times, x, axis)


def _sized_as(b: Builder, x: Value, like: Value, axis: int) -> Value:
    """``x``, with zeros at the end or cut there, with the size of ``like`` along an axis."""
    size, wanted = x.shape[axis], like.shape[axis]
    if size == wanted != UNKNOWN:
        return x
    if UNKNOWN not in (size, wanted):
        paddings = [0] * (2 * x.rank)
        paddings[2 * axis + 1] = max(wanted - size, 0)
        wide = b.pad(x, paddings=paddings, pad_value=0.0) if wanted > size else x
        return part(b, wide, (axis,), (0,), (wanted,)) if wanted < size else wide
    zeros = b.cast(b.zeros_like(like), x.dtype)
    tail = part(b, zeros, (axis,), as_list(b, sizes_of(b, x)[axis]), (END,))
    return part(
        b, b.concat([x, tail], axis=axis), (axis,), (0,), as_list(b, sizes_of(b, like)[axis])
    )
