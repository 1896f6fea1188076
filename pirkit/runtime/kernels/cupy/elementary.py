"""Elementwise functions whose kernels for the CPU are written for numpy alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.kernels.cupy.results import Unary, computes
from pirkit.runtime.registry import GPU, kernel
from pirkit.runtime.threefry import threefry

_NARROW = (dt.uint8, dt.int8, dt.int16)
_SHIFTED = (dt.uint8, dt.int8, dt.int16, *dt.INTS)


def converted(xp: Any, x: Any, source: DType, target: DType) -> Any:
    """`pirkit.runtime.convert.convert` with the functions of an array module."""
    if source is target:
        return x
    if source.is_complex and not target.is_complex and target is not dt.bool_:
        x = x.real
    if not source.is_float or not target.is_integer:
        return x.astype(target.np)
    integer_type = dt.int32 if target in _NARROW else target
    wide, limit = x.astype(dt.float64.np), 2.0 ** (8 * integer_type.itemsize - 1)
    inside = (wide > -limit - 1) & (wide < limit)
    least = -(2 ** (8 * integer_type.itemsize - 1))
    found = xp.where(inside, xp.where(inside, wide, 0.0).astype(integer_type.np), least)
    return found.astype(target.np)


@computes("cast", dtypes=dt.ANY)
def cast(b: Binding) -> Unary | None:
    """Floats become integers by the rule for what is out of range."""
    source, target = b.dtype, b.output().dtype
    if source.is_complex and target.is_integer:
        return None
    return lambda x: converted(b.xp, x, source, target)


@computes("where", dtypes=dt.BOOL)
def where(b: Binding) -> Step | None:
    return b.xp.where if b.input(1).dtype is b.input(2).dtype else None


@computes("pow", dtypes=dt.NUMBERS, widen=True)
def pow_(b: Binding) -> Unary | None:
    """Exponents for which one cheap function gives the same numbers use it."""
    exponent, power = b.constant("y"), b.xp.power
    if not b.dtype.is_complex:
        known = {2.0: b.xp.square, -1.0: b.xp.reciprocal, 1.0: b.xp.positive}.get(float(exponent))
        if known is not None:
            return known
    return lambda x: power(x, exponent)


@computes("sigmoid", dtypes=(*dt.FLOATS, *dt.COMPLEX), widen=True)
def sigmoid(b: Binding) -> Unary | None:
    exp, reciprocal = b.xp.exp, b.xp.reciprocal
    return lambda x: reciprocal(exp(-x) + 1)


@computes("rsqrt", dtypes=dt.FLOATS, widen=True)
def rsqrt(b: Binding) -> Unary | None:
    sqrt, reciprocal = b.xp.sqrt, b.xp.reciprocal
    return lambda x: reciprocal(sqrt(x))


@computes("sign", dtypes=dt.NUMBERS, widen=True)
def sign(b: Binding) -> Step | None:
    """Of a complex number its direction, and 0 of 0."""
    xp = b.xp
    if not b.dtype.is_complex:
        return xp.sign

    def direction(x: Any) -> Any:
        size = xp.absolute(x)
        return x / xp.where(size == 0, 1, size)

    return direction


@computes("conj", dtypes=dt.COMPLEX)
def conj(b: Binding) -> Step | None:
    return b.xp.conjugate


@kernel("complex", backend=GPU, dtypes=(dt.float32, dt.float64))
def complex_(b: Binding) -> Step:
    """Both parts, broadcast."""

    def step(real: Any, imag: Any, out: Any) -> None:
        out.real[...] = real
        out.imag[...] = imag

    return step


@computes("round", dtypes=dt.REAL, widen=True)
def round_(b: Binding) -> Unary | None:
    """Halves to the even neighbour, at the given decimal place."""
    decimals, rint = b.attrs["decimals"], b.xp.rint
    if b.dtype.is_integer:
        return b.xp.positive
    factor = 10.0 ** abs(decimals)
    if decimals < 0:
        return lambda x: rint(x / factor) * factor
    return (lambda x: rint(x * factor) / factor) if decimals else rint


@computes("floor_divide", "remainder", dtypes=dt.REAL, widen=True)
def integer_type(b: Binding) -> Step | None:
    """One function, for integers after a look at the divisor."""
    if b.input(0).dtype is not b.input(1).dtype:
        return None
    function = b.xp.remainder if b.op == "pd_op.remainder" else b.xp.floor_divide
    if not b.dtype.is_integer:
        return function

    def checked(x: Any, y: Any) -> Any:
        if x.size and not y.all():
            raise RuntimeFault("integer division by zero")
        return function(x, y)

    return checked


@computes("copysign", dtypes=dt.FLOATS, widen=True)
def copysign(b: Binding) -> Step | None:
    return b.xp.copysign


@computes("nextafter", dtypes=(dt.float32, dt.float64))
def nextafter(b: Binding) -> Step | None:
    return b.xp.nextafter


@computes("threefry", dtypes=(dt.int32,))
def words(b: Binding) -> Step | None:
    """A word of the cipher."""
    return partial(threefry, word=b.attrs["word"], xp=b.xp)


@computes("bitwise_left_shift", "bitwise_right_shift", dtypes=_SHIFTED)
def shift(b: Binding) -> Step | None:
    """A distance that is negative, or not less than the width, leaves nothing but the sign."""
    xp, dtype, is_left = b.xp, b.dtype.np, b.op == "pd_op.bitwise_left_shift"
    preserves_sign, width = b.attrs["is_arithmetic"], 8 * b.dtype.itemsize
    bits = f"u{b.dtype.itemsize}"

    def run(x: Any, y: Any) -> Any:
        inside = (y >= 0) & (y < width)
        distance, rest = xp.where(inside, y, 0).astype(dtype), 0
        if is_left:
            moved = xp.left_shift(x, distance)
        elif preserves_sign:
            moved, rest = xp.right_shift(x, distance), xp.where(x < 0, -1, 0)
        else:
            moved = xp.right_shift(x.astype(bits), distance.astype(bits)).astype(dtype)
        return xp.where(inside, moved, rest).astype(dtype)

    return run
