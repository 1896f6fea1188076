"""Explains for any two ops of a block why they are not in one kernel, and what would fuse them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.execution_order import operations
from pirkit.dialect.map_expr.library_spaces import library_space_text
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.fusion.groups import DEFAULT, Group, Partition, Policy
from pirkit.lowering.fusion.horizontal import between, why_not_joined
from pirkit.lowering.fusion.index_equations import Equations, writes
from pirkit.lowering.fusion.refusal import Refusal


class Explainer:
    """Answers for pairs of ops of one block; ``names`` are the printed names of values."""

    def __init__(
        self,
        found: Equations,
        parts: Partition,
        names: Mapping[SSAValue, str],
        policy: Policy = DEFAULT,
    ) -> None:
        self.equations = found
        self.parts = parts
        self.names = names
        self.policy = policy
        self.order = {op: k for k, op in enumerate(found.ops)}
        self.declared: dict[tuple[int, int], Refusal] = {}
        for (a, b), refusal in parts.refusals.items():
            key = (id(parts.of[a]), id(parts.of[b]))
            self.declared.setdefault(key, refusal)

    def refusal(self, one: PirOp, other: PirOp) -> Refusal | None:
        """Why two ops are not in one kernel; None if they are."""
        first, second = sorted((one, other), key=self.order.__getitem__)
        for op in (first, second):
            reason = self.equations.opaque.get(op)
            if reason is not None and reason.kind == "alias":
                return alias_refusal((first, second))
            if reason is not None:
                space = library_space_text(op, self.equations.shapes.named)
                message = f"`{op.name}`: {reason.reason}" + (f": {space}" if space else "")
                return Refusal(reason.kind, (first, second), message)
            if self.equations.units[op].is_free:
                return None  # every kernel that reads it rematerializes it
        groups = (self.parts.of[first], self.parts.of[second])
        if groups[0] is groups[1] or first.results[0] in groups[1].copies:
            return None
        declared = self.parts.refusals.get((first, second))
        return declared or self.not_joined(first, second, *groups)

    def not_joined(self, first: PirOp, second: PirOp, one: Group, other: Group) -> Refusal:
        pair = (first, second)
        op = between(self.parts, one, other)
        if op is not None:
            made = f" (%{self.names[op.results[0]]})" if op.results else ""
            reason = f"one kernel would have to wait for itself: `{op.name}`{made} is between"
            return Refusal("cycle", pair, reason)
        declared = self.declared.get((id(one), id(other))) or self.declared.get(
            (id(other), id(one))
        )
        if declared is not None:
            a, b = (self.names[op.results[0]] for op in declared.ops)
            reason = f"%{a} and %{b} would be in it: {declared.reason}"
            return replace(declared, ops=pair, reason=reason)
        kind, reason, remedy = why_not_joined(one, other, self.policy)
        a, b = (self.names[op.results[0]] for op in pair)
        return Refusal(kind, pair, reason, remedy=remedy or f"fuse{{forced=%{a}+%{b}}}")


def alias_refusal(pair: tuple[PirOp, PirOp]) -> Refusal:
    """The refusal of a pair that an in-place write separates: one of the two follows it, or its
    result is written. Names an op that reads the storage afterwards, if there is one.
    """
    top: Operation = pair[0]
    while (parent := top.parent_op()) is not None and not isinstance(top, ProgramOp):
        top = parent
    program = cast(ProgramOp, top)
    writer = next(op for op in program.operations if writes(op))
    reader = _reads_after(program, writer)
    reason = f"`{writer.name}` writes in place"
    if reader is not None:
        reason += f", and `{reader.name}` reads that storage under another name"
    return Refusal("alias", pair, reason, remedy="functionalize,fuse")


def _reads_after(program: ProgramOp, writer: PirOp) -> Operation | None:
    classes = alias_classes(program)
    written = {e for e, ops in classes.writers.items() if writer in ops}
    seen = False
    for op in operations(program.block):
        names = [v for v in op.operands if v not in writer.results]
        if seen and any(written.intersection(classes.of(v)) for v in names):
            return op
        seen = seen or op is writer
    return None
