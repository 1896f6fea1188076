"""The callables that run planned instructions.

A callable knows its arrays. Where all operands and results stay at the same place it is just the
kernel's step applied to them; where some change from run to run (inputs, outputs, results whose
size depends on elements) it picks them from the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Final, TypeGuard, cast

import numpy as np

from pirkit.diag.errors import ConstraintError, InternalError, RuntimeFault
from pirkit.diag.limits import current_limits
from pirkit.runtime.arrays import ACTIONS, TensorList
from pirkit.runtime.binding import KERNEL_FAULTS, PlacedStep, Step
from pirkit.runtime.device import Device
from pirkit.runtime.executing import Runner, Steps
from pirkit.runtime.frame import Cells, Frame
from pirkit.runtime.joining import Held, Maker, making
from pirkit.runtime.late import Counted, LateCall
from pirkit.runtime.library import Library
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.nodes import (
    Access,
    Bound,
    Branch,
    Fresh,
    Late,
    Loop,
    Move,
    Node,
    Once,
    OnStack,
    Over,
    Release,
    Rename,
    Target,
)
from pirkit.runtime.plan import Call, Instruction, Operand, slots_of

Array = np.ndarray[Any, Any]
Do = Callable[[], object]


@dataclass(frozen=True)
class Env:
    """What the callables of one session share. ``run`` runs the blocks inside of instructions."""

    frame: Frame
    device: Device
    library: Library
    generator: Callable[[Call], Callable[[], np.random.Generator]]
    counters: Counted
    run: Runner
    joins: bool = False
    """Whether native steps that stand together may be one callable."""


def build(env: Env, nodes: Sequence[Node], accesses: Sequence[Access | None] = ()) -> Steps:
    """The callables of planned instructions; views of what stays at its place need none."""
    builder = _Builder(env, Held(env.frame))
    for node, access in zip_longest(nodes, accesses):
        builder.node(node, access)
    builder.close()
    made = builder.made
    calls = [(do.func, *do.args) if _is_plain(do) else (do,) for do, _, _ in made]
    is_native = len(made) == builder.joined
    whose = tuple([i for _, i, _ in made])
    return Steps(tuple(calls), whose, tuple([a for _, _, a in made]), is_native)


@dataclass
class _Builder:
    """Callables with their instructions, and native steps that are held back."""

    env: Env
    held: Held
    made: list[tuple[Do, Instruction, Access | None]] = field(
        default_factory=list["tuple[Do, Instruction, Access | None]"]
    )
    joined: int = 0
    """How many of them came of what was held back."""

    def close(self) -> None:
        """What was held back stands here."""
        done = [(do, call, None) for do, call in self.held.dos()]
        self.made += done
        self.joined += len(done)
        self.held = Held(self.env.frame)

    def node(self, node: Node, access: Access | None) -> None:
        if self.env.joins and isinstance(node, Bound) and self.joins(node):
            return
        do = _BUILDERS[type(node)](self.env, node)
        if do is not None:
            self.close()
            owner = node.call if isinstance(node, Bound | Late) else node.instruction
            self.made.append((do, owner, access))

    def joins(self, node: Bound) -> bool:
        """Holds a call back, where it is a native step or a view of what moves."""
        env, step = self.env, node.step
        cells = [env.frame.cells(o) for o in node.call.inputs]
        ins = [c for c in cells if not isinstance(c, tuple)]
        if len(ins) < len(cells):
            return False
        if isinstance(step, NativeStep):
            return self.native(node, step, ins)
        is_plain = not node.detach and not node.homes
        is_view = node.choice.kernel.form == "view" and is_plain and len(ins) == 1
        return is_view and not env.frame.stays(ins) and self.view(node, ins[0])

    def native(self, node: Bound, step: NativeStep, ins: list[int]) -> bool:
        env, call = self.env, node.call
        wanted = list(zip(call.outputs, node.targets, strict=False))
        renewed = {cast(int, o) for o, target in wanted if isinstance(target, Fresh)}
        if any(isinstance(target, tuple) for _, target in wanted) or not renewed.isdisjoint(ins):
            return False
        if not self.held.may_renew(renewed) or not self.held.may_read(step, ins):
            self.close()
        env.counters.binds += 1
        fresh: list[tuple[int, TensorMeta]] = []
        outs = [
            env.frame.settle(cast(int, output), cast(Target, target), fresh)
            for output, target in wanted
        ]
        cells, makers = [*ins, *outs], _makers(env, fresh)
        if step.is_written_in_rows(env.frame.values, cells, env.frame.moving(outs)):
            self.held.add(call, step, cells, makers)
            return True
        self.close()
        run = step.at(env.frame.values, cells, env.frame.moving(cells))
        self.made.append((_made_first(env.frame.values, makers, run), call, None))
        return True

    def view(self, node: Bound, source: int) -> bool:
        call, step = node.call, node.step
        do = cast(Do, _returning(self.env, node, [source]))
        cells = [source, *slots_of(call.outputs)]
        if not self.held.views(call, do, cells, lambda a: list(_flat(step(a), call.outputs))):
            self.close()
            self.made.append((do, call, None))
        return True


def _is_plain(do: Do) -> TypeGuard[partial[object]]:
    return isinstance(do, partial) and not do.keywords


def picker(frame: list[Any], cells: Sequence[Cells]) -> Callable[[], tuple[Any, ...]]:
    """What gives the arguments of a step out of the frame."""
    if any(isinstance(c, tuple) for c in cells):
        return lambda: tuple(
            [[frame[i] for i in c] if isinstance(c, tuple) else frame[c] for c in cells]
        )
    flat = cast("list[int]", list(cells))
    if len(flat) < 2:
        return lambda: tuple([frame[c] for c in flat])
    return partial(cast("Callable[[Any], tuple[Any, ...]]", itemgetter(*flat)), frame)


def _bound(env: Env, node: Bound) -> Do | None:
    env.counters.binds += 1
    call = node.call
    ins = [env.frame.cells(o) for o in call.inputs]
    if node.choice.kernel.form != "out":
        return _returning(env, node, ins)
    fresh: list[tuple[int, TensorMeta]] = []
    outs: list[Cells] = []
    for output, target in zip(call.outputs, node.targets, strict=False):
        if isinstance(target, tuple):
            slots = cast("tuple[int, ...]", output)
            outs.append(
                tuple([env.frame.settle(o, t, fresh) for o, t in zip(slots, target, strict=True)])
            )
        else:
            outs.append(env.frame.settle(cast(int, output), target, fresh))
    if any(isinstance(target, Once) for target in node.targets):
        try:
            with np.errstate(all="ignore"):
                node.step(*[env.frame.held(c) for c in (*ins, *outs)])
        except (ConstraintError, *KERNEL_FAULTS):
            return _writing(env, node.step, ins, outs, fresh)  # refused when it runs, if it does
        return None
    return _writing(env, node.step, ins, outs, fresh)


def _writing(
    env: Env,
    step: Step,
    ins: list[Cells],
    outs: list[Cells],
    fresh: list[tuple[int, TensorMeta]],
) -> Do:
    frame = env.frame.values
    cells = [*ins, *outs]
    makers = _makers(env, fresh)
    flat = [c for c in cells if not isinstance(c, tuple)]
    taken = {slot for slot, _ in fresh}.intersection(flat[: len(ins)])
    if isinstance(step, PlacedStep) and len(flat) == len(cells) and not taken:
        return _made_first(frame, makers, step.at(frame, flat, env.frame.moving(flat)))
    if env.frame.stays(cells):
        return partial(step, *[env.frame.held(c) for c in cells])
    if not fresh:
        return _applied(step, frame, cells)
    operands, results = picker(frame, ins), picker(frame, outs)

    def make_and_write() -> None:
        given = operands()  # first: a result may get the slot of an operand
        for slot, make in makers:
            frame[slot] = make()
        step(*given, *results())

    return make_and_write


def _makers(env: Env, fresh: Sequence[tuple[int, TensorMeta]]) -> list[Maker]:
    return [(slot, env.device.maker(meta.shape, meta.dtype.np)) for slot, meta in fresh]


def _made_first(frame: list[Any], makers: Sequence[Maker], do: Do) -> Do:
    """A step that finds its arrays itself, behind what makes those of its results."""
    if not makers:
        return do
    make = making(frame, makers)

    def make_and_do() -> None:
        make()
        do()

    return make_and_do


def _applied(step: Step, frame: list[Any], cells: list[Cells]) -> Do:
    """The step on what is in the cells; of the usual number of cells without a detour."""
    flat = [c for c in cells if not isinstance(c, tuple)]
    if len(flat) == len(cells) == 2:
        a, b = flat
        return lambda: step(frame[a], frame[b])
    if len(flat) == len(cells) == 3:
        a, b, c = flat
        return lambda: step(frame[a], frame[b], frame[c])
    pick = picker(frame, cells)
    return lambda: step(*pick())


def _returning(env: Env, node: Bound, ins: list[Cells]) -> Do | None:
    """Steps that return arrays. A view of what stays at its place is made once, here.

    A reshape that needs a copy keeps the memory of the first one.
    """
    call, step = node.call, node.step
    outputs = tuple(slots_of(call.outputs))
    is_plain = not node.detach and not node.homes
    if node.choice.kernel.form == "view" and is_plain and env.frame.stays(ins):
        operands = [env.frame.held(c) for c in ins]
        found = list(_flat(step(*operands), call.outputs))
        if all(env.device.xp.may_share_memory(a, o) for a in found for o in operands[:1] if a.size):
            for slot, array in zip(outputs, found, strict=True):
                env.frame.fix(slot, array)
            return None
        if len(found) == 1 and _same_elements(found[0], operands[0]):
            env.frame.fix(outputs[0], found[0])
            return partial(env.device.xp.copyto, found[0].reshape(operands[0].shape), operands[0])
    pick = picker(env.frame.values, ins)
    store = _store(env, call.outputs, node.detach, node.homes)

    def compute() -> None:
        store(step(*pick()))

    return compute


def _same_elements(copy: Array, source: Array) -> bool:
    """True for what a reshape has to copy; it gives the elements in row-major order."""
    return (copy.size, copy.dtype) == (source.size, source.dtype) and copy.flags.c_contiguous


def _flat(found: Any, outputs: Sequence[Operand]) -> Iterable[Array]:
    """The arrays that a step returned, for the slots that are wanted."""
    results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    for output, value in zip(outputs, results, strict=False):
        if isinstance(output, int):
            yield value
        elif output is not None:
            yield from value


def _store(
    env: Env, outputs: Sequence[Operand], detach: bool, homes: frozenset[int]
) -> Callable[[Any], None]:
    """What puts the results of a step into the frame."""
    frame = env.frame.values
    slots = tuple(slots_of(outputs))
    copyto = env.device.xp.copyto
    kept = {slot: env.frame.cell(slot) for slot in homes}
    for slot in slots:
        if slot not in homes:
            env.frame.vary(slot)
    if len(outputs) == 1 and isinstance(outputs[0], int) and not detach and not homes:
        (only,) = outputs

        def store_one(found: Any) -> None:
            frame[cast(int, only)] = found[0] if isinstance(found, tuple) else found

        return store_one

    def store(found: Any) -> None:
        for slot, value in zip(slots, _flat(found, outputs), strict=True):
            if slot in kept:
                copyto(frame[kept[slot]], value)
            else:
                frame[slot] = value.copy() if detach else value

    return store


def _late(env: Env, node: Late) -> Do:
    call = node.call
    pick = picker(env.frame.values, [env.frame.cells(o) for o in call.inputs])
    hosts = picker(env.frame.values, [env.frame.cells(h.source) for h in call.host])
    store = _store(env, call.outputs, False, node.homes)
    late = LateCall(env.library, env.device, call, env.generator(call), env.counters)

    def compute() -> None:
        store(late(pick(), hosts()))

    return compute


def _move(env: Env, node: Move) -> Do | None:
    frame = env.frame.values
    sources = [env.frame.cell(i) for i in node.sources]
    fresh: list[tuple[int, TensorMeta]] = []
    pairs: list[tuple[int, int]] = []
    renewed: list[tuple[int, int]] = []
    for slot, target, source, place in zip(
        node.sources, node.targets, sources, node.places, strict=True
    ):
        if place is None:
            env.frame.vary(target)
            renewed.append((source, target))
        elif slot != target or not isinstance(place, Over):
            pairs.append((source, env.frame.settle(target, place, fresh)))
    if not pairs and not renewed:
        return None
    crossed, copyto = node.crossed, env.device.xp.copyto
    makers = _makers(env, fresh)

    def move() -> None:
        values = [frame[a] for a, _ in pairs]
        others = [frame[a].copy() for a, _ in renewed]
        if crossed:
            values = [v.copy() for v in values]
        for slot, make in makers:
            frame[slot] = make()
        for value, (_, target) in zip(values, pairs, strict=True):
            copyto(frame[target], value)
        for value, (_, target) in zip(others, renewed, strict=True):
            frame[target] = value

    return move


def _rename(env: Env, node: Rename) -> Do:
    frame = env.frame.values
    pick = picker(frame, [env.frame.cell(i) for i in node.sources])
    for target in node.targets:
        env.frame.vary(target)
    targets = node.targets

    def rename() -> None:
        for target, value in zip(targets, pick(), strict=True):
            frame[target] = value

    return rename


def _branch(env: Env, node: Branch) -> Do:
    cells = env.frame
    frame, condition = cells.values, env.frame.cell(node.instruction.condition)
    then, orelse = build(env, node.then), build(env, node.orelse)

    def branch() -> None:
        env.run(cells, then if frame[condition].item() else orelse)

    return branch


def _loop(env: Env, node: Loop) -> Do:
    cells = env.frame
    frame, body = cells.values, build(env, node.body)
    condition, span = env.frame.cell(node.instruction.condition), node.instruction.span

    def loop() -> None:
        left = current_limits().loop_steps
        while frame[condition].item():
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


class SavedValues(list[tuple[Any, ...]]):
    """A stack of values that a branch or a loop has saved."""


def _on_stack(env: Env, node: OnStack) -> Do:
    frame, stack = env.frame.values, node.instruction
    pick = picker(frame, [env.frame.cells(o) for o in stack.inputs])
    store = _store(env, stack.outputs, False, frozenset())
    slot, span = stack.slot, stack.span

    def create() -> None:
        frame[slot] = SavedValues()

    def push() -> None:
        frame[slot].append(tuple(map(_saved, pick())))

    def pop() -> None:
        if not frame[slot]:
            raise RuntimeFault("pop from an empty stack", code="PK0904", span=span)
        store(frame[slot].pop())

    def test() -> None:
        store(env.device.take(np.array([bool(frame[slot])])))

    def make() -> None:
        frame[slot] = TensorList()

    def act() -> None:
        store(ACTIONS[stack.action](frame[slot], stack, env.device.xp, *pick()))

    actions: dict[str, Do] = {"create": create, "push": push, "pop": pop, "test": test}
    actions |= {"make": make, **dict.fromkeys(ACTIONS, act)}
    if stack.action not in actions:
        raise InternalError(f"plan with unknown stack action {stack.action!r}")
    return actions[stack.action]


def _saved(value: Any) -> Any:
    """A value that later iterations do not overwrite; a stack that is kept on another is itself."""
    if isinstance(value, SavedValues):
        return value
    if isinstance(value, list):
        return [_saved(v) for v in cast("list[Any]", value)]
    return value.copy() if hasattr(value, "copy") else value


def _release(env: Env, node: Release) -> Do | None:
    frame = env.frame.values
    slots = tuple([i for i in node.slots if env.frame.moves(i)])

    def release() -> None:
        for slot in slots:
            frame[slot] = None

    return release if slots else None


_BUILDERS: Final[dict[type, Callable[[Env, Any], Do | None]]] = {
    Bound: _bound,
    Late: _late,
    Move: _move,
    Rename: _rename,
    Branch: _branch,
    Loop: _loop,
    OnStack: _on_stack,
    Release: _release,
}
