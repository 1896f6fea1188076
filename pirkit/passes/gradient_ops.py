"""Decomposition of Paddle's gradient ops through the derivatives of their forward ops.

``relu_grad(out, out_grad)`` is decomposed into what the reverse sweep through ``relu`` emits. So no
gradient op needs a rule of its own, and the gradient of a gradient (``tanh_double_grad``) is the
reverse sweep through ``tanh_grad``.

Operands are matched by name. For an op that computes ``out`` from ``x``, the gradient op has the
operands ``x``, ``out`` and ``out_grad`` and the result ``x_grad``. If the forward op is a gradient
op itself, its ``out_grad`` is called ``grad_out``. Paddle's kernels omit operands that they can do
without; the tables FROM_RESULT and STANDS_FOR say how to compute or replace those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from msgspec import Struct, field
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import ConstraintError, DynamicShapeError, UnsupportedError
from pirkit.dialect.build import ORDER, RULE, SOURCE, Builder, Value
from pirkit.dialect.declared_types import has_mismatched_type
from pirkit.dialect.gradient_names import forward_of, spelling
from pirkit.dialect.opcall import DynamicAttribute, OpCall
from pirkit.dialect.opdef import OpDef, decompose, may_draw
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, origin_of, span_of
from pirkit.dialect.ops.gradient.gradients import SOURCES
from pirkit.dialect.rules.gradient.paddle_gradients import ATTRIBUTES, FROM_RESULT, STANDS_FOR
from pirkit.dialect.signature import Operand
from pirkit.passes.autodiff import append_backward
from pirkit.passes.gradient_attribute_inference import (
    MOST,
    differentiated,
    dynamic_attribute,
    is_value,
    possible,
)
from pirkit.passes.gradient_templates import SCOPED

Given = Any
"""An operand: a Value, a list of Values, None, or the Python value of an attribute."""


class _Scope(Struct):
    """The forward op and its derivative, in a temporary program of their own.

    All operands are arguments of that program, so none depends on another and the derivatives are
    those of this op alone.
    """

    call: OpCall
    program: ProgramOp
    b: Builder
    outside: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    """Argument of the temporary program -> the value outside that it represents."""

    def enter(self, given: Given) -> Given:
        """Make an argument for a value from outside."""
        if isinstance(given, tuple | list):
            return [self.enter(item) for item in cast("Sequence[Given]", given)]
        if not isinstance(given, Value):
            return given
        value = self.argument(given.ssa.type)
        self.outside[value.ssa] = given
        return value

    def argument(self, type_: Any) -> Value:
        block = self.program.block
        return self.b.wrap(block.insert_arg(type_, len(block.args)))


def decompose_gradient(c: OpCall) -> Any:
    """The results of a gradient op; None for a result that the operation does not have.

    Raises UnsupportedError (PK0402) if the forward op has no derivative, or if the derivative reads
    a value that the gradient op does not hold.
    """
    forward = forward_of(c.definition)
    if forward is None:
        return NotImplemented
    if has_mismatched_type(c.op):
        raise DynamicShapeError(
            f"Paddle states results of `{forward.name}` with other sizes than they have",
            help="its gradient is decomposed when the program runs",
        )
    dynamic = dynamic_attribute(c)
    try:
        return _gradient(c, forward).results()
    except UnsupportedError:
        if dynamic is None:
            raise
        every = [
            v for v in possible(c, dynamic) if _gradient(c, forward, {dynamic.name: v}).agrees()
        ]
        if not 0 < len(every) <= MOST:
            raise
    return _chosen(c, forward, dynamic, every)


def _gradient(c: OpCall, forward: OpDef, known: Mapping[str, Any] | None = None) -> _Gradient:
    """The gradient op in a scope of its own, with some attributes given by ``known``."""
    program = ProgramOp.build("gradient")
    scope = _Scope(c, program, Builder(program.block, location=c.op.location))
    held = {s.name: scope.enter(c.operand(s.name)) for s in c.definition.operands}
    return _Gradient(scope, forward, {**held, **(known or {})})


def _chosen(c: OpCall, forward: OpDef, dynamic: DynamicAttribute, every: Sequence[Any]) -> Any:
    """Select at run time among the results for the possible values of a dynamic attribute."""
    *others, found = [_gradient(c, forward, {dynamic.name: v}).results() for v in every]
    b, like = c.b, differentiated(c)
    for value, other in zip(every, others, strict=False):
        pick = partial(b.where, is_value(b, dynamic, value, like))
        found = tuple([_each(pick, x, y) for x, y in zip(other, found, strict=True)])
    return found


def _each(pick: Callable[[Value, Value], Value], x: Given, y: Given) -> Given:
    if isinstance(x, list):
        return [pick(*pair) for pair in zip(cast("list[Value]", x), y, strict=True)]
    return None if x is None else pick(x, y)


class _Gradient:
    """One gradient op in its scope. ``held`` are its operands inside the scope, by name."""

    def __init__(self, scope: _Scope, forward: OpDef, held: Mapping[str, Given]) -> None:
        self.scope = scope
        self.call = scope.call
        self.forward = forward
        self.held = held
        self.lacking: dict[SSAValue, str] = {}
        """Argument -> name, for forward operands that the gradient op does not hold."""
        self.names = spelling(self.call.definition, forward)

    def agrees(self) -> bool:
        """True if the forward results have the types of their cotangents."""
        try:
            made = self.emit(self.forward, {s.name: self.operand(s) for s in self.forward.operands})
        except ConstraintError:
            return False
        slots = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
        metas = {
            r.name: v.any_meta
            for r, v in zip(self.forward.results, slots, strict=True)
            if isinstance(v, Value)
        }
        seeds = ((metas.get(name), self.held[seed]) for name, seed in self.names.seeds.items())
        return all(m is None or not isinstance(s, Value) or m == s.any_meta for m, s in seeds)

    def results(self) -> Any:
        """Differentiate, move the result out of the scope, and return it by slot."""
        c, b = self.call, self.scope.b
        operands = {s.name: self.operand(s) for s in self.forward.operands}
        made = self.emit(self.forward, operands)
        gradient_op = b.emitted[-1]
        slots = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
        results = {r.name: v for r, v in zip(self.forward.results, slots, strict=True)}

        targets: list[Value] = []
        seeds: list[Value] = []
        for name, seed in self.names.seeds.items():
            _pair(b, results[name], self.held[seed], targets, seeds)
        wanted: dict[str, list[Value]] = {}
        for slot, result in zip(c.definition.results, c.op.result_slots, strict=True):
            requested = self.names.wanted.get(slot.name)
            if result is not None and requested is not None:
                value = operands[requested]
                wanted[slot.name] = value if isinstance(value, list) else [value]
        flat = [v for values in wanted.values() for v in values]
        found = iter(
            append_backward(
                self.scope.program,
                [t.ssa for t in targets],
                [v.ssa for v in flat],
                [s.ssa for s in seeds],
                defer=False,
            )
        )
        given = {
            name: [_dense(b, next(found), v) for v in values] for name, values in wanted.items()
        }
        self.use_given_results(gradient_op, results)
        self.carry_out([v for values in given.values() for v in values])
        return tuple([self.result(slot.name, slot.is_vec, given) for slot in c.definition.results])

    def result(self, name: str, is_vec: bool, given: Mapping[str, list[Value]]) -> Any:
        found = given.get(name)
        if found is None:
            return None
        b = self.call.b
        values = [self.scope.outside.get(v.ssa) or b.wrap(v.ssa) for v in found]
        return values if is_vec else values[0]

    # --- operands of the forward op ---

    def __getattr__(self, name: str) -> Given:
        """Attribute access for the formulas in the tables: see `_given`."""
        return self._given(name)

    def _given(self, name: str) -> Given:
        """An operand of the gradient op inside the scope, or one of its attributes."""
        if name in self.__dict__.get("held", {}):
            return self.held[name]
        return getattr(self.call, name)

    def operand(self, slot: Operand) -> Given:
        """The value for a slot of the forward op: held, recomputed, replaced, or a placeholder."""
        name, op = slot.name, self.call.definition.name
        spelled = self.names.operands.get(name)
        is_wanted = name in self.names.wanted.values()
        inner = forward_of(self.forward)
        if not is_wanted and inner is not None and name in {r.name for r in inner.results}:
            found = self.computed(inner, name)
            if found is not None:
                return found
        if spelled is not None:
            return getattr(self, spelled)
        if slot.kind is not None:
            return None
        for other in STANDS_FOR.get(op, {}).get(name, ()):
            if self.held[other] is not None:
                return self.held[other]
        if is_wanted:
            return self.unknown(name)
        formula = FROM_RESULT.get(op, {}).get(name)
        if formula is not None:
            return formula(self)
        if slot.optional:
            return None
        raise _lacks(self.call, name)

    def unknown(self, name: str) -> Given:
        """A placeholder argument for a forward operand that the gradient op does not hold."""
        c = self.call
        result = next(r for r, n in self.names.wanted.items() if n == name)
        value = c.op.result_named(result)
        source = SOURCES[c.definition.name].get(result)
        if value is not None:
            types = [value.type]
        elif source is not None and isinstance(self.held[source], Value):
            types = [self.held[source].ssa.type]
        else:
            raise _lacks(c, name)
        made = self.scope.argument(types[0])
        self.lacking[made.ssa] = name
        return made

    def computed(self, inner: OpDef, name: str) -> Given:
        """Recompute a result of the op after a forward op that is a gradient op itself.

        None if an operand of that op is missing.

        An argument would be a constant to the derivative; the recomputed value carries its
        dependence.
        """
        operands = {s.name: self.held.get(s.name) for s in inner.operands}
        for other in STANDS_FOR.get(self.forward.name, {}):
            if other in operands:
                operands[other] = next(
                    (v for n in self._placeholders(other) if (v := self.held.get(n)) is not None),
                    None,
                )
        if any(operands[s.name] is None and not s.optional for s in inner.operands if not s.kind):
            return None
        made = self.emit(inner, operands)
        slots = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
        return next(v for r, v in zip(inner.results, slots, strict=True) if r.name == name)

    def _placeholders(self, name: str) -> Sequence[str]:
        ours = STANDS_FOR.get(self.call.definition.name, {})
        return [
            renamed
            for n in STANDS_FOR[self.forward.name][name]
            for renamed in (*ours.get(n, ()), n)
        ]

    def emit(self, op: OpDef, operands: Mapping[str, Given]) -> Any:
        """Emit an op with the attributes of the gradient op, or else the defaults."""
        c = self.call
        ours = {o.name for o in c.definition.operands} | set(c.definition.attr_kinds)
        attrs = ATTRIBUTES.get(c.definition.name, lambda _: {})(self)
        attrs |= {n: self._given(n) for n in op.attr_kinds if n in ours}
        kinds = {s.name: operands[s.name] for s in op.operands if s.kind is not None}
        attrs |= {n: given for n, given in kinds.items() if given is not None}
        tensors = [operands[s.name] for s in op.operands if s.kind is None]
        return self.scope.b(op, *tensors, **attrs)

    # --- from the scope into the program
    # -----------------------------------------------------------

    def use_given_results(self, gradient_op: PirOp, results: Mapping[str, Any]) -> None:
        """Replace recomputed results of the forward op by the ones that the gradient op holds."""
        if gradient_op.parent is None:
            return
        for name, spelled in self.names.results.items():
            value, given = results[name], self.held[spelled]
            if isinstance(value, Value) and isinstance(given, Value):
                value.ssa.replace_all_uses_with(given.ssa)

    def carry_out(self, results: Sequence[Value]) -> None:
        """Move the live ops of the scope before the gradient op."""
        block, b = self.scope.program.block, self.call.b
        live = {v.ssa for v in results}
        # Dead ops go first: a draw of random numbers matters only if something reads it.
        for op in reversed(list(cast("Sequence[PirOp]", block.ops))):
            is_live = any(r in live or r.first_use is not None for r in op.results)
            if not is_live and not _is_saving(op):
                op.detach()
                op.erase()
        for op in cast("Sequence[PirOp]", block.ops):
            if may_draw(op.definition, op.attribute_values()):
                raise _draws_again(self.call)
        for argument in block.args:
            if argument.first_use is None and argument not in live:
                continue
            argument.replace_all_uses_with(self.outer(argument).ssa)
        for op in list(cast("Sequence[PirOp]", block.ops)):
            op.detach()
            for attribute in (SOURCE, RULE, ORDER):
                op.attributes.pop(attribute, None)
            b.insert(op)

    def outer(self, argument: SSAValue) -> Value:
        """The value that replaces an argument of the scope."""
        found = self.scope.outside.get(argument)
        if found is None:
            found = self.recovered(argument)
            self.scope.outside[argument] = found
        return found

    def recovered(self, argument: SSAValue) -> Value:
        c, name = self.call, self.lacking[argument]
        rule = FROM_RESULT.get(c.definition.name, {}).get(name)
        if rule is not None:
            return rule(c)
        if all(_reads_shape(cast(PirOp, use.operation), argument) for use in argument.uses):
            result = next(r for r, n in self.names.wanted.items() if n == name)
            source = SOURCES[c.definition.name].get(result)
            if source is not None:
                return c.operand(source)
        raise _lacks(c, name)


def _is_saving(op: PirOp) -> bool:
    """Whether an op, as a loop, pushes something on a stack that is read."""
    inner = [o for region in bodies(op) for o in operations(region.block)]
    stacks = [o.operands[0].owner for o in (op, *inner) if o.name == "pir.tuple_push"]
    read = [r for s in stacks if isinstance(s, Operation) for r in (s.results[0], s.results[2])]
    return any(r.first_use is not None for r in read)


def _pair(b: Builder, value: Given, seed: Given, targets: list[Value], seeds: list[Value]) -> None:
    """Append a forward result and its cotangent, if both exist; lists element by element."""
    if value is None or seed is None:
        return
    values = b.split_vec(value) if isinstance(seed, list) else [value]
    targets += values
    seeds += cast("list[Value]", seed) if isinstance(seed, list) else [seed]


def _dense(b: Builder, found: SSAValue | None, like: Value) -> Value:
    return b.zeros_like(like) if found is None else b.wrap(found)


def _reads_shape(op: PirOp, value: SSAValue) -> bool:
    return all(
        op.operand_named(o.name) is not value or o.name in op.definition.reads_meta_only
        for o in op.definition.operands
    )


def _lacks(c: OpCall, name: str) -> UnsupportedError:
    return _no_derivative(
        c, f"`{name}`, which the op does not hold", "give the op a `decompose` rule of its own"
    )


def _draws_again(c: OpCall) -> UnsupportedError:
    return _no_derivative(
        c,
        "random numbers that its forward op drew, and the op does not hold them",
        "differentiate the forward program with `autodiff`: both then share one draw",
    )


def _no_derivative(c: OpCall, read: str, help: str) -> UnsupportedError:
    return UnsupportedError(
        f"the derivative of `{c.definition.name}` reads {read}",
        code="PK0402", span=span_of(c.op), notes=origin_of(c.op), help=help,
    )  # fmt: skip


def _rule_of(definition: OpDef) -> Callable[[OpCall], Any] | None:
    """The rule of gradient ops, found by name, so that their families are imported only if used."""
    return decompose_gradient if forward_of(definition) is not None else None


SCOPED.add(decompose_gradient)
decompose.otherwise = _rule_of

__all__ = ["decompose_gradient"]
