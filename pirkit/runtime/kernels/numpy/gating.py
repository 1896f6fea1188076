"""Activations of two operands: a gate with a value, and a slope for negative elements."""

from __future__ import annotations

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel


@kernel("swiglu", dtypes=dt.FLOATS, widen=True)
def swiglu(b: Binding) -> Step:
    """``gate / (1 + exp(-gate)) * value``; without a second operand the halves of the first."""
    half = b.output().shape[-1] if b.output().rank else 1
    walk = walker(b, b.output().shape, 1)
    xp = b.xp

    def passes(gate: Array, value: Array, out: Array, term: Array) -> None:
        xp.negative(gate, term)
        xp.exp(term, term)
        xp.add(term, 1, term)
        xp.divide(gate, term, term)
        xp.multiply(term, value, out)

    def step(x: Array, y: Array | None, out: Array) -> None:
        if y is None:
            walk(passes, x[..., :half], x[..., half:], out)
        else:
            walk(passes, x, y, out)

    return step


@kernel("prelu", dtypes=dt.FLOATS, widen=True)
def prelu(b: Binding) -> Step:
    """``max(x, 0) + slope * min(x, 0)``: what a choice gives for finite slopes, unbranched."""
    shape = b.input().shape
    alpha_shape = _alpha_shape(shape, b.attrs["mode"], b.attrs["data_format"])
    walk = walker(b, shape, 1)
    xp = b.xp

    def passes(x: Array, scale: Array, out: Array, term: Array) -> None:
        xp.minimum(x, 0, out=term)
        xp.multiply(term, scale, term)
        xp.maximum(x, 0, out=out)
        xp.add(out, term, out)

    def chosen(x: Array, scale: Array, out: Array, term: Array) -> None:
        xp.multiply(x, scale, term)
        out[...] = xp.where(x > 0, x, term)

    def step(x: Array, alpha: Array, out: Array) -> None:
        how = passes if xp.isfinite(alpha).all() else chosen
        walk(how, x, xp.broadcast_to(alpha.reshape(alpha_shape), shape), out)

    return step


def _alpha_shape(shape: tuple[int, ...], mode: str, data_format: str) -> tuple[int, ...]:
    """The shape in which the slopes broadcast: one, one for each channel, one for each element."""
    if mode == "all":
        return (1,) * len(shape)
    if mode == "element":
        return (1, *shape[1:])
    channel = len(shape) - 1 if data_format.endswith("C") else 1
    return tuple(d if i == channel else 1 for i, d in enumerate(shape))
