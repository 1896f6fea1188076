"""Algebraic rewrite rules, and branches whose condition is constant."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.constants import splat_of
from pirkit.analysis.declared_types import mismatched_values
from pirkit.analysis.execution_order import operations
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import erase, may_replace, replace
from pirkit.passes.rewrite_rules import RewriteRule, rules_of


class CanonicalizePass(Pass):
    """Apply algebraic rewrites until none applies, and take branches whose condition is known.

    The rewrite rules are the table in `pirkit.passes.rewrite_rules`; they preserve every bit, NaN
    and -0.0 included. A rule is not applied if the storage of a value that it mentions is written
    in place, if gradients would flow differently, or if one value would get two external names.

    ::

        %1 = pd_op.transpose(%0) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %2 = pd_op.transpose(%1) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
        // uses of %2 become uses of %0
    """

    name = "canonicalize"
    reports_rewrites = True
    stats = Stats(rules="rewrite rules applied", branches="branches and loops decided")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            while _Sweep(ctx, program).run():
                pass


class _Sweep:
    """One traversal of a program. A value that a rewrite creates has no aliases, because a rewrite
    is refused if a value that it replaces is written."""

    def __init__(self, ctx: PassContext, program: ProgramOp) -> None:
        self.ctx = ctx
        self.program = program
        self.classes: AliasClasses = ctx.analysis(alias_classes, program)
        self.wrong = ctx.analysis(mismatched_values, program.block)

    def run(self) -> bool:
        before = self.ctx.rewrites
        for op in self.ctx.each(operations(self.program.block)):
            if self.wrong and not self.wrong.isdisjoint((*op.operands, *op.results)):
                continue  # rules match on types
            if rules := rules_of(op.definition):
                self.apply(op, rules)
            elif op.name == "pd_op.if":
                self.decide_branch(op)
            elif op.name == "pd_op.while":
                self.decide_loop(op)
        return self.ctx.rewrites > before

    def apply(self, op: PirOp, rules: Sequence[RewriteRule]) -> None:
        if any(self.classes.is_written(v) for v in (*op.operands, *op.results)):
            return
        for rewrite_rule in rules:
            found = rewrite_rule.action(op, self.classes)
            if found is None:
                continue
            new = [found] if isinstance(found, PirOp) else []
            value = found.results[0] if isinstance(found, PirOp) else found
            if not new and not may_replace(value, op.results[0], self.classes):
                continue
            self.ctx.rewrote(rewrite_rule.name, op)
            self.ctx.count("rules")
            replace(op, [value], new)
            return

    def decide_branch(self, op: PirOp) -> None:
        """Replace an `if` whose condition is constant by the operations of the branch taken."""
        condition = splat_of(op.operands[0], self.classes)
        if condition is None:
            return
        block = op.regions[0 if condition else 1].block
        last = block.last_op
        if last is None or not self.all_replaceable(last.operands, op):
            return
        self.ctx.rewrote("branch", op)
        values = list(last.operands)
        erase(last)
        body = list(block.ops)
        for inner in body:
            inner.detach()
        parent = op.parent
        if parent is not None and body:
            parent.insert_ops_before(body, op)
        self.ctx.count("branches")
        replace(op, values)

    def decide_loop(self, op: PirOp) -> None:
        """Replace a loop whose condition is false from the start by its initial values."""
        condition = splat_of(op.operands[0], self.classes)
        if condition is None or condition or not self.all_replaceable(op.operands[1:], op):
            return
        self.ctx.rewrote("loop", op)
        self.ctx.count("branches")
        replace(op, list(op.operands[1:]))

    def all_replaceable(self, values: Sequence[SSAValue], op: PirOp) -> bool:
        pairs = zip(values, op.results, strict=True)
        return all(may_replace(v, r, self.classes) for v, r in pairs)
