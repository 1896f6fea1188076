"""Shared parts of the operations of dialect ``map_expr``: text of operands, indices, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, DictionaryAttr, IndexType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import BaseAttr
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pirkit.dialect.map_expr.affine import IndexParser, show

INDEX: Final = IndexType()
EMPTY: Final = DictionaryAttr({})
TENSOR: Final = BaseAttr(mlir.TensorType)


def parse_index(parser: Parser) -> tuple[AffineMapAttr, list[SSAValue]]:
    """``[%i0 * 2 + %k, s0 - 1]``: a map, and the values of its dimensions."""
    found, spans = index_parser(parser).indices()
    return found, [parser.resolve_operand(UnresolvedOperand(s, 0), INDEX) for s in spans]


def parse_sizes(parser: Parser) -> AffineMapAttr:
    """``[4, s0 * 2]``."""
    return index_parser(parser).sizes()


def index_parser(parser: Parser) -> IndexParser:
    """A parser of indices at the place where this one is."""
    return IndexParser(parser._parser_state)  # pyright: ignore[reportPrivateUsage]


def print_index(printer: Printer, index: AffineMapAttr, dims: Sequence[SSAValue] = ()) -> None:
    """The inverse of `parse_index` and `parse_sizes`."""
    names = [f"%{printer._ssa_values[v]}" for v in dims]  # pyright: ignore[reportPrivateUsage]
    printer.print_string(f"[{', '.join(show(e, names) for e in index.data.results)}]")


def parse_attrs(parser: Parser) -> DictionaryAttr:
    """The attributes in braces, if there are any."""
    return DictionaryAttr(parser.parse_optional_attr_dict())


def print_attrs(printer: Printer, attrs: DictionaryAttr) -> None:
    """The inverse of `parse_attrs`."""
    if attrs.data:
        printer.print_string(" ")
        printer.print_attr_dict(attrs.data)


def parse_value(parser: Parser) -> SSAValue:
    """An operand that is defined above, of the type of its definition."""
    name = parser.parse_unresolved_operand()
    known = parser.ssa_values.get(name.operand_name)
    if known is None:
        parser.raise_error(f"%{name.operand_name} is not defined", name.span.start)
    return parser.resolve_operand(name, known[name.index].type)


def parse_type(parser: Parser) -> Attribute:
    """``: f32``."""
    parser.parse_punctuation(":")
    return parser.parse_type()


def print_type(printer: Printer, type_: Attribute) -> None:
    """The inverse of `parse_type`."""
    printer.print_string(" : ")
    printer.print_attribute(type_)


def require(holds: bool, message: str) -> None:
    """Raise xDSL's VerifyException with the message if something does not hold."""
    if not holds:
        raise VerifyException(message)


def check_index(index: AffineMapAttr, dims: Sequence[SSAValue], what: str, rank: int) -> None:
    """Require that a map has a dimension for each operand, and a result for each axis."""
    known, found = index.data.num_dims, len(index.data.results)
    require(known == len(dims), f"{what}: a map of {known} dimensions has {len(dims)} operands")
    require(found == rank, f"{what}: {found} indices for {rank} axes")


def element_of(tensor: SSAValue) -> Attribute:
    """The element type of a tensor."""
    return cast("mlir.TensorType[Attribute]", tensor.type).element_type


def rank_of(tensor: SSAValue) -> int:
    """The number of axes of a tensor."""
    return cast("mlir.TensorType[Attribute]", tensor.type).get_num_dims()
