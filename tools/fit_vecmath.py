"""Fits the polynomials of the vector math and prints
pirkit/lowering/codegen/math/vecmath_tables.py.

Requires mpmath, which pirkit itself does not. Each polynomial interpolates at Chebyshev nodes,
which is within a small factor of the minimax polynomial, and a few Remez exchanges then level the
error.

    python -m tools.fit_vecmath > pirkit/lowering/codegen/math/vecmath_tables.py
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import struct
import textwrap
from collections.abc import Callable, Iterable

from mpmath import asin, atan, cos, erf, erfc, exp, log, mp, mpf, pi, sin, sinh, sqrt, tan, tanh

mp.dps = 60
Function = Callable[[mpf], mpf]


def fit(f: Function, weight: Function, low: mpf, high: mpf, degree: int) -> list[mpf]:
    """Coefficients, lowest first, that level weight * (f - p) by Remez exchanges."""
    count = degree + 2
    middle, radius = (low + high) / 2, (high - low) / 2
    nodes = [middle - radius * cos(pi * k / (count - 1)) for k in range(count)]
    grid = [low + (high - low) * (mpf(k) + mpf(1) / 2) / (40 * count) for k in range(40 * count)]
    values = [(x, f(x), weight(x)) for x in grid]
    coefficients: list[mpf] = []
    for _ in range(6):
        rows = [
            [x**k for k in range(degree + 1)] + [(-1) ** i / weight(x)] for i, x in enumerate(nodes)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in nodes]))
        coefficients = [solved[k] for k in range(degree + 1)]
        errors = [(x, w * (y - mp.polyval(coefficients[::-1], x))) for x, y, w in values]
        extrema: list[tuple[mpf, mpf]] = []
        for x, e in errors:
            if extrema and (e > 0) == (extrema[-1][1] > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < count:
            break
        nodes = [x for x, _ in extrema]
    return coefficients


def single(value: mpf) -> float:
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def shown(start: str, numbers: Iterable[float], digits: int) -> str:
    """A tuple in lines of a source file: numbers with as few of ``digits`` as give their values."""
    kind = "f" if digits < 17 else "d"

    def shortest(x: float) -> str:
        found = (f"{x:.{d}g}" for d in range(1, digits + 1))
        text = next(t for t in found if struct.pack(kind, float(t)) == struct.pack(kind, x))
        return repr(float(text))

    texts = ", ".join(map(shortest, numbers))
    return textwrap.fill(f"{texts})", 99, initial_indent=f"{start}(", subsequent_indent=" " * 8)


def one(_: mpf) -> mpf:
    return mpf(1)


HALF_LN2 = log(2) / 2 * mpf("1.001")
LOG_LOW, LOG_HIGH = sqrt(mpf(2)) / 2 - 1 - mpf("1e-4"), sqrt(mpf(2)) - 1 + mpf("1e-4")
QUARTER = (pi / 4 * mpf("1.001")) ** 2
TINY = mpf("1e-9")


def exp_tail(r: mpf) -> mpf:
    return (exp(r) - 1 - r) / r**2 if abs(r) > TINY else mpf(1) / 2 + r / 6


def log_tail(f: mpf) -> mpf:
    return (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > TINY else mpf(1) / 3 - f / 4


def odd(g: Function, power: int) -> Function:
    """(g(x) - x) / x**power as a function of z = x*x."""

    def tail(z: mpf) -> mpf:
        x = sqrt(max(z, TINY))
        return (g(x) - x) / x**power

    return tail


def cos_tail(z: mpf) -> mpf:
    z = max(z, TINY)
    return (cos(sqrt(z)) - 1 + z / 2) / z**2


def lgamma_tail(t: mpf) -> mpf:
    """lgamma(2 + t) / t"""
    return mp.loggamma(2 + t) / t if abs(t) > mpf("1e-25") else mp.psi(0, 2)


ROOT = mp.findroot(lambda x: mp.psi(0, x), mpf("1.4616321449683623"))


def digamma_tail(t: mpf) -> mpf:
    """digamma(root + t) / t"""
    return mp.psi(0, ROOT + t) / t if abs(t) > mpf("1e-25") else mp.psi(1, ROOT)


def tables(degrees: dict[str, int], erf_end: mpf) -> dict[str, list[mpf]]:
    zero = mpf("1e-7")
    fits: dict[str, tuple[Function, Function, mpf, mpf]] = {
        "exp": (exp_tail, lambda r: r * r, -HALF_LN2, HALF_LN2),
        "expm1": (exp_tail, lambda r: abs(r) + mpf("0.01"), -HALF_LN2, HALF_LN2),
        "log": (log_tail, lambda f: f * f + mpf("0.001"), LOG_LOW, LOG_HIGH),
        "tanh": (odd(tanh, 3), lambda z: z + mpf("0.002"), zero, mpf("0.625") ** 2),
        "sin": (odd(sin, 3), lambda z: z + mpf("0.002"), zero, QUARTER),
        "cos": (cos_tail, lambda z: z * z + mpf("0.002"), zero, QUARTER),
        "atan": (odd(atan, 3), lambda z: z + mpf("0.002"), zero, mpf(1)),
        "asin": (odd(asin, 3), lambda z: z + mpf("0.002"), zero, mpf(1) / 4),
        "tan": (odd(tan, 3), lambda z: z + mpf("0.002"), zero, QUARTER),
        "sinh": (odd(sinh, 3), lambda z: z + mpf("0.002"), zero, mpf(1)),
        "erf": (odd(erf, 1), one, zero, mpf(1)),
        "lgamma": (lgamma_tail, one, -mpf(1) / 2, mpf(1) / 2),
        "digamma": (digamma_tail, one, 1 - ROOT, 2 - ROOT),
        "erfc": (lambda t: log(erfc(t + 1)), lambda t: erfc(t + 1), mpf(0), erf_end - 1),
    }
    return {name: fit(*fits[name], degree) for name, degree in degrees.items()}


F32 = {"exp": 4, "expm1": 4, "log": 7, "tanh": 4, "sin": 2, "cos": 2, "atan": 8,
       "asin": 5, "tan": 6, "sinh": 3, "erf": 6, "erfc": 8}  # fmt: skip
F64 = {"exp": 10, "expm1": 10, "log": 18, "tanh": 13, "sin": 6, "cos": 6, "atan": 20,
       "asin": 13, "tan": 14, "sinh": 8, "erf": 13, "erfc": 21,
       "lgamma": 19, "digamma": 22}  # fmt: skip


def main() -> None:
    print(
        '"""Polynomials of the vector math, lowest coefficient first: '
        'made by tools/fit_vecmath.py."""\n'
    )
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    print("# fmt: off")
    sets = (("SINGLE", F32, 9, mpf(4)), ("DOUBLE", F64, 17, mpf(6)))
    for name, degrees, digits, end in sets:
        print(f"{name}: Final[dict[str, tuple[float, ...]]] = {{")
        fitted = tables(degrees, end)
        for key, coefficients in fitted.items():
            print(shown(f'    "{key}": ', map(float, coefficients), digits) + ",")
        print("}")
    print("# fmt: on")


if __name__ == "__main__":
    main()
