"""Logarithms to the bases 2 and 10, in double-word arithmetic and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import vecmath

_TWO: Final = {
    "float": (1.4426950216293335, 1.9259629911266175e-08, 1.0, 0.0),
    "double": (1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
}
_TEN: Final = {
    "float": (0.4342944920063019, -1.0103050052231683e-08, 0.301025390625, 4.605038981195214e-06),
    "double": (0.4342944819032518, 1.098319650216765e-17, 0.30102999566383914,
               1.42050232272661e-13),
}  # fmt: skip
"""log(e), log(2) in the base as sums of two floats; exponents times the first part are exact."""


def _to_base(base: dict[str, tuple[float, ...]]) -> Callable[[Builder, Value], Value]:
    """n log(2) + log(1 + f) in a base; each product and sum carries its rounding error along."""

    def emit(b: Builder, x: Value) -> Value:
        n, f = vecmath.split_exponent(b, x)
        unit, unit_low, step, step_low = base[f.type.elem]
        z = b.mul(f, f)
        rest = b.fma(z, -0.5, b.mul(b.mul(f, z), vecmath.polynomial(b, "log", f)))
        whole = b.add(f, rest)
        residual = b.fma(b.sub(rest, b.sub(whole, f)), unit, b.mul(whole, unit_low))
        first = b.mul(whole, unit)
        residual = b.add(residual, b.fma(whole, unit, b.neg(first)))
        steps = b.mul(n, step)
        total = b.add(steps, first)
        residual = b.fma(n, step_low, b.add(residual, b.sub(first, b.sub(total, steps))))
        return vecmath.log_special_cases(b, x, x, b.add(total, residual))

    return emit


log2: Final = _to_base(_TWO)
log10: Final = _to_base(_TEN)
