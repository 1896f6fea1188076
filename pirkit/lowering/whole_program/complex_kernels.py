"""Elementwise operations on complex numbers in native programs: loops over their parts.

An element is two numbers one after the other, so a complex operand of a call is two of the nest, of
twice the stride. Quotients are computed by Smith's method and sizes by scaling, as in numpy: parts
may be as large as the type allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from math import inf, prod
from typing import Final

from msgspec import Struct

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.ir.loopnest import Kernel, LoopPhase, Operand, Store
from pirkit.lowering.codegen.ir.nest_builder import StatementBuilder
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import REAL_OF, DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.plan import Call

Parts = tuple[str, str]
"""The real part and the imaginary one; that of a real operand is 0."""


class ComplexNest(Struct, frozen=True):
    """The nest of a call; for each of its operands, ``slots`` has the slot that it addresses."""

    kernel: Kernel
    slots: tuple[int, ...]


def complex_nest_of(call: Call, meta: Callable[[int], TensorMeta]) -> ComplexNest | None:
    """The nest of an operation that reads or writes complex numbers; None for any other call."""
    rule = RULES.get(call.kernel)
    slots = [s for s in (*call.inputs, *call.outputs) if isinstance(s, int)]
    if rule is None or len(slots) < len(call.inputs) + len(call.outputs):
        return None
    metas = [meta(s) for s in slots]
    out = metas[-1]
    if not any(m.dtype.is_complex for m in metas) or not out.numel:
        return None
    of = REAL_OF.get(out.dtype, out.dtype)
    if any(REAL_OF.get(m.dtype, m.dtype) not in (dt.float32, dt.float64) for m in metas):
        return None
    # Operands of one shape need no broadcast: a flat loop fills its vectors best.
    same = all(m.shape == out.shape for m in metas)
    shape = (out.numel,) if same else out.shape
    w = _Writer(of)
    given = [w.load(m, (m.numel,) if same else m.shape, shape) for m in metas[:-1]]
    w.store(out, shape, rule(w, *given))
    places = [s for s, m in zip(slots, metas, strict=True) for _ in range(1 + m.dtype.is_complex)]
    kernel = Kernel(shape, (), tuple(w.operands), (LoopPhase((*w.builder.statements, *w.stores)),))
    return ComplexNest(kernel, tuple(places))


class _Writer:
    """Writes the statements for one element."""

    def __init__(self, of: DType) -> None:
        self.of = of
        self.operands: list[Operand] = []
        self.stores: list[Store] = []
        self.builder = StatementBuilder(count(1), _nothing_asserted)

    def __call__(self, primitive: str, *args: str, of: DType | None = None) -> str:
        return self.builder.compute(primitive, args, of or self.of)

    def number(self, value: float) -> str:
        return self.builder.constant(value, self.of)

    def add_operands(self, meta: TensorMeta, own: tuple[int, ...], shape: tuple[int, ...]) -> range:
        """The operands of the nest that are the parts of one of the call."""
        nbytes, first = meta.numel * meta.dtype.itemsize, len(self.operands)
        padded = (1,) * (len(shape) - len(own)) + own
        strides = tuple([
            0 if n == 1 else prod(padded[k + 1 :]) * meta.dtype.itemsize
            for k, n in enumerate(padded)
        ])  # fmt: skip
        part = REAL_OF.get(meta.dtype, meta.dtype)
        for k in range(1 + meta.dtype.is_complex):
            self.operands.append(Operand(part, strides, (), nbytes, k * part.itemsize))
        return range(first, len(self.operands))

    def load(self, meta: TensorMeta, own: tuple[int, ...], shape: tuple[int, ...]) -> Parts:
        part = REAL_OF.get(meta.dtype, meta.dtype)
        operands = self.add_operands(meta, own, shape)
        found = [self.builder.cast(self.builder.load(k), part, self.of) for k in operands]
        return found[0], found[1] if len(found) > 1 else self.number(0)

    def store(self, meta: TensorMeta, shape: tuple[int, ...], parts: Parts) -> None:
        operands = self.add_operands(meta, shape, shape)
        self.stores += [Store(k, part) for k, part in zip(operands, parts, strict=False)]

    def real(self, x: Parts) -> Parts:
        return x

    def imag(self, x: Parts) -> Parts:
        return x[1], x[0]

    def conj(self, x: Parts) -> Parts:
        return x[0], self("negative", x[1])

    def complex(self, x: Parts, y: Parts) -> Parts:
        return x[0], y[0]

    def sum(self, x: Parts, y: Parts) -> Parts:
        return self("add", x[0], y[0]), self("add", x[1], y[1])

    def difference(self, x: Parts, y: Parts) -> Parts:
        return self("subtract", x[0], y[0]), self("subtract", x[1], y[1])

    def product(self, x: Parts, y: Parts) -> Parts:
        (a, b), (c, d) = x, y
        real = self("subtract", self("multiply", a, c), self("multiply", b, d))
        return real, self("add", self("multiply", a, d), self("multiply", b, c))

    def quotient(self, x: Parts, y: Parts) -> Parts:
        """Smith's method, which does not overflow where the result does not.

        With |c| >= |d| and r = d / c, (a + bi) / (c + di) is ((a + b r) + (b - a r) i) / (c + d r);
        otherwise c and d change places. If the divisor is 0, the parts of ``x`` are divided by 0.
        """
        (a, b), (c, d), zero = x, y, self.number(0)
        first = self("greater_equal", self("abs", c), self("abs", d), of=dt.bool_)
        zeros = [self("equal", part, zero, of=dt.bool_) for part in y]
        is_zero = self("logical_and", *zeros, of=dt.bool_)
        large, small = self("where", first, c, d), self("where", first, d, c)
        ratio = self("divide", small, large)
        sized = self("add", large, self("multiply", small, ratio))
        scale = self("divide", self.number(1), self("where", is_zero, zero, sized))
        p, q = self("where", first, a, b), self("where", first, b, a)
        real = self("add", p, self("multiply", q, ratio))
        by_real = self("subtract", b, self("multiply", a, ratio))
        by_imaginary = self("subtract", self("multiply", b, ratio), a)
        imaginary = self("where", first, by_real, by_imaginary)
        pairs = ((a, real), (b, imaginary))
        parts = [self("multiply", self("where", is_zero, of, part), scale) for of, part in pairs]
        return parts[0], parts[1]

    def size(self, x: Parts) -> Parts:
        """The absolute value: the larger part times sqrt(1 + r^2), whose square cannot overflow."""
        a, b = self("abs", x[0]), self("abs", x[1])
        large, small = self("maximum", a, b), self("minimum", a, b)
        zero, one, infinite = self.number(0), self.number(1), self.number(inf)
        ratio = self("where", self("equal", large, zero, of=dt.bool_), zero,
                     self("divide", small, large))  # fmt: skip
        root = self("sqrt", self("add", one, self("multiply", ratio, ratio)))
        found = self("multiply", large, root)
        for part in (a, b):  # an infinite part outweighs a NaN
            found = self("where", self("equal", part, infinite, of=dt.bool_), infinite, found)
        return found, zero


def _nothing_asserted(_: DataAssertion) -> int:
    raise InternalError("complex arithmetic asserts nothing")


RULES: Final[Mapping[str, Callable[..., Parts]]] = {
    "pd_op.real": _Writer.real,
    "pd_op.imag": _Writer.imag,
    "pd_op.conj": _Writer.conj,
    "pd_op.complex": _Writer.complex,
    "pd_op.cast": _Writer.real,
    "pd_op.abs": _Writer.size,
    "pd_op.add": _Writer.sum,
    "pd_op.subtract": _Writer.difference,
    "pd_op.multiply": _Writer.product,
    "pd_op.divide": _Writer.quotient,
}
"""Op -> the parts of its result, from those of its operands."""
