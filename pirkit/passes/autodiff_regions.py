"""Derivatives of branches, loops and stacks.

The derivative of a branch is a branch on the same condition. The derivative of a loop is a loop
with the same trip count that runs backwards. The values that the backward body reads are pushed
onto a stack by the forward body and popped here: last in, first out is the order of a reverse
sweep at any depth of nesting. The stack of an inner loop is itself pushed onto the stack of the
outer loop.

Stacks are differentiable, which gives higher orders. The cotangents of popped values are pushed
onto a second stack; the reverse of the push, which runs in the opposite order, pops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from msgspec import Struct, field
from xdsl.ir import Block, Operation, Region, SSAValue

from pirkit.analysis.differentiation import Paths, block_of, is_differentiable, stack_of
from pirkit.analysis.effects import is_pure
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect import kinds
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, bodies, create, declares, span_of
from pirkit.dialect.ops.control.tensor_array import ARRAY_OPS
from pirkit.dialect.types import INLET, OUTLET, STACK, meta_of
from pirkit.passes.autodiff_support import BlockSweep, Cotangent, Part
from pirkit.runtime.meta import VecMeta


class Shared(Struct):
    """State that the sweep over a block shares with the sweeps over nested blocks."""

    top: Builder
    """Emits at the top level, before everything that the outermost sweep will emit."""
    paths: Paths
    wrt: frozenset[SSAValue]
    returns: dict[PirOp, tuple[SSAValue, tuple[int, ...]]] = field(
        default_factory=dict[PirOp, "tuple[SSAValue, tuple[int, ...]]"]
    )
    """For each stack whose pop has been visited: the outlet of the stack with the cotangents, and
    which of the popped items have one."""
    arrays: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """For each array of tensors the array of its cotangents."""


class Sweep(BlockSweep, Protocol):
    """A reverse sweep over one block, which may have blocks inside."""

    shared: Shared
    grads: dict[SSAValue, list[Part]]

    def inside(self) -> Sweep:
        """A sweep over a nested block, with cotangents of its own."""
        ...

    def over(self, shared: Shared) -> Sweep:
        """A sweep with other paths, and cotangents of its own."""
        ...

    def sweep(self, ops: Sequence[PirOp]) -> None:
        """Visit the ops in reverse order: users before the ops that define their operands."""
        ...

    def part(self, value: SSAValue) -> Part:
        """The sum of the contributions to one value, with its support."""
        ...

    def total(self, value: SSAValue) -> Cotangent:
        """The sum of the contributions to one value."""
        ...

    def captured(self, block: Block) -> list[SSAValue]:
        """The values from outside a block that have a cotangent in this sweep."""
        ...


class Tokens(Struct, frozen=True):
    """The tokens of a stack: the op that creates it, the end to push to, the end to pop from."""

    stack: SSAValue
    inlet: SSAValue
    outlet: SSAValue


def new_stack(b: Builder) -> Tokens:
    """Create a stack."""
    return Tokens(*b.insert(create("pir.stack_create", (), (STACK, INLET, OUTLET))).results)


def pop(b: Builder, outlet: SSAValue, like: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    """Pop the values that were pushed last; their types are those of ``like``."""
    return tuple(b.insert(create("pir.tuple_pop", (outlet,), [v.type for v in like])).results)


def push(b: Builder, inlet: SSAValue, values: Iterable[SSAValue]) -> None:
    """Copy values onto a stack."""
    b.insert(create("pir.tuple_push", (inlet, *values)))


def has_reverse(shared: Shared, op: PirOp) -> bool:
    """True if the reverse of the op, or of one nested in it, takes cotangents from where they are
    stored: a push whose reverse pops them, a write to an array through which gradients flow."""
    if not shared.returns and not bodies(op) and op.name not in ARRAY_OPS:
        return False
    inner = (o for region in bodies(op) for o in operations(region.block))
    return any(
        stack_of(o.operands[0]) in shared.returns
        if o.name == "pir.tuple_push"
        else o.name in ARRAY_OPS and any(v in shared.paths.active for v in o.operands[:1])
        for o in (op, *inner)
    )


# --- branches ------------------------------------------------------------------------------------


def differentiate_if(back: Sweep, op: PirOp, held: list[Cotangent]) -> None:
    """Emit a branch whose two regions yield the cotangents of every captured value."""
    blocks: list[Block] = []
    sweeps: list[Sweep] = []
    for region in bodies(op):
        block, inner = Block(), back.inside()
        with back.b.inside(block):
            yielded = cast(Operation, region.block.last_op).operands
            for value, cotangent in zip(yielded, held, strict=True):
                if cotangent is not None and value in back.shared.paths.active:
                    inner.add(value, cotangent)
            inner.sweep(_ops(region.block))
        blocks.append(block)
        sweeps.append(inner)
    places = _places(back, sweeps, op)
    if not places and not any(_has_effects(block) for block in blocks):
        return
    for region, block, inner in zip(bodies(op), blocks, sweeps, strict=True):
        with back.b.inside(block):
            back.b("pir.yield", *[p.take(inner) or p.zeros(back.b) for p in places])
        _save(back, op, region.block, block)
    types = [p.like(back.b).ssa.type for p in places]
    made = create("pd_op.if", op.operands, types, regions=[Region(block) for block in blocks])
    back.b.insert(made)
    for place, result in zip(places, made.results, strict=True):
        place.give(back, back.b.wrap(result))


# --- loops ---------------------------------------------------------------------------------------


def differentiate_while(back: Sweep, op: PirOp, held: list[Cotangent]) -> None:
    """Emit a loop that carries the cotangents of the forward loop's arguments and accumulates those
    of the values that the loop captures."""
    b, forward = back.b, op.regions[0].block
    last = cast(Operation, forward.last_op)
    paths = back.shared.paths
    carried = [i for i, a in enumerate(forward.args) if a in paths.active and a in paths.needed]
    body = Block(arg_types=[forward.args[i].type for i in carried])
    for argument in body.args:
        _require_tensor(argument, op)
    inner = back.inside()
    with b.inside(body):
        for i, argument in zip(carried, body.args, strict=True):
            inner.add(last.operands[1 + i], b.wrap(argument))
        inner.sweep(_ops(forward))
        following = [
            inner.total(forward.args[i]) or b.zeros_like(b.wrap(argument))
            for i, argument in zip(carried, body.args, strict=True)
        ]
    places = _places(back, [inner], op)
    if not carried and not places and not _has_effects(body):
        return
    tokens = new_stack(_in_front_of(op, back))
    with b.inside(body):
        sums: list[Value] = []
        for place in places:
            held_sum = body.insert_arg(place.like(b).ssa.type, len(body.args))
            sums.append(b.wrap(held_sum) + cast(Value, place.take(inner)))
        more = b("pir.has_elements", b.wrap(tokens.stack))
        b("pir.yield", more, *following, *sums)
    _save(back, op, forward, body, tokens)
    starts = [held[i] or b.zeros_like(b.wrap(op.results[i])) for i in carried]
    starts += [p.zeros(b) for p in places]
    more = b("pir.has_elements", b.wrap(tokens.stack))
    types = [a.type for a in body.args]
    made = create(
        "pd_op.while", (more.ssa, *[s.ssa for s in starts]), types, regions=[Region(body)]
    )
    results = [b.wrap(r) for r in b.insert(made).results]
    for i, result in zip(carried, results, strict=False):
        if op.operands[1 + i] in paths.active:
            back.add(op.operands[1 + i], result)
    for place, result in zip(places, results[len(carried) :], strict=True):
        place.give(back, result)


# --- stacks --------------------------------------------------------------------------------------


def differentiate_pop(back: Sweep, op: PirOp, held: list[Cotangent]) -> None:
    """Push the cotangents of the popped values, for the reverse of the push."""
    stack = stack_of(op.operands[0])
    if stack is None:
        return
    places = [i for i, h in enumerate(held) if h is not None]
    for i in places:
        _require_tensor(op.results[i], op)
    tokens = new_stack(back.shared.top)
    push(back.b, tokens.inlet, [held[i].ssa for i in places])
    back.shared.returns[stack] = (tokens.outlet, tuple(places))


def differentiate_push(back: Sweep, op: PirOp, held: list[Cotangent]) -> None:
    """Pop the cotangents of the pushed values."""
    stack = stack_of(op.operands[0])
    assert stack is not None
    outlet, places = back.shared.returns[stack]
    values = [op.operands[1 + i] for i in places]
    for value, cotangent in zip(values, pop(back.b, outlet, values), strict=True):
        if value in back.shared.paths.active:
            back.add(value, back.b.wrap(cotangent))


def _save(
    back: Sweep, op: PirOp, forward: Block, backward: Block, tokens: Tokens | None = None
) -> None:
    """Make the forward values that the backward block reads available in it.

    Constants are cloned into the backward block. All other values go over a stack, which is created
    before ``op`` unless ``tokens`` are given.
    """
    saved_uses: dict[SSAValue, list[tuple[Operation, int]]] = {}
    for user in operations(backward):
        for index, value in enumerate(user.operands):
            if block_of(value) is forward:
                saved_uses.setdefault(value, []).append((user, index))
    stored = [v for v in saved_uses if not _is_constant(v)]
    if stored and tokens is None:
        tokens = new_stack(_in_front_of(op, back))
    start = _in_front_of(backward.first_op, back)
    replacement: dict[SSAValue, SSAValue] = {}
    if tokens is not None:
        push(_in_front_of(forward.last_op, back), tokens.inlet, stored)
        replacement.update(zip(stored, pop(start, tokens.outlet, stored), strict=True))
    for value, uses in saved_uses.items():
        if value not in replacement:
            again = cast(PirOp, cast(Operation, value.owner).clone())
            replacement[value] = start.insert(again).results[0]
        for user, index in uses:
            user.operands[index] = replacement[value]


def _in_front_of(op: Operation | None, back: Sweep) -> Builder:
    """A builder that inserts before an op and marks ops with the provenance of the sweep."""
    place = cast(PirOp, op)
    block = cast(Block, place.parent)
    return Builder(block, place, location=place.location, attributes=back.b.attributes)


def _is_constant(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and not owner.operands and is_pure(owner)


# --- captured values -----------------------------------------------------------------------------


class _Place(Struct, frozen=True):
    """A captured tensor, or an element of a captured list, that has a cotangent."""

    value: SSAValue
    index: int | None = None

    def like(self, b: Builder) -> Value:
        vec = b.wrap(self.value)
        return vec if self.index is None else b.split_vec(vec)[self.index]

    def zeros(self, b: Builder) -> Value:
        return b.zeros_like(self.like(b))

    def take(self, sweep: Sweep) -> Value | None:
        """The cotangent of this place in a sweep over a region."""
        found = sweep.total(self.value)
        return found if self.index is None or found is None else found[self.index]

    def give(self, back: Sweep, cotangent: Value) -> None:
        """Add a cotangent to the enclosing sweep."""
        if self.index is None:
            back.add(self.value, cotangent)
            return
        count = len(cast(VecMeta, meta_of(self.value.type)))
        back.add(self.value, [cotangent if i == self.index else None for i in range(count)])


def _places(back: Sweep, sweeps: Sequence[Sweep], op: PirOp) -> list[_Place]:
    """The captured places for which the sweeps over the regions have a cotangent, in order."""
    found: dict[_Place, None] = {}
    for sweep, region in zip(sweeps, bodies(op), strict=True):
        for value in sweep.captured(region.block):
            meta = meta_of(value.type)
            if not isinstance(meta, VecMeta):
                found[_Place(value)] = None
                continue
            lists = [cast("list[Cotangent]", part.value) for part in sweep.grads[value]]
            held = [i for i in range(len(meta)) if any(each[i] is not None for each in lists)]
            found.update({_Place(value, i): None for i in held})
    return list(found)


def _ops(block: Block) -> list[PirOp]:
    return [cast(PirOp, op) for op in block.ops]


def _has_effects(block: Block) -> bool:
    return any(declares(op, kinds.STACK) or op.name in ARRAY_OPS for op in operations(block))


def _require_tensor(value: SSAValue, op: PirOp) -> None:
    if isinstance(meta_of(value.type), VecMeta) and is_differentiable(value):
        raise UnsupportedError(
            f"`{op.name}` carries a list of tensors, which has no derivative",
            code="PK0402",
            span=span_of(op),
            help="let the loop carry the tensors one by one",
        )
