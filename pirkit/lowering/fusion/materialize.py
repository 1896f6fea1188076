"""What becomes of values that are needed at several indices: computed again, held in tiles, stored.

The three are compared by what they cost for each element, counted in scalar additions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import Final

from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tiling import MAX_IMAGES, Axes, Untiled, closed
from pirkit.dialect.operation import describe
from pirkit.index.extent import expected, is_sized
from pirkit.index.index_maps import space
from pirkit.lowering.fusion.index_conflicts import cost_of
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.uses import Needs, Reader

MEMORY_BYTE: Final = 0.5
"""A byte that is read from memory, or written."""
PERMUTED_READ: Final = 2.0
"""An element that is strided when it is read."""
TILED_ELEMENT: Final = 2.0
"""An element that is kept in a tile."""
TILED_BYTE: Final = 0.375
"""A byte of it."""
LAUNCH: Final = 8000.0
"""A kernel more, whatever its size."""
TILE_EDGE: Final = 64
"""Elements of a tile along an axis."""
WIDE_TILE_EDGE: Final = 1024
"""The same where nothing is transposed."""
MIN_TILE_EDGE: Final = 16
"""Tiles of fewer elements are not worth it."""
CACHE_SHARE: Final = 1 << 18
"""Bytes of all tiles that are there at once: their share of a second-level cache."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided of values that a reader needs at several indices.

    ``way`` is one of ``again``, ``tile`` and ``cut``. The costs are additions for each element;
    that of ``tile`` is None where tiles do not serve, and ``why`` tells why.
    """

    way: str
    values: tuple[Unit, ...]
    reader: Unit
    again: float
    is_allowed: bool
    """Whether as much may be computed again."""
    tile: float | None
    cut: float
    why: str = ""

    @property
    def costs(self) -> str:
        """The three costs in words."""
        again = f"compute again {_shown(self.again)}{'' if self.is_allowed else ' (too many)'}"
        tile = f"none ({self.why})" if self.tile is None else _shown(self.tile)
        return f"additions per element: {again}, tiles {tile}, store {_shown(self.cut)}"

    def __str__(self) -> str:
        names = " and ".join(describe(u.result) for u in self.values)
        done = {"again": "computed again", "tile": "held in tiles", "cut": "stored"}[self.way]
        needed = f"as {describe(self.reader.result)} needs it at other indices"
        return f"{names} is {done}, {needed}; {self.costs}"


def _shown(cost: float) -> str:
    return f"{cost:.1f}".removesuffix(".0")


def choose(reader: Reader, needs: Needs, limit: int, allowed: bool) -> Choice:
    """The cheapest way; ``limit`` are the additions that computing again may cost, ``allowed``
    says whether tiles are.
    """
    cost = reader.additions(needs)
    is_allowed = cost <= limit
    reads = ((needs.sizes[v], len(at) - 1) for v, at in needs.others.items())
    again = cost + sum((size * MEMORY_BYTE + PERMUTED_READ) * n for size, n in reads)
    tiled = reader.needs(tile=True)
    why = "not allowed" if not allowed else _why_no_tile(reader, tiled, limit)
    values = [] if tiled is None or why else tiled.tiles
    if not values:
        several = (reader.members[v] for v, at in needs.members.items() if len(at) > 1)
        values = [u for u in several if u.computes][:1]
    sizes = [u.meta.dtype.itemsize for u in values]
    in_tiles = sum(PERMUTED_READ + TILED_ELEMENT + TILED_BYTE * n for n in sizes)
    tile = None if why or tiled is None else in_tiles + reader.additions(tiled)
    count = max(1, expected(prod(reader.unit.meta.shape)))
    cut = sum(PERMUTED_READ + 3 * MEMORY_BYTE * n for n in sizes) + LAUNCH / count
    if is_allowed:
        way = "again" if tile is None or again <= tile else "tile"
    else:
        way = "tile" if tile is not None and tile <= cut else "cut"
    return Choice(way, tuple(values), reader.unit, again, is_allowed, tile, cut, why)


def choose_for(
    value: Unit, last: Unit, again: Needs, members: Mapping[SSAValue, Unit], times: int
) -> Choice:
    """What becomes of a value that several results need, each in its own order of loops, if it
    takes ``again`` to compute it once more; ``last`` is one of them.

    One that is needed in one order alone, another one than its own, is made of what is read
    transposed: each tensor for itself, or the value in tiles.
    """
    chain = (members[v] for v in again.members)
    once = cost_of(value) + sum(cost_of(u) for u in chain if not u.is_reduction)
    reads = sum(n * MEMORY_BYTE + PERMUTED_READ for n in again.sizes.values())
    near = [e.iter for e in space(value.meta.shape) if e.iter is not None][-1:]
    permuted = sum(any(i in e.iters for at in held for e in at for i in near)
                 for held in again.others.values())  # fmt: skip
    size = value.meta.dtype.itemsize
    tile = PERMUTED_READ + TILED_ELEMENT + TILED_BYTE * size
    count = max(1, expected(prod(value.meta.shape)))
    cost = (times - 1) * (once + reads) if times > 1 else PERMUTED_READ * permuted
    cut = PERMUTED_READ + 3 * MEMORY_BYTE * size + LAUNCH / count
    way = "tile" if tile < cost else "again"
    return Choice(way, (value,), last, cost, True, tile, cut)


def _why_no_tile(reader: Reader, tiled: Needs | None, limit: int) -> str:
    """Why tiles do not serve what is needed at several indices; empty if they do."""
    shape = reader.unit.meta.shape
    if reader.reduces:
        return "the kernel reduces elements"
    if any(map(is_sized, shape)):
        return "sizes are known only at run time"
    if tiled is None or not tiled.tiles:
        return "the indices differ by more than the order of loops"
    if reader.additions(tiled) > limit:
        return "other values would have to be computed again"
    in_tiles = [reader.members[v] for v in tiled.members if v in reader.in_tiles]
    orders = [reader.orders(tiled.members[u.result]) for u in (*in_tiles, *tiled.tiles)]
    parallel_iterations = [_transposition(some[0], other) for some in orders for other in some[1:]]
    extents = [n for n in shape if n != 1]
    if reader.in_tiles and factorial(len(extents)) > MAX_IMAGES:
        return "with what is in tiles already it might be read in too many orders"
    try:
        images = closed(parallel_iterations, len(extents))
    except Untiled as why:
        return str(why)
    lanes = {len(extents) - 1, *(some[0][-1] for some in orders)}
    sizes = [reader.members[v].meta.dtype.itemsize for v in reader.in_tiles]
    sizes += [u.meta.dtype.itemsize for u in tiled.tiles]
    if edge_of(extents, images, lanes, sizes) < MIN_TILE_EDGE:
        return "they would not fit the cache"
    return ""


def _transposition(first: Axes, other: Axes) -> Axes:
    """The permutation of axes that makes one order of them another one."""
    held = dict(zip(first, other, strict=True))
    return tuple([held[a] for a in range(len(first))])


def several_along(images: Sequence[Axes], lanes: Collection[int]) -> list[int]:
    """Axes along which a tile has several elements: those that are transposed, and those of
    lanes."""
    return [a for a in range(len(images[0])) if a in lanes or any(i[a] != a for i in images)]


def edge_of(
    extents: Sequence[int],
    images: Sequence[Axes],
    lanes: Collection[int],
    sizes: Iterable[int],
    edge: int = TILE_EDGE,
) -> int:
    """Elements of tiles along the axes where they have several; ``sizes`` are bytes of elements."""
    along, held = several_along(images, lanes), len(images) * sum(sizes)
    while edge > 1 and held * prod([min(edge, extents[a]) for a in along]) > CACHE_SHARE:
        edge //= 2
    return edge
