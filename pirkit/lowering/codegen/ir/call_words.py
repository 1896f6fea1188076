"""Nests whose sizes and strides are given by the call: one function serves all matrices.

A `Word` stands for a number, and a `Table` for offsets that no stride describes, such as those of
the matrices of a broadcast batch. Both are int64 in the buffer `Nest.words`. `bound_nest` puts in
what a call has, and so gives an ordinary nest, for the interpreter and the proof of bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.loop_ir import Bound, Buffer, Invoke, Loop, Nest, Node, Table, Word
from pirkit.lowering.codegen.ir.loop_tree import changed, walk


def words_of(nest: Nest) -> list[Word]:
    """The numbers that a nest reads, each once."""
    found: dict[Word, None] = {}
    for node in walk(nest.body):
        numbers: Iterator[object] = iter(())
        if isinstance(node, Loop):
            numbers = iter((node.start, node.stop))
        elif isinstance(node, Invoke):
            numbers = iter(node.numbers)
        found |= {x: None for x in numbers if isinstance(x, Word)}
    strides = [stride for buffer in nest.buffers for _, stride in buffer.dynamic]
    return list(found | {x: None for x in strides if isinstance(x, Word)})


def value_of(word: Word, words: Sequence[int]) -> int:
    """The value of a word."""
    value = int(words[word.number])
    return value // word.multiple * word.multiple if value >= word.least else 0


def bound_nest(nest: Nest, words: Sequence[int]) -> Nest:
    """The nest for the words of a call."""

    def known(bound: Bound) -> Bound:
        return value_of(bound, words) if isinstance(bound, Word) else bound

    def change(node: Node) -> Sequence[Node] | None:
        if isinstance(node, Invoke):
            numbers = [known(x) if isinstance(x, Word) else x for x in node.numbers]
            return [replace(node, numbers=tuple(numbers))]
        if isinstance(node, Loop) and {type(node.start), type(node.stop)} & {Word}:
            return [replace(node, start=known(node.start), stop=known(node.stop))]
        return None

    def buffer(b: Buffer) -> Buffer:
        strides, tables = list(b.strides), list[tuple[int, Word | Table]]()
        for axis, stride in b.dynamic:
            if isinstance(stride, Word):
                strides[axis] += value_of(stride, words)
            else:
                offsets = tuple([int(w) for w in words[stride.first :: stride.step]])
                tables.append((axis, replace(stride, offsets=offsets)))
        size = b.size if b.size_word is None else int(words[b.size_word])
        return replace(b, strides=tuple(strides), dynamic=tuple(tables), size=size)

    buffers = tuple(map(buffer, nest.buffers))
    return replace(nest, buffers=buffers, body=changed(nest.body, change), words=None)


def offsets_of(buffer: Buffer, positions: Mapping[int, int]) -> Iterator[int]:
    """The offsets that the tables of a bound nest add to an address."""
    for axis, table in buffer.dynamic:
        if isinstance(table, Table) and axis in positions:
            yield table.offsets[positions[axis]]
