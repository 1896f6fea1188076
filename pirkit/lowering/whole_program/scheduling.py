"""Schedules a graph: per-row work, reductions over the batch, and what runs before and after.

A value either has the batch as its leading axis (``rows``) or has no batch axis at all. Batch rows
are processed one vector at a time (one row in each lane), through all ops in order, so that only
inputs, results and reductions leave the cache. What depends on a reduction over the batch can run
only after the last row, so it goes into ``after``; batch-free ops that rows read go into
``before``.

Elementwise ops of one shape share a loop. Each op is scheduled as late as its readers allow, to
shorten live ranges: its result is then in registers or in L1 when it is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.dialect.kinds import RESHAPE
from pirkit.lowering.codegen.lower.scalar_ops import NON_TRAPPING
from pirkit.lowering.codegen.math.primitives import TABLE
from pirkit.lowering.whole_program.axis_classes import AxisClasses, columns, summed
from pirkit.lowering.whole_program.factor_common_matmuls import (
    additions,
    terms_of,
    without_common_factors,
)
from pirkit.lowering.whole_program.lane_ops import is_elementwise
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op
from pirkit.lowering.whole_program.whole_value_forms import check_whole

MAX_COLUMNS: Final = 256
"""Largest number of elements of a row; kernels that vectorize along columns serve wider rows."""
MAX_WHOLE_ELEMENTS: Final = 1 << 16
"""Largest number of elements of a value without a batch axis."""

Key = tuple[int, ...]
Kind = Literal["map", "matmul", "across", "columns", "joined", "whole_sum", "whole"]


class Node(Struct, eq=False):
    """An op with its ``level`` in the schedule; nodes of kind `map`, one level and one ``key``
    (the iteration count) share a loop.
    """

    op: Op
    kind: Kind
    key: Key
    level: int = 0


class BatchSum(Struct, frozen=True):
    """A reduction over the batch: the sum of ``a^T b`` over all terms ``(a, b)``, where ``a`` None
    stands for a plain sum of the rows of ``b``.
    """

    out: int
    terms: tuple[tuple[int | None, int], ...]


class BatchGroup(Struct):
    """One batch axis: the nodes that run for each of its ``batch`` rows, and the reductions."""

    batch: int
    body: list[Node] = field(default_factory=list[Node])
    sums: list[BatchSum] = field(default_factory=list[BatchSum])


class ProgramSchedule(Struct):
    """A program in execution order: ``before``, each of ``groups``, then ``after``.

    ``rows`` maps each value with a batch axis to its group; ``has_matmul`` is true if some node
    multiplies rows by a weight matrix.
    """

    graph: Graph
    groups: list[BatchGroup]
    rows: dict[int, BatchGroup]
    before: list[Node] = field(default_factory=list[Node])
    after: list[Node] = field(default_factory=list[Node])
    has_matmul: bool = False

    @property
    def body(self) -> list[Node]:
        """The per-row nodes of all groups."""
        return [node for group in self.groups for node in group.body]

    @property
    def sums(self) -> list[BatchSum]:
        """The reductions over the batch, of all groups."""
        return [batch_sum for group in self.groups for batch_sum in group.sums]

    def is_row(self, value: int) -> bool:
        return value in self.rows

    def columns(self, value: int) -> int:
        return columns(self.graph, value)


def schedule_of(graph: Graph, fast_math: bool = True) -> ProgramSchedule:
    """Order the ops of a graph by levels. Raises NotNativeError for one that has no such order."""
    graph = without_views(graph)
    graph = without_common_factors(graph) if fast_math else graph
    classes = AxisClasses(graph)
    groups = {name: BatchGroup(graph.metas[name[0]].shape[name[1]]) for name in classes.batch()}
    names = {v: classes.find((v, 0)) for v, meta in graph.metas.items() if meta.rank}
    rows = {v: groups[name] for v, name in names.items() if name in groups}
    made = ProgramSchedule(graph, list(groups.values()), rows)
    _sort_by_level(made)
    _sink_epilogue(made)
    _with_stores(made)
    for nodes in (made.before, made.after, *[group.body for group in made.groups]):
        _schedule(nodes)
    return made


def without_views(graph: Graph) -> Graph:
    """The graph without reshapes to the same shape: they are aliases."""
    views: dict[int, int] = {}
    ops: list[Op] = []
    for op in graph.ops:
        args = tuple([views.get(a, a) for a in op.args])
        if op.has(RESHAPE) and graph.metas[args[0]].rank == graph.metas[op.out].rank:
            if graph.metas[args[0]].shape == graph.metas[op.out].shape:
                views[op.out] = args[0]
                continue
        ops.append(replace(op, args=args))
    outputs = tuple([views.get(v, v) for v in graph.outputs])
    return replace(graph, outputs=outputs, ops=ops)


def _with_stores(made: ProgramSchedule) -> None:
    """Make each output the result of a `map` node of its own; others are copied by one."""
    graph = made.graph
    nodes = (*made.before, *made.body, *made.after)
    ready = {n.op.out for n in nodes if n.kind == "map" and n.op.name != "load"}
    needed_early = {*graph.inputs, *graph.fills, *graph.tables, *(n.op.out for n in made.before)}
    outputs: list[int] = []
    for value in graph.outputs:
        if value not in ready or value in outputs:
            meta = graph.metas[value]
            copy = Op("same", (value,), graph.new(meta))
            if value in graph.blocked:
                graph.blocked.add(copy.out)
            if value in made.rows:
                made.rows[copy.out] = made.rows[value]
                made.rows[value].body.append(Node(copy, "map", (made.columns(value),)))
            else:
                node = Node(copy, "map", (meta.numel,))
                (made.before if value in needed_early else made.after).append(node)
            value = copy.out
        outputs.append(value)
    graph.outputs = tuple(outputs)


def _sort_by_level(made: ProgramSchedule) -> None:
    graph = made.graph
    late: set[int] = set()
    pending: list[Op] = []
    for value in (*graph.inputs, *graph.tables):
        _small_enough(made, value)
        if made.is_row(value) and made.columns(value) > 1:
            # Rows of several columns are transposed as they are loaded, so that a lane is a row.
            load = Node(Op("load", (), value), "map", (made.columns(value),))
            made.rows[value].body.append(load)
    for op in graph.ops:
        _small_enough(made, op.out)
        # An op runs before, in or after the loops over rows; `late` has what needs a finished sum.
        read = [made.rows[a] for a in op.args if a in made.rows]
        if any(group is not made.rows.get(op.out, read[0]) for group in read):
            raise NotNativeError("rows of different batches are combined")
        if not made.is_row(op.out) and read:
            read[0].sums.append(_batch_sum(made, op))
            late.add(op.out)
        elif made.is_row(op.out):
            if late.intersection(op.args):
                raise NotNativeError("a row depends on a sum over all rows")
            made.rows[op.out].body.append(_row_node(made, op))
        elif late.intersection(op.args):
            late.add(op.out)
            pending.append(op)
        else:
            made.before += _whole_nodes(made, op)
    made.after = [n for op in _fused_sums(made, pending) for n in _whole_nodes(made, op)]


def _sink_epilogue(made: ProgramSchedule) -> None:
    """Move nodes of ``before`` that only ``after`` reads into ``after``, where loops can fuse."""
    needed_early = {a for n in made.body for a in n.op.args}
    needed_early.update(
        a for batch_sum in made.sums for pair in batch_sum.terms for a in pair if a is not None
    )
    late = {a for n in made.after for a in n.op.args} - needed_early - set(made.graph.outputs)
    before: list[Node] = []
    moved: list[Node] = []
    for node in reversed(made.before):
        if node.op.out in late:
            late.update(set(node.op.args) - needed_early)
            moved.append(node)
        else:
            needed_early.update(node.op.args)
            late.difference_update(node.op.args)
            before.append(node)
    made.before, made.after = before[::-1], [*moved[::-1], *made.after]


def _small_enough(made: ProgramSchedule, value: int) -> None:
    if made.is_row(value):
        if made.columns(value) > MAX_COLUMNS:
            raise NotNativeError(f"a row has {made.columns(value)} columns")
        if made.graph.metas[value].rank > 2:
            raise NotNativeError("a row has several axes")
    elif made.graph.metas[value].numel > MAX_WHOLE_ELEMENTS and value not in made.graph.fills:
        raise NotNativeError(
            f"a value without a batch axis has {made.graph.metas[value].numel} elements"
        )


def _batch_sum(made: ProgramSchedule, op: Op) -> BatchSum:
    graph = made.graph
    if op.name == "matmul":
        x, y = op.args
        if op.attrs["transpose_x"] and not op.attrs["transpose_y"]:
            return BatchSum(op.out, ((x, y),))
        raise NotNativeError("a matmul sums over batch rows, and is not `x^T y`")
    if op.name == "sum":
        (x,) = op.args
        if len(summed(graph, op)) < graph.metas[x].rank and made.columns(x) > 1:
            return BatchSum(op.out, ((None, x),))
        if made.columns(x) == 1:
            return BatchSum(op.out, ((None, x),))
        # A sum over rows and columns: each row is added up first, and then one column of rows.
        meta = graph.metas[x]
        total = graph.new(meta.with_shape((meta.shape[0], 1)))
        made.rows[total] = made.rows[x]
        made.rows[x].body.append(Node(Op("across", (x,), total), "across", (1,)))
        return BatchSum(op.out, ((None, total),))
    raise NotNativeError(f"`{op.name}` reduces all rows")


def _fused_sums(made: ProgramSchedule, ops: Sequence[Op]) -> list[Op]:
    """Merge the sums over one batch of a tree of additions into one `BatchSum` with all terms.

    Returns the ops that are left. A sum is merged only if nobody else reads it. Each merged sum
    saves a reduction of the lanes, and a loop that adds the results.
    """
    graph = made.graph
    uses = Counter([*graph.outputs, *(arg for op in ops for arg in op.args)])
    alone = {op.out: op for op in ops if uses[op.out] == 1}
    found = {s.out: s for s in made.sums}
    of = {s.out: group for group in made.groups for s in group.sums}

    def key_of(value: int, total: int) -> object:
        """The key of sums that can be merged: batch, shape, whether they are products."""
        one = found.get(value)
        if one is None or uses[value] != 1 or graph.metas[value].shape != graph.metas[total].shape:
            return value
        return id(of[value]), one.terms[0][0] is None

    instead: dict[int, list[Op]] = {}
    for op in reversed(ops):
        if op.name != "add" or op.out in instead:
            continue
        values, inner = terms_of(graph, op, alone)
        groups: dict[object, list[int]] = defaultdict(list)
        for value in values:
            groups[key_of(value, op.out)].append(value)
        if len(groups) == len(values) or max(map(values.count, values)) > 1:
            continue
        left: list[int] = []
        for members in groups.values():
            if len(members) == 1:
                left += members
                continue
            out = op.out if len(groups) == 1 else graph.new(graph.metas[op.out])
            parts = [found.pop(m) for m in members]
            found[out] = BatchSum(out, tuple([term for part in parts for term in part.terms]))
            of[out] = of[members[0]]
            left.append(out)
        instead |= {value: [] for value in inner}
        instead[op.out] = list(additions(graph, left, op.out)) if len(left) > 1 else []
    for group in made.groups:
        group.sums = [batch_sum for batch_sum in found.values() if of[batch_sum.out] is group]
    return [new for op in ops for new in instead.get(op.out, [op])]


def _row_node(made: ProgramSchedule, op: Op) -> Node:
    if is_elementwise(op):
        _knows_attributes(op)
        key = made.columns(op.out)
        for arg in op.args:
            _broadcasts(made, arg, key)
        return Node(op, "map", (key,))
    if op.name == "matmul":
        y = op.args[1]
        if op.attrs["transpose_x"] or (y in made.rows) or y in made.graph.fills:
            raise NotNativeError(
                "the operands of a matmul are not rows and a matrix without a batch axis"
            )
        made.has_matmul = True
        if made.columns(op.args[0]) == 1:  # there is nothing to add up
            return Node(Op("multiply", op.args, op.out), "map", (made.columns(op.out),))
        return Node(op, "matmul", (made.columns(op.out),))
    if any(a not in made.rows and a not in made.graph.fills for a in op.args):
        raise NotNativeError(f"`{op.name}` makes batch rows of a value without a batch axis")
    if op.name == "sum":
        return Node(Op("across", op.args, op.out), "across", (1,))
    if op.name == "concat":
        if op.attrs["axis"] % made.graph.metas[op.out].rank == 0:
            raise NotNativeError("`concat` puts rows one after the other")
        return Node(op, "joined", (made.columns(op.out),))
    if op.name == "choose":
        return Node(op, "joined", (made.columns(op.out),))
    if op.name in ("slice", "pad") or op.has(RESHAPE):
        if made.graph.metas[op.args[0]].shape[0] != made.rows[op.out].batch and not op.has(RESHAPE):
            raise NotNativeError(f"`{op.name}` moves rows")
        return Node(op, "columns", (made.columns(op.out),))
    raise NotNativeError(f"`{op.name}` of rows has no native form")


def _knows_attributes(op: Op) -> None:
    """Refuse an op with attributes that its scalar primitive does not implement."""
    given = {name for name, value in op.attrs.items() if (name, value) != ("decimals", 0)}
    if op.name in TABLE and op.name != "cast" and not given <= NON_TRAPPING:
        raise NotNativeError(f"the attributes of `{op.name}` have no native form")


def _broadcasts(made: ProgramSchedule, arg: int, count: int) -> None:
    """Refuse a broadcast other than of one element, of one element per column, or per row."""
    meta = made.graph.metas[arg]
    if arg in made.graph.fills or meta.numel == 1:
        return
    found = made.columns(arg) if arg in made.rows else meta.numel
    if found not in (1, count) or (arg not in made.rows and meta.shape[-1] != count):
        raise NotNativeError("operands are repeated in a way that has no native form")


def _whole_nodes(made: ProgramSchedule, op: Op) -> Iterator[Node]:
    """The node of an op without a batch axis, after copies of operands that it repeats."""
    graph, meta = made.graph, made.graph.metas[op.out]
    if is_elementwise(op):
        _knows_attributes(op)
        args: list[int] = []
        for arg in op.args:
            given = graph.metas[arg]
            if arg not in graph.fills and given.numel not in (1, meta.numel):
                if op.name == "expand":
                    yield Node(op, "whole", (meta.numel,))
                    return
                # A loop over a flat index repeats no elements: the operand is expanded in memory.
                repeated = graph.new(given.with_shape(meta.shape))
                yield Node(Op("expand", (arg,), repeated), "whole", (meta.numel,))
                arg = repeated
            args.append(arg)
        yield Node(replace(op, args=tuple(args)), "map", (meta.numel,))
    elif op.name == "regroup" or op.has(RESHAPE):
        yield Node(Op("same", op.args[:1], op.out), "map", (meta.numel,))
    elif op.name == "sum" and meta.numel == 1:
        yield Node(op, "whole_sum", (graph.metas[op.args[0]].numel,))
    else:
        check_whole(graph, op)
        yield Node(op, "whole", (meta.numel,))


def _schedule(nodes: list[Node]) -> None:
    """Assign levels (ASAP, then `map` nodes as late as their readers allow), and sort by them."""
    made_by = {n.op.out: n for n in nodes}
    readers: dict[int, list[Node]] = defaultdict(list)
    for node in sorted(nodes, key=lambda n: n.op.name != "load"):
        before = [made_by[a] for a in node.op.args if a in made_by]
        node.level = max((b.level + _level_distance(b, node) for b in before), default=0)
        for arg in set(node.op.args):
            readers[arg].append(node)
    for node in reversed(nodes):
        found = readers[node.op.out]
        if node.kind == "map" and found:
            # Late nodes fuse with their readers, and their values stay in registers.
            latest = min(r.level - _level_distance(node, r) for r in found)
            node.level = max(node.level, latest)
    nodes.sort(key=lambda n: (n.level, n.kind == "map", n.key if n.kind == "map" else ()))


def _level_distance(first: Node, second: Node) -> int:
    """The smallest difference of levels between a node and a reader of it: 0 if they can fuse."""
    if second.kind != "map":
        return 1
    return int(first.kind == "map" and first.key != second.key)
