"""Fuses scheduled nodes into loops and allocates scratch memory for the values between loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, field

from pirkit.lowering.codegen.math.primitives import is_costly
from pirkit.lowering.whole_program.scheduling import BatchGroup, BatchSum, Node, ProgramSchedule

_LINE: Final = 64
_MAX_BLOCK_VECTORS: Final = 8
_BLOCK_BYTES: Final = 1 << 19
"""Bytes of the rows that the reductions of a block read: they must stay in L2 until then."""
_MIN_SPLIT: Final = 4096
"""Alignment of the scratch memory of a thread, a page: hardware prefetchers stop at the end of a
page, so they do not fetch lines that another thread writes."""
_MIN_TAIL: Final = 12
"""Operations after a costly function (such as `tanh`) that are worth a loop of their own."""


class FusedLoop(Struct, eq=False):
    """Elementwise nodes in one loop, matmuls by one matrix, one other node, or a `BatchSum`."""

    nodes: tuple[Node, ...] = ()
    sum: BatchSum | None = None

    def defines(self) -> set[int]:
        return {n.op.out for n in self.nodes}

    def reads(self) -> set[int]:
        if self.sum is not None:
            return {v for pair in self.sum.terms for v in pair if v is not None}
        return {a for n in self.nodes for a in n.op.args}

    def first_reads(self) -> dict[int, int]:
        """The position of the first node that reads a value; later ones have it in a register."""
        found = dict.fromkeys(self.reads(), 0) if self.sum is not None else dict[int, int]()
        for j, node in enumerate(self.nodes):
            for value in node.op.args:
                found.setdefault(value, j)
        return found

    @property
    def first(self) -> Node:
        return self.nodes[0]


class GroupLoops(Struct):
    """The loops of one batch group, tiled by blocks of vectors.

    Each of ``block`` vectors of batch rows runs through the loops ``body``; then the ``sums``
    reduce all vectors of the block at once, so that each tile of accumulators is loaded and stored
    once a block. A group of a single vector has its sums in ``body``.
    A thread needs ``scratch`` bytes for rows between the loops. Rows that sums read are
    materialized for the whole block; consecutive columns are ``column_stride`` vectors apart.
    """

    group: BatchGroup
    vectors: int
    body: list[FusedLoop]
    sums: list[FusedLoop]
    block: int = 1
    scratch: int = 0

    @property
    def column_stride(self) -> int:
        """An odd number of vectors, so that the columns of one vector map to all cache sets."""
        return self.block | 1

    def items(self) -> list[FusedLoop]:
        return [*self.body, *self.sums]


class FusedProgram(Struct):
    """The loops of a program, with the storage of each value that lives between loops.

    ``before`` and ``after`` are the loops over values without a batch axis, ``groups`` those over
    batch rows. ``materialized`` are the values that a loop other than their own reads. ``rows``
    gives their byte offset in the scratch memory of a thread; those in ``blocks`` are stored for
    all vectors of a block, and ``frames`` is the offset of the first row of the same loop.
    ``whole`` gives the byte offset in the workspace of a value without a batch axis. A value in
    none of these is an input, a result, or only in registers.
    """

    schedule: ProgramSchedule
    before: list[FusedLoop]
    groups: list[GroupLoops]
    after: list[FusedLoop]
    materialized: set[int] = field(default_factory=set[int])
    rows: dict[int, int] = field(default_factory=dict[int, int])
    frames: dict[int, int] = field(default_factory=dict[int, int])
    blocks: dict[int, GroupLoops] = field(default_factory=dict[int, GroupLoops])
    whole: dict[int, int] = field(default_factory=dict[int, int])
    whole_bytes: int = 0

    def items(self) -> Iterator[FusedLoop]:
        yield from self.before
        yield from self.batch()
        yield from self.after

    def batch(self) -> Iterator[FusedLoop]:
        """The loops over batch rows, group by group."""
        for loops in self.groups:
            yield from loops.items()

    def reserve(self, nbytes: int) -> int:
        """Reserve cache lines of the workspace, and one more that a last vector may overrun."""
        start = self.whole_bytes
        self.whole_bytes += -(-nbytes // _LINE) * _LINE + _LINE
        return start


def fuse_loops(schedule: ProgramSchedule, lanes: int) -> FusedProgram:
    """Fuse the nodes of each level into loops, and allocate what outlives its loop."""
    groups = [_loops(group, lanes) for group in schedule.groups if group.body or group.sums]
    before, after = (
        _elementwise_loops(schedule, nodes) for nodes in (schedule.before, schedule.after)
    )
    made = FusedProgram(schedule, before, groups, after)
    for item in made.items():
        own = item.defines()
        made.materialized |= item.reads() - own
    made.materialized -= set(schedule.graph.outputs) - schedule.rows.keys()
    for loops in groups:
        _allocate_rows(made, loops, lanes)
    graph = schedule.graph
    for item in (*made.before, *made.after):
        for node in item.nodes:
            value = node.op.out
            if value in made.materialized:
                meta = graph.metas[value]
                made.whole[value] = made.reserve(meta.numel * meta.dtype.itemsize)
    return made


def _row_loops(nodes: Sequence[Node]) -> list[FusedLoop]:
    found: list[FusedLoop] = []
    for (_, kind, _), group_nodes in groupby(nodes, lambda n: (n.level, n.kind, n.key)):
        group = tuple(group_nodes)
        if kind == "map":
            found.append(FusedLoop(group))
        elif kind == "matmul":
            # Matmuls with one matrix are one loop: a column of it is loaded once for all of them.
            by_matrix: dict[object, list[Node]] = defaultdict(list)
            for node in group:
                by_matrix[node.op.args[1], node.op.attrs["transpose_y"]].append(node)
            found += [FusedLoop(tuple(nodes_of_matrix)) for nodes_of_matrix in by_matrix.values()]
        else:
            found += [FusedLoop((n,)) for n in group]
    return found


def _elementwise_loops(schedule: ProgramSchedule, nodes: Sequence[Node]) -> list[FusedLoop]:
    """Loops over values without a batch axis; with matmuls, one for each independent component,
    such as the update of one weight.
    """
    items = _row_loops(nodes)
    if not schedule.has_matmul:
        return items
    return [part for item in items for part in _components(schedule, item)]


def _components(schedule: ProgramSchedule, item: FusedLoop) -> list[FusedLoop]:
    """The connected components of a loop: nodes linked by a value that they define or read."""
    if item.first.kind != "map" or item.first.key == (1,):
        return [item]
    graph = schedule.graph
    found: list[tuple[set[int], list[Node]]] = []
    for node in item.nodes:
        read = {a for a in node.op.args if a not in graph.fills and graph.metas[a].numel > 1}
        # The node joins all components that it touches: a union-find whose sets are few and small.
        related = [component for component in found if component[0].intersection(read)]
        found = [component for component in found if component not in related]
        values = read.union([node.op.out], *[values for values, _ in related])
        found.append((values, [*[n for _, nodes in related for n in nodes], node]))
    return [FusedLoop(tuple(nodes)) for _, nodes in found]


def _loops(group: BatchGroup, lanes: int) -> GroupLoops:
    inside = [part for item in _row_loops(group.body) for part in _split_loop(item)]
    vectors = -(-group.batch // lanes)
    if vectors == 1:
        return GroupLoops(group, vectors, _with_sums(inside, group.sums), [])
    return GroupLoops(group, vectors, inside, [FusedLoop(sum=s) for s in group.sums])


def _with_sums(items: list[FusedLoop], sums: Sequence[BatchSum]) -> list[FusedLoop]:
    """Loops over rows; each reduction runs as soon as all of its operands are computed."""
    producers = {v: k for k, item in enumerate(items) for v in item.defines()}
    ready_at: dict[int, list[FusedLoop]] = defaultdict(list)
    for component in sums:
        item = FusedLoop(sum=component)
        ready_at[max((producers.get(v, -1) for v in item.reads()), default=-1)].append(item)
    found = ready_at[-1]
    for k, item in enumerate(items):
        found += [item, *ready_at[k]]
    return found


def _split_loop(item: FusedLoop) -> Iterator[FusedLoop]:
    """Split a loop after its costly functions if many operations follow them.

    The out-of-order window holds some hundred instructions: the latency of a function overlaps
    with the next columns only if the rest of the loop body is short.
    """
    slow = [n for n in item.nodes if is_costly(n.op.name)]
    first: set[int] = {n.op.out for n in slow}
    for node in reversed(item.nodes):
        if node.op.out in first:
            first |= item.defines().intersection(node.op.args)
    rest = [n for n in item.nodes if n.op.out not in first]
    if not slow or len(rest) < _MIN_TAIL:
        yield item
        return
    yield FusedLoop(tuple([n for n in item.nodes if n.op.out in first]))
    yield FusedLoop(tuple(rest))


def _allocate_rows(made: FusedProgram, loops: GroupLoops, lanes: int) -> None:
    """Allocate scratch for rows that outlive their loop; frames of dead rows are reused."""

    def size(value: int) -> int:
        graph = made.schedule.graph
        return made.schedule.columns(value) * lanes * graph.dtype(value).itemsize

    def room(value: int) -> int:
        """An odd number of cache lines, so that one column of many rows maps to many sets."""
        return -(-size(value) // _LINE) * _LINE | _LINE

    summed = {v for item in loops.sums for v in item.reads()}
    last: dict[int, int] = {}
    for k, item in enumerate(loops.body):
        for value in item.reads():
            last[value] = k
    free: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    in_blocks: list[list[int]] = []
    for k, item in enumerate(loops.body):
        values = [node.op.out for node in item.nodes]
        in_blocks.append([v for v in values if v in summed])
        kept = [v for v in values if v in made.materialized and v not in summed]
        if kept:
            needed_bytes = sum(map(room, kept))
            if free[needed_bytes]:
                frame = free[needed_bytes].pop()
            else:
                # No dead frame has this size. Frames stay whole: rows of a loop are contiguous.
                frame, loops.scratch = loops.scratch, loops.scratch + needed_bytes
            ends[max(last[v] for v in kept)].append((needed_bytes, frame))
            place = frame
            for value in kept:
                made.rows[value], made.frames[value] = place, frame
                place += room(value)
        for frame_bytes, frame in ends[k]:
            free[frame_bytes].append(frame)
    # The rows that sums read stay in the cache until the sums of their block have read them.
    max_vectors = _BLOCK_BYTES // max(
        1, sum(size(v) for group_nodes in in_blocks for v in group_nodes)
    )
    loops.block = max(1, min(_MAX_BLOCK_VECTORS, max_vectors, loops.vectors))
    for group_nodes in in_blocks:
        frame = loops.scratch
        for value in group_nodes:
            made.rows[value], made.frames[value] = loops.scratch, frame
            made.blocks[value] = loops
            loops.scratch += -(-size(value) * loops.column_stride // _LINE) * _LINE
    loops.scratch = -(-loops.scratch // _MIN_SPLIT) * _MIN_SPLIT + _MIN_SPLIT
