"""Selects the values that a kernel holds in tiles, the tile sizes, and the order of statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tiling import Frame, Untiled, frames_of, is_plain, permutes, tiles_of
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Index, space
from pirkit.lowering.fusion.groups import Group
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.materialize import (
    MIN_TILE_EDGE,
    TILE_EDGE,
    WIDE_TILE_EDGE,
    choose_for,
    edge_of,
    several_along,
)
from pirkit.lowering.fusion.uses import Reader

VISIT_LIMIT: Final = 2048
"""Largest product of a kernel's ops and results for which shared values are searched."""


def tile_more(
    group: Group, wanted: Sequence[Unit], is_free: Callable[[SSAValue], bool]
) -> None:  # fmt: skip
    """Add tiles for values that the results need in different loop orders, where that pays.

    Candidates are a result that another one reads transposed, a common operand of two results, and
    a value whose many operands would each be read transposed.
    """
    if group.is_straight or len(wanted) * len(group.units) > VISIT_LIMIT:
        return
    units = group.units
    if any(u.is_reduction or any(map(is_sized, u.meta.shape)) for u in units.values()):
        return
    # Tiled values change the orders in which others are needed, so these are computed again.
    visited: set[SSAValue] = set()
    while _tile_one(group, _in_orders(wanted, group, is_free), visited, is_free):
        continue


def _tile_one(
    group: Group,
    found: Mapping[SSAValue, tuple[Unit, Sequence[Index]]],
    visited: set[SSAValue],
    is_free: Callable[[SSAValue], bool],
) -> bool:
    """Tile the last value for which it pays; False if there is none."""
    units = group.units
    for value in sorted(found.keys() - visited, key=lambda v: -units[v].order):
        visited.add(value)
        last, indices = found[value]
        needs = Reader(units[value], units, group.tiles, is_free).needs()
        if needs is None:
            continue
        choice = choose_for(units[value], last, needs, units, indices)
        if choice.way == "tile":
            group.choices.append(choice)
            group.tiles[value] = round(choice.again)
            return True
    return False


def _in_orders(
    wanted: Sequence[Unit], group: Group, is_free: Callable[[SSAValue], bool]
) -> dict[SSAValue, tuple[Unit, Sequence[Index]]]:  # fmt: skip
    """Values that results need in several loop orders, or in an order other than their own, with
    the last of these results and the indices at which they are needed.
    """
    indices: dict[SSAValue, dict[Index, None]] = {}
    readers: dict[SSAValue, Unit] = {}
    excluded: set[SSAValue] = set()
    for unit in wanted:
        indices.setdefault(unit.result, {})[space(unit.meta.shape)] = None
        reader = Reader(unit, group.units, group.tiles, is_free)
        needs = reader.needs()
        if needs is None:
            return {}
        for value, at in needs.members.items():
            indices.setdefault(value, {}).update(at)
            readers[value] = unit
            if not reader.permute(group.units[value], at):
                excluded.add(value)
    return {
        v: (readers[v], tuple(at))
        for v, at in indices.items()
        if v in readers
        and (len(at) > 1 or _is_permuted(readers[v].meta.shape, at))
        and v not in excluded
        and v not in group.tiles
        and group.units[v].computes
    }


def _is_permuted(reader: Sequence[int], indices: Iterable[Index]) -> bool:
    """Whether the last axis of some index is not the reader's last axis (a strided access)."""
    last = [e.iter for e in space(reader) if e.iter is not None][-1:]
    return any([e.iter for e in index if e.iter is not None][-1:] != last for index in indices)


def with_tiles(kernel: MapExpr, in_tiles: Collection[int]) -> MapExpr:
    """The kernel with the given statements, and those tied to them, computed tile by tile.

    Statements of one tiled nest are moved next to each other. Raises Untiled.
    """
    ties = _ties(kernel)
    tied = _tied(in_tiles, ties)
    held = {source for group in tied for _, source in ties if source in group}
    order = _grouped(kernel, tied)
    kernel = _ordered(kernel, order)
    held = {order.index(k) for k in held}
    statements = list(kernel.statements)
    for frame in frames_of(kernel, held):
        block = _block(kernel, frame, held)
        for k in held & frame.axes.keys():
            tile = tuple([block[a] if a >= 0 else 1 for a in frame.axes[k]])
            statements[k] = replace(statements[k], tile=tile)
    made = replace(kernel, statements=tuple(_staged(kernel, statements)))
    tiles_of(made)
    return made


def _grouped(kernel: MapExpr, tied: Sequence[set[int]]) -> list[int]:
    """An order in which tied statements stand together, after all that does not read them.

    Raises Untiled if a statement that reads one of them is read by another one.
    """
    count = len(kernel.inputs)
    reads = [{d.source - count for d in s.loads()} for s in kernel.statements]
    waiting = [{k} for k in range(len(reads)) if not any(k in group for group in tied)] + [*tied]
    order: dict[int, None] = {}
    while waiting:
        for group in waiting:
            if all(k < 0 or k in group or k in order for one in group for k in reads[one]):
                break
        else:
            raise Untiled("a statement reads one of a tiled nest and is read by another one")
        waiting.remove(group)
        order.update(dict.fromkeys(sorted(group)))
    return list(order)


def _staged(kernel: MapExpr, statements: Iterable[Statement]) -> list[Statement]:
    """Statements that read what is now in tiles, other than where they are, wait for all of it."""
    found: list[Statement] = []
    for statement in statements:
        stage = statement.stage
        for load in statement.loads():
            if load.source >= len(kernel.inputs):
                source = found[load.source - len(kernel.inputs)]
                moves = load.index != space(statement.meta.shape)
                waits = source.reduction or (source.tile and moves)
                stage = max(stage, source.stage + bool(waits))
        found.append(replace(statement, stage=stage))
    return found


def _ties(kernel: MapExpr) -> list[tuple[int, int]]:
    """Pairs of a statement and a statement that it reads by a permutation of its loops; both can
    then be in one tiled nest.
    """
    count = len(kernel.inputs)
    found: dict[tuple[int, int], None] = {}
    excluded: set[int] = set()
    for reader, statement in enumerate(kernel.statements):
        for load in statement.loads():
            if load.source < count:
                continue
            source = kernel.statements[load.source - count]
            fits = permutes(statement.meta.shape, load.index, source.meta.shape)
            if fits and is_plain(statement) and is_plain(source):
                found[reader, load.source - count] = None
            else:
                excluded.add(load.source - count)
    return [(reader, source) for reader, source in found if source not in excluded]


def _tied(in_tiles: Collection[int], ties: list[tuple[int, int]]) -> list[set[int]]:
    """The connected components of the ties that contain a tiled statement."""
    near: dict[int, list[int]] = {}
    for one, other in ties:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    found: list[set[int]] = []
    for start in sorted(in_tiles):
        if start not in near or any(start in group for group in found):
            continue
        group, stack = {start}, [start]
        while stack:
            for other in near[stack.pop()]:
                if other not in group:
                    group.add(other)
                    stack.append(other)
        found.append(group)
    return found


def _block(kernel: MapExpr, frame: Frame, held: Collection[int]) -> list[int]:
    """The tile shape along the axes of a frame."""
    lanes = {next(a for a in reversed(axes) if a >= 0) for axes in frame.axes.values()}
    sizes = [kernel.statements[k].meta.dtype.itemsize for k in frame.axes if k in held]
    along = several_along(frame.images, lanes)
    is_permuted = len(frame.images) > 1 or len(lanes) > 1
    most = TILE_EDGE if is_permuted else WIDE_TILE_EDGE
    # A tile that is read transposed has both of its edges in the cache; others may be wider.
    edge = max(MIN_TILE_EDGE, edge_of(frame.extents, frame.images, lanes, sizes, most))
    return [min(edge, n) if a in along else 1 for a, n in enumerate(frame.extents)]


def _ordered(kernel: MapExpr, order: list[int]) -> MapExpr:
    """The kernel with its statements reordered."""
    count = len(kernel.inputs)
    places = {count + k: count + place for place, k in enumerate(order)}
    moved = [kernel.statements[k].with_sources(lambda s: places.get(s, s)) for k in order]
    outputs = tuple([order.index(k) for k in kernel.outputs])
    return replace(kernel, statements=tuple(moved), outputs=outputs)
