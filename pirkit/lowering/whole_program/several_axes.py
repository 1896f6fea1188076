"""Rewrites rows of several axes to rows of one.

Functions of one row may give values of more axes than rows and columns: Jacobians (rows x 3 x 3),
and nodes of a quadrature inside of each element (elements x nodes x width). Where all operations
treat the leading axes alike, they become one axis of more rows; otherwise the axes after the
batch become columns, and a move of them (slice, transpose, padding...) a choice of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from pirkit.dialect.kinds import RESHAPE
from pirkit.lowering.whole_program.axis_classes import summed
from pirkit.lowering.whole_program.lane_ops import is_elementwise
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op

Array = np.ndarray[Any, Any]

_MAX_COLUMNS: Final = 256
"""Largest number of columns of a value of several axes."""
_MAX_PARTS: Final = 64
"""Largest number of terms of a sum along an axis after the batch."""
_MAX_RUNS: Final = 2048
"""Largest number of copies of adjacent columns in a program; each is code of its own."""


def with_rows_of_one_axis(graph: Graph) -> Graph:
    """The graph without values of more than two axes, or as it is where one cannot be rewritten."""
    if all(graph.metas[op.out].rank < 3 and op.name != "gather" for op in graph.ops):
        return graph
    graph = _with_merged_rows(graph)
    used = {v for op in graph.ops for v in (*op.args, op.out)} - graph.fills.keys()
    several = [v for v in used if graph.metas[v].rank > 2]
    ported = {*graph.inputs, *graph.outputs}
    if any(v in ported or prod(graph.metas[v].shape[1:]) > _MAX_COLUMNS for v in several):
        return graph
    try:
        return _Columns(graph).made
    except NotNativeError:
        return graph  # the scheduler refuses it, and says why


# --- leading axes as more rows ---


def _with_merged_rows(graph: Graph) -> Graph:
    values = {op.out for op in graph.ops} - {*graph.outputs} - graph.fills.keys()
    rows = {graph.metas[op.out].shape[:1] for op in graph.ops if op.name == "matmul"}
    merged = {v for v in values if graph.metas[v].rank > 2}
    merged = {v for v in merged if (prod(graph.metas[v].shape[:-1]),) in rows}
    # A value is merged only with all that make and read it, so one that stays keeps others back.
    while (
        left := {
            v
            for op in graph.ops
            if not merged.isdisjoint((*op.args, op.out)) and not _merges(graph, op, merged)
            for v in (*op.args, op.out)
        }
        & merged
    ):
        merged -= left
    if not merged:
        return graph
    metas = dict(graph.metas)
    for value in merged:
        shape = metas[value].shape
        metas[value] = metas[value].with_shape((prod(shape[:-1]), shape[-1]))
    made = replace(graph, metas=metas, ops=[])
    for op in graph.ops:
        if is_elementwise(op) or op.has(RESHAPE) or merged.isdisjoint((*op.args, op.out)):
            made.ops.append(op)
        elif op.name == "sum":
            made.ops.append(replace(op, attrs={**op.attrs, "axis": (0,)}))
        else:
            made.ops.append(replace(op, attrs={**op.attrs, "axes": (1,) * len(op.attrs["axes"])}))
    return made


def _merges(graph: Graph, op: Op, merged: set[int]) -> bool:
    """Whether an op treats all axes but the last one alike."""
    meta = graph.metas[op.args[0]]
    if op.has(RESHAPE):
        return True
    if op.name == "sum":
        return summed(graph, op) == tuple(range(meta.rank - 1)) and not op.attrs["keepdim"]
    if op.name == "slice":
        is_last = {a % meta.rank for a in op.attrs["axes"]} == {meta.rank - 1}
        return is_last and merged.issuperset((op.args[0], op.out))
    shape = graph.metas[op.out].shape
    given = {a: graph.metas[a] for a in op.args if a not in graph.fills}
    return (is_elementwise(op) and op.out in merged) and all(
        meta.numel == 1 or meta.shape == shape[-1:] or (a in merged and meta.shape == shape)
        for a, meta in given.items()
    )


# --- axes after the batch as columns ---


class _Columns:
    """Rewrites a graph. A value that only moves columns is a choice of them until it is read by an
    op that computes: an array of numbers, of the shape of a row, each standing for a column.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made = replace(graph, metas=dict(graph.metas), ops=[])
        self.columns: list[tuple[int, float]] = []
        """What each number stands for: a value and its column, or -1 and a constant."""
        self.chosen: dict[int, Array] = {}
        self.numbers: dict[int, Array] = {}
        """The numbers of the columns of values that are computed."""
        self.runs = 0
        self.stored: set[int] = {*graph.inputs, *graph.tables}
        for op in graph.ops:
            self._rewrite(op)
        for value in graph.outputs:
            self._store(value)

    def _rank(self, value: int) -> int:
        return self.graph.metas[value].rank

    def _rewrite(self, op: Op) -> None:
        several = max(map(self._rank, (*op.args, op.out))) > 2
        if not several and op.name != "gather" and self.chosen.keys().isdisjoint(op.args):
            self._emit(op)
            return
        rule = _MOVES.get("reshape" if op.has(RESHAPE) else op.name)
        first = self.graph.metas[op.args[0]]
        if rule is not None and self._keeps_batch_axis(op):
            self.chosen[op.out] = rule(self, op)
        elif not several:
            # An op on matrices reads memory, so a choice of columns is made before it.
            for arg in op.args:
                self._store(arg)
            self._emit(op)
        elif is_elementwise(op):
            self._elementwise(op)
        elif op.name == "sum" and first.rank > 2:
            self._sum(op)
        elif op.name == "matmul" and [self._rank(a) for a in op.args] == [3, 3]:
            self._matmul(op)
        else:
            raise NotNativeError(f"`{op.name}` of rows of several axes")

    def _keeps_batch_axis(self, op: Op) -> bool:
        """Whether the first axis of the result is that of the operands."""
        out = self.graph.metas[op.out]
        moved = op.args[:1] if op.name == "gather" else op.args
        metas = [self.graph.metas[a] for a in moved]
        if not out.rank or not all(m.rank and m.shape[0] == out.shape[0] for m in metas):
            return False
        match op.name:
            case "transpose":
                return op.attrs["perm"][0] == 0
            case "concat" | "gather":
                return op.attrs["axis"] % out.rank != 0
            case "slice":
                return all(a % metas[0].rank for a in op.attrs["axes"])
            case "expand":
                return metas[0].rank == out.rank
            case _:
                return True

    # --- columns ---

    def of(self, value: int) -> Array:
        """The columns of a value, in the shape of a row of it."""
        if value in self.chosen:
            return self.chosen[value]
        if value not in self.numbers:
            shape = self.graph.metas[value].shape[1:]
            first, count = len(self.columns), prod(shape)
            if count > _MAX_COLUMNS:
                raise NotNativeError(f"a row has {count} columns")
            if value in self.graph.fills:
                self.columns.append((-1, self.graph.fills[value]))
                self.numbers[value] = np.full(shape, first)
            else:
                self.columns += [(value, k) for k in range(count)]
                self.numbers[value] = np.arange(first, first + count).reshape(shape)
        return self.numbers[value]

    def number(self, constant: float) -> int:
        """The number of a constant column."""
        self.columns.append((-1, constant))
        return len(self.columns) - 1

    def _flat(self, value: int) -> None:
        """Give a value of several axes the shape of a matrix."""
        meta = self.graph.metas[value]
        if meta.rank > 2:
            flat = meta.with_shape((meta.shape[0], prod(meta.shape[1:])))
            self.made.metas[value] = flat

    def _emit(self, op: Op) -> None:
        self._flat(op.out)
        self.made.ops.append(op)
        self.stored.add(op.out)

    def _store(self, value: int) -> None:
        """Compute a value that is a choice of columns."""
        if value in self.chosen and value not in self.stored:
            self._flat(value)
            self._choose(value, self.chosen[value].ravel())

    def _choose(self, out: int, numbers: Array) -> None:
        picked = [self.columns[int(k)] for k in numbers]
        sources = tuple(dict.fromkeys(v for v, _ in picked if v != -1))
        if not sources:  # constants alone: any value of as many batch rows serves
            rows = self.graph.metas[out].shape[0]
            alike = (v for v, _ in reversed(self.columns) if v != -1)
            sources = tuple([v for v in alike if self.graph.metas[v].shape[0] == rows][:1])
        if not sources:
            raise NotNativeError("all columns of a value are constants")
        chosen = tuple([(sources.index(v) if v != -1 else -1, k) for v, k in picked])
        self.runs += sum(1 for _ in runs(chosen))
        if self.runs > _MAX_RUNS:
            raise NotNativeError("too many columns move one by one")
        self._emit(Op("choose", sources, out, {"columns": chosen}))

    def matrix(self, like: int, numbers: Array) -> int:
        """A value with some columns of others, of as many rows as ``like``; one of those if it has
        these."""
        flat = numbers.ravel()
        source, first = self.columns[int(flat[0])]
        # All columns of a value in their order are the value itself, which needs no copy.
        if source != -1 and np.array_equal(self.numbers[source].ravel(), flat) and not first:
            return source
        meta = self.graph.metas[like]
        out = self._new(meta.with_shape((meta.shape[0] if meta.rank else 1, flat.size)))
        self._choose(out, flat)
        return out

    def _new(self, meta: Any) -> int:
        out = self.made.new(meta)
        self.graph.metas[out] = meta
        return out

    # --- ops that compute ---

    def _elementwise(self, op: Op) -> None:
        shape = self.graph.metas[op.out].shape
        args: list[int] = []
        for arg in op.args:
            meta = self.graph.metas[arg]
            if arg in self.graph.fills or meta.numel == 1:
                self._store(arg)
                args.append(arg)
                continue
            if meta.rank < len(shape):  # the same for all rows
                self._store(arg)
                whole = self._new(meta.with_shape((1, meta.numel)))
                self._emit(Op("regroup", (arg,), whole))
                given = self.of(whole).reshape(meta.shape)
                arg = whole
            else:
                given = self.of(arg)
            args.append(self.matrix(arg, np.broadcast_to(given, shape[1:])))
        self._emit(replace(op, args=tuple(args)))

    def _sum(self, op: Op) -> None:
        (arg,) = op.args
        meta, gone = self.graph.metas[arg], summed(self.graph, op)
        inner = [a - 1 for a in gone if a]
        terms = np.moveaxis(self.of(arg), inner, range(len(inner)))
        terms = terms.reshape(prod(terms.shape[: len(inner)]), -1)
        out = self.graph.metas[op.out]
        rows = meta.with_shape((meta.shape[0], terms.shape[1]))
        # What leaves one column is a sum of a matrix; others are added term by term, in vectors.
        if terms.shape[1] == 1:
            total = self._new(rows)
            attrs = {"axis": (1,), "keepdim": True}
            self._emit(Op("sum", (self.matrix(arg, terms),), total, attrs))
        else:
            total = self._added([self.matrix(arg, term) for term in terms], rows)
        if gone[0] == 0:
            over = self._new(meta.with_shape((1, terms.shape[1])))
            self._emit(Op("sum", (total,), over, {"axis": (0,), "keepdim": True}))
            total = over
        if gone[0] == 0 or out.rank < 3:
            self._emit(Op("reshape", (total,), op.out, {"shape": out.shape}))
            return
        self.chosen[op.out] = self.of(total).reshape(out.shape[1:])

    def _added(self, terms: Sequence[int], meta: Any) -> int:
        if len(terms) > _MAX_PARTS:
            raise NotNativeError("a sum of many columns")
        total = terms[0]
        for term in terms[1:]:
            out = self._new(meta)
            self._emit(Op("add", (total, term), out))
            total = out
        return total

    def _matmul(self, op: Op) -> None:
        """Products of a small matrix of each row, as sums of products of columns."""
        x, y = map(self.of, op.args)
        x = x.T if op.attrs["transpose_x"] else x
        y = y.T if op.attrs["transpose_y"] else y
        out, like = self.graph.metas[op.out], op.args[0]
        if len({self.graph.metas[v].shape[0] for v in (*op.args, op.out)}) > 1:
            raise NotNativeError("a matmul of broadcast matrices")
        rows = out.with_shape((out.shape[0], x.shape[0] * y.shape[1]))
        terms: list[int] = []
        for k in range(x.shape[1]):
            shape = (x.shape[0], y.shape[1])
            left, right = np.broadcast_to(x[:, k : k + 1], shape), np.broadcast_to(y[k], shape)
            product = self._new(rows)
            args = (self.matrix(like, left), self.matrix(like, right))
            self._emit(Op("multiply", args, product))
            terms.append(product)
        self.chosen[op.out] = self.of(self._added(terms, rows)).reshape(out.shape[1:])


def _reshaped(c: _Columns, op: Op) -> Array:
    return c.of(op.args[0]).reshape(c.graph.metas[op.out].shape[1:])


def _transposed(c: _Columns, op: Op) -> Array:
    perm: Sequence[int] = op.attrs["perm"][1:]
    return c.of(op.args[0]).transpose([k - 1 for k in perm])


def _sliced(c: _Columns, op: Op) -> Array:
    given, shape = c.of(op.args[0]), c.graph.metas[op.out].shape
    picks = [slice(None)] * given.ndim
    axes: Sequence[int] = op.attrs["axes"]
    for a, start in zip(axes, op.attrs["starts"], strict=True):
        axis = a % (given.ndim + 1)
        first = slice(start, None).indices(given.shape[axis - 1])[0]
        picks[axis - 1] = slice(first, first + shape[axis])
    return given[tuple(picks)]


def _padded(c: _Columns, op: Op) -> Array:
    given = c.of(op.args[0])
    around: list[int] = list(op.attrs["paddings"])
    around += [0] * (2 * given.ndim + 2 - len(around))
    if around[0] or around[1] or min(around) < 0:
        raise NotNativeError("padding of the batch")
    widths = [(around[k], around[k + 1]) for k in range(2, len(around), 2)]
    return np.pad(given, widths, constant_values=c.number(float(op.attrs["pad_value"])))


def _joined(c: _Columns, op: Op) -> Array:
    axis: int = op.attrs["axis"] % c.graph.metas[op.out].rank
    return np.concatenate([c.of(a) for a in op.args], axis - 1)


def _expanded(c: _Columns, op: Op) -> Array:
    return np.broadcast_to(c.of(op.args[0]), c.graph.metas[op.out].shape[1:])


def _gathered(c: _Columns, op: Op) -> Array:
    value, index = op.args
    meta, graph = c.graph.metas[index], c.graph
    if not graph.is_constant(index) or meta.rank != 1:
        raise NotNativeError("columns that are known only when the program runs")
    filled = [graph.fills[index]] * meta.numel if index in graph.fills else graph.tables[index]
    found = np.asarray(filled, np.int64)
    axis: int = op.attrs["axis"] % c.graph.metas[value].rank
    return np.take(c.of(value), found, axis - 1)


_MOVES: Final = {
    "reshape": _reshaped,
    "transpose": _transposed,
    "slice": _sliced,
    "pad": _padded,
    "concat": _joined,
    "expand": _expanded,
    "gather": _gathered,
}


def runs(columns: Sequence[tuple[int, float]]) -> Iterator[tuple[int, int, float, int]]:
    """Consecutive columns of one operand of `choose`: the first one of the result, the operand (-1
    for a constant), its first column (or the constant), and how many they are."""
    start = 0
    while start < len(columns):
        arg, first = columns[start]
        end = start + 1
        # by spelling: 0.0 equals -0.0
        while end < len(columns) and repr(columns[end]) == repr(
            (arg, first) if arg == -1 else (arg, first + end - start)
        ):
            end += 1
        yield start, arg, first, end - start
        start = end
