"""Emits loops over the columns of batch rows: elementwise operations, sums, and moves."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.lowering.codegen.emit.memory_access import Memory, load
from pirkit.lowering.codegen.ir.llvm_text import I64, Value
from pirkit.lowering.whole_program.lane_ops import moved_columns
from pirkit.lowering.whole_program.loop_emit import LoopEmitter
from pirkit.lowering.whole_program.loop_fusion import FusedLoop
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.lowering.whole_program.several_axes import runs


def emit_row_loop(w: LoopEmitter, item: FusedLoop) -> None:
    """Emit one loop over batch rows, other than a matmul or a reduction over the batch."""
    op = item.first.op
    match item.first.kind:
        case "map":
            _rows(w, item)
        case "across":
            _reduce_columns(w, op)
        case "joined" if op.name == "choose":
            _choose_columns(w, op)
        case "joined":
            _concat_columns(w, op)
        case _:
            _gather_columns(w, op)


def _rows(w: LoopEmitter, item: FusedLoop) -> None:
    """Emit elementwise ops in one loop over the columns; invariant operands are hoisted."""
    b, (count,) = w.b, item.first.key
    outside: dict[int, Value] = {}
    for value in sorted(item.reads() - item.defines()):
        if value in w.graph.fills:
            continue
        if value not in w.schedule.rows:
            if w.graph.metas[value].numel == 1:
                outside[value] = w.only_element(value, w.lanes)
        # one column for all columns of the loop: it broadcasts
        elif w.schedule.columns(value) == 1:
            outside[value] = w.read_row(value, Value("0", I64))

    def column(index: Value) -> None:
        def read(value: int) -> Value:
            if value in w.schedule.rows:
                return w.read_row(value, index)
            dtype = w.graph.dtype(value)
            address = b.at(w.pointer(value), b.times(index, dtype.itemsize))
            return b.splat(load(b, dtype, Memory(address, 0), 1, None), w.lanes)

        values = dict(outside)
        for node in item.nodes:
            if node.op.name == "load":
                made = w.input_row(node.op.out, index)
            else:
                made = w.apply(node.op, values, read, w.lanes, w.contracts)
            values[node.op.out] = made
            w.store_row(node.op.out, index, made)

    w.column_loop(count, column)


def _reduce_columns(w: LoopEmitter, op: Op) -> None:
    """Emit the sum of the columns of each row."""
    b, (x,) = w.b, op.args
    # begins with the first column: one addition fewer, and a row of -0.0 stays so
    total = w.read_row(x, Value("0", I64))
    count = w.schedule.columns(x)

    def one(column: Value, so_far: Sequence[Value]) -> Sequence[Value]:
        return [b.add(so_far[0], w.read_row(x, column))]

    if count > 1:
        (total,) = b.loop(1, count, 1, [total], one)
    w.store_row(op.out, Value("0", I64), total)


def _gather_columns(w: LoopEmitter, op: Op) -> None:
    """Emit a slice or pad of columns: copied columns, and constants around them."""
    b, x = w.b, op.args[0]
    given, count = w.schedule.columns(x), w.schedule.columns(op.out)
    start, before, constant = moved_columns(op, w.graph.metas[x].rank, given)
    inside = min(given - start, count - before)

    def copy(column: Value) -> None:
        made = w.read_row(x, b.plus(column, start))
        w.store_row(op.out, b.plus(column, before), made)

    w.column_loop(inside, copy)
    # few, so they are unrolled
    for k in (*range(before), *range(before + inside, count)):
        made = b.const(w.type_of(w.graph.dtype(op.out), w.lanes), constant)
        w.store_row(op.out, Value(str(k), I64), made)


def _choose_columns(w: LoopEmitter, op: Op) -> None:
    """Emit columns of several values and constants, in any order."""
    b = w.b
    for start, arg, first, count in runs(op.attrs["columns"]):

        def copy(column: Value, start: int = start, arg: int = arg, first: float = first) -> None:
            if arg == -1:
                made = b.const(w.type_of(w.graph.dtype(op.out), w.lanes), first)
            else:
                made = w.read_row(op.args[arg], b.plus(column, int(first)))
            w.store_row(op.out, b.plus(column, start), made)

        w.column_loop(count, copy)


def _concat_columns(w: LoopEmitter, op: Op) -> None:
    """Emit a concatenation along the columns."""
    before = 0
    for arg in op.args:

        def copy(column: Value, arg: int = arg, before: int = before) -> None:
            w.store_row(op.out, w.b.plus(column, before), w.read_row(arg, column))

        w.column_loop(w.schedule.columns(arg), copy)
        before += w.schedule.columns(arg)
