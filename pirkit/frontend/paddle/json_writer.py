"""Writes a program as Paddle's JSON, byte for byte as Paddle does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, SSAValue

from pirkit.diag.errors import UnsupportedError, VerifyError
from pirkit.diag.limits import check
from pirkit.dialect.attrs import encode
from pirkit.dialect.op_form import KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, describe, span_of
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.types import OPAQUE
from pirkit.frontend.paddle.absorbed import with_operands_restored
from pirkit.frontend.paddle.json_attrs import write_attribute
from pirkit.frontend.paddle.json_reader import PARAMETER_FLAGS, PARAMETER_RESULT_FLAGS, VERSION
from pirkit.frontend.paddle.json_syntax import BRACKETS_PER_LEVEL
from pirkit.frontend.paddle.json_types import Json, write_op_name, write_type
from pirkit.frontend.paddle.text_reader import ID

_BRACKETS_PER_REGION: Final = 6
_OF_RESULTS: Final = ("persistable", "stop_gradient")
"""Attributes with one entry per result, in Paddle's order."""

_OURS: Final = {
    "pir.map_expr": "write the program as it is before `fuse`, as `@simplify` leaves it",
    "pir.gradient": "run the pass `expand-gradients` first",
    "pir.jet": "run the pass `expand-gradients` first",
}
"""Ops that Paddle does not have, and the pass to run before writing a program that holds them."""

_DISTRIBUTED: Final = ("op_dist_attr", "op_role")
"""Attributes of a parameter that have a list of their own, ``DA``."""
_UNWRITTEN: Final = frozenset({ID, "op_callstack", *_OF_RESULTS})


def write_paddle_json(module: mlir.ModuleOp) -> str:
    """The JSON of a module that holds one program.

    Values are numbered in program order, nested blocks included. Paddle's own reader does not
    accept a NaN attribute, and it drops keyword arguments, ``comp_op_name`` and attributes of loop
    arguments; all are written nevertheless, so that pirkit reads back what it wrote. An argument of
    unknown type has the null type. ``op_callstack`` is not written.

    Raises UnsupportedError for a module with several programs, or for an op, a type or an attribute
    that Paddle does not have.
    """
    programs = [op for op in with_operands_restored(module).ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        raise UnsupportedError(
            f"a module of {len(programs)} programs as one JSON file",
            code="PK0403",
            help="write each program to a file of its own",
        )
    document = {
        "base_code": {"magic": "pir", "trainable": True, "version": VERSION},
        "program": {"regions": [_Writer().region(programs[0], 0)]},
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    """Numbers of one program: results count up, arguments down, blocks by order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}
        self.results = 0
        self.args = 0
        self.blocks = 0

    def region(self, op: PirOp | ProgramOp, index: int, depth: int = 1) -> Json:
        """A region with its one block; nested regions follow by recursion."""
        check("nesting", depth * _BRACKETS_PER_REGION // BRACKETS_PER_LEVEL, span_of(op))
        number = self.blocks
        self.blocks += 1
        block = op.regions[index].block
        written: Json = {"#": f"block_{number}"}
        entries = op.arg_attrs or tuple(mlir.DictionaryAttr({}) for _ in block.args)
        args = [self.argument(a, e) for a, e in zip(block.args, entries, strict=True)]
        if isinstance(op, ProgramOp) and args:
            written |= {"args": [], "kwargs": args}
        else:
            written["args"] = args
        written["ops"] = [self.operation(cast(PirOp, o), depth) for o in block.ops]
        return {"#": f"region_{number}", "blocks": [written]}

    def argument(self, argument: SSAValue, entries: mlir.DictionaryAttr) -> Json:
        self.args -= 1
        self.numbers[argument] = self.args
        held = {k: v for k, v in entries.data.items() if k != KEYWORD}
        made: Json = {"#": self.args}
        if held:
            made["A"] = [_named(k, write_attribute(v)) for k, v in held.items()]
        made["TT"] = write_type(None if argument.type is OPAQUE else argument.type)
        if KEYWORD in entries.data:
            made["key"] = cast(mlir.StringAttr, entries.data[KEYWORD]).data
        return made

    def operation(self, op: PirOp, depth: int) -> Json:
        if op.name in _OURS:
            raise UnsupportedError(
                f"`{op.name}` is no operator of Paddle",
                code="PK0403",
                span=span_of(op),
                help=_OURS[op.name],
            )
        try:
            made = self.parameter(op) if op.name == "pir.parameter" else self.plain(op)
        except UnsupportedError as error:
            error.span = error.span or span_of(op)
            raise
        if bodies(op):
            made["regions"] = [self.region(op, i, depth + 1) for i in range(len(bodies(op)))]
        return made

    def plain(self, op: PirOp) -> Json:
        return {
            "#": write_op_name(op.name),
            "A": _attributes(op),
            "I": [{"%": self.number_of(op, v)} for v in op.operand_slots],
            "O": [self.result(v) for v in op.result_slots],
            "OA": [_named(n, write_attribute(a)) for n, a in _of_results(op)],
        }

    def parameter(self, op: PirOp) -> Json:
        """The short form of a parameter: flags by position."""
        printed = [(name, value) for name, value in op.attributes.items() if name not in _UNWRITTEN]
        return {
            "#": "p",
            "A": [*(_flag(op, n) for n in PARAMETER_FLAGS), op.attribute("parameter_name")],
            "DA": [_named(n, write_attribute(a)) for n, a in printed if n in _DISTRIBUTED],
            "O": self.result(op.results[0]),
            "OA": [_flag(op, name) for name in PARAMETER_RESULT_FLAGS],
            "QA": [_named(n, write_attribute(a)) for n, a in printed if n not in _DISTRIBUTED],
        }

    def number_of(self, op: PirOp, value: SSAValue | None) -> int:
        if value is None:
            return 0
        number = self.numbers.get(value)
        if number is None:
            raise VerifyError(
                f"`{op.name}` uses {describe(value)} where it is not defined",
                code="PK0201",
                span=span_of(op),
            )
        return number

    def result(self, value: SSAValue | None) -> Json:
        """A result; an empty slot gets a number too."""
        self.results += 1
        if value is not None:
            self.numbers[value] = self.results
        return {"%": self.results, "TT": write_type(None if value is None else value.type)}


def _named(name: str, written: Json) -> Json:
    return {"AT": written, "N": name}


def _flag(op: PirOp, name: str) -> int:
    values = op.attribute(name)
    if len(values) != 1:
        raise UnsupportedError(f"a parameter with {len(values)} flags `{name}`", code="PK0403")
    return int(values[0])


def _of_results(op: PirOp) -> Iterator[tuple[str, Attribute]]:
    for name in _OF_RESULTS:
        held = op.properties.get(name) or op.attributes.get(name)
        if held is not None:
            yield name, held


def _attributes(op: PirOp) -> list[Json]:
    """Declared attributes in declared order, with defaults; then all others."""
    written: list[Json] = []
    for attr in op.definition.attrs:
        if attr.name in _OF_RESULTS:
            continue
        held = op.properties.get(attr.name)
        if held is None:
            if attr.default is REQUIRED:
                raise VerifyError(
                    f"`{op.name}` lacks its attribute `{attr.name}`",
                    code="PK0205",
                    span=span_of(op),
                )
            held = encode(attr.kind, attr.default)
        made = write_attribute(held, attr.kind)
        if op.name == "pir.constant":
            made = {**made, "#": "0.a_tensorname"}
        written.append(_named(attr.name, made))
    for name, held in op.attributes.items():
        if name not in _UNWRITTEN:
            written.append(_named(name, write_attribute(held)))
    return written
