"""Taylor series of the modified Bessel functions I0 and I1, and of these times ``exp(-|x|)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet
from pirkit.dialect.rules.taylor.series import Series
from pirkit.dialect.rules.taylor.series_functions import composed

_NEAR: Final = 2.0
"""Up to here powers of ``x`` are summed: the recurrence divides by ``x`` in each step."""
_TERMS: Final = 16


def _powers(b: Builder, x: Value, m: int) -> Value:
    """Derivative m of I0 over m! near zero, from ``I0(x) = sum (x / 2)^(2j) / j!^2``."""
    square = x * x
    first = (m + 1) // 2
    found = b.zeros_like(x)
    for j in reversed(range(first, first + _TERMS)):
        found = found * square + math.comb(2 * j, m) / (4.0**j * math.factorial(j) ** 2)
    return found * x if m % 2 else found


def _derivatives(b: Builder, x: Value, count: int) -> list[Value]:
    """Derivatives 0, 1... of I0 over m!, all times ``exp(-|x|)``.

    Away from zero by the recurrence of ``x y'' + y' = x y``.
    """
    size = b.abs(x)
    is_near = b.less_than(size, b.like(_NEAR, x))
    far = b.where(is_near, b.ones_like(x), x)
    near = b.where(is_near, x, b.zeros_like(x))
    found = [b.i0e(far), b.i1e(far)]
    for k in range(count - 2):
        known = far * found[k] - found[k + 1] * float((k + 1) ** 2)
        known = known + found[k - 1] if k else known
        found.append(known / (far * float((k + 2) * (k + 1))))
    decay = b.exp(-b.abs(near))
    return [
        b.where(is_near, _powers(b, near, m) * decay, value)
        for m, value in enumerate(found[:count])
    ]


def _bessel(order: int, is_scaled: bool) -> Callable[[OpCall, Series], Series]:
    """I0 or I1, which is the slope of I0."""

    def rule(c: OpCall, x: Series) -> Series:
        b, degree, infinite = c.b, c.b.algebra.degree, c.b.isinf(c.x)
        finite = b.where(infinite, 1.0, c.x)
        zeroth = _derivatives(b, finite, max(degree + order + 1, 2))
        known = [zeroth[m + order] * float(m + 1 if order else 1) for m in range(degree + 1)]
        if is_scaled:  # times the series of exp(-|x|), over its value
            sign = b.sign(finite)
            local: list[Value] = []
            for m in range(1, degree + 1):
                total = known[m]
                for j in range(1, m + 1):
                    part = known[m - j] * ((-1.0) ** j / math.factorial(j))
                    total = total + (part * sign if j % 2 else part * (sign * sign))
                local.append(total)
        else:
            root = b.exp(b.abs(finite) * 0.5)  # the exponential itself overflows before the product
            local = [v * root * root for v in known[1:]]
        limits = [0.0, 0.0] if is_scaled else [c.x, b.abs(c.x)]
        kinds = [limits[(order + m) % 2 == 0] for m in range(1, degree + 1)]
        return composed(b, [b.where(infinite, n, v) for n, v in zip(kinds, local, strict=True)], x)

    return rule


for _order in (0, 1):
    jet(f"pd_op.i{_order}")(_bessel(_order, is_scaled=False))
    jet(f"pd_op.i{_order}e")(_bessel(_order, is_scaled=True))
