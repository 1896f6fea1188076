"""Rewrites of the loop IR that decide where values are between loops: scratch, registers, caches.

As those of `loop_rewrites.py` they are legal or raise InternalError, and give a nest that computes
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import compute_type, identity, types_of
from pirkit.lowering.codegen.ir.loop_edits import (
    Nodes,
    change_loops,
    lane_var,
    loops_around,
    loops_of_var,
    padded,
    with_buffer_read,
    with_loop,
)
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    Buffer,
    Count,
    Loop,
    Nest,
    Node,
    NonTemporal,
    Pack,
    Prefetch,
    PrefetchTile,
    Reducing,
    is_multiple,
    most,
    require,
    rounded,
)
from pirkit.lowering.codegen.ir.loop_rewrites import tile, unroll_and_jam, vectorize
from pirkit.lowering.codegen.ir.loop_tree import buffers_of, changed, statements, walk
from pirkit.lowering.codegen.ir.loopnest import Constant, Load, Statement, Store, defines, reads
from pirkit.lowering.codegen.ir.plain_loops import with_saves
from pirkit.runtime.dtype import DType


def distribute(nest: Nest, var: str, lanes: int) -> Nest:
    """Give each phase a loop ``var`` of its own, innermost; values between them are in scratch.

    The loop is distributed over the nodes of its body, and interchanged with the loops over inner
    axes. What crosses it, accumulators too, becomes an array with one element per iteration, padded
    for vectors of ``lanes``.
    """
    (loop,) = loops_of_var(nest, var)
    made, slots = _with_slots(_with_saved_rows(nest, loop, lanes), loop, lanes)
    nodes: list[Node] = []
    for node in loop.body:
        own = {r.name for r in node.reductions} if isinstance(node, Reducing) else set[str]()
        saved = {name: k for name, k in slots.items() if name not in own}

        def body(nodes: Nodes, saved: dict[str, int] = saved) -> Nodes:
            (block,) = nodes
            assert isinstance(block, Block)
            return (Block(tuple(with_saves(block.statements, saved))),)

        if isinstance(node, Reducing):
            nodes += _reducing_into_slots(node, loop, slots, types_of(nest.kernel), body)
        else:
            nodes += _innermost((node,), loop, body)
    return with_loop(made, var, tuple(nodes))


def _loops_outside(nest: Nest, loop: Loop) -> tuple[str, ...]:
    around = [n.var for n in walk(nest.body) if isinstance(n, Loop) and loop in walk([n])]
    return tuple([var for var in around if var != loop.var])


def _with_saved_rows(nest: Nest, loop: Loop, lanes: int) -> Nest:
    """The nest whose scratch buffers have one element per iteration of a loop."""
    (axis,), size = loop.axes, padded(loop.stop, lanes)
    outside = _loops_outside(nest, loop)
    buffers: list[Buffer] = []
    for buffer in nest.buffers:
        if buffer.space == "scratch":
            strides = [n * size for n in buffer.strides]
            strides[axis] = buffer.dtype.itemsize
            buffer = replace(
                buffer, strides=tuple(strides), size=buffer.size * size, outside=outside
            )
        buffers.append(buffer)
    return replace(nest, buffers=tuple(buffers))


def _with_slots(nest: Nest, loop: Loop, lanes: int) -> tuple[Nest, dict[str, int]]:
    """The nest with an array for each value that crosses a cut between two nodes of a loop's body.

    A later node reads it there. Accumulators cross a cut too, since the loop over the reduced axis
    comes to be outside.
    """
    (axis,), size, types = loop.axes, padded(loop.stop, lanes), types_of(nest.kernel)
    slots: dict[str, int] = {}
    for number, node in enumerate(loop.body):
        later = {name for s in statements(loop.body[number + 1 :]) for name in reads(s)}
        defined = set[str | None]()
        if isinstance(node, Block):
            defined = {defines(s) for s in node.statements}
        if isinstance(node, Reducing):
            defined |= {r.name for r in node.reductions}
            later |= {r.name for r in node.reductions}
        for name in sorted(later & {n for n in defined if n is not None}):
            strides = [0] * len(nest.extents)
            strides[axis] = types[name].itemsize
            nest, slots[name] = nest.with_buffer(
                Buffer(types[name], tuple(strides), strides[axis] * size, space="scratch",
                       outside=_loops_outside(nest, loop))
            )  # fmt: skip
    return nest, slots


def _innermost(nodes: Nodes, loop: Loop, body: Callable[[Nodes], Nodes]) -> Nodes:
    """The loops over inner axes that nodes consist of, and in the last one a loop of its own."""
    (node,) = nodes
    if isinstance(node, Loop):
        return (replace(node, body=_innermost(node.body, loop, body)),)
    return (replace(loop, body=body(nodes)),)


def _reducing_into_slots(
    node: Reducing, loop: Loop, slots: Mapping[str, int], types: Mapping[str, DType],
    body: Callable[[Nodes], Nodes],
) -> Iterator[Node]:  # fmt: skip
    """Each step over the reduced axis continues with the accumulators that it finds in scratch."""
    start: list[Statement] = []
    for r in node.reductions:
        zero = Constant(f"identity {r.name}", types[r.name], identity(r.kind, types[r.name]))
        start += [zero, Store(slots[r.name], zero.name)]
    yield replace(loop, body=(Block(tuple(start)),))
    load = Block(tuple([Load(r.name, slots[r.name]) for r in node.reductions]))
    save = Block(tuple([Store(slots[r.name], r.name) for r in node.reductions]))

    def resumed(nodes: Nodes) -> Nodes:
        return load, replace(node, body=body(nodes), resumed=True), save

    yield from _innermost(node.body, loop, resumed)


def pack(
    nest: Nest, var: str, size: int, columns: str, lanes: int, distances: Mapping[int, int]
) -> Nest:
    """Copy operands, ``size`` iterations of ``var`` at a time, so that ``columns`` is contiguous.

    The operands are those of ``distances``; each is prefetched so many elements ahead.
    """
    (loop,) = loops_of_var(nest, var)
    (axis,) = loop.axes
    column = loops_of_var(nest, columns)[0]
    width = padded(column.stop, lanes)
    used = buffers_of([loop]) & distances.keys()
    if not used:
        return nest
    made = tile(nest, var, size, f"{var}b")
    (tiled,) = loops_of_var(made, f"{var}b")
    outside = (*loops_around(made.body, tiled.var), tiled.var)
    copies: list[Node] = []
    body = tiled.body
    (row,) = loops_of_var(made, var)
    for k in sorted(used):
        # The copy is made before the loop: a store into the operand would not be seen by it.
        indirect = [s for s in statements([loop]) if getattr(s, "operand", None) == k and not (
            isinstance(s, Load) and s.at is None and s.predicate is None)]  # fmt: skip
        require(not indirect, "pack", f"operand {k} is stored, or read at other places")
        dtype, strides = nest.buffers[k].dtype, [0] * len(nest.extents)
        strides[axis], strides[column.axes[0]] = width * dtype.itemsize, dtype.itemsize
        scratch = Buffer(
            dtype, tuple(strides), size * strides[axis], space="scratch", outside=outside
        )
        made, number = made.with_buffer(scratch)
        copies.append(Pack(k, number, axis, column.axes[0], row.stop, column.stop, distances[k]))
        body = changed(body, partial(with_buffer_read, k, number))
    return with_loop(made, tiled.var, (replace(tiled, body=(*copies, *body)),))


def transpose_in_register(
    nest: Nest, row: str, var: str, operands: Sequence[int], step: int,
    requests: Sequence[PrefetchTile],
) -> Nest:  # fmt: skip
    """Load tiles of operands that are contiguous along ``row``, and transpose them in registers.

    The loop ``row``, inside of vectors of ``var``, is unrolled over whole tiles, ``step`` rows
    reduced as a tree. Tiles at an edge are transposed into scratch; the order of sums is the
    same.
    """
    rows = loops_of_var(nest, row)
    (axis,) = rows[0].axes
    extent, tile = nest.extents[axis], f"{row}t"
    vectors = [n for n in loops_of_var(nest, lane_var(var)) if any(r in walk([n]) for r in rows)]
    lanes, column_axis = vectors[0].lanes, vectors[0].axes[0]
    outside = (*loops_around(nest.body, row), tile, var, lane_var(var))
    copies: dict[str, dict[int, int]] = {"register": {}, "scratch": {}}
    made = nest
    # A transposed tile has the rows of the operand as its lanes: VxV elements, one vector per row.
    for k in operands:
        dtype = nest.buffers[k].dtype
        strides = [0] * len(nest.extents)
        strides[axis], strides[column_axis] = lanes * dtype.itemsize, dtype.itemsize
        for space in ("register", "scratch"):
            buffer = Buffer(
                dtype, tuple(strides), lanes * strides[axis], space=space, outside=outside
            )
            made, copies[space][k] = made.with_buffer(buffer)

    def tile_of(node: Loop, space: str, start: Bound, stop: Bound) -> Loop:
        count: Bound = lanes if extent % lanes == 0 else Count(tile, extent, lanes)
        count = lanes if space == "register" else count
        packs = [Pack(k, copies[space][k], axis, column_axis, count) for k in operands]
        body: Nodes = node.body
        for k in operands:
            body = changed(body, partial(with_buffer_read, k, copies[space][k]))
        inner = replace(node, stop=count, body=body)
        if space == "register":
            copy = replace(inner, var=f"{row}j", stop=step, kind="unroll", copies="tree")
            inner = replace(inner, var=f"{row}u", step=step, body=(copy,), kind="unroll")
        return Loop(tile, (axis,), start, stop, lanes, (*requests, *packs, inner))

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.kind == "vector" and node.var == lane_var(var)):
            return None
        is_whole = (node.start, node.stop) == (0, lanes)

        def tiles(loop: Node) -> Nodes | None:
            if not (isinstance(loop, Loop) and loop.var == row):
                return None
            # Registers hold whole tiles only; masked vectors and the rows left go through scratch.
            full = rounded(loop.stop, lanes) if is_whole else 0
            found = [tile_of(loop, "register", 0, full)] if is_whole and most(full) else []
            if not is_whole or not is_multiple(loop.stop, lanes):
                found.append(tile_of(loop, "scratch", full, loop.stop))
            return tuple(found)

        return (replace(node, body=changed(node.body, tiles)),)

    return unroll_and_jam(replace(made, body=changed(made.body, change)), row, step)


def use_buffer(nest: Nest, scratch: int, operand: int) -> Nest:
    """Save values in the buffer of an operand that is stored later, instead of in scratch."""

    given, instead = nest.buffers[scratch], nest.buffers[operand]
    require(given.dtype is instead.dtype, "use_buffer", "another element type")
    return replace(nest, body=changed(nest.body, partial(with_buffer_read, scratch, operand)))


def copy_tile(nest: Nest, var: str, source: int, dest: int, along: int, lane: int) -> Nest:
    """Copy what the loops from ``var`` on read of a buffer into scratch, contiguous along ``lane``.

    ``along`` is the axis along which the source is contiguous.
    """

    def change(loop: Loop) -> Nodes | None:
        chain = [loop]
        while isinstance(inner := chain[-1].body[0], Loop):
            chain.append(inner)
        stop = {inner.axes[0]: inner.stop for inner in chain}
        copy: Node = Pack(source, dest, along, lane, stop[along], stop[lane])
        for inner in reversed(chain):
            if inner.axes[0] not in (along, lane):
                copy = replace(inner, var=f"{inner.var}c", body=(copy,))
        return copy, *changed((loop,), partial(with_buffer_read, source, dest))

    return change_loops(nest, var, change)


def prefetch(nest: Nest, var: str, requests: Sequence[Prefetch]) -> Nest:
    """Prefetch in each whole vector of a loop, after its statements."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == lane_var(var) and node.stop == node.lanes):
            return None
        return (replace(node, body=(*node.body, *requests)),)

    return replace(nest, body=changed(nest.body, change)) if requests else nest


def prefetch_rows(nest: Nest, row: str, var: str, requests: Sequence[Prefetch]) -> Nest:
    """Prefetch in the loop ``var`` inside of ``row`` what the nest reads from memory there."""

    def inner(node: Node, used: Sequence[Prefetch]) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var):
            return None
        return (replace(node, body=(*used, *node.body)),)

    def change(node: Loop) -> Nodes | None:
        # Operands with a copy in scratch are not read from memory any more.
        used = [r for r in requests if r.buffer in buffers_of([node])]
        return (replace(node, body=changed(node.body, lambda n: inner(n, used))),)

    return change_loops(nest, row, change) if requests else nest


def stream(nest: Nest, var: str, lane_axis: int, lanes: int) -> Nest:
    """Stores of the loop ``var`` bypass the caches, if the operand requests it and is aligned.

    A non-temporal vector store must be aligned: all addresses of vectors have to be multiples of
    their size if the buffer begins at a cache line, which is only known at run time.
    """

    def change(node: Loop) -> Nodes | None:
        written = {s.operand for s in statements([node]) if isinstance(s, Store)}
        found = [k for k in sorted(written) if nest.buffers[k].stream and aligned(k)]
        return (NonTemporal(tuple(found), (node,)),) if found else None

    def aligned(number: int) -> bool:
        buffer = nest.buffers[number]
        width = lanes * buffer.dtype.itemsize
        sizes = [s for axis, s in enumerate(buffer.strides) if axis != lane_axis]
        blocks = [loop.step * buffer.strides[lane_axis] for loop in around]
        return width <= 64 and all(n % width == 0 for n in (buffer.offset, *sizes, *blocks))

    around = [
        n
        for n in walk(nest.body)
        if isinstance(n, Loop) and n.axes == (lane_axis,) and n.kind == "parallel"
    ]
    return change_loops(nest, var, change)


def accumulate_in_blocks(nest: Nest, axes: int, size: int, lanes: int) -> Nest:
    """Divide the iterations of the last outer ``axes`` into blocks of ``size`` for the threads.

    A block runs its iterations in order, and begins with the identity in the memory that it
    accumulates into.
    """
    rank = nest.rank
    shared = tuple(range(rank - axes, rank))
    sums = {s.operand: s for s in nest.kernel.accumulations()}
    buffers = [
        replace(x, outside=(*x.outside, "block", "row")) if x.space == "scratch" else x
        for x in nest.buffers
    ]
    for k, s in sums.items():
        buffers[k] = replace(buffers[k], per_block=(("block", s.block_stride),))
    start: list[Node] = []
    contiguous: list[str] = []
    for k, s in sums.items():
        dtype, strides = buffers[k].dtype, buffers[k].strides[rank:]
        zero = Constant(f"identity {k}", compute_type(dtype), identity(s.kind, compute_type(dtype)))
        fill: Nodes = (Block((zero, Store(k, zero.name))),)
        moving = [axis for axis, stride in enumerate(strides) if stride]
        for axis in reversed(moving):
            fill = (Loop(f"z{k}.{axis}", (rank + axis,), 0, nest.kernel.inner[axis], 1, fill),)
        start += fill
        if moving and strides[moving[-1]] == dtype.itemsize:
            contiguous.append(f"z{k}.{moving[-1]}")
    # The loops that do not accumulate stay parallel, outside of the one over blocks.
    body, others = nest.body, list[Loop]()
    for axis in range(rank):
        (loop,) = body
        assert isinstance(loop, Loop)
        others += [replace(loop, kind="parallel")] if axis not in shared else []
        body = loop.body
    if shared:
        count = prod(nest.extents[axis] for axis in shared)
        stop = size if count % size == 0 else Count("block", count, size)
        row = Loop("row", shared, 0, stop, 1, body)
        body = (Loop("block", shared, 0, count, size, (*start, row), "parallel"),)
    else:
        body = (*start, *body)
    for loop in reversed(others):
        body = (replace(loop, body=body),)
    made = replace(nest, buffers=tuple(buffers), body=body)
    for var in contiguous:
        made = vectorize(made, var, lanes)
    return made
