"""Fits the piecewise polynomials of the vector math and prints
pirkit/lowering/codegen/math/piecewise_poly_tables.py.

Requires mpmath, which pirkit itself does not. The polynomial of a segment is fitted by least
squares in units in the last place (ULP) of the function. Its coefficients are rounded one by one,
each before the following ones are fitted, so that these compensate its rounding error.

    python -m tools.fit_pieces > pirkit/lowering/codegen/math/piecewise_poly_tables.py
"""

from __future__ import annotations

from collections.abc import Callable

from mpmath import (  # pyright: ignore[reportMissingImports]
    cos,
    erf,
    exp,
    floor,
    log,
    mp,
    mpf,
    pi,
    sqrt,
    tanh,
)

from tools.fit_vecmath import shown, single

mp.dps = 40
Function = Callable[[mpf], mpf]
PIECES, DEGREE = 32, 5
ROOTS, CURVE_PIECES = 16, 22
HALF_ULP_OF_ONE = 2.0**-24


def ulp(value: mpf) -> mpf:
    return mpf(2) ** (int(floor(log(abs(value), 2))) - 23)


def piece(
    f: Function,
    middle: mpf,
    low: mpf,
    high: mpf,
    known: tuple[mpf, ...] = (),
    degree: int = DEGREE,
) -> list[mpf | float]:
    """Coefficients of a polynomial in the distance from a point."""
    count = 10 * (degree + 1)
    angles = [pi * (k + mpf(1) / 2) / count for k in range(count)]
    nodes = [(low + high) / 2 - (high - low) / 2 * cos(angle) for angle in angles]
    values = [f(x) for x in nodes]
    found: list[float | mpf] = [single(f(middle)), *known]
    while len(found) <= degree:
        rows: list[list[mpf]] = []
        left: list[mpf] = []
        for x, y in zip(nodes, values, strict=True):
            distance, unit = x - middle, ulp(y)
            so_far = sum(mpf(c) * distance**k for k, c in enumerate(found))
            rows.append([distance**k / unit for k in range(len(found), degree + 1)])
            left.append((y - so_far) / unit)
        found.append(single(mp.lu_solve(mp.matrix(rows), mp.matrix(left))[0]))
    return found


def tanh_pieces() -> list[list[mpf | float]]:
    """Segments by the last 2 bits of the exponent and the first 3 of the mantissa of x + 1."""
    table = [[1.0] + [0.0] * DEGREE for _ in range(PIECES)]
    for octave in range(4):
        width = mpf(2) ** octave / 8
        for k in range(8):
            low = 2**octave - 1 + k * width
            if low < 9:  # beyond that it is 1
                table[(octave + 3) % 4 * 8 + k] = piece(tanh, low, low, low + width)
    return table


def erf_pieces() -> list[list[mpf | float]]:
    """Segments by x rounded to eighths; the first one is for erf x - x."""
    reach = mpf(1) / 16
    slope = 2 / sqrt(pi)
    first = piece(erf, mpf(0), mpf(0), reach, (slope,))
    first[1] = single(slope - 1)
    table = [first]
    for k in range(1, PIECES - 1):
        middle = mpf(k) / 8
        table.append(piece(erf, middle, middle - reach, middle + reach))
    # so steep that the last piece ends with 1
    table.append([1 - HALF_ULP_OF_ONE, 6e-7] + [0.0] * (DEGREE - 1))
    return table


def curve_pieces(f: Function) -> list[list[mpf | float]]:
    """Segments by x rounded to quarters."""
    table: list[list[mpf | float]] = [[1.0] + [0.0] * DEGREE for _ in range(PIECES)]
    for k in range(CURVE_PIECES):
        middle, reach = mpf(k) / 4, mpf(1) / 8
        table[k] = piece(f, middle, max(middle - reach, mpf(0)), middle + reach)
    return table


def tanh_of_cubic(x: mpf) -> mpf:
    return tanh(sqrt(2 / pi) * (x + mpf("0.044715") * x**3))


def erf_of_root(x: mpf) -> mpf:
    return erf(x / sqrt(mpf(2)))


def main() -> None:
    print(
        '"""Piecewise polynomials of the vector math: for each power, lowest first, '
        "a coefficient for\neach of 32 segments; made by tools/fit_pieces.py.\n"
        '"""\n'
    )
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    print("# fmt: off")
    tables = {
        "TANH": tanh_pieces(),
        "ERF": erf_pieces(),
        "TANH_OF_CUBIC": curve_pieces(tanh_of_cubic),
        "ERF_OF_ROOT": curve_pieces(erf_of_root),
    }
    for name, table in tables.items():
        print(f"{name}: Final[tuple[tuple[float, ...], ...]] = (")
        for column in zip(*table, strict=True):
            print(shown("    ", map(float, column), 9) + ",")
        print(")")
    reach = log(2) / (2 * ROOTS)
    roots = [mpf(2) ** (mpf(k) / ROOTS) for k in range(ROOTS)]
    lost = [root - mpf(single(root)) for root in roots]
    rest = piece(exp, mpf(0), -reach, reach, (mpf(1),), 3)[2:]
    for name, numbers in (("ROOTS_OF_TWO", roots), ("ROOTS_RESIDUAL", lost), ("EXP", rest)):
        print(shown(f"{name}: Final[tuple[float, ...]] = ", map(float, numbers), 9))
    print("# fmt: on")


if __name__ == "__main__":
    main()
