"""Reads the JSON that ``paddle.jit.save`` writes for a program.

Every operation, value and attribute is checked before it is used; an error states its position as a
path, ``program.regions[0].blocks[0].ops[12].I[1]``. Operations keep that path as their location.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Region, SSAValue

from pirkit.diag.errors import ArtifactError, PirkitError
from pirkit.diag.gc_pause import uncollected
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.attrs import encode
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD, REGIONS, STRUCTURAL
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.operation import PirOp, ProgramOp, create, location_of
from pirkit.dialect.types import OPAQUE
from pirkit.frontend.paddle.array_identity import name_arrays_once
from pirkit.frontend.paddle.json_attrs import read_attribute
from pirkit.frontend.paddle.json_syntax import Malformed, expect, member, parse_json, text
from pirkit.frontend.paddle.json_types import read_op_name, read_type

VERSION: Final = 4
"""The newest version of the format; it stores as f64 some attributes that were f32 before."""

PARAMETER_FLAGS: Final = ("is_distributed", "is_parameter", "need_clip")
PARAMETER_RESULT_FLAGS: Final = ("persistable", "stop_gradient", "trainable")
"""Attributes of a parameter that its short form has as 0 or 1, in this order."""

LONGEST_NAME: Final = 200
"""Characters of the name of an op or attribute."""

_OP_FIELDS: Final = frozenset({"#", "A", "I", "O", "OA", "regions"})
_PARAMETER_FIELDS: Final = frozenset({"#", "A", "DA", "QA", "O", "OA"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


@uncollected
def read_paddle_json(data: str | bytes, file: str = "<json>") -> mlir.ModuleOp:
    """Read a program in Paddle's JSON form, as ``@main``. The result is not verified.

    Raises ArtifactError for a damaged file, UnsupportedError for an op or a form that pirkit does
    not support, LimitError for a file that is too large; each states the position in the file.
    """
    reader = _Reader(file)
    try:
        module = mlir.ModuleOp([reader.document(parse_json(data, file))])
    except Malformed as error:
        where = f"{reader.path}{error.path}".lstrip(".")
        message = f"{where}: {error.message}" if where else error.message
        raise ArtifactError(message, code=error.code, span=Span(file)) from error
    except PirkitError as error:
        if error.span is None:
            error.span = Span(file)
            error.notes = (*error.notes, f"at {reader.path}")
        raise
    name_arrays_once(module)
    return module


@dataclass(slots=True)
class _Opened:
    """A block that is being read. ``closes`` is the op whose last block it is."""

    block: Block
    nodes: list[Any]
    path: str
    closes: tuple[PirOp, list[int], str] | None = None
    at: int = 0


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.path = ""
        self.values: dict[int, SSAValue | None] = {}
        self.block_ids: set[str] = set()
        self.definitions: dict[str, OpDef] = {}
        self.count = 0

    def document(self, document: Any) -> ProgramOp:
        _check_version(document)
        program = member(document, "program", dict)
        self.path = "program"
        nodes, path = self._region(_only(program, "regions"), "program.regions[0]")
        types, ids, attrs = self._arguments(nodes, "args")
        if types:
            raise Malformed("a program has no arguments by position", ".args")
        if "kwargs" in nodes:
            types, ids, attrs = self._arguments(nodes, "kwargs")
        made = ProgramOp.build("main", types, attrs)
        made.location = self._location(path)
        for number, argument in zip(ids, made.block.args, strict=True):
            self._define(number, argument)
        self._operations(_Opened(made.block, member(nodes, "ops", list), path))
        return made

    # --- blocks -------------------------------------------------------------------------------

    def _region(self, region: Any, path: str) -> tuple[Any, str]:
        """The one block of a region, and its path."""
        self.path = path
        self._name_block(region)
        block = _only(region, "blocks")
        self.path = f"{path}.blocks[0]"
        self._name_block(block)
        return block, self.path

    def _name_block(self, node: Any) -> None:
        name = text(member(node, "#", str), ".#")
        if name in self.block_ids:
            raise Malformed(f"`{name[:40]}` is the name of another block", ".#", "PK0505")
        self.block_ids.add(name)

    def _arguments(
        self, block: Any, key: str
    ) -> tuple[list[Attribute], list[int], list[dict[str, Attribute]]]:
        types: list[Attribute] = []
        ids: list[int] = []
        attrs: list[dict[str, Attribute]] = []
        for index, node in enumerate(member(block, key, list)):
            try:
                ids.append(member(node, "#", int))
                if ids[-1] >= 0:
                    raise Malformed("the number of a block argument is negative", ".#")
                types.append(_argument_type(node.get("TT")))
                held = _attributes(node["A"], "A", {}) if "A" in node else {}
                if key == "kwargs":
                    word = text(member(node, "key", str), ".key")
                    held = {KEYWORD: mlir.StringAttr(word), **held}
                attrs.append(held)
            except Malformed as error:
                raise error.within(f".{key}[{index}]") from None
        return types, ids, attrs

    def _operations(self, opened: _Opened) -> None:
        """Read a block and all nested blocks, with an explicit stack instead of recursion."""
        stack = [opened]
        while stack:
            top = stack[-1]
            if top.at == len(top.nodes):
                stack.pop()
                if top.closes is not None:
                    op, ids, self.path = top.closes
                    self._define_results(op, ids)
                continue
            self.path = path = f"{top.path}.ops[{top.at}]"
            node = top.nodes[top.at]
            top.at += 1
            op, ids = self._operation(node)
            top.block.add_op(op)
            self.count += 1
            check("ops", self.count)
            if not op.regions:
                self._define_results(op, ids)
                continue
            inner = [
                self._inner(op, index, region, f"{path}.regions[{index}]")
                for index, region in enumerate(node["regions"])
            ]
            inner[-1].closes = (op, ids, path)
            stack.extend(reversed(inner))
            check("nesting", len(stack))

    def _inner(self, op: PirOp, index: int, region: Any, path: str) -> _Opened:
        node, path = self._region(region, path)
        types, ids, attrs = self._arguments(node, "args")
        block = op.regions[index].block
        for number, type_ in zip(ids, types, strict=True):
            self._define(number, block.insert_arg(type_, len(block.args)))
        if any(attrs):
            op.properties[ARG_ATTRS] = mlir.ArrayAttr([mlir.DictionaryAttr(d) for d in attrs])
        return _Opened(block, member(node, "ops", list), path)

    # --- operations ---------------------------------------------------------------------------

    def _operation(self, node: Any) -> tuple[PirOp, list[int]]:
        """An operation with empty blocks, and the numbers of its results."""
        word = member(node, "#", str)
        if word == "p":
            return self._parameter(node)
        _check_fields(node, _OP_FIELDS)
        definition = self._definition(word)
        operands = [self._operand(i, item) for i, item in enumerate(member(node, "I", list))]
        signature = definition.signature
        if None in operands and not signature.has_absent_operands:
            raise Malformed(
                "an operand that cannot be absent is null", f".I[{operands.index(None)}]"
            )
        ids, types = _results(member(node, "O", list))
        if None in types and not signature.has_absent_results:
            raise Malformed("a result that cannot be absent is null", f".O[{types.index(None)}]")
        held = _attributes(member(node, "A", list), "A", definition.attr_kinds)
        if "OA" in node:
            on_results = _attributes(node["OA"], "OA", {}, "bool[]")
            twice = held.keys() & on_results.keys()
            if twice:
                raise Malformed(f"attribute `{min(twice)}` is given twice", ".OA")
            held.update(on_results)
        regions: list[Any] = []
        if "regions" in node:
            regions = expect(node["regions"], list, ".regions")
        wanted = REGIONS.get(definition.name, 0)
        if len(regions) != wanted:
            raise Malformed(
                f"`{definition.name}` has {len(regions)} regions, expected {wanted}", ".regions"
            )
        kinds = definition.attr_kinds
        op = create(
            definition,
            operands,
            types,
            {k: v for k, v in held.items() if k in kinds},
            {k: v for k, v in held.items() if k not in kinds},
            self._location(self.path),
            [Region(Block()) for _ in regions],
        )
        return op, ids

    def _parameter(self, node: Any) -> tuple[PirOp, list[int]]:
        """The short form of a parameter: flags by position."""
        _check_fields(node, _PARAMETER_FIELDS)
        *flags, name = _fields(node, "A", len(PARAMETER_FLAGS) + 1)
        properties = _flags(PARAMETER_FLAGS, flags, ".A")
        properties["parameter_name"] = mlir.StringAttr(text(name, ".A[3]"))
        if "OA" in node:
            flags = _fields(node, "OA", len(PARAMETER_RESULT_FLAGS))
            properties |= _flags(PARAMETER_RESULT_FLAGS, flags, ".OA")
        attributes: dict[str, Attribute] = {}
        for key in ("DA", "QA"):
            if key in node:
                attributes |= _attributes(node[key], key, {})
        try:
            ids, types = _results([member(node, "O", dict)])
        except Malformed as error:
            error.path = error.path.replace(".O[0]", ".O", 1)
            raise
        if types == [None]:
            raise Malformed("a parameter without a type", ".O.TT")
        definition = self._definition("0.parameter")
        location = self._location(self.path)
        return create(definition, [], types, properties, attributes, location), ids

    def _definition(self, word: str) -> OpDef:
        found = self.definitions.get(word)
        if found is None:
            name = read_op_name(word)
            if len(name) > LONGEST_NAME or not _NAME.match(name):
                raise Malformed("is no name of an op", ".#")
            found = self.definitions[word] = lookup(name)
        return found

    def _operand(self, index: int, node: Any) -> SSAValue | None:
        try:
            number = member(node, "%", int)
        except Malformed as error:
            raise error.within(f".I[{index}]") from None
        if number == 0:
            return None
        if number not in self.values:
            raise Malformed(f"value {_short(number)} is not defined here", f".I[{index}]", "PK0505")
        return self.values[number]

    def _define_results(self, op: PirOp, ids: list[int]) -> None:
        for number, value in zip(ids, op.result_slots, strict=True):
            self._define(number, value)

    def _define(self, number: int, value: SSAValue | None) -> None:
        if number in self.values:
            raise Malformed(f"value {_short(number)} is defined twice", code="PK0505")
        self.values[number] = value

    def _location(self, path: str) -> mlir.LocationAttr:
        return location_of(f"{self.file}#{path}", 0)


def _check_version(document: Any) -> None:
    base = member(document, "base_code", dict)
    try:
        magic = member(base, "magic", str)
        version = member(base, "version", int)
    except Malformed as error:
        raise error.within("base_code") from None
    if magic != "pir":
        raise Malformed("the file is not a PIR program", "base_code.magic", "PK0503")
    if not 1 <= version <= VERSION:
        raise Malformed(
            f"version {_short(version)}; pirkit reads versions 1 to {VERSION}",
            "base_code.version",
            "PK0503",
        )


def _only(node: Any, key: str) -> Any:
    items = member(node, key, list)
    if len(items) != 1:
        raise Malformed(f"expected one item, found {len(items)}", f".{key}")
    return items[0]


def _fields(node: Any, key: str, count: int) -> list[Any]:
    items = member(node, key, list)
    if len(items) != count:
        raise Malformed(f"expected {count} items, found {len(items)}", f".{key}")
    return items


def _flags(names: tuple[str, ...], values: list[Any], path: str) -> dict[str, Attribute]:
    for index, value in enumerate(values):
        if type(value) is not int or value not in (0, 1):
            raise Malformed("a flag is 0 or 1", f"{path}[{index}]")
    return {name: encode("bool[]", (bool(v),)) for name, v in zip(names, values, strict=True)}


def _check_fields(node: dict[str, Any], known: frozenset[str]) -> None:
    unknown = node.keys() - known
    if unknown:
        raise Malformed(f"unknown field {min(unknown)[:40]!r}")


def _argument_type(node: Any) -> Attribute:
    """Null is the type of an argument that nothing in the program determines."""
    try:
        return read_type(node) or OPAQUE
    except Malformed as error:
        raise error.within(".TT") from None


def _results(nodes: list[Any]) -> tuple[list[int], list[Attribute | None]]:
    ids: list[int] = []
    types: list[Attribute | None] = []
    for index, node in enumerate(nodes):
        try:
            ids.append(member(node, "%", int))
            if ids[-1] <= 0:
                raise Malformed("the number of a result is positive", ".%")
            try:
                types.append(read_type(node.get("TT")))
            except Malformed as error:
                raise error.within(".TT") from None
        except Malformed as error:
            raise error.within(f".O[{index}]") from None
    return ids, types


def _attributes(
    nodes: Any, key: str, kinds: Mapping[str, str], other: str | None = None
) -> dict[str, Attribute]:
    """Attributes by name; ``other`` is the kind of those that ``kinds`` does not declare."""
    held: dict[str, Attribute] = {}
    for index, node in enumerate(expect(nodes, list, f".{key}")):
        try:
            name = member(node, "N", str)
            if len(name) > LONGEST_NAME or not _NAME.match(name) or name in STRUCTURAL:
                raise Malformed("is no name of an attribute", ".N")
            if name in held:
                raise Malformed(f"attribute `{name}` is given twice", ".N")
            try:
                held[name] = read_attribute(node.get("AT"), kinds.get(name, other))
            except Malformed as error:
                raise error.within(".AT") from None
        except Malformed as error:
            raise error.within(f".{key}[{index}]") from None
    return held


def _short(number: int) -> str:
    word = str(number)
    return word if len(word) <= 20 else f"{word[:8]}... ({len(word)} digits)"
