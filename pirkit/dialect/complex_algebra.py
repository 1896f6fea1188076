"""Arithmetic and functions of complex numbers by their real and imaginary parts.

A part that is zero is None, so that products with it are not computed. Results are as accurate as
those of complex arithmetic: relative to the size of the number, not to that of each part.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pirkit.dialect.build import Builder
from pirkit.dialect.value import Parts, Value

Part = Value | None


class ComplexAlgebra:
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
        b, c, d = self.b, y.real, y.imag
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
        return self.b.atan2(self.imag(x), self.real(x))

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
        """``exp(exponent * log(x))``; 0 to the power 0 is 1, and 0 to one right of it is 0."""
        b, found = self.b, self.exp(self.product(exponent, self.log(x)))
        size, other = self.size(x), self.size(exponent)
        is_one = b.equal(other, b.zeros_like(other))
        right = is_one if exponent.real is None else b.logical_or(is_one, exponent.real > 0)
        is_zero = b.logical_and(b.equal(size, b.zeros_like(size)), right)
        at_zero = (b.cast(is_one, size.dtype), b.zeros_like(size))
        parts = [
            None if part is None else b.where(is_zero, b.expand_like(value, part), part)
            for part, value in zip(found, at_zero, strict=True)
        ]
        return Parts(*parts)

    def whole_power(self, x: Parts, exponent: int) -> Parts:
        """The power with an integer exponent, by repeated squaring."""
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
        b, real, imag = self.b, self.real(x), self.imag(x)
        root = b.sqrt((b.abs(real) + self.size(x)) * 0.5)
        is_zero = b.equal(root, b.zeros_like(root))
        other = b.abs(imag) / (b.where(is_zero, 1.0, root) * 2.0)
        is_right = real >= 0
        return Parts(
            b.where(is_right, root, other), b.copysign(b.where(is_right, other, root), imag)
        )

    def tanh(self, x: Parts) -> Parts:
        b = self.b
        if x.imag is None or x.real is None:
            return Parts(b.tanh(x.real), None) if x.imag is None else Parts(None, b.tan(x.imag))
        t, cos, sin = b.tanh(x.real), b.cos(x.imag), b.sin(x.imag)
        turned = t * sin
        scale = 1.0 / (cos * cos + turned * turned)
        return Parts(t * scale, (sin * cos) * (scale * (1.0 - t) * (1.0 + t)))

    def waves(self, x: Parts) -> tuple[Part, Part, Part, Part]:
        """cos and sin of the real part, cosh and sinh of the imaginary one."""
        b, (u, v) = self.b, x
        one = b.ones_like(x.known())
        cos, sin = (one, None) if u is None else (b.cos(u), b.sin(u))
        return (cos, sin, one, None) if v is None else (cos, sin, b.cosh(v), b.sinh(v))

    def sin(self, x: Parts) -> Parts:
        cos, sin, cosh, sinh = self.waves(x)
        return Parts(self.mul(sin, cosh), self.mul(cos, sinh))

    def cos(self, x: Parts) -> Parts:
        cos, sin, cosh, sinh = self.waves(x)
        return Parts(self.mul(cos, cosh), self.sub(None, self.mul(sin, sinh)))

    def sinh(self, x: Parts) -> Parts:
        """``sinh(z) = -i sin(iz)``"""
        found = self.sin(Parts(self.sub(None, x.imag), x.real))
        return Parts(found.imag, self.sub(None, found.real))

    def cosh(self, x: Parts) -> Parts:
        return self.cos(Parts(self.sub(None, x.imag), x.real))

    def sigmoid(self, x: Parts) -> Parts:
        """From the exponential of the negative size of the real part, which does not overflow."""
        b = self.b
        if x.imag is None:
            return Parts(b.sigmoid(x.real), None)
        real = self.real(x)
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

    def difference(self, x: Parts, y: Parts) -> Parts:
        return Parts(self.sub(x.real, y.real), self.sub(x.imag, y.imag))

    def conj(self, x: Parts) -> Parts:
        return Parts(x.real, self.sub(None, x.imag))

    def real(self, x: Parts) -> Value:
        return self.b.zeros_like(x.known()) if x.real is None else x.real

    def imag(self, x: Parts) -> Value:
        return self.b.zeros_like(x.known()) if x.imag is None else x.imag

    def tan(self, x: Parts) -> Parts:
        """``tan(z) = -i tanh(iz)``"""
        found = self.tanh(Parts(self.sub(None, x.imag), x.real))
        return Parts(found.imag, self.sub(None, found.real))

    def isnan(self, x: Parts) -> Value:
        return self.any(x, self.b.isnan)

    def isinf(self, x: Parts) -> Value:
        return self.any(x, self.b.isinf)

    def isfinite(self, x: Parts) -> Value:
        return self.b.logical_not(self.any(x, lambda p: self.b.logical_not(self.b.isfinite(p))))

    def sign(self, x: Parts) -> Parts:
        """The direction; of 0 it is 0."""
        size = self.size(x)
        size = self.b.where(self.b.equal(size, self.b.zeros_like(size)), 1.0, size)
        return Parts(*[None if p is None else p / size for p in x])

    def expm1(self, x: Parts) -> Parts:
        """``exp(a) cos(b) - 1`` is ``expm1(a) cos(b) - 2 sin(b / 2)^2``, which does not cancel."""
        b = self.b
        if x.imag is None:
            return Parts(b.expm1(x.real), None)
        half = b.sin(x.imag * 0.5)
        less = half * half * -2.0
        real = less if x.real is None else b.expm1(x.real) * b.cos(x.imag) + less
        return Parts(real, self.exp(x).imag)

    def log1p(self, x: Parts) -> Parts:
        b, real, imag = self.b, self.real(x), self.imag(x)
        found = self.log(Parts(real + 1.0, imag))
        is_near = b.logical_and(b.abs(real) < 0.5, b.abs(imag) < 0.5)
        off = b.where(is_near, real * (real + 2.0) + imag * imag, 0.0)
        return Parts(b.where(is_near, b.log1p(off) * 0.5, self.real(found)), found.imag)
