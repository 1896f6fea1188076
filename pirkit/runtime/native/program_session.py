"""The memory and the argument blocks in which calls of a native program run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pirkit.diag.once import cached_property
from pirkit.runtime.machine_costs import GIL_HOLD_NS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Control, Stacks, thread_share
from pirkit.runtime.native.object_layout import array_slot, memory_layout_is_known
from pirkit.runtime.native.program_data import (
    ProgramData,
    ProgramStep,
    checked_operands,
    expected_metas,
    filled_memory,
    is_in_rows,
)
from pirkit.runtime.native.program_ir import HEADER, RUN_FUNCTIONS, WANTED
from pirkit.runtime.native.records_ir import ALL, DUE, PAUSED, RECORD, RUN_HEADER
from pirkit.runtime.native.run_functions import (
    CALL,
    CALL_BRIEF,
    RUN,
    RUN_BRIEF,
    fuel,
    run_library,
    tensor_method,
)
from pirkit.runtime.native.tensor_call import (
    Recipes,
    TensorCall,
    c_function,
    functions,
    tensor_slots,
)
from pirkit.runtime.native.thread_pool import pool
from pirkit.runtime.native.workspace import WORKSPACE, Block, lines
from pirkit.runtime.tensor.buffer import address_of
from pirkit.runtime.tensor.dense import DenseTensor

Array = np.ndarray[Any, Any]

_RESUME: Final = RUN_HEADER["resume"]
FEW: Final = 8
"""Words up to which a loop of Python writes addresses faster than numpy does."""


class Session:
    """The memory and argument blocks of one call at a time."""

    def __init__(self, program: ProgramData) -> None:
        self.program = program
        kept, start = filled_memory(program, program.kept)
        self.base = address_of(kept) + start
        first = start + program.flags
        self.flags = kept[first : first + len(program.assertions)]
        self.flags[...] = 0
        self.stacks = Stacks([self.base + offset for offset in program.stacks])
        self.calls: dict[int, Callable[[], object]] = {}
        """What makes the calls of libraries, by the number of the step."""
        steps = program.steps
        self.records = (ctypes.c_size_t * (len(RECORD) * max(len(steps), 1)))()
        self.header = (ctypes.c_size_t * len(HEADER))()
        self.owned: list[Any] = [kept]
        self.places: list[list[int]] = [[] for _ in (*program.inputs, *program.results)]
        """For each input and result, the argument words that hold its address."""
        self.uses_pool = False
        self.blocks = (ctypes.c_size_t * max(sum(len(s.operands) + 1 for s in steps), 1))()
        start = ctypes.addressof(self.blocks)
        temporary: list[tuple[int, int]] = []
        for number, step in enumerate(steps):
            temporary += self._record(number, step, start)
            start += 8 * (len(step.operands) + 1)
        self.offsets = np.array([offset for _, offset in temporary], np.uintp)
        self.needs = lines(program.memory) - program.kept
        self.needs += program.scratch(lambda code: thread_share(code)[0])
        self.inputs, self.is_known = len(program.inputs), memory_layout_is_known()
        patches = [(place, k) for k, places in enumerate(self.places) for place in places]
        self.patches = (ctypes.c_size_t * max(2 * len(patches), 1))(
            *[word for pair in patches for word in pair]
        )
        first_word = ctypes.addressof(self.blocks)
        self.words: Array = np.asarray(self.blocks)
        self.temporary = np.array([(at - first_word) // 8 for at, _ in temporary], np.intp)
        """The argument words in `words` for memory of a call, and where in its block that is."""
        self.first_byte = 0
        """The address of the block."""
        self.block: Block | None = None
        """The memory of all calls, where it is not lent for each."""
        self.moved = np.array([(place - first_word) // 8 for place, _ in patches], np.intp)
        self.sources = np.array([k for _, k in patches], np.intp)
        """The argument words in `words`, and the number of the array whose address each holds."""
        self.copied = [*zip(self.moved.tolist(), self.sources.tolist(), strict=True)]
        self.expected = expected_metas((*program.inputs, *program.results))
        self.spans = (ctypes.c_size_t * max(2 * len(self.places), 1))()
        self._fill_header(len(steps), len(patches))
        self.header_address = ctypes.addressof(self.header)
        self.library = library = run_library()
        # ctypes releases the GIL in calls of CFUNCTYPE, and keeps it in those of PYFUNCTYPE
        self.brief = program.work < GIL_HOLD_NS and not self.uses_pool and not program.loops
        kinds = (CALL_BRIEF, RUN_BRIEF) if self.brief else (CALL, RUN)
        self._call: Callable[[int, Any, Any], int] = kinds[0](library.addresses[RUN_FUNCTIONS[1]])
        self._run: Callable[[int], int] = kinds[1](library.addresses[RUN_FUNCTIONS[0]])
        alone = self.is_known and not (self.uses_pool or program.loops or len(self.flags))
        self.direct = self._call if alone else None
        """The native call, where `attempt` with the right number of arrays does nothing besides: it
        takes `header_address`, arrays and results, and gives 0 if it has run."""
        self.into = kinds[0](library.addresses[RUN_FUNCTIONS[2]]) if alone else None
        """As `direct`, into arrays of the caller; it does not run where they are unfit."""
        self._begin()

    def _fill_header(self, steps: int, patches: int) -> None:
        addresses = {
            "records": self.records, "wanted": self.expected,
            "spans": self.spans, "patches": self.patches, "stacks": self.stacks.places,
        }  # fmt: skip
        numbers = {
            "count": steps, "items": tuple.__basicsize__, "inputs": self.inputs,
            "number": len(self.places), "patched": patches, "array": id(np.ndarray),
            "tensor": id(DenseTensor) if array_slot() else 0, "slot": array_slot(),
            "fuel": fuel(self.program.work), "flags": address_of(self.flags),
            "flagged": len(self.flags), "stacked": len(self.stacks.words),
        }  # fmt: skip
        known = {name: ctypes.addressof(memory) for name, memory in addresses.items()} | numbers
        for name, word in known.items():
            self._set(name, word)

    def _begin(self) -> None:
        self.block = Block(self.needs)
        self.use(self.block)

    def use(self, block: Block) -> None:
        """Let temporaries lie in this block from now on."""
        if block.base != self.first_byte:
            self.first_byte = block.base
            self.words[self.temporary] = self.offsets + np.uintp(block.base)

    @cached_property
    def tensors(self) -> TensorCall:
        """A call on arrays or tensors, given one by one, that makes its results."""
        return self._native_tensors() if array_slot() else self._python_tensors

    def _native_tensors(self) -> TensorCall:
        self._recipes = recipes = Recipes(self.program.results)
        self._set("recipes", ctypes.addressof(recipes.words))
        self._set("made", ctypes.addressof(recipes.room))
        self._set("keeps", id(recipes.keeps))
        self._set("brief", int(self.brief))
        self._going_on = self._go_on
        self._set("goes_on", id(self._going_on))
        for name, word in (functions() | tensor_slots()).items():
            self._set(name, word)
        words: Any = self.header
        call = c_function(tensor_method(), np.frombuffer(words, np.uintp))
        if not self.uses_pool and not len(self.flags):
            return call

        def prepared(*arrays: Any) -> tuple[DenseTensor, ...] | None:
            if self.uses_pool:
                self.attach_pool()
            made = call(*arrays)
            self.refuse()
            return made

        return prepared

    def _python_tensors(self, *arrays: Any) -> tuple[DenseTensor, ...] | None:
        held = tuple([a.array if isinstance(a, DenseTensor) else a for a in arrays])
        try:
            made = tuple([make() for make in self.program.makers])
        except MemoryError:
            return None
        return tuple(map(DenseTensor, made)) if self.attempt(held, made) else None

    def _set(self, name: str, value: int) -> None:
        self.header[HEADER[name]] = value

    def _record(self, number: int, step: ProgramStep, place: int) -> Iterator[tuple[int, int]]:
        """Write what is fixed about a step; where the addresses of temporaries go, and which."""
        function, program = step.function, self.program
        code = function.code
        threads, chunk = thread_share(code)
        self.uses_pool = self.uses_pool or threads > 1
        block = (ctypes.c_size_t * (len(step.operands) + 1)).from_address(place)
        yield place + 8 * len(step.operands), lines(program.memory) - program.kept
        outside = len(program.inputs) + len(program.results)
        for position, operand in enumerate(step.operands):
            if operand < outside:
                self.places[operand].append(place + 8 * position)
                continue
            offset = program.temporaries[operand - outside]
            if offset < program.kept:
                block[position] = self.base + offset
            else:
                yield place + 8 * position, offset - program.kept
        address, blocks = 0, code.blocks
        if isinstance(function, Control):
            blocks, chunk = function.words(0)
        else:
            address = function.address
        flags = self.base + step.flags.start
        shared = (blocks, chunk, threads, flags, len(step.flags))
        words = (address, place, *shared)
        first = number * len(RECORD)
        self.records[first : first + len(RECORD)] = words
        self.owned.append(step.function)

    def call(
        self,
        arrays: tuple[Any, ...],
        results: tuple[Array, ...],
        others: Callable[[], Sequence[Any]],
    ) -> None:
        """One call; operands that are not as they should be are put right, or refused."""
        if self.uses_pool:
            self.attach_pool()
        # native code checks the arrays; only if one does not fit, Python finds out why
        known = self.is_known and len(arrays) == self.inputs
        if not known or self._called(arrays, results):
            self._bind_and_call(others(), results)
        if len(self.flags):
            self.refuse()

    def attempt(self, arrays: tuple[Array, ...], results: tuple[Array, ...]) -> bool:
        """One call, or none at all if operands are not as they should be."""
        if self.uses_pool:
            self.attach_pool()
        if len(arrays) != self.inputs:
            return False
        if self.is_known:
            if self._called(arrays, results):
                return False
        else:
            operands = (*arrays, *results)
            metas = (*self.program.inputs, *self.program.results)
            if not all(map(is_in_rows, operands, metas)):
                return False
            self.place(operands)
            self.run_all()
        if len(self.flags):
            self.refuse()
        return True

    def run_at(self, addresses: Sequence[int] | Array) -> None:
        """One call on memory at these addresses, unchecked (`NativeProgram.run_at`)."""
        if self.uses_pool:
            self.attach_pool()
        if len(self.copied) <= FEW:
            for word, k in self.copied:
                self.blocks[word] = addresses[k]
        else:
            self.words[self.moved] = np.asarray(addresses, np.uintp)[self.sources]
        self.run_all()
        if len(self.flags):
            self.refuse()

    def refuse(self) -> None:
        """Raise the error of the first violated assertion, if any."""
        if self.flags.any():
            first = int(np.flatnonzero(self.flags)[0])
            self.flags[...] = 0
            raise self.program.assertions[first].error()

    def _bind_and_call(self, arrays: Sequence[Any], results: Sequence[Array]) -> None:
        operands = [*checked_operands(self.program, arrays), *results]
        for k, (array, meta) in enumerate(zip(operands, self.program.inputs, strict=False)):
            if array.shape != meta.shape:  # nothing reads it: native code takes it in later calls
                first, words = k * len(WANTED), expected_metas([meta.with_shape(array.shape)])
                self.expected[first : first + len(WANTED)] = words
        self.place(operands)  # copies live until it has run
        self.run_all()

    def _called(self, arrays: tuple[Any, ...], results: tuple[Array, ...]) -> int:
        """The native call, to its end; not 0, and nothing has run, where an array does not fit."""
        found = self._call(self.header_address, arrays, results)
        if found >= 0:
            return found
        self._go_on()
        return 0

    def _go_on(self) -> None:
        """Run to the end after a pause."""
        self.run_all(PAUSED)

    def run_all(self, state: int = ALL) -> None:
        """Run the records of the header to the end; ``state`` is why a run of them paused."""
        try:
            while True:
                if state == DUE:
                    self.calls[self.header[_RESUME] - 1]()
                elif state == PAUSED:  # signals are handled in between
                    self.stacks.enlarge()
                state = self._run(self.header_address)
                if state < PAUSED:
                    return
        except BaseException:
            self._set("resume", 0)
            self.stacks.clear()
            self.flags[...] = 0
            raise

    def array(self, number: int, meta: TensorMeta) -> Array:
        """A temporary as an array, for calls of libraries."""
        program = self.program
        offset = program.temporaries[number - self.inputs - len(program.results)]
        assert self.block is not None, "the memory is lent for one call"
        own = offset < program.kept
        memory, base = (self.owned[0], self.base) if own else (self.block.memory, self.block.base)
        begin = base - address_of(memory) + offset - (0 if own else program.kept)
        nbytes = meta.numel * meta.dtype.itemsize
        return memory[begin : begin + nbytes].view(meta.dtype.np).reshape(meta.shape)

    def place(self, arrays: Sequence[Array]) -> None:
        """Write the addresses of all arrays into the argument blocks."""
        for array, places in zip(arrays, self.places, strict=True):
            address = address_of(array)
            for place in places:
                ctypes.c_size_t.from_address(place).value = address

    def _fits(self, number: int, result: Array, arrays: Sequence[Array]) -> bool:
        """Whether a result can be written directly, given the inputs that it overlaps."""
        shared = [k for k, a in enumerate(arrays) if np.may_share_memory(result, a)]
        return all(
            (number, k) in self.program.in_place and address_of(result) == address_of(arrays[k])
            for k in shared
        )

    def bound(self, arrays: Sequence[Array], results: Sequence[Array]) -> Callable[[], None]:
        """A call on these arrays; results that overlap inputs unsafely are copied at the end."""
        temporaries = [
            r if self._fits(k, r, arrays) else np.empty(m.shape, m.dtype.np)
            for k, (r, m) in enumerate(zip(results, self.program.results, strict=True))
        ]
        moved = tuple([(r, a) for r, a in zip(results, temporaries, strict=True) if r is not a])
        self.place([*arrays, *temporaries])
        return _Bound(self.run_all, self, (*arrays, *temporaries), moved)

    def attach_pool(self) -> None:
        """Set the current pool: after a fork the child has another one."""
        current = pool()
        self._set("share", current.run_address)
        self._set("pool", current.address)


class BorrowingSession(Session):
    """A session of which each call takes memory from the workspace of the process."""

    def _begin(self) -> None:
        WORKSPACE.join(self)
        self.direct = self.into = None

    def _within(self, run: Callable[..., Any], *given: Any) -> Any:
        block = WORKSPACE.take(self.needs)
        try:
            self.use(block)
            return run(*given)
        finally:
            WORKSPACE.give(block)

    @cached_property
    def tensors(self) -> TensorCall:
        native = self._native_tensors() if array_slot() else self._python_tensors
        return partial(self._within, native)

    def call(
        self,
        arrays: tuple[Any, ...],
        results: tuple[Array, ...],
        others: Callable[[], Sequence[Any]],
    ) -> None:
        self._within(super().call, arrays, results, others)

    def attempt(self, arrays: tuple[Array, ...], results: tuple[Array, ...]) -> bool:
        return self._within(super().attempt, arrays, results)

    def run_at(self, addresses: Sequence[int] | Array) -> None:
        self._within(super().run_at, addresses)


class _Bound(Struct, frozen=True):
    """A call on fixed arrays, which it keeps alive."""

    run: Callable[[], None]
    session: Session
    arrays: tuple[Array, ...]
    moved: tuple[tuple[Array, Array], ...]

    def __call__(self) -> None:
        if self.session.uses_pool:
            self.session.attach_pool()
        self.run()
        if len(self.session.flags):
            self.session.refuse()
        for target, made in self.moved:
            np.copyto(target, made)
