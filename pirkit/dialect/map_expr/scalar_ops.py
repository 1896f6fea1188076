"""The operations inside of a statement of dialect ``map_expr``: indices, scalars, and its end.

All but the last one are pure: see :mod:`pirkit.dialect.map_expr.kernel_ops` for the whole.
"""

from __future__ import annotations

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from pirkit.dialect.map_expr.kernel_syntax import (
    INDEX,
    TENSOR,
    check_index,
    element_of,
    parse_attrs,
    parse_index,
    parse_sizes,
    parse_type,
    parse_value,
    print_attrs,
    print_index,
    print_type,
    rank_of,
    require,
)


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
        check_index(self.index, self.dims, "its iteration", len(self.index.data.results))


@irdl_op_definition
class LoadOp(IRDLOperation):
    """The element of an input, or of the value of an earlier statement."""

    name = "map_expr.load"
    tensor = operand_def(TENSOR)
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        tensor = parse_value(parser)
        index, dims = parse_index(parser)
        type_ = parse_type(parser)
        return cls.create(
            operands=[tensor, *dims], result_types=[type_], properties={"index": index}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.tensor)
        print_index(printer, self.index, self.dims)
        print_type(printer, self.result.type)

    def verify_(self) -> None:
        check_index(self.index, self.dims, "a read", rank_of(self.tensor))
        element = element_of(self.tensor)
        require(self.result.type == element, f"an element is a {element}, not {self.result.type}")


@irdl_op_definition
class LoadIndexOp(IRDLOperation):
    """An element of an integer tensor as an index in ``[0, extent)``, checked at run time.

    With ``wraps``, it may be negative and then counts from the end.
    """

    name = "map_expr.load_index"
    tensor = operand_def(TENSOR)
    dims = var_operand_def(INDEX)
    index = prop_def(AffineMapAttr)
    extent = prop_def(AffineMapAttr)
    wraps = opt_prop_def(mlir.UnitAttr)
    result = result_def(INDEX)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> LoadIndexOp:
        tensor = parse_value(parser)
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
        check_index(self.index, self.dims, "a read", rank_of(self.tensor))
        require(len(self.extent.data.results) == 1, "an index has one extent")
        is_integer = isinstance(element_of(self.tensor), mlir.IntegerType)
        require(is_integer, "an index is an element of an integer tensor")


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
        return cls.create(result_types=[parse_type(parser)], properties={"value": value})

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_attribute(self.value)
        print_type(printer, self.result.type)


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
        type_ = parse_type(parser)
        return cls.create(operands=dims, result_types=[type_], properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_index(printer, self.index, self.dims)
        print_type(printer, self.result.type)

    def verify_(self) -> None:
        check_index(self.index, self.dims, "a cast", 1)


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
        yes = parse_value(parser)
        parser.parse_punctuation(",")
        no = parse_value(parser)
        parser.parse_keyword("where")
        index, dims = parse_index(parser)
        parser.parse_keyword("in")
        bounds = parse_sizes(parser)
        type_ = parse_type(parser)
        held = {"index": index, "bounds": bounds}
        return cls.create(operands=[yes, no, *dims], result_types=[type_], properties=held)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([self.yes, self.no], printer.print_ssa_value)
        printer.print_string(" where ")
        print_index(printer, self.index, self.dims)
        printer.print_string(" in ")
        print_index(printer, self.bounds)
        print_type(printer, self.result.type)

    def verify_(self) -> None:
        check_index(self.index, self.dims, "a choice", len(self.bounds.data.results))
        equal = self.yes.type == self.no.type == self.result.type
        require(equal, "both sides of a choice are of the type of its result")


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
        read = lambda: parse_value(parser)  # noqa: E731
        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, read)
        attrs = parse_attrs(parser)
        type_ = parse_type(parser)
        held = {"op": op, "attrs": attrs}
        return cls.create(operands=args, result_types=[type_], properties=held)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.op)
        with printer.in_parens():
            printer.print_list(self.args, printer.print_ssa_value)
        print_attrs(printer, self.attrs)
        print_type(printer, self.result.type)

    def verify_(self) -> None:
        scalar = all(a.type != INDEX and not isinstance(a.type, mlir.TensorType) for a in self.args)
        require(scalar, "the operands of `map_expr.apply` are scalars")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The element of the statement's value, or what its reduction combines."""

    name = "map_expr.yield"
    value = operand_def(AnyAttr())
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls.create(operands=[parse_value(parser)])

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
        value = parse_value(parser)
        parser.parse_keyword("at")
        index, dims = parse_index(parser)
        parser.parse_keyword("into")
        start = parse_value(parser)
        return cls.create(operands=[value, start, *dims], properties={"index": index})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" at ")
        print_index(printer, self.index, self.dims)
        printer.print_string(" into ")
        printer.print_ssa_value(self.start)
