"""The matrices of Winograd's minimal filtering.

F(m, r) computes m results of a filter of r taps with m + r - 1 multiplications instead of m r, and
F(m x m, r x r) those of a tile of an image with their square (Winograd, 1980; Lavin and Gray, CVPR
2016):

    y = Aᵀ [(G g Gᵀ) * (Bᵀ d B)] A        g: the filter, d: a tile of (m + r - 1)² elements

The matrices follow from points at which polynomials are interpolated (Cook and Toom), and the
point at infinity. The points fix the rounding errors. Those of F(4 x 4, 3 x 3) are ±3/4 and ±3/2
here: the error of a sum over 256 channels is that of its direct summation, where ±1 and ±2, as they
are mostly chosen, have a five times larger one. Tiles of eight points are exact enough for filters
of one row or column only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Final

from msgspec import Struct

_POINTS: Final = {1: "", 4: "0 1 -1", 6: "0 3/4 -3/4 3/2 -3/2", 8: "0 1/2 -1/2 1 -1 2 -2"}
"""The finite points, by the number of all."""
TILES: Final = {1: (1,), 3: (2, 4), 5: (2, 4), 7: (2,)}
"""The results of a tile along an axis, by the taps of the filter along it."""
MAX_POINTS: Final = 36
"""Points of a tile at most."""

Matrix = tuple[tuple[float, ...], ...]


class Transforms(Struct, frozen=True):
    """Aᵀ ``[m, p]``, Bᵀ ``[p, p]`` and G ``[p, r]``, with p = m + r - 1."""

    output: Matrix
    input: Matrix
    filter: Matrix


@cache
def transforms_of(tile: int, taps: int) -> Transforms:
    """The matrices of F(tile, taps), for sizes in `TILES`."""
    points = [Fraction(text) for text in _POINTS[tile + taps - 1].split()]
    powers = [[p**k for p in points] for k in range(tile)]
    # The point at infinity takes the highest coefficient.
    output = [[*row, Fraction(k == tile - 1)] for k, row in enumerate(powers)]
    rows = [_product([q for q in points if q is not p]) for p in points]
    filters = [
        [p**k / _at(row, p) for k in range(taps)] for p, row in zip(points, rows, strict=True)
    ]
    last = [Fraction(k == taps - 1) for k in range(taps)]
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


def tiles_of(taps: Sequence[int]) -> list[tuple[int, ...]]:
    """The tiles in which filters of some rows and columns may be computed; empty if in none."""
    found = product(*[TILES.get(n, ()) for n in taps])
    return [tile for tile in found if 1 < points_of(tile, taps) <= MAX_POINTS]


def points_of(tile: Sequence[int], taps: Sequence[int]) -> int:
    """The points of a tile."""
    return prod([m + r - 1 for m, r in zip(tile, taps, strict=True)])
