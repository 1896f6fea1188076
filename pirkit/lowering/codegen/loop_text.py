"""Nests of the loop IR as text, for people: the last part of ``pirkit-opt -t nest``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Bound,
    Buffer,
    CallRows,
    Images,
    Invoke,
    Iteration,
    Loop,
    Nest,
    Node,
    NonTemporal,
    Number,
    OncePerOrbit,
    OnChange,
    Pack,
    Prefetch,
    PrefetchTile,
    Window,
    Word,
)
from pirkit.lowering.codegen.ir.loop_tree import buffers_of
from pirkit.lowering.codegen.nest_text import statement_line

_COPIES = {"in order": "", "own": ", own accumulators", "tree": ", reduced as a tree"}


def scheduled_lines(stages: Sequence[Stage], names: Sequence[str]) -> Iterator[str]:
    """The loops that are written as LLVM IR, and the rewrites that gave them."""
    first, *others = stages
    yield f"// schedule: {', '.join(stage.rewrite for stage in others) or first.rewrite}"
    yield from loop_lines(stages[-1].nest, names)


def loop_lines(nest: Nest, names: Sequence[str], scratch: str = "s") -> Iterator[str]:
    """A nest, one node in a line; ``names`` are those of the operands."""
    names, used = list(names), buffers_of(nest.body)
    for number, buffer in enumerate(nest.buffers[len(names) :], len(names)):
        shown = scratch + str(number)
        names.append(shown if buffer.space != "memory" else names[buffer.shares or 0])
    for number, buffer in enumerate(nest.buffers):
        if buffer.space != "memory" and number in used:
            yield f"// {names[number]}: {_scratch(buffer)}"
    axes = [f"i{k}" if k < nest.rank else f"r{k - nest.rank}" for k in range(len(nest.extents))]
    yield from _lines(nest.body, names, axes)


def _scratch(buffer: Buffer) -> str:
    return f"{buffer.space} {buffer.dtype.name}, {buffer.size:,} bytes, {list(buffer.strides)}"


def _lines(nodes: Sequence[Node], names: Sequence[str], axes: Sequence[str]) -> Iterator[str]:
    """The lines of nodes. Leaves `continue`; the others have a body, which is indented below."""
    for node in nodes:
        match node:
            case Block():
                for statement in node.statements:
                    yield statement_line(statement, names, axes)
                continue
            case Prefetch(buffer, distance, near, write):
                how = "for writing" if write else "for reading"
                yield f"prefetch {names[buffer]} + {distance} bytes {how} into L{1 if near else 2}"
                continue
            case PrefetchTile(buffer):
                yield f"prefetch tile {names[buffer]} {node.ahead} columns ahead"
                continue
            case Invoke(routine, buffers, numbers):
                shown = [_number(x, axes) for x in numbers]
                yield routine.show([names[k] for k in buffers], shown)
                continue
            case CallRows(nest, buffers):
                yield f"{_bound(node.count)} rows of"
                own = [names[k] for k in buffers]
                yield from (f"  {line}" for line in loop_lines(nest, own, "own"))
                continue
            case OnChange():
                when = f", or if {', '.join(node.vars)} moved since" if node.vars else ""
                yield f"at the first block of a thread{when}:"
            case Pack(source, dest):
                columns = "lanes" if node.columns is None else _bound(node.columns)
                size = f"{_bound(node.rows)} x {columns}"
                yield f"{names[dest]} = transpose {names[source]} [{size}]"
                continue
            case Loop():
                yield f"{_loop(node, axes)}:"
            case OncePerOrbit(images):
                yield f"if first of its images {[list(image) for image in images]}:"
            case Images(images):
                yield f"for each distinct image of {', '.join(node.blocks)}:"
            case NonTemporal(buffers):
                yield f"non-temporal stores to {', '.join(names[k] for k in buffers)}:"
            case _:
                how = "resume" if node.resumed else "start"
                sums = ", ".join(f"{r.kind} t{r.name}" for r in node.reductions)
                yield f"accumulate {sums} in registers ({how}):"
        yield from (f"  {line}" for line in _lines(node.body, names, axes))


def _loop(node: Loop, axes: Sequence[str]) -> str:
    of = " ".join(axes[k] for k in node.axes)
    span = f"{node.var} in {_bound(node.start)} .. {_bound(node.stop)}"
    step = f" step {node.step}" if node.step != 1 else ""
    kind = "" if node.kind == "serial" else f"{node.kind} "
    lanes = f" of {node.lanes} lanes" if node.kind == "vector" else ""
    aligned = "" if node.align is None else ", aligned"
    back = ", the last one moved back" if node.moved_back else ""
    return f"{kind}for {span}{step}{lanes} along {of}{_COPIES[node.copies]}{aligned}{back}"


def _number(number: Number, axes: Sequence[str]) -> str:
    if isinstance(number, Window):
        span = f"{number.taps} taps" if number.counts else "first tap"
        return f"{span} on the image at {axes[number.axis]}"
    if isinstance(number, Iteration):
        return number.var if not number.of else f"{number.var} (first, between, or last)"
    return _bound(number)


def _bound(bound: Bound) -> str:
    if isinstance(bound, int):
        return str(bound)
    if isinstance(bound, Word):
        least = f" if >= {bound.least}" if bound.least else ""
        return f"{bound.name}{_multiple(bound.multiple)}{least}"
    end = f"{bound.extent}" if bound.within is None else f"end of {bound.within.block}"
    count = f"min({bound.size}, {end} - {bound.block})"
    return f"{count}{_multiple(bound.multiple)}"


def _multiple(of: int) -> str:
    return f" / {of} * {of}" if of > 1 else ""
