"""Reads the text that Paddle prints for a program.

`text_lines` splits the text into records, one for each operation; here they become operations. That
takes two passes, because the text has no types for keyword arguments, loop arguments and loop
results; they are inferred from the operations that use them. Attribute lists and type lists repeat,
so each distinct text is parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Region, SSAValue

from pirkit.diag.errors import ParseError, PirkitError
from pirkit.diag.gc_pause import uncollected
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.attrs import DISCARDABLE
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD, REGIONS
from pirkit.dialect.opdef import OpDef, dialect_names, lookup
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import OPAQUE, meta_of
from pirkit.frontend.paddle.spelling import NULL_VALUE, read_attributes, read_types
from pirkit.frontend.paddle.text_lines import Dump, Lines, Loop, Record
from pirkit.runtime.meta import compatible

ID: Final = "pir.id"
"""Discardable attribute that keeps the ``[id:N]`` of a verbose dump."""


@uncollected
def read_paddle_text(text: str, file: str = "<text>", outputs: Sequence[str] = ()) -> mlir.ModuleOp:
    """Read one or several programs that follow each other.

    The first becomes ``@main``, further ones ``@main_1``... The result is not verified.
    ``outputs`` are values of the first program, as in ``%10``: they become ``output_0``...
    Raises ParseError, UnsupportedError or LimitError with the location in the text.
    """
    programs = _Reader(text, file, outputs).programs()
    return mlir.ModuleOp(cast(Any, programs))


class _Reader:
    """State shared by all programs of a file: its lines, and parsed texts."""

    def __init__(self, text: str, file: str, outputs: Sequence[str]) -> None:
        self.outputs = outputs
        self.lines = Lines(text, file)
        self.attr_cache: dict[tuple[str, str], tuple[dict[str, Attribute], ...]] = {}
        self.definitions: dict[str, OpDef] = {}
        self.file = file
        self.file_attr = mlir.StringAttr(file)

    def programs(self) -> list[ProgramOp]:
        dumps = enumerate(self.lines.dumps())
        return [self._build(f"main_{i}" if i else "main", dump) for i, dump in dumps]

    def _build(self, name: str, dump: Dump) -> ProgramOp:
        check("ops", len(dump.records), Span(self.file))
        declared = self._declared_types(dump)
        arg_types: list[Attribute] = []
        arg_attrs: list[Mapping[str, Attribute]] = []
        for argument in dump.arguments:
            arg_types.append(declared.get(argument.name) or OPAQUE)
            entries = self.attributes(argument.line, "", argument.attrs)[1]
            keyword = argument.name.removeprefix("%kwarg_")
            arg_attrs.append({KEYWORD: mlir.StringAttr(keyword), **entries})
        program = ProgramOp.build(name, arg_types, arg_attrs)
        program.location = mlir.FileLineColLoc(self.file_attr, mlir.IntAttr(1), mlir.IntAttr(1))
        values: dict[str, SSAValue] = {}
        for argument, value in zip(dump.arguments, program.block.args, strict=True):
            self.define(values, argument.name, value, argument.line)
        _Builder(self, declared, values).run(program.block, dump)
        if name == "main":
            for index, wanted in enumerate(self.outputs):
                self._name_output(program.block, index, wanted, values)
        return program

    def _name_output(
        self, block: Block, index: int, wanted: str, values: Mapping[str, SSAValue]
    ) -> None:
        value = values.get(wanted)
        if value is None or value.owner not in (block, *block.ops):
            raise ParseError(
                f"there is no value {wanted} at the top of the program",
                code="PK0103",
                span=Span(self.file),
                help=f"the last one is {list(values)[-1]}" if values else None,
            )
        named = {"output_name": mlir.StringAttr(f"output_{index}")}
        block.add_op(create("pir.shadow_output", [value], [], named))

    def _declared_types(self, dump: Dump) -> dict[str, Attribute]:
        """Types of arguments and loop results, from the operations that use them."""
        declared: dict[str, Attribute] = {}
        loop_results: set[str] = set()
        links: list[tuple[str, str]] = []
        for record, after in pairwise([*dump.records, None]):
            if not isinstance(record, Record):
                continue
            if record.name == "pd_op.while":
                loop_results.update(record.results)
                names = [a.name for a in after.arguments] if isinstance(after, Loop) else []
                links += zip(names, record.operands[1:], strict=False)
                links += zip(record.results, names, strict=False)
            if record.types is None:
                continue
            for position, used in enumerate(record.operands):
                if (used.startswith(("%kwarg", "%arg")) or used in loop_results) and (
                    used not in declared
                ):
                    types = self.types(record.line, record.types)
                    type_ = types[position] if position < len(types) else None
                    if type_ is not None:
                        declared[used] = type_
        _propagate(declared, links)
        return declared

    def types(self, line: int, text: str) -> tuple[Attribute | None, ...]:
        try:
            return read_types(text)
        except PirkitError as error:
            error.span = self.lines.whole(line)
            raise

    def attributes(self, line: int, name: str, text: str) -> tuple[dict[str, Attribute], ...]:
        """Declared and discardable attributes of the op of that name."""
        found = self.attr_cache.get((name, text))
        if found is not None:
            return found
        kinds: Mapping[str, str] = self.definitions[name].attr_kinds if name else {}
        try:
            entries = read_attributes(text, {**DISCARDABLE, **kinds} if name else {})
        except PirkitError as error:
            error.span = self.lines.whole(line)
            raise
        found = (
            {k: v for k, v in entries.items() if k in kinds},
            {k: v for k, v in entries.items() if k not in kinds},
        )
        self.attr_cache[name, text] = found
        return found

    def definition(self, record: Record) -> OpDef:
        found = self.definitions.get(record.name)
        if found is None:
            try:
                found = lookup(record.name)
            except PirkitError as error:
                error.span = self.lines.find(record.line, f'"{record.name}"')
                dialect = record.name.partition(".")[0]
                if dialect not in dialect_names():
                    error.code = "PK0404"
                    error.message = f"unknown dialect `{dialect}`"
                raise
            self.definitions[record.name] = found
        return found

    def define(self, values: dict[str, SSAValue], name: str, value: SSAValue, line: int) -> None:
        if name in values:
            span = self.lines.find(line, name)
            raise ParseError(f"{name} is defined twice", code="PK0104", span=span)
        values[name] = value


class _Builder:
    """Builds the operations of one program, with an explicit stack instead of recursion."""

    def __init__(
        self, reader: _Reader, declared: dict[str, Attribute], values: dict[str, SSAValue]
    ) -> None:
        self.reader = reader
        self.lines = reader.lines
        self.declared = declared
        self.values = values

    def run(self, block: Block, dump: Dump) -> None:
        open_ops: list[tuple[PirOp, Record, Block]] = []
        for record in dump.records:
            if isinstance(record, Record):
                op = self._op(record)
                block.add_op(op)
                if record.opens:
                    open_ops.append((op, record, block))
                    block = op.regions[0].block
                else:
                    self._define_results(op, record)
                continue
            if not open_ops:
                what = "block arguments" if isinstance(record, Loop) else "the end of a block"
                self.lines.fail(record.line, f"{what} outside a region")
            op, opener, outer = open_ops[-1]
            if isinstance(record, Loop):
                self._arguments(op, opener, record)
            elif record.other:
                if op.name != "pd_op.if" or block is not op.regions[0].block:
                    self.lines.fail(record.line, "`else` without its `pd_op.if`")
                block = op.regions[1].block
            else:
                if op.name == "pd_op.if" and block is op.regions[0].block:
                    self.lines.fail(opener.line, "`pd_op.if` without its else block")
                open_ops.pop()
                self._define_results(op, opener)
                block = outer

    def _op(self, record: Record) -> PirOp:
        """The operation of a record. Raises ParseError for one that does not fit its op.

        The dump has no types for the arguments of a loop, so results of `while` have the types of
        its operands.
        """
        reader = self.reader
        definition = reader.definition(record)
        operands = [self._use(record, name) for name in record.operands]
        properties, attributes = reader.attributes(record.line, record.name, record.attrs)
        if record.id is not None:
            attributes = {**attributes, ID: mlir.IntegerAttr(int(record.id), mlir.i64)}
        if record.types is not None:
            self._check_operand_types(record, operands)
        if record.name == "pd_op.while":
            types = [self._loop_type(record, i, v) for i, v in enumerate(operands[1:])]
        else:
            types = list(reader.types(record.line, record.result_types or ""))
        if len(types) != len(record.results):
            self.lines.fail(
                record.line,
                f"`{record.name}` names {len(record.results)} results but states "
                f"{len(types)} result types",
                code="PK0204",
            )
        if None in operands and not definition.signature.has_absent_operands:
            self.lines.fail(record.line, f"`{record.name}` needs all its operands", code="PK0204")
        if None in types and not definition.signature.has_absent_results:
            self.lines.fail(record.line, f"`{record.name}` makes all its results", code="PK0204")
        regions = REGIONS.get(record.name, 0)
        return create(
            definition,
            operands,
            types,
            properties,
            attributes,
            mlir.FileLineColLoc(reader.file_attr, mlir.IntAttr(record.line), mlir.IntAttr(5)),
            [Region(Block()) for _ in range(regions)],
        )

    def _use(self, record: Record, name: str) -> SSAValue | None:
        value = self.values.get(name)
        if value is None and name != NULL_VALUE:
            raise ParseError(
                f"{name} is used before it is defined",
                code="PK0103",
                span=self.lines.find(record.line, name),
                help="operations must come after the ones whose results they use",
            )
        return value

    def _check_operand_types(self, record: Record, operands: list[SSAValue | None]) -> None:
        types = self.reader.types(record.line, record.types or "")
        if len(types) != len(operands):
            self.lines.fail(
                record.line,
                f"`{record.name}` has {len(operands)} operands but {len(types)} operand types",
                code="PK0204",
            )
        for index, (value, type_) in enumerate(zip(operands, types, strict=True)):
            if value is None or type_ is None or value.type is type_ or value.type is OPAQUE:
                continue
            if value.type != type_ and not compatible(meta_of(value.type), meta_of(type_)):
                raise ParseError(
                    f"operand {record.operands[index]} of `{record.name}` is declared as "
                    f"`{type_}` but was defined as `{value.type}`",
                    code="PK0105",
                    span=self.lines.find(record.line, record.operands[index]),
                )

    def _loop_type(self, record: Record, index: int, init: SSAValue | None) -> Attribute:
        if index < len(record.results) and record.results[index] in self.declared:
            return self.declared[record.results[index]]
        return init.type if init is not None else OPAQUE

    def _arguments(self, op: PirOp, opener: Record, loop: Loop) -> None:
        block = op.regions[0].block
        arguments = loop.arguments
        if op.name != "pd_op.while" or block.args or block.first_op is not None:
            self.lines.fail(loop.line, "block arguments outside a loop")
        if len(arguments) != len(opener.operands) - 1:
            self.lines.fail(
                loop.line,
                f"the loop has {len(opener.operands) - 1} initial values but "
                f"{len(arguments)} arguments",
                code="PK0204",
            )
        for argument, init in zip(arguments, op.operands[1:], strict=True):
            type_ = self.declared.get(argument.name) or init.type
            value = block.insert_arg(type_, len(block.args))
            self.reader.define(self.values, argument.name, value, argument.line)
        entries = [self.reader.attributes(a.line, "", a.attrs)[1] for a in arguments]
        op.properties[ARG_ATTRS] = mlir.ArrayAttr([mlir.DictionaryAttr(e) for e in entries])

    def _define_results(self, op: PirOp, record: Record) -> None:
        for name, value in zip(record.results, op.result_slots, strict=True):
            if value is not None:
                self.reader.define(self.values, name, value, record.line)


def _propagate(declared: dict[str, Attribute], links: list[tuple[str, str]]) -> None:
    """Infer the type of an argument that is only passed on from where it comes from or goes."""
    neighbours: dict[str, list[str]] = {}
    for a, b in links:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    known = [name for name in neighbours if name in declared]
    while known:
        name = known.pop()
        for other in neighbours[name]:
            if other not in declared:
                declared[other] = declared[name]
                known.append(other)
