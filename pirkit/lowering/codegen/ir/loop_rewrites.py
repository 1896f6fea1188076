"""Rewrites of the loop IR: pure functions from a nest to a nest that computes the same.

Each checks that it is legal, and raises InternalError if it is not. Whether it pays is not decided
here: a schedule (`emit/schedule_loops.py`) applies them in order, with the sizes that it chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from pirkit.lowering.codegen.ir.element_types import compute_type, identity
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Count,
    Loop,
    Nest,
    Node,
    NonTemporal,
    Prefetch,
    Reducing,
    changed,
    inside,
    is_multiple,
    most,
    pure,
    require,
    rounded,
    statements,
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
from pirkit.lowering.codegen.math.primitives import element

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
        assert isinstance(node, Loop) and isinstance(node.stop, int)
        stop = size if node.stop % size == 0 else Count(block_var, node.stop, size)
        block = replace(node, stop=stop)
        return (replace(node, var=block_var, step=size, body=(block,)),)

    _require_loop(nest, var, "tile")
    return replace(nest, body=changed(nest.body, change))


def vectorize(nest: Nest, var: str, lanes: int) -> Nest:
    """Iterations in vectors: a loop over whole vectors, and a masked one for the others."""

    def change(node: Node) -> Nodes | None:
        if not _is_plain(node, var):
            return None
        assert isinstance(node, Loop)
        full, whole = rounded(node.stop, lanes), is_multiple(node.stop, lanes)
        lane = replace(
            node, var=lane_var(var), stop=lanes, kind="vector", lanes=lanes
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
        if isinstance(node, (Block, Prefetch)) or (isinstance(node, Loop) and _is_unrolled(node)):
            # Around a reduction, what loads and stores its accumulators runs once for all copies.
            once = reduced and not any(isinstance(s, Reduce) for s in statements([node]))
            found.append(node if once else replace(copy, body=(node,)))
        else:
            found.append(replace(node, body=_jammed(node.body, copy)))
    return tuple(found)


def unroll(nest: Nest, var: str) -> Nest:
    """Write out all iterations of the loops with a variable."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == var and node.kind == "serial"):
            return None
        require(isinstance(node.stop, int), "unroll", f"the iterations of {var} are not constant")
        return (replace(node, kind="unroll"),)

    return replace(nest, body=changed(nest.body, change))


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
                found += changed([node], without)
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
        if element(product.dtype) in ("float", "double"):
            assert isinstance(s, Reduce)
            fused[s] = replace(s, value=product.args[0], times=product.args[1])
    gone = {made[s.value] for s in fused if isinstance(s, Reduce)}

    def change(node: Node) -> Nodes | None:
        if not isinstance(node, Block):
            return None
        return (Block(tuple([fused.get(s, s) for s in node.statements if s not in gone])),)

    return replace(nest, body=changed(nest.body, change))


def prefetch(nest: Nest, var: str, requests: Sequence[Prefetch], first: bool = False) -> Nest:
    """Prefetch in each whole vector of a loop, before or after its statements."""

    def change(node: Node) -> Nodes | None:
        if not (isinstance(node, Loop) and node.var == lane_var(var) and node.stop == node.lanes):
            return None
        body = (*requests, *node.body) if first else (*node.body, *requests)
        return (replace(node, body=body),)

    return replace(nest, body=changed(nest.body, change)) if requests else nest


def stream(nest: Nest, var: str, lanes: int) -> Nest:
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
        (inner,) = innermost.axes
        sizes = [s for axis, s in enumerate(buffer.strides) if axis != inner]
        blocks = [loop.step * buffer.strides[inner] for loop in around]
        return width <= 64 and all(n % width == 0 for n in (buffer.offset, *sizes, *blocks))

    innermost = [n for n in inside(_loops(nest, var)) if isinstance(n, Loop)][-1]
    around = [
        n
        for n in inside(nest.body)
        if isinstance(n, Loop) and n.axes == innermost.axes and n.kind == "parallel"
    ]
    return replace(nest, body=changed(nest.body, change))


def accumulate_in_blocks(nest: Nest, axes: int, size: int, lanes: int) -> Nest:
    """Run blocks of ``size`` iterations of the last outer ``axes`` in order, threads share blocks.

    Each block begins with the identity in the memory that it accumulates into.
    """
    rank = nest.rank
    shared = tuple(range(rank - axes, rank))
    sums = {s.operand: s for s in nest.kernel.accumulations()}
    buffers = list(nest.buffers)
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

    def change(node: Node) -> Nodes | None:
        if not isinstance(node, Block):
            return None
        return (Block(tuple([_moved(s, scratch, operand) for s in node.statements])),)

    given, instead = nest.buffers[scratch], nest.buffers[operand]
    require(given.dtype is instead.dtype, "use_buffer", "another element type")
    return replace(nest, body=changed(nest.body, change))


def _moved(s: Statement, old: int, new: int) -> Statement:
    return replace(s, operand=new) if isinstance(s, (Load, Store)) and s.operand == old else s


def _unrolled(loop: Loop, step: int, body: Nodes) -> Nodes:
    """A loop with a larger step, and the same loop as before for the iterations that are left."""
    main = replace(loop, stop=rounded(loop.stop, step), step=step, body=body)
    found: list[Node] = [main] if most(loop.stop) >= step else []
    if not is_multiple(loop.stop, step):
        found.append(replace(loop, start=rounded(loop.stop, step)))
    return tuple(found)


def _loops(nest: Nest, var: str) -> list[Loop]:
    return [n for n in inside(nest.body) if isinstance(n, Loop) and n.var == var]


def _is_plain(node: Node, var: str) -> bool:
    return isinstance(node, Loop) and node.var == var and node.kind == "serial" and node.step == 1


def _is_unrolled(loop: Loop) -> bool:
    return loop.kind in ("unroll", "interleave")


def _require_loop(nest: Nest, var: str, rewrite: str) -> None:
    found = _loops(nest, var)
    require(bool(found) and all(_is_plain(n, var) for n in found), rewrite, f"no plain loop {var}")
