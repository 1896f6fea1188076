"""Reads the text that Paddle prints for a program.

The text is a list of lines, one operation each, so the reader is a loop over lines: a first pass
cuts every line into a record, a second builds operations. Two passes, because the dump states no
types for keyword arguments, loop arguments and loop results; they come from the operations that
use them. Attribute lists and type lists repeat, so each distinct spelling is read once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Region, SSAValue

from pirkit.diag.errors import ParseError, PirkitError
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.attrs import DISCARDABLE
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.operation import ARG_ATTRS, KEYWORD, REGIONS, PirOp, ProgramOp, create
from pirkit.dialect.structure import PADDLE_NAMES
from pirkit.dialect.types import OPAQUE, meta_of
from pirkit.frontend.paddle.spelling import NULL_VALUE, read_attributes, read_types
from pirkit.runtime.meta import compatible

ID: Final = "pir.id"
"""Discardable attribute that keeps the ``[id:N]`` of a verbose dump."""

_HEAD: Final = re.compile(r'\(([^()]*)\) = "([^"]+)"(?: \[id:(\d+)\])? \(([^()]*)\) ?')
_ARG: Final = re.compile(r"(%[\w.\-/]+)\s*\{([^{}]*)\}")
_RESULT_NAME: Final = re.compile(r"%\w+\Z")


@dataclass(slots=True)
class _Record:
    """One line: an operation, or the end of a block."""

    line: int
    name: str
    results: list[str]
    operands: list[str]
    attrs: str = ""
    types: str | None = None
    result_types: str | None = None
    opens: bool = False
    id: str | None = None


@dataclass(slots=True)
class _Loop:
    """The argument line of a while body."""

    line: int
    names: list[str] = field(default_factory=list[str])
    attrs: list[str] = field(default_factory=list[str])


class _Else:
    pass


class _Close:
    pass


_ELSE: Final = _Else()
_CLOSE: Final = _Close()


def read_paddle_text(text: str, file: str = "<text>") -> mlir.ModuleOp:
    """Read one or several dumps that stand behind each other.

    The first becomes ``@main``, further ones ``@main_1``... The result is not verified.
    Raises ParseError, UnsupportedError or LimitError with the place in the text.
    """
    programs = _Reader(text, file).programs()
    return mlir.ModuleOp(cast(Any, programs))


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.split("\n")
        self.attr_cache: dict[tuple[str, str], tuple[dict[str, Attribute], ...]] = {}
        self.definitions: dict[str, OpDef] = {}
        self.file_attr = mlir.StringAttr(file)

    def programs(self) -> list[ProgramOp]:
        programs: list[ProgramOp] = []
        at = self._skip_blank(0)
        while at < len(self.lines):
            if self.lines[at].strip() != "{":
                raise self.error(at, "a program starts with a line that is `{`")
            at, header, body = self._scan(at + 1)
            name = f"main_{len(programs)}" if programs else "main"
            programs.append(self._build(name, header, body))
            at = self._skip_blank(at)
        if not programs:
            raise ParseError(
                "the file holds no program",
                code="PK0102",
                span=Span(self.file),
                help="a Paddle dump is `{`, one line per operation, `}`",
            )
        return programs

    def _skip_blank(self, at: int) -> int:
        while at < len(self.lines) and not self.lines[at].strip():
            at += 1
        return at

    # --- first pass: lines to records ---------------------------------------------------------

    def _scan(self, at: int) -> tuple[int, list[tuple[str, str, int]], list[Any]]:
        """Records of one program that starts at line index ``at``; the index behind it."""
        header: list[tuple[str, str, int]] = []
        records: list[Any] = []
        depth = 1
        in_header = False
        lines = self.lines
        while at < len(lines):
            line = lines[at].strip()
            if line.startswith("("):
                in_header = False
                at, record = self._record(at, line)
                records.append(record)
                if record.opens:
                    depth += 1
                    check("nesting", depth, Span(self.file, at))
                continue
            at += 1
            if not line:
                continue
            if line == "}":
                depth -= 1
                if depth == 0:
                    return at, header, records
                records.append(_CLOSE)
            elif line == "} else {":
                records.append(_ELSE)
            elif line == "^kw:":
                in_header = True
            elif in_header and line.startswith("%kwarg_"):
                m = _ARG.fullmatch(line)
                if m is None:
                    raise self.error(at - 1, "a keyword argument is `%kwarg_NAME {...}`")
                header.append((m[1], m[2], at))
            elif line.startswith("^%") or line == "^":
                records.append(self._loop(at, line))
            else:
                raise self.error(at - 1, f"expected an operation, found {_shorten(line)!r}")
        raise ParseError(
            "the text ends inside a program",
            code="PK0102",
            span=Span(self.file, len(lines)),
            help="the closing `}` is missing: the dump may have been cut off",
        )

    def _loop(self, line_number: int, line: str) -> _Loop:
        loop = _Loop(line_number)
        rest = line[1:]
        for m in _ARG.finditer(rest):
            loop.names.append(m[1])
            loop.attrs.append(m[2])
        if _ARG.sub("", rest).replace(",", "").strip():
            raise self.error(line_number - 1, "loop arguments are `^%arg_0 {...}, %arg_1 {...}`")
        return loop

    def _record(self, at: int, line: str) -> tuple[int, _Record]:
        start = at
        m = _HEAD.match(line)
        if m is None:
            raise self.error(
                at, 'an operation is `(%0) = "dialect.name" (...) {...} : (...) -> ...`'
            )
        at += 1
        while not _complete(line, m.end()):  # a string attribute may hold line breaks
            if at >= len(self.lines):
                raise ParseError(
                    "the text ends inside an operation",
                    code="PK0102",
                    span=Span(self.file, start + 1),
                )
            line += "\n" + self.lines[at]
            at += 1
        name = PADDLE_NAMES.get(m[2], m[2])
        results = _names(m[1])
        if name == "pd_op.while":
            operands = _names(m[4].replace("cond=", "", 1).replace("inputs=", "", 1))
            return at, _Record(start + 1, name, results, operands, opens=True, id=m[3])
        record = _Record(start + 1, name, results, _names(m[4]), id=m[3])
        body = line[m.end() :].rstrip()
        if not body.startswith("{"):
            raise self.error(start, "expected `{attributes}` behind the operands", m.end() + 1)
        if name in ("pd_op.if", "pd_op.pylayer"):
            close = body.rfind("} ->")
            if close < 0 or not body.endswith("{"):
                raise self.error(start, f"`{name}` is written `... {{attributes}} -> types {{`")
            record.attrs = body[1:close]
            record.result_types = body[close + 4 : -1].strip()
            record.opens = True
            return at, record
        close = body.rfind("} : (")
        arrow = body.rfind(") ->")
        if close < 0 or arrow < close:
            raise self.error(start, "expected `: (operand types) -> result types`")
        record.attrs = body[1:close]
        record.types = body[close + 5 : arrow]
        record.result_types = body[arrow + 4 :].strip()
        return at, record

    # --- second pass: records to operations ---------------------------------------------------

    def _build(
        self, name: str, header: list[tuple[str, str, int]], records: list[Any]
    ) -> ProgramOp:
        check("ops", len(records), Span(self.file))
        stated = self._stated_types(records)
        arg_types: list[Attribute] = []
        arg_attrs: list[Mapping[str, Attribute]] = []
        for kwarg, attrs, line in header:
            arg_types.append(stated.get(kwarg) or OPAQUE)
            entries = self.attributes(line, "", attrs)[1]
            arg_attrs.append({KEYWORD: mlir.StringAttr(kwarg[len("%kwarg_") :]), **entries})
        program = ProgramOp.build(name, arg_types, arg_attrs)
        program.location = mlir.FileLineColLoc(self.file_attr, mlir.IntAttr(1), mlir.IntAttr(1))
        values: dict[str, SSAValue] = {}
        for (kwarg, _, line), argument in zip(header, program.block.args, strict=True):
            self.define(values, kwarg, argument, line)
        _Builder(self, stated, values).run(program.block, records)
        return program

    def _stated_types(self, records: list[Any]) -> dict[str, Attribute]:
        """Types of arguments and loop results, from the operations that use them."""
        stated: dict[str, Attribute] = {}
        loop_results: set[str] = set()
        links: list[tuple[str, str]] = []
        for index, record in enumerate(records):
            if not isinstance(record, _Record):
                continue
            if record.name == "pd_op.while":
                loop_results.update(record.results)
                loop = records[index + 1] if index + 1 < len(records) else None
                if isinstance(loop, _Loop):
                    links += zip(loop.names, record.operands[1:], strict=False)
                    links += zip(record.results, loop.names, strict=False)
            if record.types is None:
                continue
            for position, used in enumerate(record.operands):
                if (used.startswith(("%kwarg", "%arg")) or used in loop_results) and (
                    used not in stated
                ):
                    types = self.types(record.line, record.types)
                    if position < len(types) and types[position] is not None:
                        stated[used] = cast(Attribute, types[position])
        pending = True
        while pending:  # an argument that is only handed on takes the type from where it goes
            pending = False
            for a, b in links:
                for to, origin in ((a, b), (b, a)):
                    if origin in stated and to not in stated:
                        stated[to] = stated[origin]
                        pending = True
        return stated

    def types(self, line: int, text: str) -> tuple[Attribute | None, ...]:
        try:
            return read_types(text)
        except ParseError as error:
            raise self.error(line - 1, error.message, code=error.code) from error

    def attributes(self, line: int, name: str, text: str) -> tuple[dict[str, Attribute], ...]:
        """Declared and discardable attributes of the op of that name."""
        found = self.attr_cache.get((name, text))
        if found is not None:
            return found
        kinds: Mapping[str, str] = self.definitions[name].attr_kinds if name else {}
        try:
            entries = read_attributes(text, {**DISCARDABLE, **kinds} if name else {})
        except PirkitError as error:
            raise self.error(line - 1, error.message, code=error.code) from error
        found = (
            {k: v for k, v in entries.items() if k in kinds},
            {k: v for k, v in entries.items() if k not in kinds},
        )
        self.attr_cache[name, text] = found
        return found

    def definition(self, record: _Record) -> OpDef:
        found = self.definitions.get(record.name)
        if found is None:
            try:
                found = lookup(record.name)
            except PirkitError as error:
                error.span = self.find(record.line, f'"{record.name}"')
                raise
            self.definitions[record.name] = found
        return found

    def define(self, values: dict[str, SSAValue], name: str, value: SSAValue, line: int) -> None:
        if name in values:
            raise ParseError(f"{name} is defined twice", code="PK0104", span=self.find(line, name))
        values[name] = value

    def find(self, line: int, word: str) -> Span:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = text.find(word) + 1
        return Span(self.file, line, column, len(word) if column else 1)

    def error(self, at: int, message: str, column: int = 0, code: str = "PK0101") -> ParseError:
        text = self.lines[at] if at < len(self.lines) else ""
        indent = len(text) - len(text.lstrip())
        return ParseError(
            message,
            code=code,
            span=Span(self.file, at + 1, indent + (column or 1), max(1, len(text) - indent)),
        )


class _Builder:
    """Builds the operations of one program; its own stack, so that nesting costs no recursion."""

    def __init__(
        self, reader: _Reader, stated: dict[str, Attribute], values: dict[str, SSAValue]
    ) -> None:
        self.reader = reader
        self.stated = stated
        self.values = values

    def run(self, block: Block, records: list[Any]) -> None:
        open_ops: list[tuple[PirOp, _Record, Block]] = []
        for record in records:
            if isinstance(record, _Record):
                op = self._op(record)
                block.add_op(op)
                if record.opens:
                    open_ops.append((op, record, block))
                    block = op.regions[0].block
                else:
                    self._define_results(op, record)
            elif isinstance(record, _Loop):
                op, opener, _ = self._current(open_ops, record.line)
                self._arguments(op, opener, record)
            elif isinstance(record, _Else):
                op, _, _ = self._current(open_ops, 0)
                block = op.regions[1].block
            else:
                op, opener, block = open_ops.pop()
                self._define_results(op, opener)

    def _current(
        self, open_ops: list[tuple[PirOp, _Record, Block]], line: int
    ) -> tuple[PirOp, _Record, Block]:
        if not open_ops:
            raise self.reader.error(line - 1, "block arguments outside a loop")
        return open_ops[-1]

    def _op(self, record: _Record) -> PirOp:
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
            raise reader.error(
                record.line - 1,
                f"`{record.name}` names {len(record.results)} results but states "
                f"{len(types)} result types",
                code="PK0204",
            )
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

    def _use(self, record: _Record, name: str) -> SSAValue | None:
        value = self.values.get(name)
        if value is None and name != NULL_VALUE:
            raise ParseError(
                f"{name} is used before it is defined",
                code="PK0103",
                span=self.reader.find(record.line, name),
                help="operations must stand behind the ones whose results they use",
            )
        return value

    def _check_operand_types(self, record: _Record, operands: list[SSAValue | None]) -> None:
        types = self.reader.types(record.line, record.types or "")
        if len(types) != len(operands):
            raise self.reader.error(
                record.line - 1,
                f"`{record.name}` has {len(operands)} operands but {len(types)} operand types",
                code="PK0204",
            )
        for index, (value, type_) in enumerate(zip(operands, types, strict=True)):
            if value is None or type_ is None or value.type is type_ or value.type is OPAQUE:
                continue
            if value.type != type_ and not compatible(meta_of(value.type), meta_of(type_)):
                raise ParseError(
                    f"operand {record.operands[index]} of `{record.name}` is stated as "
                    f"`{type_}` but was defined as `{value.type}`",
                    code="PK0105",
                    span=self.reader.find(record.line, record.operands[index]),
                )

    def _loop_type(self, record: _Record, index: int, init: SSAValue | None) -> Attribute:
        if index < len(record.results) and record.results[index] in self.stated:
            return self.stated[record.results[index]]
        return init.type if init is not None else OPAQUE

    def _arguments(self, op: PirOp, opener: _Record, loop: _Loop) -> None:
        block = op.regions[0].block
        if len(loop.names) != len(opener.operands) - 1 or block.args:
            raise self.reader.error(
                loop.line - 1,
                f"the loop has {len(opener.operands) - 1} initial values but "
                f"{len(loop.names)} arguments",
                code="PK0204",
            )
        for name, init in zip(loop.names, op.operands[1:], strict=True):
            argument = block.insert_arg(self.stated.get(name) or init.type, len(block.args))
            self.reader.define(self.values, name, argument, loop.line)
        entries = [
            mlir.DictionaryAttr(self.reader.attributes(loop.line, "", text)[1])
            for text in loop.attrs
        ]
        op.properties[ARG_ATTRS] = mlir.ArrayAttr(entries)

    def _define_results(self, op: PirOp, record: _Record) -> None:
        if op.name == "pd_op.if" and op.regions[1].block.first_op is None:
            raise self.reader.error(record.line - 1, "`pd_op.if` without its else block")
        for name, value in zip(record.results, op.result_slots, strict=True):
            if value is not None:
                self.reader.define(self.values, name, value, record.line)


def _names(text: str) -> list[str]:
    text = text.strip()
    return text.split(", ") if text else []


def _complete(line: str, start: int) -> bool:
    """True if every string that opens in the line also ends in it."""
    quotes = line.count('"', start) - line.count('\\"', start)
    return quotes % 2 == 0


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
