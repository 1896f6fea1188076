"""The data of a native program, and the requirements on its operands."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.meta import TensorMeta, is_unset, of_value
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.native.function import (
    Code,
    Control,
    LibraryCall,
    NativeFunction,
    array_maker,
    may_be_shared,
)
from pirkit.runtime.native.program_ir import (
    MAX_AXES,
    WANTED,
)
from pirkit.runtime.native.workspace import Block, lines
from pirkit.runtime.plan import TypedCall
from pirkit.runtime.tensor.buffer import address_of, is_numpy

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A function and its operands, by number: inputs, then results, then temporaries."""

    function: NativeFunction | Control
    operands: tuple[int, ...]
    flags: range = range(0)
    """The assertion flags, as bytes of the arena, that it may set."""
    calls: tuple[TypedCall, ...] = field(default=(), compare=False, repr=False)
    """What it computes, for profiles; the cache on disk does not keep it."""


class Content(Struct, frozen=True):
    """Constant bytes at ``offset`` of a program's arena."""

    offset: int
    content: bytes


@dataclass(eq=False, repr=False)
class ProgramData:
    """Functions in order, over inputs, results and temporaries (see `NativeProgram`)."""

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
        self.calls_libraries = any(isinstance(s.function, LibraryCall) for s in self.steps)
        self.makers = [array_maker(meta) for meta in self.results]
        kept = [self.flags + len(self.assertions) if self.assertions else 0]
        kept += [part.offset + len(part.content) for part in self.contents]
        self.kept = lines(max(kept))
        """Bytes at the beginning of the memory whose content outlives a call."""
        self.needs = lines(self.memory) - self.kept + self.scratch(lambda code: 1)
        """The other bytes, and those of scratch memory, for one thread."""

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def scratch(self, threads: Callable[[Code], int]) -> int:
        """Bytes of scratch memory for any of the functions, in so many threads."""
        return max((s.function.code.scratch * threads(s.function.code) for s in self.steps),
                   default=0)  # fmt: skip


def is_array_of(array: Any, meta: TensorMeta) -> bool:
    """True for an array of numpy with this shape and element type."""
    if not is_numpy(array):
        return False
    return array.dtype == meta.dtype.np and array.shape == meta.shape


def is_in_rows(array: Any, meta: TensorMeta) -> bool:
    """True for such an array that is C-contiguous and aligned."""
    return is_array_of(array, meta) and array.flags.c_contiguous and array.flags.aligned


def filled_memory(program: ProgramData, nbytes: int) -> tuple[Array, int]:
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


def _is_unread(program: ProgramData, number: int, array: Any, meta: TensorMeta) -> bool:
    """Whether an input is a buffer that was never filled, and that no function reads."""
    is_read = any(number in step.operands for step in program.steps)
    return not is_read and is_numpy(array) and is_unset(meta, of_value(array))


def checked_operands(program: ProgramData, arrays: Sequence[Any]) -> list[Array]:
    """The operands, copied if they are not C-contiguous and aligned.

    What no function reads may be a buffer that was never filled. Raises RuntimeFault for a wrong
    count (PK0902), shape or element type (PK0903).
    """
    if len(arrays) != len(program.inputs):
        raise RuntimeFault(
            f"{len(arrays)} arrays for {len(program.inputs)} inputs", code="PK0902"
        )  # fmt: skip
    names = program.names[0] or [str(k) for k in range(len(arrays))]
    for k, (name, array, meta) in enumerate(zip(names, arrays, program.inputs, strict=True)):
        if not (is_array_of(array, meta) or _is_unread(program, k, array, meta)):
            raise RuntimeFault(
                f"input {name!r} is not {meta}",
                code="PK0903",
                help="a native program is made for inputs of these shapes and element types",
            )
    return [np.require(a, requirements=["C", "A"]) for a in arrays]
