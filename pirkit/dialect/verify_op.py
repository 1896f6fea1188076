"""Checks of one operation: slots, attribute kinds, result types against ``infer_meta``, legality of
in-place writes, agreement of control-flow types.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, NoReturn, cast

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from pirkit.diag.errors import ConstraintError, PirkitError, VerifyError
from pirkit.dialect.attrs import DISCARDABLE, KINDS, is_discardable
from pirkit.dialect.declared_types import is_left_empty, may_declare
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.op_form import REGIONS, STRUCTURAL
from pirkit.dialect.opdef import OpDef, infer_meta
from pirkit.dialect.operation import PirOp, bodies, origin_of, span_of
from pirkit.dialect.parse_advice import SPELLED
from pirkit.dialect.signature import REQUIRED
from pirkit.dialect.types import OPAQUE, meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, compatible


def verify_op(op: PirOp) -> None:
    """Check one operation on its own. Raises VerifyError."""
    definition = op.definition
    _check_slots(op, definition)
    _check_attributes(op, definition)
    found, wanted = len(bodies(op)), REGIONS.get(op.name, 0)
    if found != wanted:
        fail(op, "PK0209", f"`{op.name}` has {found} regions, expected {wanted}")
    if definition.writes:
        _check_writes(op, definition)
    if infer_meta.get(definition) is not None:
        _check_result_types(op, definition)


def _check_slots(op: PirOp, definition: OpDef) -> None:
    for what, slots, values in (
        ("operand", definition.operands, op.operand_slots),
        ("result", definition.results, op.result_slots),
    ):
        variadic = bool(slots) and slots[-1].variadic
        least = len(slots) - variadic
        if len(values) < least or (len(values) > least and not variadic):
            expected = f"at least {least}" if variadic else str(least)
            fail(
                op,
                "PK0204",
                f"`{op.name}` has {len(values)} {what}s, expected {expected}",
                f"its signature is `{definition.signature_text}`",
            )
        for slot, value in zip(slots, values, strict=False):
            if value is None:
                if what == "operand" and not slot.optional and not _has_attribute(op, slot.name):
                    fail(op, "PK0204", f"operand `{slot.name}` of `{op.name}` is missing")
            elif slot.is_vec and value.type.name != "pir.vec":
                if getattr(slot, "kind", None) is None:
                    fail(
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


_READ: Final = ("stop_gradient", "persistable")
"""Discardable attributes that passes read."""


def _check_attributes(op: PirOp, definition: OpDef) -> None:
    kinds = definition.attr_kinds
    for name, value in op.properties.items():
        if name in op.form:
            continue
        kind = kinds.get(name)
        if kind is None:
            _unknown_attribute(op, name)
        if not KINDS[kind].accepts(value):
            _wrong_kind(op, name, value, kind)
    for name, value in op.attributes.items():
        if name not in STRUCTURAL and not is_discardable(name):
            _unknown_attribute(op, name)
        if name in _READ and not KINDS[DISCARDABLE[name]].accepts(value):
            _wrong_kind(op, name, value, DISCARDABLE[name])
    for attr in definition.attrs:
        if attr.default is REQUIRED and not (attr.name in op.properties or op.is_kernel):
            example = SPELLED.get(attr.kind, attr.kind)
            fail(
                op,
                "PK0205",
                f"`{op.name}` lacks its attribute `{attr.name}`",
                f"write it after the operands: `{{{attr.name} = {example}}}`",
            )


def _wrong_kind(op: PirOp, name: str, value: Attribute, kind: str) -> NoReturn:
    fail(
        op,
        "PK0205",
        f"attribute `{name}` of `{op.name}` is `{value}`, expected {kind}",
        f"for instance `{name} = {SPELLED.get(kind, kind)}`",
    )


def _unknown_attribute(op: PirOp, name: str) -> NoReturn:
    known = list(op.definition.attr_kinds)
    near = {k.lower(): k for k in (*DISCARDABLE, *known)}
    lacking = [a.name for a in op.definition.attrs if a.name not in op.properties]
    found = [k for k in lacking if name.lower() in k.lower()]  # `name` of an `output_name`
    found = found or get_close_matches(name.lower(), near, n=1)
    listed = ", ".join(f"`{k}`" for k in known) or "none"
    fail(
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
        owner = target.owner
        is_list = isinstance(owner, PirOp) and owner.name == "pir.combine"
        for one in cast(PirOp, owner).operands if is_list else (target,):
            if one in written:
                both = {f"`{written[one]}`": None, f"`{operand}`": None}
                how = "through both" if len(both) > 1 else "twice through"
                fail(op, "PK0208", f"`{op.name}` writes one value {how} {' and '.join(both)}")
            written[one] = operand
        if isinstance(owner, Operation) and owner.name == "pir.constant":
            fail(op, "PK0208", f"`{op.name}` writes a constant through `{operand}`")
        made = op.result_named(result)
        if made is None or _fits(meta_of(made.type), meta_of(target.type)):
            continue
        if not is_left_empty(op, [r.name for r in definition.results].index(result)):
            fail(
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
        fail(op, "PK0204", f"`{op.name}` has {len(declared)} results, expected {len(inferred)}")
    for slot, (have, want) in enumerate(zip(declared, inferred, strict=True)):
        if have is None or want is None or have.type is want:
            continue
        if not may_declare(op, slot, meta_of(want)):
            fail(
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


def check_regions(op: PirOp) -> None:
    """Check the blocks of an operation, whose own operations were checked before."""
    for region in op.regions:
        if len(region.blocks) != 1:
            fail(op, "PK0209", f"a region of `{op.name}` has {len(region.blocks)} blocks")
        last = region.block.last_op
        if last is None or last.name != "pir.yield":
            fail(op, "PK0206", f"a block of `{op.name}` does not end in `pir.yield`")
        if region.block.args and op.name != "pd_op.while":
            fail(op, "PK0209", f"a block of `{op.name}` takes no arguments")
    results = [r.type for r in op.results]
    yields = [_yielded(region.block) for region in op.regions]
    if op.name == "pd_op.while":
        inits = [v.type for v in op.operands[1:]]
        args = [a.type for a in op.regions[0].block.args]
        if not yields[0]:
            fail(op, "PK0209", "the body of `pd_op.while` yields no condition")
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
        fail(
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
        fail(op, "PK0209", f"`{op.name}` has {len(left)} {what} but {len(right)} {other}")
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if a is not b and OPAQUE not in (a, b) and not compatible(meta_of(a), meta_of(b)):
            fail(
                op, "PK0202", f"value {index} of `{op.name}`: {what} `{a}` and {other} `{b}` differ"
            )


def fail(op: Operation, code: str, message: str, help: str | None = None) -> NoReturn:
    """Raise VerifyError at an operation."""
    raise VerifyError(message, code=code, span=span_of(op), notes=origin_of(op), help=help)


def verify_op_for_xdsl(op: PirOp) -> None:
    """Called by xDSL's own verifier (``xdsl-opt``)."""
    try:
        verify_op(op)
        if bodies(op):
            check_regions(op)
    except PirkitError as error:
        raise VerifyException(error.message) from error
