"""Merges copies of the variables of derivatives with their sources.

Each transformed function gets copies (`assign`) of its arguments, so that a derivative to one is
separate from that to the caller's value. Mostly nothing depends on both, and without the copies the
same network in ``u``, ``grad(u)`` and ``grad(grad(u))`` is found to be the same.
"""

from __future__ import annotations

from typing import Final, cast

from xdsl.ir import Block, SSAValue

from pirkit.analysis.effects import is_variable, variables
from pirkit.analysis.linear_forms import GRADIENT, JET
from pirkit.dialect.build import Builder
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import CONSTANT_LIKE
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.ops.control.derivatives import CUSTOM
from pirkit.passes.replace_ops import replace

_RENAMING: Final = "pd_op.assign"


def merge_renamings(program: ProgramOp) -> None:
    """Replace copies by their source where no differentiated value depends on both.

    A copy of a variable stays where it decides which derivative uses the rule of a
    `pir.custom_derivative`, and a copy of a constant: factors of 1 are dropped, and with them what
    a further derivative by the 1 needs. A constant that is itself a variable gets a copy.
    """
    for op in [cast(PirOp, op) for op in program.block.ops]:
        if any(is_variable(r) and _is_constant(r) for r in op.results):
            _copy(op)
    ops = [cast(PirOp, op) for op in program.block.ops]
    derivatives = [op for op in ops if op.name in (GRADIENT, JET)]
    known = {op.operands[i] for op in derivatives for i in variables(op)}
    rules = [op for op in program.block.walk() if op.name == CUSTOM]

    def selects_rule(copy: PirOp) -> bool:
        """Whether a rule depends on a copy of the variable of another derivative."""
        if not rules or copy.operands[0] not in known:
            return False
        reached = _reached_around(copy.results[0], copy)
        return any(v in reached for rule in rules for v in rule.operands)

    copies = [op for op in ops if op.name == _RENAMING and op.results[0] in known]
    for op in reversed(copies):
        copy, source = op.results[0], op.operands[0]
        reached = _reached_around(source, op)
        is_free = source is not copy and not _is_constant(source)
        if is_free and reached.isdisjoint(_targets(copy)) and not selects_rule(op):
            replace(op, [source])


def _is_constant(value: SSAValue) -> bool:
    return declares(value.owner, CONSTANT_LIKE) or fill_value(value) is not None


def _copy(constant: PirOp) -> None:
    """Let what reads a constant read a copy."""
    value = constant.results[0]
    uses = list(value.uses)
    b = Builder(cast(Block, constant.parent), constant.next_op, location=constant.location)
    copy = b.assign(b.wrap(value))
    for use in uses:
        use.operation.operands[use.index] = copy.ssa


def are_apart(one: SSAValue, other: SSAValue) -> bool:
    """Whether two equal values may be one: what a derivative by either is taken of does not depend
    on the other."""
    if not (is_variable(one) or is_variable(other)):
        return True
    pairs = ((one, other), (other, one))
    return all(
        _reached_around(rest, cast(PirOp, variable.owner)).isdisjoint(_targets(variable))
        for variable, rest in pairs
    )


def _targets(variable: SSAValue) -> list[SSAValue]:
    """What derivatives by a value are taken of."""
    users = [(cast(PirOp, use.operation), use.index) for use in variable.uses]
    derivatives = [op for op, i in users if op.name in (GRADIENT, JET) and i in variables(op)]
    return [t for op in derivatives for t in op.operands[: op.attribute("targets")]]


def _reached_around(source: SSAValue, copy: PirOp) -> set[SSAValue]:
    """The values that depend on ``source`` other than through the copy."""
    reached, pending = {source}, [source]
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            while user is not None and user.parent is not copy.parent:
                user = user.parent_op()
            if user is None or user is copy:
                continue
            fresh = [r for r in user.results if r not in reached]
            reached.update(fresh)
            pending += fresh
    return reached
