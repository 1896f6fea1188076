"""Loops in order, and where the values between them are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from pirkit.lowering.codegen.primitives import is_costly
from pirkit.lowering.whole_program.stages import Group, Node, Stages, Sum

_LINE: Final = 64
_MOST_IN_BLOCK: Final = 8
_BLOCK_BYTES: Final = 1 << 19
"""Rows of a block, which stay in the second cache between the loops and the sums."""
_APART: Final = 4096
"""CPUs fetch ahead up to the end of a page: what lies behind belongs to another thread."""
_BEHIND: Final = 12
"""Operations behind a slow function that are worth a loop of their own."""


@dataclass(slots=True, eq=False)
class Item:
    """Nodes that share a loop, products with one matrix, a single node, or a sum over points."""

    nodes: tuple[Node, ...] = ()
    sum: Sum | None = None

    def defines(self) -> set[int]:
        return {n.op.out for n in self.nodes}

    def reads(self) -> set[int]:
        if self.sum is not None:
            return {v for pair in self.sum.terms for v in pair if v is not None}
        return {a for n in self.nodes for a in n.op.args}

    def first_read(self, value: int) -> int:
        """The position of the node that reads a value; those behind it find it in a register."""
        return next((j for j, n in enumerate(self.nodes) if value in n.op.args), 0)

    @property
    def first(self) -> Node:
        return self.nodes[0]


@dataclass(slots=True)
class Loops:
    """What the points of a group go through.

    ``block`` vectors of points go through the loops ``inside`` one by one, then the ``sums`` over
    them follow for all of these vectors at once. A group of one vector has its sums ``inside``.
    A thread needs ``scratch`` bytes for rows between the loops. Rows that sums read are there for
    all vectors of a block: a column of one is ``apart`` vectors behind the column before.
    """

    group: Group
    vectors: int
    inside: list[Item]
    sums: list[Item]
    block: int = 1
    scratch: int = 0

    @property
    def apart(self) -> int:
        """An odd number: the columns of one vector are in all sets of a cache."""
        return self.block | 1

    def items(self) -> list[Item]:
        return [*self.inside, *self.sums]


@dataclass(slots=True)
class Order:
    """Loops ``before`` the points, those of each group, and ``after`` them.

    ``rows`` are bytes of scratch memory at which rows lie between loops, those in ``blocks`` for
    all vectors of a block; rows of one loop lie behind each other in ``frames``. ``whole`` are
    bytes of the workspace; what is in none of them is in registers, an input or a result. ``kept``
    are the values that somebody outside of their own loop reads.
    """

    stages: Stages
    before: list[Item]
    groups: list[Loops]
    after: list[Item]
    kept: set[int] = field(default_factory=set[int])
    rows: dict[int, int] = field(default_factory=dict[int, int])
    frames: dict[int, int] = field(default_factory=dict[int, int])
    blocks: dict[int, Loops] = field(default_factory=dict[int, Loops])
    whole: dict[int, int] = field(default_factory=dict[int, int])
    whole_bytes: int = 0

    def items(self) -> Iterator[Item]:
        yield from self.before
        yield from self.points()
        yield from self.after

    def points(self) -> Iterator[Item]:
        """What points go through, group by group."""
        for loops in self.groups:
            yield from loops.items()

    def reserve(self, nbytes: int) -> int:
        """Bytes of the workspace, whole lines and one more for vectors that reach beyond."""
        start = self.whole_bytes
        self.whole_bytes += -(-nbytes // _LINE) * _LINE + _LINE
        return start


def order_of(stages: Stages, lanes: int) -> Order:
    """Put stages into loops and give every value a place."""
    groups = [_loops(group, lanes) for group in stages.groups if group.inside or group.sums]
    before, after = (_whole_items(stages, nodes) for nodes in (stages.before, stages.after))
    made = Order(stages, before, groups, after)
    for item in made.items():
        own = item.defines()
        made.kept |= item.reads() - own
    made.kept -= set(stages.graph.outputs) - stages.rows.keys()
    for loops in groups:
        _place_rows(made, loops, lanes)
    graph = stages.graph
    for item in (*made.before, *made.after):
        for node in item.nodes:
            value = node.op.out
            if value in made.kept:
                meta = graph.metas[value]
                made.whole[value] = made.reserve(meta.numel * meta.dtype.itemsize)
    return made


def _items(nodes: Sequence[Node]) -> list[Item]:
    found: list[Item] = []
    for (_, kind, _), some in groupby(nodes, lambda n: (n.stage, n.kind, n.key)):
        group = tuple(some)
        if kind == "map":
            found.append(Item(group))
        elif kind == "matmul":
            same: dict[object, list[Node]] = defaultdict(list)
            for node in group:
                same[node.op.args[1], node.op.attrs["transpose_y"]].append(node)
            found += [Item(tuple(alike)) for alike in same.values()]
        else:
            found += [Item((n,)) for n in group]
    return found


def _whole_items(stages: Stages, nodes: Sequence[Node]) -> list[Item]:
    """Loops over what is no row; networks update each of their weights in one of its own."""
    items = _items(nodes)
    if not stages.multiplies:
        return items
    return [part for item in items for part in _components(stages, item)]


def _components(stages: Stages, item: Item) -> list[Item]:
    """Nodes that read the same elements, or what others of them define, apart from the others."""
    if item.first.kind != "map" or item.first.key == (1,):
        return [item]
    graph = stages.graph
    found: list[tuple[set[int], list[Node]]] = []
    for node in item.nodes:
        read = {a for a in node.op.args if a not in graph.fills and graph.metas[a].numel > 1}
        joined = [each for each in found if each[0].intersection(read)]
        found = [each for each in found if each not in joined]
        values = read.union([node.op.out], *[values for values, _ in joined])
        found.append((values, [*[n for _, nodes in joined for n in nodes], node]))
    return [Item(tuple(nodes)) for _, nodes in found]


def _loops(group: Group, lanes: int) -> Loops:
    inside = [part for item in _items(group.inside) for part in _split(item)]
    vectors = -(-group.points // lanes)
    if vectors == 1:
        return Loops(group, vectors, _with_sums(inside, group.sums), [])
    return Loops(group, vectors, inside, [Item(sum=s) for s in group.sums])


def _with_sums(items: list[Item], sums: Sequence[Sum]) -> list[Item]:
    """Loops over rows, each sum over points as soon as all that it reads is there."""
    where = {v: k for k, item in enumerate(items) for v in item.defines()}
    due: dict[int, list[Item]] = defaultdict(list)
    for each in sums:
        item = Item(sum=each)
        due[max((where.get(v, -1) for v in item.reads()), default=-1)].append(item)
    found = due[-1]
    for k, item in enumerate(items):
        found += [item, *due[k]]
    return found


def _split(item: Item) -> Iterator[Item]:
    """A loop in two where much follows slow functions.

    A CPU looks ahead over some hundred instructions: it hides how long a function takes behind
    other columns only while the rest of a column is short.
    """
    slow = [n for n in item.nodes if is_costly(n.op.name)]
    first: set[int] = {n.op.out for n in slow}
    for node in reversed(item.nodes):
        if node.op.out in first:
            first |= item.defines().intersection(node.op.args)
    rest = [n for n in item.nodes if n.op.out not in first]
    if not slow or len(rest) < _BEHIND:
        yield item
        return
    yield Item(tuple([n for n in item.nodes if n.op.out in first]))
    yield Item(tuple(rest))


def _place_rows(made: Order, loops: Loops, lanes: int) -> None:
    """Give rows that outlive their loop a place, which others get when nobody reads them more."""

    def size(value: int) -> int:
        graph = made.stages.graph
        return made.stages.columns(value) * lanes * graph.dtype(value).itemsize

    def room(value: int) -> int:
        """An odd number of lines: the same column of many rows is not in one set of a cache."""
        return -(-size(value) // _LINE) * _LINE | _LINE

    summed = {v for item in loops.sums for v in item.reads()}
    last: dict[int, int] = {}
    for k, item in enumerate(loops.inside):
        for value in item.reads():
            last[value] = k
    free: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    in_blocks: list[list[int]] = []
    for k, item in enumerate(loops.inside):
        values = [node.op.out for node in item.nodes]
        in_blocks.append([v for v in values if v in summed])
        kept = [v for v in values if v in made.kept and v not in summed]
        if kept:
            wanted = sum(map(room, kept))
            if free[wanted]:
                frame = free[wanted].pop()
            else:
                frame, loops.scratch = loops.scratch, loops.scratch + wanted
            ends[max(last[v] for v in kept)].append((wanted, frame))
            place = frame
            for value in kept:
                made.rows[value], made.frames[value] = place, frame
                place += room(value)
        for wide, frame in ends[k]:
            free[wide].append(frame)
    most = _BLOCK_BYTES // max(1, sum(size(v) for some in in_blocks for v in some))
    loops.block = max(1, min(_MOST_IN_BLOCK, most, loops.vectors))
    for some in in_blocks:
        frame = loops.scratch
        for value in some:
            made.rows[value], made.frames[value] = loops.scratch, frame
            made.blocks[value] = loops
            loops.scratch += -(-size(value) * loops.apart // _LINE) * _LINE
    loops.scratch = -(-loops.scratch // _APART) * _APART + _APART
