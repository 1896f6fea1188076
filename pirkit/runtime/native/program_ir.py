"""The driver of native programs, as native routines: two modules for all programs.

`RUN_MODULE` runs a program over tuples of arrays. `TENSOR_MODULE` makes
the results and takes trees apart as well; it is five times as large, so that only functions which
are called again need it.

A program is a list of records, which the driver runs without returning to Python. A call passes
tuples of numpy arrays: the driver first compares the fields of each array object with the expected
type, shape and layout, and writes the data addresses into the argument blocks.
"""

from __future__ import annotations

from typing import Final

from pirkit.runtime.native.records_ir import (
    RUN,
    RUN_CONSTANTS,
    RUN_HEADER,
    RUN_POINTERS,
    RUN_STRUCTS,
)
from pirkit.runtime.native.routines import Language, RoutineModule, Struct, words
from pirkit.runtime.native.tensor_call_ir import (
    POINTERS,
    PYTHON,
    PYTHON_RESULTS,
    TENSOR_CALL,
    TENSOR_CONSTANTS,
    TENSOR_STRUCTS,
)
from pirkit.runtime.native.tree_call_ir import (
    TREE_CALL,
    TREE_CONSTANTS,
    TREE_POINTERS,
    TREE_STRUCTS,
    WORDS,
)

RUN_FUNCTIONS: Final = ("pirkit_program_run", "pirkit_program_call", "pirkit_program_into")
TENSOR_FUNCTIONS: Final = ("pirkit_program_tensors", "pirkit_program_tree")

_OWN_WORDS: Final = (
    "items", "inputs", "wanted", "number", "patches", "patched", "array", "tensor", "slot", "spans",
    "meta_slot", "recipes", "made", "brief", "turn", "keeps", "buffer_slot", "weak_slot", "none",
    "new_array", "goes_on", "flags", "flagged", "stacks", "stacked", *PYTHON, *WORDS,
)  # fmt: skip
HEADER: Final = RUN_HEADER | {name: k for k, name in enumerate(_OWN_WORDS, len(RUN_HEADER))}
"""Words of the header of a program, after those of `RUN_HEADER`.

A call has ``number`` arrays: ``inputs`` of them in one tuple and the results in another; the items
of a tuple are ``items`` bytes after its start. ``wanted`` is the expected type of each array;
``patches`` are ``patched`` pairs of a location in an argument block and the number of the array
whose address goes there; ``array`` is ``np.ndarray``. ``tensor`` is `DenseTensor`, whose array lies
``slot`` bytes after the start of the object; 0 where that is not known. ``spans`` has room for the
first address and the end of each array. ``flags`` is the address of all assertion flags, ``stacks``
that of the addresses of all stacks; ``flagged`` and ``stacked`` are their numbers.

For `pirkit_program_tensors` alone: ``meta_slot``, ``buffer_slot`` and ``weak_slot`` are where the
other fields of a tensor lie; ``recipes`` tell how each result is made, ``made`` has room for the
addresses of their arrays and tensors; ``keeps`` is the list of the tensors of earlier calls, of
which ``turn`` is to be replaced; ``brief`` is 1 if the call keeps the GIL; ``none`` is None,
``new_array`` is numpy's `PyArray_NewFromDescr`, and the rest are functions of Python, and the words
of `tree_call_ir`.
"""

MAX_AXES: Final = 8
WANTED: Final = ("dtype", "rank", *[f"extent{k}" for k in range(MAX_AXES)], "bytes")
"""Words of the expected type of an array."""

ARRAY: Final[Struct] = {
    "references": ("i64", 0), "type": ("ptr", 8), "data": ("ptr", 16), "rank": ("i32", 24),
    "extents": ("ptr", 32), "dtype": ("ptr", 56), "flags": ("i32", 64), "weak": ("ptr", 72),
}  # fmt: skip
"""The fields of an array object: the public struct `PyArrayObject_fields` of numpy's C API, on
64-bit machines."""
LAYOUT: Final = {name: offset for name, (_, offset) in ARRAY.items()}
PATCH: Final = words(("place", "number"), {"place"})

ITEMS: Final = object.__basicsize__ + 8
"""Offset in a list object of the pointer to its elements: after the object header and length."""

CONTIGUOUS_AND_ALIGNED: Final = 0x101
WRITEABLE: Final = 0x400

_PLACING: Final = """
# Whether an array is what is wanted: class, element type, memory in rows, rank, extents.
@inline
def fits(object: Array, kind: ptr, want: Wanted) -> i1:
    if object.type != kind or object.dtype != want.dtype or object.flags & IN_ROWS != IN_ROWS:
        return False
    rank = i64(object.rank)
    if rank != want.rank:
        return False
    for k in range(rank):
        if i64[object.extents, k] != i64[want + EXTENTS, k]:
            return False
    return True

# An array of a call, by number; of a tensor its array.
@inline
def operand(header: Header, given: ptr, made: ptr, k: i64) -> ptr:
    object: Array = ptr[given, k] if k < inputs else ptr[made, k - inputs]
    if object.type == tensor:
        held = ptr[object + slot]
        if held != None:
            return held
    return object

# Write the addresses of operands into the argument blocks. Returns 0, or 1 + the number of
# the first array that does not fit; then nothing is written. A run begins with the first record,
# with no flag set and with empty stacks, also where an interrupt ended the last one before Python
# could handle it.
def place(header: Header, given: ptr, made: ptr) -> i64:
    header.resume = 0
    for f in range(flagged):
        i8[flags, f] = 0
    for s in range(stacked):
        stack: Stack = ptr[stacks, s]
        stack.used = 0
    for k in range(number):
        if not fits(operand(header, given, made, k), array, wanted + k * WANTED_BYTES):
            return k + 1
    for j in range(patched):
        patch: Patch = patches + 16 * j
        object: Array = operand(header, given, made, patch.number)
        ptr[patch.place] = object.data
    return 0
"""

_CALLS: Final = """
# Find the operands in tuples and run. Returns what `place` does; if not 0, nothing has run; or
# -1 if the run paused, and `pirkit_program_run` goes on.
def pirkit_program_call(header: Header, inputs_tuple: ptr, results_tuple: ptr) -> i64:
    unfit = place(header, inputs_tuple + items, results_tuple + items)
    if unfit != 0:
        return unfit
    return -1 if pirkit_program_run(header) == PAUSED else 0

# As `pirkit_program_call`, into arrays of the caller: each is writeable, and apart in memory
# from all inputs and other results. Returns 1, and nothing has run, where one is not.
def pirkit_program_into(header: Header, inputs_tuple: ptr, results_tuple: ptr) -> i64:
    for n in range(number):
        object: Array = operand(header, inputs_tuple + items, results_tuple + items, n)
        want: Wanted = wanted + n * WANTED_BYTES
        if not fits(object, array, want):
            return 1
        if n >= inputs and object.flags & WRITEABLE == 0:
            return 1
        span: Span = spans + 16 * n
        span.first = object.data
        span.end = object.data + want.bytes
    for k in range(inputs, number):
        mine: Span = spans + 16 * k
        for j in range(k):
            other: Span = spans + 16 * j
            if below(mine.first, other.end) and below(other.first, mine.end):
                return 1
    return pirkit_program_call(header, inputs_tuple, results_tuple)
"""

_STRUCTS: Final = RUN_STRUCTS | TENSOR_STRUCTS | TREE_STRUCTS | {
    "Header": words(HEADER, {*RUN_POINTERS, *POINTERS, *TREE_POINTERS, "flags", "stacks"}),
    "Array": ARRAY,
    "Wanted": words(WANTED, {"dtype"}), "Patch": PATCH,
    "Span": words(("first", "end"), {"first", "end"}),
}  # fmt: skip
_CONSTANTS: Final = RUN_CONSTANTS | TENSOR_CONSTANTS | TREE_CONSTANTS | {
    "IN_ROWS": CONTIGUOUS_AND_ALIGNED, "WRITEABLE": WRITEABLE,
    "EXTENTS": 8 * WANTED.index("extent0"),
    "WANTED_BYTES": 8 * len(WANTED), "DATA": ARRAY["data"][1], "ITEMS": ITEMS,
}  # fmt: skip
_LANGUAGE: Final = Language(_STRUCTS, _CONSTANTS, PYTHON_RESULTS | {"memcmp": "i32"})

RUN_MODULE: Final = RoutineModule(RUN + _PLACING + _CALLS, _LANGUAGE, RUN_FUNCTIONS, quick=True)
TENSOR_MODULE: Final = RoutineModule(
    RUN + _PLACING + TENSOR_CALL + TREE_CALL, _LANGUAGE, TENSOR_FUNCTIONS
)
