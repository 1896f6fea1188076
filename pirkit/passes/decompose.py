"""Decomposition of operators into simpler ones, down to the primitive set."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from pirkit.analysis.alias import is_overwritten
from pirkit.analysis.declared_types import mismatched_values
from pirkit.analysis.differentiation import is_differentiable, stops_gradient
from pirkit.analysis.dynamic_shapes import is_dynamic_call
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import InternalError, UnsupportedError, UsageError
from pirkit.diag.limits import check
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import ORDER, RULE, SOURCE, Builder, Value
from pirkit.dialect.declared_types import is_true, is_unset_by_product, parts_agree
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import OpDef, all_ops, decompose, find
from pirkit.dialect.operation import PirOp, bodies, create, span_of
from pirkit.dialect.ops.gradient.gradients import SOURCES as GRADIENTS
from pirkit.dialect.primitives import is_primitive
from pirkit.dialect.retyped_storage import storage_of
from pirkit.dialect.types import meta_of, vec_type
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.cost_model import has_kernel, why_keep_composite
from pirkit.passes.replace_ops import erase, replace
from pirkit.runtime.meta import compatible


@dataclass(frozen=True)
class DecomposePass(Pass):
    """Replace operators by compositions of primitives.

    Every op that is not a primitive has a rule; rules are applied until only primitives are left.
    An op that writes in place and has a pure twin is not decomposed: `functionalize` replaces it.
    One that has no twin, such as a step of an optimizer, becomes pure ops and an `assign_out_` that
    writes the new values. ``keep`` names ops that are not decomposed, ``only`` the ops that are,
    both without their dialect. ``forward`` and ``backward`` restrict the pass to one half, where
    the backward is gradient ops and ops that autodiff has emitted. With ``profitable_only``, an op
    that has a kernel stays if its parts would not gain from fusion. New ops carry the location of
    the op they come from, and its name as ``comp_op_name``. A remark names each op that is not
    decomposed and the reason: a rule may need a size or an attribute that the program does not
    determine.

    ::

        %1 = pd_op.silu(%0) : (tensor<2xf32>) -> tensor<2xf32>
        // becomes
        %1 = pd_op.sigmoid(%0) : (tensor<2xf32>) -> tensor<2xf32>
        %2 = pd_op.multiply(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """

    name = "decompose"
    stats = Stats(decomposed="operations decomposed", remaining="operations not decomposed")

    keep: tuple[str, ...] = option((), "ops not to decompose")
    only: tuple[str, ...] = option((), "the only ops to decompose")
    forward: bool = option(True, "decompose what computes values")
    backward: bool = option(True, "decompose what computes derivatives")
    profitable_only: bool = option(False, "do not decompose ops where fusion gains nothing by it")

    def __post_init__(self) -> None:
        for name in (*self.keep, *self.only):
            require_op(name)

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        refused: dict[PirOp, str] = {}
        rewrite = (
            partial(_decompose_if_profitable, refused) if self.profitable_only else decompose_op
        )

        def wanted(op: PirOp) -> bool:
            return self.spared(op) is None

        def left(op: PirOp, error: UnsupportedError) -> None:
            refused[op] = error.message

        for program in ctx.programs(module):
            wrong = ctx.analysis(mismatched_values, program.block)
            for op in ctx.each(list(operations(program.block))):
                if op.parent is None or not wanted(op):
                    continue
                if wrong and not wrong.isdisjoint(op.operands):
                    refused[op] = (
                        "it reads a value that does not have the type that the program declares"
                    )
                else:
                    if decompose.get(op.definition) is not None and not _has_pure_twin(op):
                        ctx.rewrote(op.name, op)  # the rule may still refuse
                    ctx.count("decomposed", rewrite(op, wanted, on_refusal=left))
            for op in operations(program.block):
                if not is_primitive(op):
                    ctx.count("remaining")
                    self.report(ctx, op, refused.get(op))

    def spared(self, op: PirOp) -> str | None:
        """The option that excludes the op from decomposition, or None."""
        names = {op.name, op.name.partition(".")[2]}
        if not names.isdisjoint(self.keep):
            return "keep"
        if self.only and names.isdisjoint(self.only):
            return "only"
        half = (
            "backward"
            if op.definition.base.name in GRADIENTS or ORDER in op.attributes
            else "forward"
        )
        return None if getattr(self, half) else half

    def report(self, ctx: PassContext, op: PirOp, refused: str | None) -> None:
        """Remark why an op is not decomposed."""
        spared = self.spared(op)
        if spared is not None:
            ctx.remark("analysis", f"`{op.name}` is not decomposed: option `{spared}` says so", op)
            return
        reason = refused or "its rule does not serve this call"
        if refused is None and is_dynamic_call(op):
            reason = "sizes or attributes are known only when the program runs"
        if _has_pure_twin(op):
            reason = "it writes in place, and `functionalize` makes it pure"
        elif decompose.get(op.definition) is None:
            reason = "it has no rule"
        ctx.remark("missed", f"`{op.name}` is not decomposed: {reason}", op)


def _has_pure_twin(op: PirOp) -> bool:
    return op.definition.writes and op.definition.pure is not None


def decompose_op(
    op: PirOp,
    wanted: Callable[[PirOp], bool] = lambda op: True,
    depth: int = 0,
    moved: dict[SSAValue, SSAValue] | None = None,
    on_refusal: Callable[[PirOp, UnsupportedError], None] | None = None,
) -> int:
    """Decompose an op, and recursively its parts; returns how many ops were replaced.

    Returns 0 if the op has no rule or the rule does not support this call. ``moved`` receives the
    value that replaces each erased result. ``on_refusal`` is called for each op that stays because
    its rule needs a size or an attribute that the program does not determine; without it, that is
    an UnsupportedError.
    """
    rule = decompose.get(op.definition)
    if rule is None or _has_pure_twin(op):
        return 0
    check("decomposition_depth", depth, span_of(op))
    emitted = expand(op, rule, "decompose", moved, on_refusal)
    if emitted is None:
        return 0
    count = 1
    # derivatives of loops hold operations that another builder has emitted
    inner = [o for made in emitted for r in bodies(made) for o in operations(r.block)]
    for made in dict.fromkeys([*emitted, *inner]):
        if made.parent is not None and wanted(made):
            count += decompose_op(made, wanted, depth + 1, moved, on_refusal)
    return count


def expand(
    op: PirOp,
    rule: Callable[[OpCall], Any],
    name: str,
    moved: dict[SSAValue, SSAValue] | None = None,
    on_refusal: Callable[[PirOp, UnsupportedError], None] | None = None,
) -> list[PirOp] | None:
    """Replace an op by the ops that a rule emits; these ops, or None if the rule refuses the call.

    ``name`` is entered in the new ops as the rule that made them. See `decompose_op`.
    """
    block = op.parent
    if block is None:
        return None
    source = op.attributes.get(SOURCE) or mlir.StringAttr(op.name.partition(".")[2])
    attributes = {SOURCE: source, RULE: op.attributes.get(RULE) or mlir.StringAttr(name)}
    b = Builder(block, op, location=op.location, attributes=attributes)
    operands = list(op.operands)
    _cut_gradients(op, b)
    try:
        found = rule(OpCall(b, op))
    except UnsupportedError as error:
        _undo(op, operands, b)
        if on_refusal is None or not is_dynamic_call(op):
            raise
        on_refusal(op, error)
        return None
    if found is NotImplemented:
        _undo(op, operands, b)
        return None
    values = list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]
    if op.definition.writes:
        values = _written(op, values, b)
    fresh = _results(op, [_kept(op, value, b) for value in values], b)
    if fresh is None:
        _undo(op, operands, b)
        return None
    if moved is not None:
        moved.update((r, v) for r, v in zip(op.results, fresh, strict=True) if v is not None)
    replace(op, fresh)
    return b.emitted


def _decompose_if_profitable(
    refused: dict[PirOp, str],
    op: PirOp,
    wanted: Callable[[PirOp], bool],
    on_refusal: Callable[[PirOp, UnsupportedError], None],
) -> int:
    """Like `decompose_op`, but only if profitable; ``refused`` receives the reasons if not."""
    block = op.parent
    if block is None or decompose.get(op.definition) is None:
        return 0
    before, after = op.prev_op, op.next_op
    if not has_kernel(op):
        count = decompose_op(op, lambda made: False, on_refusal=on_refusal)
        for made in _between(block, before, after) if count else ():
            if wanted(made):
                count += _decompose_if_profitable(refused, made, wanted, on_refusal)
        return count
    trial = op.clone()
    block.insert_op_before(trial, op)
    used = [k for k, result in enumerate(op.results) if result.first_use is not None]
    # a rule may emit less if some results are unused, so the trial has the uses of the original
    read = [trial.results[k] for k in used]
    reader = create("pir.combine", read, [vec_type([value.type for value in read])])
    block.insert_op_after(reader, op)

    def left(made: PirOp, error: UnsupportedError) -> None:
        on_refusal(op if made is trial else made, error)

    count = decompose_op(trial, wanted, on_refusal=left)
    parts, values = _between(block, before, op), list(reader.operands)
    erase(reader)
    if count:
        why = why_keep_composite(op, parts, values)
        if why is None:
            b = Builder(block, op, location=op.location)
            values = [
                b.assign(b.wrap(v)).ssa if _shares_what_is_written(op, v, parts) else v
                for v in values
            ]
            by_result = dict(zip(used, values, strict=True))
            replace(op, [by_result.get(k) for k in range(len(op.results))])
            return count
        refused[op] = why
    # The op stays, so the trial is erased.
    for part in reversed(parts):
        part.detach()
        part.erase(safe_erase=False)
    return 0


def _between(block: Block, before: Operation | None, after: Operation | None) -> list[PirOp]:
    """The ops of a block between two ops, both excluded; None stands for the ends of the block."""
    found: list[PirOp] = []
    op = block.first_op if before is None else before.next_op
    while op is not after:
        found.append(cast(PirOp, op))
        op = cast(Operation, op).next_op
    return found


def _undo(op: PirOp, operands: Sequence[SSAValue], b: Builder) -> None:
    """Restore an op and erase what its rule has emitted."""
    op.operands = operands
    for made in reversed(b.emitted):
        made.detach()
        made.erase(safe_erase=False)


def _cut_gradients(op: PirOp, b: Builder) -> None:
    """Stop gradients at operands that have none by the op's definition, but would by its parts."""
    for slot in op.definition.operands:
        value = op.operand_named(slot.name) if slot.name in op.definition.no_gradient else None
        if value is None or not is_differentiable(value) or stops_gradient(value):
            continue
        cut = b.assign(b.wrap(value)).ssa
        cut.owner.attributes["stop_gradient"] = encode("bool[]", (True,))
        op.operands[sum(v is not None for v in op.operand_slots[: slot.index])] = cut


def _written(op: PirOp, values: Sequence[Any], b: Builder) -> list[Any]:
    """The result values after the in-place results have been written to their operands.

    An operand that stands for a result, as the gradient in `asgd_`, is copied first where the op
    writes other operands too: these may be the same tensor.
    """
    found: list[Any] = []
    call, slots = OpCall(b, op), op.definition.results
    targets = [op.definition.inplace.get(slot.name) for slot in slots]
    intos = [None if target is None else call.operand(target) for target in targets]
    if len([into for into in intos if into is not None]) > 1:
        emitted = set(b.emitted)
        values = [
            b.assign(value)
            if isinstance(value, Value)
            and isinstance(into, Value)
            and value.ssa is not into.ssa
            and storage_of(value.ssa)[0].owner not in emitted
            else value
            for value, into in zip(values, intos, strict=True)
        ]
    for value, into in zip(values, intos, strict=True):
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


def _kept(op: PirOp, value: Any, b: Builder) -> Any:
    """A copy of a result that the rule has not made, where an operation overwrites it."""
    if isinstance(value, tuple | list):
        return [_kept(op, one, b) for one in cast("Sequence[Any]", value)]
    if not isinstance(value, Value) or not _shares_what_is_written(op, value.ssa, b.emitted):
        return value
    return b.assign(value)


def _shares_what_is_written(op: PirOp, value: SSAValue, made: Sequence[Operation]) -> bool:
    """True if an older value stands for a result of its own, and either may be overwritten.

    Such a value is an operand, an element of a list among them, or a constant; ``made`` are the ops
    that take the place of ``op``.
    """
    definition = op.definition
    if value.owner in made or definition.writes or definition.views:
        return False
    return is_overwritten(value) or any(is_overwritten(r) for r in op.results)


def _results(op: PirOp, values: list[Any], b: Builder) -> list[SSAValue | None] | None:
    """One value for each result that the op has, of the declared type.

    None if a result is used whose declared type is wrong and does not fit the value.
    """
    given: list[SSAValue | None] = []
    slots = op.result_slots
    if len(values) != len(slots):
        values = [*values, *[None] * (len(slots) - len(values))]
    for slot, (result, value) in enumerate(zip(slots, values, strict=True)):
        if result is None:
            continue
        if isinstance(value, tuple | list):
            value = b.combine(cast("list[Value]", value))
        fits = value is not None and (
            compatible(meta_of(result.type), value.any_meta)
            or parts_agree(result, value.any_meta)
            or is_unset_by_product(op, slot, value.any_meta)
        )
        if value is None or not fits:
            if result.first_use is not None and not is_true(result):
                return None
            if result.first_use is not None:
                raise _unlike(op, result, value)
            given.append(None)  # an unused result may have any declared type
            continue
        given.append(value.ssa)
    return given


def _unlike(op: PirOp, result: SSAValue, value: Value | None) -> InternalError:
    found = "no value" if value is None else f"a {value.any_meta}"
    return InternalError(
        f"the rule for `{op.name}` gives {found} for a {meta_of(result.type)} in use"
    )


def require_op(name: str) -> OpDef:
    """The op of a name with or without `pd_op.`. Raises UsageError (PK0703) if there is none."""
    full = name if "." in name else f"pd_op.{name}"
    found = find(full)
    if found is None:
        known = [op.name.partition(".")[2] for op in all_ops()]
        near = difflib.get_close_matches(full.partition(".")[2], known, n=1)
        raise UsageError(
            f"there is no op `{name}`",
            code="PK0703",
            help=f"did you mean `{near[0]}`?" if near else "`pirkit-opt --list-ops` lists all",
        )
    return found
