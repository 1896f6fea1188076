"""Elementwise kernels that are one ufunc, or a short chain of them."""

from __future__ import annotations

from typing import Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.registry import kernel

_FLOATING: Final = (*dt.FLOATS, *dt.COMPLEX)

UNARY: Final = {
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "log2": "log2",
    "log10": "log10",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "sqrt": "sqrt",
}
"""Op -> ufunc. Numpy computes half precision in float32 and rounds once."""


def _ufunc(name: str) -> Bind:
    return lambda b: getattr(b.xp, name)


for _op, _name in UNARY.items():
    kernel(_op, dtypes=_FLOATING, inplace={"out": "x"}, portable=True)(_ufunc(_name))


@kernel("scale", dtypes=_FLOATING, inplace={"out": "x"}, widen=True, portable=True)
def scale(b: Binding) -> Step:
    """``x * scale + bias``, or ``(x + bias) * scale``."""
    factor, offset = b.constant("scale"), b.constant("bias")
    multiply, add = b.xp.multiply, b.xp.add

    def plain(x: Array, out: Array) -> None:
        multiply(x, factor, out)

    def after(x: Array, out: Array) -> None:
        multiply(x, factor, out)
        add(out, offset, out)

    def before(x: Array, out: Array) -> None:
        add(x, offset, out)
        multiply(out, factor, out)

    if not offset:
        return plain
    return after if b.attrs["bias_after_scale"] else before
