"""Loops that rules emit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xdsl.ir import Block, Region

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.runtime import dtype as dt

Iteration = Callable[
    [Value, list[Value], tuple[Value, ...]], tuple[Sequence[Value], Sequence[Value]]
]
"""The number of a row, that row of each input, the state -> the new state, a row of each result."""

MAX_UNROLLED: Final = 8
"""Iterations that are written out: straight code becomes one native call, whereas each iteration of
a loop costs several calls (9 us), but code and its compile time grow with their number."""


def scan(
    b: Builder,
    step: Iteration,
    state: Sequence[Value],
    inputs: Sequence[Value],
    *,
    reverse: bool = False,
) -> tuple[list[Value], list[Value]]:
    """The last state, and the rows that the iterations give as tensors ``[steps, ...]``.

    A `pd_op.while` with an iteration for each row of the inputs, of which there is at least one and
    whose number is known; ``reverse`` goes from the last one to the first. At most `MAX_UNROLLED`
    iterations are no loop. The values of the state keep shape and element type.
    """
    steps = inputs[0].shape[0]
    if steps <= MAX_UNROLLED:
        outputs: list[Sequence[Value]] = [()] * steps
        last: Sequence[Value] = state
        for k in reversed(range(steps)) if reverse else range(steps):
            last, outputs[k] = step(b.const(k, dt.int64), [x[k] for x in inputs], tuple(last))
        return [*last], [b.stack(rows, axis=0) for rows in zip(*outputs, strict=True)]
    first, end, by = (steps - 1, -1, -1) if reverse else (0, steps, 1)
    start = [b.const(first, dt.int64), *map(b.assign, state)]
    block = Block(arg_types=[type_of(v.meta) for v in start])
    with b.inside(block):
        t, *old = map(b.wrap, block.args)
        at = b.reshape(t, (1,))
        given = [b.reshape(b.gather(x, at, axis=0), x.shape[1:]) for x in inputs]
        new, rows = step(t, given, tuple(old))
        buffers = [block.insert_arg(type_of(r.meta.with_shape((steps, *r.shape))), len(block.args))
                   for r in rows]  # fmt: skip
        written = [b.scatter(b.wrap(x), at, b.reshape(r, (1, *r.shape)), overwrite=True)
                   for x, r in zip(buffers, rows, strict=True)]  # fmt: skip
        following = t + by
        more = b.not_equal(following, b.const(end, dt.int64))
        b.insert(create("pir.yield", [v.ssa for v in (more, following, *new, *written)]))
    start += [b.const(0.0, r.dtype, (steps, *r.shape)) for r in rows]
    operands = [v.ssa for v in (b.const(True, dt.bool_), *start)]
    types = [type_of(v.meta) for v in start]
    made = b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
    found = [b.wrap(r) for r in made.results[1:]]
    return found[: len(state)], found[len(state) :]
