"""Arithmetic that takes more than one ufunc: powers, bounds, rounding, division, sums of lists."""

from __future__ import annotations

from typing import Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALF_TYPES, Array, Binding, Step
from pirkit.runtime.convert import constant
from pirkit.runtime.kernels.numpy.cache_blocks import clipped, in_blocks
from pirkit.runtime.registry import kernel

_POWERS: Final = {2.0: np.square, -1.0: np.reciprocal, 1.0: np.positive}
"""Exponents for which one cheap ufunc gives the same numbers."""


@kernel("pow", dtypes=dt.NUMBERS, inplace={"out": "x"}, widen=True)
def pow_(b: Binding) -> Step:
    """One ufunc."""
    exponent = b.constant("y")
    known = None if b.dtype.is_complex else _POWERS.get(float(exponent))
    if known is not None:
        return known

    def step(x: Array, out: Array) -> None:
        np.power(x, exponent, out)

    return step


@kernel("clip", dtypes=dt.REAL, inplace={"out": "x"})
def clip(b: Binding) -> Step:
    """One pass, two in half precision; NaN stays."""
    low, high = _bound(b, "min"), _bound(b, "max")
    if b.dtype not in HALF_TYPES:
        return clipped(low, high)

    def step(x: Array, out: Array) -> None:
        np.maximum(x, low, out=out)
        np.minimum(out, high, out=out)

    return step


def _bound(b: Binding, name: str) -> Array:
    """A bound as an element of the type of ``x``, moved into the range of integer types first."""
    value = b.attrs[name]
    if b.dtype.is_integer:
        limits = np.iinfo(b.dtype.np)
        value = min(max(value, int(limits.min)), int(limits.max))
    return constant(value, b.dtype)


@kernel("rsqrt", dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)
def rsqrt(b: Binding) -> Step:
    """``1 / sqrt(x)``."""

    def passes(x: Array, out: Array) -> None:
        np.sqrt(x, out)
        np.reciprocal(out, out)

    return in_blocks(b, passes, 0)


@kernel("sign", dtypes=dt.NUMBERS, inplace={"out": "x"}, widen=True)
def sign(b: Binding) -> Step:
    """One ufunc."""
    return np.sign


@kernel("conj", dtypes=dt.COMPLEX, inplace={"out": "x"})
def conj(b: Binding) -> Step:
    """One ufunc."""
    return np.conjugate


@kernel("complex", dtypes=(dt.float32, dt.float64))
def complex_(b: Binding) -> Step:
    """Both parts, broadcast."""

    def step(real: Array, imag: Array, out: Array) -> None:
        np.copyto(out.real, real)
        np.copyto(out.imag, imag)

    return step


@kernel("round", dtypes=dt.REAL, inplace={"out": "x"}, widen=True)
def round_(b: Binding) -> Step:
    """Halves to the even neighbour, at the given decimal place."""
    decimals = b.attrs["decimals"]
    if b.dtype.is_integer:
        return np.positive
    if not decimals:
        return np.rint
    enter, leave = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    factor = 10.0 ** abs(decimals)

    def passes(x: Array, out: Array) -> None:
        enter(x, factor, out)
        np.rint(out, out)
        leave(out, factor, out)

    return in_blocks(b, passes, 0)


@kernel("floor_divide", "remainder", dtypes=dt.REAL, inplace={"out": ("x", "y")}, widen=True)
def entire(b: Binding) -> Step | None:
    """One ufunc, for integers after a look at the divisor."""
    if b.input(0).dtype is not b.input(1).dtype:
        return None
    ufunc = np.remainder if b.op == "pd_op.remainder" else np.floor_divide
    if not b.dtype.is_integer:
        return ufunc

    def step(x: Array, y: Array, out: Array) -> None:
        if x.size and not y.all():
            raise RuntimeFault("integer division by zero")
        ufunc(x, y, out)

    return step


@kernel("add_n", dtypes=dt.NUMBERS, widen=True)
def add_n(b: Binding) -> Step | None:
    """A sum from left to right, in the result."""
    shape = b.output().shape
    if len(b.items()) < 2 or any(m.shape != shape for m in b.items()):
        return None

    def step(inputs: list[Array], out: Array) -> None:
        first, second, *others = inputs
        np.add(first, second, out)
        for x in others:
            np.add(out, x, out)

    return step


@kernel("increment", dtypes=(*dt.INTS, *dt.FLOATS), inplace={"out": "x"})
def increment(b: Binding) -> Step:
    """One ufunc."""
    value = b.constant("value")

    def step(x: Array, out: Array) -> None:
        np.add(x, value, out)

    return step
