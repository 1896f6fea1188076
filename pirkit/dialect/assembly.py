"""The readable text form of operations.

::

    %2 = pd_op.scale(%0, %1) {bias = 0.0 : f32} : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
    %5 = pd_op.layer_norm_grad(%0, none, %1) : (tensor<2xf32>, none, ...) -> (none, tensor<3xf32>)
    %9 = pd_op.if(%8) : (tensor<i1>) -> tensor<2xf32> { ... } else { ... }
    pir.program @backward(%0 "output_grad_0" : tensor<2xf32>) { ... }

``none`` marks an empty operand or result slot. The generic MLIR form is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD, OPERAND_SEGMENTS, REGIONS, RESULT_SEGMENTS

if TYPE_CHECKING:
    from pirkit.dialect.operation import PirOp, ProgramOp

T = TypeVar("T")


def parse_op(cls: type[PirOp], parser: Parser, create: Callable[..., Operation]) -> Operation:
    """Read everything after the op's name; ``create`` is `pirkit.dialect.operation.create`."""
    definition = cls.definition
    start = parser.pos
    unresolved = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _slot(parser, parser.parse_unresolved_operand)
    )
    entries = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _slot(parser, parser.parse_type)
    )
    parser.parse_punctuation("->")
    results = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _slot(parser, parser.parse_type)
    )
    if results is None:
        results = [_slot(parser, parser.parse_type)]
    if len(types) != len(unresolved):
        parser.raise_error(
            f"{len(unresolved)} operands but {len(types)} operand types", start, parser.pos
        )
    operands: list[SSAValue | None] = []
    for name, type_ in zip(unresolved, types, strict=True):
        if (name is None) != (type_ is None):
            parser.raise_error("an operand and its type must both be `none`", start, parser.pos)
        operands.append(
            None if name is None or type_ is None else parser.resolve_operand(name, type_)
        )
    if definition.signature.has_absent_operands:
        operands += [None] * (len(definition.operands) - len(operands))
    regions: list[Region] = []
    for index in range(REGIONS.get(definition.name, 0)):
        if index:
            parser.parse_keyword("else")
        regions.append(parser.parse_region())
    declared = definition.attr_kinds
    return create(
        definition,
        operands,
        results,
        {k: v for k, v in entries.items() if k in declared or k == ARG_ATTRS},
        {k: v for k, v in entries.items() if k not in declared and k != ARG_ATTRS},
        regions=regions,
    )


def _slot(parser: Parser, parse: Callable[[], T]) -> T | None:
    if parser.parse_optional_keyword("none") is not None:
        return None
    return parse()


def print_op(op: PirOp, printer: Printer) -> None:
    """Write everything after the op's name."""
    operands = list(op.operand_slots)
    if op.definition.signature.has_absent_operands:
        while operands and operands[-1] is None:
            operands.pop()
    printer.print_string("(")
    printer.print_list(operands, lambda v: _print_slot(printer, v, printer.print_ssa_value))
    printer.print_string(")")
    entries = {
        k: v for k, v in op.properties.items() if k not in (OPERAND_SEGMENTS, RESULT_SEGMENTS)
    }
    entries.update(op.attributes)
    if entries:
        printer.print_string(" ")
        printer.print_attr_dict(entries)
    printer.print_string(" : (")
    printer.print_list(
        [None if v is None else v.type for v in operands],
        lambda t: _print_slot(printer, t, printer.print_attribute),
    )
    printer.print_string(") -> ")
    results = [None if r is None else r.type for r in op.result_slots]
    single = len(results) == 1 and results[0] is not None
    printer.print_string("" if single else "(")
    printer.print_list(results, lambda t: _print_slot(printer, t, printer.print_attribute))
    printer.print_string("" if single else ")")
    for index, region in enumerate(op.regions):
        printer.print_string(" else " if index else " ")
        printer.print_region(region, print_empty_block=False)


def _print_slot(printer: Printer, item: T | None, write: Callable[[T], Any]) -> None:
    if item is None:
        printer.print_string("none")
    else:
        write(item)


def parse_program(cls: type[Operation], parser: Parser) -> Operation:
    """Read a program after the word ``pir.program``."""
    symbol = parser.parse_symbol_name()
    arg_attrs: list[Attribute] = []

    def argument() -> Parser.Argument:
        name = parser.parse_unresolved_operand()
        keyword = parser.parse_str_literal()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        entries: Mapping[str, Attribute] = parser.parse_optional_attr_dict()
        arg_attrs.append(mlir.DictionaryAttr({KEYWORD: mlir.StringAttr(keyword), **entries}))
        return parser.Argument(name.span, type_)

    arguments: Sequence[Parser.Argument] = (
        parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, argument) or ()
    )
    attributes = parser.parse_optional_attr_dict_with_keyword()
    region = parser.parse_region(arguments)
    if not region.blocks:
        region.add_block(Block())
    properties: dict[str, Attribute] = {"sym_name": symbol}
    if arg_attrs:
        properties[ARG_ATTRS] = mlir.ArrayAttr(arg_attrs)
    return cls.create(
        properties=properties,
        attributes=attributes.data if attributes is not None else {},
        regions=[region],
    )


def print_program(program: ProgramOp, printer: Printer) -> None:
    """Write a program after the word ``pir.program``."""
    printer.print_string(" ")
    printer.print_symbol_name(program.symbol)
    args = program.block.args
    if args:
        printer.print_string("(")

        def argument(pair: tuple[SSAValue, mlir.DictionaryAttr]) -> None:
            value, entries = pair
            printer.print_ssa_value(value)
            printer.print_string(" ")
            printer.print_string_literal(cast(mlir.StringAttr, entries.data[KEYWORD]).data)
            printer.print_string(" : ")
            printer.print_attribute(value.type)
            rest = {k: v for k, v in entries.data.items() if k != KEYWORD}
            if rest:
                printer.print_string(" ")
                printer.print_attr_dict(rest)

        printer.print_list(list(zip(args, program.arg_attrs, strict=True)), argument)
        printer.print_string(")")
    if program.attributes:
        printer.print_string(" attributes ")
        printer.print_attr_dict(program.attributes)
    printer.print_string(" ")
    printer.print_region(program.regions[0], print_entry_block_args=False, print_empty_block=False)
