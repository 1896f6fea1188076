"""The verifier: one linear walk, without recursion, that checks what xDSL does not check.

Per program: every use is dominated by its definition, blocks end in one ``pir.yield``, input names
are unique, stacks have one push and one pop. What holds of one operation is in `verify_op.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn, cast

from msgspec import Struct
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.exceptions import VerifyException

from pirkit.diag.errors import LimitError, PirkitError, VerifyError
from pirkit.diag.limits import check
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, describe, origin_of, span_of
from pirkit.dialect.retyped_storage import RetypedStorage
from pirkit.dialect.types import check_names
from pirkit.dialect.verify_op import check_regions, fail, verify_op


def verify_module(module: mlir.ModuleOp, found: list[PirkitError] | None = None) -> None:
    """Check every program of a module.

    Raises VerifyError (or LimitError) with the span of the first op that breaks a rule; with
    ``found``, errors of operations are put there instead, and the walk goes on.
    """
    if len(module.body.blocks) != 1:
        fail(module, "PK0209", f"a module has one block, not {len(module.body.blocks)}")
    symbols: dict[str, ProgramOp] = {}
    for op in module.ops:
        if not isinstance(op, ProgramOp):
            is_module = isinstance(op, mlir.ModuleOp)
            hint = "a text is one module: write `// -----` between two, for `--split-input-file`"
            hint = hint if is_module else "put it in a `pir.program`"
            fail(op, "PK0209", f"`{op.name}` is outside a program", hint)
        verify_program(op, found)
        if op.symbol in symbols:
            fail(op, "PK0207", f"there are two programs called @{op.symbol}")
        symbols[op.symbol] = op


def verify_program(program: ProgramOp, found: list[PirkitError] | None = None) -> None:
    """Check one program. Raises VerifyError with the span of the first offending op, or collects
    the errors of all in ``found``.
    """
    if len(program.regions) != 1 or len(program.regions[0].blocks) != 1:
        fail(program, "PK0209", "a program has exactly one block")
    _check_header(program)
    _Walk(program, found).run()


def _check_header(program: ProgramOp) -> None:
    """The name of a program and the keywords of its arguments."""
    for name in program.properties:
        if name not in ("sym_name", ARG_ATTRS):
            fail(program, "PK0205", f"a program has no attribute `{name}`")
    if not isinstance(program.properties.get("sym_name"), mlir.StringAttr):
        fail(program, "PK0205", "a program lacks its name, a string `sym_name`")
    held = program.properties.get(ARG_ATTRS)
    entries = list(cast("mlir.ArrayAttr[Attribute]", held)) if _is_list(held) else []
    keywords = [
        entry.data.get(KEYWORD) for entry in entries if isinstance(entry, mlir.DictionaryAttr)
    ]
    named = len(keywords) == len(entries) == len(program.block.args)
    if not named or not all(isinstance(k, mlir.StringAttr) for k in keywords):
        fail(program, "PK0209", "every argument of a program needs a keyword")


def _is_list(attribute: Attribute | None) -> bool:
    return isinstance(attribute, mlir.ArrayAttr)


class _Frame(Struct):
    """A block during the walk."""

    ops: Iterator[Operation]
    depth: int
    defined: list[SSAValue]
    makes: Sequence[SSAValue] = ()
    """The values that become visible after the block: the results of the op that it ends."""


class _Walk:
    """State of the walk over one program."""

    def __init__(self, program: ProgramOp, found: list[PirkitError] | None) -> None:
        self.program = program
        self.found = found
        self.visible: set[SSAValue] = set()
        self.names: set[tuple[str, str]] = set()
        self.token_uses: dict[tuple[SSAValue, str], Operation] = {}
        self.retyped = RetypedStorage()
        self.count = 0

    def run(self) -> None:
        _check_names(self.program, self.program.block.args)
        for keyword in self.program.keywords:
            self._check_name(self.program, "input", keyword)
        stack = [_Frame(iter(self.program.block.ops), 1, list(self.program.block.args))]
        self.visible.update(self.program.block.args)
        while stack:
            frame = stack[-1]
            op = next(frame.ops, None)
            if op is None:
                stack.pop()
                self.visible.difference_update(frame.defined)
                if stack:
                    self._define(stack[-1], frame.makes)
                continue
            try:
                self._visit(op)
            except PirkitError as error:
                if self.found is None:
                    raise
                self.found.append(error)
                self._define(frame, op.results)
                continue  # its regions may not have the form that the walk expects
            if not bodies(op):
                self._define(frame, op.results)
            makes: Sequence[SSAValue] = op.results
            for region in reversed(bodies(op)):
                check("nesting", frame.depth + 1, span_of(op))
                block = region.block
                self.visible.update(block.args)
                _check_names(op, block.args)
                stack.append(_Frame(iter(block.ops), frame.depth + 1, list(block.args), makes))
                makes = ()
        check("ops", self.count, span_of(self.program))
        try:
            self.retyped.finish()
        except VerifyError as error:
            if self.found is None:
                raise
            self.found.append(error)

    def _define(self, frame: _Frame, values: Sequence[SSAValue]) -> None:
        frame.defined.extend(values)
        self.visible.update(values)

    def _visit(self, op: Operation) -> None:
        self.count += 1
        if not isinstance(op, PirOp):
            fail(op, "PK0404", f"`{op.name}` is no operation of a program")
        for index, value in enumerate(op._operands):  # pyright: ignore[reportPrivateUsage]
            if value not in self.visible:
                self._not_dominated(op, index, value)
        verify_op(op)
        self.retyped.visit(op)
        _check_names(op, op.results)
        if bodies(op):
            check_regions(op)
        elif op.name == "pir.yield":
            self._check_yield(op)
        elif op.name in _NAMED:
            key, attribute = _NAMED[op.name]
            self._check_name(op, key, op.attribute(attribute))
        elif op.name in _TOKEN_OPS:
            self._check_token(op)

    def _not_dominated(self, op: PirOp, index: int, value: SSAValue) -> NoReturn:
        owner = None if isinstance(value, ForwardDeclaredValue) else value.owner
        where = f"`{owner.name}`" if isinstance(owner, Operation) else "another block"
        definition_span = span_of(owner) if isinstance(owner, Operation) else None
        raise VerifyError(
            f"operand {index} of `{op.name}` uses {describe(value)} where it is not defined",
            code="PK0201",
            span=span_of(op),
            notes=(
                f"defined by {where}" + (f" at {definition_span}" if definition_span else ""),
                *origin_of(op),
            ),
            help="a value may be used after its definition, in its own block and the blocks inside",
        )

    def _check_yield(self, op: PirOp) -> None:
        block = op.parent
        if block is self.program.block:
            fail(op, "PK0206", "`pir.yield` ends a region; a program has no terminator")
        if block is not None and block.last_op is not op:
            fail(op, "PK0206", "`pir.yield` is not the last operation of its block")

    def _check_name(self, op: Operation, key: str, name: str) -> None:
        if (key, name) in self.names:
            fail(op, "PK0207", f"the program has two {key}s called {name!r}")
        self.names.add((key, name))

    def _check_token(self, op: PirOp) -> None:
        first = self.token_uses.setdefault((op.operands[0], op.name), op)
        if first is not op:
            fail(op, "PK0208", f"a second `{op.name}` on one stack")


_NAMED = {
    "pd_op.data": ("input", "name"),
    "pd_op.feed": ("input", "name"),
    "pir.parameter": ("parameter", "parameter_name"),
    "pir.shadow_output": ("output", "output_name"),
}
_TOKEN_OPS = {"pir.tuple_push", "pir.tuple_pop"}


def _check_names(op: Operation, values: Sequence[SSAValue]) -> None:
    for value in values:
        try:
            check_names(value.type)
        except (VerifyError, LimitError) as error:
            error.span = span_of(op)
            raise


def verify_program_for_xdsl(program: ProgramOp) -> None:
    """Called by xDSL's own verifier (``xdsl-opt``)."""
    try:
        verify_program(program)
    except PirkitError as error:
        raise VerifyException(error.message) from error
