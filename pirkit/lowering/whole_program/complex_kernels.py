"""Elementwise operations on complex numbers in native programs: loops over their parts.

An element is two numbers one after the other. Most nests with complex results have an axis of both
parts, which is the last one, so that vectors of the result are contiguous: an operand is read part
by part, with its parts exchanged, or one part for both. In other nests a complex operand of a call
is two of the nest, of twice the stride. Quotients are computed by Smith's method and sizes by
scaling, as in numpy: parts may be as large as the type allows.
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
    rule, part_rule = RULES.get(call.kernel), PART_RULES.get(call.kernel)
    slots = [s for s in (*call.inputs, *call.outputs) if isinstance(s, int)]
    if (rule is None and part_rule is None) or len(slots) < len(call.inputs) + len(call.outputs):
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
    if part_rule is not None and out.dtype.is_complex:
        made = _PartWriter(of, shape)
        views = [_Parts(made, s, m, (m.numel,) if same else m.shape)
                 for s, m in zip(slots[:-1], metas[:-1], strict=True)]  # fmt: skip
        return made.nest(part_rule(made, *views), slots[-1], out)
    if rule is None:
        return None
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
        strides = _strides(meta, own, shape)
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


class _PartWriter:
    """Writes the statements for one part; the last axis of the nest is that of both."""

    def __init__(self, of: DType, shape: tuple[int, ...]) -> None:
        self.of, self.shape = of, shape
        self.operands: list[Operand] = []
        self.slots: list[int] = []
        self.builder = StatementBuilder(count(1), _nothing_asserted)

    def __call__(self, primitive: str, *args: str) -> str:
        return self.builder.compute(primitive, args, self.of)

    def chosen(self, real: str, imaginary: str) -> str:
        """One number for the real part and another one for the imaginary one."""
        part = self.builder.index(len(self.shape), dt.int32)
        zero = self.builder.constant(0, dt.int32)
        return self("where", self.builder.compute("equal", (part, zero), dt.bool_), real, imaginary)

    def operand(
        self, slot: int, meta: TensorMeta, own: tuple[int, ...], along: int, offset: int
    ) -> int:  # fmt: skip
        """An operand that moves ``along`` numbers from the real part to the imaginary one."""
        kind, nbytes = REAL_OF.get(meta.dtype, meta.dtype), meta.numel * meta.dtype.itemsize
        strides = (*_strides(meta, own, self.shape), along * kind.itemsize)
        self.operands.append(Operand(kind, strides, (), nbytes, offset * kind.itemsize))
        self.slots.append(slot)
        return len(self.operands) - 1

    def nest(self, value: str, slot: int, out: TensorMeta) -> ComplexNest:
        store = Store(self.operand(slot, out, self.shape, 1, 0), value)
        body = LoopPhase((*self.builder.statements, store))
        kernel = Kernel((*self.shape, 2), (), tuple(self.operands), (body,))
        return ComplexNest(kernel, tuple(self.slots))

    def sum(self, x: _Parts, y: _Parts) -> str:
        return self("add", x.part, y.part)

    def difference(self, x: _Parts, y: _Parts) -> str:
        return self("subtract", x.part, y.part)

    def product(self, x: _Parts, y: _Parts) -> str:
        """(a + bi) (c + di) is (a c - b d) + (a d + b c) i."""
        crossed = self("multiply", x.imaginary, y.other)
        signed = self.chosen(self("negative", crossed), crossed)
        return self("add", self("multiply", x.real, y.part), signed)

    def conj(self, x: _Parts) -> str:
        return self.chosen(x.part, self("negative", x.part))

    def complex(self, x: _Parts, y: _Parts) -> str:
        return self.chosen(x.real, y.real)

    def same(self, x: _Parts) -> str:
        return x.part


class _Parts:
    """The parts of an operand, as names; those of a real one are its number and 0."""

    def __init__(
        self, w: _PartWriter, slot: int, meta: TensorMeta, own: tuple[int, ...]
    ) -> None:  # fmt: skip
        self.w, self.place, self.is_complex = w, (slot, meta, own), meta.dtype.is_complex
        self.kind = REAL_OF.get(meta.dtype, meta.dtype)

    def _read(self, along: int, offset: int) -> str:
        found = self.w.builder.load(self.w.operand(*self.place, along, offset))
        return self.w.builder.cast(found, self.kind, self.w.of)

    @property
    def zero(self) -> str:
        return self.w.builder.constant(0, self.w.of)

    @property
    def part(self) -> str:
        return self._read(1, 0) if self.is_complex else self.w.chosen(self.real, self.zero)

    @property
    def other(self) -> str:
        return self._read(-1, 1) if self.is_complex else self.w.chosen(self.zero, self.real)

    @property
    def real(self) -> str:
        return self._read(0, 0)

    @property
    def imaginary(self) -> str:
        return self._read(0, 1) if self.is_complex else self.zero


def _strides(meta: TensorMeta, own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The distances of elements along the axes of a shape; 0 along those that repeat them."""
    padded = (1,) * (len(shape) - len(own)) + own
    size = meta.dtype.itemsize
    return tuple([0 if n == 1 else prod(padded[k + 1 :]) * size for k, n in enumerate(padded)])


def _nothing_asserted(_: DataAssertion) -> int:
    raise InternalError("complex arithmetic asserts nothing")


RULES: Final[Mapping[str, Callable[..., Parts]]] = {
    "pd_op.real": _Writer.real,
    "pd_op.imag": _Writer.imag,
    "pd_op.cast": _Writer.real,
    "pd_op.abs": _Writer.size,
    "pd_op.divide": _Writer.quotient,
}
"""Op -> the parts of its result, from those of its operands."""

PART_RULES: Final[Mapping[str, Callable[..., str]]] = {
    "pd_op.conj": _PartWriter.conj,
    "pd_op.complex": _PartWriter.complex,
    "pd_op.cast": _PartWriter.same,
    "pd_op.add": _PartWriter.sum,
    "pd_op.subtract": _PartWriter.difference,
    "pd_op.multiply": _PartWriter.product,
}
"""Op -> one part of its result, where that is complex."""
