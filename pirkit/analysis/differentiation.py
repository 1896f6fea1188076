"""Which values a gradient flows through: those that depend on inputs and that targets depend on.

Dependence is followed through branches, loops and stacks: what a loop yields becomes its next
arguments, and what is popped from a stack is what was pushed onto it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from msgspec import Struct, field
from xdsl.dialects import builtin as mlir
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.attrs import decode
from pirkit.dialect.kinds import DETACH, LOOP
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, declares
from pirkit.dialect.ops.control.derivatives import CUSTOM
from pirkit.dialect.ops.control.tensor_array import ARRAY_OPS
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta, VecMeta

Item = tuple[Operation, int]
"""An index among the operands of a push, with the op that creates the stack."""


class Paths(Struct, frozen=True):
    """The ops and values between ``wrt`` and the targets.

    ``ops`` are the ops of the block that lie between, in order. ``active`` are the values through
    which a gradient to ``wrt`` flows, including values inside regions. ``needed`` are the values
    that the targets depend on.
    """

    ops: list[PirOp]
    active: set[SSAValue]
    needed: set[SSAValue]


def paths_between(block: Block, targets: Iterable[SSAValue], wrt: Iterable[SSAValue]) -> Paths:
    """Find the ops and values between ``wrt`` and the targets, in a block and its regions."""
    demand = _Demand(block)
    found = demand.upstream(list(targets))
    flow = _Flow(set(wrt))
    for op in found:
        flow.visit(op)
    on_way = [op for op in found if flow.reaches(op)]
    return Paths(on_way, flow.active, demand.needed)


def between(block: Block, targets: Iterable[SSAValue], wrt: Iterable[SSAValue]) -> list[PirOp]:
    """The ops of a block that depend on ``wrt`` and that the targets depend on, in order."""
    return paths_between(block, targets, wrt).ops


def flows(targets: Sequence[SSAValue], source: SSAValue) -> bool:
    """Whether a gradient flows from one of the targets, values of one block, to ``source``."""
    block = block_of(targets[0])
    active = set[SSAValue]() if block is None else paths_between(block, targets, [source]).active
    return not active.isdisjoint(targets)


def is_differentiable(value: SSAValue) -> bool:
    """True for floating and complex tensors, and for lists that hold one."""
    meta = meta_of(value.type)
    metas = meta.items if isinstance(meta, VecMeta) else (meta,)
    return any(
        isinstance(m, TensorMeta) and (m.dtype.is_float or m.dtype.is_complex) for m in metas
    )


def stops_gradient(value: SSAValue) -> bool:
    """True if the program marks the value so that no gradient flows through it."""
    owner = value.owner
    if isinstance(owner, PirOp):
        flags = owner.stop_gradient
        slots = owner.result_slots
        return any(f and v is value for f, v in zip(flags, slots, strict=False))
    parent = owner.parent_op() if not isinstance(owner, Operation) else None
    if not isinstance(value, BlockArgument) or not isinstance(parent, ProgramOp | PirOp):
        return False
    if isinstance(parent, PirOp) and parent.stop_gradient:  # Paddle marks results alike
        return stops_gradient(parent.results[value.index])
    flags = parent.arg_attrs[value.index : value.index + 1]
    held = flags[0].data.get("stop_gradient") if flags else None
    if isinstance(held, mlir.IntegerAttr):
        return bool(cast(mlir.IntegerAttr, held).value.data)
    return held is not None and any(decode("bool[]", held))


def is_cut(result: SSAValue, sources: Sequence[SSAValue]) -> bool:
    """True if the mark on a result stops a gradient that would otherwise flow through the op.

    If all operands are marked as well, the mark only says that no gradient was requested; but for
    what `detach` makes.
    """
    owner = result.owner
    is_detached = isinstance(owner, PirOp) and declares(owner, DETACH)
    return stops_gradient(result) and (is_detached or not all(map(stops_gradient, sources)))


def block_of(value: SSAValue) -> Block | None:
    """The block in which a value is defined."""
    owner = value.owner
    return owner.parent if isinstance(owner, Operation) else owner


def stack_of(token: SSAValue) -> PirOp | None:
    """The op that creates the stack of a token; None for a stack from outside the program.

    A token that was itself saved on another stack is traced to its push.
    """
    owner = token.owner
    while isinstance(owner, PirOp) and owner.name == "pir.tuple_pop":
        index = cast(OpResult, token).index
        holder = stack_of(owner.operands[0])
        push = None if holder is None else push_of(holder)
        if push is None:
            return None
        token = push.operands[1 + index]
        owner = token.owner
    return owner if isinstance(owner, PirOp) and owner.name == "pir.stack_create" else None


def push_of(stack: PirOp) -> PirOp | None:
    """The push onto a stack, of which there is at most one."""
    users = [use.operation for use in stack.results[1].uses]
    return next((cast(PirOp, u) for u in users if u.name == "pir.tuple_push"), None)


class _Demand(Struct):
    """Backward dependence: what some values depend on, users before definitions."""

    home: Block
    needed: set[SSAValue] = field(default_factory=set[SSAValue])
    popped: set[Item] = field(default_factory=set[Item])
    pending: set[Operation] = field(default_factory=set[Operation])
    """Ops of the home block that are needed and not visited yet, but for constants and inputs."""
    visits_all: bool = False
    """Whether values pass through stacks and arrays, which do not tell who wrote them."""

    def upstream(self, targets: Sequence[SSAValue]) -> list[PirOp]:
        """The ops of the home block that are needed, in order.

        Programs ask this for each of many derivatives, so the walk goes from a target back to the
        last op that is needed, and not through the whole block.
        """
        self.need(targets)
        self.visits_all = any(block_of(v) is not self.home for v in targets)
        starts_at_target = len(self.pending) == len(targets) == 1 and not self.visits_all
        op = next(iter(self.pending)) if starts_at_target else self.home.last_op
        found: list[PirOp] = []
        while op is not None and (self.pending or self.visits_all):
            if self.visits_all or op in self.pending:
                self.pending.discard(op)
                if self.visit(cast(PirOp, op)):
                    found.append(cast(PirOp, op))
            op = op.prev_op
        found.reverse()
        return found

    def need(self, values: Iterable[SSAValue]) -> None:
        """Add values that are needed."""
        for value in values:
            if value not in self.needed:
                self.needed.add(value)
                owner = value.owner
                if isinstance(owner, PirOp) and owner.parent is self.home and (
                    owner.operands or owner.regions
                ):  # fmt: skip
                    self.pending.add(owner)

    def block(self, block: Block) -> list[PirOp]:
        """The ops of the block that are needed, in order."""
        found = [cast(PirOp, op) for op in reversed(block.ops) if self.visit(cast(PirOp, op))]
        found.reverse()
        return found

    def visit(self, op: PirOp) -> bool:
        if op.name == "pir.tuple_push":
            return self.push(op)
        if bodies(op):
            found = self.loop(op) if declares(op, LOOP) else self.branch(op)
        else:
            found = any(r in self.needed for r in op.results)
            found = found or (op.name in ARRAY_OPS and any(v in self.needed for v in op.operands))
        if not found:
            return False
        self.need(op.operands[:1] if declares(op, LOOP) else op.operands)
        self.visits_all |= op.name == "pir.tuple_pop" or op.name in ARRAY_OPS
        if op.name == "pir.tuple_pop":
            stack = stack_of(op.operands[0])
            if stack is not None:
                wanted = [i for i, r in enumerate(op.results) if r in self.needed]
                self.popped.update((stack, i) for i in wanted)
        return True

    def push(self, op: PirOp) -> bool:
        stack = stack_of(op.operands[0])
        popped_values = [v for i, v in enumerate(op.operands[1:]) if (stack, i) in self.popped]
        self.need(popped_values)
        return bool(popped_values)

    def branch(self, op: PirOp) -> bool:
        found = any(r in self.needed for r in op.results)
        for region in bodies(op):
            last = cast(Operation, region.block.last_op)
            pairs = zip(last.operands, op.results, strict=False)
            self.need(v for v, r in pairs if r in self.needed)
            found = bool(self.block(region.block)) or found
        return found

    def loop(self, op: PirOp) -> bool:
        body = op.regions[0].block
        last = cast(Operation, body.last_op)
        found = any(r in self.needed for r in op.results)
        before = -1
        while before != len(self.needed) + len(self.popped):
            before = len(self.needed) + len(self.popped)
            for i, argument in enumerate(body.args):
                if argument in self.needed or op.results[i] in self.needed:
                    self.need((argument, last.operands[1 + i], op.operands[1 + i]))
            inside = bool(self.block(body))
            found = found or inside
            if found:
                self.need(last.operands[:1])
        return found


class _Flow(Struct):
    """Forward dependence: what depends on some values, in execution order."""

    active: set[SSAValue]
    pushed: set[Item] = field(default_factory=set[Item])

    def visit(self, op: PirOp) -> None:
        if declares(op, LOOP):
            self.loop(op)
        elif bodies(op):
            self.branch(op)
        elif op.name == "pir.tuple_push":
            stack = stack_of(op.operands[0])
            if stack is not None:
                places = [i for i, v in enumerate(op.operands[1:]) if v in self.active]
                self.pushed.update((stack, i) for i in places)
        elif op.name == "pir.tuple_pop":
            stack = stack_of(op.operands[0])
            self.enter(r for i, r in enumerate(op.results) if (stack, i) in self.pushed)
        elif op.name in ARRAY_OPS:  # what is written to an array may be read from it
            if any(v in self.active for v in op.operands):
                self.active.add(op.operands[0])
                self.enter(op.results)
        else:
            sources = [v for v in _values(op) if v in self.active]
            if sources and _passes_on(op, sources):
                self.enter(r for r in op.results if not is_cut(r, sources))

    def enter(self, values: Iterable[SSAValue]) -> None:
        self.active.update(v for v in values if is_differentiable(v))

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.visit(cast(PirOp, op))

    def branch(self, op: PirOp) -> None:
        for region in bodies(op):
            self.block(region.block)
            last = cast(Operation, region.block.last_op)
            for value, result in zip(last.operands, op.results, strict=False):
                if value in self.active and not is_cut(result, [value]):
                    self.enter([result])

    def loop(self, op: PirOp) -> None:
        body = op.regions[0].block
        last = cast(Operation, body.last_op)
        before = -1
        while before != len(self.active) + len(self.pushed):
            before = len(self.active) + len(self.pushed)
            for argument, first, again, result in zip(
                body.args, op.operands[1:], last.operands[1:], op.results, strict=True
            ):
                # Paddle marks the result of a loop by its initial value alone, whatever is yielded.
                if (first in self.active or again in self.active) and not is_cut(result, [first]):
                    self.enter((argument, result))
            self.block(body)

    def reaches(self, op: PirOp) -> bool:
        """True if a gradient flows through the op."""
        given = any(r in self.active for r in op.results)
        if op.name == "pir.tuple_pop":
            return given
        direct = any(v in self.active for v in op.operands)
        if not bodies(op):
            return direct and (given or op.name == "pir.tuple_push" or op.name in ARRAY_OPS)
        inner = (v for region in bodies(op) for o in operations(region.block) for v in o.operands)
        return direct or any(v in self.active for v in inner)


def _values(op: PirOp) -> Sequence[SSAValue]:
    """The operands that the results depend on. Those of a rule of the user are none: rules may
    share their stand-ins, which are alike."""
    if op.name != CUSTOM:
        return op.operands
    return op.operands[: int(op.attribute("outputs")) + int(op.attribute("inputs"))]


def _passes_on(op: PirOp, sources: Sequence[SSAValue]) -> bool:
    """False for ops without a derivative by their nature, or with none for these operands."""
    primitive = PRIMITIVES.get(op.name)
    if primitive is not None and not primitive.differentiable:
        return False
    blind = {*op.definition.reads_meta_only, *op.definition.no_gradient}
    if not blind:
        return True
    slots = zip(op.definition.operands, op.operand_slots, strict=False)
    return any(v in sources and slot.name not in blind for slot, v in slots)
