"""Taylor series of functions with a simple derivative, and of that derivative.

``y' = s x'`` for ``y = f(x)``, where the series of the local derivative ``s = f'(x)`` follows from
those of ``x`` and ``y``. To first order ``y`` changes by ``s`` times the change of ``x``, as a
product of series. A reverse sweep needs only this, which is cheaper than differentiating each op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet, local_derivatives
from pirkit.dialect.rules.taylor.series import (
    Coefficient,
    Series,
    integrated,
    power,
    product,
    scaled,
    square,
    squared,
)

# --- the local derivative is a function of the result --------------------------------------------


def _solved(*names: str) -> Any:
    """Functions for which coefficient k of the local derivative needs the result up to k."""

    def register(derivative: Callable[[Builder, Series, int], Coefficient]) -> Any:
        def series(c: OpCall, x: Series) -> Series:
            full: Series = [c.x, *x]
            y: Series = [c.out]
            found: Series = []
            for k in range(1, len(full)):
                found.append(derivative(c.b, y, k - 1))
                y.append(integrated(c.b, found, full, k))
            return y[1:]

        def of_derivative(c: OpCall, _: Series, y: Series) -> Series:
            return [derivative(c.b, y, k) for k in range(len(y))]

        jet(*names)(series)
        local_derivatives(*names)(of_derivative)
        return derivative

    return register


@_solved("pd_op.exp")
def _(b: Builder, y: Series, k: int) -> Coefficient:
    return y[k]


@_solved("pd_op.expm1")
def _(b: Builder, y: Series, k: int) -> Coefficient:
    first = y[0]
    return first + 1 if k == 0 and first is not None else y[k]


@_solved("pd_op.tanh")
def _(b: Builder, y: Series, k: int) -> Coefficient:
    found = square(b, y, k)
    if k:
        return scaled(found, -1)
    return None if found is None else 1 - found


@_solved("pd_op.tan")
def _(b: Builder, y: Series, k: int) -> Coefficient:
    found = square(b, y, k)
    return found if k or found is None else found + 1


@_solved("pd_op.sigmoid")
def _(b: Builder, y: Series, k: int) -> Coefficient:
    return b.total([y[k], scaled(square(b, y, k), -1)])


# --- waves ---------------------------------------------------------------------------------------


def _waves(b: Builder, s: Value, c: Value, x: Series, signs: tuple[int, int]) -> tuple[Series, ...]:
    """``s`` and ``c`` along a curve, with ``s' = c x'`` and ``c' = s x'`` up to signs."""
    first: Series = [s]
    second: Series = [c]
    for k in range(1, len(x)):
        following = scaled(integrated(b, second, x, k), signs[0])
        second.append(scaled(integrated(b, first, x, k), signs[1]))
        first.append(following)
    return first, [scaled(v, signs[0]) for v in second]


def _wave(name: str, other: str, *signs: int) -> None:
    def both(c: OpCall, x: Series) -> tuple[Series, ...]:
        return _waves(c.b, c.out, c.b(f"pd_op.{other}", c.x), x, (signs[0], signs[1]))

    @jet(f"pd_op.{name}")
    def _(c: OpCall, x: Series) -> Series:
        return both(c, [c.x, *x])[0][1:]

    @local_derivatives(f"pd_op.{name}")
    def _(c: OpCall, x: Series, _: Series) -> Series:
        return both(c, x)[1]


_wave("sin", "cos", 1, -1)
_wave("cos", "sin", -1, 1)
_wave("sinh", "cosh", 1, 1)
_wave("cosh", "sinh", 1, 1)


# --- the local derivative is a function of the operand -------------------------------------------


def _derivative_of_x(name: str, derivative: Callable[[OpCall, Series], Series]) -> None:
    @jet(name)
    def _(c: OpCall, x: Series) -> Series:
        full: Series = [c.x, *x]
        found = derivative(c, full)
        return [integrated(c.b, found, full, k) for k in range(1, len(full))]

    @local_derivatives(name)
    def _(c: OpCall, x: Series, _: Series) -> Series:
        return derivative(c, x)


def _gauss(c: OpCall, x: Series) -> Series:
    """The local derivative of erf."""
    b = c.b
    inner = [scaled(s, -1) for s in squared(b, x)]
    first = inner[0]
    y: Series = [None if first is None else b.exp(first) * (2 / math.sqrt(math.pi))]
    for k in range(1, len(x)):
        y.append(integrated(b, y, inner, k))
    return y


def _power_of(
    inner: Callable[[OpCall, Series], Series], exponent: float, sign: int = 1
) -> Callable[[OpCall, Series], Series]:
    def derivative(c: OpCall, x: Series) -> Series:
        return [scaled(v, sign) for v in power(c.b, inner(c, x), exponent)]

    return derivative


def _around(offset: float, sign: float) -> Callable[[OpCall, Series], Series]:
    """The series of ``offset + sign * x * x``."""

    def inner(c: OpCall, x: Series) -> Series:
        found = [scaled(s, sign) for s in squared(c.b, x)]
        first = found[0]
        return [None if first is None else first + offset, *found[1:]]

    return inner


def _itself(_: OpCall, x: Series) -> Series:
    return x


def _shifted(_: OpCall, x: Series) -> Series:
    first = x[0]
    return [None if first is None else first + 1, *x[1:]]


def _of_acosh(c: OpCall, x: Series) -> Series:
    """``1 / sqrt(x * x - 1)``; of complex numbers by the roots of both factors, as in
    `rules/elementwise`.
    """
    if not c.x.dtype.is_complex:
        return _power_of(_around(-1, 1), -0.5)(c, x)
    low, high = (power(c.b, [c.x - end, *x[1:]], -0.5) for end in (1, -1))
    return product(c.b, low, high, lambda p, q: p * q)


_derivative_of_x("pd_op.erf", _gauss)
_derivative_of_x("pd_op.asin", _power_of(_around(1, -1), -0.5))
_derivative_of_x("pd_op.acos", _power_of(_around(1, -1), -0.5, -1))
_derivative_of_x("pd_op.atan", _power_of(_around(1, 1), -1))
_derivative_of_x("pd_op.asinh", _power_of(_around(1, 1), -0.5))
_derivative_of_x("pd_op.acosh", _of_acosh)
_derivative_of_x("pd_op.atanh", _power_of(_around(1, -1), -1))
_derivative_of_x("pd_op.log", _power_of(_itself, -1))
_derivative_of_x("pd_op.log1p", _power_of(_shifted, -1))
