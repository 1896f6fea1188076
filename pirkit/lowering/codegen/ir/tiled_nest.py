"""Loop nests that run over cache-sized tiles: values read transposed are staged in scratch tiles.

A tile of the common iteration space is processed together with its *images*, the tiles that the
axis permutations ``images`` map it to (`dialect/map_expr/tiling.py`): for ``x + x.T`` tile (i, j)
together with tile (j, i). Each phase runs at all images of a group before the next phase does.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loopnest import Kernel, Operand, Statement, with_numbered_names
from pirkit.runtime.dtype import DType

Axes = tuple[int, ...]


class Tile(Struct, frozen=True):
    """A value in scratch tiles; its axes are those of the iteration space, -1 for extent 1."""

    dtype: DType
    axes: Axes


class TileAccess(Struct, frozen=True):
    """The tile that a phase reads or writes, relative to the image at which the phase runs."""

    tile: int
    image: int


class TilePhase(Struct, frozen=True):
    """An elementwise nest over a tile; ``axes`` maps its axes to those of the iteration space.

    ``places`` gives for each operand of the nest an operand of the `TiledNest`, or a tile.
    """

    kernel: Kernel
    axes: Axes
    places: tuple[int | TileAccess, ...]


class TiledNest(Struct, frozen=True):
    """Phases over the tiles (``block``) of an iteration space (``extents``) and their images."""

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
        """Units of work, one per tile; of a tile and its images all but one do nothing."""
        return prod(self.counts)

    @property
    def iterations(self) -> int:
        """Iterations of all phases."""
        return sum(phase.kernel.iterations for phase in self.phases)

    def statements(self) -> Iterator[Statement]:
        for phase in self.phases:
            yield from phase.kernel.statements()

    def numbered(self) -> TiledNest:
        """The nest with numbers for names: nests that differ in names alone become equal."""
        phases = [replace(p, kernel=with_numbered_names(p.kernel)) for p in self.phases]
        return replace(self, phases=tuple(phases))
