"""The IR operations: one xDSL class per declared op, created at its first use.

Operands and results of an op are *slots*, in the order of its signature. A slot may be empty (an
absent optional operand, a gradient that is not needed); ops whose signature allows that record
which slots are filled in ``operandSegmentSizes`` and ``resultSegmentSizes``, as in MLIR. Declared
attributes are MLIR properties; all others (``stop_gradient``, ``struct_name``) are discardable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, TypeGuard, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, OpTraits, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface

from pirkit.diag.span import Span, lines_of
from pirkit.dialect import assembly
from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD, OPERAND_SEGMENTS, RESULT_SEGMENTS, STRUCTURAL
from pirkit.dialect.opdef import PURE, OpDef, find, lookup
from pirkit.dialect.signature import REQUIRED

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')


@lru_cache(maxsize=4096)
def _segments(filled: tuple[bool, ...]) -> Attribute:
    return mlir.DenseArrayBase.from_list(mlir.i32, [int(f) for f in filled])


_FILLED: Final[dict[int, tuple[Attribute, tuple[bool, ...]]]] = {}
_FILLED_LIMIT: Final = 4096


def _filled(sizes: Attribute) -> tuple[bool, ...]:
    """Which slots have values; an id costs less than the hash of an attribute."""
    held = _FILLED.get(id(sizes))
    if held is None:
        if len(_FILLED) >= _FILLED_LIMIT:
            _FILLED.clear()
        values = cast("mlir.DenseArrayBase[Any]", sizes).get_values()
        # the attribute lives while its id is a key
        held = _FILLED[id(sizes)] = (sizes, tuple([bool(v) for v in values]))
    return held[1]


def declares(op: object, trait: str) -> TypeGuard[PirOp]:
    """True if the record of an operation has the trait (see :mod:`pirkit.dialect.kinds`)."""
    # `isinstance` asks the abstract base class of xDSL, which takes longer than all the rest
    definition = getattr(op, "definition", None)
    return definition is not None and trait in definition.traits


def host_name(op: PirOp) -> str:
    """The name by which the host knows the value of an op that is a source or sink."""
    return op.attribute(op.definition.host_name)


class PirOp(Operation):
    """An operation of dialect ``pir`` or ``pd_op``."""

    name: ClassVar[str] = "pir.op"
    definition: ClassVar[OpDef]
    is_kernel: ClassVar[bool] = False
    """True if its region is a fused kernel, whose operations are of dialect ``map_expr``."""
    form: ClassVar[frozenset[str]] = STRUCTURAL
    """Properties that describe the form of the op, not its meaning."""
    traits = OpTraits(lambda: ())

    @property
    def operand_slots(self) -> tuple[SSAValue | None, ...]:
        """Operands by slot, None where a slot is empty; a variadic slot is spread at the end."""
        return self._slots(OPERAND_SEGMENTS, tuple(self._operands))

    @property
    def result_slots(self) -> tuple[OpResult | None, ...]:
        """Results by slot, None where a slot is empty."""
        return self._slots(RESULT_SEGMENTS, tuple(self.results))

    def _slots(self, key: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        sizes = self.properties.get(key)
        if sizes is None:
            return values
        filled = _filled(sizes)
        if len(filled) == len(values) and False not in filled:
            return values
        it = iter(values)
        return tuple([next(it, None) if has_value else None for has_value in filled])

    def operand_named(self, name: str) -> SSAValue | None:
        """The operand in the slot of that name, or None if it is empty."""
        for slot, value in zip(self.definition.operands, self.operand_slots, strict=False):
            if slot.name == name:
                return value
        raise KeyError(f"{self.name} has no operand {name!r}")

    def result_named(self, name: str) -> OpResult | None:
        """The result in the slot of that name, or None if it is empty."""
        for slot, value in zip(self.definition.results, self.result_slots, strict=False):
            if slot.name == name:
                return value
        raise KeyError(f"{self.name} has no result {name!r}")

    def attribute(self, name: str) -> Any:
        """The Python value of a declared attribute, its default if it is not set.

        Raises KeyError if it is neither set nor has a default.
        """
        held = self.properties.get(name)
        kind = self.definition.attr_kinds[name]
        if held is not None:
            return decode(kind, held)
        default = _default_of(self.definition, name)
        if default is None:
            raise KeyError(f"{self.name} has no attribute {name!r}")
        return decode(kind, default)

    def attribute_values(self) -> dict[str, Any]:
        """Python values of all declared attributes, defaults filled in."""
        return {
            a.name: self.attribute(a.name)
            for a in self.definition.attrs
            if a.name in self.properties or a.default is not REQUIRED
        }

    @property
    def call_properties(self) -> Mapping[str, Attribute]:
        """The properties that the rules of the op get."""
        return self.properties

    @property
    def stop_gradient(self) -> tuple[bool, ...]:
        """Per result slot: True if no gradient flows through it. Empty if not stated."""
        held = self.attributes.get("stop_gradient") or self.properties.get("stop_gradient")
        return decode("bool[]", held) if held is not None else ()

    @property
    def arg_attrs(self) -> tuple[mlir.DictionaryAttr, ...]:
        """Attributes of the block arguments of the first region, in order."""
        return _arg_attrs(self)

    def verify_(self) -> None:
        from pirkit.dialect.verify_op import verify_op_for_xdsl  # noqa: PLC0415  room-internal cycle

        verify_op_for_xdsl(self)

    @classmethod
    def parse(cls, parser: Parser) -> PirOp:
        return cast(PirOp, assembly.parse_op(cls, parser, create))

    def print(self, printer: Printer) -> None:
        assembly.print_op(self, printer)


class ProgramOp(Operation):
    """A program: one block of operations under a name.

    Arguments of the block are its keyword inputs (Paddle's ``^kw``), each with a ``keyword`` in
    ``arg_attrs``. Other inputs are ``pd_op.data`` and ``pir.parameter`` ops inside.
    """

    name: ClassVar[str] = "pir.program"
    traits = OpTraits(lambda: (IsolatedFromAbove(), NoTerminator(), SymbolOpInterface()))

    @classmethod
    def build(
        cls,
        name: str,
        arg_types: Sequence[Attribute] = (),
        arg_attrs: Sequence[Mapping[str, Attribute]] = (),
    ) -> ProgramOp:
        """An empty program of that name."""
        properties: dict[str, Attribute] = {"sym_name": mlir.StringAttr(name)}
        if arg_types:
            properties[ARG_ATTRS] = mlir.ArrayAttr([mlir.DictionaryAttr(d) for d in arg_attrs])
        return cls.create(properties=properties, regions=[Region(Block(arg_types=arg_types))])

    @property
    def symbol(self) -> str:
        return cast(mlir.StringAttr, self.properties["sym_name"]).data

    @property
    def block(self) -> Block:
        return self.regions[0].block

    @property
    def arg_attrs(self) -> tuple[mlir.DictionaryAttr, ...]:
        return _arg_attrs(self)

    @property
    def keywords(self) -> tuple[str, ...]:
        """Keyword of each block argument."""
        return tuple(cast(mlir.StringAttr, d.data[KEYWORD]).data for d in self.arg_attrs)

    @property
    def operations(self) -> Iterator[PirOp]:
        """The top-level operations in order."""
        return cast("Iterator[PirOp]", iter(self.block.ops))

    def verify_(self) -> None:
        from pirkit.dialect.verify import verify_program_for_xdsl  # noqa: PLC0415

        verify_program_for_xdsl(self)

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        return cast(ProgramOp, assembly.parse_program(cls, parser))

    def print(self, printer: Printer) -> None:
        assembly.print_program(self, printer)


def _arg_attrs(op: Operation) -> tuple[mlir.DictionaryAttr, ...]:
    held = op.properties.get(ARG_ATTRS)
    return tuple(cast("mlir.ArrayAttr[mlir.DictionaryAttr]", held)) if held is not None else ()


class _Terminator(PirOp):
    traits = OpTraits(lambda: (IsTerminator(),))


class _PureOp(PirOp):
    traits = OpTraits(lambda: (Pure(),))


BASES: Final[dict[str, type[PirOp]]] = {}
"""Base classes of ops that have code of their own, by name."""
_CLASSES: Final[dict[str, type[PirOp]]] = {}


def class_of(definition: OpDef) -> type[PirOp]:
    """The xDSL operation class of a declared op; cached."""
    found = _CLASSES.get(definition.name)
    if found is None:
        base = _PureOp if definition.effects == PURE and not definition.writes else PirOp
        base = _Terminator if definition.name == "pir.yield" else base
        base = BASES.get(definition.name, base)
        camel = "".join(p.title() for p in definition.name.partition(".")[2].split("_"))
        body = {"name": definition.name, "definition": definition, "__doc__": definition.doc}
        made = cast("type[PirOp]", type(f"{camel}Op", (base,), body))
        found = _CLASSES.setdefault(definition.name, made)
    return found


def class_named(name: str) -> type[PirOp] | None:
    """The xDSL class of the op of that full name, or None if it is not declared."""
    found = _CLASSES.get(name)
    if found is not None:
        return found
    definition = find(name)
    return class_of(definition) if definition is not None else None


def create(
    definition: OpDef | str,
    operands: Sequence[SSAValue | None] = (),
    result_types: Sequence[Attribute | None] = (),
    properties: Mapping[str, Attribute] | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    location: mlir.LocationAttr | None = None,
    regions: Sequence[Region] = (),
) -> PirOp:
    """Create an operation from its slots; None for an empty operand or result slot."""
    if isinstance(definition, str):
        definition = lookup(definition)
    cls = _CLASSES.get(definition.name) or class_of(definition)
    signature = definition.signature
    held = dict(properties) if properties else {}
    if signature.has_absent_operands:
        held[OPERAND_SEGMENTS] = _segments(tuple([o is not None for o in operands]))
        operands = [o for o in operands if o is not None]
    if signature.has_absent_results and (None in result_types or not signature.unpacks_results):
        held[RESULT_SEGMENTS] = _segments(tuple([t is not None for t in result_types]))
        result_types = [t for t in result_types if t is not None]
    return cls.create(
        operands=cast("Sequence[SSAValue]", operands),
        result_types=cast("Sequence[Attribute]", result_types),
        properties=held,
        attributes=attributes or {},
        location=location,
        regions=regions,
    )


def make(
    definition: OpDef | str,
    operands: Sequence[SSAValue | None] = (),
    attrs: Mapping[str, Any] | None = None,
    *,
    attributes: Mapping[str, Attribute] | None = None,
    location: mlir.LocationAttr | None = None,
) -> PirOp:
    """Create an operation from Python attribute values, with result types from ``infer_meta``.

    Raises ConstraintError if the op's constraints do not hold.
    """
    from pirkit.dialect.infer import infer_result_types  # noqa: PLC0415  room-internal cycle

    if isinstance(definition, str):
        definition = lookup(definition)
    slots = (*operands, *(None for _ in range(len(definition.operands) - len(operands))))
    properties = {
        name: encode(definition.attr_kinds[name], value) for name, value in (attrs or {}).items()
    }
    types = infer_result_types(definition, slots, properties)
    return create(definition, slots, types, properties, attributes, location)


@cache
def _default_of(definition: OpDef, name: str) -> Attribute | None:
    """The default of an attribute of an op; None if it has to be set."""
    slots = (*definition.attrs, *definition.operands)
    default = next(slot.default for slot in slots if slot.name == name)
    return None if default is REQUIRED else encode(definition.attr_kinds[name], default)


def bodies(op: Operation) -> Sequence[Region]:
    """The regions of an op that hold operations of the program; a kernel has none."""
    return () if getattr(op, "is_kernel", False) else op.regions


def with_nested(op: Operation) -> Iterator[Operation]:
    """An operation and those of the program in its regions, in the order of the text."""
    yield op
    for region in bodies(op):
        for block in region.blocks:
            for inner in block.ops:
                yield from with_nested(inner)


def span_of(op: Operation) -> Span | None:
    """The place where the op was read or traced: the first one of a fused op; None if unknown."""
    return next(iter(spans_of(op)), None)


def spans_of(op: Operation) -> list[Span]:
    """All places of the op: of one that stands for several, those of all of them."""
    places = [p for p in _places(op.location) if isinstance(p, mlir.FileLineColLoc)]
    return [Span(p.filename.data, p.line.data, p.column.data) for p in places]


def _places(location: Attribute) -> Iterator[Attribute]:
    if not isinstance(location, mlir.FusedLoc):
        yield location
        return
    for inner in cast("mlir.ArrayAttr[Attribute]", location.locations):
        yield from _places(inner)


def fused_location(ops: Sequence[Operation]) -> mlir.LocationAttr:
    """The location of an op that stands for several: that of the last one, then the others."""
    every = dict.fromkeys(p for op in (ops[-1], *ops) for p in _places(op.location))
    known = [p for p in every if isinstance(p, mlir.FileLineColLoc)]
    if len(known) < 2:
        return known[0] if known else ops[-1].location
    return mlir.FusedLoc(tuple(known), mlir.NoneAttr())


def origin_of(op: Operation) -> tuple[str, ...]:
    """Notes on where the user wrote the op: the line of the model, and the layer.

    They come from Paddle's ``op_callstack`` and ``struct_name``, where a program has them. An op
    that stands for several names their lines.
    """
    notes: list[str] = []
    if isinstance(op.location, mlir.FusedLoc):
        notes.append(f"fused from {lines_of(spans_of(op))}")
    stack = op.attributes.get("op_callstack")
    if isinstance(stack, mlir.ArrayAttr):
        lines = [
            a.data
            for a in cast("mlir.ArrayAttr[Attribute]", stack)
            if isinstance(a, mlir.StringAttr)
        ]
        frames = [i for i, line in enumerate(lines) if _FRAME.search(line)]
        for i in frames[-1:]:
            place = _FRAME.sub(r"\1:\2", lines[i].strip())
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            notes.append(f"traced from {place}: {code}".rstrip(": "))
    layer = op.attributes.get("struct_name")
    if isinstance(layer, mlir.StringAttr):
        notes.append(f"in layer `{layer.data}`")
    return tuple(notes)


def location_of(file: str, line: int, column: int = 0) -> mlir.LocationAttr:
    """A location for ops read from a file."""
    return mlir.FileLineColLoc(mlir.StringAttr(file), mlir.IntAttr(line), mlir.IntAttr(column))


def describe(value: SSAValue) -> str:
    """How messages name a value: by its name hint, or by the op that defines it."""
    if value.name_hint:
        return f"%{value.name_hint}"
    if isinstance(value, BlockArgument):
        return f"argument {value.index}"
    if not isinstance(value, OpResult):
        return "a value without a definition"
    return f"result {value.index} of `{value.owner.name}`"
