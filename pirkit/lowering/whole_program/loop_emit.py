"""Emits the loops of a program that computes one batch row in each lane.

Batch rows (``rows``) in scratch memory are stored column by column, one vector of lanes for each
column. Inputs and results have the row-major layout of their tensors, so one of their columns is a
strided (gather) load or a strided store. Values without a batch axis are read as scalars and
broadcast. The last vector may be partial: its loads and stores from tensors have a tail mask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.emit.memory_access import Memory, load, store
from pirkit.lowering.codegen.emit.vector_emit import argument
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import Typed, element, narrow
from pirkit.lowering.whole_program.lane_ops import apply_op
from pirkit.lowering.whole_program.lane_tiling import lane_mask
from pirkit.lowering.whole_program.loop_fusion import FusedLoop, FusedProgram
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.lowering.whole_program.outlined_loops import OutlinedLoop, OutlinedLoops
from pirkit.lowering.whole_program.scheduling import Node
from pirkit.runtime.dtype import DType

_ZERO: Final = Value("0", I64)
_MOST_INLINE: Final = 24
"""Lines of a function that are inlined: LLVM takes 0.4 ms for a function of one line, which is as
long as it takes for twenty lines of a larger one."""


class VectorPosition(Struct, frozen=True):
    """The vector that is computed: its first batch ``row``, its ``number`` in the block, and how
    many rows are ``left`` from there; None if all lanes are valid.
    """

    row: Value = _ZERO
    number: Value = _ZERO
    left: Value | None = None


class LoopEmitter:
    """Emits the body of one function. Its operands are inputs, results, and the workspace."""

    def __init__(
        self,
        b: Builder,
        order: FusedProgram,
        lanes: int,
        dtype: DType,
        shared: OutlinedLoops | None = None,
    ) -> None:
        self.b, self.order, self.lanes, self.dtype = b, order, lanes, dtype
        self.shared = shared
        """Collects loops as functions of their own; None if each loop is emitted inline."""
        self.loop: OutlinedLoop | None = None
        """The function that is emitted now."""
        self.schedule, self.graph = order.schedule, order.schedule.graph
        graph = self.graph
        operands = (*graph.inputs, *graph.outputs)
        self.workspace = argument(b, len(operands))
        self.places = {value: (number, 0) for number, value in enumerate(operands)}
        """The operand and byte offset of each input, result and value without a batch axis."""
        for value, offset in order.whole.items():
            self.places.setdefault(value, (len(operands), offset))
        self.known: dict[int, Value] = {}
        """Addresses computed once, at the function's entry; outlined loops get them as
        arguments instead."""
        if shared is None:
            self.known = {value: self._begin(value) for value in self.places}
        self.scratch = Value("%scratch", PTR)
        self.by_value = False
        """Whether an outlined loop gets the address of each row, not of the frames that hold them:
        more loops are equal then, but LLVM does not know that their rows are apart.
        """
        self.here = VectorPosition()
        self.summed = {v for s in self.schedule.sums for pair in s.terms for v in pair}
        self.contracts = self.schedule.has_matmul

    # --- addresses and other arguments of a loop ---

    def outlined(self, body: Callable[[], None]) -> None:
        """Emit a loop as a function (shared with equal loops) and a call of it; what is no loop,
        and short, is emitted inline.
        """
        if self.shared is None:
            body()
            return
        caller, here, loop = self.b, self.here, OutlinedLoop()
        left = None if here.left is None else loop.number("left", lambda: here.left or _ZERO)
        self.b, self.here, self.loop = (
            Builder(scalef=caller.scalef),
            VectorPosition(left=left),
            loop,
        )
        body()
        made = self.b
        self.b, self.here, self.loop = caller, here, None
        # Without a loop, a few instructions take less than the call.
        if made.label == "entry" and len(made.lines) <= _MOST_INLINE:
            body()
            return
        name = self.shared.name_of(loop.parameters, made)
        caller.emit_void(f"call void {name}({loop.arguments()})")

    def place_in_workspace(self, value: int, offset: int) -> None:
        """Register that a value is at a byte offset of the workspace."""
        self.places[value] = len(self.graph.inputs) + len(self.graph.outputs), offset
        if self.shared is None:
            self.known[value] = self._begin(value)

    def _begin(self, value: int) -> Value:
        if value in self.graph.tables:
            return self._table(value)
        number, offset = self.places[value]
        return self.known.get(value) or self.b.at(argument(self.b, number), offset)

    def _table(self, value: int) -> Value:
        """The address of constant elements, which are part of the code."""
        data = self.graph.tables[value].tobytes()
        name = f"@numbers{list(self.graph.tables).index(value)}"
        text = "".join([f"\\{byte:02x}" for byte in data])
        kind = f"private unnamed_addr constant [{len(data)} x i8]"
        self.b.declared[name] = f'{name} = {kind} c"{text}", align 64'
        return Value(name, PTR)

    def pointer(self, value: int) -> Value:
        """The address of an input, a result, or a value without a batch axis."""
        if self.loop is None:
            return self._begin(value)
        return self.loop.pointer(value, lambda: self._begin(value))

    def number(self, key: Hashable, made: Value) -> Value:
        """An integer of the enclosing loops; an argument of an outlined loop."""
        return made if self.loop is None else self.loop.number(key, lambda: made)

    def place(self, key: Hashable, made: Callable[[], Value]) -> Value:
        """An address of the enclosing loops; an argument of an outlined loop."""
        return made() if self.loop is None else self.loop.pointer(key, made)

    def moved(self, number: Value) -> VectorPosition:
        """The position ``number`` vectors after the current one."""
        b, here = self.b, self.here
        vector_start = b.times(number, self.lanes)
        left = here.left
        if left is not None and vector_start.text != "0":
            left = b.emit(I64, f"sub i64 {left.text}, {vector_start.text}")
        return VectorPosition(b.plus(here.row, vector_start), b.plus(here.number, number), left)

    @property
    def mask(self) -> Value:
        """The tail mask: the lanes that hold a batch row."""
        return lane_mask(self.b, self.lanes, self.here.left)

    def type_of(self, dtype: DType, lanes: int) -> Type:
        return Type(element(dtype), lanes)

    def fill(self, value: int, lanes: int) -> Value:
        """A constant fill as a vector."""
        return self.b.const(self.type_of(self.graph.dtype(value), lanes), self.graph.fills[value])

    def only_element(self, value: int, lanes: int) -> Value:
        """The single element of a value, broadcast to all lanes."""
        dtype = self.graph.dtype(value)
        one = load(self.b, dtype, Memory(self.pointer(value), 0), 1, None)
        return self.b.splat(one, lanes)

    # --- values without a batch axis ---

    def whole(self, item: FusedLoop) -> None:
        """Emit elementwise ops over values of one size, vectorized along the elements."""
        b, (numel,) = self.b, item.first.key
        lanes, count = 1 if numel == 1 else self.lanes, Value(str(numel), I64)
        if lanes > 1:
            count = self.number("count", count)
        outside: dict[int, Value] = {}
        for value in sorted(item.reads() - item.defines()):
            if self.graph.metas[value].numel == 1 and value not in self.graph.fills:
                outside[value] = self.only_element(value, lanes)

        def one_vector(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            mask = None
            if lanes > 1 and (self.loop is not None or numel % lanes):
                mask = self._left(count.text, index)

            def memory(value: int) -> Memory:
                size = self.graph.dtype(value).itemsize
                return Memory(b.at(self.pointer(value), b.times(index, size)), size)

            def read(value: int) -> Value:
                return load(b, self.graph.dtype(value), memory(value), lanes, mask)

            values = dict(outside)
            for node in item.nodes:
                made = self.apply(node.op, values, read, lanes)
                values[node.op.out] = made
                if node.op.out in self.places:
                    dtype = self.graph.dtype(node.op.out)
                    store(b, narrow(b, made, dtype), dtype, memory(node.op.out), mask)
            return []

        b.loop(0, count, lanes, [], one_vector)

    def reduce_all(self, node: Node) -> None:
        """Emit the sum of all elements of a value."""
        b, (count,), (arg,) = self.b, node.key, node.op.args
        lanes, dtype = self.lanes, self.graph.dtype(arg)
        size = dtype.itemsize
        type_ = self.type_of(dtype, lanes)

        def one_vector(index: Value, so_far: Sequence[Value]) -> Sequence[Value]:
            if arg in self.graph.fills:
                # a load leaves 0 beyond the end, a constant does not
                value, mask = self.fill(arg, lanes), self._left(count, index)
                value = b.select(mask, value, b.const(type_, 0.0))
            else:
                memory = Memory(b.at(self.pointer(arg), b.times(index, size)), size)
                value = load(b, dtype, memory, lanes, self._left(count, index))
            return [b.add(so_far[0], value)]

        (total,) = b.loop(0, count, lanes, [b.const(type_, 0.0)], one_vector)
        only = self.transpose_reduce([total])
        store(b, b.extract(only, 0), dtype, Memory(self.pointer(node.op.out), size), None)

    def _left(self, count: int | str, index: Value) -> Value:
        return lane_mask(self.b, self.lanes, self.b.emit(I64, f"sub i64 {count}, {index.text}"))

    def transpose_reduce(self, vectors: Sequence[Value]) -> Value:
        """Reduce the lanes of up to as many vectors as there are lanes: lane k of the result is the
        sum of vector k; lanes without a vector hold anything.

        A butterfly: step ``s`` adds two vectors after exchanging lanes at distance ``s``, which
        halves the number of vectors, with log2(lanes) levels in total.
        """
        found, lanes, step = list(vectors), self.lanes, 1
        while step < lanes:
            # vectors are paired: the last of an odd number with itself
            found += found[-1:] * (len(found) % 2)
            low = [p if not p & step else p - step + lanes for p in range(lanes)]
            high = [p + step if not p & step else p + lanes for p in range(lanes)]
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [
                self.b.add(self.b.shuffle(x, y, low), self.b.shuffle(x, y, high)) for x, y in pairs
            ]
            step *= 2
        return found[0]

    # --- one op on vectors ---

    def apply(
        self,
        op: Op,
        values: dict[int, Value],
        read: Callable[[int], Value],
        lanes: int,
        contracts: bool = False,
    ) -> Value:
        """Emit an elementwise op; operands missing from ``values`` are loaded and added to it."""
        b, given = self.b, list[Typed]()
        for arg in op.args:
            if arg in self.graph.fills:
                given.append((self.fill(arg, lanes), self.graph.dtype(arg)))
                continue
            if arg not in values:
                values[arg] = read(arg)
            given.append((values[arg], self.graph.dtype(arg)))
        return apply_op(b, op, given, self.graph.dtype(op.out), contracts)

    # --- rows ---

    def row_address(self, value: int, column: Value) -> Value:
        """The address of a column of a value in scratch memory."""
        b, frame = self.b, self.order.frames[value]

        def frame_of_caller() -> Value:
            return self.b.at(self.b.at(self.scratch, frame), self.start_of(value))

        if self.loop is None:
            base = b.at(self.scratch, self.order.rows[value])
        elif self.by_value:
            base = self.loop.pointer(("row", value), lambda: self.in_scratch(value))
        else:
            base = self.loop.pointer(("rows", frame), frame_of_caller, alone=True)
            base = b.at(base, self.order.rows[value] - frame)
        base = b.at(base, self.start_of(value))
        return b.at(base, b.times(column, self.step_of(value)))

    def in_scratch(self, value: int, offset: int | None = None) -> Value:
        """The address of a value, or of an offset, at the current vector of the value's block."""
        offset = self.order.rows[value] if offset is None else offset
        return self.b.at(self.b.at(self.scratch, offset), self.start_of(value))

    def start_of(self, value: int) -> Value:
        """Bytes from a value's scratch memory to the current vector of the block."""
        if value not in self.order.blocks:
            return _ZERO
        return self.b.times(self.here.number, self.lanes * self.graph.dtype(value).itemsize)

    def step_of(self, value: int) -> int:
        """Bytes from one column to the next in scratch memory."""
        size = self.lanes * self.graph.dtype(value).itemsize
        return size * self.order.blocks[value].column_stride if value in self.order.blocks else size

    def read_row(self, value: int, column: Value) -> Value:
        """Load a column of a value for all rows of the vector."""
        dtype = self.graph.dtype(value)
        if value in self.graph.fills:
            return self.fill(value, self.lanes)
        if value in self.order.rows:
            memory = Memory(self.row_address(value, column), dtype.itemsize)
            return load(self.b, dtype, memory, self.lanes, None)
        return self.input_row(value, column)

    def masked_row(self, value: int, column: Value) -> Value:
        """Load a column of a reduction's operand, with 0 in lanes without a batch row."""
        made = self.read_row(value, column)
        if value in self.graph.fills:
            return self.b.select(self.mask, made, self.b.like(made, 0.0))
        return made  # inputs and what `store_row` has stored are 0 there

    def input_row(self, value: int, column: Value) -> Value:
        """Load a column of an input, strided by the row length; masked lanes are 0."""
        return load(
            self.b, self.graph.dtype(value), self._outside(value, column), self.lanes, self.mask
        )

    def _outside(self, value: int, column: Value) -> Memory:
        b, size = self.b, self.graph.dtype(value).itemsize
        width = self.schedule.columns(value) * size
        # A vector of rows of a blocked value lies column by column, as in scratch memory.
        blocked = value in self.graph.blocked
        column_step, lane_step = (self.lanes * size, size) if blocked else (size, width)

        def row_of_caller() -> Value:
            return self.b.at(self._begin(value), self.b.times(self.here.row, width))

        if self.loop is None:
            base = self._begin(value)
        else:
            base = self.loop.pointer(("batch rows", value), row_of_caller)
        start = b.at(base, b.times(self.here.row, width))
        return Memory(b.at(start, b.times(column, column_step)), lane_step)

    def masked(self, value: int, made: Value) -> Value:
        """The value as stored in scratch: 0 in invalid lanes if a reduction reads it."""
        if value not in self.summed:
            return made
        return self.b.select(self.mask, made, self.b.like(made, 0.0))

    def store_row(self, value: int, column: Value, made: Value) -> None:
        b, dtype = self.b, self.graph.dtype(value)
        made = narrow(b, made, dtype)
        if value in self.order.rows:
            masked = self.masked(value, made)
            store(b, masked, dtype, Memory(self.row_address(value, column), dtype.itemsize), None)
        if value in self.graph.outputs:
            store(b, made, dtype, self._outside(value, column), self.mask)

    def column_loop(self, count: int, body: Callable[[Value], None]) -> None:
        if count == 1:
            body(Value("0", I64))
            return

        def one(column: Value, _: Sequence[Value]) -> Sequence[Value]:
            body(column)
            return []

        self.b.loop(0, count, 1, [], one)
