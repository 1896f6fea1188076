"""Reverse-mode differentiation on the program: the backward consists of ordinary ops.

Derivative rules emit ops that have derivative rules themselves, so the derivative of order n+1 is
the derivative of the derivative of order n, and there is no highest order. A zero cotangent is
represented by None and costs no op; it becomes a tensor of zeros only where it leaves the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.differentiation import (
    Paths,
    between,
    block_of,
    is_differentiable,
    paths_between,
)
from pirkit.analysis.dynamic_shapes import is_dynamic_call
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UnsupportedError, UsageError
from pirkit.diag.limits import check
from pirkit.dialect.build import ORDER, RULE, SOURCE, Builder, Value, derivative_order
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, may_draw, vjp
from pirkit.dialect.operation import (
    PirOp,
    ProgramOp,
    bodies,
    describe,
    origin_of,
    span_of,
    with_nested,
)
from pirkit.dialect.ops.control.derivatives import CHECKPOINT, CUSTOM
from pirkit.dialect.ops.control.tensor_array import ARRAY_OPS
from pirkit.dialect.types import meta_of
from pirkit.passes.autodiff_arrays import differentiate_array
from pirkit.passes.autodiff_checkpoint import differentiate_checkpoint
from pirkit.passes.autodiff_custom import differentiate_custom
from pirkit.passes.autodiff_regions import (
    Shared,
    differentiate_if,
    differentiate_pop,
    differentiate_push,
    differentiate_while,
    has_reverse,
)
from pirkit.passes.autodiff_support import (
    WHERE,
    Cotangent,
    Part,
    Support,
    cleaned,
    give,
    joined,
    keeps_elements,
)
from pirkit.passes.autodiff_taylor import Curves, SeriesStep
from pirkit.passes.decompose import decompose_op
from pirkit.passes.functionalize import write_backs
from pirkit.passes.gradient_calls import call_gradient, serves
from pirkit.passes.gradient_templates import Templates
from pirkit.runtime.meta import VecMeta


def append_backward(
    program: ProgramOp,
    targets: Sequence[SSAValue],
    wrt: Sequence[SSAValue],
    cotangents: Sequence[SSAValue | None] | None = None,
    *,
    before: PirOp | None = None,
    defer: bool = True,
    paddle_residuals: bool = False,
    series_steps: Sequence[SeriesStep] = (),
    moved: dict[SSAValue, SSAValue] | None = None,
) -> list[SSAValue | None]:
    """Append the ops that compute the derivatives of ``targets`` with respect to ``wrt``.

    ``cotangents`` are the cotangents of the targets; they default to ones. The new ops are inserted
    before ``before``, which defaults to the end of the program, ahead of the write-backs to inputs
    and parameters. Returns one value for each of ``wrt``, of the same type; None for one that no
    target depends on.

    If the rule of an op needs a size or an attribute that is known only at run time, its derivative
    is one of Paddle's gradient ops, which is decomposed later; with ``defer=False`` that is an
    error. With ``paddle_residuals`` an op for which Paddle has a gradient op is not decomposed, and
    its derivative reads no more forward values than the gradient op does, if that can be
    decomposed. The ops of each series in ``series_steps`` are differentiated as a unit
    (`autodiff_taylor`). ``moved`` receives the results of the ops that are decomposed, each with
    the value that replaces it: who keeps values over several calls asks for the `latest`.

    Raises UnsupportedError (PK0402), with the name and location of the op, if an op between has no
    derivative or writes in place; UsageError if a target does not have a floating type.
    """
    before = before or next(iter(write_backs(program)), None)
    moved = {} if moved is None else moved
    paths, targets, wrt = _prepared(program.block, targets, wrt, moved, paddle_residuals)
    seeds = [None if c is None else latest(c, moved) for c in cotangents or [None] * len(targets)]
    # Ops of an earlier sweep carry their order, so that a derivative of a derivative is one higher.
    order = 1 + max((derivative_order(op) or 0 for op in paths.ops), default=0)
    check("derivative_order", order, None)
    b = Builder(program.block, before)
    shared = Shared(Builder(program.block, before), paths, frozenset(wrt))
    back = Backward(b, shared, Curves(series_steps, moved), order, defer, paddle_residuals)
    for target, seed in zip(targets, seeds, strict=True):
        value = b.wrap(target)
        if not is_differentiable(target):
            raise UsageError(f"{describe(target)} is a {value.any_meta}: it has no derivative",
                             help="name a floating result as the target")  # fmt: skip
        if target in paths.active:
            back.mark(target)
            back.add(target, b.ones_like(value) if seed is None else b.wrap(seed))
    back.sweep(paths.ops)
    read = (
        v for op in [*b.emitted, *shared.top.emitted] for o in with_nested(op) for v in o.operands
    )
    _require_unwritten(program, chain(read, paths.active))
    found = [back.marked_total(v) for v in wrt]
    return [None if v is None else cast(Value, v).ssa for v in found]


def _prepared(
    block: Block,
    targets: Sequence[SSAValue],
    wrt: Sequence[SSAValue],
    moved: dict[SSAValue, SSAValue],
    paddle_residuals: bool,
) -> tuple[Paths, list[SSAValue], list[SSAValue]]:
    """The ops from ``wrt`` to the targets, after those without a vjp rule have been decomposed.

    Returns the new paths, targets and wrt: decomposition may replace any of these values.
    """
    paths = paths_between(block, targets, wrt)
    inner = [o for op in paths.ops for region in bodies(op) for o in operations(region.block)]
    wanted = [o for o in (*paths.ops, *inner) if any(r in paths.active for r in o.results)]
    lacking = [o for o in wanted if _lacks_vjp(o) and not (paddle_residuals and serves(o, paths))]
    decomposed = [
        decompose_op(op, _lacks_vjp, moved=moved, on_refusal=_may_defer) for op in lacking
    ]
    targets, wrt = [latest(t, moved) for t in targets], [latest(w, moved) for w in wrt]
    return paths_between(block, targets, wrt) if any(decomposed) else paths, targets, wrt


def _may_defer(op: PirOp, error: UnsupportedError) -> None:
    """Accept a refusal: a gradient op may serve instead, which the sweep finds out later."""


def _lacks_vjp(op: PirOp) -> bool:
    known = vjp.get(op.definition) is not None or op.name in _STRUCTURE
    return not known and not op.definition.writes


def latest(value: SSAValue, moved: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """The value that replaces a value after decomposition."""
    while value in moved:
        value = moved[value]
    return value


class Backward(Struct):
    """The reverse sweep over one block; ``b`` emits the derivatives."""

    b: Builder
    shared: Shared
    curves: Curves
    order: int
    defer: bool = True
    paddle_residuals: bool = False
    grads: dict[SSAValue, list[Part]] = field(default_factory=dict[SSAValue, "list[Part]"])
    templates: Templates = field(default_factory=Templates)

    @property
    def active(self) -> set[SSAValue]:
        """The values that get cotangents."""
        return self.shared.paths.active

    def inside(self) -> Backward:
        """A sweep over a nested block, with cotangents of its own."""
        return replace(self, grads={})

    def over(self, shared: Shared) -> Backward:
        """A sweep with other paths, and cotangents of its own."""
        return replace(self, shared=shared, grads={})

    def sweep(self, ops: Sequence[PirOp]) -> None:
        """Visit the ops in reverse order: users before the ops that define their operands."""
        location, attributes = self.b.location, self.b.attributes
        for op in reversed(ops):
            self.visit(op)
        self.b.location, self.b.attributes = location, attributes

    def visit(self, op: PirOp) -> None:
        """Propagate the cotangents of an op's results to its operands."""
        if self.curves.holds(op):
            self.b.location, self.b.attributes = op.location, _provenance(op, self.order)
            if self.curves.pull_back(self, op):
                return
        slots = op.result_slots
        parts = [Part(None) if r is None else self.part(r) for r in slots]
        if all(p.value is None for p in parts) and not has_reverse(self.shared, op):
            return
        # All users of the results have been visited, so their cotangents are complete and can be
        # dropped; those of `wrt` are read when the sweep is over.
        for result in slots:
            if result is not None and result not in self.shared.wrt:
                self.grads.pop(result, None)
        self.b.location = op.location
        self.b.attributes = _provenance(op, self.order)
        structural = _STRUCTURE.get(op.name)
        if structural is not None:
            structural(self, op, [cleaned(self.b, p).value for p in parts])
        else:
            self.apply(op, parts)

    def apply(self, op: PirOp, parts: list[Part]) -> None:
        """Apply the vjp rule of an op, or its gradient op."""
        if op.definition.writes:
            raise _no_derivative(op)
        if not keeps_elements(op):
            parts = [cleaned(self.b, p) for p in parts]
        held, before = [p.value for p in parts], len(self.b.emitted)
        tensors = [
            (slot, value)
            for slot, value in zip(op.definition.operands, op.operand_slots, strict=False)
            if slot.kind is None
        ]
        active = self.shared.paths.active
        wanted = frozenset(s.name for s, v in tensors if v in active) - {*op.definition.no_gradient}
        given = [_as_list(h, r) for h, r in zip(held, op.result_slots, strict=True)]
        found = self.derivative(op, wanted, held, given)
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        given_to = [
            (slot.name, value, cotangent)
            for (slot, value), cotangent in zip(tensors, results, strict=False)
            if value is not None and cotangent is not None and slot.name in wanted
        ]
        if len(parts) == 1 and (parts[0].support is not None or op.name == WHERE):
            give(self, op, parts[0], given_to, self.b.emitted[before:])
            return
        for _, value, cotangent in given_to:
            self.add(value, cotangent)

    def derivative(
        self, op: PirOp, wanted: frozenset[str], held: list[Cotangent], given: list[Cotangent]
    ) -> Any:
        """The operands' cotangents: by the vjp rule, or by a gradient op for a dynamic call."""
        rule = vjp.get(op.definition)
        try:
            found = self.gradient_op_derivative(op, wanted, held)
            if found is not None:
                return found
            if rule is not None:
                return rule(OpCall(self.b, op, wanted), *given)
            failure = _no_derivative(op)
        except UnsupportedError as error:
            failure = error
        known = (rule or decompose.get(op.definition)) is not None
        draws = may_draw(op.definition, op.attribute_values())
        if self.defer and known and not draws and is_dynamic_call(op):
            found = call_gradient(self.b, op, held, wanted)
            if found is not None:
                return found
        raise failure

    def gradient_op_derivative(
        self, op: PirOp, wanted: frozenset[str], held: list[Cotangent]
    ) -> Any | None:
        """The decomposition of Paddle's gradient op; None if the vjp rule of the op is used.

        Raises UnsupportedError if the gradient op cannot be decomposed and the op has no vjp rule.
        """
        if not self.paddle_residuals or not serves(op, self.shared.paths):
            return None
        try:
            return call_gradient(self.b, op, held, wanted, self.templates)
        except UnsupportedError:
            if vjp.get(op.definition) is None:
                raise
            return None

    def add(
        self,
        value: SSAValue,
        cotangent: Cotangent,
        support: Support | None = None,
        spoiled: bool = False,
    ) -> None:
        """Add a contribution to the cotangent of a value; see `Part` for its support."""
        owner = value.owner
        if isinstance(cotangent, tuple):
            cotangent = list(cast("tuple[Any, ...]", cotangent))
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            for element, each in zip(owner.operands, cotangent, strict=True):
                if each is not None and element in self.active:  # a constant gets none
                    self.add(element, each)
            return
        self.grads.setdefault(value, []).append(Part(cotangent, support, spoiled))

    def total(self, value: SSAValue) -> Cotangent:
        """The sum of the contributions to one value; lists are summed element by element."""
        return cleaned(self.b, self.part(value)).value

    def part(self, value: SSAValue) -> Part:
        """The same, with its support."""
        terms = self.grads.get(value, [])
        if not any(isinstance(t.value, list) for t in terms):
            return joined(self.b, terms)
        lists = [cast("list[Any]", t.value) for t in terms]
        return Part([self.b.total(parts) for parts in zip(*lists, strict=True)])

    def marked_total(self, value: SSAValue) -> Cotangent:
        """Like `total`, for a value whose cotangent leaves the sweep; sets the provenance first."""
        self.mark(value)
        return self.total(value)

    def mark(self, value: SSAValue) -> None:
        """Give the ops that are emitted next the location and provenance of the op of a value."""
        owner = value.owner
        if isinstance(owner, PirOp):
            self.b.location = owner.location
            self.b.attributes = _provenance(owner, self.order)
        else:
            self.b.attributes = _marks(mlir.StringAttr("data"), self.order)

    def captured(self, block: Block) -> list[SSAValue]:
        """The values from outside a block that have a cotangent in this sweep."""
        return [v for v in self.grads if block_of(v) is not block]


def _require_unwritten(program: ProgramOp, values: Iterable[SSAValue]) -> None:
    """Raise UnsupportedError if one of the values is written in place.

    The values are those through which gradients flow and those that derivatives read. The backward
    reads them later than the forward did, so their content must not change in between.
    """
    back = set(write_backs(program))
    writers = [op for op in operations(program.block) if op.definition.writes and op not in back]
    if not writers:
        return
    classes = alias_classes(program)
    harmful = set(writers)
    for value in values:
        for element in classes.of(value):
            for writer in classes.writers.get(element, ()):
                if writer in harmful:
                    raise _no_derivative(cast(PirOp, writer))


def _no_derivative(op: PirOp) -> UnsupportedError:
    if op.definition.writes:
        what, help = "writes in place: its operand is gone", "run the pass `functionalize` first"
    elif op.name == "pir.map_expr":
        what = "is a kernel of fused ops: it has no derivative"
        help = "differentiate before `fuse`, in the program that `@simplify` leaves"
    elif op.name == "pd_op.pylayer":
        what = "has a derivative that is a Python function, which the program does not hold"
        help = "trace the program with the derivative, or stop the gradient before the op"
    else:
        what = "has no derivative"
        help = "give the op a `vjp` or a `decompose` rule, or stop the gradient before it"
    return UnsupportedError(
        f"`{op.name}` {what}", code="PK0402", span=span_of(op), notes=origin_of(op), help=help
    )


def _as_list(held: Cotangent, result: SSAValue | None) -> Cotangent:
    if held is None and result is not None:
        meta = meta_of(result.type)
        return [None] * len(meta) if isinstance(meta, VecMeta) else None
    return held


def _provenance(op: PirOp, order: int) -> dict[str, Attribute]:
    source = op.attributes.get(SOURCE) or mlir.StringAttr(op.name.partition(".")[2])
    return _marks(source, order)


def _marks(source: Attribute, order: int) -> dict[str, Attribute]:
    return {SOURCE: source, RULE: mlir.StringAttr("vjp"), ORDER: mlir.IntegerAttr(order, mlir.i32)}


# --- lists ---------------------------------------------------------------------------------------


def _combine(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    for value, each in zip(op.operands, held[0], strict=True):
        if each is not None and value in back.active:
            back.add(value, each)


def _split(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    back.add(op.operands[0], list(held))


def _slice(back: Backward, op: PirOp, held: list[Cotangent]) -> None:
    count = len(cast(VecMeta, meta_of(op.operands[0].type)))
    index: int = op.attribute("index")
    back.add(op.operands[0], [held[0] if i == index else None for i in range(count)])


_STRUCTURE: Final[dict[str, Callable[[Backward, PirOp, list[Cotangent]], None]]] = {
    CHECKPOINT: differentiate_checkpoint,
    CUSTOM: differentiate_custom,
    **dict.fromkeys(ARRAY_OPS, differentiate_array),
    "pd_op.if": differentiate_if,
    "pd_op.while": differentiate_while,
    "pir.combine": _combine,
    "pir.slice": _slice,
    "pir.split": _split,
    "pir.tuple_pop": differentiate_pop,
    "pir.tuple_push": differentiate_push,
}
"""Ops that only rearrange values or own regions; each has a handler instead of a vjp rule."""

__all__ = ["Backward", "append_backward", "between", "is_differentiable", "latest"]
