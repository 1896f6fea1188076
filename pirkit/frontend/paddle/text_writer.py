"""Writes a program as Paddle prints it, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pirkit.dialect.attrs import as_single
from pirkit.dialect.kinds import BRANCH
from pirkit.dialect.op_form import KEYWORD, STRUCTURAL
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares
from pirkit.dialect.structure import OUR_NAMES
from pirkit.frontend.paddle.absorbed import with_operands_restored
from pirkit.frontend.paddle.spelling import NULL_TYPE, NULL_VALUE, write_attributes, write_type
from pirkit.frontend.paddle.text_reader import ID

_INDENT: Final = "    "


def write_paddle_text(module: mlir.ModuleOp) -> str:
    """The texts of all programs of a module, one after the other.

    Raises ParseError for an attribute or a type that Paddle's text cannot represent, and
    UnsupportedError for a number that is too large for an f32 attribute.
    """
    module = with_operands_restored(module)
    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return "".join("".join(_Writer().program(p)) for p in programs)


class _Writer:
    """Names of one program: one counter for results, one for arguments, one for stacks."""

    def __init__(self) -> None:
        self.names: dict[SSAValue, str] = {}
        self.results = 0
        self.args = 0
        self.stacks = 0

    def program(self, program: ProgramOp) -> Iterator[str]:
        yield "{\n"
        args = program.block.args
        if args:
            yield f"{_INDENT}^kw:\n"
        for argument, entries in zip(args, program.arg_attrs, strict=True):
            keyword = cast(mlir.StringAttr, entries.data[KEYWORD]).data
            self.names[argument] = f"%kwarg_{keyword}"
            rest = {k: v for k, v in entries.data.items() if k != KEYWORD}
            yield f"{_INDENT * 2}%kwarg_{keyword} {{{write_attributes(rest)}}}\n"
        yield from self.block(program.block)
        yield "}\n"

    def block(self, block: Block) -> Iterator[str]:
        """Lines of a block and of all nested blocks; an explicit stack instead of recursion."""
        stack: list[tuple[Iterator[Operation], str, list[str]]] = [(iter(block.ops), _INDENT, [])]
        while stack:
            ops, indent, endings = stack[-1]
            op = next(ops, None)
            if op is None:
                stack.pop()
                yield from reversed(endings)
                continue
            yield from self.line(cast(PirOp, op), indent)
            for index, region in reversed(list(enumerate(bodies(op)))):
                last = index == len(bodies(op)) - 1
                ending = f"{indent}}}\n" if last else f"{indent}}} else {{\n"
                stack.append((iter(region.block.ops), indent + _INDENT, [ending]))

    def line(self, op: PirOp, indent: str) -> Iterator[str]:
        results = ", ".join(self.define(op))
        name = OUR_NAMES.get(op.name, op.name)
        operands = [NULL_VALUE if v is None else self.names[v] for v in op.operand_slots]
        if op.name == "pd_op.while":
            inputs = ", ".join(operands[1:])
            yield f'{indent}({results}) = "{name}" (cond={operands[0]}, inputs={inputs}) {{ \n'
            yield f"{indent}^{', '.join(self.arguments(op))}\n"
            return
        attrs = write_attributes(_printed(op))
        head = f'{indent}({results}) = "{name}"{_id(op)} ({", ".join(operands)}) {{{attrs}}}'
        types = ", ".join(NULL_TYPE if r is None else write_type(r.type) for r in op.result_slots)
        if declares(op, BRANCH):
            yield f"{head} -> {types} {{\n"
            return
        operand_types = ", ".join(
            NULL_TYPE if v is None else write_type(v.type) for v in op.operand_slots
        )
        yield f"{head} : ({operand_types}) -> {types}\n"

    def define(self, op: PirOp) -> list[str]:
        """Number the results of an op; an empty slot gets a number too."""
        if op.name == "pir.stack_create":
            words = [f"%{word}_{self.stacks}" for word in ("stack", "inlet", "outlet")]
            self.stacks += 1
        else:
            slots = op.result_slots
            words = [f"%{self.results + i}" for i in range(len(slots))]
            self.results += len(slots)
        for word, value in zip(words, op.result_slots, strict=True):
            if value is not None:
                self.names[value] = word
        return words

    def arguments(self, op: PirOp) -> Iterator[str]:
        """Number and print the arguments of a loop body."""
        args = op.regions[0].block.args
        entries = op.arg_attrs or tuple(mlir.DictionaryAttr({}) for _ in args)
        for argument, attrs in zip(args, entries, strict=True):
            self.names[argument] = f"%arg_{self.args}"
            self.args += 1
            yield f"{self.names[argument]} {{{write_attributes(dict(attrs.data))}}}"


def _printed(op: PirOp) -> dict[str, Attribute]:
    hidden = {*STRUCTURAL, ID, "op_callstack", "sym_shape_str"}
    held = {**op.call_properties, **op.attributes}
    held = {k: v for k, v in held.items() if k not in hidden}
    singles = {a.name for a in op.definition.attrs if a.kind == "f32" and a.name in op.properties}
    return {k: as_single(v) if k in singles else v for k, v in held.items()}


def _id(op: PirOp) -> str:
    held = op.attributes.get(ID)
    return "" if held is None else f" [id:{cast('mlir.IntegerAttr[Any]', held).value.data}]"
