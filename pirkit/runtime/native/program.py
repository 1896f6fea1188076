"""Native programs: one call from Python runs all functions of a program.

Temporaries have fixed offsets in an arena, planned when the program is compiled; each concurrent
call has an arena of its own. Inputs and results are numpy arrays; if they have the expected type
and layout, native code reads their addresses from the array objects itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import combinations
from typing import Any, Final
from weakref import ref

import numpy as np

from pirkit.diag.errors import InternalError, RuntimeFault
from pirkit.diag.once import once
from pirkit.runtime.machine_costs import GIL_HOLD_NS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.function import (
    Code,
    Control,
    NativeFunction,
    Stacks,
    array_maker,
    may_be_shared,
    thread_share,
)
from pirkit.runtime.native.program_ir import (
    CONTIGUOUS_AND_ALIGNED,
    HEADER,
    LAYOUT,
    MAX_AXES,
    RUN_FUNCTIONS,
    RUN_MODULE,
    TENSOR_FUNCTIONS,
    TENSOR_MODULE,
    WANTED,
)
from pirkit.runtime.native.records_ir import PAUSED, RECORD
from pirkit.runtime.native.tensor_call import (
    Method,
    Recipes,
    TensorCall,
    c_function,
    functions,
    method,
    tensor_slots,
)
from pirkit.runtime.native.thread_pool import pool
from pirkit.runtime.native.workspace import SHARED_BYTES, WORKSPACE, Block, lines
from pirkit.runtime.plan import TypedCall
from pirkit.runtime.tensor.allocator import no_memory
from pirkit.runtime.tensor.buffer import address_of, is_numpy
from pirkit.runtime.tensor.dense import DenseTensor

Array = np.ndarray[Any, Any]

_RUN: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_RUN_BRIEF: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
_CALL_BRIEF: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
)
_SIGNALS_NS: Final = 50_000_000
_MOST_FUEL: Final = 1 << 16


def fuel(work: int) -> int:
    """The number of iterations of a loop after which Python can handle signals.

    ``work`` is the estimated time of an iteration in ns: Ctrl-C takes effect within some 50 ms.
    """
    return max(1, min(_MOST_FUEL, _SIGNALS_NS // max(work, 1)))


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A function and its operands, by number: inputs, then results, then temporaries."""

    function: NativeFunction | Control
    operands: tuple[int, ...]
    flags: range = range(0)
    """The assertion flags, as bytes of the arena, that it may set."""
    calls: tuple[TypedCall, ...] = field(default=(), compare=False, repr=False)
    """What it computes, for profiles; the cache on disk does not keep it."""


@dataclass(frozen=True, slots=True)
class Content:
    """Constant bytes at ``offset`` of a program's arena."""

    offset: int
    content: bytes


@dataclass(eq=False, repr=False)
class NativeProgram:
    """A compiled program: functions in order, over inputs, results and temporaries.

    ``temporaries`` are byte offsets in an arena of ``memory`` bytes; ``names`` are the names of
    inputs and results; ``summary`` is one line of text. A call returns new arrays, and may run in
    several threads at once.

    A call raises RuntimeFault (PK0902, PK0903) if the number, shape or element type of the operands
    is wrong, and the error of a `DataAssertion` that data violate.
    """

    inputs: tuple[TensorMeta, ...]
    results: tuple[TensorMeta, ...]
    steps: tuple[ProgramStep, ...]
    temporaries: tuple[int, ...] = ()
    memory: int = 0
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    summary: str = ""
    in_place: frozenset[tuple[int, int]] = frozenset()
    """Pairs of a result and an input that may share one array."""
    contents: tuple[Content, ...] = ()
    flags: int = 0
    assertions: tuple[DataAssertion, ...] = ()
    """What data must keep to; the first mark lies ``flags`` bytes from where the memory begins."""
    stacks: tuple[int, ...] = ()
    """Where in the memory the stacks of loops are (`Stacks`)."""

    def __post_init__(self) -> None:
        self.work = sum(s.function.code.work for s in self.steps)
        self.loops = any(isinstance(s.function, Control) for s in self.steps)
        self.uses_limit = self.loops or any(may_be_shared(s.function.code) for s in self.steps)
        """Whether the limit of threads may change anything."""
        self.makers = [array_maker(meta) for meta in self.results]
        self.free: list[Session] = []
        """Sessions that no call uses."""
        kept = [self.flags + len(self.assertions) if self.assertions else 0]
        kept += [part.offset + len(part.content) for part in self.contents]
        self.kept = lines(max(kept))
        """Bytes at the beginning of the memory whose content outlives a call."""
        self.needs = lines(self.memory) - self.kept + self.scratch(lambda code: 1)
        """The other bytes, and those of scratch memory, for one thread."""

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results of a call on arrays, in order."""
        return self.over_cells(arrays, lambda: arrays)

    def over_cells(
        self, arrays: tuple[Any, ...], others: Callable[[], Sequence[Any]]
    ) -> tuple[Array, ...]:
        """The same; where an array is not as it should be, those of ``others`` are taken."""
        try:
            results = tuple([make() for make in self.makers])
            session = self.session()
        except MemoryError as error:
            raise no_memory(error) from error
        session.call(arrays, results, others)
        self.free.append(session)
        return results

    def attempt(
        self, arrays: tuple[Array, ...], results: tuple[Array, ...] | None = None
    ) -> tuple[Array, ...] | None:
        """As a call, into ``results`` if they are given; None, and nothing has run, for arrays that
        are not as the program wants them, in rows. Where `array_slot` is known, tensors will do.
        A result must not lie in the memory of an input, unless it is one and `in_place` names the
        two.
        """
        try:
            if results is None:
                results = tuple([make() for make in self.makers])
            session = self.session()
        except MemoryError as error:
            raise no_memory(error) from error
        has_run = session.attempt(arrays, results)
        self.free.append(session)
        return results if has_run else None

    def run_at(self, addresses: Array) -> None:
        """A call on memory at these addresses (`numpy.uintp`): of inputs, then of results.

        Nothing is checked: what lies there has the shapes and element types of the program, in
        rows and aligned, and a result does not lie in the memory of an input.
        """
        session = self.session()
        session.run_at(addresses)
        self.free.append(session)

    def session(self) -> Session:
        """What one call at a time runs in; it goes back to `free` when the call has returned."""
        try:
            return self.free.pop()
        except IndexError:
            return BorrowingSession(self) if self.needs >= SHARED_BYTES else Session(self)

    def scratch(self, threads: Callable[[Code], int]) -> int:
        """Bytes of scratch memory for any of the functions, in so many threads."""
        return max((s.function.code.scratch * threads(s.function.code) for s in self.steps),
                   default=0)  # fmt: skip

    def own_session(self) -> Session:
        """A session that no other call gets."""
        return Session(self)

    def bind(self, arrays: Sequence[Array], results: Sequence[Array]) -> Callable[[], None]:
        """A call on fixed arrays, which reads their content at each run.

        A result may be the same array as an input (an update in place): it is then written after
        the last read of the input. The call is not re-entrant. Raises RuntimeFault (PK0903) for
        arrays of another type or layout, read-only results, and results that overlap.
        """
        for given, metas in ((arrays, self.inputs), (results, self.results)):
            if len(given) != len(metas):
                raise InternalError(f"{len(given)} arrays for {len(metas)}")
            for array, meta in zip(given, metas, strict=True):
                if not _is_in_rows(array, meta):
                    raise RuntimeFault(f"an array is not {meta}, in rows", code="PK0903")
        if not all(r.flags.writeable for r in results):
            raise RuntimeFault("a result cannot be written", code="PK0903")
        if any(np.may_share_memory(a, b) for a, b in combinations(results, 2)):
            raise RuntimeFault("two results lie in the same memory", code="PK0903")
        return Session(self).bound(arrays, results)


def _is(array: Any, meta: TensorMeta) -> bool:
    if not is_numpy(array):
        return False
    return array.dtype == meta.dtype.np and array.shape == meta.shape


def _is_in_rows(array: Any, meta: TensorMeta) -> bool:
    return _is(array, meta) and array.flags.c_contiguous and array.flags.aligned


class Session:
    """The memory and argument blocks of one call at a time."""

    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        kept, start = filled_memory(program, program.kept)
        self.base = address_of(kept) + start
        first = start + program.flags
        self.flags = kept[first : first + len(program.assertions)]
        self.flags[...] = 0
        self.stacks = Stacks([self.base + offset for offset in program.stacks])
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
        self.words: Array = np.ctypeslib.as_array(self.blocks)
        self.temporary = np.array([(at - first_word) // 8 for at, _ in temporary], np.intp)
        """The argument words in `words` for memory of a call, and where in its block that is."""
        self.first_byte = 0
        """That of the block."""
        self.block: Block | None = None
        """The memory of all calls, where it is not lent for each."""
        self.moved = np.array([(place - first_word) // 8 for place, _ in patches], np.intp)
        self.sources = np.array([k for _, k in patches], np.intp)
        """The argument words in `words`, and the number of the array whose address each holds."""
        self.expected = expected_metas((*program.inputs, *program.results))
        self._set("records", ctypes.addressof(self.records))
        self._set("count", len(steps))
        self._set("items", tuple.__basicsize__)
        self._set("inputs", self.inputs)
        self._set("wanted", ctypes.addressof(self.expected))
        self._set("number", len(self.places))
        self.spans = (ctypes.c_size_t * max(2 * len(self.places), 1))()
        self._set("spans", ctypes.addressof(self.spans))
        self._set("patches", ctypes.addressof(self.patches))
        self._set("patched", len(patches))
        self._set("array", id(np.ndarray))
        self._set("tensor", id(DenseTensor) if array_slot() else 0)
        self._set("slot", array_slot())
        self.header_address = ctypes.addressof(self.header)
        work = program.work
        library = _library()
        self.library = library
        # ctypes releases the GIL in calls of CFUNCTYPE, and keeps it in those of PYFUNCTYPE
        self._set("fuel", fuel(work))
        self.brief = work < GIL_HOLD_NS and not self.uses_pool and not program.loops
        kinds = (_CALL_BRIEF, _RUN_BRIEF) if self.brief else (_CALL, _RUN)
        self._call: Callable[[int, Any, Any], int] = kinds[0](library.addresses[RUN_FUNCTIONS[1]])
        self._run: Callable[[int], int] = kinds[1](library.addresses[RUN_FUNCTIONS[0]])
        is_plain = not self.uses_pool and not program.loops
        alone = self.is_known and is_plain and not len(self.flags)
        self.direct = self._call if alone else None
        """The native call, where `attempt` with the right number of arrays does nothing besides: it
        takes `header_address`, arrays and results, and gives 0 if it has run."""
        self.into = kinds[0](library.addresses[RUN_FUNCTIONS[2]]) if alone else None
        """As `direct`, into arrays of the caller; it does not run where they are unfit."""
        self._begin()

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
        call = c_function(_tensor_method(), np.frombuffer(words, np.uintp))
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
            if not all(map(_is_in_rows, operands, metas)):
                return False
            self.place(operands)
            self.run_all()
        if len(self.flags):
            self.refuse()
        return True

    def run_at(self, addresses: Array) -> None:
        """One call on memory at these addresses, unchecked (`NativeProgram.run_at`)."""
        if self.uses_pool:
            self.attach_pool()
        self.words[self.moved] = addresses[self.sources]
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
        operands = [
            *_checked_operands(self.program, arrays),
            *results,
        ]  # copies live until it has run
        self.place(operands)
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
        self.stacks.enlarge()
        self.run_all()

    def run_all(self) -> None:
        """Run the records of the header to the end."""
        try:
            while self._run(self.header_address) == PAUSED:  # signals are handled in between
                self.stacks.enlarge()
        except BaseException:
            self._set("resume", 0)
            self.stacks.clear()
            raise

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

    def run_at(self, addresses: Array) -> None:
        self._within(super().run_at, addresses)


@dataclass(frozen=True, slots=True)
class _Bound:
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


def filled_memory(program: NativeProgram, nbytes: int) -> tuple[Array, int]:
    """So much of a program's memory, with the constants in it, and where in it offsets begin."""
    block = Block(nbytes)
    operands = block.memory
    start = block.base - address_of(operands)
    for part in program.contents:
        first = start + part.offset
        operands[first : first + len(part.content)] = np.frombuffer(part.content, np.uint8)
    return operands, start


def expected_metas(metas: Sequence[TensorMeta]) -> Any:
    """The words of `WANTED` about arrays."""
    words: list[int] = []
    for meta in metas:
        if meta.rank > MAX_AXES:
            words += [0] * len(WANTED)  # no array has such a type: they all go the slow way
            continue
        extents = (*meta.shape, *[0] * (MAX_AXES - meta.rank))
        words += [id(meta.dtype.np), meta.rank, *extents, meta.numel * meta.dtype.itemsize]
    return (ctypes.c_size_t * max(len(words), 1))(*words)


def _checked_operands(program: NativeProgram, arrays: Sequence[Any]) -> list[Array]:
    """The operands, copied if they are not C-contiguous and aligned.

    Raises RuntimeFault for a wrong count (PK0902), shape or element type (PK0903).
    """
    if len(arrays) != len(program.inputs):
        raise RuntimeFault(
            f"{len(arrays)} arrays for {len(program.inputs)} inputs", code="PK0902"
        )  # fmt: skip
    names = program.names[0] or [str(k) for k in range(len(arrays))]
    for name, array, meta in zip(names, arrays, program.inputs, strict=True):
        if not _is(array, meta):
            raise RuntimeFault(
                f"input {name!r} is not {meta}",
                code="PK0903",
                help="a native program is made for inputs of these shapes and element types",
            )
    return [np.require(a, requirements=["C", "A"]) for a in arrays]


@once
def _library() -> Library:
    return load(compile_cached_ir(RUN_MODULE), RUN_FUNCTIONS)


@once
def _tensor_library() -> Library:
    return load(compile_cached_ir(TENSOR_MODULE), TENSOR_FUNCTIONS)


@once
def _tensor_method() -> Method:
    return method(_tensor_library().addresses[TENSOR_FUNCTIONS[0]])


@once
def tree_method() -> Method:
    """The native function for `tree_call`."""
    return method(_tensor_library().addresses[TENSOR_FUNCTIONS[1]], keywords=True)


@cache
def memory_layout_is_known() -> bool:
    """Whether tuples and arrays have the expected memory layout, tested on known objects."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.implementation.name != "cpython":
        return False
    pair = (LAYOUT, HEADER)
    items = (ctypes.c_size_t * 2).from_address(id(pair) + tuple.__basicsize__)
    if tuple(items) != (id(LAYOUT), id(HEADER)):
        return False
    whole = np.arange(6, dtype=np.float64).reshape(2, 3)
    return all(_layout_matches(a) for a in (whole, whole.T, whole[:1], whole.astype(np.int8)))


@cache
def array_slot() -> int:
    """Where in a tensor its array is, in bytes; 0 if native code cannot take it out of there."""
    known = memory_layout_is_known() and functions()
    return tensor_slots().get("slot", 0) if known else 0


def _layout_matches(array: Array) -> bool:
    at = {name: id(array) + offset for name, offset in LAYOUT.items()}
    weak = ref(array)
    pointer = {
        n: ctypes.c_size_t.from_address(at[n]).value for n in ("type", "data", "dtype", "weak")
    }
    known = {
        "type": id(np.ndarray), "data": address_of(array), "dtype": id(array.dtype),
        "weak": id(weak),
    }  # fmt: skip
    if pointer != known or ctypes.c_int32.from_address(at["rank"]).value != array.ndim:
        return False
    extents = ctypes.c_size_t.from_address(at["extents"]).value
    flags = ctypes.c_int32.from_address(at["flags"]).value & CONTIGUOUS_AND_ALIGNED
    shape = tuple((ctypes.c_int64 * array.ndim).from_address(extents))
    in_rows = array.flags.c_contiguous and array.flags.aligned
    return shape == array.shape and (flags == CONTIGUOUS_AND_ALIGNED) == in_rows
