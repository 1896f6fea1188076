"""Reads the tree of a kernel, which code generators take, from its region.

The region is the one source in a program; :mod:`pirkit.dialect.map_expr.kernel_op` keeps the tree
as long as the region is the same. Locations are kept, and shared values are shared nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.affine import indices_of, sizes_of
from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.kernel_ops import OriginOp, OutputOp, SizeOp, StatementOp
from pirkit.dialect.map_expr.region_attributes import mapping_of, meta_in_kernel, python_of
from pirkit.dialect.map_expr.scalar_ops import (
    ApplyOp,
    ConstantOp,
    IndexCastOp,
    IterationOp,
    LoadIndexOp,
    LoadOp,
    ScatterOp,
    SelectOp,
    YieldOp,
)
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position
from pirkit.dialect.operation import span_of
from pirkit.dialect.types import dtype_of
from pirkit.index.expr import Expr, read
from pirkit.index.index_maps import Guard, space
from pirkit.index.size_solver import RULES, Derived
from pirkit.runtime.meta import TensorMeta


def kernel_of(
    name: str, loops: AffineMapAttr | None, region: Region, *, excess: bool = False
) -> MapExpr:
    """The kernel of a region whose operations are valid one by one.

    Raises ConstraintError (C1) if they do not form a kernel: an operation at the wrong level, or a
    value that is used before its definition or comes from outside.
    """
    return _Reader(region).kernel(name, sizes_of(loops) if loops is not None else (), excess)


def _fail(op: Operation, why: str) -> NoReturn:
    error = ConstraintError("C1", f"`{op.name}` {why}")
    error.span = span_of(op)
    raise error


class _Reader:
    """The tensors of a kernel by their SSA values."""

    def __init__(self, region: Region) -> None:
        if len(region.blocks) != 1:
            raise ConstraintError("C1", f"a kernel has one block, not {len(region.blocks)}")
        self.block = region.block
        self.sources: dict[SSAValue, int] = {v: k for k, v in enumerate(self.block.args)}
        self.replaced: dict[SSAValue, int] = {}
        self.sizes: list[Derived] = []
        self.ops: list[Origin] = []
        self.statements: list[Statement] = []

    def kernel(self, name: str, loops: tuple[int, ...], excess: bool) -> MapExpr:
        inputs = tuple([meta_in_kernel(v.type) for v in self.block.args])
        last = self.block.last_op
        if not isinstance(last, OutputOp):
            raise ConstraintError("C1", "a kernel ends in `map_expr.output`")
        for op in self.block.ops:
            match op:
                case SizeOp():
                    self.size(op)
                case OriginOp():
                    self.origin(op)
                case StatementOp():
                    self.statements.append(_StatementReader(self, op).statement())
                    self.sources[op.result] = len(inputs) + len(self.statements) - 1
                case _:
                    if op is not last:
                        _fail(op, "has no place between statements")
        outputs = tuple([self.source(last, v) - len(inputs) for v in last.values])
        if any(k < 0 for k in outputs):
            _fail(last, "returns an input")
        statements, sizes, replaced = tuple(self.statements), tuple(self.sizes), tuple(self.ops)
        return MapExpr(name, inputs, statements, outputs, loops, sizes, replaced, excess)

    def source(self, op: Operation, value: SSAValue) -> int:
        found = self.sources.get(value)
        if found is None:
            _fail(op, "reads what is neither an input nor the value of a statement above")
        return found

    def size(self, op: SizeOp) -> None:
        rule = op.rule.data
        if rule not in RULES:
            _fail(op, f"has an unknown rule `{rule}`")
        symbol = cast(int, cast(Any, op.symbol).value.data)
        self.sizes.append(Derived(f"s{symbol}", rule, sizes_of(op.args)))

    def origin(self, op: OriginOp) -> None:
        count = len(self.block.args)

        def number(value: SSAValue) -> int:
            if value in self.replaced:
                return count + self.replaced[value]
            found = self.source(op, value)
            return found if found < count else _fail(op, "reads the value of a statement")

        def operand(entry: Attribute) -> Operand:
            match entry:
                case mlir.NoneType():
                    return None
                case ArrayAttr():
                    parts = [operand(e) for e in entry]
                    return tuple(cast("list[int | TensorMeta]", parts))
                case mlir.IntegerAttr():
                    return number(op.operands[cast("mlir.IntegerAttr[Any]", entry).value.data])
                case _:
                    return meta_in_kernel(entry)

        operands = tuple([operand(e) for e in op.args])
        self.replaced[op.result] = len(self.ops)
        meta = meta_in_kernel(op.result.type)
        self.ops.append(Origin(op.op.data, operands, mapping_of(op.attrs), meta, _location(op)))


def _location(op: Operation) -> Any:
    return None if isinstance(op.location, mlir.UnknownLoc) else op.location


class _StatementReader:
    """The scalars and indices of a statement by their SSA values."""

    def __init__(self, around: _Reader, op: StatementOp) -> None:
        self.around = around
        self.op = op
        self.meta = meta_in_kernel(op.result.type)
        self.extents = sizes_of(op.extents) if op.extents is not None else ()
        iters = (*space(self.meta.shape), *space(self.extents, "r"))
        self.indices: dict[SSAValue, Expr] = dict(zip(op.body.block.args, iters, strict=True))
        self.nodes: dict[SSAValue, Node] = {}
        self.rows: tuple[Expr, ...] | None = None

    def statement(self) -> Statement:
        op = self.op
        number = self.around.replaced.get(op.origin)
        if number is None:
            _fail(op, "is of no op of the kernel")
        last = cast("YieldOp | ScatterOp", op.body.block.last_op)
        for inner in op.body.block.ops:
            if inner is not last:
                self.inner(inner)
        scatter = last if isinstance(last, ScatterOp) else None
        return Statement(
            self.meta,
            self.node(last, last.value),
            self.around.ops[number].op,
            op.reduction.data if op.reduction is not None else "",
            self.extents,
            mapping_of(op.attrs),
            cast(int, cast(Any, op.phase).value.data),
            self.rows,
            number,
            None if scatter is None else self.node(scatter, scatter.start),
            () if scatter is None else self.index(scatter, scatter.index, scatter.dims),
            sizes_of(op.tile) if op.tile is not None else (),
        )

    def node(self, op: Operation, value: SSAValue) -> Node:
        found = self.nodes.get(value)
        if found is None:
            _fail(op, "uses a scalar that is not defined above it")
        return found

    def index(
        self, op: Operation, index: AffineMapAttr, dims: Iterable[SSAValue]
    ) -> tuple[Expr, ...]:
        values: list[Expr] = []
        for value in dims:
            if value not in self.indices:
                _fail(op, "uses an index that is not defined above it")
            values.append(self.indices[value])
        return indices_of(index, values)

    def inner(self, op: Operation) -> None:
        """Enter what an operation of the statement defines: an index, or a node of the tree."""
        source = self.around.source
        match op:
            case IterationOp():
                if self.rows is not None:
                    _fail(op, "is the second one of its statement")
                self.rows = self.index(op, op.index, op.dims)
            case LoadIndexOp():
                index = self.index(op, op.index, op.dims)
                (extent,) = sizes_of(op.extent)
                wraps = op.wraps is not None
                self.indices[op.result] = read(source(op, op.tensor), index, extent, wraps)
            case LoadOp():
                index = self.index(op, op.index, op.dims)
                self.nodes[op.result] = Load(source(op, op.tensor), index)
            case ConstantOp():
                self.nodes[op.result] = Fill(python_of(op.value), dtype_of(op.result.type))
            case IndexCastOp():
                (value,) = self.index(op, op.index, op.dims)
                self.nodes[op.result] = Position(value, dtype_of(op.result.type))
            case SelectOp():
                values, bounds = self.index(op, op.index, op.dims), sizes_of(op.bounds)
                guards = tuple([Guard(v, n) for v, n in zip(values, bounds, strict=True)])
                yes, no = self.node(op, op.yes), self.node(op, op.no)
                self.nodes[op.result] = Choose(guards, yes, no, _location(op))
            case ApplyOp():
                args = tuple([self.node(op, a) for a in op.args])
                dtype, attrs = dtype_of(op.result.type), mapping_of(op.attrs)
                self.nodes[op.result] = Apply(op.op.data, args, dtype, attrs, _location(op))
            case _:
                _fail(op, "has no place in a statement")
