"""The verifier: one linear walk, without recursion, that checks what xDSL does not check.

Per program: every use is dominated by its definition, blocks end in one ``pir.yield``, input names
are unique, stacks have one push and one pop. Per op: slots, attribute kinds, result types against
``infer_meta``, legality of in-place writes, agreement of control-flow types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.exceptions import VerifyException

from pirkit.diag.errors import ConstraintError, LimitError, PirkitError, VerifyError
from pirkit.diag.limits import check
from pirkit.dialect.attrs import DISCARDABLE, KINDS, is_discardable
from pirkit.dialect.declared_types import is_left_empty, may_declare
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.op_form import ARG_ATTRS, KEYWORD, REGIONS, STRUCTURAL
from pirkit.dialect.opdef import OpDef, infer_meta
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, describe, origin_of, span_of
from pirkit.dialect.parse_advice import SPELLED
from pirkit.dialect.retyped_storage import RetypedStorage
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.types import OPAQUE, check_names, meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, compatible


def verify_module(module: mlir.ModuleOp, found: list[PirkitError] | None = None) -> None:
    """Check every program of a module.

    Raises VerifyError (or LimitError) with the span of the first op that breaks a rule; with
    ``found``, errors of operations are put there instead, and the walk goes on.
    """
    if len(module.body.blocks) != 1:
        _fail(module, "PK0209", f"a module has one block, not {len(module.body.blocks)}")
    symbols: dict[str, ProgramOp] = {}
    for op in module.ops:
        if not isinstance(op, ProgramOp):
            is_module = isinstance(op, mlir.ModuleOp)
            hint = "a text is one module: write `// -----` between two, for `--split-input-file`"
            hint = hint if is_module else "put it in a `pir.program`"
            _fail(op, "PK0209", f"`{op.name}` is outside a program", hint)
        verify_program(op, found)
        if op.symbol in symbols:
            _fail(op, "PK0207", f"there are two programs called @{op.symbol}")
        symbols[op.symbol] = op


def verify_program(program: ProgramOp, found: list[PirkitError] | None = None) -> None:
    """Check one program. Raises VerifyError with the span of the first offending op, or collects
    the errors of all in ``found``.
    """
    if len(program.regions) != 1 or len(program.regions[0].blocks) != 1:
        _fail(program, "PK0209", "a program has exactly one block")
    _check_header(program)
    _Walk(program, found).run()


def _check_header(program: ProgramOp) -> None:
    """The name of a program and the keywords of its arguments."""
    for name in program.properties:
        if name not in ("sym_name", ARG_ATTRS):
            _fail(program, "PK0205", f"a program has no attribute `{name}`")
    if not isinstance(program.properties.get("sym_name"), mlir.StringAttr):
        _fail(program, "PK0205", "a program lacks its name, a string `sym_name`")
    held = program.properties.get(ARG_ATTRS)
    entries = list(cast("mlir.ArrayAttr[Attribute]", held)) if _is_list(held) else []
    keywords = [
        entry.data.get(KEYWORD) for entry in entries if isinstance(entry, mlir.DictionaryAttr)
    ]
    named = len(keywords) == len(entries) == len(program.block.args)
    if not named or not all(isinstance(k, mlir.StringAttr) for k in keywords):
        _fail(program, "PK0209", "every argument of a program needs a keyword")


def _is_list(attribute: Attribute | None) -> bool:
    return isinstance(attribute, mlir.ArrayAttr)


def verify_op(op: PirOp) -> None:
    """Check one operation on its own. Raises VerifyError."""
    definition = op.definition
    _check_slots(op, definition)
    _check_attributes(op, definition)
    found, wanted = len(bodies(op)), REGIONS.get(op.name, 0)
    if found != wanted:
        _fail(op, "PK0209", f"`{op.name}` has {found} regions, expected {wanted}")
    if definition.writes:
        _check_writes(op, definition)
    if infer_meta.get(definition) is not None:
        _check_result_types(op, definition)


@dataclass(slots=True)
class _Frame:
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
        self.retyped.finish()

    def _define(self, frame: _Frame, values: Sequence[SSAValue]) -> None:
        frame.defined.extend(values)
        self.visible.update(values)

    def _visit(self, op: Operation) -> None:
        self.count += 1
        if not isinstance(op, PirOp):
            _fail(op, "PK0404", f"`{op.name}` is no operation of a program")
        for index, value in enumerate(op._operands):  # pyright: ignore[reportPrivateUsage]
            if value not in self.visible:
                self._not_dominated(op, index, value)
        verify_op(op)
        self.retyped.visit(op)
        _check_names(op, op.results)
        if bodies(op):
            _check_regions(op)
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
            _fail(op, "PK0206", "`pir.yield` ends a region; a program has no terminator")
        if block is not None and block.last_op is not op:
            _fail(op, "PK0206", "`pir.yield` is not the last operation of its block")

    def _check_name(self, op: Operation, key: str, name: str) -> None:
        if (key, name) in self.names:
            _fail(op, "PK0207", f"the program has two {key}s called {name!r}")
        self.names.add((key, name))

    def _check_token(self, op: PirOp) -> None:
        first = self.token_uses.setdefault((op.operands[0], op.name), op)
        if first is not op:
            _fail(op, "PK0208", f"a second `{op.name}` on one stack")


_NAMED = {
    "pd_op.data": ("input", "name"),
    "pd_op.feed": ("input", "name"),
    "pir.parameter": ("parameter", "parameter_name"),
    "pir.shadow_output": ("output", "output_name"),
}
_TOKEN_OPS = {"pir.tuple_push", "pir.tuple_pop"}


def _check_slots(op: PirOp, definition: OpDef) -> None:
    for what, slots, values in (
        ("operand", definition.operands, op.operand_slots),
        ("result", definition.results, op.result_slots),
    ):
        variadic = bool(slots) and slots[-1].variadic
        least = len(slots) - variadic
        if len(values) < least or (len(values) > least and not variadic):
            expected = f"at least {least}" if variadic else str(least)
            _fail(
                op,
                "PK0204",
                f"`{op.name}` has {len(values)} {what}s, expected {expected}",
                f"its signature is `{definition.signature_text}`",
            )
        for slot, value in zip(slots, values, strict=False):
            if value is None:
                if what == "operand" and not slot.optional and not _has_attribute(op, slot.name):
                    _fail(op, "PK0204", f"operand `{slot.name}` of `{op.name}` is missing")
            elif slot.is_vec and value.type.name != "pir.vec":
                if getattr(slot, "kind", None) is None:
                    _fail(
                        op,
                        "PK0202",
                        f"{what} `{slot.name}` of `{op.name}` must be a list, not `{value.type}`",
                        "make a list with `pir.combine`",
                    )


def _has_attribute(op: PirOp, name: str) -> bool:
    if name in op.properties:
        return True
    slot = next(o for o in op.definition.operands if o.name == name)
    return slot.kind is not None and slot.default is not REQUIRED


def _check_attributes(op: PirOp, definition: OpDef) -> None:
    kinds = definition.attr_kinds
    for name, value in op.properties.items():
        if name in op.form:
            continue
        kind = kinds.get(name)
        if kind is None:
            _unknown_attribute(op, name)
        if not KINDS[kind].accepts(value):
            _fail(
                op,
                "PK0205",
                f"attribute `{name}` of `{op.name}` is `{value}`, expected {kind}",
                f"for instance `{name} = {SPELLED.get(kind, kind)}`",
            )
    for name in op.attributes:
        if name not in STRUCTURAL and not is_discardable(name):
            _unknown_attribute(op, name)
    for attr in definition.attrs:
        if attr.default is REQUIRED and not (attr.name in op.properties or op.is_kernel):
            example = SPELLED.get(attr.kind, attr.kind)
            _fail(
                op,
                "PK0205",
                f"`{op.name}` lacks its attribute `{attr.name}`",
                f"write it behind the operands: `{{{attr.name} = {example}}}`",
            )


def _unknown_attribute(op: PirOp, name: str) -> NoReturn:
    known = list(op.definition.attr_kinds)
    near = {k.lower(): k for k in (*DISCARDABLE, *known)}
    lacking = [a.name for a in op.definition.attrs if a.name not in op.properties]
    found = [k for k in lacking if name.lower() in k.lower()]  # `name` of an `output_name`
    found = found or get_close_matches(name.lower(), near, n=1)
    listed = ", ".join(f"`{k}`" for k in known) or "none"
    _fail(
        op,
        "PK0205",
        f"`{op.name}` has no attribute `{name}`",
        f"did you mean `{near[found[0].lower()]}`?" if found else f"its attributes are {listed}",
    )


def _check_writes(op: PirOp, definition: OpDef) -> None:
    written: dict[SSAValue, str] = {}
    for result, operand in definition.inplace.items():
        target = op.operand_named(operand)
        if target is None:
            continue
        if target in written:
            _fail(
                op,
                "PK0208",
                f"`{op.name}` writes one value through both `{written[target]}` and `{operand}`",
            )
        written[target] = operand
        owner = target.owner
        if isinstance(owner, Operation) and owner.name == "pir.constant":
            _fail(op, "PK0208", f"`{op.name}` writes a constant through `{operand}`")
        made = op.result_named(result)
        if made is None or _fits(meta_of(made.type), meta_of(target.type)):
            continue
        if not is_left_empty(op, [r.name for r in definition.results].index(result)):
            _fail(
                op,
                "PK0208",
                f"`{op.name}` writes `{made.type}` over `{operand}`, which is `{target.type}`",
                f"use `{definition.base.name}`" if definition.pure else None,
            )


def _fits(new: Meta, old: Meta) -> bool:
    """True if a write may change storage from ``old`` to ``new``; it must not broadcast up."""
    if not isinstance(new, TensorMeta) or not isinstance(old, TensorMeta):
        return True
    return new.numel == old.numel or not new.is_static or not old.is_static


def _check_result_types(op: PirOp, definition: OpDef) -> None:
    try:
        inferred = infer_result_types(definition, op.operand_slots, op.call_properties)
    except ConstraintError as error:
        raise VerifyError(
            f"`{op.name}`: {error.message}",
            code="PK0203",
            span=error.span or span_of(op),
            notes=(
                f"constraint {error.constraint} of `{op.name}`",
                *_constraint(op, error),
                *origin_of(op),
            ),
            help=error.help,
        ) from error
    except PirkitError as error:
        error.span = error.span or span_of(op)
        raise
    declared = op.result_slots
    if len(inferred) != len(declared):
        _fail(op, "PK0204", f"`{op.name}` has {len(declared)} results, expected {len(inferred)}")
    for slot, (have, want) in enumerate(zip(declared, inferred, strict=True)):
        if have is None or want is None or have.type is want:
            continue
        if not may_declare(op, slot, meta_of(want)):
            _fail(
                op,
                "PK0202",
                f"result {slot} of `{op.name}` is declared `{have.type}` but is `{want}`",
            )


def _constraint(op: PirOp, error: ConstraintError) -> tuple[str, ...]:
    """The sentence of the docstring with the constraint's number."""
    prefix = f"{error.constraint}:"
    for line in op.definition.doc.splitlines():
        if line.strip().startswith(prefix):
            return (line.strip(),)
    return ()


def _check_regions(op: PirOp) -> None:
    for region in op.regions:
        if len(region.blocks) != 1:
            _fail(op, "PK0209", f"a region of `{op.name}` has {len(region.blocks)} blocks")
        last = region.block.last_op
        if last is None or last.name != "pir.yield":
            _fail(op, "PK0206", f"a block of `{op.name}` does not end in `pir.yield`")
        if region.block.args and op.name != "pd_op.while":
            _fail(op, "PK0209", f"a block of `{op.name}` takes no arguments")
    results = [r.type for r in op.results]
    yields = [_yielded(region.block) for region in op.regions]
    if op.name == "pd_op.while":
        inits = [v.type for v in op.operands[1:]]
        args = [a.type for a in op.regions[0].block.args]
        if not yields[0]:
            _fail(op, "PK0209", "the body of `pd_op.while` yields no condition")
        _agree(op, "initial values", inits, "arguments", args)
        _agree(op, "arguments", args, "yielded values", yields[0][1:])
        _agree(op, "results", results, "yielded values", yields[0][1:])
        _check_condition(op, yields[0][0])
    else:
        for values in yields:
            _agree(op, "results", results, "yielded values", values)
    if op.name != "pd_op.pylayer":
        _check_condition(op, op.operands[0].type)


def _check_condition(op: PirOp, type_: Attribute) -> None:
    if type_ == OPAQUE:
        return
    meta = meta_of(type_)
    is_bool = isinstance(meta, TensorMeta) and meta.dtype == dt.bool_
    if not is_bool or cast(TensorMeta, meta).numel not in (1, UNKNOWN):
        _fail(
            op,
            "PK0203",
            f"the condition of `{op.name}` is `{type_}`, not one bool",
            "compare, as `pd_op.less_than` does; `pd_op.any` and `pd_op.all` make one of several",
        )


def _yielded(block: Block) -> list[Attribute]:
    last = cast(Operation, block.last_op)
    return [v.type for v in last.operands]


def _agree(
    op: PirOp, what: str, left: Sequence[Attribute], other: str, right: Sequence[Attribute]
) -> None:
    if len(left) != len(right):
        _fail(op, "PK0209", f"`{op.name}` has {len(left)} {what} but {len(right)} {other}")
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if a is not b and OPAQUE not in (a, b) and not compatible(meta_of(a), meta_of(b)):
            _fail(
                op, "PK0202", f"value {index} of `{op.name}`: {what} `{a}` and {other} `{b}` differ"
            )


def _check_names(op: Operation, values: Sequence[SSAValue]) -> None:
    for value in values:
        try:
            check_names(value.type)
        except (VerifyError, LimitError) as error:
            error.span = span_of(op)
            raise


def _fail(op: Operation, code: str, message: str, help: str | None = None) -> NoReturn:
    raise VerifyError(message, code=code, span=span_of(op), notes=origin_of(op), help=help)


def verify_op_for_xdsl(op: PirOp) -> None:
    """Called by xDSL's own verifier (``xdsl-opt``)."""
    try:
        verify_op(op)
        if bodies(op):
            _check_regions(op)
    except PirkitError as error:
        raise VerifyException(error.message) from error


def verify_program_for_xdsl(program: ProgramOp) -> None:
    """Called by xDSL's own verifier (``xdsl-opt``)."""
    try:
        verify_program(program)
    except PirkitError as error:
        raise VerifyException(error.message) from error
