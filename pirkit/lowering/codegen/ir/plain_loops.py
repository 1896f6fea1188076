"""Writes a `Kernel` as plain loops: where all rewrites begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import types_of
from pirkit.lowering.codegen.ir.loop_ir import Block, Buffer, Loop, Nest, Node, Reducing
from pirkit.lowering.codegen.ir.loopnest import (
    Kernel,
    Load,
    Operand,
    Reduce,
    Statement,
    Store,
    defines,
    reads,
    saved_values,
)


def task_nest(
    outer: tuple[int, ...], inner: tuple[int, ...], buffers: tuple[Buffer, ...],
    tasks: Sequence[Loop], body: tuple[Node, ...],
) -> Nest:  # fmt: skip
    """A nest of routines: parallel loops over ``tasks``, outermost first, around a body.

    Its operands are the buffers that are not scratch memory, each of them once.
    """
    for loop in reversed(tasks):
        body = (replace(loop, body=body, kind="parallel"),)
    operands = [
        Operand(x.dtype, (0,) * len(outer), (0,) * len(inner), x.size)
        for x in buffers
        if x.space == "memory" and x.shares is None
    ]
    return Nest(Kernel(outer, inner, tuple(operands), ()), buffers, body)


def loops_of(kernel: Kernel) -> Nest:
    """A kernel as plain loops, one per axis; a later phase reads saved values from scratch."""
    rank, types = len(kernel.outer), types_of(kernel)
    operands = [
        Buffer(o.dtype, (*o.outer, *o.inner), o.size, o.offset, o.stream) for o in kernel.operands
    ]
    nest = Nest(kernel, tuple(operands), ())
    saved: dict[str, int] = {}
    outside = tuple(outer_var(k) for k in range(rank))
    for name in saved_values(kernel):
        strides = (*[0] * rank, *row_major(kernel.inner, types[name].itemsize))
        size = types[name].itemsize * prod(kernel.inner)
        nest, saved[name] = nest.with_buffer(
            Buffer(types[name], strides, size, space="scratch", outside=outside)
        )
    nodes: list[Node] = []
    for number, phase in enumerate(kernel.loop_phases):
        body: tuple[Node, ...] = (Block(tuple(with_saves(phase.body, saved))),)
        for k, extent in reversed(list(enumerate(kernel.inner))):
            body = (Loop(inner_var(k, number), (rank + k,), 0, extent, 1, body),)
        reductions = tuple([s for s in phase.body if isinstance(s, Reduce)])
        if phase.body:
            nodes += [Reducing(reductions, body)] if reductions else body
        if phase.after:
            nodes.append(Block(phase.after))
    body = tuple(nodes)
    for k, extent in reversed(list(enumerate(kernel.outer))):
        body = (Loop(outer_var(k), (k,), 0, extent, 1, body),)
    return replace(nest, body=body)


def outer_var(axis: int) -> str:
    """The variable of the loop over an outer axis."""
    return f"i{axis}"


def inner_var(axis: int, phase: int) -> str:
    """The variable of the loop of a phase over an inner axis, which counts from 0."""
    return f"r{axis}.{phase}"


def row_major(extents: Sequence[int], size: int) -> list[int]:
    """The strides of a dense array of elements of ``size`` bytes."""
    return [size * prod(extents[k + 1 :]) for k in range(len(extents))]


def with_saves(body: Sequence[Statement], saved: dict[str, int]) -> Iterator[Statement]:
    """A body that stores what later ones read, and loads what earlier ones saved."""
    known = {defines(s) for s in body}
    for statement in body:
        for name in reads(statement):
            if name in saved and name not in known:
                known.add(name)
                yield Load(name, saved[name])
        yield statement
        if (name := defines(statement)) in saved:
            yield Store(saved[name], name)
