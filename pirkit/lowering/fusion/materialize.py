"""Chooses for a value needed at several indices: recompute it, hold it in tiles, or store it.

The choice compares the costs per element, in units of one scalar addition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import factorial, prod
from typing import Final

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.tiling import MAX_IMAGES, Axes, Untiled, closed
from pirkit.dialect.operation import describe
from pirkit.index.extent import expected, is_sized
from pirkit.index.index_maps import Index, Iter, space
from pirkit.lowering.fusion.index_conflicts import cost_of
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.uses import Needs, Reader
from pirkit.runtime.machine_costs import (
    LAUNCH_ADDS,
    MEMORY_BYTE_ADDS,
    NEAR_STRIDE,
    PERMUTED_READ_ADDS,
    TILED_BYTE_ADDS,
    TILED_ELEMENT_ADDS,
)

TILE_EDGE: Final = 64
"""Largest number of elements of a tile along an axis."""
WIDE_TILE_EDGE: Final = 1024
"""The same, if no access is transposed."""
MIN_TILE_EDGE: Final = 16
"""Tiles with fewer elements along an axis do not pay."""
CACHE_SHARE: Final = 1 << 18
"""Largest size in bytes of all tiles that are live at once: their share of L2."""


class Choice(Struct, frozen=True):
    """The decision for values that ``reader`` needs at several indices.

    ``way`` is ``again`` (recompute), ``tile``, or ``cut`` (store, which splits the kernel). Costs
    are additions per element; ``tile`` is None if tiles are not possible, for the reason ``why``.
    """

    way: str
    values: tuple[Unit, ...]
    reader: Unit
    again: float
    is_allowed: bool
    """Whether the cost of recomputation is within the policy's limit."""
    tile: float | None
    cut: float
    why: str = ""

    @property
    def costs(self) -> str:
        """The three costs as text."""
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
    """The cheapest choice. ``limit`` bounds the additions per element of a recomputation; tiles
    are considered only if ``allowed``.
    """
    cost = reader.additions(needs)
    is_allowed = cost <= limit
    reads = ((needs.sizes[v], len(at) - 1) for v, at in needs.others.items())
    again = cost + sum((size * MEMORY_BYTE_ADDS + PERMUTED_READ_ADDS) * n for size, n in reads)
    tiled = reader.needs(tile=True)
    why = "not allowed" if not allowed else _why_no_tile(reader, tiled, limit)
    values = [] if tiled is None or why else tiled.tiles
    if not values:
        several = (reader.members[v] for v, at in needs.members.items() if len(at) > 1)
        values = [u for u in several if u.computes][:1]
    sizes = [u.meta.dtype.itemsize for u in values]
    in_tiles = sum(PERMUTED_READ_ADDS + TILED_ELEMENT_ADDS + TILED_BYTE_ADDS * n for n in sizes)
    tile = None if why or tiled is None else in_tiles + reader.additions(tiled)
    count = max(1, expected(prod(reader.unit.meta.shape)))
    # each stored byte is written once and read at two indices, one of them strided
    cut = sum(PERMUTED_READ_ADDS + 3 * MEMORY_BYTE_ADDS * n for n in sizes) + LAUNCH_ADDS / count
    if is_allowed:
        way = "again" if tile is None or again <= tile else "tile"
    else:
        way = "tile" if tile is not None and tile <= cut else "cut"
    return Choice(way, tuple(values), reader.unit, again, is_allowed, tile, cut, why)


def choose_for(
    value: Unit,
    last: Unit,
    again: Needs,
    members: Mapping[SSAValue, Unit],
    indices: Sequence[Index],
) -> Choice:
    """The choice between tiles and recomputation for a value that several results need, each in
    its own loop order, at one of the ``indices``; ``again`` are the reads of one recomputation,
    ``last`` one of the results.

    A value needed in a single order other than its own would read its operands transposed: then
    the cost of these strided reads is compared with one transposition through a tile.
    """
    times = len(indices)
    chain = (members[v] for v in again.members)
    once = cost_of(value) + sum(cost_of(u) for u in chain if not u.is_reduction)
    reads = sum(n * MEMORY_BYTE_ADDS + PERMUTED_READ_ADDS for n in again.sizes.values())
    along = _strided_axes(value, last, indices[0])
    permuted = sum(
        bool(along) and along <= {i for at in held for e in at for i in e.iters}
        for held in again.others.values()
    )
    size = value.meta.dtype.itemsize
    tile = PERMUTED_READ_ADDS + TILED_ELEMENT_ADDS + TILED_BYTE_ADDS * size
    count = max(1, expected(prod(value.meta.shape)))
    cost = (times - 1) * (once + reads) if times > 1 else PERMUTED_READ_ADDS * permuted
    cut = PERMUTED_READ_ADDS + 3 * MEMORY_BYTE_ADDS * size + LAUNCH_ADDS / count
    way = "tile" if tile < cost else "again"
    return Choice(way, (value,), last, cost, True, tile, cut)


def _strided_axes(value: Unit, last: Unit, index: Index) -> set[Iter]:
    """The axes along which an operand varies if ``last`` reads it with strides: the last axis of
    the value, and the one of the lanes. Empty if the strides are small enough for shuffles.
    """
    lanes = [e.iter for e in space(last.meta.shape) if e.iter is not None][-1:]
    own = space(value.meta.shape)
    axes = [e.iter for e in own if e.iter is not None][-1:]
    extents = [n for n, e in zip(value.meta.shape, own, strict=True) if e.iter is not None]
    if not axes or extents[-1] <= NEAR_STRIDE:
        return set()
    axes += [e.iter for e, at in zip(own, index, strict=True) if e.iter and at.iter in lanes]
    return set(axes)


def _why_no_tile(reader: Reader, tiled: Needs | None, limit: int) -> str:
    """Why tiles cannot hold what is needed at several indices; empty if they can."""
    shape = reader.unit.meta.shape
    if reader.reduces:
        return "the kernel reduces elements"
    if any(map(is_sized, shape)):
        return "sizes are known only at run time"
    if tiled is None or not tiled.tiles:
        return "the indices differ by more than the order of loops"
    if reader.additions(tiled) > limit:
        return "other values would have to be computed again"
    extents = [n for n in shape if n != 1]
    if not extents:
        return "one element needs no order of loops"
    in_tiles = [reader.members[v] for v in tiled.members if v in reader.in_tiles]
    orders = [reader.orders(tiled.members[u.result]) for u in (*in_tiles, *tiled.tiles)]
    parallel_iterations = [_transposition(some[0], other) for some in orders for other in some[1:]]
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
    """The permutation that maps one order of axes to another."""
    held = dict(zip(first, other, strict=True))
    return tuple([held[a] for a in range(len(first))])


def several_along(images: Sequence[Axes], lanes: Collection[int]) -> list[int]:
    """Axes along which a tile has several elements: permuted axes, and those in vector lanes."""
    return [a for a in range(len(images[0])) if a in lanes or any(i[a] != a for i in images)]


def edge_of(
    extents: Sequence[int],
    images: Sequence[Axes],
    lanes: Collection[int],
    sizes: Iterable[int],
    edge: int = TILE_EDGE,
) -> int:
    """The largest edge, up to ``edge``, with which all tiles fit `CACHE_SHARE`; ``sizes`` are the
    element sizes in bytes.
    """
    along, held = several_along(images, lanes), len(images) * sum(sizes)
    while edge > 1 and held * prod([min(edge, extents[a]) for a in along]) > CACHE_SHARE:
        edge //= 2
    return edge
