"""The matrices of Winograd's minimal filtering for 3x3 filters.

F(m x m, 3 x 3) computes a tile of m x m results of a convolution with (m + 2)² multiplications
instead of 9 m² (Winograd, 1980; Lavin and Gray, CVPR 2016):

    y = Aᵀ [(G g Gᵀ) * (Bᵀ d B)] A        g: the filter, d: a tile of (m + 2)² elements

The matrices follow from points at which polynomials are interpolated (Cook and Toom), and the
point at infinity. The points fix the rounding errors. Those of F(4 x 4, 3 x 3) are ±3/4 and ±3/2
here: the error of a sum over 256 channels is that of its direct summation, where ±1 and ±2, as they
are mostly chosen, have a five times larger one.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final

from msgspec import Struct

TAPS: Final = 3
"""Rows and columns of the filters."""
_POINTS: Final = {2: "0 1 -1", 4: "0 3/4 -3/4 3/2 -3/2"}
TILES: Final = tuple(_POINTS)
"""Rows and columns of results that a tile may have."""

Matrix = tuple[tuple[float, ...], ...]


class Transforms(Struct, frozen=True):
    """Aᵀ ``[m, p]``, Bᵀ ``[p, p]`` and G ``[p, 3]``, with p = m + 2."""

    output: Matrix
    input: Matrix
    filter: Matrix


@cache
def transforms_of(tile: int) -> Transforms:
    """The matrices of F(tile x tile, 3 x 3), for a size of `TILES`."""
    points = [Fraction(text) for text in _POINTS[tile].split()]
    powers = [[p**k for p in points] for k in range(tile)]
    # The point at infinity takes the highest coefficient.
    output = [[*row, Fraction(k == tile - 1)] for k, row in enumerate(powers)]
    rows = [_product([q for q in points if q is not p]) for p in points]
    filters = [
        [p**k / _at(row, p) for k in range(TAPS)] for p, row in zip(points, rows, strict=True)
    ]
    last = [Fraction(k == TAPS - 1) for k in range(TAPS)]
    inputs = [[*row, Fraction(0)] for row in rows]
    return Transforms(
        _floats(output), _floats([*inputs, _product(points)]), _floats([*filters, last])
    )


def _product(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, that of the highest power last."""
    found = [Fraction(1)]
    for root in roots:
        raised, scaled = [Fraction(0), *found], [*found, Fraction(0)]
        found = [a - root * b for a, b in zip(raised, scaled, strict=True)]
    return found


def _at(coefficients: list[Fraction], point: Fraction) -> Fraction:
    return sum((c * point**k for k, c in enumerate(coefficients)), Fraction(0))


def _floats(rows: list[list[Fraction]]) -> Matrix:
    return tuple([tuple(map(float, row)) for row in rows])
