"""A plan as an SSA graph of pure ops: each value is defined once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field

from pirkit.dialect.kinds import ALIAS, COPY, RESHAPE
from pirkit.dialect.opdef import has_trait
from pirkit.runtime.convert import constant, constants
from pirkit.runtime.dtype import REAL_OF, DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call, Instruction, Plan

Array = np.ndarray[Any, Any]

_MAX_TABLE: Final = 1 << 14
"""Largest number of elements of a constant that is part of the code."""
_CONSTANT_FILLS: Final = frozenset({"full", "full_like"})
_LISTED: Final = {"assign_value": "values", "full_int_array": "value"}
"""Ops that list the elements of a constant, and the attributes that do."""


class NotNativeError(Exception):
    """A program has no native form; the message is the reason, for `explain`."""


class Op(Struct, frozen=True, eq=False):
    """An op by its name without the dialect prefix; ``args`` and ``out`` are value numbers."""

    name: str
    args: tuple[int, ...]
    out: int
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def has(self, trait: str) -> bool:
        """True if the op's record has a trait."""
        return has_trait(f"pd_op.{self.name}", trait)


class Graph(Struct):
    """Ops in execution order. ``fills`` are values whose elements all equal one constant,
    ``tables`` other constants."""

    metas: dict[int, TensorMeta]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    ops: list[Op] = field(default_factory=list[Op])
    fills: dict[int, float] = field(default_factory=dict[int, float])
    tables: dict[int, np.ndarray[Any, Any]] = field(
        default_factory=dict[int, "np.ndarray[Any, Any]"]
    )
    blocked: set[int] = field(default_factory=set[int])
    """Inputs and results with a batch axis of which each vector of rows lies column by column in
    memory, as between the loops of a vector (see `batch_partition.py`)."""
    rows: frozenset[int] | None = None
    """The values with a batch axis, where they are known."""
    declared: dict[int, TensorMeta] = field(default_factory=dict[int, TensorMeta])
    """The types of complex values, which are pairs of real numbers here: of a last axis of 2."""

    def new(self, meta: TensorMeta) -> int:
        """Add a value."""
        number = max(self.metas, default=0) + 1
        self.metas[number] = meta
        return number

    def dtype(self, value: int) -> DType:
        return self.metas[value].dtype

    def is_constant(self, value: int) -> bool:
        return value in self.fills or value in self.tables

    def uses(self) -> dict[int, list[Op]]:
        """The ops that read each value."""
        found: dict[int, list[Op]] = {v: [] for v in self.metas}
        for op in self.ops:
            for arg in set(op.args):
                found[arg].append(op)
        return found


def graph_of(plan: Plan) -> Graph:
    """The graph of a plan.

    Raises NotNativeError for writes in place, control flow, lists, random or ordered ops, dynamic
    shapes and empty values.
    """
    ports = (*plan.inputs, *plan.params)
    metas = {k: m for k, m in enumerate(plan.slots) if isinstance(m, TensorMeta)}
    declared = {k: m for k, m in metas.items() if m.dtype in REAL_OF}
    for k, meta in declared.items():
        metas[k] = TensorMeta((*meta.shape, 2), REAL_OF[meta.dtype])
    inputs = tuple([p.slot for p in ports])
    if plan.written:
        raise NotNativeError(f"the program writes `{plan.written[0]}` in place: functionalize it")
    graph = Graph(metas, inputs, (), (tuple([p.name for p in ports]), ()), declared=declared)
    views: dict[int, int] = {}
    known = set(inputs)
    for instruction in plan.body:
        for op in _ops(instruction, graph, views):
            if op.out in known:
                raise NotNativeError(f"`{op.name}` writes in place")
            known.add(op.out)
    outputs: list[int] = []
    for output in plan.outputs:
        if not isinstance(output.source, int):
            raise NotNativeError(f"output `{output.name}` is a list")
        outputs.append(views.get(output.source, output.source))
    graph.outputs = tuple(outputs)
    graph.names = (graph.names[0], tuple([o.name for o in plan.outputs]))
    for value in (*known, *outputs):
        _check(graph, value)
    return graph


def _check(graph: Graph, value: int) -> None:
    meta = graph.metas.get(value)
    if meta is None or not meta.is_static:
        raise NotNativeError("sizes are known only when the program runs")
    if meta.numel == 0:
        raise NotNativeError("a value has no elements")


def _ops(instruction: Instruction, graph: Graph, views: dict[int, int]) -> Iterator[Op]:
    """The ops of an instruction, which enter the graph. Renames and fills only change the tables.

    Raises NotNativeError for an instruction that is no pure op of single tensors.
    """
    if not isinstance(instruction, Call):
        raise NotNativeError("the program branches or loops")
    name = instruction.kernel.partition(".")[2]
    if instruction.host:
        raise NotNativeError(f"an attribute of `{name}` is known only when the program runs")
    if instruction.random is not None or instruction.is_ordered:
        raise NotNativeError(f"`{name}` draws random numbers, or has another effect")
    if len(instruction.outputs) != 1 or not isinstance(instruction.outputs[0], int):
        raise NotNativeError(f"`{name}` has no single result")
    given = [i for i in instruction.inputs if i is not None]
    # its one operand is a list, whose members are known here
    if name == "concat" and len(given) == 1 and isinstance(given[0], tuple):
        given = list(given[0])
    if not all(isinstance(i, int) for i in given):
        raise NotNativeError(f"`{name}` reads a list")
    args = tuple([views.get(i, i) for i in cast("Sequence[int]", given)])
    (out,) = cast("tuple[int]", instruction.outputs)
    if name in _LISTED and out not in graph.declared:
        op = _constant(instruction.attrs[_LISTED[name]], graph, out)
        if op is not None:
            graph.ops.append(op)
            yield op
        return
    if _is_identity(instruction.kernel):
        # a result in the slot of its operand needs no view of itself
        if out != given[0]:
            views[out] = args[0]
        return
    if not graph.declared.keys().isdisjoint((*args, out)):
        for op in _of_parts(name, args, out, graph):
            graph.ops.append(op)
            yield op
        return
    if name in _CONSTANT_FILLS:
        graph.fills[out] = _number(instruction.attrs["value"], out, graph)
        return
    # whatever its shape, it is the same constant; loops read it from no memory
    if name == "expand" and args[0] in graph.fills:
        graph.fills[out] = graph.fills[args[0]]
        return
    for op in _with_axes(Op(name, args, out, instruction.attrs), graph):
        graph.ops.append(op)
        yield op


def _number(value: complex, out: int, graph: Graph) -> float:
    """A constant as its element type holds it: NaN as an integer, and integers beyond 2**53."""
    return constant(value, graph.metas[out].dtype).item()


def _of_parts(name: str, args: tuple[int, ...], out: int, graph: Graph) -> tuple[Op, ...]:
    """A part of a complex value, or a complex value from its parts, as a move of real numbers.

    Raises NotNativeError for other operations on complex values.
    """
    if name in ("real", "imag"):
        meta = graph.metas[args[0]]
        axis, k = meta.rank - 1, int(name == "imag")
        attrs = {"starts": (k,), "ends": (k + 1,), "axes": (axis,), "infer_flags": (1,)}
        return _with_axes(Op("slice", args, out, {**attrs, "decrease_axis": (axis,)}), graph)
    if name != "complex":
        raise NotNativeError(f"`{name}` computes with complex numbers")
    meta = graph.metas[out]
    shape = (*meta.shape[:-1], 1)
    if any(graph.metas[a].shape != shape[:-1] for a in args):
        raise NotNativeError("`complex` broadcasts a part")
    parts = tuple([graph.new(meta.with_shape(shape)) for _ in args])
    moves = [Op("reshape", (a,), p, {"shape": shape}) for a, p in zip(args, parts, strict=True)]
    for arg, part in zip(args, parts, strict=True):
        if arg in graph.fills:
            graph.fills[part] = graph.fills[arg]
    moves = [op for op in moves if op.out not in graph.fills]
    return (*moves, Op("concat", parts, out, {"axis": len(shape) - 1}))


def _is_identity(op: str) -> bool:
    """Whether the result is the operand itself, or a copy of it in the same shape."""
    return has_trait(op, RESHAPE) and (has_trait(op, ALIAS) or has_trait(op, COPY))


def _with_axes(op: Op, graph: Graph) -> tuple[Op, ...]:
    """A slice that drops axes as one that keeps them, and a reshape."""
    if op.name == "matmul":
        return _of_matrices(op, graph)
    dropped = op.attrs.get("decrease_axis") if op.name == "slice" else None
    if not dropped:
        return (op,)
    meta = graph.metas[op.args[0]]
    gone = {a % meta.rank for a in dropped}
    left = iter(graph.metas[op.out].shape)
    kept = graph.new(meta.with_shape([1 if k in gone else next(left) for k in range(meta.rank)]))
    whole = Op("slice", op.args, kept, {**op.attrs, "decrease_axis": ()})
    return whole, Op("reshape", (kept,), op.out, {"shape": graph.metas[op.out].shape})


def _of_matrices(op: Op, graph: Graph) -> tuple[Op, ...]:
    """A matmul whose vectors, if any, are matrices of one row or one column.

    Raises NotNativeError for operands that are no floats: register tiles add float products.
    """
    if not graph.metas[op.out].dtype.is_float:
        raise NotNativeError("a matmul of operands other than floats")
    shapes = [graph.metas[a].shape for a in op.args]
    if all(len(shape) > 1 for shape in shapes):
        return (op,)
    x, y = shapes
    if max(len(x), len(y)) > 2:
        raise NotNativeError("a matmul of a vector by an operand that is no matrix")
    wide = ((1, *x) if len(x) == 1 else x, (*y, 1) if len(y) == 1 else y)
    ops: list[Op] = []
    args: list[int] = []
    for arg, shape in zip(op.args, wide, strict=True):
        matrix = arg
        if shape != graph.metas[arg].shape:
            matrix = graph.new(graph.metas[arg].with_shape(shape))
            if arg in graph.fills:
                graph.fills[matrix] = graph.fills[arg]
            elif arg in graph.tables:
                graph.tables[matrix] = graph.tables[arg]
            else:
                ops.append(Op("reshape", (arg,), matrix, {"shape": shape}))
        args.append(matrix)
    attrs = {
        # a vector is not transposed, whatever the flags say
        "transpose_x": op.attrs["transpose_x"] and len(x) > 1,
        "transpose_y": op.attrs["transpose_y"] and len(y) > 1,
    }
    rows = wide[0][1 if attrs["transpose_x"] else 0]
    columns = wide[1][0 if attrs["transpose_y"] else 1]
    meta = graph.metas[op.out]
    made = graph.new(meta.with_shape((rows, columns)))
    last = Op("reshape", (made,), op.out, {"shape": meta.shape})
    return (*ops, Op("matmul", tuple(args), made, attrs), last)


def _constant(listed: Sequence[complex], graph: Graph, out: int) -> Op | None:
    """Lower a list of numbers: a fill if all elements are equal, a `concat` of fills if there are
    rows and each column is constant, otherwise a table.
    """
    meta = graph.metas[out]
    if not listed:
        raise NotNativeError("a value has no elements")
    values = constants(listed, meta.dtype).reshape(meta.shape)
    first = values.reshape(-1)[0]
    if _same(values, first):
        graph.fills[out] = first.item()
        return None
    if values.ndim != 2 or len(values) == 1 or not _same(values, values[:1]):
        if values.size > _MAX_TABLE:
            raise NotNativeError(f"a constant of {values.size} elements")
        graph.tables[out] = values
        return None
    # each column is an immediate of the code, as the directions of a derivative
    columns = [graph.new(meta.with_shape((meta.shape[0], 1))) for _ in values[0]]
    graph.fills |= dict(zip(columns, map(float, values[0]), strict=True))
    return Op("concat", tuple(columns), out, {"axis": 1})


def _same(values: Array, others: Any) -> bool:
    """Whether elements have the bits of others that broadcast to them, as 0.0 and -0.0 differ."""
    return values.tobytes() == np.broadcast_to(others, values.shape).tobytes()
