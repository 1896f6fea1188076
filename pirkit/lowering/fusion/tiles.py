"""Says in a kernel what is kept in tiles: which values, how large tiles are, in which order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tiling import Frame, frames_of, is_plain, permutes
from pirkit.dialect.map_expr.tree import Apply, Choose, Load, Node
from pirkit.lowering.fusion.staging import LEAST_EDGE, edge_of, several_along


def with_tiles(kernel: MapExpr, kept: Collection[int]) -> MapExpr:
    """The kernel with some of its values kept in tiles, and those that go through tiles with them.

    Statements that go through tiles together follow each other. Raises Untiled.
    """
    ties = _ties(kernel)
    together = _tied(kept, ties)
    held = {source for group in together for _, source in ties if source in group}
    order = [k for k in range(len(kernel.statements)) if not any(k in g for g in together)]
    order += [k for group in together for k in sorted(group)]
    kernel = _ordered(kernel, order)
    held = {order.index(k) for k in held}
    statements = list(kernel.statements)
    for frame in frames_of(kernel, held):
        block = _block(kernel, frame, held)
        for k in held & frame.axes.keys():
            tile = tuple([block[a] if a >= 0 else 1 for a in frame.axes[k]])
            statements[k] = replace(statements[k], tile=tile)
    return replace(kernel, statements=tuple(statements))


def _ties(kernel: MapExpr) -> list[tuple[int, int]]:
    """Statements that read a value only in loops of their own, and the values."""
    count = len(kernel.inputs)
    found: dict[tuple[int, int], None] = {}
    apart: set[int] = set()
    for reader, statement in enumerate(kernel.statements):
        for load in statement.loads():
            if load.source < count:
                continue
            source = kernel.statements[load.source - count]
            fits = permutes(statement.meta.shape, load.index, source.meta.shape)
            if fits and is_plain(statement) and is_plain(source):
                found[reader, load.source - count] = None
            else:
                apart.add(load.source - count)
    return [(reader, source) for reader, source in found if source not in apart]


def _tied(kept: Collection[int], ties: list[tuple[int, int]]) -> list[set[int]]:
    """The statements that are tied to what is kept, those together that are tied to each other."""
    near: dict[int, list[int]] = {}
    for one, other in ties:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    found: list[set[int]] = []
    for start in sorted(kept):
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
    """Elements of a tile along the axes of a frame."""
    lanes = {next(a for a in reversed(axes) if a >= 0) for axes in frame.axes.values()}
    sizes = [kernel.statements[k].meta.dtype.itemsize for k in frame.axes if k in held]
    along = several_along(frame.images, lanes)
    edge = max(LEAST_EDGE, edge_of(frame.extents, frame.images, lanes, sizes))
    return [min(edge, n) if a in along else 1 for a, n in enumerate(frame.extents)]


def _ordered(kernel: MapExpr, order: list[int]) -> MapExpr:
    """The kernel with its statements in another order."""
    count = len(kernel.inputs)
    places = {count + k: count + place for place, k in enumerate(order)}
    statements = tuple([_renumbered(kernel.statements[k], places) for k in order])
    outputs = tuple([order.index(k) for k in kernel.outputs])
    return replace(kernel, statements=statements, outputs=outputs)


def _renumbered(statement: Statement, places: dict[int, int]) -> Statement:
    made: dict[int, Node] = {}
    for node in statement.nodes():
        done: Node = node
        if isinstance(node, Load):
            done = Load(places.get(node.source, node.source), node.index)
        elif isinstance(node, Choose):
            done = Choose(node.guards, made[id(node.yes)], made[id(node.no)])
        elif isinstance(node, Apply):
            done = Apply(node.op, tuple([made[id(a)] for a in node.args]), node.dtype, node.attrs)
        made[id(node)] = done
    start = None if statement.start is None else made[id(statement.start)]
    return replace(statement, body=made[id(statement.body)], start=start)
