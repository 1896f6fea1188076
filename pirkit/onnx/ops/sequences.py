"""Sequences and optional values, which exist only while the graph is read.

A sequence is a Python list of values, so that its length and all positions must be known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime import dtype as dt


@rule("SequenceConstruct")
def _(b: NodeBuilder, *values: Value) -> list[Value]:
    return list(values)


@rule("SequenceEmpty")
def _(b: NodeBuilder, dtype: int = 1) -> list[Value]:
    return []


@rule("SequenceInsert")
def _(b: NodeBuilder, sequence: list[Value], value: Value, position: Any = None) -> list[Value]:
    place = len(sequence) if position is None else _position(b, sequence, position)
    return [*sequence[:place], value, *sequence[place:]]


@rule("SequenceErase")
def _(b: NodeBuilder, sequence: list[Value], position: Any = None) -> list[Value]:
    place = len(sequence) - 1 if position is None else _position(b, sequence, position)
    return [*sequence[:place], *sequence[place + 1 :]]


@rule("SequenceAt")
def _(b: NodeBuilder, sequence: list[Value], position: Value) -> Value:
    return sequence[_position(b, sequence, position)]


def _position(b: NodeBuilder, sequence: list[Value], position: Value) -> int:
    place = int(np.ravel(b.known(position, "position"))[0])
    return place + len(sequence) if place < 0 else place


@rule("SequenceLength")
def _(b: NodeBuilder, sequence: list[Value]) -> Value:
    return b.array(np.asarray(len(sequence), np.int64))


@rule("Optional", "OptionalGetElement")
def _(b: NodeBuilder, x: Any = None, type: Any = None) -> Any:
    """A value, or None if it is absent; that is known while the graph is read."""
    return x


@rule("OptionalHasElement")
def _(b: NodeBuilder, x: Any = None) -> Value:
    return b.const(x is not None, dt.bool_)


@rule("SplitToSequence")
def _(
    b: NodeBuilder, x: Value, split: Value | None = None, axis: int = 0, keepdims: int = 1
) -> list[Value]:
    place = b.axis(axis, x.rank)
    size = b.static(x)[place]
    if split is None:
        parts = [b.cut(x, place, i, i + 1) for i in range(size)]
        return parts if keepdims else [b.squeezed(v, (place,)) for v in parts]
    given = np.asarray(b.known(split, "split"))
    step = int(given) if given.ndim == 0 else 0
    sizes = [min(step, size - i) for i in range(0, size, step)] if step else given.tolist()
    starts = np.cumsum([0, *sizes]).tolist()
    return [b.cut(x, place, s, s + n) for s, n in zip(starts, sizes, strict=False)]


@rule("ConcatFromSequence")
def _(b: NodeBuilder, sequence: list[Value], axis: int, new_axis: int = 0) -> Value:
    rank = sequence[0].rank + new_axis
    place = b.axis(axis, rank)
    parts = [b.unsqueezed(v, (place,)) for v in sequence] if new_axis else sequence
    return b.concat(parts, place)
