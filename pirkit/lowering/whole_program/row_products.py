"""Writes products of rows and matrices: each element of a matrix is used for a vector of points.

Products with one matrix are one loop, which finds their rows in a table: networks that are
differentiated multiply many rows by the same weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.ir import I64, Value
from pirkit.lowering.codegen.points import Memory, load, store
from pirkit.lowering.whole_program.graph import Op
from pirkit.lowering.whole_program.writer import Writer, in_tiles

WIDEST: Final = 12
"""Columns of a product that are added up at once, each in a register of its own."""
_CHAINS: Final = 4
"""Sums side by side that hide how long an addition takes."""

Read = Callable[[Value], Value]
Put = Callable[[Value, Value], None]


def multiply(w: Writer, ops: Sequence[Op]) -> None:
    """Rows times the matrix that the products have in common."""
    alike: dict[object, list[Op]] = defaultdict(list)
    for op in ops:
        alike[_alike(w, op)].append(op)
    for some in alike.values():
        if len(some) == 1:
            _alone(w, some[0])
        else:
            _together(w, some)


def _alike(w: Writer, op: Op) -> object:
    """What products must share to be one loop; those whose rows are not in memory share nothing."""
    keys = w.alike(op.args[0]), w.alike(op.out)
    return op.out if None in keys or op.out in w.graph.outputs else keys


def _alone(w: Writer, op: Op) -> None:
    def read(column: Value) -> Value:
        return w.read_row(op.args[0], column)

    def put(column: Value, made: Value) -> None:
        w.put_row(op.out, column, made)

    _product(w, op, read, put)


def _together(w: Writer, ops: Sequence[Op]) -> None:
    b, (x, out) = w.b, (ops[0].args[0], ops[0].out)
    sources, targets = w.table([op.args[0] for op in ops]), w.table([op.out for op in ops])

    def one(number: Value, _: object) -> list[Value]:
        source, target = sources(number, 0), targets(number, 0)

        def read(column: Value) -> Value:
            return load(b, w.graph.dtype(x), source(column), w.lanes, None)

        def put(column: Value, made: Value) -> None:
            store(b, w.held(out, made), w.graph.dtype(out), target(column), None)

        _product(w, ops[0], read, put)
        return []

    b.loop(0, len(ops), 1, [], one)


def _product(w: Writer, op: Op, read: Read, put: Put) -> None:
    b, (x, y) = w.b, op.args
    inner, count = w.stages.columns(x), w.stages.columns(op.out)
    size = w.graph.dtype(y).itemsize
    turned = op.attrs["transpose_y"]
    along, beside = (size, inner * size) if turned else (count * size, size)
    width = -(-count // -(-count // WIDEST))
    chains = max(1, min(_CHAINS // width, inner))

    def tile(start: Value, some: int) -> None:
        base = b.at(w.pointers[y], b.times(start, beside))
        zero = b.const(w.type_of(w.dtype, w.lanes), 0.0)

        def step(index: Value, sums: Sequence[Value], chain: int) -> list[Value]:
            vector = read(index)
            line = b.at(base, b.times(index, along))
            made = list(sums)
            for k in range(some):
                place = b.at(line, k * beside)
                factor = load(b, w.dtype, Memory(place, 0), 1, None)
                at = chain * some + k
                made[at] = b.fma(vector, b.splat(factor, w.lanes), made[at])
            return made

        def steps(index: Value, sums: Sequence[Value]) -> Sequence[Value]:
            made = list(sums)
            for chain in range(chains):
                made = step(b.plus(index, chain), made, chain)
            return made

        whole = inner - inner % chains
        sums: Sequence[Value] = [zero] * (some * chains)
        if whole == chains:
            sums = steps(Value("0", I64), sums)
        else:
            sums = b.loop(0, whole, chains, sums, steps)
        for k in range(whole, inner):
            sums = step(Value(str(k), I64), sums, 0)
        for k in range(some):
            total = sums[k]
            for chain in range(1, chains):
                total = b.add(total, sums[chain * some + k])
            put(b.plus(start, k), total)

    in_tiles(b, count, width, tile)
