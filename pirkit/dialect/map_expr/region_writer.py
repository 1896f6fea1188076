"""Writes the region of a kernel from the tree that fusion builds.

Shared nodes become shared values; :mod:`pirkit.dialect.map_expr.region_reader` is the inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.affine import index_map, sizes_map
from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.kernel_ops import OriginOp, OutputOp, SizeOp, StatementOp
from pirkit.dialect.map_expr.kernel_syntax import INDEX
from pirkit.dialect.map_expr.region_attributes import (
    NONE,
    attribute_of,
    dictionary_of,
    type_in_kernel,
)
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
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, children
from pirkit.dialect.types import element_type
from pirkit.index.expr import Atom, Expr, Iter, Read
from pirkit.index.size_solver import Derived
from pirkit.runtime.meta import TensorMeta


def region_of(kernel: MapExpr, location: mlir.LocationAttr | None = None) -> Region:
    """The region of a kernel at a location; without one its operations have none either.

    Raises ConstraintError (C1) if a statement is of no recorded op.
    """
    block = Block(arg_types=[type_in_kernel(m) for m in kernel.inputs])
    for k, argument in enumerate(block.args):
        argument.name_hint = f"x{k}"
    values: list[SSAValue] = list(block.args)
    located = location is not None
    for size in kernel.sizes:
        block.add_op(_size(size, location))
    replaced: list[SSAValue] = []
    for k, origin in enumerate(kernel.ops):
        op = _origin(origin, [*values, *replaced], origin.location if located else None)
        op.results[0].name_hint = f"o{k}"
        replaced.append(op.results[0])
        block.add_op(op)
    for k, statement in enumerate(kernel.statements):
        if not 0 <= statement.origin < len(replaced):
            raise ConstraintError("C1", f"v{k} is the value of no recorded op")
        op = _StatementBuilder(statement, values, replaced[statement.origin], located).op()
        op.results[0].name_hint = f"v{k}"
        values.append(op.results[0])
        block.add_op(op)
    results = [values[len(kernel.inputs) + k] for k in kernel.outputs]
    block.add_op(OutputOp.create(operands=results, location=location))
    return Region(block)


def _size(size: Derived, location: mlir.LocationAttr | None) -> Operation:
    symbol = mlir.IntegerAttr(int(size.name[1:]), mlir.i64)
    return SizeOp.create(
        properties={
            "symbol": symbol,
            "rule": StringAttr(size.rule),
            "args": sizes_map(tuple(size.args)),
        },
        location=location,
    )


def _origin(origin: Origin, values: list[SSAValue], location: Any) -> Operation:
    operands: list[SSAValue] = []

    def arg(operand: Operand) -> Attribute:
        match operand:
            case None:
                return NONE
            case TensorMeta():
                return type_in_kernel(operand)
            case tuple():
                return ArrayAttr([arg(o) for o in operand])
            case _:
                operands.append(values[operand])
                return mlir.IntegerAttr(len(operands) - 1, mlir.i64)

    args = ArrayAttr([arg(o) for o in origin.operands])
    return OriginOp.create(
        operands=operands,
        result_types=[type_in_kernel(origin.meta)],
        properties={
            "op": StringAttr(origin.op),
            "args": args,
            "attrs": dictionary_of(origin.attrs),
        },
        location=location,
    )


class _StatementBuilder:
    """Writes the region of one statement."""

    def __init__(
        self, statement: Statement, values: list[SSAValue], origin: SSAValue, located: bool
    ) -> None:
        self.statement = statement
        self.located = located
        self.values = values
        self.origin = origin
        names = [f"i{k}" for k in range(len(statement.meta.shape))]
        names += [f"r{k}" for k in range(len(statement.extents))]
        self.block = Block(arg_types=[INDEX] * len(names))
        self.iters: dict[str, SSAValue] = dict(zip(names, self.block.args, strict=True))
        for name, argument in self.iters.items():
            argument.name_hint = name
        self.read: dict[Atom, SSAValue] = {}
        self.applied = 0

    def op(self) -> Operation:
        s, here = self.statement, self.owner_location()
        if s.rows is not None:
            index, dims = self.index(s.rows)
            self.add(IterationOp.create(operands=dims, properties={"index": index}))
        known: dict[int, SSAValue] = {}
        nodes = list(s.nodes())
        places = _locations(nodes, here) if self.located else {}
        for node in nodes:
            if id(node) not in known:
                known[id(node)] = self.node(node, known, places.get(id(node)))
        body = known[id(s.body)]
        if s.start is None:
            self.add(YieldOp.create(operands=[body], location=here))
        else:
            index, dims = self.index(s.index)
            operands = [body, known[id(s.start)], *dims]
            self.add(ScatterOp.create(operands=operands, properties={"index": index}))
        held: dict[str, Attribute] = {"phase": mlir.IntegerAttr(s.stage, mlir.i64)}
        if s.reduction:
            held["reduction"] = StringAttr(s.reduction)
            held["extents"] = sizes_map(s.extents)
            held["attrs"] = dictionary_of(s.attrs)
        if s.tile:
            held["tile"] = sizes_map(s.tile)
        return StatementOp.create(
            operands=[self.origin],
            result_types=[type_in_kernel(s.meta)],
            properties=held,
            regions=[Region(self.block)],
            location=here,
        )

    def owner_location(self) -> Any:
        return cast(Operation, self.origin.owner).location

    def add(self, op: Operation) -> SSAValue | None:
        if isinstance(op.location, mlir.UnknownLoc):
            op.location = self.owner_location()
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def index(self, index: Iterable[Expr]) -> tuple[AffineMapAttr, list[SSAValue]]:
        """The map of an index, and the values of its dimensions."""
        found, atoms = index_map(tuple(index))
        return found, [
            self.iters[a.name] if isinstance(a, Iter) else self.element(cast(Read, a))
            for a in atoms
        ]

    def element(self, atom: Read) -> SSAValue:
        """A data-dependent index."""
        if atom not in self.read:
            index, dims = self.index(atom.index)
            held: dict[str, Attribute] = {"index": index, "extent": sizes_map((atom.extent,))}
            if atom.from_end:
                held["wraps"] = mlir.UnitAttr()
            op = LoadIndexOp.create(
                operands=[self.values[atom.source], *dims], result_types=[INDEX], properties=held
            )
            self.read[atom] = cast(SSAValue, self.add(op))
        return self.read[atom]

    def node(self, node: Node, known: Mapping[int, SSAValue], location: Any) -> SSAValue:
        held: dict[str, Attribute] = {}
        match node:
            case Load():
                source = self.values[node.source]
                index, dims = self.index(node.index)
                cls, operands, held["index"] = LoadOp, [source, *dims], index
                type_ = cast("mlir.TensorType[Attribute]", source.type).element_type
            case Fill():
                cls, operands, held = ConstantOp, [], {"value": attribute_of(node.value)}
                type_ = element_type(node.dtype)
            case Position():
                index, dims = self.index((node.index,))
                cls, operands, held["index"] = IndexCastOp, dims, index
                type_ = element_type(node.dtype)
            case Choose():
                index, dims = self.index([g.value for g in node.guards])
                yes, no = known[id(node.yes)], known[id(node.no)]
                held = {"index": index, "bounds": sizes_map(tuple([g.bound for g in node.guards]))}
                cls, operands, type_ = SelectOp, [yes, no, *dims], yes.type
            case Apply():
                cls, operands = ApplyOp, [known[id(a)] for a in node.args]
                held = {"op": StringAttr(node.op), "attrs": dictionary_of(node.attrs)}
                type_ = element_type(node.dtype)
        op = cls.create(operands=operands, result_types=[type_], properties=held, location=location)
        if cls is ApplyOp or cls is SelectOp:
            op.results[0].name_hint = f"t{self.applied}"
            self.applied += 1
        self.block.add_op(op)
        return op.results[0]


def _locations(nodes: list[Node], default: Any) -> dict[int, Any]:
    """A location for each node: its own, else that of a node that reads it."""
    found: dict[int, Any] = {}
    for node in reversed(nodes):
        own = node.location if isinstance(node, Apply | Choose) else None
        here = found[id(node)] = own or found.get(id(node), default)
        for child in children(node):
            found.setdefault(id(child), here)
    return found
