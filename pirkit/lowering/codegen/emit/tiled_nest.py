"""Loop nests that go through tiles: what is read turned lives in scratch memory, in the caches.

A *turn* is a tile of the frame together with its images (`dialect/map_expr/tiling.py`). A phase is
computed at all images of the turn before the next one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Operand,
    Statement,
    with_numbered_names,
)
from pirkit.lowering.codegen.math.primitives import element
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A value in tiles: its axes are those of the frame, -1 where there is one element."""

    dtype: DType
    axes: Axes


@dataclass(frozen=True, slots=True)
class TileAccess:
    """The tile that a phase reads or writes, as seen from the image where the phase is."""

    tile: int
    image: int


@dataclass(frozen=True, slots=True)
class TilePhase:
    """An elementwise nest over a tile; ``axes`` are those of the frame that its own go along.

    ``places`` tell of each operand of the nest which of the whole it is, or which tile.
    """

    kernel: Kernel
    axes: Axes
    places: tuple[int | TileAccess, ...]


@dataclass(frozen=True, slots=True)
class TiledNest:
    """Phases over the tiles of a frame; in each of ``images`` its axes are in another order."""

    extents: tuple[int, ...]
    block: tuple[int, ...]
    images: tuple[Axes, ...]
    operands: tuple[Operand, ...]
    tiles: tuple[Tile, ...]
    phases: tuple[TilePhase, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return tuple([-(-n // size) for n, size in zip(self.extents, self.block, strict=True)])

    @property
    def blocks(self) -> int:
        """Independent pieces of work, those too that are images of others and so nothing."""
        return prod(self.counts)

    def statements(self) -> Iterator[Statement]:
        for phase in self.phases:
            yield from phase.kernel.statements()

    def numbered(self) -> TiledNest:
        """With numbers for names: nests that differ in names alone become equal."""
        phases = [replace(p, kernel=with_numbered_names(p.kernel)) for p in self.phases]
        return replace(self, phases=tuple(phases))


def lanes_of(tiled: TiledNest, target: Target) -> int:
    """As many lanes as the widest element type fills a register with."""
    found: set[DType] = {t.dtype for t in tiled.tiles} | {o.dtype for o in tiled.operands}
    for s in tiled.statements():
        if isinstance(s, (Compute, Constant, Index)):
            found.add(s.dtype)
    widest = max(4 if element(d) == "float" else d.itemsize for d in found)
    return max(2, target.vector_bits // (8 * widest))
