"""A text in an editor: its errors, and what is known about the name under the cursor.

Places are those of the Language Server Protocol: lines and UTF-16 code units from 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from xdsl.dialects import builtin as mlir
from xdsl.ir import Operation

from pirkit.cli.language_names import Name, names_of
from pirkit.diag.errors import InternalError, PirkitError
from pirkit.diag.once import cached_property
from pirkit.diag.span import Span
from pirkit.dialect.opdef import OpDef, all_ops, find
from pirkit.dialect.operation import span_of
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.verify import verify_module
from pirkit.frontend.files import READERS, detect_format

Json = dict[str, Any]

_OP: Final = re.compile(r"[a-z]\w*\.\w[\w.]*")
_WORD: Final = re.compile(r"[%@^#!]?[\w$.-]+|\S")
_LOCATION: Final = re.compile(r" loc\((?:[^()\n]|\([^()\n]*\))*\)$", re.M)
_TYPES: Final = re.compile(r"->\s*(\(.*\)|[^\s{]+(?:<.*>)?)")
_RESULTS: Final = re.compile(r"^(\s*\(?%[^=\n]*=)")
_PROGRAM: Final = re.compile(r'pir\.program"?\s*(?:.*sym_name\s*=\s*"|@)([\w$.-]+)|(?<=^){$', re.M)
_PADDLE_DIALECTS: Final = {"builtin": "pir", "cf": "pir"}

_READ_AT_MOST: Final = 4_000_000
"""Characters that may be parsed in search of further errors; each takes one more reading."""


@dataclass(frozen=True)
class Reading:
    """The readable part of a text: its errors, and the operation that begins on each line."""

    errors: list[PirkitError]
    operations: dict[int, Operation]


class Document:
    """One text. It never changes: each edit makes another document."""

    def __init__(self, uri: str, text: str) -> None:
        self.uri = uri
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self.lines = self.text.split("\n")

    @cached_property
    def names(self) -> list[Name]:
        return names_of(self.text)[0]

    @cached_property
    def reading(self) -> Reading:
        """All errors that can be found, also after the first, and the operations."""
        try:
            return self._read()
        except PirkitError as error:
            return Reading([error], {})
        except Exception as error:  # a bug of pirkit; the editor shows it as one
            return Reading([InternalError(f"{type(error).__name__}: {error}")], {})

    def _read(self) -> Reading:
        """The parser stops at an error, so the line is replaced and the text read once more.

        The place of an operation that cannot be read is taken by one that defines the same values,
        so that the operations that use them are still checked; if its types are wrong as well, the
        line goes, and nothing is said of values that it defined.
        """
        read = READERS[detect_format(self.text[:65536], self.uri)]
        lines = _LOCATION.sub("", self.text).split("\n")
        errors: list[PirkitError] = []
        replaced: set[int] = set()
        lost: set[str] = set()
        for _ in range(1 + _READ_AT_MOST // (len(self.text) + 1)):
            try:
                module = read("\n".join(lines), self.uri)
            except PirkitError as error:
                line = error.span.line if error.span else 0
                follows = error.code == "PK0103" and _undefined(error) in lost
                if line not in replaced and not follows:
                    errors.append(error)
                is_cut = error.code == "PK0102"
                if is_cut or not 0 < line <= len(lines) or not lines[line - 1].strip():
                    break
                held = lines[line - 1]
                lines[line - 1] = "" if line in replaced else _placeholder(held)
                if not lines[line - 1]:
                    if held.count("{") != held.count("}"):
                        break
                    lost |= set(re.findall(r"%[\w$.-]+", held.partition("=")[0]))
                replaced.add(line)
            else:
                wrong: list[PirkitError] = []
                try:
                    verify_module(module, wrong)
                except PirkitError as error:
                    wrong.append(error)
                errors += [e for e in wrong if not (e.span and e.span.line in replaced)]
                return Reading(errors, _operations(module))
        return Reading(errors, {})

    def diagnostics(self) -> list[Json]:
        unique = {(e.code, e.message, str(e.span)): e for e in self.reading.errors}
        return [self._diagnostic(error) for error in unique.values()]

    def _diagnostic(self, error: PirkitError) -> Json:
        remarks = [*error.notes, *([f"help: {error.help}"] if error.help else [])]
        return {
            "range": self._range_of(error.span or Span(self.uri)),
            "severity": 1,
            "code": error.code,
            "source": "pirkit",
            "message": "\n".join([error.message, *remarks]),
        }

    def _range_of(self, span: Span) -> Json:
        line = min(max(span.line - 1, 0), len(self.lines) - 1)
        text = self.lines[line]
        start = span.column - 1 if span.column else len(text) - len(text.lstrip())
        word = _WORD.match(text, start)
        end = len(text.rstrip()) if word is None or not span.column else word.end()
        return self._range(line, start, min(max(end, start + span.length), len(text)))

    def hover(self, line: int, character: int) -> Json | None:
        name = self._name_at(line, character)
        if name is not None:
            return None if name.definition is None else self._shown(self._value(name.definition))
        found = self._op_at(line, character)
        return None if found is None else self._shown(self._op(line, found))

    def _shown(self, markdown: str) -> Json:
        return {"contents": {"kind": "markdown", "value": markdown}}

    def _value(self, definition: Name) -> str:
        what = self._defined_by(definition)
        return f"```pir\n{definition.text} : {self._type(definition)}\n```\n{what}"

    def _defined_by(self, definition: Name) -> str:
        where = f"line {definition.line + 1}"
        if definition.index is None:
            return f"argument of a block, {where}"
        op = self._op_on(definition.line)
        return f"result {definition.index} of `{op.name if op else '?'}`, {where}"

    def _type(self, definition: Name) -> str:
        op = self.reading.operations.get(definition.line)
        if definition.index is None or op is None or definition.index >= len(op.results):
            return definition.type or "?"
        return str(op.results[definition.index].type)

    def _op(self, line: int, definition: OpDef) -> str:
        parts = [f"```\n{definition.name}: {definition.signature_text}\n```", definition.doc]
        op = self.reading.operations.get(line)
        if op is not None:
            for what, values in (("operand", op.operands), ("result", op.results)):
                slots = [slot.name for slot in getattr(definition, f"{what}s")]
                names = slots + [slots[-1] if slots else what] * (len(values) - len(slots))
                rows = [f"- {what} `{n}`: `{v.type}`" for n, v in zip(names, values, strict=False)]
                parts.append("\n".join(rows))
        return "\n\n".join(filter(None, parts))

    def definition(self, line: int, character: int) -> Json | None:
        name = self._name_at(line, character)
        return self._location(name.definition) if name and name.definition else None

    def references(self, line: int, character: int) -> list[Json]:
        return [self._location(name) for name in self._same(line, character)]

    def highlights(self, line: int, character: int) -> list[Json]:
        """The same occurrences; 3 marks the one that writes, 2 those that read."""
        return [
            {"range": self._location(n)["range"], "kind": 3 if n.definition is n else 2}
            for n in self._same(line, character)
        ]

    def _same(self, line: int, character: int) -> list[Name]:
        name = self._name_at(line, character)
        if name is None or name.definition is None:
            return []
        return [n for n in self.names if n.definition is name.definition]

    def completions(self, line: int, character: int) -> list[Json]:
        """Values after `%`, attributes inside the braces of an operation, else names of ops.

        Kinds are those of the protocol: 6 a variable, 10 a property, 3 a function.
        """
        before = self.lines[line][: self._column(line, character)]
        definition = self._op_on(line)
        if typed := re.search(r"%[\w$.-]*$", before):
            visible = names_of("\n".join([*self.lines[:line], ""]))[1].values()
            offers = [(n.text, 6, self._type(n), "") for n in visible]
        elif definition and (typed := re.search(r"(?<=[{ ,])\w*$", before)) and _in_braces(before):
            offers = [(f"{k} = ", 10, about, "") for k, about in _attributes(definition).items()]
        else:
            typed = re.search(r"[\w.]*$", before)
            offers = [(op.name, 3, op.signature_text, op.doc) for op in all_ops()]
        start = typed.start() if typed else len(before)
        # Editors do not agree on whether `%` and `.` belong to a word: so say what is replaced.
        replaced = self._range(line, start, len(before))
        return [
            {
                "label": text.removesuffix(" = "),
                "kind": kind,
                "detail": detail,
                "documentation": {"kind": "markdown", "value": doc},
                "filterText": text,
                "textEdit": {"range": replaced, "newText": text},
            }
            for text, kind, detail, doc in offers
            if text.startswith(before[start:])
        ]

    def symbols(self) -> list[Json]:
        """An outline: programs (kind 12), and in them the results of operations (kind 13)."""
        starts = [i for i, line in enumerate(self.lines) if _PROGRAM.search(line)] or [0]
        ends = [*(start - 1 for start in starts[1:]), len(self.lines) - 1]
        made = [n for n in self.names if n.definition is n and n.index is not None]
        found: list[Json] = []
        for start, end in zip(starts, ends, strict=True):
            match = _PROGRAM.search(self.lines[start])
            children = [self._symbol(n) for n in made if start <= n.line <= end]
            whole = {
                **self._range(start, 0, 0),
                "end": self._range(end, 0, len(self.lines[end]))["end"],
            }
            found.append(
                {
                    "name": f"@{(match and match[1]) or 'main'}",
                    "kind": 12,
                    "range": whole,
                    "selectionRange": self._range(start, 0, len(self.lines[start])),
                    "children": children,
                }
            )
        return found

    def _symbol(self, name: Name) -> Json:
        op = self._op_on(name.line)
        return {
            "name": name.text,
            "detail": f"{op.name if op else ''} : {self._type(name)}",
            "kind": 13,
            "range": self._range(name.line, 0, len(self.lines[name.line])),
            "selectionRange": self._range(name.line, name.start, name.end),
        }

    def _name_at(self, line: int, character: int) -> Name | None:
        column = self._column(line, character)
        return next((n for n in self.names if n.line == line and n.start <= column <= n.end), None)

    def _op_at(self, line: int, character: int) -> OpDef | None:
        column = self._column(line, character)
        found = (m for m in _OP.finditer(self.lines[line]) if m.start() <= column <= m.end())
        return next((op for m in found if (op := _known(m[0]))), None)

    def _op_on(self, line: int) -> OpDef | None:
        return next((op for m in _OP.finditer(self.lines[line]) if (op := _known(m[0]))), None)

    def _location(self, name: Name) -> Json:
        return {"uri": self.uri, "range": self._range(name.line, name.start, name.end)}

    def _range(self, line: int, start: int, end: int) -> Json:
        def place(column: int) -> Json:
            units = len(self.lines[line][:column].encode("utf-16-le", "surrogatepass")) // 2
            return {"line": line, "character": units}

        return {"start": place(start), "end": place(end)}

    def _column(self, line: int, character: int) -> int:
        units = self.lines[line].encode("utf-16-le", "surrogatepass")
        return len(units[: 2 * character].decode("utf-16-le", "ignore"))


def _known(name: str) -> OpDef | None:
    """The op of a name, also of one in Paddle's dialects `builtin` and `cf`."""
    dialect, _, rest = name.partition(".")
    return find(f"{_PADDLE_DIALECTS.get(dialect, dialect)}.{rest}")


def _attributes(definition: OpDef) -> dict[str, str]:
    """The attributes that the op may carry, each with its kind and its default."""
    slots = [*(o for o in definition.operands if o.kind is not None), *definition.attrs]
    return {
        s.name: f"{s.kind}" if s.default is REQUIRED else f"{s.kind} = {s.default!r}" for s in slots
    }


def _in_braces(before: str) -> bool:
    return before.count("{") > before.count("}")


def _undefined(error: PirkitError) -> str:
    match = re.search(r"`(%[^`]*)`", error.message)
    return match[1] if match else ""


def _placeholder(line: str) -> str:
    """An operation with the results and the types of one that could not be read, or nothing."""
    results, types = _RESULTS.match(line), _TYPES.search(line)
    if results is None or types is None or line.count("{") != line.count("}"):
        return ""
    braces = "{} " if "(%" in results[1] else ""  # Paddle's text has results in parentheses
    return f'{results[1]} "pd_op.data" () {braces}: () -> {types[1]}'


def _operations(module: mlir.ModuleOp) -> dict[int, Operation]:
    """The operation of each line, from 0; the first if there are several."""
    found: dict[int, Operation] = {}
    for op in module.walk():
        span = span_of(op)
        if span is not None:
            found.setdefault(span.line - 1, op)
    return found
