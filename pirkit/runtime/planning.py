"""Memory planning and kernel binding for a plan, for inputs of known shapes.

A single pass over the instructions tracks the meta of every slot and the storages that its value
may use. A result of static shape gets a range of the arena, or the memory of an operand that dies
at this call. Results that escape to the caller are allocated in each run, and results of dynamic
shape at run time. An in-place write reuses its destination buffer only if no other value in that
buffer is still live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Final, cast

import numpy as np
from msgspec import field

from pirkit.diag.errors import ConstraintError, UnsupportedError
from pirkit.runtime.arena import Arena, Storage
from pirkit.runtime.binding import Step, first_dtype
from pirkit.runtime.device import Device
from pirkit.runtime.library import Library, Metas, bind_call, call_fault, is_static
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta
from pirkit.runtime.nodes import (
    Access,
    Bound,
    Branch,
    Constant,
    Detour,
    Dynamic,
    InArena,
    InPlace,
    Layout,
    Loop,
    Move,
    NewArray,
    Node,
    Release,
    Rename,
    StackNode,
    Target,
)
from pirkit.runtime.plan import (
    Call,
    Copy,
    HostArgument,
    If,
    Instruction,
    Operand,
    Plan,
    Stack,
    While,
    blocks,
    instructions,
    reads,
    slots_of,
    writes,
)
from pirkit.runtime.registry import NATIVE, Choice
from pirkit.runtime.storage_tracking import StorageTracker
from pirkit.runtime.write_back import copied, written_back

MAX_COPIED_BYTES: Final = 4096
"""Largest input or parameter, in bytes, that is copied into the arena."""

MAX_CONSTANT_BYTES: Final = 1 << 16
"""Largest total size, in bytes, of a call's constant results that a session precomputes."""


def plan_memory(
    plan: Plan,
    library: Library,
    bound_inputs: Mapping[int, Meta],
    *,
    device: Device,
    generator: Callable[[Call], Callable[[], np.random.Generator]],
    reuse: bool = True,
    variables: frozenset[int] = frozenset(),
    fuses_launches: bool = False,
) -> Layout:
    """Lay out one session of a plan.

    ``bound_inputs`` are the actual metas of inputs and parameters, by slot; those in ``variables``
    are written in place, if the program writes them. With ``fuses_launches``, consecutive native
    steps will be one launch, and constant results are computed once for the session. Raises
    RuntimeFault (PK0901, with the op and its span) for shapes that an op refuses, UnsupportedError
    for an op without a kernel.
    """
    planner = _Planner(plan, Arena(reuse), library=library, device=device, generator=generator)
    planner.escaping, planner.precomputes_constants = (
        _escaping_slots(plan, library),
        fuses_launches and device.xp is np,
    )
    planner.write_backs = written_back(plan, planner.escaping)
    copied: list[tuple[int, InArena]] = []
    others = (
        set(bound_inputs)
        - planner.escaping
        - (_native_only_slots(plan, library) if fuses_launches else set())
    )
    for slot, meta in bound_inputs.items():
        if device.xp is np and slot in others and _is_small(meta):
            copied.append((slot, cast(InArena, planner.new(slot, cast(TensorMeta, meta)))))
            continue
        planner.feed(slot, meta, is_variable=slot in variables)
    nodes: list[Node] = []
    accesses: list[Access | None] = []
    for instruction in plan.body:
        before = planner.touched(reads(instruction))
        made = planner.block([instruction])
        simple = isinstance(instruction, Call) and not instruction.is_ordered
        access = Access(before, planner.written) if simple else None
        nodes += made
        accesses += [access] * len(made)
    return Layout(
        tuple(nodes),
        planner.arena.size,
        frozenset(planner.owned()),
        tuple(copied),
        tuple(accesses),
        frozenset(s for s in variables if planner.is_in_place(s)),
        planner.copies,
    )


def _native_only_slots(plan: Plan, library: Library) -> set[int]:
    """Slots that only native code reads, which gets the address of the caller's array itself."""
    native, others = set[int](), set[int]()
    for instruction in instructions(plan.body):
        read = set(reads(instruction))
        metas = [plan.slots[s] for s in read]
        choices: Sequence[Choice] = ()
        if isinstance(instruction, Call) and (dtype := first_dtype(metas)) is not None:
            choices = library.choices(instruction.kernel, dtype, instruction.attrs)
        is_native = bool(choices) and choices[0].kernel.key.backend == NATIVE
        (native if is_native else others).update(read)
    return native - others


def _is_small(meta: Meta) -> bool:
    """True if copying into the arena is cheaper than looking up the caller's array in each step."""
    if isinstance(meta, TensorMeta) and meta.is_static:
        return meta.numel * meta.dtype.itemsize <= MAX_COPIED_BYTES
    return False


def _escaping_slots(plan: Plan, library: Library) -> set[int]:
    """Slots whose memory escapes to the caller: outputs, written inputs, and bases of views."""
    escaping = {o.source for o in plan.outputs if isinstance(o.source, int)}
    escaping |= {p.slot for p in (*plan.inputs, *plan.params) if p.name in plan.written}
    for instruction in reversed(plan.body):
        if not isinstance(instruction, Call) or not escaping.intersection(
            slots_of(instruction.outputs)
        ):
            continue
        source = next(iter(instruction.inputs), None)
        if isinstance(source, int) and isinstance(meta := plan.slots[source], TensorMeta):
            choices = library.choices(instruction.kernel, meta.dtype, instruction.attrs)
            if choices and choices[0].kernel.form == "view":
                escaping.add(source)
    return escaping


class _Planner(StorageTracker, kw_only=True):
    library: Library
    device: Device
    generator: Callable[[Call], Callable[[], np.random.Generator]]
    destinations: set[int] = field(default_factory=set[int])
    """Slots that a region writes in place: their buffer must not change within it."""
    depth: int = 0
    """How many regions the current instruction is in."""
    escaping: set[int] = field(default_factory=set[int])
    write_backs: dict[int, int] = field(default_factory=dict[int, int])
    """From the slot of a value that is later stored to a variable, to the variable's slot."""
    in_destination: set[int] = field(default_factory=set[int])
    """Slots of such values that are computed directly in the variable's buffer."""
    copies: int = 0
    """Number of write-backs that copy."""
    precomputes_constants: bool = False
    """Whether constant results are computed once for the session."""
    written: frozenset[Storage | int] = frozenset()
    """The storage that the previous instruction wrote."""
    state: set[int] = field(default_factory=set[int])
    """Slots that carry a value of a loop to its next iteration."""

    def __post_init__(self) -> None:
        loops = [i for i in instructions(self.plan.body) if isinstance(i, While)]
        self.state = {s for loop in loops for s in slots_of(cast(Copy, loop.body[-1]).targets)}

    def owned(self) -> Iterator[int]:
        """Slots that the caller gets, whose memory no other of them is in."""
        ports = {p.slot for p in (*self.plan.inputs, *self.plan.params)}
        given = [*slots_of(o.source for o in self.plan.outputs), *(self.escaping & ports)]
        uses = Counter(s for slot in given for s in self.storages.get(slot, ()))
        for slot in given:
            held = self.storages.get(slot)
            if held and all(s.owner in ("fresh", "heap") and uses[s] == 1 for s in held):
                yield slot

    # --- instructions ---

    def block(self, body: Iterable[Instruction]) -> list[Node]:
        nodes: list[Node] = []
        for instruction in body:
            nodes += self.instruction(instruction)
            self.written = self.touched(writes(instruction))
            late = tuple([s for s in instruction.frees if self.is_heap(s)])
            for slot in instruction.frees:
                self.drop(slot)
            if late:
                nodes.append(Release(instruction, late))
        return nodes

    def region(self, body: Iterable[Instruction]) -> list[Node]:
        self.depth += 1
        nodes = self.block(body)
        self.depth -= 1
        return nodes

    def is_heap(self, slot: int) -> bool:
        return any(s.owner == "heap" for s in self.storages.get(slot, ()))

    def instruction(self, instruction: Instruction) -> Iterator[Node]:
        match instruction:
            case Call():
                elided = self.elide_write_back(instruction)
                yield from self.call(instruction) if elided is None else elided
            case Copy():
                yield from self.copy(instruction)
            case If():
                yield from self.settle(instruction)
                yield self.branch(instruction)
            case While():
                yield from self.settle(instruction)
                yield Loop(instruction, tuple(self.region(instruction.body)))
            case Stack():
                for slot in slots_of(instruction.outputs):
                    self.metas[slot] = self.plan.slots[slot]
                    self.drop(slot)
                    self.refer(slot, Storage("heap"))
                yield StackNode(instruction)

    def call(self, call: Call) -> Iterator[Node]:
        """The nodes of a call: a kernel bound to its shapes, or a dynamic call.

        A kernel that does not write into outputs returns views or new arrays. Of others, small
        constants are computed once; any other result gets a place: its destination, an operand
        that the kernel may overwrite, or the arena. Moves follow for results whose destination is
        still in use while the kernel runs.
        """
        inputs = tuple([self.meta(o) for o in call.inputs])
        found = self.infer(call, inputs)
        wanted = tuple(
            [m if o is not None else None for o, m in zip(call.outputs, found, strict=False)]
        )
        if not self.depth:  # behind a region, a write may give a tensor another type and buffer
            pairs = [p for o, m in zip(call.outputs, wanted, strict=False) for p in _pairs(o, m)]
            self.destinations -= {slot for slot, meta in pairs if self.metas.get(slot) != meta}
        bound = None
        if not call.host and all(map(is_static, inputs)):
            bound = self.bind(call, inputs, wanted)
        if bound is None:
            yield self.dynamic(call, wanted)
            return
        choice, step = bound
        destinations = self.destinations.intersection(slots_of(call.outputs))
        if choice.kernel.form != "out":
            detach = not self.destinations.isdisjoint(slots_of(call.inputs))
            yield Bound(call, step, (), choice, detach, frozenset(destinations))
            is_view = choice.kernel.form == "view"
            self.alias_results(call, wanted, detached=detach, is_view=is_view)
            return
        if self.is_constant(call, wanted):
            yield Bound(call, step, tuple(self.once(call, wanted)), choice)
            return
        operands = self.overwritable(call, choice)
        moves: list[tuple[int, int]] = []
        targets = tuple(
            [
                self.place(call, output, meta, operands.get(index, ()), moves)
                for index, (output, meta) in enumerate(zip(call.outputs, wanted, strict=False))
            ]
        )
        self.collect()
        yield Bound(call, step, targets, choice)
        for source, destination in moves:
            yield Move(call, (source,), (destination,), (InPlace(destination),))
            self.drop(source)

    def is_constant(self, call: Call, wanted: Metas) -> bool:
        """Whether a call has the same small results in each run, in memory that does not escape."""
        slots = set(slots_of(call.outputs))
        reads = any(o is not None for o in call.inputs) or call.random is not None
        if not self.precomputes_constants or reads or call.is_ordered or not slots:
            return False
        if slots & (self.destinations | self.escaping | self.write_backs.keys() | self.state):
            return False
        metas = [m for m in wanted if isinstance(m, TensorMeta)]
        nbytes = sum(m.numel * m.dtype.itemsize for m in metas)
        return len(metas) == len(slots) and nbytes <= MAX_CONSTANT_BYTES

    def once(self, call: Call, wanted: Metas) -> Iterator[Target]:
        for slot, meta in zip(call.outputs, wanted, strict=False):
            if isinstance(slot, int) and isinstance(meta, TensorMeta):
                self.retire(slot)
                self.metas[slot] = meta
                self.refer(slot, Storage("once"))
                self.fills_storage.add(slot)
                yield Constant(meta)
            else:
                yield None

    def infer(self, call: Call, inputs: Metas) -> Metas:
        attrs = {**call.attrs, **{h.name: self.unknown(h) for h in call.host}}
        is_known = all(map(is_static, inputs))
        try:
            found = self.library.infer(call.kernel, inputs, attrs)
            # A slot that is written in place has been declared with the type that it had before.
            is_told = is_known or not set(slots_of(call.outputs)).isdisjoint(reads(call))
            return found if is_told else tuple(map(self.ranked, call.outputs, found))
        except ConstraintError as error:
            if not is_known:
                stated = tuple(map(self.declared, call.inputs))
                with suppress(ConstraintError):
                    return tuple(
                        map(_with_dynamic_shape, self.library.infer(call.kernel, stated, attrs))
                    )
            raise call_fault(
                call, error.message, f"constraint {error.constraint}", error.help
            ) from error

    def ranked(self, output: Operand, found: Meta | None) -> Meta | None:
        """The number of axes may depend on sizes, of which the program knows more (`squeeze`)."""
        stated = self.declared(output)
        if not (isinstance(found, TensorMeta) and isinstance(stated, TensorMeta)):
            return found
        return found if found.rank == stated.rank else _with_dynamic_shape(stated)

    def unknown(self, host: HostArgument) -> tuple[None, ...] | None:
        """A placeholder for an attribute computed at run time: for a list, its length if known."""
        if host.kind != "array":
            return None
        meta = self.meta(host.source)
        if isinstance(meta, VecMeta):
            return (None,) * len(meta)
        known = isinstance(meta, TensorMeta) and meta.rank <= 1 and meta.is_static
        return (None,) * cast(TensorMeta, meta).numel if known else None

    def bind(self, call: Call, inputs: Metas, wanted: Metas) -> tuple[Choice, Step] | None:
        return bind_call(
            self.library, call, inputs, wanted, self.device, self.generator(call), call.attrs
        )

    def dynamic(self, call: Call, wanted: Metas) -> Dynamic:
        self.alias_results(call, wanted, detached=False, is_view=False)
        return Dynamic(call, frozenset(self.destinations.intersection(slots_of(call.outputs))))

    def alias_results(self, call: Call, wanted: Metas, *, detached: bool, is_view: bool) -> None:
        """Record the results of a step that returns arrays: they may alias any operand."""
        sources = {s for slot in slots_of(call.inputs) for s in self.storages.get(slot, ())}
        storages_of_slot = set[Storage]() if detached else sources
        for output, meta in zip(call.outputs, wanted, strict=False):
            for slot, each in _pairs(output, meta):
                if slot in self.destinations:
                    self.check_destination(call, slot, each)
                    continue
                self.metas[slot] = each
                self.retire(slot)
                self.refer(
                    slot,
                    *storages_of_slot,
                    *(() if is_view and storages_of_slot else (Storage("heap"),)),
                )
        self.collect()

    def check_destination(self, call: Call, slot: int, meta: Meta) -> None:
        if is_static(meta) and meta != self.metas[slot]:
            raise UnsupportedError(
                f"`{call.kernel}` makes a {self.metas[slot]} a {meta} inside a branch or a loop",
                code="PK0402",
                span=call.span,
                notes=call.origin,
                help="use the form of the op that does not write in place",
            )

    def overwritable(self, call: Call, choice: Choice) -> dict[int, tuple[int, ...]]:
        """For each result, the operand slots whose memory the kernel may overwrite with it."""
        flat = list(slots_of(call.inputs))
        found: dict[int, tuple[int, ...]] = {}
        for result, operands in self.library.overwrites(choice.kernel).items():
            slots = [call.inputs[i] for i in operands if i < len(call.inputs)]
            found[result] = tuple([s for s in slots if isinstance(s, int) and flat.count(s) == 1])
        return found

    def place(
        self,
        call: Call,
        output: Operand,
        meta: Meta | None,
        operands: tuple[int, ...],
        moves: list[tuple[int, int]],
    ) -> Target | tuple[Target, ...]:
        if output is None or meta is None:
            return None
        if isinstance(output, int):
            return self.place_one(call, output, cast(TensorMeta, meta), operands, moves)
        items = cast(VecMeta, meta).items
        return tuple(
            [
                self.place_one(call, s, m, operands, moves)
                for s, m in zip(output, items, strict=True)
            ]
        )

    def place_one(
        self,
        call: Call,
        slot: int,
        meta: TensorMeta,
        operands: tuple[int, ...],
        moves: list[tuple[int, int]],
    ) -> Target:
        if slot in self.destinations:
            if slot in operands:
                return InPlace(slot)
            return self.detour(slot, meta, moves)
        if slot in self.write_backs:
            target = self.place_in_destination(call, slot, meta, operands)
            if target is not None:
                return target
        for source in operands:
            if self.may_overwrite(call, source, slot, meta):
                storage = cast(Storage, self.only_storage(source))
                self.metas[slot] = meta
                if source != slot:
                    self.retire(slot)
                    self.refer(slot, storage)
                    self.fills_storage.add(slot)
                return InPlace(source)
        self.retire(slot)
        return self.new(slot, meta)

    def place_in_destination(
        self, call: Call, slot: int, meta: TensorMeta, operands: tuple[int, ...]
    ) -> Target:
        """The target of a value that is later stored to a variable.

        It is the variable's buffer if nobody else reads that, else (for one that is not the
        caller's) a fresh array that is swapped in. None if the value must be copied: the variable
        is read elsewhere, or has another shape.
        """
        destination = self.write_backs[slot]
        if destination in self.destinations:
            return None
        if not self.is_variable(destination):
            self.escaping.add(slot)
            return self.new(slot, meta)
        storage = self.only_storage(destination)
        may_write = destination in operands or destination not in slots_of(call.inputs)
        if storage is None or self.metas[destination] != meta or not may_write:
            return None
        self.metas[slot] = meta
        self.fills_storage.add(slot)
        self.refer(slot, storage)
        self.in_destination.add(slot)
        return InPlace(destination)

    def elide_write_back(self, call: Call) -> tuple[Node, ...] | None:
        """Lower a write-back without a copy: to nothing, or to swapping in a fresh array.

        None if it has to copy.
        """
        pair = copied(call)
        if pair is None:
            return None
        value, destination = pair
        if value in self.in_destination:
            return ()
        storage = self.only_storage(value)
        is_planned = value in self.write_backs and destination not in self.destinations
        is_new = storage is not None and storage.owner == "fresh"
        if storage is None or not is_planned or not is_new or self.is_variable(destination):
            self.copies += 1
            return None
        self.retire(destination)
        self.metas[destination] = self.metas[value]
        self.refer(destination, storage)
        self.fills_storage.add(destination)
        return (Rename(call, (value,), (destination,)),)

    def may_overwrite(self, call: Call, source: int, slot: int, meta: TensorMeta) -> bool:
        storage = self.only_storage(source)
        if storage is None or self.metas.get(source) != meta:
            return False
        if not self.arena.reuse and source != slot:
            return False
        if source != slot:
            is_dead = source in call.frees and storage.owner == "arena"
            return is_dead and slot not in self.escaping
        return slot not in self.escaping or storage.owner in ("fresh", "variable")

    def detour(self, destination: int, meta: TensorMeta, moves: list[tuple[int, int]]) -> Target:
        """A target for a kernel that cannot overwrite its operand: a temporary, then a copy to the
        destination buffer.
        """
        extra = -1 - len(self.metas)
        moves.append((extra, destination))
        return Detour(extra, cast(InArena, self.new(extra, meta)))

    def new(self, slot: int, meta: TensorMeta) -> Target:
        self.metas[slot] = meta
        nbytes = prod(meta.shape) * meta.dtype.itemsize
        self.fills_storage.add(slot)
        if slot in self.escaping:
            self.refer(slot, Storage("fresh"))
            return NewArray(meta)
        offset = self.arena.take(nbytes)
        self.refer(slot, Storage("arena", offset, nbytes))
        return InArena(meta, offset)

    # --- control flow ---

    def settle(self, region: If | While) -> Iterator[Node]:
        """Give slots that a region writes in place a fixed buffer for the whole region."""
        writes = [i for b in blocks(region) for i in instructions(b) if isinstance(i, Call)]
        slots = {s for w in writes for s in slots_of(w.outputs) if s in self.storages}
        for slot in sorted(slots - self.destinations):
            meta = self.metas[slot]
            if not is_static(meta):
                continue
            if self.only_storage(slot) is None:
                self.retire(slot)
                yield Move(region, (slot,), (slot,), (self.new(slot, cast(TensorMeta, meta)),))
            self.destinations.add(slot)

    def copy(self, copy: Copy) -> Iterator[Node]:
        sources, targets = list(slots_of(copy.sources)), list(slots_of(copy.targets))
        if not set(targets) & self.state:
            named: list[tuple[int, int]] = []
            for source, target in zip(sources, targets, strict=True):
                self.metas[target] = cast(Meta, self.meta(source))
                if source in self.destinations:  # its buffer is written again
                    self.refer(target, Storage("heap"))
                    yield Move(copy, (source,), (target,), (None,))
                else:
                    self.refer(target, *self.storages.get(source, set()), Storage("heap"))
                    named.append((source, target))
            yield Rename(copy, tuple([a for a, _ in named]), tuple([b for _, b in named]))
            return
        places: list[Target] = []
        for source, target in zip(sources, targets, strict=True):
            meta, given = self.plan.slots[target], self.metas.get(source)
            if target in self.storages:
                places.append(None if self.is_heap(target) else InPlace(target))
            elif isinstance(meta, TensorMeta) and meta.is_static and given in (None, meta):
                places.append(self.new(target, meta))
            else:
                self.metas[target] = meta
                self.refer(target, Storage("heap"))
                places.append(None)
        overlapping = any(
            self.storages.get(source, set()) & self.storages[target]
            for i, source in enumerate(sources)
            for j, target in enumerate(targets)
            if i != j
        )
        yield Move(copy, tuple(sources), tuple(targets), tuple(places), overlapping)

    def branch(self, branch: If) -> Branch:
        then = self.region(branch.then)
        results = [s for s in _results(branch) if s in self.metas]
        first = [self.metas[s] for s in results]
        orelse = self.region(branch.orelse)
        for slot, one in zip(results, first, strict=True):
            self.metas[slot] = _join_metas(one, self.metas[slot])
        return Branch(branch, tuple(then), tuple(orelse))


# --- slots ---------------------------------------------------------------------------------------


def _pairs(output: Operand, meta: Meta | None) -> Iterator[tuple[int, Meta]]:
    if isinstance(output, int) and meta is not None:
        yield output, meta
    elif isinstance(output, tuple) and isinstance(meta, VecMeta):
        yield from zip(output, meta.items, strict=True)


def _results(branch: If) -> Iterator[int]:
    for body in (branch.then, branch.orelse):
        if body and isinstance(body[-1], Copy):
            yield from slots_of(body[-1].targets)
            return


def _join_metas(one: Meta, other: Meta) -> Meta:
    """The meta of a value that is either of two; sizes in which they differ are unknown."""
    if not isinstance(one, TensorMeta) or not isinstance(other, TensorMeta) or one == other:
        return other
    if one.rank != other.rank:
        return one
    return one.with_shape(
        a if a == b else UNKNOWN for a, b in zip(one.shape, other.shape, strict=True)
    )


def _with_dynamic_shape(meta: Meta | None) -> Meta | None:
    """The meta with all sizes unknown: sizes that a program declares may differ at run time."""
    if isinstance(meta, VecMeta):
        return VecMeta(tuple([cast(TensorMeta, _with_dynamic_shape(m)) for m in meta.items]))
    return meta.with_shape((UNKNOWN,) * meta.rank) if isinstance(meta, TensorMeta) else meta
