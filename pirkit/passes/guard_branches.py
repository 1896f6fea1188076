"""Derivatives of `where` that the branch which is not taken cannot spoil.

In ``where(x > 0, sqrt(x), 0)`` the slope of `sqrt` at zero is infinite, and zero times infinity is
NaN. Each operand ``x`` of what computes one branch alone becomes ``where(c, x, stop(x))``: the same
value, through which a derivative flows only where the branch is taken. So derivatives of any order
are those of the branch that is taken (the "double where" that people write by hand, without a value
that has to be safe).
"""

from __future__ import annotations

from typing import Final, cast

from xdsl.ir import Block, SSAValue

from pirkit.analysis.constant_operands import operands_of
from pirkit.analysis.derivative_sums import shape_of
from pirkit.analysis.effects import is_pure
from pirkit.analysis.linear_forms import differentiated
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta

_WHERE: Final = "pd_op.where"


def guard_branches(program: ProgramOp) -> None:
    """Guard what computes the branches of each `where` that is differentiated."""
    block = program.block
    wanted = differentiated(block)
    for op in [cast(PirOp, op) for op in block.ops if cast(PirOp, op).name == _WHERE]:
        if op.results[0] in wanted:
            for taken in (True, False):
                _guard(block, op, taken)


def _guard(block: Block, where: PirOp, taken: bool) -> None:
    """Let derivatives flow through one branch only where it is taken."""
    inner = _computing(block, where, 1 if taken else 2)
    if not inner:
        return
    for op in inner:  # behind the condition, in their order
        op.detach()
        block.insert_op_before(op, where)
    own = {r for op in inner for r in op.results}
    b = Builder(block, inner[0], location=where.location)
    guarded: dict[SSAValue, Value] = {}
    for op in inner:
        for index, value in enumerate(op.operands):
            if value in own or not _carries(value, op):
                continue
            if value not in guarded:
                guarded[value] = _guarded(b, where, value, taken)
            op.operands[index] = guarded[value].ssa


def _computing(block: Block, where: PirOp, index: int) -> list[PirOp]:
    """The elementwise ops that compute this operand and nothing else, in order."""
    shape, found = shape_of(where.results[0]), dict[PirOp, None]()
    pending = [where.operands[index]] if where.operands[1] is not where.operands[2] else []
    while pending:
        value = pending.pop()
        op = value.owner
        if not isinstance(op, PirOp) or op.parent is not block or op in found:
            continue
        plain = op.definition.kind == ELEMENTWISE and is_pure(op) and len(op.results) == 1
        used = [(use.operation, use.index) for use in value.uses]
        alone = all(user in found or (user, at) == (where, index) for user, at in used)
        if plain and alone and not op.regions and shape_of(value) == shape:
            found[op] = None
            pending += op.operands
    place = {op: i for i, op in enumerate(block.ops)}
    return sorted(found, key=place.__getitem__)


def _carries(value: SSAValue, op: PirOp) -> bool:
    """True for a tensor through which a derivative may flow."""
    meta = meta_of(value.type)
    is_float = isinstance(meta, TensorMeta) and meta.dtype.is_float
    return is_float and value in operands_of(op) and fill_value(value) is None


def _guarded(b: Builder, where: PirOp, value: SSAValue, taken: bool) -> Value:
    x, condition = b.wrap(value), b.wrap(where.operands[0])
    like = b.wrap(where.results[0])
    if x.shape != like.shape:
        x = b.expand(x, shape=list(like.shape))
    stopped = b.assign(x)
    b.emitted[-1].attributes["stop_gradient"] = encode("bool[]", (True,))
    return b.where(condition, x, stopped) if taken else b.where(condition, stopped, x)
