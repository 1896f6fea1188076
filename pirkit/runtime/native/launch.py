"""Launches: several native functions of a plan's steps in one call from Python.

The addresses of pinned operands are written into the argument blocks once. For operands whose array
changes from run to run, native code reads the address from the numpy array in a cell of a Python
list (`launch_ir.py`). A launch therefore costs about as much as one call of numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from pirkit.diag.once import once
from pirkit.runtime.machine_costs import GIL_HOLD_NS
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.function import Control, NativeFunction, Stacks, thread_share
from pirkit.runtime.native.launch_ir import (
    FUNCTION,
    HEADER,
    LAUNCH_PAUSED,
    NOT_CONTIGUOUS,
    launch_module,
)
from pirkit.runtime.native.object_layout import memory_layout_is_known
from pirkit.runtime.native.program_ir import ITEMS
from pirkit.runtime.native.records_ir import RECORD
from pirkit.runtime.native.run_functions import fuel
from pirkit.runtime.native.thread_pool import pool
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]
LaunchCall = Callable[[], int]

_LINE: Final = 64
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
_CALL_BRIEF: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
"""The second argument is ignored by native code; it keeps Python objects alive."""


class LaunchFunction(Struct, frozen=True):
    """A function with the numbers of its operands, and the assertion flags to check after it."""

    function: NativeFunction | Control
    operands: tuple[int, ...]
    flags: range = range(0)


class LaunchPart(Struct, frozen=True):
    """The contribution of one step to a launch: functions over the operands that it numbers.

    ``own`` are arrays of the step itself, such as temporaries; ``flags`` are the operands that are
    assertion flags, bytes that a function sets if its data violate an assertion; ``stacks`` are
    those of its own arrays that are stacks of loops.
    """

    works: tuple[LaunchFunction, ...]
    own: Mapping[int, Array] = field(default_factory=dict[int, Array])
    flags: tuple[int, ...] = ()
    stacks: tuple[int, ...] = ()


Key = tuple[int, int]
"""An operand of a launch: the number of the part, and of the operand in it."""


class Launch:
    """Runs the functions of some parts in order, until one sets an assertion flag.

    Not re-entrant: it owns its scratch memory and argument blocks.
    """

    def __init__(self, parts: Sequence[LaunchPart]) -> None:
        self.places: dict[Key, list[int]] = {}
        self.flags = np.zeros(sum(len(part.flags) for part in parts), np.uint8)
        self.owned: list[Any] = [self.flags]
        self.uses_pool = False
        self.loops = False
        self.work = 0
        words: list[int] = []
        first = 0
        for number, part in enumerate(parts):
            begin = len(words) // len(RECORD)
            for work in part.works:
                words += self._record(number, work, first, begin)
            for operand, array in part.own.items():
                self.fix_operand((number, operand), array)
            for k, operand in enumerate(part.flags, first):
                self.fix_operand((number, operand), self.flags[k:])
            first += len(part.flags)
        owners = [address_of(part.own[k]) for part in parts for k in part.stacks]
        self.stacks = Stacks(owners)
        self.records = (ctypes.c_size_t * max(len(words), 1))(*words)
        self.count = len(words) // len(RECORD)
        # a short launch on one thread is faster than releasing and taking the GIL
        self.holds_gil = not self.uses_pool and not self.loops and self.work < GIL_HOLD_NS

    def _record(self, part: int, work: LaunchFunction, first: int, begin: int) -> tuple[int, ...]:
        function = work.function
        code = function.code
        self.work += code.work
        threads, chunk = thread_share(code)
        self.uses_pool = self.uses_pool or threads > 1
        scratch = ctypes.create_string_buffer(code.scratch * threads + _LINE)
        start = -(-ctypes.addressof(scratch) // _LINE) * _LINE
        count = len(work.operands)
        # the argument block: the addresses of operands, filled in later, then that of the scratch
        block = (ctypes.c_size_t * (count + 1))(*[0] * count, start)
        address = ctypes.addressof(block)
        for position, operand in enumerate(work.operands):
            self.places.setdefault((part, operand), []).append(address + 8 * position)
        self.owned += [block, scratch, work.function]
        marked = len(work.flags)
        flags = address_of(self.flags) + first + work.flags.start if marked else 0
        if isinstance(function, Control):
            self.loops = True
            return 0, address, *function.words(begin), 1, flags, marked
        return function.address, address, code.blocks, chunk, threads, flags, marked

    def fix_operand(self, operand: Key, array: Array) -> None:
        """Pin an operand to an array. The caller guarantees its size."""
        self.owned.append(array)
        self._write(operand, address_of(array))

    def _write(self, operand: Key, address: int) -> None:
        for place in self.places.get(operand, ()):
            ctypes.c_size_t.from_address(place).value = address

    def first_failed(self) -> int:
        """The number of the first flag that is set; all flags are cleared."""
        first = int(np.flatnonzero(self.flags)[0])
        self.flags[...] = 0
        return first

    def over_cells(self, values: list[Any], cells: Mapping[Key, int]) -> LaunchCall:
        """A call that reads the operands in ``cells`` from a list at each run.

        It returns DONE, ASSERTION_FAILED if a function set a flag, or NOT_CONTIGUOUS, without
        having run anything, if an array is not C-contiguous and aligned.
        """
        patches = [(place, c) for k, c in cells.items() for place in self.places.get(k, ())]
        header = (ctypes.c_size_t * len(HEADER))()
        flat = (ctypes.c_size_t * max(2 * len(patches), 1))(*[w for pair in patches for w in pair])
        known = {
            "records": ctypes.addressof(self.records),
            "count": self.count,
            "cells": id(values),
            "patches": ctypes.addressof(flat),
            "patched": len(patches) if _list_layout_is_known() else 0,
            "array": id(np.ndarray),
            "fuel": fuel(self.work),
        }
        for name, word in known.items():
            header[HEADER[name]] = word
        kind = _CALL_BRIEF if self.holds_gil else _CALL
        library = _library()
        owned = (self, header, flat, values, library)
        go = partial(kind(library.addresses[FUNCTION]), ctypes.addressof(header), owned)
        if self.loops:
            go = partial(_resumed, header, self.stacks, go)
        if self.uses_pool:
            go = partial(_attach_pool, header, go)
        return go if _list_layout_is_known() else partial(self._bind_and_call, go, values, cells)

    def _bind_and_call(self, go: LaunchCall, values: list[Any], cells: Mapping[Key, int]) -> int:
        """Get the addresses through numpy, where the layout of lists or arrays is unknown."""
        for operand, cell in cells.items():
            array = values[cell]
            if not (array.flags.c_contiguous and array.flags.aligned):
                return NOT_CONTIGUOUS
            self._write(operand, address_of(array))
        return go()


def _attach_pool(header: Any, go: LaunchCall) -> int:
    """Run with the current pool: after a fork the child has another one."""
    current = pool()
    header[HEADER["share"]] = current.run_address
    header[HEADER["pool"]] = current.address
    return go()


def _resumed(header: Any, stacks: Stacks, go: LaunchCall) -> int:
    """Run to the end, with pauses in which Python handles signals and enlarges stacks."""
    try:
        while (state := go()) == LAUNCH_PAUSED:
            stacks.enlarge()
    except BaseException:
        header[HEADER["resume"]] = 0
        stacks.clear()
        raise
    return state


@once
def _library() -> Library:
    return load(compile_cached_ir(launch_module(ITEMS)), [FUNCTION])


@cache
def _list_layout_is_known() -> bool:
    """Whether lists and arrays have the expected memory layout, tested on known objects."""
    if not memory_layout_is_known():
        return False
    held: list[Any] = [HEADER, _CALL]
    address = ctypes.c_size_t.from_address(id(held) + ITEMS).value
    size = ctypes.c_size_t.from_address(id(held) + object.__basicsize__).value
    return size == 2 and tuple((ctypes.c_size_t * 2).from_address(address)) == (
        id(HEADER),
        id(_CALL),
    )
