"""Decomposition of operators into simpler ones, down to the primitive set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import is_differentiable, stops_gradient
from pirkit.analysis.openness import is_open_call
from pirkit.analysis.order import operations
from pirkit.diag.errors import InternalError, UnsupportedError
from pirkit.diag.limits import check
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import RULE, SOURCE, Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.operation import PirOp, span_of
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.rewrite import replace
from pirkit.runtime.meta import compatible


@dataclass(frozen=True)
class DecomposePass(Pass):
    """Replace operators by compositions of primitives.

    Every op that is no primitive has a rule; rules are applied until none is left. An op that
    writes in place and has a pure twin stays whole: `functionalize` makes it pure. One that has
    none, like a step of an optimizer, ends in `assign_out_`, which writes the new values. ``keep``
    names ops that stay whole, ``only`` the ops that are taken apart, both without their dialect.
    New ops carry the location of the op they come from, and its name as ``comp_op_name``. Where a
    rule has to know a size or an attribute that the program leaves open, the op stays whole.

    ::

        %1 = pd_op.silu(%0) : (tensor<2xf32>) -> tensor<2xf32>
        // becomes
        %1 = pd_op.sigmoid(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.multiply(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """

    name = "decompose"
    stats = Stats(decomposed="operations taken apart", kept="operations kept whole")

    keep: tuple[str, ...] = option((), "ops to keep whole")
    only: tuple[str, ...] = option((), "the only ops to take apart")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        keep, only = frozenset(self.keep), frozenset(self.only)

        def wanted(op: PirOp) -> bool:
            short = op.name.partition(".")[2]
            if short in keep:
                ctx.count("kept")
                return False
            return not only or short in only

        def left(op: PirOp, error: UnsupportedError) -> None:
            ctx.remark("missed", error.message, op)

        for program in ctx.programs(module):
            for op in ctx.each(list(operations(program.block))):
                if op.parent is not None and wanted(op):
                    ctx.count("decomposed", take_apart(op, wanted, leave=left))


def take_apart(
    op: PirOp,
    wanted: Callable[[PirOp], bool] = lambda op: True,
    depth: int = 0,
    moved: dict[SSAValue, SSAValue] | None = None,
    leave: Callable[[PirOp, UnsupportedError], None] | None = None,
) -> int:
    """Replace an op, and what it becomes, by compositions; how many ops were replaced.

    Zero if the op has no rule or holds what a rule cannot take. ``moved`` is told which value
    stands for each result that is gone. ``leave`` is told of each op that stays whole because its
    rule has to know sizes or attributes that the program leaves open; without it, that is an error.
    """
    rule = decompose.get(op.definition)
    if rule is None or (op.definition.writes and op.definition.pure is not None):
        return 0
    check("decomposition_depth", depth, span_of(op))
    block = op.parent
    if block is None:
        return 0
    source = op.attributes.get(SOURCE) or mlir.StringAttr(op.name.partition(".")[2])
    attributes = {SOURCE: source, RULE: op.attributes.get(RULE) or mlir.StringAttr("decompose")}
    b = Builder(block, op, location=op.location, attributes=attributes)
    operands = list(op.operands)
    _cut_gradients(op, b)
    try:
        found = rule(OpCall(b, op))
    except UnsupportedError as error:
        _undo(op, operands, b)
        if leave is None or not is_open_call(op):
            raise
        leave(op, error)
        return 0
    if found is NotImplemented:
        _undo(op, operands, b)
        return 0
    values = list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]
    if op.definition.writes:
        values = _written(op, values, b)
    fresh = _results(op, values, b)
    if moved is not None:
        moved.update((r, v) for r, v in zip(op.results, fresh, strict=True) if v is not None)
    replace(op, fresh)
    count = 1
    for made in list(b.emitted):
        if made.parent is not None and wanted(made):
            count += take_apart(made, wanted, depth + 1, moved, leave)
    return count


def _undo(op: PirOp, operands: Sequence[SSAValue], b: Builder) -> None:
    """Leave an op as it was before its rule emitted anything."""
    op.operands = operands
    for made in reversed(b.emitted):
        made.detach()
        made.erase(safe_erase=False)


def _cut_gradients(op: PirOp, b: Builder) -> None:
    """Keep gradients from flowing where the op lets none through, but its parts would."""
    for slot in op.definition.operands:
        value = op.operand_named(slot.name) if slot.name in op.definition.no_gradient else None
        if value is None or not is_differentiable(value) or stops_gradient(value):
            continue
        cut = b.assign(b.wrap(value)).ssa
        cut.owner.attributes["stop_gradient"] = encode("bool[]", (True,))
        op.operands[sum(v is not None for v in op.operand_slots[: slot.index])] = cut


def _written(op: PirOp, values: Sequence[Any], b: Builder) -> list[Any]:
    """The values after those that the op writes are in the storage of its operands."""
    found: list[Any] = []
    for slot, value in zip(op.definition.results, values, strict=True):
        target = op.definition.inplace.get(slot.name)
        into = None if target is None else OpCall(b, op).operand(target)
        if value is None or into is None:
            found.append(value)
        elif isinstance(into, tuple):
            pairs = zip(value, cast("tuple[Value, ...]", into), strict=True)
            found.append([_write(b, v, t) for v, t in pairs])
        else:
            found.append(_write(b, value, into))
    return found


def _write(b: Builder, value: Value, into: Value) -> Value:
    return into if value.ssa is into.ssa else b("pd_op.assign_out_", value, into)


def _results(op: PirOp, values: list[Any], b: Builder) -> list[SSAValue | None]:
    """One value for each result that is there, of the type that the op states."""
    given: list[SSAValue | None] = []
    slots = op.result_slots
    if len(values) != len(slots):
        values = [*values, *[None] * (len(slots) - len(values))]
    for result, value in zip(slots, values, strict=True):
        if result is None:
            continue
        if isinstance(value, tuple | list):
            value = b.combine(cast("list[Value]", value))
        fits = value is not None and compatible(meta_of(result.type), value.any_meta)
        if value is None or not fits:
            if result.first_use is not None:
                raise _unlike(op, result, value)
            given.append(None)  # programs state any type for what nobody reads
            continue
        given.append(value.ssa)
    return given


def _unlike(op: PirOp, result: SSAValue, value: Value | None) -> InternalError:
    found = "no value" if value is None else f"a {value.any_meta}"
    return InternalError(
        f"the decomposition of `{op.name}` gives {found} for a {meta_of(result.type)} in use"
    )
