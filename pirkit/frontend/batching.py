"""Maps an op over rows: by a batching rule, by its decomposition, or in a loop over the rows.

An op without a rule is decomposed into ops that have one. If neither exists, it runs row by row if
the sizes of its results are known.
"""

from __future__ import annotations

from typing import Any, Final, cast

from xdsl.ir import Block, Operation, SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import ELEMENTWISE, LIST
from pirkit.dialect.opdef import RANDOM
from pirkit.dialect.operation import PirOp, bodies, declares, span_of
from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched, OneRow
from pirkit.frontend.batching_rules import RULES, Rule, elementwise
from pirkit.frontend.row_loop import each_row
from pirkit.passes.decompose import decompose_op
from pirkit.runtime.meta import TensorMeta, VecMeta


def apply_rule(
    b: Builder, op: PirOp, values: dict[SSAValue, Any], count: int, alike: bool = False
) -> Operation | None:
    """Emit an op for all ``count`` rows, and add the batched forms of its results to ``values``.

    Returns the op to continue with: the next one, or the first of those into which ``op`` was
    decomposed. Raises UnsupportedError (PK0402), naming op and line, for an op that cannot be
    mapped over rows; random ops are among them unless all rows are to be ``alike`` in what they
    draw.
    """
    if op.name == "pir.combine":
        values[op.results[0]] = [values[v] for v in op.operands]
        return op.next_op
    if declares(op, LIST):
        held = values[op.operands[0]]
        is_one = "index" in op.definition.attr_kinds
        parts = [held[op.attribute("index")]] if is_one else held
        values.update(zip(op.results, parts, strict=True))
        return op.next_op
    operands = tuple([None if v is None else values[v] for v in op.operand_slots])
    one = OneRow(b, op, operands, count)
    draws = op.definition.effects == RANDOM and not alike
    if not any(_has_rows(v) for v in operands) and not draws:
        _shared(one, values)
        return op.next_op
    if draws:
        return _undrawn(op)
    if op.definition.writes:
        raise no_rule(op)
    saved, b.location = b.location, op.location
    try:
        rule = _rule_of(one)
        found = rule(one) if rule is not None else None
        if found is None:
            before, block = op.prev_op, op.parent  # `decompose_op` erases the op
            if decompose_op(op):
                assert block is not None
                return block.first_op if before is None else before.next_op
            found = each_row(one)
    finally:
        b.location = saved
    if found is None:
        raise no_rule(op)
    several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    for i, (result, value) in enumerate(zip(op.result_slots, several, strict=False)):
        if result is not None:
            is_stopped = any(op.stop_gradient[i : i + 1])
            parts = cast("list[Any]", value) if isinstance(value, list) else [value]
            rows = [
                v
                if isinstance(v, Batched)
                else Batched(_stopped(b, v) if is_stopped and isinstance(v, Value) else v, True)
                for v in parts
            ]
            values[result] = rows if isinstance(value, list) else rows[0]
    return op.next_op


def _undrawn(op: PirOp) -> Operation | None:
    """Decompose an op that draws by its attributes only, such as `dropout`: the first part.

    Raises UnsupportedError (PK0402) if a part draws.
    """
    refusal, before, after, block = no_rule(op), op.prev_op, op.next_op, cast("Block", op.parent)
    if not decompose_op(op):
        raise refusal
    first = part = block.first_op if before is None else before.next_op
    while part is not None and part is not after:
        if any(cast(PirOp, o).definition.effects == RANDOM for o in part.walk()):
            raise refusal
        part = part.next_op
    return first


def _stopped(b: Builder, value: Value) -> Value:
    """A value through which no derivative flows."""
    made = b("pd_op.assign", value)
    cast(PirOp, made.ssa.owner).attributes["stop_gradient"] = encode("bool[]", (True,))
    return made


def _shared(one: OneRow, values: dict[SSAValue, Any]) -> None:
    """Emit an op once, as none of its operands differs from row to row.

    Raises UnsupportedError (PK0402) if a result is neither a tensor nor a list of tensors.
    """
    metas = [meta_of(result.type) for result in one.op.results]
    if not all(isinstance(meta, TensorMeta | VecMeta) for meta in metas):
        raise no_rule(one.op)
    mapped: dict[SSAValue, SSAValue] = {}
    for slot, given in zip(one.op.operand_slots, one.operands, strict=True):
        if slot is not None:
            mapped[slot] = _single(one.b, given)
    made = one.b.insert(one.op.clone(value_mapper=mapped))
    for meta, result, new in zip(metas, one.op.results, made.results, strict=True):
        wrapped = one.b.wrap(new)
        is_tensor = isinstance(meta, TensorMeta)
        values[result] = (
            Batched(wrapped, False)
            if is_tensor
            else [Batched(v, False) for v in one.b.split_vec(wrapped)]
        )


def _single(b: Builder, given: Any) -> SSAValue:
    if isinstance(given, list):
        return b.combine([cast(Batched, v).value for v in cast("list[Any]", given)]).ssa
    return cast(Batched, given).value.ssa


def _has_rows(given: Any) -> bool:
    if isinstance(given, list):
        return any(cast(Batched, v).rows for v in cast("list[Any]", given))
    return given is not None and cast(Batched, given).rows


def _rule_of(one: OneRow) -> Rule | None:
    """The rule for an op; None without one, or if an attribute differs from row to row."""
    definition = one.op.definition
    pairs = zip(definition.operands, one.operands, strict=False)
    if any(s.kind is not None and _has_rows(v) for s, v in pairs):
        return None
    found = RULES.get(definition.name)
    if found is None and definition.kind == ELEMENTWISE and not _names_axes(one):
        return elementwise
    return found


def _names_axes(one: OneRow) -> bool:
    """Whether an op of the kind elementwise treats some axes differently, or reduces in the end.

    It also does if an operand of one element has more axes than the result, as in `masked_fill`.
    """
    slots = one.op.definition.operands
    if any(s.is_vec for s in slots) or not _ABOUT_AXES.isdisjoint(one.op.definition.attr_kinds):
        return True
    given = [i for i, s in enumerate(slots) if s.kind is None and one.operands[i] is not None]
    return max((one.meta(i).rank for i in given), default=0) > one.result.rank


_ABOUT_AXES: Final = frozenset(
    "axis axes dim perm shape data_format num reduction normalize".split()
)


def no_rule(op: PirOp) -> UnsupportedError:
    """The error (PK0402) for an op that cannot be mapped over rows."""
    if bodies(op):
        help = "in a loop with a derivative inside, rows end together: take `fori_loop`, `scan`"
    elif op.definition.effects == RANDOM:
        help = "draw for all rows outside of `vmap`, and pass the numbers as an argument"
    elif op.definition.writes:
        help = "return the new value: a tensor from around the function has no rows to write to"
    else:
        help = "call the function for each row with `pirkit.scan`, or on all rows at once"
    return UnsupportedError(
        f"`{op.name}` cannot be mapped over rows", code="PK0402", span=span_of(op), help=help
    )
