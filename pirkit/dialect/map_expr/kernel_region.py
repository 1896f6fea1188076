"""Converts kernels: the tree that fusion builds and code generators read, and the region of the IR.

The region is the one source in a program; :mod:`pirkit.dialect.map_expr.kernel_op` derives the tree
from it. Both directions keep locations, and shared nodes are shared values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.attrs import ComplexAttr
from pirkit.dialect.map_expr import kernel_ops as ops
from pirkit.dialect.map_expr.affine import index_map, indices_of, sizes_map, sizes_of
from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, children
from pirkit.dialect.operation import span_of
from pirkit.dialect.types import dtype_of, element_type, tensor_type
from pirkit.index.expr import Atom, Expr, Iter, Read, read
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import Guard, space
from pirkit.index.size_solver import RULES, Derived
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

_NONE: Final = mlir.NoneType()

# --- values of Python as attributes --------------------------------------------------------------


def _attribute(value: Any) -> Attribute:
    """The attribute of a value: None, a number, a string, an element type, or a tuple of such."""
    match value:
        case None:
            return _NONE
        case bool():
            return mlir.IntegerAttr(int(value), mlir.i1)
        case int():
            return mlir.IntegerAttr(value, mlir.i64)
        case float():
            return mlir.FloatAttr(value, mlir.f64)
        case complex():
            return ComplexAttr(value)
        case str():
            return StringAttr(value)
        case DType():
            return element_type(value)
        case tuple():
            return ArrayAttr([_attribute(v) for v in cast("tuple[Any, ...]", value)])
        case _:
            raise ConstraintError("C1", f"a kernel cannot hold the attribute {value!r}")


def _python(attribute: Attribute) -> Any:
    """The inverse of `_attribute`."""
    match attribute:
        case mlir.NoneType():
            return None
        case mlir.IntegerAttr():
            number = cast("mlir.IntegerAttr[Any]", attribute)
            return bool(number.value.data) if number.type == mlir.i1 else number.value.data
        case mlir.FloatAttr():
            return cast("mlir.FloatAttr[Any]", attribute).value.data
        case ComplexAttr() | StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple([_python(a) for a in attribute])
        case _:
            return dtype_of(attribute)


def _dictionary(attrs: Mapping[str, Any]) -> DictionaryAttr:
    return DictionaryAttr({k: _attribute(v) for k, v in attrs.items()}) if attrs else ops.EMPTY


def _mapping(attrs: DictionaryAttr | None) -> dict[str, Any]:
    return {} if attrs is None else {k: _python(v) for k, v in attrs.data.items()}


def type_in_kernel(meta: TensorMeta) -> mlir.TensorType[Attribute]:
    """The tensor type of a meta; symbolic sizes are the results of its encoding, a map."""
    if not any(map(is_sized, meta.shape)):
        return tensor_type(meta.shape, meta.dtype)
    dims = [mlir.DYNAMIC_INDEX if is_sized(n) else n for n in meta.shape]
    return mlir.TensorType(element_type(meta.dtype), dims, sizes_map(meta.shape))


def meta_in_kernel(type_: Attribute) -> TensorMeta:
    """The inverse of `type_in_kernel`. Raises ConstraintError (C1) for a type without sizes."""
    if not isinstance(type_, mlir.TensorType):
        raise ConstraintError("C1", f"`{type_}` is no tensor")
    tensor = cast("mlir.TensorType[Attribute]", type_)
    shape, dtype = tensor.get_shape(), dtype_of(tensor.element_type)
    if isinstance(tensor.encoding, AffineMapAttr):
        sizes = sizes_of(tensor.encoding)
        pairs = zip(sizes, shape, strict=False)
        if len(sizes) == len(shape) and all(
            d == (mlir.DYNAMIC_INDEX if is_sized(n) else n) for n, d in pairs
        ):
            return TensorMeta(sizes, dtype)
    elif mlir.DYNAMIC_INDEX not in shape:
        return TensorMeta(tuple(shape), dtype)
    raise ConstraintError(
        "C1",
        f"`{type_}` does not say of which size each axis is",
        help="in a kernel dynamic sizes are named: `tensor<?xf32, affine_map<()[s0] -> (s0)>>`",
    )


# --- from the tree to the region -----------------------------------------------------------------


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
    block.add_op(ops.OutputOp.create(operands=results, location=location))
    return Region(block)


def _size(size: Derived, location: mlir.LocationAttr | None) -> Operation:
    symbol = mlir.IntegerAttr(int(size.name[1:]), mlir.i64)
    return ops.SizeOp.create(
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
                return _NONE
            case TensorMeta():
                return type_in_kernel(operand)
            case tuple():
                return ArrayAttr([arg(o) for o in operand])
            case _:
                operands.append(values[operand])
                return mlir.IntegerAttr(len(operands) - 1, mlir.i64)

    args = ArrayAttr([arg(o) for o in origin.operands])
    return ops.OriginOp.create(
        operands=operands,
        result_types=[type_in_kernel(origin.meta)],
        properties={"op": StringAttr(origin.op), "args": args, "attrs": _dictionary(origin.attrs)},
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
        self.block = Block(arg_types=[ops.INDEX] * len(names))
        self.iters: dict[str, SSAValue] = dict(zip(names, self.block.args, strict=True))
        for name, argument in self.iters.items():
            argument.name_hint = name
        self.read: dict[Atom, SSAValue] = {}
        self.applied = 0

    def op(self) -> Operation:
        s, here = self.statement, self.owner_location()
        if s.rows is not None:
            index, dims = self.index(s.rows)
            self.add(ops.IterationOp.create(operands=dims, properties={"index": index}))
        known: dict[int, SSAValue] = {}
        nodes = list(s.nodes())
        places = _locations(nodes, here) if self.located else {}
        for node in nodes:
            if id(node) not in known:
                known[id(node)] = self.node(node, known, places.get(id(node)))
        body = known[id(s.body)]
        if s.start is None:
            self.add(ops.YieldOp.create(operands=[body], location=here))
        else:
            index, dims = self.index(s.index)
            operands = [body, known[id(s.start)], *dims]
            self.add(ops.ScatterOp.create(operands=operands, properties={"index": index}))
        held: dict[str, Attribute] = {"phase": mlir.IntegerAttr(s.stage, mlir.i64)}
        if s.reduction:
            held["reduction"] = StringAttr(s.reduction)
            held["extents"] = sizes_map(s.extents)
            held["attrs"] = _dictionary(s.attrs)
        if s.tile:
            held["tile"] = sizes_map(s.tile)
        return ops.StatementOp.create(
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
            op = ops.LoadIndexOp.create(
                operands=[self.values[atom.source], *dims],
                result_types=[ops.INDEX],
                properties=held,
            )
            self.read[atom] = cast(SSAValue, self.add(op))
        return self.read[atom]

    def node(self, node: Node, known: Mapping[int, SSAValue], location: Any) -> SSAValue:
        held: dict[str, Attribute] = {}
        match node:
            case Load():
                source = self.values[node.source]
                index, dims = self.index(node.index)
                cls, operands, held["index"] = ops.LoadOp, [source, *dims], index
                type_ = cast("mlir.TensorType[Attribute]", source.type).element_type
            case Fill():
                cls, operands, held = ops.ConstantOp, [], {"value": _attribute(node.value)}
                type_ = element_type(node.dtype)
            case Position():
                index, dims = self.index((node.index,))
                cls, operands, held["index"] = ops.IndexCastOp, dims, index
                type_ = element_type(node.dtype)
            case Choose():
                index, dims = self.index([g.value for g in node.guards])
                yes, no = known[id(node.yes)], known[id(node.no)]
                held = {"index": index, "bounds": sizes_map(tuple([g.bound for g in node.guards]))}
                cls, operands, type_ = ops.SelectOp, [yes, no, *dims], yes.type
            case Apply():
                cls, operands = ops.ApplyOp, [known[id(a)] for a in node.args]
                held = {"op": StringAttr(node.op), "attrs": _dictionary(node.attrs)}
                type_ = element_type(node.dtype)
        op = cls.create(operands=operands, result_types=[type_], properties=held, location=location)
        if cls is ops.ApplyOp or cls is ops.SelectOp:
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


# --- from the region to the tree -----------------------------------------------------------------


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
        if not isinstance(last, ops.OutputOp):
            raise ConstraintError("C1", "a kernel ends in `map_expr.output`")
        for op in self.block.ops:
            match op:
                case ops.SizeOp():
                    self.size(op)
                case ops.OriginOp():
                    self.origin(op)
                case ops.StatementOp():
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

    def size(self, op: ops.SizeOp) -> None:
        rule = op.rule.data
        if rule not in RULES:
            _fail(op, f"has an unknown rule `{rule}`")
        symbol = cast(int, cast(Any, op.symbol).value.data)
        self.sizes.append(Derived(f"s{symbol}", rule, sizes_of(op.args)))

    def origin(self, op: ops.OriginOp) -> None:
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
                    return tuple(
                        [
                            cast("int | TensorMeta", operand(e))
                            for e in cast("ArrayAttr[Attribute]", entry)
                        ]
                    )
                case mlir.IntegerAttr():
                    return number(op.operands[cast(Any, entry).value.data])
                case _:
                    return meta_in_kernel(cast(Attribute, entry))

        operands = tuple([operand(e) for e in op.args])
        self.replaced[op.result] = len(self.ops)
        meta = meta_in_kernel(op.result.type)
        self.ops.append(Origin(op.op.data, operands, _mapping(op.attrs), meta, _location(op)))


def _location(op: Operation) -> Any:
    return None if isinstance(op.location, mlir.UnknownLoc) else op.location


class _StatementReader:
    """The scalars and indices of a statement by their SSA values."""

    def __init__(self, around: _Reader, op: ops.StatementOp) -> None:
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
        last = cast("ops.YieldOp | ops.ScatterOp", op.body.block.last_op)
        for inner in op.body.block.ops:
            if inner is not last:
                self.inner(inner)
        scatter = last if isinstance(last, ops.ScatterOp) else None
        return Statement(
            self.meta,
            self.node(last, last.value),
            self.around.ops[number].op,
            op.reduction.data if op.reduction is not None else "",
            self.extents,
            _mapping(op.attrs),
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
        source = self.around.source
        match op:
            case ops.IterationOp():
                if self.rows is not None:
                    _fail(op, "is the second one of its statement")
                self.rows = self.index(op, op.index, op.dims)
            case ops.LoadIndexOp():
                index = self.index(op, op.index, op.dims)
                (extent,) = sizes_of(op.extent)
                wraps = op.wraps is not None
                self.indices[op.result] = read(source(op, op.tensor), index, extent, wraps)
            case ops.LoadOp():
                index = self.index(op, op.index, op.dims)
                self.nodes[op.result] = Load(source(op, op.tensor), index)
            case ops.ConstantOp():
                self.nodes[op.result] = Fill(_python(op.value), dtype_of(op.result.type))
            case ops.IndexCastOp():
                (value,) = self.index(op, op.index, op.dims)
                self.nodes[op.result] = Position(value, dtype_of(op.result.type))
            case ops.SelectOp():
                values, bounds = self.index(op, op.index, op.dims), sizes_of(op.bounds)
                guards = tuple([Guard(v, n) for v, n in zip(values, bounds, strict=True)])
                yes, no = self.node(op, op.yes), self.node(op, op.no)
                self.nodes[op.result] = Choose(guards, yes, no, _location(op))
            case ops.ApplyOp():
                args = tuple([self.node(op, a) for a in op.args])
                dtype, attrs = dtype_of(op.result.type), _mapping(op.attrs)
                self.nodes[op.result] = Apply(op.op.data, args, dtype, attrs, _location(op))
            case _:
                _fail(op, "has no place in a statement")
