"""Launches: steps of a plan, several native functions in one call.

Operands that stay where they are are written into the blocks of arguments once. Of those that lie
somewhere else in each call native code itself finds the address: it looks into the arrays in the
cells of a list (`launch_ir.py`). So a launch costs about as much as a call of numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import numpy as np

from pirkit.diag.once import once
from pirkit.runtime.native.cached_ir import compile_cached_ir
from pirkit.runtime.native.engine import Library, load
from pirkit.runtime.native.function import NativeFunction, thread_share
from pirkit.runtime.native.launch_ir import FUNCTION, HEADER, NOT_CONTIGUOUS, launch_text
from pirkit.runtime.native.pool import pool
from pirkit.runtime.native.program import GIL_HOLD_NS, memory_layout_is_known
from pirkit.runtime.native.records_ir import RECORD
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]
LaunchCall = Callable[[], int]

_LINE: Final = 64
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
_CALL_BRIEF: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.py_object)
"""The second argument is for Python alone: what has to live as long as the call."""

_ITEMS: Final = object.__basicsize__ + 8
"""Where a list keeps the address of its elements: behind the head of an object and its length."""


@dataclass(frozen=True, slots=True)
class LaunchFunction:
    """A function with the numbers of its operands; behind it some marks are looked at."""

    function: NativeFunction
    operands: tuple[int, ...]
    flags: range = range(0)


@dataclass(frozen=True, slots=True)
class LaunchPart:
    """What one step hands to a launch: its functions, over operands that it has numbered.

    ``own`` are operands that it brings itself; ``flags`` those that are bytes which functions set
    where data do not keep to what is demanded, as many as its works look at.
    """

    works: tuple[LaunchFunction, ...]
    own: Mapping[int, Array] = field(default_factory=dict[int, Array])
    flags: tuple[int, ...] = ()


Key = tuple[int, int]
"""An operand of a launch: the piece and its number there."""


class Launch:
    """The functions of some pieces, one after the other, until one sets a mark.

    Not to be run twice at a time: scratch memory and arguments are its own.
    """

    def __init__(self, parts: Sequence[LaunchPart]) -> None:
        self.places: dict[Key, list[int]] = {}
        self.flags = np.zeros(sum(len(part.flags) for part in parts), np.uint8)
        self.owned: list[Any] = [self.flags]
        self.uses_pool = False
        self.work = 0
        words: list[int] = []
        first = 0
        for number, part in enumerate(parts):
            for work in part.works:
                words += self._record(number, work, first)
            for operand, array in part.own.items():
                self.fix_operand((number, operand), array)
            for k, operand in enumerate(part.flags, first):
                self.fix_operand((number, operand), self.flags[k:])
            first += len(part.flags)
        self.records = (ctypes.c_size_t * max(len(words), 1))(*words)
        self.count = len(words) // len(RECORD)
        self.holds_gil = not self.uses_pool and self.work < GIL_HOLD_NS

    def _record(self, part: int, work: LaunchFunction, first: int) -> tuple[int, ...]:
        code = work.function.code
        self.work += code.work
        threads, chunk = thread_share(code)
        self.uses_pool = self.uses_pool or threads > 1
        scratch = ctypes.create_string_buffer(code.scratch * threads + _LINE)
        start = -(-ctypes.addressof(scratch) // _LINE) * _LINE
        count = len(work.operands)
        block = (ctypes.c_size_t * (count + 1))(*[0] * count, start)
        address = ctypes.addressof(block)
        for position, operand in enumerate(work.operands):
            self.places.setdefault((part, operand), []).append(address + 8 * position)
        self.owned += [block, scratch, work.function]
        marked = len(work.flags)
        flags = address_of(self.flags) + first + work.flags.start if marked else 0
        return work.function.address, address, code.blocks, chunk, threads, flags, marked

    def fix_operand(self, operand: Key, array: Array) -> None:
        """An operand is in this array from here on. The caller answers for its size."""
        self.owned.append(array)
        self._write(operand, address_of(array))

    def _write(self, operand: Key, address: int) -> None:
        for place in self.places.get(operand, ()):
            ctypes.c_size_t.from_address(place).value = address

    def first_failed(self) -> int:
        """The first mark that is set; they are as new then."""
        first = int(np.flatnonzero(self.flags)[0])
        self.flags[...] = 0
        return first

    def over_cells(self, values: list[Any], cells: Mapping[Key, int]) -> LaunchCall:
        """A call that finds operands in cells of a list, which it runs over again and again.

        It gives DONE, or BROKEN where a function set a mark, or UNFIT, having done nothing, where
        an array does not lie in rows.
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
        }
        for name, word in known.items():
            header[HEADER[name]] = word
        kind = _CALL_BRIEF if self.holds_gil else _CALL
        library = _library()
        owned = (self, header, flat, values, library)
        go = partial(kind(library.addresses[FUNCTION]), ctypes.addressof(header), owned)
        if self.uses_pool:
            go = partial(_attach_pool, header, go)
        return go if _list_layout_is_known() else partial(self._bind_and_call, go, values, cells)

    def _bind_and_call(self, go: LaunchCall, values: list[Any], cells: Mapping[Key, int]) -> int:
        """Find the operands as numpy tells them."""
        for operand, cell in cells.items():
            array = values[cell]
            if not (array.flags.c_contiguous and array.flags.aligned):
                return NOT_CONTIGUOUS
            self._write(operand, address_of(array))
        return go()


def _attach_pool(header: Any, go: LaunchCall) -> int:
    """Run with the pool of this process: a child of a fork has another one."""
    current = pool()
    header[HEADER["share"]] = current.run_address
    header[HEADER["pool"]] = current.address
    return go()


@once
def _library() -> Library:
    return load(compile_cached_ir(launch_text(_ITEMS)), [FUNCTION])


@cache
def _list_layout_is_known() -> bool:
    """Whether lists and arrays lie in memory as we think, seen from some that we know."""
    if not memory_layout_is_known():
        return False
    held: list[Any] = [HEADER, _CALL]
    address = ctypes.c_size_t.from_address(id(held) + _ITEMS).value
    size = ctypes.c_size_t.from_address(id(held) + object.__basicsize__).value
    return size == 2 and tuple((ctypes.c_size_t * 2).from_address(address)) == (
        id(HEADER),
        id(_CALL),
    )
