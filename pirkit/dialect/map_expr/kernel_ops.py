"""Dialect ``map_expr``: the operations inside of a fused kernel (`pir.map_expr`).

::

    %3 = pir.map_expr @fn_exp_0_sum_1(%0) loops [32] : (tensor<32x64xf32>) -> tensor<32xf32> {
    ^bb0(%x0 : tensor<32x64xf32>):
      %o0 = map_expr.origin "pd_op.exp"(%x0) : tensor<32x64xf32>
      %o1 = map_expr.origin "pd_op.sum"(%o0) {axis = [1], keepdim = false} : tensor<32xf32>
      %v0 = map_expr.statement of %o1 phase 0 reduce "pd_op.sum" [64] : tensor<32xf32> {
      ^bb1(%i0 : index, %r0 : index):
        map_expr.iteration [%i0]
        %4 = map_expr.load %x0[%i0, %r0] : f32
        %t0 = map_expr.apply "pd_op.exp"(%4) : f32
        map_expr.yield %t0
      }
      map_expr.output %v0
    }

Tensors are inputs, the results of the replaced ops (``origin``; nothing reads their elements: they
prove where the statements come from) and of statements. Scalars have element types. Indices have
type ``index``: iterators, and elements of index tensors (``load_index``). The scalars of a
statement are pure, and evaluated only where a ``select`` chooses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, IndexType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from pirkit.dialect.map_expr.affine import IndexParser, show

INDEX: Final = IndexType()
EMPTY: Final = DictionaryAttr({})
_TENSOR: Final = BaseAttr(mlir.TensorType)
_SYNTAX: Final = "the readable form of an index has names of SSA values in it"


# --- indices and sizes in the readable form ------------------------------------------------------


def parse_index(parser: Parser) -> tuple[AffineMapAttr, list[SSAValue]]:
    """``[%i0 * 2 + %k, s0 - 1]``: a map, and the values of its dimensions."""
    found, spans = _index_parser(parser).indices()
    return found, [parser.resolve_operand(UnresolvedOperand(s, 0), INDEX) for s in spans]


def parse_sizes(parser: Parser) -> AffineMapAttr:
    """``[4, s0 * 2]``."""
    return _index_parser(parser).sizes()


def _index_parser(parser: Parser) -> IndexParser:
    return IndexParser(parser._parser_state)  # pyright: ignore[reportPrivateUsage]


def print_index(printer: Printer, index: AffineMapAttr, dims: Sequence[SSAValue] = ()) -> None:
    """The inverse of `parse_index` and `parse_sizes`."""
    names = [f"%{printer._ssa_values[v]}" for v in dims]  # pyright: ignore[reportPrivateUsage]
    printer.print_string(f"[{', '.join(show(e, names) for e in index.data.results)}]")


def _parse_attrs(parser: Parser) -> DictionaryAttr:
    return DictionaryAttr(parser.parse_optional_attr_dict())


def _print_attrs(printer: Printer, attrs: DictionaryAttr) -> None:
    if attrs.data:
        printer.print_string(" ")
        printer.print_attr_dict(attrs.data)


def _parse_values(parser: Parser, type_: Attribute | None = None) -> list[SSAValue]:
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _value(parser, type_))


def _value(parser: Parser, type_: Attribute | None = None) -> SSAValue:
    """An operand that is defined above, of the type of its definition."""
    name = parser.parse_unresolved_operand()
    if type_ is None:
        known = parser.ssa_values.get(name.operand_name)
        if known is None:
            parser.raise_error(f"%{name.operand_name} is not defined", name.span.start)
        type_ = known[name.index].type
    return parser.resolve_operand(name, type_)


def _parse_type(parser: Parser) -> Attribute:
    parser.parse_punctuation(":")
    return parser.parse_type()


def _print_type(printer: Printer, type_: Attribute) -> None:
    printer.print_string(" : ")
    printer.print_attribute(type_)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise VerifyException(message)


def _check_index(index: AffineMapAttr, dims: Sequence[SSAValue], what: str, rank: int) -> None:
    _require(index.data.num_dims == len(dims), f"{what}: a map of {index.data.num_dims} dimensions "
             f"has {len(dims)} operands")  # fmt: skip
    found = len(index.data.results)
    _require(found == rank, f"{what}: {found} indices for {rank} axes")


def _element(tensor: SSAValue) -> Attribute:
    return cast("mlir.TensorType[Attribute]", tensor.type).element_type


def _rank(tensor: SSAValue) -> int:
    return cast("mlir.TensorType[Attribute]", tensor.type).get_num_dims()


# --- the level of the kernel ---------------------------------------------------------------------


@irdl_op_definition
class SizeOp(IRDLOperation):
    """Derives symbolic size ``s<symbol>`` from others by a rule (`pirkit.index.size_solver`)."""

    name = "map_expr.size"
    symbol = prop_def(mlir.IntegerAttr)
    rule = prop_def(StringAttr)
    args = prop_def(AffineMapAttr)

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        symbol = mlir.IntegerAttr(_index_parser(parser).symbol(), mlir.i64)
        parser.parse_punctuation("=")
        rule = StringAttr(parser.parse_identifier())
        return cls.create(properties={"symbol": symbol, "rule": rule, "args": parse_sizes(parser)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" s{self.symbol.value.data} = {self.rule.data} ")
        print_index(printer, self.args)


@irdl_op_definition
class OriginOp(IRDLOperation):
    """An op of the program that the kernel replaces.

    ``args`` are its operands in order: the number of an SSA operand, a type where only the shape of
    a tensor matters, ``none`` for an absent one, and an array for a list.
    """

    name = "map_expr.origin"
    values = var_operand_def(_TENSOR)
    op = prop_def(StringAttr)
    args = prop_def(ArrayAttr[Attribute])
    attrs = prop_def(DictionaryAttr)
    result = result_def(_TENSOR)

    @classmethod
    def parse(cls, parser: Parser) -> OriginOp:
        op = StringAttr(parser.parse_str_literal())
        values: list[SSAValue] = []

        def arg() -> Attribute:
            if parser.parse_optional_keyword("none"):
                return mlir.NoneType()
            items = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, arg)
            if items is not None:
                return ArrayAttr(items)
            type_ = parser.parse_optional_type()
            if type_ is not None:
                return type_
            values.append(_value(parser))
            return mlir.IntegerAttr(len(values) - 1, mlir.i64)

        args = ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.PAREN, arg))
        attrs = _parse_attrs(parser)
        return cls.create(
            operands=values,
            result_types=[_parse_type(parser)],
            properties={"op": op, "args": args, "attrs": attrs},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.op)

        def arg(entry: Attribute) -> None:
            if isinstance(entry, mlir.IntegerAttr):
                number = cast("mlir.IntegerAttr[Any]", entry).value.data
                printer.print_ssa_value(self.operands[number])
            elif isinstance(entry, ArrayAttr):
                with printer.in_square_brackets():
                    printer.print_list(cast("ArrayAttr[Attribute]", entry).data, arg)
            else:
                printer.print_attribute(entry)

        with printer.in_parens():
            printer.print_list(self.args.data, arg)
        _print_attrs(printer, self.attrs)
        _print_type(printer, self.result.type)

    def verify_(self) -> None:
        numbers = list(_numbers(self.args))
        in_order = numbers == list(range(len(self.operands)))
        _require(in_order, "the numbers in `args` are those of the operands, in order")


def _numbers(args: Attribute) -> Sequence[int]:
    if isinstance(args, ArrayAttr):
        return [n for entry in cast("ArrayAttr[Attribute]", args) for n in _numbers(entry)]
    return [cast(Any, args).value.data] if isinstance(args, mlir.IntegerAttr) else []


@irdl_op_definition
class StatementOp(IRDLOperation):
    """Computes one materialized value: its element for each iteration ``i0...``, reduced over
    ``r0...`` if there is a ``reduction``. Statements of a later ``phase`` may read any element.
    """

    name = "map_expr.statement"
    origin = operand_def(_TENSOR)
    phase = prop_def(mlir.IntegerAttr)
    reduction = opt_prop_def(StringAttr)
    extents = opt_prop_def(AffineMapAttr)
    attrs = opt_prop_def(DictionaryAttr)
    tile = opt_prop_def(AffineMapAttr)
    body = region_def("single_block")
    result = result_def(_TENSOR)

    @classmethod
    def parse(cls, parser: Parser) -> StatementOp:
        parser.parse_keyword("of")
        origin = _value(parser)
        parser.parse_keyword("phase")
        held: dict[str, Attribute] = {
            "phase": mlir.IntegerAttr(parser.parse_integer(allow_boolean=False), mlir.i64)
        }
        if parser.parse_optional_keyword("reduce"):
            held["reduction"] = StringAttr(parser.parse_str_literal())
            held["extents"] = parse_sizes(parser)
            held["attrs"] = _parse_attrs(parser)
        if parser.parse_optional_keyword("tile"):
            held["tile"] = parse_sizes(parser)
        type_ = _parse_type(parser)
        return cls.create(
            operands=[origin],
            result_types=[type_],
            properties=held,
            regions=[parser.parse_region()],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" of ")
        printer.print_ssa_value(self.origin)
        printer.print_string(f" phase {cast(Any, self.phase).value.data}")
        if self.reduction is not None:
            printer.print_string(" reduce ")
            printer.print_attribute(self.reduction)
            printer.print_string(" ")
            print_index(printer, cast(AffineMapAttr, self.extents))
            _print_attrs(printer, self.attrs or EMPTY)
        if self.tile is not None:
            printer.print_string(" tile ")
            print_index(printer, self.tile)
        _print_type(printer, self.result.type)
        printer.print_string(" ")
        printer.enter_scope()  # each statement has its own %i0, %t0...
        printer.print_region(self.body)
        printer.exit_scope()

    def verify_(self) -> None:
        _require(self.result.type == self.origin.type, "a statement has the type of its origin")
        reduces = self.reduction is not None
        _require(reduces == (self.extents is not None), "`extents` are those of a reduction")
        inner = len(self.extents.data.results) if self.extents is not None else 0
        args = self.body.block.args
        _require(
            len(args) == _rank(self.result) + inner and all(a.type == INDEX for a in args),
            f"its iterators are {_rank(self.result)} of the value and {inner} of the reduction",
        )
        last = self.body.block.last_op
        _require(isinstance(last, YieldOp | ScatterOp), "it ends in `yield` or `scatter`")
        body = cast("YieldOp | ScatterOp", last).value
        _require(
            not isinstance(last, ScatterOp) or reduces, "the updates of a `scatter` are a reduction"
        )
        if not reduces:
            element = _element(self.result)
            _require(body.type == element, f"it yields a {body.type}, not a {element}")
        if isinstance(last, ScatterOp):
            _check_index(last.index, last.dims, "where it writes", _rank(self.result))


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The results of the kernel."""

    name = "map_expr.output"
    values = var_operand_def(_TENSOR)
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> OutputOp:
        return cls.create(operands=_parse_values(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_ssa_value)


# --- the level of a statement --------------------------------------------------------------------


@irdl_op_definition
class IterationOp(IRDLOperation):
    """The iteration of the kernel's common loops that computes an element (iteration mapping)."""

    name = "map_expr.iteration"
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)

    @classmethod
    def parse(cls, parser: Parser) -> IterationOp:
        index, dims = parse_index(parser)
        return cls.create(operands=dims, properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_index(printer, self.index, self.dims)

    def verify_(self) -> None:
        _check_index(self.index, self.dims, "its iteration", len(self.index.data.results))


@irdl_op_definition
class LoadOp(IRDLOperation):
    """The element of an input, or of the value of an earlier statement."""

    name = "map_expr.load"
    tensor = operand_def(_TENSOR)
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        tensor = _value(parser)
        index, dims = parse_index(parser)
        type_ = _parse_type(parser)
        return cls.create(
            operands=[tensor, *dims], result_types=[type_], properties={"index": index}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.tensor)
        print_index(printer, self.index, self.dims)
        _print_type(printer, self.result.type)

    def verify_(self) -> None:
        _check_index(self.index, self.dims, "a read", _rank(self.tensor))
        element = _element(self.tensor)
        _require(self.result.type == element, f"an element is a {element}, not {self.result.type}")


@irdl_op_definition
class LoadIndexOp(IRDLOperation):
    """An element of an integer tensor as an index in ``[0, extent)``, checked at run time.

    With ``wraps``, it may be negative and then counts from the end.
    """

    name = "map_expr.load_index"
    tensor = operand_def(_TENSOR)
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    extent = prop_def(AffineMapAttr)
    wraps = opt_prop_def(mlir.UnitAttr)
    result = result_def(INDEX)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> LoadIndexOp:
        tensor = _value(parser)
        index, dims = parse_index(parser)
        parser.parse_keyword("in")
        held: dict[str, Attribute] = {"index": index, "extent": parse_sizes(parser)}
        if parser.parse_optional_keyword("wraps"):
            held["wraps"] = mlir.UnitAttr()
        return cls.create(operands=[tensor, *dims], result_types=[INDEX], properties=held)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.tensor)
        print_index(printer, self.index, self.dims)
        printer.print_string(" in ")
        print_index(printer, self.extent)
        printer.print_string(" wraps" if self.wraps is not None else "")

    def verify_(self) -> None:
        _check_index(self.index, self.dims, "a read", _rank(self.tensor))
        _require(len(self.extent.data.results) == 1, "an index has one extent")
        is_integer = isinstance(_element(self.tensor), mlir.IntegerType)
        _require(is_integer, "an index is an element of an integer tensor")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A number."""

    name = "map_expr.constant"
    value = prop_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        with parser.in_parens():
            value = parser.parse_attribute()
        return cls.create(result_types=[_parse_type(parser)], properties={"value": value})

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_attribute(self.value)
        _print_type(printer, self.result.type)


@irdl_op_definition
class IndexCastOp(IRDLOperation):
    """The value of an index as a scalar (as in `arange`)."""

    name = "map_expr.index_cast"
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> IndexCastOp:
        index, dims = parse_index(parser)
        type_ = _parse_type(parser)
        return cls.create(operands=dims, result_types=[type_], properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_index(printer, self.index, self.dims)
        _print_type(printer, self.result.type)

    def verify_(self) -> None:
        _check_index(self.index, self.dims, "a cast", 1)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``yes`` where each index is within its bound (``0 <= index < bound``), else ``no``."""

    name = "map_expr.select"
    yes = operand_def(AnyAttr())
    no = operand_def(AnyAttr())
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    bounds = prop_def(AffineMapAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        yes = _value(parser)
        parser.parse_punctuation(",")
        no = _value(parser)
        parser.parse_keyword("where")
        index, dims = parse_index(parser)
        parser.parse_keyword("in")
        bounds = parse_sizes(parser)
        type_ = _parse_type(parser)
        held = {"index": index, "bounds": bounds}
        return cls.create(operands=[yes, no, *dims], result_types=[type_], properties=held)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([self.yes, self.no], printer.print_ssa_value)
        printer.print_string(" where ")
        print_index(printer, self.index, self.dims)
        printer.print_string(" in ")
        print_index(printer, self.bounds)
        _print_type(printer, self.result.type)

    def verify_(self) -> None:
        _check_index(self.index, self.dims, "a choice", len(self.bounds.data.results))
        equal = self.yes.type == self.no.type == self.result.type
        _require(equal, "both sides of a choice are of the type of its result")


@irdl_op_definition
class ApplyOp(IRDLOperation):
    """A scalar op of the op table; the type of the result is that to which it rounds."""

    name = "map_expr.apply"
    args = var_operand_def(AnyAttr())
    op = prop_def(StringAttr)
    attrs = prop_def(DictionaryAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ApplyOp:
        op = StringAttr(parser.parse_str_literal())
        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _value(parser))
        attrs = _parse_attrs(parser)
        type_ = _parse_type(parser)
        held = {"op": op, "attrs": attrs}
        return cls.create(operands=args, result_types=[type_], properties=held)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.op)
        with printer.in_parens():
            printer.print_list(self.args, printer.print_ssa_value)
        _print_attrs(printer, self.attrs)
        _print_type(printer, self.result.type)

    def verify_(self) -> None:
        scalar = all(a.type != INDEX and not isinstance(a.type, mlir.TensorType) for a in self.args)
        _require(scalar, "the operands of `map_expr.apply` are scalars")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The element of the statement's value, or what its reduction combines."""

    name = "map_expr.yield"
    value = operand_def(AnyAttr())
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls.create(operands=[_value(parser)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Combines ``value`` into the element at ``index``, for each ``r0...`` in order.

    ``start`` is the initial content, for each ``i0...``.
    """

    name = "map_expr.scatter"
    value = operand_def(AnyAttr())
    start = operand_def(AnyAttr())
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> ScatterOp:
        value = _value(parser)
        parser.parse_keyword("at")
        index, dims = parse_index(parser)
        parser.parse_keyword("into")
        start = _value(parser)
        return cls.create(operands=[value, start, *dims], properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" at ")
        print_index(printer, self.index, self.dims)
        printer.print_string(" into ")
        printer.print_ssa_value(self.start)


OPERATIONS: Final[tuple[type[Operation], ...]] = (
    SizeOp, OriginOp, StatementOp, OutputOp, IterationOp, LoadOp, LoadIndexOp, ConstantOp,
    IndexCastOp, SelectOp, ApplyOp, YieldOp, ScatterOp,
)  # fmt: skip
"""The operations of dialect ``map_expr``, besides `pir.map_expr` itself."""
