"""Complex operations in terms of real and imaginary parts; the pass `split-complex` applies them.

A part that is zero is None, so that products with it are not computed. Results are as accurate as
those of complex arithmetic: relative to the size of the number, not to that of each part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, pi
from typing import Any, Final, NamedTuple

from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import DATA_MOVEMENT
from pirkit.dialect.op_form import OPERAND_SEGMENTS, RESULT_SEGMENTS
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import OpDef, complex_parts
from pirkit.dialect.operation import create
from pirkit.dialect.signature import INT_KINDS
from pirkit.dialect.types import meta_of, type_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import REAL_OF
from pirkit.runtime.meta import TensorMeta

_MOST_PRODUCTS: Final = 64
"""Exponents up to which a power is made of products."""

Part = Value | None


class Parts(NamedTuple):
    """The real and the imaginary part of a tensor; None for a part that is zero."""

    real: Part
    imag: Part

    def known(self) -> Value:
        """A part that is not zero, for its shape and element type."""
        found = self.imag if self.real is None else self.real
        assert found is not None
        return found


class _Algebra:
    """Arithmetic with parts that may be zero."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def add(self, x: Part, y: Part) -> Part:
        return y if x is None else x if y is None else x + y

    def sub(self, x: Part, y: Part) -> Part:
        return x if y is None else -y if x is None else x - y

    def mul(self, x: Part, y: Part) -> Part:
        return None if x is None or y is None else x * y

    def sum(self, x: Parts, y: Parts) -> Parts:
        return Parts(self.add(x.real, y.real), self.add(x.imag, y.imag))

    def product(self, x: Parts, y: Parts, by: Callable[[Part, Part], Part] | None = None) -> Parts:
        """A product of numbers, or by another bilinear function of the parts."""
        by = by or self.mul
        return Parts(
            self.sub(by(x.real, y.real), by(x.imag, y.imag)),
            self.add(by(x.real, y.imag), by(x.imag, y.real)),
        )

    def size(self, x: Parts) -> Value:
        """The absolute value, which overflows only if it is too large for its type."""
        b = self.b
        if x.real is None or x.imag is None:
            return b.abs(x.known())
        u, v = b.abs(x.real), b.abs(x.imag)
        large, small = b.maximum(u, v), b.minimum(u, v)
        is_plain = b.logical_and(large > 0, large < inf)
        ratio = small / b.where(is_plain, large, 1.0)
        return b.where(is_plain, large * b.sqrt(ratio * ratio + 1.0), u + v)

    def quotient(self, x: Parts, y: Parts) -> Parts:
        """By Smith's method, as in numpy: the larger part of the divisor is divided by."""
        if y.imag is None or y.real is None:
            over = y.known()
            turned = x if y.real is not None else Parts(x.imag, self.sub(None, x.real))
            return Parts(*[None if p is None else p / over for p in turned])
        b, (c, d) = self.b, y
        first = b.greater_equal(b.abs(c), b.abs(d))
        ratio = b.where(first, d, c) / b.where(first, c, d)
        is_zero = b.logical_and(b.equal(c, b.zeros_like(c)), b.equal(d, b.zeros_like(d)))
        ratio = b.where(is_zero, b.zeros_like(ratio), ratio)
        scale = 1.0 / (b.where(first, c, d) + b.where(first, d, c) * ratio)
        along, across = b.where(first, b.ones_like(c), ratio), b.where(first, ratio, b.ones_like(c))
        real = self.add(self.mul(x.real, along), self.mul(x.imag, across))
        imag = self.sub(self.mul(x.imag, along), self.mul(x.real, across))
        return Parts(self.mul(real, scale), self.mul(imag, scale))

    def angle(self, x: Parts) -> Value:
        real = self.b.zeros_like(x.known()) if x.real is None else x.real
        return self.b.atan2(self.b.zeros_like(real) if x.imag is None else x.imag, real)

    def exp(self, x: Parts) -> Parts:
        size = self.b.exp(x.real) if x.real is not None else None
        if x.imag is None:
            return Parts(size, None)
        cos, sin = self.b.cos(x.imag), self.b.sin(x.imag)
        return Parts(cos, sin) if size is None else Parts(size * cos, size * sin)

    def log(self, x: Parts) -> Parts:
        """Near the unit circle the logarithm of the size is computed from its distance to it."""
        b, size = self.b, self.size(x)
        if x.real is not None and x.imag is not None:
            u, v = b.abs(x.real), b.abs(x.imag)
            large, small = b.maximum(u, v), b.minimum(u, v)
            is_near = b.logical_and(size > 0.5, size < 2.0)
            off = b.where(is_near, (large - 1.0) * (large + 1.0) + small * small, 0.0)
            return Parts(b.where(is_near, b.log1p(off) * 0.5, b.log(size)), self.angle(x))
        return Parts(b.log(size), self.angle(x))

    def power(self, x: Parts, exponent: Parts) -> Parts:
        """``exp(exponent * log(x))``; a power of 0 is 0, or 1 for the exponent 0."""
        b, found = self.b, self.exp(self.product(exponent, self.log(x)))
        size = self.size(x)
        is_zero = b.equal(size, b.zeros_like(size))
        zeroth = self.size(exponent)
        at_zero = b.cast(b.equal(zeroth, b.zeros_like(zeroth)), size.dtype)
        imag = None if found.imag is None else b.where(is_zero, b.zeros_like(found.imag), found.imag)
        real = found.real
        return Parts(None if real is None else b.where(is_zero, at_zero, real), imag)

    def whole_power(self, x: Parts, exponent: int) -> Parts:
        """A power of a whole number by repeated squaring."""
        found: Parts | None = None
        square, left = x, abs(exponent)
        while left:
            if left & 1:
                found = square if found is None else self.product(found, square)
            left >>= 1
            square = self.product(square, square) if left else square
        one = Parts(self.b.ones_like(x.known()), None)
        if found is None:
            return one
        return found if exponent > 0 else self.quotient(one, found)

    def sqrt(self, x: Parts) -> Parts:
        """The root in the right half plane; of a negative number it has the sign of its zero."""
        b = self.b
        real = b.zeros_like(x.known()) if x.real is None else x.real
        imag = b.zeros_like(real) if x.imag is None else x.imag
        root = b.sqrt((b.abs(real) + self.size(x)) * 0.5)
        is_zero = b.equal(root, b.zeros_like(root))
        other = b.abs(imag) / (b.where(is_zero, 1.0, root) * 2.0)
        is_right = real >= 0
        return Parts(b.where(is_right, root, other), b.copysign(b.where(is_right, other, root), imag))

    def tanh(self, x: Parts) -> Parts:
        b = self.b
        if x.imag is None or x.real is None:
            return Parts(b.tanh(x.real), None) if x.imag is None else Parts(None, b.tan(x.imag))
        t, cos, sin = b.tanh(x.real), b.cos(x.imag), b.sin(x.imag)
        turned = t * sin
        scale = 1.0 / (cos * cos + turned * turned)
        return Parts(t * scale, (sin * cos) * (scale * (1.0 - t) * (1.0 + t)))

    def by_halves(self, x: Parts, name: str) -> Parts:
        """The sum formulas of sines and cosines, hyperbolic or not."""
        b = self.b
        turn = name.endswith("h")
        wide, narrow = (x.real, x.imag) if turn else (x.imag, x.real)
        cosh, sinh = (None, None) if wide is None else (b.cosh(wide), b.sinh(wide))
        cos, sin = (None, None) if narrow is None else (b.cos(narrow), b.sin(narrow))
        one = cosh if cosh is not None else cos
        assert one is not None
        cosh, cos = (b.ones_like(one) if p is None else p for p in (cosh, cos))
        pairs = {
            "sinh": ((sinh, cos), (cosh, sin)),
            "cosh": ((cosh, cos), (sinh, sin)),
            "sin": ((sin, cosh), (cos, sinh)),
            "cos": ((cos, cosh), (sin, sinh)),
        }
        real, imag = (self.mul(*p) for p in pairs[name])
        return Parts(real, self.sub(None, imag) if name == "cos" else imag)

    def sigmoid(self, x: Parts) -> Parts:
        """From the exponential of the negative size of the real part, which does not overflow."""
        b = self.b
        if x.imag is None:
            return Parts(b.sigmoid(x.real), None)
        real = b.zeros_like(x.imag) if x.real is None else x.real
        e = b.exp(-b.abs(real))
        cos, sin = e * b.cos(x.imag), e * b.sin(x.imag)
        scale = 1.0 / (cos * 2.0 + e * e + 1.0)
        return Parts(b.where(real >= 0, cos + 1.0, cos + e * e) * scale, sin * scale)

    def any(self, x: Parts, test: Callable[[Value], Value]) -> Value:
        """Whether a part passes a test."""
        found = [test(p) for p in x if p is not None]
        return found[0] if len(found) == 1 else self.b.logical_or(*found)

    def is_nonzero(self, x: Parts) -> Value:
        return self.any(x, lambda p: self.b.not_equal(p, self.b.zeros_like(p)))


# --- rules ---


def _each_part(c: OpCall, *given: Any) -> Parts:
    """The operation on each part of its complex operands alone; others are the same for both."""
    lists = [g if isinstance(g, tuple) and not isinstance(g, Parts) else (g,) for g in given]
    flat = [p for listed in lists for p in listed if isinstance(p, Parts)]
    found: list[Part] = []
    for k in (0, 1):
        found.append(None if all(p[k] is None for p in flat) else _again(c, k, lists))
    return Parts(*found)


def _again(c: OpCall, k: int, lists: list[Any]) -> Value:
    """A copy of an operation on parts ``k`` of its operands."""
    b, parts = c.b, iter(lists)

    def part(given: Any) -> Value:
        if not isinstance(given, Parts):
            return given
        chosen = given[k]
        return b.zeros_like(given.known()) if chosen is None else chosen

    slots: list[Any] = []
    for slot, held in zip(c.definition.operands, c.op.operand_slots, strict=False):
        listed = next(parts) if slot.kind is None else None
        if listed is None or held is None or listed == (None,):
            slots.append(held)
        elif slot.is_vec:
            slots.append(b.combine([part(p) for p in listed]).ssa)
        else:
            slots.append(part(listed[0]).ssa)
    form = (OPERAND_SEGMENTS, RESULT_SEGMENTS)
    properties = {n: v for n, v in c.op.properties.items() if n not in form}
    if properties.get("dtype") is not None and c.op.attribute("dtype") in REAL_OF:
        kind = c.definition.attr_kinds["dtype"]
        properties["dtype"] = encode(kind, REAL_OF[c.op.attribute("dtype")])
    types = [None if r is None else _real_type(r) for r in c.op.result_slots]
    return b.wrap(
        b.insert(create(c.definition, slots, types, properties, None, c.op.location)).results[0]
    )


def _real_type(value: Any) -> Any:
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta):
        return value.type
    return type_of(meta.with_dtype(REAL_OF.get(meta.dtype, meta.dtype)))


def _moves_alone(definition: OpDef) -> Callable[..., Any] | None:
    """Operations that only move elements, of no attribute that is an element or an operation."""
    allowed = {*INT_KINDS, "bool", "intarray", "i32[]", "i64[]", "dtype", "place"}
    is_plain = definition.kind in DATA_MOVEMENT and len(definition.results) == 1
    return _each_part if is_plain and allowed.issuperset(definition.attr_kinds.values()) else None


complex_parts.otherwise = _moves_alone
complex_parts(*[f"pd_op.{name}" for name in ("assign", "cumsum", "mean", "reduce_as", "sum")])(
    _each_part
)


def _arithmetic(*names: str) -> Callable[[Callable[..., Any]], None]:
    """Registers ``rule(algebra, *parts)``."""
    register = complex_parts(*[f"pd_op.{name}" for name in names])

    def with_algebra(rule: Callable[..., Any]) -> None:
        register(lambda c, *given: rule(_Algebra(c.b), *given))

    return with_algebra


_arithmetic("add")(_Algebra.sum)
_arithmetic("subtract")(
    lambda a, x, y: Parts(a.sub(x.real, y.real), a.sub(x.imag, y.imag))
)
_arithmetic("multiply")(_Algebra.product)
_arithmetic("divide")(_Algebra.quotient)
_arithmetic("exp")(_Algebra.exp)
_arithmetic("log")(_Algebra.log)
_arithmetic("sqrt")(_Algebra.sqrt)
_arithmetic("tanh")(_Algebra.tanh)
_arithmetic("sigmoid")(_Algebra.sigmoid)
_arithmetic("abs")(_Algebra.size)
_arithmetic("conj")(lambda a, x: Parts(x.real, a.sub(None, x.imag)))
_arithmetic("real")(lambda a, x: a.b.zeros_like(x.imag) if x.real is None else x.real)
_arithmetic("imag")(lambda a, x: a.b.zeros_like(x.real) if x.imag is None else x.imag)
_arithmetic("isnan")(lambda a, x: a.any(x, a.b.isnan))
_arithmetic("isinf")(lambda a, x: a.any(x, a.b.isinf))
_arithmetic("isfinite")(lambda a, x: a.b.logical_not(a.any(x, lambda p: a.b.logical_not(a.b.isfinite(p)))))  # fmt: skip
_arithmetic("shape")(lambda a, x: a.b.shape(x.known()))
_arithmetic("shape64")(lambda a, x: a.b.shape64(x.known()))
for _name in ("sin", "cos", "sinh", "cosh"):
    _arithmetic(_name)(partial(lambda name, a, x: a.by_halves(x, name), _name))


@complex_parts("pd_op.tan")
def _(c: OpCall, x: Parts) -> Parts:
    """``tan(z) = -i tanh(iz)``"""
    a = _Algebra(c.b)
    real, imag = a.tanh(Parts(a.sub(None, x.imag), x.real))
    return Parts(imag, None if real is None else -real)


@complex_parts("pd_op.matmul")
def _(c: OpCall, x: Parts, y: Parts) -> Parts:
    def by(u: Part, v: Part) -> Part:
        if u is None or v is None:
            return None
        transposes = {"transpose_x": c.transpose_x, "transpose_y": c.transpose_y}
        return c.b.matmul(u, v, **transposes)

    return _Algebra(c.b).product(x, y, by)


@complex_parts("pd_op.scale")
def _(c: OpCall, x: Parts) -> Any:
    if isinstance(c.scale, Value):
        return NotImplemented
    factor, bias = complex(c.scale), c.bias

    def times(part: Part, number: float) -> Part:
        return None if part is None or number == 0 else c.b.scaled(part, number)

    if bias and not c.bias_after_scale:
        x = Parts(c.b.like(bias, x.known()) if x.real is None else x.real + bias, x.imag)
    a = _Algebra(c.b)
    real = a.sub(times(x.real, factor.real), times(x.imag, factor.imag))
    imag = a.add(times(x.real, factor.imag), times(x.imag, factor.real))
    if bias and c.bias_after_scale:
        real = c.b.like(bias, x.known()) if real is None else real + bias
    return Parts(real, imag) if (real, imag) != (None, None) else _zero(c, x)


def _zero(c: OpCall, x: Parts) -> Parts:
    return Parts(c.b.zeros_like(x.known()), None)


def _raised(a: _Algebra, x: Parts, exponent: complex) -> Parts:
    if exponent == 0.5:
        return a.sqrt(x)
    if exponent == round(exponent.real) and abs(exponent) <= _MOST_PRODUCTS:
        return a.whole_power(x, round(exponent.real))
    like = partial(a.b.like, x=x.known())
    imag = like(exponent.imag) if exponent.imag else None
    return a.power(x, Parts(like(exponent.real), imag))


@complex_parts("pd_op.pow")
def _(c: OpCall, x: Parts) -> Parts:
    return _raised(_Algebra(c.b), x, c.y)


@complex_parts("pd_op.elementwise_pow")
def _(c: OpCall, x: Parts, y: Parts) -> Parts:
    number = fill_value(c.op.operands[1])
    if isinstance(number, int | float | complex) and x.known().shape == c.result_meta("out").shape:
        return _raised(_Algebra(c.b), x, number)
    return _Algebra(c.b).power(x, y)


@complex_parts("pd_op.expm1")
def _(c: OpCall, x: Parts) -> Parts:
    """``exp(a) cos(b) - 1`` is ``expm1(a) cos(b) - 2 sin(b / 2)^2``, which does not cancel."""
    b = c.b
    if x.imag is None:
        return Parts(b.expm1(x.real), None)
    half = b.sin(x.imag * 0.5)
    less = half * half * -2.0
    real = less if x.real is None else b.expm1(x.real) * b.cos(x.imag) + less
    return Parts(real, _Algebra(b).exp(x).imag)


@complex_parts("pd_op.log1p")
def _(c: OpCall, x: Parts) -> Parts:
    a, b = _Algebra(c.b), c.b
    real = b.zeros_like(x.known()) if x.real is None else x.real
    imag = b.zeros_like(real) if x.imag is None else x.imag
    found = a.log(Parts(real + 1.0, imag))
    is_near = b.logical_and(b.abs(real) < 0.5, b.abs(imag) < 0.5)
    off = b.where(is_near, real * (real + 2.0) + imag * imag, 0.0)
    assert found.real is not None
    return Parts(b.where(is_near, b.log1p(off) * 0.5, found.real), found.imag)


@complex_parts("pd_op.sign")
def _(c: OpCall, x: Parts) -> Parts:
    """The direction; of 0 it is 0."""
    b, size = c.b, _Algebra(c.b).size(x)
    size = b.where(b.equal(size, b.zeros_like(size)), 1.0, size)
    return Parts(*[None if p is None else p / size for p in x])


@complex_parts("pd_op.where")
def _(c: OpCall, condition: Value | Parts, x: Parts, y: Parts) -> Any:
    return NotImplemented if isinstance(condition, Parts) else _each_part(c, condition, x, y)


@complex_parts("pd_op.cast")
def _(c: OpCall, x: Parts | Value) -> Any:
    to = c.op.attribute("dtype")
    if not isinstance(x, Parts):
        return Parts(c.b.cast(x, REAL_OF[to]), None)
    if to in REAL_OF:
        return Parts(*[None if p is None else c.b.cast(p, REAL_OF[to]) for p in x])
    if to is dt.bool_:
        return _Algebra(c.b).is_nonzero(x)
    return c.b.cast(c.b.zeros_like(x.known()) if x.real is None else x.real, to)


@complex_parts("pd_op.complex")
def _(c: OpCall, real: Value, imag: Value) -> Parts:
    parts = Parts(*[None if fill_value(p.ssa) == 0 else p for p in (real, imag)])
    return Parts(real, None) if parts == (None, None) else parts


@complex_parts("pd_op.as_complex")
def _(c: OpCall, x: Value) -> Parts:
    last = x.rank - 1
    at = [c.b.slice(x, axes=(last,), starts=(k,), ends=(k + 1,), decrease_axis=(last,), infer_flags=(1,)) for k in (0, 1)]  # fmt: skip
    return Parts(*at)


@complex_parts("pd_op.as_real")
def _(c: OpCall, x: Parts) -> Value:
    parts = [c.b.zeros_like(x.known()) if p is None else p for p in x]
    return c.b.concat([c.b.reshape(p, (*p.shape, 1)) for p in parts], axis=parts[0].rank)


@complex_parts("pd_op.pad")
def _(c: OpCall, x: Parts) -> Any:
    return NotImplemented if isinstance(c.pad_value, Value) or c.pad_value else _each_part(c, x)


@complex_parts("pd_op.put_along_axis")
def _(c: OpCall, x: Parts, places: Value, values: Parts) -> Any:
    is_linear = c.reduce in ("assign", "add")
    return _each_part(c, x, places, values) if is_linear else NotImplemented


@complex_parts("pd_op.equal", "pd_op.not_equal")
def _(c: OpCall, x: Parts, y: Parts) -> Value:
    b = c.b
    pairs = [(p, q) for p, q in zip(x, y, strict=True) if p is not None or q is not None]
    found: list[Value] = []
    for p, q in pairs:
        zero = b.zeros_like(Parts(p, q).known())
        found.append(b(c.op.name, zero if p is None else p, zero if q is None else q))
    if len(found) == 1:
        return found[0]
    return (b.logical_and if c.op.name == "pd_op.equal" else b.logical_or)(*found)


@complex_parts("pd_op.full", "pd_op.full_like")
def _(c: OpCall, x: Parts | Value | None = None) -> Any:
    to = c.result_meta("out").dtype
    if isinstance(c.value, Value):
        return NotImplemented
    number = complex(c.value)

    def filled(part: float) -> Value:
        if x is None:
            return c.b.full(shape=c.shape, value=part, dtype=REAL_OF[to])
        like = x.known() if isinstance(x, Parts) else x
        return c.b.full_like(like, value=part, dtype=REAL_OF.get(to, to))

    if to not in REAL_OF:
        return filled(number.real)
    real = filled(number.real) if number.real or not number.imag else None
    return Parts(real, filled(number.imag) if number.imag else None)


@complex_parts("pd_op.assign_value")
def _(c: OpCall) -> Parts:
    numbers, to = [complex(v) for v in c.values], REAL_OF[c.result_meta("out").dtype]
    sides = ([v.real for v in numbers], [v.imag for v in numbers])
    real, imag = [
        c.b.assign_value(shape=c.shape, dtype=to, values=side) if k == 0 or any(side) else None
        for k, side in enumerate(sides)
    ]
    return Parts(real, imag)
