"""Taylor series of primitives: the coefficients of a result from those of the operands.

A series is the list of rows 1..K of an algebra (`dialect/series_algebra.py`), None for a zero one;
row 0 is the value itself. Along one direction they are the coefficients of ``x(t) = x + x1 t + x2
t^2 + ...``. Coefficients, not derivatives, so no factorials appear and each order costs a sum of
products: O(K^2) where nested differentiation is exponential (Griewank and Walther, Evaluating
Derivatives, chapter 13). Equations ``x y' = ...`` hold with ``'`` as the derivation that multiplies
each row by its degree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet

Coefficient = Value | None
Series = list[Coefficient]

LINEAR: Final = frozenset(
    """
    sum mean reshape transpose squeeze unsqueeze flatten expand expand_as reduce_as slice
    strided_slice flip roll tile concat stack assign cast gather gather_nd index_select cumsum
    add_n split split_with_num take_along_axis tril triu unbind real imag conj as_real as_complex
    fft_c2c fft_r2c fft_c2r frame overlap_add
    """.split()
)
"""Ops that are linear in their first operand (a list counts as one), whatever the others are."""

INTEGERS: Final = 32
"""Exponents up to here are products; beyond, a power is divided by its base."""


def times(a: Coefficient, b: Coefficient) -> Coefficient:
    """The product, zero if a factor is."""
    return None if a is None or b is None else a * b


def scaled(a: Coefficient, factor: float) -> Coefficient:
    """The coefficient times a number."""
    return None if a is None or not factor else a * factor


def total(b: Builder, *terms: Coefficient) -> Coefficient:
    """The sum of the terms that are not zero."""
    return b.total(terms)


Terms = Iterator[tuple[Coefficient, float, int, int]]


def terms(b: Builder, x: Series, y: Series, k: int, *, inner: bool = False) -> Terms:
    """The products in row k of ``x * y``, with factor and degrees of both; ``x[0]`` is left out.

    ``inner`` leaves ``y[0]`` out as well.
    """
    degrees = b.algebra.degrees
    for i, j, factor in b.algebra.pairs[k]:
        if i and (j or not inner):
            yield times(x[i], y[j]), factor, degrees[i], degrees[j]


def product(b: Builder, x: Series, y: Series, multiply: Callable[[Any, Any], Any]) -> Series:
    """Rows 0.. of a product, from those of its factors."""

    def pair(one: Coefficient, other: Coefficient) -> Coefficient:
        return None if one is None or other is None else multiply(one, other)

    return [
        b.total([scaled(pair(x[i], y[j]), factor) for i, j, factor in b.algebra.pairs[k]])
        for k in range(len(x))
    ]


def integrated(b: Builder, derivative: Series, x: Series, k: int) -> Coefficient:
    """Row k of ``y`` if ``y' = derivative * x'``; reads ``derivative`` in rows of lower degree."""
    degree = b.algebra.degrees[k]
    found = [scaled(v, factor * i / degree) for v, factor, i, _ in terms(b, x, derivative, k)]
    return b.total(found)


def square(b: Builder, y: Series, k: int) -> Coefficient:
    """Row k of ``y * y``: symmetric terms are computed once."""
    return b.total(
        [
            scaled(times(y[i], y[j]), factor if i == j else 2 * factor)
            for i, j, factor in b.algebra.pairs[k]
            if i <= j
        ]
    )


def squared(b: Builder, x: Series) -> Series:
    """Rows of ``x * x``."""
    return [square(b, x, k) for k in range(len(x))]


# --- powers --------------------------------------------------------------------------------------


def power(b: Builder, x: Series, exponent: float, value: Value | None = None) -> Series:
    """Coefficients 0..K of ``x ** exponent``: ``x y' = exponent y x'``.

    Where ``x`` is zero, coefficients k < ``exponent`` are zero; first ones are right everywhere.
    """
    first = x[0]
    if first is None:
        return [None] * len(x)
    if 0 <= exponent <= INTEGERS and exponent == int(exponent):
        return _integer_power(b, x, int(exponent))
    y: Series = [b.power(first, exponent) if value is None else value]
    if exponent > 0:
        return _positive_power(b, x, exponent, y)
    inverse = b.power(first, -1) if len(x) > 1 else first
    for k in range(1, len(x)):
        y.append(times(_power_terms(b, x, y, k, exponent), inverse))
    return y


def _power_terms(
    b: Builder, x: Series, y: Series, k: int, exponent: float, *, inner: bool = False
) -> Coefficient:
    """Row k of ``exponent y x' - x y'`` over its degree, without the term that has ``y[k]``."""
    degree = b.algebra.degrees[k]
    return b.total(
        [
            scaled(v, factor * (exponent * i - j) / degree)
            for v, factor, i, j in terms(b, x, y, k, inner=inner)
        ]
    )


def _positive_power(b: Builder, x: Series, exponent: float, y: Series) -> Series:
    """What ``x[k]`` adds is times the slope, which is right also at zero and at infinity."""
    first, value = x[0], y[0]
    assert first is not None
    assert value is not None
    if len(x) == 1:
        return y
    lower = b.power(value, -1) if exponent == 0.5 else b.power(first, exponent - 1)
    derivative = lower * exponent
    inverse = at_zero = None
    for k in range(1, len(x)):
        rest = _power_terms(b, x, y, k, exponent, inner=True)
        if rest is not None:
            inverse = b.power(first, -1) if inverse is None else inverse
            rest = rest * inverse
            if b.algebra.degrees[k] < exponent:
                at_zero = b.equal(first, b.zeros_like(first)) if at_zero is None else at_zero
                rest = b.where(at_zero, 0.0, rest)
        y.append(b.total([times(derivative, x[k]), rest]))
    return y


def _integer_power(b: Builder, x: Series, exponent: int) -> Series:
    """Whole powers by repeated squaring: right also where ``x`` is zero."""
    if exponent == 0:
        first = x[0]
        return [None if first is None else b.ones_like(first), *[None] * (len(x) - 1)]
    y: Series | None = None
    while exponent:
        if exponent % 2:
            y = x if y is None else product(b, y, x, lambda p, q: p * q)
        exponent //= 2
        x = squared(b, x) if exponent else x
    assert y is not None
    return y


def _power(exponent: float) -> Any:
    def rule(c: OpCall, x: Series) -> Series:
        return power(c.b, [c.x, *x], exponent, c.out)[1:]

    return rule


for _name, _exponent in {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "square": 2.0}.items():
    jet(f"pd_op.{_name}")(_power(_exponent))


@jet("pd_op.pow")
def _(c: OpCall, x: Series) -> Series:
    return power(c.b, [c.x, *x], c.y, c.out)[1:]


# --- arithmetic ----------------------------------------------------------------------------------


def broadcast_series(c: OpCall, found: Series) -> Series:
    """Terms that depend on one operand only, broadcast to the shape of the result."""
    return [None if v is None else c.b.expand_like(v, c.out) for v in found]


@jet("pd_op.add")
def _(c: OpCall, x: Series, y: Series) -> Series:
    return broadcast_series(c, [c.b.total(pair) for pair in zip(x, y, strict=True)])


@jet("pd_op.subtract")
def _(c: OpCall, x: Series, y: Series) -> Series:
    pairs = zip(x, y, strict=True)
    return broadcast_series(c, [c.b.total([a, scaled(b, -1)]) for a, b in pairs])


@jet("pd_op.multiply")
def _(c: OpCall, x: Series, y: Series) -> Series:
    if c.operand("x").ssa is c.operand("y").ssa:
        return squared(c.b, [c.x, *x])[1:]
    return product(c.b, [c.x, *x], [c.y, *y], lambda p, q: p * q)[1:]


@jet("pd_op.matmul")
def _(c: OpCall, x: Series, y: Series) -> Series:
    def multiply(p: Value, q: Value) -> Value:
        return c.b.matmul(p, q, transpose_x=c.transpose_x, transpose_y=c.transpose_y)

    return product(c.b, [c.x, *x], [c.y, *y], multiply)[1:]


@jet("pd_op.divide")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """``z = x / y``: ``z y = x``."""
    b = c.b
    z: Series = [c.out]
    for k in range(1, len(x) + 1):
        products = [scaled(v, -factor) for v, factor, _, _ in terms(b, [None, *y], z, k)]
        rest = b.total([x[k - 1], *products])
        z.append(None if rest is None else rest / c.y)
    return broadcast_series(c, z[1:])


@jet("pd_op.scale")
def _(c: OpCall, x: Series) -> Series:
    factor = c.scale
    return [times(v, factor) if isinstance(factor, Value) else scaled(v, factor) for v in x]


@jet("pd_op.pad")
def _(c: OpCall, x: Series) -> Series:
    return [None if v is None else c.again(v, pad_value=0.0) for v in x]


# --- piecewise linear ----------------------------------------------------------------------------


def _inverse_size(c: OpCall, size: Value) -> Value:
    """1 over the size of a complex number; 0 where it is zero, which has no direction."""
    b = c.b
    return 1 / b.where(b.equal(size, b.zeros_like(size)), math.inf, size)


def _sizes(c: OpCall, x: Series, size: Value) -> Series:
    """Rows of the size of a complex number: ``w w = re re + im im``."""
    b = c.b
    parts = [[None if v is None else part(v) for v in (c.x, *x)] for part in (b.real, b.imag)]
    real, imag = [squared(b, part) for part in parts]
    half = _inverse_size(c, size) * 0.5
    w: Series = [size]
    for k in range(1, len(x) + 1):
        lower = [scaled(v, -factor) for v, factor, _, _ in terms(b, w, w, k, inner=True)]
        w.append(times(b.total([real[k], imag[k], *lower]), half))
    return w


@jet("pd_op.abs")
def _(c: OpCall, x: Series) -> Series:
    if c.x.dtype.is_complex:
        return _sizes(c, x, c.out)[1:]
    sign = c.b.sign(c.x)
    return [times(v, sign) for v in x]


@jet("pd_op.sign")
def _(c: OpCall, x: Series) -> Series:
    """Of a complex number ``z w = x``, where ``w`` is its size."""
    if not c.x.dtype.is_complex:
        return _constant(c, x)
    b = c.b
    size = b.abs(c.x)
    inverse = b.cast(_inverse_size(c, size), c.x.dtype)
    w = [None if v is None else b.cast(v, c.x.dtype) for v in _sizes(c, x, size)]
    z: Series = [c.out]
    for k in range(1, len(x) + 1):
        products = [scaled(v, -factor) for v, factor, _, _ in terms(b, w, z, k)]
        z.append(times(b.total([x[k - 1], *products]), inverse))
    return z[1:]


@jet("pd_op.relu")
def _(c: OpCall, x: Series) -> Series:
    """As the gradient: 0 below zero, whatever the coefficient is, and the coefficient at NaN."""
    return [None if v is None else c.b.where(c.x <= 0, 0.0, v) for v in x]


def _select(name: str) -> Any:
    """The winner's coefficients; in a tie the mean of both, beside a NaN their sum, as for the
    gradient.
    """

    def rule(c: OpCall, x: Series, y: Series) -> Series:
        b = c.b
        most = 1 - b.cast(b.equal(c.x, c.y), c.out.dtype) * 0.5
        first = most - b.cast(b(f"pd_op.{name}", c.y, c.x), c.out.dtype)
        second = most - b.cast(b(f"pd_op.{name}", c.x, c.y), c.out.dtype)
        return [b.total([times(p, first), times(q, second)]) for p, q in zip(x, y, strict=True)]

    return rule


jet("pd_op.maximum")(_select("greater_than"))
jet("pd_op.minimum")(_select("less_than"))


@jet("pd_op.where")
def _(c: OpCall, _condition: Series, x: Series, y: Series) -> Series:
    b = c.b

    def pick(p: Coefficient, q: Coefficient) -> Coefficient:
        if p is None and q is None:
            return None
        zero = b.zeros_like(c.out)
        return b.where(c.condition, zero if p is None else p, zero if q is None else q)

    return [pick(p, q) for p, q in zip(x, y, strict=True)]


def _constant(c: OpCall, *series: Series) -> Series:
    return [None] * len(series[0])


jet("pd_op.floor", "pd_op.ceil", "pd_op.round", "pd_op.trunc")(_constant)
