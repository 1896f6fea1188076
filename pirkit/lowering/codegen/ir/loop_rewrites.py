"""Rewrites of the loop IR: pure functions from a nest to a nest that computes the same.

Each checks that it is legal, and raises InternalError if it is not. Whether it pays is not decided
here: a schedule (`emit/schedule_loops.py`) applies them in order, with the sizes that it chose.

Rewrites that add, move or fill buffers are in `memory_rewrites.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loop_edits import (
    Nodes,
    change_loops,
    end_of_whole,
    has_whole,
    is_plain,
    is_unrolled,
    is_whole,
    lane_var,
    loops_of_var,
)
from pirkit.lowering.codegen.ir.loop_ir import (
    NESTED,
    Block,
    Count,
    Loop,
    Nest,
    Node,
    Prefetch,
    Reducing,
    most,
    pure,
    require,
)
from pirkit.lowering.codegen.ir.loop_tree import buffers_of, changed, statements
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Load,
    Reduce,
    Scatter,
    Statement,
    Store,
    defines,
    reads,
)


def parallelize(nest: Nest, var: str) -> Nest:
    """Share the iterations of a loop by threads."""

    def change(node: Loop) -> Nodes | None:
        return (replace(node, kind="parallel"),)

    for s in statements(nest.body):
        if isinstance(s, Accumulate):
            (loop,) = loops_of_var(nest, var)
            buffer = nest.buffers[s.operand]
            # Threads may not add to one element: each block has its own copy, or its own elements.
            apart = bool(buffer.blocks_of(var))
            moves = apart or all(buffer.strides[axis] for axis in loop.axes)
            require(moves, "parallelize", f"iterations of {var} accumulate into the same elements")
    return change_loops(nest, var, change)


def tile(nest: Nest, var: str, size: int, block_var: str) -> Nest:
    """A loop over blocks of ``size`` iterations around a loop over a block."""

    def change(node: Node) -> Nodes | None:
        if not is_plain(node, var):
            return None
        assert isinstance(node, Loop)
        assert isinstance(node.stop, int)
        # The last block is shorter: its count is computed from the index of the block.
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
        if not is_plain(node, var):
            return None
        assert isinstance(node, Loop)
        full, whole = end_of_whole(node, lanes), is_whole(node, lanes)
        lane = replace(
            node, var=lane_var(var), start=0, stop=lanes, kind="vector", lanes=lanes
        )  # the variable of the loop around it is the first index of the vector
        made: list[Node] = []
        if has_whole(node, lanes):
            made.append(replace(node, stop=node.stop if whole else full, step=lanes, body=(lane,)))
        if not whole:
            made.append(replace(lane, start=full, stop=node.stop))
        return tuple(made)

    _require_loop(nest, var, "vectorize")
    return replace(nest, body=changed(nest.body, change))


def interleave(nest: Nest, var: str, copies: int) -> Nest:
    """Several vectors per iteration, each with its own accumulators, and their instructions mixed.

    Instructions of one vector depend on each other; a CPU overlaps those of several.
    """

    def change(node: Loop) -> Nodes | None:
        # An element that one vector accumulates into may be that of the next: keep their order.
        in_order = any(isinstance(s, (Accumulate, Scatter)) for s in statements(node.body))
        copy = replace(
            node, var=f"{var}u", start=0, stop=copies * node.step,
            kind="unroll" if in_order else "interleave", copies="own",
        )  # fmt: skip
        return _unrolled(node, copies * node.step, (copy,))

    return nest if copies == 1 else change_loops(nest, var, change, "serial")


def unroll_and_jam(nest: Nest, var: str, copies: int) -> Nest:
    """Several iterations of a loop at once, innermost: what they share stays in registers.

    Over a reduced axis the copies are reduced as a tree; over others each has its own accumulators.
    """

    def change(node: Loop) -> Nodes | None:
        (axis,) = node.axes
        how = "tree" if axis >= nest.rank else "own"
        copy = replace(
            node, var=f"{var}u", start=0, stop=copies * node.step, body=(), kind="unroll",
            copies=how,
        )  # fmt: skip
        return _unrolled(node, copies * node.step, _jammed(node.body, copy))

    return nest if copies == 1 else change_loops(nest, var, change, "serial")


def _jammed(nodes: Nodes, copy: Loop) -> Nodes:
    """The nodes with an unrolled loop pushed inside, down to the statements."""
    reduced = copy.copies == "tree"
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Prefetch):
            found.append(replace(copy, body=(node,), copies="in order"))
        elif isinstance(node, Block) or (isinstance(node, Loop) and is_unrolled(node)):
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

    def change(node: Loop) -> Nodes | None:
        require(isinstance(node.stop, int), "unroll", f"the iterations of {var} are not constant")
        return (replace(node, kind="unroll"),)

    return change_loops(nest, var, change, "serial")


def unroll_short(nest: Nest, limit: int) -> Nest:
    """Write out loops over inner axes, as long as there are at most ``limit`` copies of a body."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.kind == "serial" and node.axes[0] >= nest.rank):
            return None
        # The outermost loop that fits is written out, with all inside of it.
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

    (blocks,) = loops_of_var(nest, block)
    (axis,), size = blocks.axes, blocks.step
    extent = nest.extents[axis]
    strides, itemsize = nest.buffers[buffer].strides, nest.buffers[buffer].dtype.itemsize
    others = [n for k, n in enumerate(strides) if k != axis]
    rows_agree = strides[axis] == itemsize and all(n % (lanes * itemsize) == 0 for n in others)
    require(rows_agree, "align", f"rows of operand {buffer} begin at different places")
    return replace(nest, body=changed(nest.body, change))


def interchange(nest: Nest, row: str, var: str) -> Nest:
    """Run the loop ``row`` inside of the loop ``var``, where accumulators stay in registers."""

    def change(node: Loop) -> Nodes | None:
        (inner,) = node.body
        require(isinstance(inner, Loop) and inner.var == var, "interchange", f"no {var} in {row}")
        assert isinstance(inner, Loop)
        body: list[Node] = []
        for part in inner.body:
            # Statements beside reductions run once for all rows: their buffers may not move.
            moves = [k for k in buffers_of([part]) if nest.buffers[k].strides[node.axes[0]]]
            if isinstance(part, Reducing):
                part = replace(part, body=(replace(node, body=part.body),))
            elif moves:
                require(False, "interchange", f"buffers {moves} move along {row}")
            body.append(part)
        return (replace(inner, body=tuple(body)),)

    return change_loops(nest, row, change)


def hoist(nest: Nest, moving: set[str]) -> Nest:
    """Move what varies along no inner axis before the loops over them.

    ``moving`` are the names that do vary. The others need no scratch memory: they are known later.
    """

    def is_invariant(s: Statement) -> bool:
        return pure(s) and defines(s) not in moving

    # A value that is known before the loops is not saved for later phases: it is still there.
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
        # A product that something else reads would be computed twice, with two roundings.
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


def _unrolled(loop: Loop, step: int, body: Nodes) -> Nodes:
    """A loop with a larger step, and the same loop as before for the iterations that are left."""
    # Copies run without tests between them; what is left has a loop of single iterations.
    end = end_of_whole(loop, step)
    found: list[Node] = []
    if has_whole(loop, step):
        found.append(replace(loop, stop=end, step=step, body=body))
    if not is_whole(loop, step):
        found.append(replace(loop, start=end))
    return tuple(found)


def _require_loop(nest: Nest, var: str, rewrite: str) -> None:
    found = loops_of_var(nest, var)
    require(bool(found) and all(is_plain(n, var) for n in found), rewrite, f"no plain loop {var}")
