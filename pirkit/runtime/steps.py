"""Builds the callables that run planned instructions.

If all arrays of a call are fixed for the session, its callable is the kernel's step with bound
arguments. Arrays that change from run to run (inputs, outputs, results of dynamic shape) are read
from the cells of the slot table when the callable runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Final, TypeGuard, cast

import numpy as np
from msgspec import Struct, field

from pirkit.diag.errors import ConstraintError, InternalError, RuntimeFault
from pirkit.diag.limits import current_limits
from pirkit.runtime.arrays import ACTIONS, SavedValues, TensorList, saved
from pirkit.runtime.binding import KERNEL_FAULTS, PlacedStep, Step
from pirkit.runtime.device import Device
from pirkit.runtime.dynamic_call import CallCounters, DynamicCall
from pirkit.runtime.launch_fusion import Maker, PendingLaunch, array_maker
from pirkit.runtime.library import Library
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.nodes import (
    Access,
    Bound,
    Branch,
    Constant,
    Dynamic,
    InPlace,
    Loop,
    Move,
    NewArray,
    Node,
    Release,
    Rename,
    StackNode,
    Target,
)
from pirkit.runtime.plan import Call, Instruction, Operand, slots_of
from pirkit.runtime.run_block import BlockSteps, Runner
from pirkit.runtime.slots import Cells, SlotTable

Array = np.ndarray[Any, Any]
Do = Callable[[], object]


class Env(Struct, frozen=True):
    """The shared state of a session's callables. ``run`` runs the blocks of branches and loops."""

    slot_table: SlotTable
    device: Device
    library: Library
    generator: Callable[[Call], Callable[[], np.random.Generator]]
    counters: CallCounters
    run: Runner
    fuses_launches: bool = False
    """Whether consecutive native steps are fused into one launch."""


def build(env: Env, nodes: Sequence[Node], accesses: Sequence[Access | None] = ()) -> BlockSteps:
    """The callables of planned instructions; views of fixed arrays are computed here, once."""
    builder = _Builder(env, PendingLaunch(env.slot_table))
    for node, access in zip_longest(nodes, accesses):
        builder.node(node, access)
    builder.close()
    made = builder.made
    calls = [(do.func, *do.args) if _is_plain(do) else (do,) for do, _, _ in made]
    is_native = len(made) == builder.fused_count
    whose = tuple([i for _, i, _ in made])
    return BlockSteps(tuple(calls), whose, tuple([a for _, _, a in made]), is_native)


class _Builder(Struct):
    """Collects callables with their instructions; ``current`` are the pending native steps."""

    env: Env
    current: PendingLaunch
    made: list[tuple[Do, Instruction, Access | None]] = field(
        default_factory=list["tuple[Do, Instruction, Access | None]"]
    )
    fused_count: int = 0
    """The number of callables that came from pending launches."""

    def close(self) -> None:
        """Emit the pending launch."""
        done = [(do, call, None) for do, call in self.current.calls_with_instructions()]
        self.made += done
        self.fused_count += len(done)
        self.current = PendingLaunch(self.env.slot_table)

    def node(self, node: Node, access: Access | None) -> None:
        if self.env.fuses_launches and isinstance(node, Bound) and self.fuses_launches(node):
            return
        do = _BUILDERS[type(node)](self.env, node)
        if do is not None:
            self.close()
            owner = node.call if isinstance(node, Bound | Dynamic) else node.instruction
            self.made.append((do, owner, access))

    def fuses_launches(self, node: Bound) -> bool:
        """Add a call to the pending launch, if it is a native step or a view of a moving array."""
        env, step = self.env, node.step
        cells = [env.slot_table.cells(o) for o in node.call.inputs]
        ins = [c for c in cells if not isinstance(c, tuple)]
        if len(ins) < len(cells):
            return False
        if isinstance(step, NativeStep):
            return self.fuse_native(node, step, ins)
        is_plain = not node.detach and not node.destinations
        is_view = node.choice.kernel.form == "view" and is_plain and len(ins) == 1
        return is_view and not env.slot_table.is_fixed(ins) and self.fuse_view(node, ins[0])

    def fuse_native(self, node: Bound, step: NativeStep, ins: list[int]) -> bool:
        env, call = self.env, node.call
        wanted = list(zip(call.outputs, node.targets, strict=False))
        renewed = {cast(int, o) for o, target in wanted if isinstance(target, NewArray)}
        if any(isinstance(target, tuple) for _, target in wanted) or not renewed.isdisjoint(ins):
            return False
        if not self.current.can_allocate_early(renewed) or not self.current.can_read(step, ins):
            self.close()
        env.counters.binds += 1
        fresh: list[tuple[int, TensorMeta]] = []
        outs = [
            env.slot_table.result_cell(cast(int, output), cast(Target, target), fresh)
            for output, target in wanted
        ]
        cells, makers = [*ins, *outs], _makers(env, fresh)
        if step.writes_contiguous(env.slot_table.values, cells, env.slot_table.moving_cells(outs)):
            self.current.add(call, step, cells, makers)
            return True
        self.close()
        run = step.at(env.slot_table.values, cells, env.slot_table.moving_cells(cells))
        self.made.append((_with_new_arrays(env.slot_table.values, makers, run), call, None))
        return True

    def fuse_view(self, node: Bound, source: int) -> bool:
        call, step = node.call, node.step
        do = cast(Do, _returning(self.env, node, [source]))
        cells = [source, *slots_of(call.outputs)]
        if not self.current.views(
            call, do, cells, lambda a: list(flat_results(step(a), call.outputs))
        ):
            self.close()
            self.made.append((do, call, None))
        return True


def _is_plain(do: Do) -> TypeGuard[partial[object]]:
    return isinstance(do, partial) and not do.keywords


def picker(slot_table: list[Any], cells: Sequence[Cells]) -> Callable[[], tuple[Any, ...]]:
    """A function that reads the arguments of a step from their cells."""
    if any(isinstance(c, tuple) for c in cells):
        return lambda: tuple(
            [[slot_table[i] for i in c] if isinstance(c, tuple) else slot_table[c] for c in cells]
        )
    flat = cast("list[int]", list(cells))
    if len(flat) < 2:
        return lambda: tuple([slot_table[c] for c in flat])
    return partial(cast("Callable[[Any], tuple[Any, ...]]", itemgetter(*flat)), slot_table)


def _bound(env: Env, node: Bound) -> Do | None:
    env.counters.binds += 1
    call = node.call
    ins = [env.slot_table.cells(o) for o in call.inputs]
    if node.choice.kernel.form != "out":
        return _returning(env, node, ins)
    fresh: list[tuple[int, TensorMeta]] = []
    outs: list[Cells] = []
    for output, target in zip(call.outputs, node.targets, strict=False):
        if isinstance(target, tuple):
            slots = cast("tuple[int, ...]", output)
            outs.append(
                tuple(
                    [
                        env.slot_table.result_cell(o, t, fresh)
                        for o, t in zip(slots, target, strict=True)
                    ]
                )
            )
        else:
            outs.append(env.slot_table.result_cell(cast(int, output), target, fresh))
    if any(isinstance(target, Constant) for target in node.targets):
        try:
            with np.errstate(all="ignore"):
                node.step(*[env.slot_table.current(c) for c in (*ins, *outs)])
        except (ConstraintError, *KERNEL_FAULTS):
            return _writing_step(
                env, node.step, ins, outs, fresh
            )  # the run reports the error, if it gets here
        return None
    return _writing_step(env, node.step, ins, outs, fresh)


def _writing_step(
    env: Env, step: Step, ins: list[Cells], outs: list[Cells], fresh: list[tuple[int, TensorMeta]]
) -> Do:
    slot_table = env.slot_table.values
    cells = [*ins, *outs]
    makers = _makers(env, fresh)
    flat = [c for c in cells if not isinstance(c, tuple)]
    reused = {slot for slot, _ in fresh}.intersection(flat[: len(ins)])
    if isinstance(step, PlacedStep) and len(flat) == len(cells) and not reused:
        return _with_new_arrays(
            slot_table, makers, step.at(slot_table, flat, env.slot_table.moving_cells(flat))
        )
    if env.slot_table.is_fixed(cells):
        return partial(step, *[env.slot_table.current(c) for c in cells])
    if not fresh:
        return _applied(step, slot_table, cells)
    operands, results = picker(slot_table, ins), picker(slot_table, outs)

    def make_and_write() -> None:
        given = operands()  # first: a result may get the slot of an operand
        for slot, make in makers:
            slot_table[slot] = make()
        step(*given, *results())

    return make_and_write


def _makers(env: Env, fresh: Sequence[tuple[int, TensorMeta]]) -> list[Maker]:
    return [(slot, env.device.maker(meta.shape, meta.dtype.np)) for slot, meta in fresh]


def _with_new_arrays(slot_table: list[Any], makers: Sequence[Maker], do: Do) -> Do:
    """A step that reads its cells itself, preceded by the allocation of its results."""
    if not makers:
        return do
    make = array_maker(slot_table, makers)

    def make_and_do() -> None:
        make()
        do()

    return make_and_do


def _applied(step: Step, slot_table: list[Any], cells: list[Cells]) -> Do:
    """The step applied to the content of cells; specialized for two and three arguments."""
    flat = [c for c in cells if not isinstance(c, tuple)]
    if len(flat) == len(cells) == 2:
        a, b = flat
        return lambda: step(slot_table[a], slot_table[b])
    if len(flat) == len(cells) == 3:
        a, b, c = flat
        return lambda: step(slot_table[a], slot_table[b], slot_table[c])
    pick = picker(slot_table, cells)
    return lambda: step(*pick())


def _returning(env: Env, node: Bound, ins: list[Cells]) -> Do | None:
    """A callable for a step that returns arrays; None for a view of a fixed array, computed here.

    A reshape of a fixed array that needs a copy reuses the memory of the first copy.
    """
    call, step = node.call, node.step
    outputs = tuple(slots_of(call.outputs))
    is_plain = not (node.detach or node.destinations)
    is_plain = is_plain and not any(isinstance(c, tuple) for c in ins[:1])  # no list
    if node.choice.kernel.form == "view" and is_plain and env.slot_table.is_fixed(ins):
        operands = [env.slot_table.current(c) for c in ins]
        found = list(flat_results(step(*operands), call.outputs))
        if all(env.device.xp.may_share_memory(a, o) for a in found for o in operands[:1] if a.size):
            for slot, array in zip(outputs, found, strict=True):
                env.slot_table.fix(slot, array)
            return None
        if len(found) == 1 and _same_elements(found[0], operands[0]):
            env.slot_table.fix(outputs[0], found[0])
            return partial(env.device.xp.copyto, found[0].reshape(operands[0].shape), operands[0])
    pick = picker(env.slot_table.values, ins)
    store = _store(env, call.outputs, node.detach, node.destinations)

    def compute() -> None:
        store(step(*pick()))

    return compute


def _same_elements(copy: Array, source: Array) -> bool:
    """True if a result is a row-major copy of the operand, as of a reshape that must copy."""
    return (copy.size, copy.dtype) == (source.size, source.dtype) and copy.flags.c_contiguous


def flat_results(found: Any, outputs: Sequence[Operand]) -> Iterable[Array]:
    """The arrays that a step returned, without those of absent outputs."""
    results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    for output, value in zip(outputs, results, strict=False):
        if isinstance(output, int):
            yield value
        elif output is not None:
            yield from value


def _store(
    env: Env, outputs: Sequence[Operand], detach: bool, destinations: frozenset[int]
) -> Callable[[Any], None]:
    """A function that stores the results of a step in their cells."""
    slot_table = env.slot_table.values
    slots = tuple(slots_of(outputs))
    copyto = env.device.xp.copyto
    destination_cells = {slot: env.slot_table.cell(slot) for slot in destinations}
    for slot in slots:
        if slot not in destinations:
            env.slot_table.set_moving(slot)
    if len(outputs) == 1 and isinstance(outputs[0], int) and not detach and not destinations:
        (only,) = outputs

        def store_one(found: Any) -> None:
            slot_table[cast(int, only)] = found[0] if isinstance(found, tuple) else found

        return store_one

    def store(found: Any) -> None:
        for slot, value in zip(slots, flat_results(found, outputs), strict=True):
            if slot in destination_cells:
                copyto(slot_table[destination_cells[slot]], value)
            else:
                slot_table[slot] = value.copy() if detach else value

    return store


def _dynamic(env: Env, node: Dynamic) -> Do:
    call = node.call
    pick = picker(env.slot_table.values, [env.slot_table.cells(o) for o in call.inputs])
    hosts = picker(env.slot_table.values, [env.slot_table.cells(h.source) for h in call.host])
    store = _store(env, call.outputs, False, node.destinations)
    late = DynamicCall(env.library, env.device, call, env.generator(call), env.counters)

    def compute() -> None:
        store(late(pick(), hosts()))

    return compute


def _move(env: Env, node: Move) -> Do | None:
    """Copies values between slots; None if nothing has to be copied.

    All sources are read before the first target is written, since a slot may be both, and copied
    where their memory overlaps the targets'. A target without a place gets an array of its own.
    """
    slot_table = env.slot_table.values
    sources = [env.slot_table.cell(i) for i in node.sources]
    fresh: list[tuple[int, TensorMeta]] = []
    pairs: list[tuple[int, int]] = []
    renewed: list[tuple[int, int]] = []
    for slot, target, source, place in zip(
        node.sources, node.targets, sources, node.places, strict=True
    ):
        if place is None:
            env.slot_table.set_moving(target)
            renewed.append((source, target))
        elif slot != target or not isinstance(place, InPlace):
            pairs.append((source, env.slot_table.result_cell(target, place, fresh)))
    if not pairs and not renewed:
        return None
    overlapping, copyto = node.overlapping, env.device.xp.copyto
    makers = _makers(env, fresh)

    def move() -> None:
        values = [slot_table[a] for a, _ in pairs]
        others = [slot_table[a].copy() for a, _ in renewed]
        if overlapping:
            values = [v.copy() for v in values]
        for slot, make in makers:
            slot_table[slot] = make()
        for value, (_, target) in zip(values, pairs, strict=True):
            copyto(slot_table[target], value)
        for value, (_, target) in zip(others, renewed, strict=True):
            slot_table[target] = value

    return move


def _rename(env: Env, node: Rename) -> Do:
    slot_table = env.slot_table.values
    pick = picker(slot_table, [env.slot_table.cell(i) for i in node.sources])
    for target in node.targets:
        env.slot_table.set_moving(target)
    targets = node.targets

    def rename() -> None:
        for target, value in zip(targets, pick(), strict=True):
            slot_table[target] = value

    return rename


def _branch(env: Env, node: Branch) -> Do:
    cells = env.slot_table
    slot_table, condition = cells.values, env.slot_table.cell(node.instruction.condition)
    then, orelse = build(env, node.then), build(env, node.orelse)

    def branch() -> None:
        env.run(cells, then if slot_table[condition].item() else orelse)

    return branch


def _loop(env: Env, node: Loop) -> Do:
    cells = env.slot_table
    slot_table, body = cells.values, build(env, node.body)
    condition, span = env.slot_table.cell(node.instruction.condition), node.instruction.span

    def loop() -> None:
        left = current_limits().loop_steps
        while slot_table[condition].item():
            left -= 1
            if left < 0:
                raise RuntimeFault(
                    "a loop ran longer than the limit of loop steps",
                    code="PK0905",
                    span=span,
                    help="raise the limit `loop_steps`, or look for a condition that never fails",
                )
            env.run(cells, body)

    return loop


def _on_stack(env: Env, node: StackNode) -> Do:
    """The step of an instruction on a stack, or on an array of tensors.

    A push copies, as the memory of a value is reused in the next iteration.
    """
    slot_table, stack = env.slot_table.values, node.instruction
    pick = picker(slot_table, [env.slot_table.cells(o) for o in stack.inputs])
    store = _store(env, stack.outputs, False, frozenset())
    slot, span = stack.slot, stack.span

    def create() -> None:
        slot_table[slot] = SavedValues()

    def push() -> None:
        slot_table[slot].append(tuple(map(saved, pick())))

    def pop() -> None:
        if not slot_table[slot]:
            raise RuntimeFault("pop from an empty stack", code="PK0904", span=span)
        store(slot_table[slot].pop())

    def test() -> None:
        store(env.device.take(np.array([bool(slot_table[slot])])))

    def make() -> None:
        slot_table[slot] = TensorList()

    def act() -> None:
        store(ACTIONS[stack.action](slot_table[slot], stack, env.device.xp, *pick()))

    actions: dict[str, Do] = {"create": create, "push": push, "pop": pop, "test": test}
    actions |= {"make": make, **dict.fromkeys(ACTIONS, act)}
    if stack.action not in actions:
        raise InternalError(f"plan with unknown stack action {stack.action!r}")
    return actions[stack.action]


def _release(env: Env, node: Release) -> Do | None:
    slot_table = env.slot_table.values
    slots = tuple([i for i in node.slots if env.slot_table.is_moving(i)])

    def release() -> None:
        for slot in slots:
            slot_table[slot] = None

    return release if slots else None


_BUILDERS: Final[dict[type, Callable[[Env, Any], Do | None]]] = {
    Bound: _bound,
    Dynamic: _dynamic,
    Move: _move,
    Rename: _rename,
    Branch: _branch,
    Loop: _loop,
    StackNode: _on_stack,
    Release: _release,
}
