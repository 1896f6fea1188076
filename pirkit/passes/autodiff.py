"""Reverse-mode differentiation on the program: the backward is ordinary ops of the dialect.

Rules are written in ops that can be differentiated themselves, so order n+1 is the derivative of
order n and there is no highest order. A derivative that is zero is known to be zero until it leaves
the program, where it becomes zeros of the right type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, SSAValue

from pirkit.diag.errors import UnsupportedError, UsageError
from pirkit.diag.limits import check
from pirkit.dialect.build import ORDER, RULE, SOURCE, Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.operation import PirOp, ProgramOp, describe, origin_of, span_of
from pirkit.dialect.types import meta_of
from pirkit.passes.decompose import take_apart
from pirkit.passes.rewrite import stops_gradient
from pirkit.runtime.meta import TensorMeta, VecMeta

Cotangent = Any
"""A Value, a list of them for a list value, or None for zero."""


def append_backward(
    program: ProgramOp,
    targets: Sequence[SSAValue],
    wrt: Sequence[SSAValue],
    cotangents: Sequence[SSAValue | None] | None = None,
    *,
    before: PirOp | None = None,
) -> list[SSAValue | None]:
    """Append the ops that compute the derivatives of ``targets`` with respect to ``wrt``.

    ``cotangents`` are those of the targets, ones by default. The ops stand at the end of the
    program, or in front of ``before``. Gives one value for each of ``wrt``, with its type; None for
    one that the targets do not depend on.

    Raises UnsupportedError (PK0402), naming the op and its location, for an op on the way that has
    no derivative, UsageError for a target that is no float.
    """
    return Backward(program.block, before).run(targets, wrt, cotangents)


@dataclass
class Backward:
    """One reverse walk over a block."""

    block: Block
    before: PirOp | None = None
    grads: dict[SSAValue, list[Cotangent]] = field(
        default_factory=dict[SSAValue, "list[Cotangent]"]
    )

    def run(
        self,
        targets: Sequence[SSAValue],
        wrt: Sequence[SSAValue],
        cotangents: Sequence[SSAValue | None] | None,
    ) -> list[SSAValue | None]:
        moved: dict[SSAValue, SSAValue] = {}
        ops, targets = self._prepared(targets, wrt, moved)
        wrt = [latest(v, moved) for v in wrt]
        cotangents = [None if c is None else latest(c, moved) for c in cotangents or ()] or None
        active = dependents(ops, wrt)
        order = 1 + max((_order(op) for op in ops), default=0)
        check("derivative_order", order, None)
        self.b = Builder(self.block, self.before)
        for target, seed in zip(targets, cotangents or [None] * len(targets), strict=True):
            value = self.b.wrap(target)
            if not is_differentiable(target):
                raise UsageError(f"{describe(target)} is a {value.any_meta}: it has no derivative")
            if target in active:
                one = self.b.ones_like(value) if seed is None else self.b.wrap(seed)
                self.grads.setdefault(target, []).append(one)
        for op in reversed(ops):
            self._visit(op, active, frozenset(wrt), order)
        return [self._found(v) for v in wrt]

    def _found(self, value: SSAValue) -> SSAValue | None:
        total = self._total(self.grads.get(value, []))
        return None if total is None else cast(Value, total).ssa

    def _prepared(
        self,
        targets: Sequence[SSAValue],
        wrt: Sequence[SSAValue],
        moved: dict[SSAValue, SSAValue],
    ) -> tuple[list[PirOp], list[SSAValue]]:
        """The ops between, those without a derivative taken apart into ops that have one."""
        for op in between(self.block, targets, wrt):
            rule = vjp.get(op.definition)
            if rule is None and op.name not in _STRUCTURE and decompose.get(op.definition):
                take_apart(op, lambda made: vjp.get(made.definition) is None, moved=moved)
        found = [latest(t, moved) for t in targets]
        return between(self.block, found, [latest(w, moved) for w in wrt]), found

    def _visit(
        self, op: PirOp, active: set[SSAValue], wrt: frozenset[SSAValue], order: int
    ) -> None:
        slots = op.result_slots
        held = [self._total(self.grads.get(r, [])) if r is not None else None for r in slots]
        if all(h is None for h in held):
            return
        for result in slots:
            if result is not None and result not in wrt:
                self.grads.pop(result, None)
        self.b.location = op.location
        self.b.attributes = _provenance(op, order)
        structural = _STRUCTURE.get(op.name)
        if structural is not None:
            structural(self, op, held)
            return
        rule = vjp.get(op.definition)
        tensors = [
            (slot, value)
            for slot, value in zip(op.definition.operands, op.operand_slots, strict=False)
            if slot.kind is None
        ]
        wanted = frozenset(slot.name for slot, value in tensors if value in active)
        if rule is None:
            raise UnsupportedError(
                f"`{op.name}` has no derivative",
                code="PK0402",
                span=span_of(op),
                notes=origin_of(op),
                help="give the op a `vjp` or a `decompose` rule, or stop the gradient before it",
            )
        given = [_as_list(h, r) for h, r in zip(held, slots, strict=True)]
        found = rule(OpCall(self.b, op, wanted), *given)
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        for (slot, value), cotangent in zip(tensors, results, strict=False):
            if value is not None and cotangent is not None and slot.name in wanted:
                self.add(value, cotangent)

    def add(self, value: SSAValue, cotangent: Cotangent) -> None:
        """One more contribution to the cotangent of a value."""
        owner = value.owner
        if isinstance(cotangent, tuple):
            cotangent = list(cast("tuple[Any, ...]", cotangent))
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            for element, each in zip(owner.operands, cotangent, strict=True):
                if each is not None:
                    self.add(element, each)
            return
        self.grads.setdefault(value, []).append(cotangent)

    def _total(self, terms: list[Cotangent]) -> Cotangent:
        """The sum of the contributions to one value; lists are summed element by element."""
        if not any(isinstance(t, list) for t in terms):
            return self.b.total(terms)
        lists = [cast("list[Any]", t) for t in terms]
        return [self.b.total(parts) for parts in zip(*lists, strict=True)]


def latest(value: SSAValue, moved: dict[SSAValue, SSAValue]) -> SSAValue:
    """What stands for a value now."""
    while value in moved:
        value = moved[value]
    return value


def _as_list(held: Cotangent, result: SSAValue | None) -> Cotangent:
    if held is None and result is not None:
        meta = meta_of(result.type)
        return [None] * len(meta) if isinstance(meta, VecMeta) else None
    return held


def _provenance(op: PirOp, order: int) -> dict[str, Attribute]:
    source = op.attributes.get(SOURCE) or mlir.StringAttr(op.name.partition(".")[2])
    return {
        SOURCE: source,
        RULE: mlir.StringAttr("vjp"),
        ORDER: mlir.IntegerAttr(order, mlir.i32),
    }


def _order(op: PirOp) -> int:
    held = op.attributes.get(ORDER)
    return cast("mlir.IntegerAttr[Any]", held).value.data if held is not None else 0


# --- what depends on what ------------------------------------------------------------------------


def between(block: Block, targets: Iterable[SSAValue], wrt: Iterable[SSAValue]) -> list[PirOp]:
    """The ops of a block that depend on ``wrt`` and that the targets depend on, in order."""
    needed: set[SSAValue] = set(targets)
    found: list[PirOp] = []
    for op in reversed(list(block.ops)):
        if not any(r in needed for r in op.results):
            continue
        found.append(cast(PirOp, op))
        needed.update(op.operands)
        for region in op.regions:
            needed.update(v for inner in region.walk() for v in inner.operands)
    found.reverse()
    active = dependents(found, wrt)
    return [op for op in found if reached(op, active) and any(r in active for r in op.results)]


def dependents(ops: Iterable[PirOp], wrt: Iterable[SSAValue]) -> set[SSAValue]:
    """The values through which a gradient to ``wrt`` flows, ``wrt`` included."""
    active = set(wrt)
    for op in ops:
        sources = reached(op, active)
        if not sources:
            continue
        for result in op.results:
            if is_differentiable(result) and not _is_cut(result, sources):
                active.add(result)
    return active


def reached(op: PirOp, active: set[SSAValue]) -> list[SSAValue]:
    """The active values that an op, or a region of it, reads."""
    sources = [v for v in op.operands if v in active]
    for region in op.regions:
        sources += [v for inner in region.walk() for v in inner.operands if v in active]
    return sources


def _is_cut(result: SSAValue, sources: Sequence[SSAValue]) -> bool:
    """True if the program says that no gradient flows here, though one reaches the op.

    Where all operands are marked as well, the mark only says that nobody asked for gradients.
    """
    return stops_gradient(result) and not all(map(stops_gradient, sources))


def is_differentiable(value: SSAValue) -> bool:
    """True for floating and complex tensors, and for lists that hold one."""
    meta = meta_of(value.type)
    metas = meta.items if isinstance(meta, VecMeta) else (meta,)
    return any(
        isinstance(m, TensorMeta) and (m.dtype.is_float or m.dtype.is_complex) for m in metas
    )


# --- lists ---------------------------------------------------------------------------------------


def _combine(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    for value, each in zip(op.operands, held[0], strict=True):
        if each is not None:
            back.add(value, each)


def _split(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    back.add(op.operands[0], list(held))


def _slice(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    count = len(cast(VecMeta, meta_of(op.operands[0].type)))
    index: int = op.attribute("index")
    back.add(op.operands[0], [held[0] if i == index else None for i in range(count)])


_STRUCTURE: dict[str, Any] = {
    "pir.combine": _combine,
    "pir.split": _split,
    "pir.slice": _slice,
}
