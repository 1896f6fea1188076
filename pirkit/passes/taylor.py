"""Nested derivatives along one variable, computed as a Taylor series.

The number of ops of ``u_xxxx`` by four nested reverse sweeps grows exponentially with the order;
that of the coefficients of ``u(x + t)`` grows quadratically. The pass finds nests of `pir.gradient`
that differentiate one value along one variable, and computes them all from one series.

A nest is a chain in which each gradient differentiates the sum of the previous one (or has a
cotangent of ones), and each row of the innermost value depends only on the same row of the
variable. Then the derivative of the sum is the derivative of each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.row_dependence import Mixed, depends_by_rows
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import RULE, SOURCE, Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import RESHAPE
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.types import meta_of
from pirkit.passes.autodiff import between
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.expand_gradients import GRADIENT
from pirkit.passes.replace_ops import replace
from pirkit.passes.taylor_series import has_series, prepared, push
from pirkit.runtime.meta import TensorMeta


@dataclass(frozen=True)
class TaylorPass(Pass):
    """Replace nests of `pir.gradient` along one variable by a Taylor series, where it is cheaper.

    Nests of order ``least`` and more are replaced. ``--remarks taylor`` reports what was replaced,
    and why a nest was not.
    """

    name = "taylor"
    stats = Stats(series="series propagated", gradients="derivatives taken from a series")

    least: int = option(2, "smallest order for which a series is used")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            for nest in _nests(program):
                self._replace(ctx, nest)

    def _replace(self, ctx: PassContext, nest: Nest) -> None:
        order = len(nest.gradients)
        first = nest.gradients[0]
        if order < self.least:
            return
        block = first.parent
        assert block is not None
        missing = [op for op in _between(nest) if not has_series(op)]
        mixed = depends_by_rows(nest.root, nest.variable)
        if isinstance(mixed, Mixed):
            ctx.remark("missed", f"no series of order {order}: {mixed.reason}", mixed.op or first)
            return
        ops, (root,) = prepared([nest.root], [nest.variable])
        still = [op for op in ops if not has_series(op)]
        if still:
            names = ", ".join(sorted({f"`{op.name}`" for op in still}))
            ctx.remark("missed", f"no series of order {order}: {names} has none", still[0])
            return
        attributes = {SOURCE: mlir.StringAttr("gradient"), RULE: mlir.StringAttr("jet")}
        b = Builder(block, first, location=first.location, attributes=attributes)
        variable = b.wrap(nest.variable)
        seed = [b.ones_like(variable), *[None] * (order - 1)]
        try:
            series = push(b, ops, {nest.variable: seed}, order)[root]
        except UnsupportedError as error:
            ctx.remark("missed", f"no series of order {order}: {error.message}", first)
            return
        size = len(b.emitted)
        values = [_derivative(b, series[k - 1], k, variable) for k in range(1, order + 1)]
        for gradient, value in zip(nest.gradients, values, strict=True):
            replace(gradient, [value.ssa])
            ctx.count("gradients")
        ctx.count("series")
        ctx.remark(
            "passed",
            f"derivatives 1 to {order} of one value from a series of {size} ops"
            + (f", {len(missing)} ops decomposed for it" if missing else ""),
            first,
        )


def _derivative(b: Builder, coefficient: Value | None, order: int, variable: Value) -> Value:
    if coefficient is None:
        return b.zeros_like(variable)
    return b.reshape_like(coefficient * math.factorial(order), variable)


@dataclass
class Nest:
    """Gradients of ascending order of one value along one variable."""

    root: SSAValue
    variable: SSAValue
    gradients: list[PirOp] = field(default_factory=list[PirOp])


def _nests(program: ProgramOp) -> list[Nest]:
    nests: dict[tuple[SSAValue, SSAValue], Nest] = {}
    member: dict[SSAValue, Nest] = {}
    for op in program.operations:
        if op.name != GRADIENT or op.attribute("targets") != 1 or op.attribute("wrt") != 1:
            continue
        target, cotangent, variable = op.operands
        value = _summed(target, cotangent)
        if value is None:
            continue
        outer = member.get(value)
        if outer is not None and _same_variable(variable, outer, value):
            outer.gradients.append(op)
            member.pop(value)
            member[op.results[0]] = outer
            continue
        key = (value, variable)
        if key not in nests:
            nests[key] = Nest(value, variable, [op])
            member[op.results[0]] = nests[key]
    return list(nests.values())


def _summed(target: SSAValue, cotangent: SSAValue) -> SSAValue | None:
    """The value whose sum the gradient differentiates, or None if the cotangent is not ones."""
    if not _is_one(cotangent):
        return None
    meta = meta_of(target.type)
    owner = target.owner
    if isinstance(meta, TensorMeta) and meta.numel == 1 and isinstance(owner, PirOp):
        sums = owner.definition.combiner == "sum"
        if (sums or declares(owner, RESHAPE)) and owner.operands:
            inner = owner.operands[0]
            source = meta_of(inner.type)
            axes = owner.attribute("axis") if sums else ()
            entire = not axes or len(axes) == getattr(source, "rank", -1)
            if entire:
                return inner
    return target


def _is_one(value: SSAValue) -> bool:
    return fill_value(value) == 1


def _same_variable(variable: SSAValue, nest: Nest, value: SSAValue) -> bool:
    """True if the value depends on ``variable`` only through the variable of the nest.

    The variable of the nest may be a copy of ``variable``, by a chain of `assign`.
    """
    if variable is nest.variable:
        return True
    inner: SSAValue = nest.variable
    renamings: set[PirOp] = set()
    while inner is not variable:
        owner = inner.owner
        if not isinstance(owner, PirOp) or owner.name != "pd_op.assign":
            return False
        renamings.add(owner)
        inner = owner.operands[0]
    program = next(iter(renamings)).parent
    assert program is not None
    paths = between(program, [nest.root], [variable])
    users = [op for op in paths if variable in op.operands]
    return all(op in renamings for op in users)


def _between(nest: Nest) -> list[PirOp]:
    block = nest.gradients[0].parent
    assert block is not None
    return between(block, [nest.root], [nest.variable])
