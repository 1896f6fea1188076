"""Rewrites of the loop IR: pure functions from a nest to a nest that computes the same.

Each checks that it is legal, and raises InternalError if it is not. Whether it pays is not decided
here: a schedule (`emit/schedule_loops.py`) applies them in order, with the sizes that it chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from pirkit.lowering.codegen.ir.element_types import compute_type, identity, types_of
from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
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
    buffers_of,
    changed,
    inside,
    is_multiple,
    most,
    pure,
    require,
    rounded,
    statements,
    with_saves,
)
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Load,
    Reduce,
    Statement,
    Store,
    defines,
    reads,
)

Nodes = tuple[Node, ...]


def parallelize(nest: Nest, var: str) -> Nest:
    """Share the iterations of a loop by threads."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var):
            return None
        return (replace(node, kind="parallel"),)

    for s in statements(nest.body):
        if isinstance(s, Accumulate):
            (loop,) = _loops(nest, var)
            buffer = nest.buffers[s.operand]
            apart = buffer.per_block is not None and buffer.per_block[0] == var
            moves = apart or all(buffer.strides[axis] for axis in loop.axes)
            require(moves, "parallelize", f"iterations of {var} accumulate into the same elements")
    return replace(nest, body=changed(nest.body, change))


def tile(nest: Nest, var: str, size: int, block_var: str) -> Nest:
    """A loop over blocks of ``size`` iterations around a loop over a block."""

    def change(node: Node) -> Nodes | None:
        if not _is_plain(node, var):
            return None
        assert isinstance(node, Loop)
        assert isinstance(node.stop, int)
        stop = size if node.stop % size == 0 else Count(block_var, node.stop, size)
        block = replace(node, stop=stop)
        return (replace(node, var=block_var, step=size, body=(block,)),)

    _require_loop(nest, var, "tile")
    buffers = [
        replace(x, outside=(*x.outside, block_var)) if var in x.outside else x for x in nest.buffers
    ]
    return replace(nest, buffers=tuple(buffers), body=changed(nest.body, change))


def vectorize(nest: Nest, var: str, lanes: int) -> Nest:
    """Iterations in vectors: a loop over whole vectors, and a masked one for the others."""

    def change(node: Node) -> Nodes | None:
        if not _is_plain(node, var):
            return None
        assert isinstance(node, Loop)
        full, whole = rounded(node.stop, lanes), is_multiple(node.stop, lanes)
        lane = replace(
            node, var=lane_var(var), start=0, stop=lanes, kind="vector", lanes=lanes
        )  # the variable of the loop around it is the first index of the vector
        made: list[Node] = []
        if most(node.stop) >= lanes:
            made.append(replace(node, stop=node.stop if whole else full, step=lanes, body=(lane,)))
        if not whole:
            made.append(replace(lane, start=full, stop=node.stop))
        return tuple(made)

    _require_loop(nest, var, "vectorize")
    return replace(nest, body=changed(nest.body, change))


def lane_var(var: str) -> str:
    """The variable of the lanes of a vectorized loop."""
    return f"{var}v"


def interleave(nest: Nest, var: str, copies: int) -> Nest:
    """Several vectors per iteration, each with its own accumulators, and their instructions mixed.

    Instructions of one vector depend on each other; a CPU overlaps those of several.
    """

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var and node.kind == "serial"):
            return None
        # An element that one vector accumulates into may be that of the next: keep their order.
        in_order = any(isinstance(s, Accumulate) for s in statements(node.body))
        copy = replace(
            node, var=f"{var}u", start=0, stop=copies * node.step,
            kind="unroll" if in_order else "interleave", copies="own",
        )  # fmt: skip
        return _unrolled(node, copies * node.step, (copy,))

    return nest if copies == 1 else replace(nest, body=changed(nest.body, change))


def unroll_and_jam(nest: Nest, var: str, copies: int) -> Nest:
    """Several iterations of a loop at once, innermost: what they share stays in registers.

    Over a reduced axis the copies are reduced as a tree; over others each has its own accumulators.
    """

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var and node.kind == "serial"):
            return None
        (axis,) = node.axes
        how = "tree" if axis >= nest.rank else "own"
        copy = replace(
            node, var=f"{var}u", start=0, stop=copies * node.step, body=(), kind="unroll",
            copies=how,
        )  # fmt: skip
        return _unrolled(node, copies * node.step, _jammed(node.body, copy))

    return nest if copies == 1 else replace(nest, body=changed(nest.body, change))


def _jammed(nodes: Nodes, copy: Loop) -> Nodes:
    """The nodes with an unrolled loop pushed inside, down to the statements."""
    reduced = copy.copies == "tree"
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Prefetch):
            found.append(replace(copy, body=(node,), copies="in order"))
        elif isinstance(node, Block) or (isinstance(node, Loop) and _is_unrolled(node)):
            # Around a reduction, what loads and stores its accumulators runs once for all copies.
            once = reduced and not any(isinstance(s, Reduce) for s in statements([node]))
            found.append(node if once else replace(copy, body=(node,)))
        elif isinstance(node, NESTED):
            found.append(replace(node, body=_jammed(node.body, copy)))
        else:
            require(False, "unroll_and_jam", "a copy of a tile can not be repeated")
    return tuple(found)


def unroll(nest: Nest, var: str) -> Nest:
    """Write out all iterations of the loops with a variable."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var and node.kind == "serial"):
            return None
        require(isinstance(node.stop, int), "unroll", f"the iterations of {var} are not constant")
        return (replace(node, kind="unroll"),)

    return replace(nest, body=changed(nest.body, change))


def unroll_short(nest: Nest, limit: int) -> Nest:
    """Write out loops over inner axes, as long as there are at most ``limit`` copies of a body."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.kind == "serial" and node.axes[0] >= nest.rank):
            return None
        return (replace(node, kind="unroll"),) if _bodies([node]) <= limit else None

    return replace(nest, body=changed(nest.body, change))


def _bodies(nodes: Sequence[Node]) -> int:
    """How often the statements of a tree run, a vector of iterations counted once."""
    found = 1
    for node in nodes:
        if isinstance(node, NESTED):
            trips = 1
            if isinstance(node, Loop) and node.kind != "vector":
                assert isinstance(node.start, int)
                trips = -(-(most(node.stop) - node.start) // node.step)
            found = max(found, trips * _bodies(node.body))
    return found


def distribute(nest: Nest, var: str, lanes: int) -> Nest:
    """Give each phase a loop ``var`` of its own, innermost; values between them are in scratch.

    The loop is distributed over the nodes of its body, and interchanged with the loops over inner
    axes. What crosses it, accumulators too, becomes an array with one element per iteration, padded
    for vectors of ``lanes``.
    """
    (loop,) = _loops(nest, var)
    (axis,) = loop.axes
    size, types = _padded(loop.stop, lanes), types_of(nest.kernel)
    around = tuple(
        [n.var for n in inside(nest.body) if isinstance(n, Loop) and loop in inside([n])]
    )
    outside = tuple([v for v in around if v != var])
    made = nest
    buffers: list[Buffer] = []
    for buffer in nest.buffers:
        if buffer.space == "scratch":
            strides = [n * size for n in buffer.strides]
            strides[axis] = buffer.dtype.itemsize
            buffer = replace(
                buffer, strides=tuple(strides), size=buffer.size * size, outside=outside
            )
        buffers.append(buffer)
    made = replace(nest, buffers=tuple(buffers))
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
            made, slots[name] = made.with_buffer(
                Buffer(types[name], tuple(strides), strides[axis] * size, space="scratch",
                       outside=outside)
            )  # fmt: skip
    nodes: list[Node] = []

    def innermost(nodes: Nodes, body: Callable[[Nodes], Nodes]) -> Nodes:
        """The loops over inner axes, and in the last one the loop ``var``."""
        (node,) = nodes
        if isinstance(node, Loop):
            return (replace(node, body=innermost(node.body, body)),)
        return (replace(loop, body=body(nodes)),)

    for node in loop.body:
        own = {r.name for r in node.reductions} if isinstance(node, Reducing) else set[str]()
        visible = {name: k for name, k in slots.items() if name not in own}

        def with_slots(nodes: Nodes, visible: dict[str, int] = visible) -> Nodes:
            (block,) = nodes
            assert isinstance(block, Block)
            return (Block(tuple(with_saves(block.statements, visible))),)

        if not isinstance(node, Reducing):
            nodes += innermost((node,), with_slots)
            continue
        start: list[Statement] = []
        for r in node.reductions:
            zero = Constant(f"identity {r.name}", types[r.name], identity(r.kind, types[r.name]))
            start += [zero, Store(slots[r.name], zero.name)]
        nodes.append(replace(loop, body=(Block(tuple(start)),)))
        load = Block(tuple([Load(r.name, slots[r.name]) for r in node.reductions]))
        save = Block(tuple([Store(slots[r.name], r.name) for r in node.reductions]))

        def resumed(
            body: Nodes, parts: tuple[Block, Reducing, Block] = (load, node, save)
        ) -> Nodes:
            first, middle, last = parts
            return first, replace(middle, body=with_slots(body), resumed=True), last

        nodes += innermost(node.body, resumed)
    return _with_loop(made, var, tuple(nodes))


def _padded(bound: Bound, lanes: int) -> int:
    """Iterations in whole vectors: one that is partial must not overwrite what lies behind it."""
    return -(-most(bound) // lanes) * lanes


def pack(
    nest: Nest, var: str, size: int, columns: str, lanes: int, distances: Mapping[int, int]
) -> Nest:
    """Copy operands, ``size`` iterations of ``var`` at a time, so that ``columns`` is contiguous.

    The operands are those of ``distances``; each is prefetched so many elements ahead.
    """
    (loop,) = _loops(nest, var)
    (axis,) = loop.axes
    column = _loops(nest, columns)[0]
    width = _padded(column.stop, lanes)
    used = buffers_of([loop]) & distances.keys()
    if not used:
        return nest
    made = tile(nest, var, size, f"{var}b")
    (tiled,) = _loops(made, f"{var}b")
    outside = (*_around(made.body, tiled.var), tiled.var)
    copies: list[Node] = []
    body = tiled.body
    (row,) = _loops(made, var)
    for k in sorted(used):
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
        body = changed(body, partial(_reading, k, number))
    return _with_loop(made, tiled.var, (replace(tiled, body=(*copies, *body)),))


def align(nest: Nest, block: str, var: str, buffer: int, lanes: int) -> Nest:
    """End the first block, and begin the others, where vectors of a buffer cross no cache line.

    Legal if that is the same iteration for all rows of the buffer.
    """

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var in (block, var)):
            return None
        if node.var == block:
            return (replace(node, stop=extent + size, align=buffer),)
        return (replace(node, stop=Count(block, extent, size, aligned=True)),)

    (blocks,) = _loops(nest, block)
    (axis,), size = blocks.axes, blocks.step
    extent = nest.extents[axis]
    strides, itemsize = nest.buffers[buffer].strides, nest.buffers[buffer].dtype.itemsize
    others = [n for k, n in enumerate(strides) if k != axis]
    rows_agree = strides[axis] == itemsize and all(n % (lanes * itemsize) == 0 for n in others)
    require(rows_agree, "align", f"rows of operand {buffer} begin at different places")
    return replace(nest, body=changed(nest.body, change))


def interchange(nest: Nest, row: str, var: str) -> Nest:
    """Run the loop ``row`` inside of the loop ``var``, where accumulators stay in registers."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == row):
            return None
        (inner,) = node.body
        require(isinstance(inner, Loop) and inner.var == var, "interchange", f"no {var} in {row}")
        assert isinstance(inner, Loop)
        body: list[Node] = []
        for part in inner.body:
            moves = [k for k in buffers_of([part]) if nest.buffers[k].strides[node.axes[0]]]
            if isinstance(part, Reducing):
                part = replace(part, body=(replace(node, body=part.body),))
            elif moves:
                require(False, "interchange", f"buffers {moves} move along {row}")
            body.append(part)
        return (replace(inner, body=tuple(body)),)

    return replace(nest, body=changed(nest.body, change))


def transpose_in_register(
    nest: Nest, row: str, var: str, operands: Sequence[int], step: int,
    requests: Sequence[PrefetchTile],
) -> Nest:  # fmt: skip
    """Load tiles of operands that are contiguous along ``row``, and transpose them in registers.

    The loop ``row``, inside of vectors of ``var``, is unrolled over whole tiles, ``step`` rows
    reduced as a tree. Tiles at an edge are transposed into scratch; the order of sums is the
    same.
    """
    rows = _loops(nest, row)
    (axis,) = rows[0].axes
    extent, square = nest.extents[axis], f"{row}t"
    vectors = [n for n in _loops(nest, lane_var(var)) if any(r in inside([n]) for r in rows)]
    lanes, column_axis = vectors[0].lanes, vectors[0].axes[0]
    outside = (*_around(nest.body, row), square, var, lane_var(var))
    copies: dict[str, dict[int, int]] = {"register": {}, "scratch": {}}
    made = nest
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
        count: Bound = lanes if extent % lanes == 0 else Count(square, extent, lanes)
        count = lanes if space == "register" else count
        packs = [Pack(k, copies[space][k], axis, column_axis, count) for k in operands]
        body: Nodes = node.body
        for k in operands:
            body = changed(body, partial(_reading, k, copies[space][k]))
        inner = replace(node, stop=count, body=body)
        if space == "register":
            copy = replace(inner, var=f"{row}j", stop=step, kind="unroll", copies="tree")
            inner = replace(inner, var=f"{row}u", step=step, body=(copy,), kind="unroll")
        return Loop(square, (axis,), start, stop, lanes, (*requests, *packs, inner))

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.kind == "vector" and node.var == lane_var(var)):
            return None
        is_whole = (node.start, node.stop) == (0, lanes)

        def tiles(loop: Node) -> Nodes | None:
            if not (isinstance(loop, Loop) and loop.var == row):
                return None
            full = rounded(loop.stop, lanes) if is_whole else 0
            found = [tile_of(loop, "register", 0, full)] if is_whole and most(full) else []
            if not is_whole or not is_multiple(loop.stop, lanes):
                found.append(tile_of(loop, "scratch", full, loop.stop))
            return tuple(found)

        return (replace(node, body=changed(node.body, tiles)),)

    return unroll_and_jam(replace(made, body=changed(made.body, change)), row, step)


def _reading(old: int, new: int, node: Node) -> Nodes | None:
    """A block with accesses to another buffer."""
    if not isinstance(node, Block):
        return None
    return (Block(tuple([_moved(s, old, new) for s in node.statements])),)


def hoist(nest: Nest, moving: set[str]) -> Nest:
    """Move what varies along no inner axis in front of the loops over them.

    ``moving`` are the names that do vary. The others need no scratch memory: they are known later.
    """

    def is_invariant(s: Statement) -> bool:
        return pure(s) and defines(s) not in moving

    def is_save(s: Statement) -> bool:
        if not isinstance(s, (Load, Store)) or nest.buffers[s.operand].space == "memory":
            return False
        return (s.value if isinstance(s, Store) else s.name) not in moving

    def without(node: Node) -> Nodes | None:
        if not isinstance(node, Block):
            return None
        kept = [s for s in node.statements if isinstance(s, Constant) or not is_invariant(s)]
        return (Block(tuple([s for s in kept if not is_save(s)])),)

    def visit(nodes: Sequence[Node]) -> Nodes:
        found: list[Node] = []
        for node in nodes:
            if isinstance(node, Loop) and node.axes[0] < nest.rank:
                found.append(replace(node, body=visit(node.body)))
            elif isinstance(node, (Loop, Reducing)):
                hoisted = [s for s in statements([node]) if is_invariant(s) and not is_save(s)]
                found += [Block(tuple(hoisted))] if hoisted else []
                found += changed((node,), without)
            else:
                found.append(node)
        return tuple(found)

    return replace(nest, body=visit(nest.body))


def contract(nest: Nest) -> Nest:
    """Accumulate sums of float products that nothing else reads by FMA, rounded once per term.

    LLVM may not contract a multiply and an add by itself.
    """
    lines = list(statements(nest.body))
    uses = [name for s in lines for name in reads(s)]
    made = {s.name: s for s in lines if isinstance(s, Compute) and s.primitive == "multiply"}
    fused: dict[Statement, Reduce] = {}
    for s in lines:
        product = made.get(s.value) if isinstance(s, Reduce) and s.kind == "sum" else None
        if product is None or uses.count(product.name) != 1:
            continue
        if product.dtype.is_float:
            assert isinstance(s, Reduce)
            fused[s] = replace(s, value=product.args[0], times=product.args[1])
    gone = {made[s.value] for s in fused if isinstance(s, Reduce)}

    def change(node: Node) -> Nodes | None:
        if not isinstance(node, Block):
            return None
        return (Block(tuple([fused.get(s, s) for s in node.statements if s not in gone])),)

    return replace(nest, body=changed(nest.body, change))


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

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == row):
            return None
        used = [r for r in requests if r.buffer in buffers_of([node])]
        return (replace(node, body=changed(node.body, lambda n: inner(n, used))),)

    return replace(nest, body=changed(nest.body, change)) if requests else nest


def stream(nest: Nest, var: str, lane_axis: int, lanes: int) -> Nest:
    """Stores of the loop ``var`` bypass the caches, if the operand asks for it and is aligned.

    A non-temporal vector store must be aligned: all addresses of vectors have to be multiples of
    their size if the buffer begins at a cache line, which is only known at run time.
    """

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var):
            return None
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
        for n in inside(nest.body)
        if isinstance(n, Loop) and n.axes == (lane_axis,) and n.kind == "parallel"
    ]
    return replace(nest, body=changed(nest.body, change))


def accumulate_in_blocks(nest: Nest, axes: int, size: int, lanes: int) -> Nest:
    """Run blocks of ``size`` iterations of the last outer ``axes`` in order, threads share blocks.

    Each block begins with the identity in the memory that it accumulates into.
    """
    rank = nest.rank
    shared = tuple(range(rank - axes, rank))
    sums = {s.operand: s for s in nest.kernel.accumulations()}
    buffers = [
        replace(x, outside=(*x.outside, "block", "row")) if x.space == "scratch" else x
        for x in nest.buffers
    ]
    for k, s in sums.items():
        buffers[k] = replace(buffers[k], per_block=("block", s.block_stride))
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


def use_buffer(nest: Nest, scratch: int, operand: int) -> Nest:
    """Save values in the buffer of an operand that is stored later, instead of in scratch."""

    given, instead = nest.buffers[scratch], nest.buffers[operand]
    require(given.dtype is instead.dtype, "use_buffer", "another element type")
    return replace(nest, body=changed(nest.body, partial(_reading, scratch, operand)))


def _moved(s: Statement, old: int, new: int) -> Statement:
    return replace(s, operand=new) if isinstance(s, (Load, Store)) and s.operand == old else s


def _unrolled(loop: Loop, step: int, body: Nodes) -> Nodes:
    """A loop with a larger step, and the same loop as before for the iterations that are left."""
    main = replace(loop, stop=rounded(loop.stop, step), step=step, body=body)
    found: list[Node] = [main] if most(loop.stop) >= step else []
    if not is_multiple(loop.stop, step):
        found.append(replace(loop, start=rounded(loop.stop, step)))
    return tuple(found)


def _with_loop(nest: Nest, var: str, nodes: Nodes) -> Nest:
    """The nest with other nodes for the loop of a variable."""
    found = changed(nest.body, lambda n: nodes if isinstance(n, Loop) and n.var == var else None)
    return replace(nest, body=found)


def _around(nodes: Sequence[Node], var: str, outside: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The variables of the loops around the loop of a variable."""
    for node in nodes:
        if isinstance(node, Loop) and node.var == var:
            return outside
        if isinstance(node, NESTED):
            here = (*outside, node.var) if isinstance(node, Loop) else outside
            if any(isinstance(n, Loop) and n.var == var for n in inside(node.body)):
                return _around(node.body, var, here)
    return outside


def _loops(nest: Nest, var: str) -> list[Loop]:
    return [n for n in inside(nest.body) if isinstance(n, Loop) and n.var == var]


def _is_plain(node: Node, var: str) -> bool:
    return isinstance(node, Loop) and node.var == var and node.kind == "serial" and node.step == 1


def _is_unrolled(loop: Loop) -> bool:
    return loop.kind in ("unroll", "interleave")


def _require_loop(nest: Nest, var: str, rewrite: str) -> None:
    found = _loops(nest, var)
    require(bool(found) and all(_is_plain(n, var) for n in found), rewrite, f"no plain loop {var}")
