"""The operation `pir.map_expr`: a fused kernel in a program, with its region.

Rules, plans and caches take the kernel by its text, as the attribute ``kernel``. It is derived from
the region, and derived again only after something in the region has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from operator import is_
from typing import Any, ClassVar, Final, Self, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import AffineMapAttr, StringAttr
from xdsl.ir import Attribute, Block, OpTraits, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.utils.exceptions import VerifyException

from pirkit.diag.errors import ConstraintError
from pirkit.dialect import assembly
from pirkit.dialect.map_expr.affine import sizes_map
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_ops import StatementOp
from pirkit.dialect.map_expr.kernel_syntax import parse_sizes, print_index
from pirkit.dialect.map_expr.kernel_text import known_kernel, print_kernel, remember
from pirkit.dialect.map_expr.region_reader import kernel_of
from pirkit.dialect.map_expr.region_writer import region_of
from pirkit.dialect.op_form import STRUCTURAL
from pirkit.dialect.operation import PirOp, class_named

NAME: Final = "pir.map_expr"
KERNEL: Final = "kernel"
_SYMBOL: Final = "sym_name"
_LOOPS: Final = "loops"
_EXCESS: Final = "excess_precision"

LAZY_COPIES: Final = ContextVar("LAZY_COPIES", default=False)
"""Whether copies of programs leave regions of kernels unwritten."""


class KernelOp(PirOp):
    """Operands are the inputs of the kernel; its region has operations of dialect ``map_expr``."""

    traits = OpTraits(lambda: (IsolatedFromAbove(), Pure()))
    is_kernel: ClassVar[bool] = True
    form: ClassVar[frozenset[str]] = STRUCTURAL | {_SYMBOL, _LOOPS, _EXCESS}
    _regions: tuple[Region, ...] = ()
    _lazy: tuple[MapExpr, mlir.LocationAttr | None] | None = None
    """The kernel and location of an op whose region has not been needed yet."""
    _derived: tuple[list[Any], MapExpr, StringAttr] | None = None
    """The op's state when the kernel was derived from it, the kernel, and its text."""

    def replace_kernel(self, kernel: MapExpr) -> None:
        """Replace the kernel by one with the same inputs and results."""
        for region in self.regions:
            self.detach_region(region).erase()
        for name in self.form - STRUCTURAL:
            self.properties.pop(name, None)
        self.properties |= _header(kernel)
        self._set(kernel, print_kernel(kernel), self.location)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The region, written when it is first looked at, as MLIR's bytecode reader does it: most
        kernels go from fusion to native code, which read the tree.
        """
        if self._lazy is not None:
            kernel, location = self._lazy
            self._lazy = None
            self.add_region(region_of(kernel, location))
            if self._derived is not None:
                self._derived = (self._content(), *self._derived[1:])
        return self._regions

    @regions.setter
    def regions(self, value: tuple[Region, ...]) -> None:  # pyright: ignore
        self._regions = value

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = {},
        attributes: Mapping[str, Attribute] = {},
        location: mlir.LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """Create the operation as xDSL does; a property ``kernel``, its text, replaces the region.

        Raises ConstraintError (C1) if the text is not that of a kernel.
        """
        held = dict(properties)
        text, kernel = held.get(KERNEL), None
        if isinstance(text, StringAttr) and not regions:
            del held[KERNEL]
            kernel = known_kernel(text.data)
            held |= _header(kernel)
        op = super().create(
            operands=operands,
            result_types=result_types,
            properties=held,
            attributes=attributes,
            location=location,
            successors=successors,
            regions=regions,
        )
        if kernel is not None:
            op._set(kernel, print_kernel(kernel), None)
        return op

    def _set(self, kernel: MapExpr, text: str, location: mlir.LocationAttr | None) -> None:
        self._lazy = kernel, location
        self._derived = (self._content(), kernel, StringAttr(text))

    @classmethod
    def of(
        cls,
        kernel: MapExpr,
        text: str,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        location: mlir.LocationAttr | None,
    ) -> KernelOp:
        """The operation of a kernel whose text is ``text``."""
        op = cast("type[KernelOp]", class_named(NAME)).create(
            operands=operands,
            result_types=result_types,
            properties=_header(kernel),
            location=location,
        )
        op._set(kernel, text, location)
        return op

    def clone(
        self,
        value_mapper: dict[SSAValue, SSAValue] | None = None,
        block_mapper: dict[Block, Block] | None = None,
        *,
        clone_name_hints: bool = True,
        clone_operands: bool = True,
    ) -> Self:
        """Clone the operation as xDSL does; operands inside of the region are those of the copy.

        xDSL's clone of a region sets the operands of all ops inside of it at the end, by the values
        that it met, so that regions which are not written yet have to be; `LAZY_COPIES` says that
        whoever clones sets the operands of program ops alone.
        """
        values = {} if value_mapper is None else value_mapper
        if not clone_operands and not LAZY_COPIES.get():
            _ = self.regions
        lazy, self._lazy = self._lazy, None
        op = self.clone_without_regions(
            values, block_mapper, clone_name_hints=clone_name_hints, clone_operands=clone_operands
        )
        self._lazy = op._lazy = lazy
        for region, copy in zip(self._regions, op._regions, strict=True):
            region.clone_into(copy, 0, values, block_mapper, clone_name_hints=clone_name_hints)
        if self._is_current():
            op._derived = (op._content(), *cast(Any, self._derived)[1:])
        return op

    @property
    def kernel(self) -> MapExpr:
        """The kernel of the region. Raises ConstraintError (C1) if it is none."""
        return self._known()[0]

    def attribute(self, name: str) -> Any:
        return self._known()[1].data if name == KERNEL else super().attribute(name)

    def attribute_values(self) -> dict[str, Any]:
        return {KERNEL: self.attribute(KERNEL)}

    @property
    def call_properties(self) -> Mapping[str, Attribute]:
        return {KERNEL: self._known()[1]}

    def _known(self) -> tuple[MapExpr, StringAttr]:
        if not self._is_current():
            found = self._read()
            printed = print_kernel(found)
            remember(printed, found)
            self._derived = self._content(), found, StringAttr(printed)
        _, kernel, text = cast("tuple[list[Any], MapExpr, StringAttr]", self._derived)
        return kernel, text

    def _is_current(self) -> bool:
        """True if nothing has changed since the kernel was derived."""
        if self._derived is None:
            return False
        content, known = self._content(), self._derived[0]
        return len(content) == len(known) and all(map(is_, content, known))

    def _content(self) -> list[Any]:
        """All objects on which the kernel depends: operations, operands, types and properties.

        Attributes are immutable, so that the same objects in the same order are the same kernel;
        holding them keeps their identities from being used again.
        """
        found: list[Any] = [*self.properties.values()]
        for region in () if self._lazy is not None else self._regions:
            for block in region.blocks:
                found += [a.type for a in block.args]
                _add_content(block, found)
        return found

    def _read(self) -> MapExpr:
        held = self.properties
        name, loops = held.get(_SYMBOL), held.get(_LOOPS)
        if not isinstance(name, StringAttr) or not isinstance(loops, AffineMapAttr | None):
            raise ConstraintError("C1", "a kernel has a name, and `loops` that are sizes")
        try:
            (region,) = self.regions
            for op in region.walk():
                op.verify(verify_nested_ops=False)
            return kernel_of(name.data, loops, region, excess=_EXCESS in held)
        except (VerifyException, ValueError) as error:
            raise ConstraintError("C1", f"the region is no kernel: {error}") from error

    @classmethod
    def parse(cls, parser: Parser) -> PirOp:
        name = parser.parse_optional_symbol_name()
        if name is None:  # the text of the kernel as an attribute
            return super().parse(parser)
        start = parser.pos
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        held: dict[str, Attribute] = {_SYMBOL: name}
        if parser.parse_optional_keyword(_LOOPS):
            held[_LOOPS] = parse_sizes(parser)
        if parser.parse_optional_keyword(_EXCESS):
            held[_EXCESS] = mlir.UnitAttr()
        attributes = parser.parse_optional_attr_dict()
        values, types = assembly.parse_types(parser, operands, start)
        return cls.create(
            operands=cast("list[SSAValue]", values),
            result_types=cast("list[Attribute]", types),
            properties=held,
            attributes=attributes,
            regions=[parser.parse_region()],
        )

    def print(self, printer: Printer) -> None:
        held = self.properties
        printer.print_string(" ")
        printer.print_symbol_name(cast(StringAttr, held[_SYMBOL]).data)
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        if _LOOPS in held:
            printer.print_string(f" {_LOOPS} ")
            print_index(printer, cast(AffineMapAttr, held[_LOOPS]))
        printer.print_string(f" {_EXCESS}" if _EXCESS in held else "")
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        assembly.print_types(printer, self.operands, self.results)
        printer.print_string(" ")
        printer.print_region(self.regions[0])


def _header(kernel: MapExpr) -> dict[str, Attribute]:
    """The properties of the operation: what a kernel has besides its region."""
    held: dict[str, Attribute] = {_SYMBOL: StringAttr(kernel.name)}
    if kernel.rows:
        held[_LOOPS] = sizes_map(kernel.rows)
    if kernel.excess:
        held[_EXCESS] = mlir.UnitAttr()
    return held


def _add_content(block: Block, found: list[Any]) -> None:
    for op in block.ops:
        found.append(op)
        found += op._operands  # pyright: ignore[reportPrivateUsage]
        found += op.properties.values()
        found += [r.type for r in op.results]
        if isinstance(op, StatementOp):
            for inner in op.body.blocks:
                found += inner.args
                _add_content(inner, found)
