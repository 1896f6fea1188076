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
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
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
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from pirkit.dialect.map_expr.kernel_syntax import (
    EMPTY,
    INDEX,
    TENSOR,
    check_index,
    element_of,
    index_parser,
    parse_attrs,
    parse_sizes,
    parse_type,
    parse_value,
    print_attrs,
    print_index,
    print_type,
    rank_of,
    require,
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


@irdl_op_definition
class SizeOp(IRDLOperation):
    """Derives symbolic size ``s<symbol>`` from others by a rule (`pirkit.index.size_solver`)."""

    name = "map_expr.size"
    symbol = prop_def(mlir.IntegerAttr)
    rule = prop_def(StringAttr)
    args = prop_def(AffineMapAttr)

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        symbol = mlir.IntegerAttr(index_parser(parser).symbol(), mlir.i64)
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
    values = var_operand_def(TENSOR)
    op = prop_def(StringAttr)
    args = prop_def(ArrayAttr[Attribute])
    attrs = prop_def(DictionaryAttr)
    result = result_def(TENSOR)

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
            values.append(parse_value(parser))
            return mlir.IntegerAttr(len(values) - 1, mlir.i64)

        args = ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.PAREN, arg))
        attrs = parse_attrs(parser)
        return cls.create(
            operands=values,
            result_types=[parse_type(parser)],
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
        print_attrs(printer, self.attrs)
        print_type(printer, self.result.type)

    def verify_(self) -> None:
        numbers = list(_numbers(self.args))
        in_order = numbers == list(range(len(self.operands)))
        require(in_order, "the numbers in `args` are those of the operands, in order")


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
    origin = operand_def(TENSOR)
    phase = prop_def(mlir.IntegerAttr)
    reduction = opt_prop_def(StringAttr)
    extents = opt_prop_def(AffineMapAttr)
    attrs = opt_prop_def(DictionaryAttr)
    tile = opt_prop_def(AffineMapAttr)
    body = region_def("single_block")
    result = result_def(TENSOR)

    @classmethod
    def parse(cls, parser: Parser) -> StatementOp:
        parser.parse_keyword("of")
        origin = parse_value(parser)
        parser.parse_keyword("phase")
        held: dict[str, Attribute] = {
            "phase": mlir.IntegerAttr(parser.parse_integer(allow_boolean=False), mlir.i64)
        }
        if parser.parse_optional_keyword("reduce"):
            held["reduction"] = StringAttr(parser.parse_str_literal())
            held["extents"] = parse_sizes(parser)
            held["attrs"] = parse_attrs(parser)
        if parser.parse_optional_keyword("tile"):
            held["tile"] = parse_sizes(parser)
        type_ = parse_type(parser)
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
            print_attrs(printer, self.attrs or EMPTY)
        if self.tile is not None:
            printer.print_string(" tile ")
            print_index(printer, self.tile)
        print_type(printer, self.result.type)
        printer.print_string(" ")
        printer.enter_scope()  # each statement has its own %i0, %t0...
        printer.print_region(self.body)
        printer.exit_scope()

    def verify_(self) -> None:
        require(self.result.type == self.origin.type, "a statement has the type of its origin")
        reduces = self.reduction is not None
        require(reduces == (self.extents is not None), "`extents` are those of a reduction")
        inner = len(self.extents.data.results) if self.extents is not None else 0
        args = self.body.block.args
        require(
            len(args) == rank_of(self.result) + inner and all(a.type == INDEX for a in args),
            f"its iterators are {rank_of(self.result)} of the value and {inner} of the reduction",
        )
        last = self.body.block.last_op
        require(isinstance(last, YieldOp | ScatterOp), "it ends in `yield` or `scatter`")
        body = cast("YieldOp | ScatterOp", last).value
        require(
            not isinstance(last, ScatterOp) or reduces, "the updates of a `scatter` are a reduction"
        )
        if not reduces:
            element = element_of(self.result)
            require(body.type == element, f"it yields a {body.type}, not a {element}")
        if isinstance(last, ScatterOp):
            check_index(last.index, last.dims, "where it writes", rank_of(self.result))


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The results of the kernel."""

    name = "map_expr.output"
    values = var_operand_def(TENSOR)
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> OutputOp:
        read = lambda: parse_value(parser)  # noqa: E731
        return cls.create(operands=parser.parse_comma_separated_list(parser.Delimiter.NONE, read))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_ssa_value)


OPERATIONS: Final[tuple[type[Operation], ...]] = (
    SizeOp, OriginOp, StatementOp, OutputOp, IterationOp, LoadOp, LoadIndexOp, ConstantOp,
    IndexCastOp, SelectOp, ApplyOp, YieldOp, ScatterOp,
)  # fmt: skip
"""The operations of dialect ``map_expr``, besides `pir.map_expr` itself."""
