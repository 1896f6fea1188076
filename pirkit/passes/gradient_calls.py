"""Derivatives emitted as calls of Paddle's gradient ops, for rules that need more than is known.

For example, the derivative of `batch_norm` over a batch of dynamic size is a `batch_norm_grad`,
which is decomposed when the size is known (`gradient_ops`, `lowering/composite`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import Paths, is_differentiable
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.gradient_names import spelling
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import OpDef, decompose, find, may_draw, vjp
from pirkit.dialect.operation import PirOp, span_of
from pirkit.dialect.ops.gradient.gradients import SOURCES, SUFFIX
from pirkit.dialect.rules.gradient.paddle_gradients import LOSSY
from pirkit.dialect.signature import Operand, Result
from pirkit.passes.gradient_templates import Templates, key_of
from pirkit.runtime.meta import VecMeta

_ENDINGS = (SUFFIX, "_double_grad", "_triple_grad")


def gradient_of(forward: OpDef) -> OpDef | None:
    """The gradient op of an op, or None if Paddle has none."""
    name = forward.base.name.removesuffix("_")
    names = [f"{name}{SUFFIX}"]
    for lower, higher in pairwise(_ENDINGS):
        if name.endswith(lower):
            names.insert(0, name.removesuffix(lower) + higher)
    found = (find(n) for n in names)
    return next((d for d in found if d is not None and d.name in SOURCES), None)


def serves(op: PirOp, paths: Paths) -> bool:
    """True if the gradient op can be called here.

    It must accept every cotangent that arrives, produce every cotangent that is wanted, and have
    all its required operands among the operands and results that the forward operation has.
    """
    definition, gradient = op.definition, gradient_of(op.definition)
    if gradient is None or gradient.name in LOSSY or definition.writes:
        return False
    if vjp.get(definition) is None and may_draw(definition, op.attribute_values()):
        return False
    names = spelling(gradient, op.definition)
    operands = dict(_filled(op.definition.operands, op.operand_slots))
    results = dict(_filled(op.definition.results, op.result_slots))
    given = {names.wanted[r.name] for r in gradient.results if r.name in names.wanted}
    wanted = {n for n, v in operands.items() if v in paths.active}
    coming = {n for n, v in results.items() if v in paths.active and v in paths.needed}
    required = {s.name for s in gradient.operands if s.kind is None and not s.optional}
    held = {theirs for ours, theirs in names.operands.items() if ours in operands}
    held |= {theirs for ours, theirs in names.results.items() if ours in results}
    held |= {theirs for ours, theirs in names.seeds.items() if ours in results}
    return (
        wanted <= {*given, *op.definition.no_gradient}
        and coming <= names.seeds.keys()
        and required <= held
    )


def _filled(
    slots: Sequence[Operand] | Sequence[Result], values: Sequence[SSAValue | None]
) -> Iterator[tuple[str, SSAValue]]:
    for slot, value in zip(slots, values, strict=False):
        if value is not None:
            yield slot.name, value


def call_gradient(
    b: Builder,
    op: PirOp,
    held: Sequence[Any],
    wanted: frozenset[str],
    templates: Templates | None = None,
) -> Any:
    """The cotangents of an op's operands by one call of its gradient op, one for each tensor slot.

    ``held`` are the cotangents of the results; None is zero. Returns None if there is no gradient
    op, or if it does not accept one of these cotangents or produce one of ``wanted``. With
    ``templates`` the call is decomposed at once; UnsupportedError if that is impossible.
    """
    gradient = gradient_of(op.definition)
    if gradient is None:
        return None
    names = spelling(gradient, op.definition)
    given = {names.wanted[r.name]: r.name for r in gradient.results if r.name in names.wanted}
    if not wanted <= given.keys():
        return None
    call = OpCall(b, op)
    named: dict[str, Any] = {}
    for ours, theirs in names.operands.items():
        named[theirs] = call.operand(ours)
    for ours, theirs in names.results.items():
        named[theirs] = call.result(ours)
    for slot, cotangent in zip(op.definition.results, held, strict=True):
        theirs = names.seeds.get(slot.name)
        value = op.result_named(slot.name)
        if theirs is None:
            if cotangent is not None:
                return None
        elif value is not None and is_differentiable(value):
            named[theirs] = _dense(b, call.result(slot.name), cotangent)
    kinds = gradient.attr_kinds
    named |= {
        n: getattr(call, n) for n in kinds if n not in named and n in op.definition.attr_kinds
    }
    required = [s.name for s in gradient.operands if s.kind is None and not s.optional]
    if any(named.get(name) is None for name in required):
        return None
    key = None if templates is None else key_of(gradient, named, wanted)
    made = None if templates is None else templates.copied(b, key, named)
    if made is None:
        others = dict(named)
        tensors = [others.pop(s.name, None) for s in gradient.operands if s.kind is None]
        made = b.emit(gradient, tensors, others, {given[name] for name in wanted})
        if templates is not None:
            start = len(b.emitted) - 1
            made = _decomposed(b, b.emitted[start])
            templates.hold(key, named, b.emitted[start:], made)
    slots = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
    found = {r.name: _items(b, v) for r, v in zip(gradient.results, slots, strict=True)}
    operands = [s.name for s in op.definition.operands if s.kind is None]
    return tuple([found[given[name]] if name in wanted else None for name in operands])


def _decomposed(b: Builder, op: PirOp) -> Any:
    """Decompose a gradient op that was just emitted, erase it, and return the results."""
    rule = decompose.get(op.definition)
    at = len(b.emitted) - 1
    try:
        found = NotImplemented if rule is None else rule(OpCall(b, op))
    finally:
        del b.emitted[at]
        op.detach()
        op.erase()
    if found is NotImplemented:
        raise UnsupportedError(f"`{op.name}` is not decomposed", code="PK0402", span=span_of(op))
    return found


def _items(b: Builder, value: Any) -> Any:
    if not isinstance(value, Value) or not isinstance(value.any_meta, VecMeta):
        return value
    return b.split_vec(value)


def _dense(b: Builder, value: Any, cotangent: Any) -> Any:
    if isinstance(value, tuple):
        values = cast("tuple[Value, ...]", value)
        items = cotangent or [None] * len(values)
        return [_dense(b, v, c) for v, c in zip(values, items, strict=True)]
    return b.zeros_like(value) if cotangent is None else cotangent
