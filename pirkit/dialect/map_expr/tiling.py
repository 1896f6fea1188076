"""Tiled nests: statements that are computed tile by tile, for values that are read transposed.

A value held in tiles is computed one tile at a time, and its readers run while the tile is in
cache. Readers may access it only at permutations of their own iterators, so statements that are
linked by such reads have a common *frame*: a set of axes over which each statement iterates in its
own order. If a value is read in two orders, as in ``v[i0, i1] + v[i1, i0]``, one tile is not
enough: the frame has *images*, a group of permutations of its axes. One tiled iteration computes a
tile together with all its images before any of them is read, so each element is computed once::

    value float32[8, 8] of o1 stage 0 tile [4, 4]
      t0 = pd_op.tanh(x0[i0, i1], {}, float32)
      give t0
    value float32[8, 8] of o3 stage 1
      t0 = pd_op.add(v0[i0, i1], v0[i1, i0], {}, float32)
      give t0

has the tiled iterations (0, 0); (0, 1) with (1, 0); (1, 1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Load
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Index, space

Axes = tuple[int, ...]
"""A map from axes to axes; -1 for an axis of one element."""


MAX_BYTES_IN_TILES: Final = 1 << 23
"""Largest size in bytes of all tiles that are live at once."""
MAX_IMAGES: Final = 6
"""Largest number of tiles of one value that are live at once."""


class Untiled(Exception):
    """Statements cannot be in one tiled nest; the message is the reason."""


class Frame(Struct, frozen=True):
    """Consecutive statements that are in one tiled nest.

    ``axes`` maps the axes of each statement to axes of the frame. In image ``k``, the tile
    coordinate of axis ``a`` is the one that axis ``images[k][a]`` has in the first image.
    """

    extents: tuple[int, ...]
    axes: dict[int, Axes]
    images: tuple[Axes, ...]

    @property
    def statements(self) -> list[int]:
        """The numbers of its statements, in order."""
        return sorted(self.axes)

    def image_of(self, reader: int, number: int, index: Index) -> int:
        """The image of a value that a reader accesses from its first image."""
        permuted = _order(index, self.axes[reader])
        held = {a: t for a, t in zip(self.axes[number], permuted, strict=True) if a >= 0}
        return self.images.index(tuple([held[a] for a in range(len(self.extents))]))

    def after(self, image: int, other: int) -> int:
        """The composition of two images."""
        return self.images.index(_after(self.images[image], self.images[other]))


def permutes(reader: Sequence[int], index: Index, shape: Sequence[int]) -> bool:
    """True if an index is a permutation of the reader's iterators and covers all elements of
    ``shape``; axes of one element are ignored.
    """
    here = [e for e in space(reader) if e.iter is not None]
    held = [(e, n) for e, n in zip(index, shape, strict=True) if n != 1]
    if len(held) != len(here) or {e for e, _ in held} != set(here):
        return False
    return all(e.iter is not None and e.iter.extent == n for e, n in held)


def is_plain(statement: Statement) -> bool:
    """True for an elementwise statement (no reduction, no scatter) without an iteration mapping."""
    return not statement.reduction and statement.start is None and statement.rows is None


def frames_of(kernel: MapExpr, tiled: Collection[int]) -> list[Frame]:
    """The frames of tiled values, in order. Raises Untiled if a read is not a permutation."""
    if not all(map(is_plain, _tiled_statements(kernel, tiled))):
        raise Untiled("what is reduced, or shares loops of rows, is not held in tiles")
    if any(is_sized(n) for s in _tiled_statements(kernel, tiled) for n in s.meta.shape):
        raise Untiled("the size of what would be held in tiles is known only at run time")
    count = len(kernel.inputs)
    ties: dict[int, list[tuple[int, int, Index]]] = {k: [] for k in tiled}
    for reader, statement in enumerate(kernel.statements):
        for load in _tiled_loads(statement, count, tiled):
            shape = kernel.meta(load.source).shape
            fits = is_plain(statement) and len(load.index) == len(shape)
            if not fits or not permutes(statement.meta.shape, load.index, shape):
                raise Untiled(f"v{reader} reads v{load.source - count} at no permutation")
            tie = (reader, load.source - count, load.index)
            ties.setdefault(reader, []).append(tie)
            ties[load.source - count].append(tie)
    found: list[Frame] = []
    left = set(ties)
    while left:
        frame = _frame(kernel, max(left), ties)
        left -= frame.axes.keys()
        found.append(frame)
    for frame in found:
        _check_order(kernel, frame, tiled)
    return sorted(found, key=lambda f: f.statements[0])


def tiles_of(kernel: MapExpr) -> list[Frame]:
    """The frames of a kernel, by the ``tile`` of its statements. Raises Untiled."""
    tiled = [k for k, s in enumerate(kernel.statements) if s.tile]
    frames = frames_of(kernel, tiled) if tiled else []
    for frame in frames:
        block_of(kernel, frame)
    return frames


def block_of(kernel: MapExpr, frame: Frame) -> tuple[int, ...]:
    """The tile shape along the axes of a frame. Raises Untiled if the tiles of its statements
    differ or are too large.
    """
    found: dict[int, int] = {}
    for number, axes in frame.axes.items():
        tile = kernel.statements[number].tile
        if not tile:
            continue
        if len(tile) != len(axes) or any(n < 1 for n in tile):
            raise Untiled(f"v{number} has no such tiles as {list(tile)}")
        for a, n in zip(axes, tile, strict=True):
            if (n != 1) if a < 0 else (found.setdefault(a, n) != n):
                raise Untiled(f"v{number} has other tiles than what it is read with")
    block = tuple([min(found[a], n) for a, n in enumerate(frame.extents)])
    sizes = [kernel.statements[k].meta.dtype.itemsize for k in frame.axes]
    if prod(block) * sum(sizes) * len(frame.images) > MAX_BYTES_IN_TILES:
        raise Untiled("tiles are larger than what is held in a cache")
    if any(block[a] != n for image in frame.images for a, n in zip(image, block, strict=True)):
        raise Untiled("tiles that are read transposed are not as long as they are wide")
    return block


def problems_of_tiles(kernel: MapExpr) -> Iterator[str]:
    """Messages about invalid tiles of a kernel."""
    try:
        tiles_of(kernel)
    except Untiled as why:
        yield str(why)


def _tiled_statements(kernel: MapExpr, tiled: Collection[int]) -> list[Statement]:
    return [kernel.statements[k] for k in tiled]


def _tiled_loads(statement: Statement, count: int, tiled: Collection[int]) -> Iterator[Load]:
    return (n for n in statement.loads() if n.source >= count and n.source - count in tiled)


def _order(index: Index, axes: Axes) -> Axes:
    """The frame's axis of each axis of a value, given the reader's axes."""
    own = {f"i{k}": a for k, a in enumerate(axes)}
    return tuple([own[e.iter.name] if e.iter is not None else -1 for e in index])


def _after(first: Axes, then: Axes) -> Axes:
    return tuple([first[a] for a in then])


def _frame(
    kernel: MapExpr, start: int, ties: dict[int, list[tuple[int, int, Index]]]
) -> Frame:  # fmt: skip
    """The frame of a statement and all statements tied to it, with the axes in its order."""
    shape = kernel.statements[start].meta.shape
    places = [k for k, n in enumerate(shape) if n != 1]
    if not places:
        raise Untiled("a single element has no tiles")
    axes = {start: tuple([places.index(k) if k in places else -1 for k in range(len(shape))])}
    stack, orders = [start], set[Axes]()
    while stack:
        number = stack.pop()
        for reader, source, index in ties[number]:
            if reader in axes:
                permuted = _order(index, axes[reader])
                if source not in axes:
                    axes[source] = permuted
                    stack.append(source)
                # a second path to the value: the difference of the two orders generates images
                held = {a: t for a, t in zip(axes[source], permuted, strict=True) if a >= 0}
                orders.add(tuple([held[a] for a in range(len(places))]))
            else:
                held = {e.iter.name: a for e, a in zip(index, axes[source], strict=True) if e.iter}
                own = range(len(kernel.statements[reader].meta.shape))
                axes[reader] = tuple([held.get(f"i{k}", -1) for k in own])
                stack.append(reader)
    extents = tuple([shape[k] for k in places])
    return Frame(extents, axes, closed(orders, len(places)))


def closed(orders: Iterable[Axes], rank: int) -> tuple[Axes, ...]:
    """The group generated by some permutations, the identity first. Raises Untiled if it has more
    than ``MAX_IMAGES`` elements.
    """
    found = {tuple(range(rank)): None}
    stack = list(found)
    while stack:
        held = stack.pop()
        for made in (_after(held, tile_iteration) for tile_iteration in sorted(orders)):
            if made not in found:
                found[made] = None
                stack.append(made)
        if len(found) > MAX_IMAGES:
            raise Untiled(f"it is read in more than {MAX_IMAGES} orders")
    return tuple(sorted(found))


def _check_order(kernel: MapExpr, frame: Frame, tiled: Collection[int]) -> None:
    """Check that the statements of a frame are consecutive and read only tiled values of each
    other. Raises Untiled.
    """
    numbers: Sequence[int] = frame.statements
    if numbers[-1] - numbers[0] >= len(numbers):
        raise Untiled(f"a statement that has no tiles is between v{numbers[0]} and v{numbers[-1]}")
    count = len(kernel.inputs)
    for k in numbers:
        shape = kernel.statements[k].meta.shape
        extents = [frame.extents[a] if a >= 0 else 1 for a in frame.axes[k]]
        if extents != list(shape):
            raise Untiled(f"v{k} has other loops than what it is read with")
        for load in kernel.statements[k].loads():
            if load.source - count in frame.axes and load.source - count not in tiled:
                raise Untiled(f"v{k} reads v{load.source - count}, which is not held in tiles")
