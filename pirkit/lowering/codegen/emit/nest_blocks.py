"""Code that runs at some blocks only, at images of a block, or as a function of rows of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from pirkit.lowering.codegen.emit.nest_reductions import NestReductions
from pirkit.lowering.codegen.emit.nest_state import ZERO, Move, Point, Scope
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.loop_ir import CallRows, Images, Nest, Node, OncePerOrbit, OnChange
from pirkit.lowering.codegen.ir.routine import Functions


class NestBlocks(NestReductions):
    """The nodes of the loop IR that are about blocks, not about what happens in them."""

    def __init__(self, b: Builder, nest: Nest, line_aligned: Value | None) -> None:
        super().__init__(b, nest, line_aligned)
        self.functions: Functions | None = None
        self.called: dict[tuple[Nest, tuple[int, ...]], tuple[str, int]] = {}
        """Nests that are functions of the module, and where their scratch memory begins."""
        self.is_other = Value("true", I1)
        """Whether the outermost parallel loops moved since the block before of this thread."""

    def on_change(self, node: OnChange, at: Point) -> None:
        """The body, if the outermost parallel loops moved (`parallel` says whether)."""
        self.guarded(self.is_other, node.body, at)

    def call_rows(self, node: CallRows, at: Point) -> None:
        """Call another nest, which is a function of the module, for some of its rows.

        It addresses row r at ``base + r * pitch``, so the base of an operand that has the present
        rows only is moved back.
        """
        b, first, addresses = self.b, ZERO, list[Value]()
        for axis in node.axes:
            first = b.plus(b.times(first, self.nest.extents[axis]), at.index.get(axis, ZERO))
        for k, pitch in zip(node.buffers, node.pitches, strict=True):
            back = b.emit(I64, f"sub i64 0, {b.times(first, pitch).text}") if pitch else ZERO
            addresses.append(b.at(self.address(k, at), back))
        key = node.nest, node.pitches
        name, scratch = self.called.get(key) or self.function_of(*key)
        own = b.at(Value("%scratch", PTR), scratch)
        end = b.plus(first, self.bound(node.count, at))
        given = ", ".join(map(str, [*addresses, own, first, end]))
        b.emit_void(f"call void @{name}({given})")

    def function_of(self, nest: Nest, pitches: tuple[int, ...]) -> tuple[str, int]:
        """The function of a nest that is called, and where its scratch memory begins."""
        assert self.functions is not None
        names = [f"%{'moved' if pitch else 'a'}{k}" for k, pitch in enumerate(pitches)]
        pointers = [Value(name, PTR) for name in names]
        sizes: list[int] = []

        def write(b: Builder) -> None:
            writer = type(self)(b, nest, None)
            writer.functions, writer.arguments = self.functions, pointers
            writer.run(nest.body, writer.start())
            sizes.append(writer.scratch)

        parameters = ", ".join(map(str, [*pointers, "ptr %scratch, i64 %lo, i64 %hi"]))
        found = self.functions.add((nest, pitches), parameters, write), self.scratch
        self.scratch += sum(sizes)
        self.called[nest, pitches] = found
        return found

    def once_per_orbit(self, node: OncePerOrbit, at: Point) -> None:
        """The body, if the block is lexicographically not after any of its images."""
        b, holds = self.b, Value("true", I1)
        begin, *others = _images(node.images, at)
        for other in others:
            is_first = Value("true", I1)
            # Lexicographic x <= y, from the last axis: x0 < y0 or (x0 == y0 and the rest holds).
            for x, y in reversed(list(zip(begin, other, strict=True))):
                if x.text != y.text:
                    is_same = b.both(b.compare("eq", x, y), is_first)
                    is_first = b.op("or", b.compare("slt", x, y), is_same)
            holds = b.both(is_first, holds)
        self.guarded(holds, node.body, at)

    def guarded(self, condition: Value, nodes: Sequence[Node], at: Point) -> None:
        """Nodes under a condition."""

        def body() -> list[Value]:
            with Scope(self):
                self.run(nodes, at)
            return []

        self.b.branch(condition, body)

    def images(self, node: Images, at: Point) -> None:
        """The body at each image of a block; those that are the same block run once."""
        b, count = self.b, len(node.images)
        begins = _images(node.images, at)
        # The first image that is the same block: on a diagonal several are.
        first = [Value(str(k), I64) for k in range(count)]
        for k, other in itertools.product(range(count), reversed(range(count))):
            if other < k:
                pairs = zip(begins[k], begins[other], strict=True)
                is_same = Value("true", I1)
                for x, y in pairs:
                    if x.text != y.text:
                        is_same = b.both(b.compare("eq", x, y), is_same)
                first[k] = b.select(is_same, Value(str(other), I64), first[k])

        def body(image: Value, _: list[Value]) -> Sequence[Value]:
            moves: list[Move] = []
            for axis, loop in enumerate(node.moves()):
                begin = b.pick(image, [found[axis] for found in begins])
                by = b.emit(I64, f"sub {begin}, {at.index[axis].text}")
                moves.append((loop, by, None))
            here = self.moved(at, node.body, *moves)
            for move in moves:
                here = self.with_counts(move[0], here)
            address = list(here.address)
            for k in self.used_buffers(node.body):
                # Images that are the same block share the scratch tile of the first of them.
                if (tile := self.nest.buffers[k].image) is not None:
                    slot = b.pick(image, [first[n] for n in node.composed(tile[0])])
                    address[k] = b.at(address[k], b.times(slot, tile[1]))
            is_new = b.compare("eq", b.pick(image, first), image)
            self.guarded(is_new, node.body, replace(here, address=tuple(address)))
            return []

        b.loop(0, count, 1, [], body)


def _images(images: Sequence[Sequence[int]], at: Point) -> list[list[Value]]:
    """The first index of each image of a block along each axis."""
    return [[at.index[axis] for axis in image] for image in images]
