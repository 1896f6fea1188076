"""The driver of native programs, as LLVM IR: two modules for all programs.

The module of `RUN_FUNCTIONS` runs a program over tuples of arrays. That of `TENSOR_FUNCTIONS` makes
the results and takes trees apart as well; it is five times as large, so that only functions which
are called again need it.

A program is a list of records, which the driver runs without returning to Python. A call passes
tuples of numpy arrays: the driver first compares the fields of each array object with the expected
type, shape and layout, and writes the data addresses into the argument blocks.
"""

from __future__ import annotations

from string import Template
from typing import Final

from pirkit.runtime.native.field_loads import with_field_loads
from pirkit.runtime.native.object_compiler import INLINE
from pirkit.runtime.native.records_ir import PAUSED, RUN_HEADER, run_text
from pirkit.runtime.native.tensor_call_ir import KEPT, PYTHON, RECIPE, tensor_call_text
from pirkit.runtime.native.tree_call_ir import WORDS, tree_call_text

RUN_FUNCTIONS: Final = ("pirkit_program_run", "pirkit_program_call", "pirkit_program_into")
TENSOR_FUNCTIONS: Final = ("pirkit_program_tensors", "pirkit_program_tree")

_OWN_WORDS: Final = (
    "items", "inputs", "wanted", "number", "patches", "patched", "array", "tensor", "slot", "spans",
    "meta_slot", "recipes", "made", "brief", "turn", "keeps", "buffer_slot", "weak_slot", "none",
    "new_array", "goes_on", *PYTHON, *WORDS,
)  # fmt: skip
HEADER: Final = RUN_HEADER | {name: k for k, name in enumerate(_OWN_WORDS, len(RUN_HEADER))}
"""Words of the header of a program, after those of `RUN_HEADER`.

A call has ``number`` arrays: ``inputs`` of them in one tuple and the results in another; the items
of a tuple are ``items`` bytes after its start. ``wanted`` is the expected type of each array;
``patches`` are ``patched`` pairs of a location in an argument block and the number of the array
whose address goes there; ``array`` is ``np.ndarray``. ``tensor`` is `DenseTensor`, whose array lies
``slot`` bytes after the start of the object; 0 where that is not known. ``spans`` has room for the
first address and the end of each array.

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

LAYOUT: Final = {
    "type": 8, "data": 16, "rank": 24, "extents": 32, "dtype": 56, "flags": 64,
    "weak": 72,
}  # fmt: skip
"""Byte offsets of the fields of an array object: the public struct `PyArrayObject_fields` of
numpy's C API, on 64-bit machines."""

ITEMS: Final = object.__basicsize__ + 8
"""Offset in a list object of the pointer to its elements: after the object header and length."""

CONTIGUOUS_AND_ALIGNED: Final = 0x101
WRITEABLE: Final = 0x400

_PLACING: Final = """
; Whether an array is what is wanted: type, element type, memory in rows, rank, extents.
define private i1 @fits(ptr %object, ptr %type, ptr %wanted) alwaysinline {
entry:
  %w_extents = getelementptr i64, ptr %wanted, i64 2
  %is = field ptr, i8 %object, $at_type
  %same_type = icmp eq ptr %is, %type
  br i1 %same_type, label %array, label %no
array:
  %dtype = field ptr, i8 %object, $at_dtype
  %dtype_wanted = load ptr, ptr %wanted, align 8
  %same_dtype = icmp eq ptr %dtype, %dtype_wanted
  %flags = field i32, i8 %object, $at_flags
  %masked = and i32 %flags, $flags
  %in_rows = icmp eq i32 %masked, $flags
  %rank32 = field i32, i8 %object, $at_rank
  %rank = sext i32 %rank32 to i64
  %rank_wanted = field i64, i64 %wanted, 1
  %same_rank = icmp eq i64 %rank, %rank_wanted
  %both = and i1 %same_dtype, %in_rows
  %all = and i1 %both, %same_rank
  br i1 %all, label %axes, label %no
axes:
  %extents = field ptr, i8 %object, $at_extents
  br label %axis
axis:
  %k = phi i64 [ 0, %axes ], [ %after, %equal ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %compare, label %yes
compare:
  %extent = field i64, i64 %extents, %k
  %extent_wanted = field i64, i64 %w_extents, %k
  %same = icmp eq i64 %extent, %extent_wanted
  br i1 %same, label %equal, label %no
equal:
  %after = add i64 %k, 1
  br label %axis
yes:
  ret i1 true
no:
  ret i1 false
}

; An array of a call, by number; of a tensor its array.
define private ptr @array(ptr %header, ptr %given, ptr %made, i64 %inputs, i64 %k) alwaysinline {
entry:
  %is_input = icmp slt i64 %k, %inputs
  %behind = sub i64 %k, %inputs
  %items = select i1 %is_input, ptr %given, ptr %made
  %which = select i1 %is_input, i64 %k, i64 %behind
  %object = field ptr, ptr %items, %which
  %type = field ptr, i8 %object, $at_type
  %tensor = field ptr, i64 %header, $tensor
  %wrapped = icmp eq ptr %type, %tensor
  br i1 %wrapped, label %unwrap, label %plain
unwrap:
  %slot = field i64, i64 %header, $slot
  %held = field ptr, i8 %object, %slot
  %empty = icmp eq ptr %held, null
  %found = select i1 %empty, ptr %object, ptr %held
  ret ptr %found
plain:
  ret ptr %object
}

; Write the addresses of operands into the argument blocks. Returns 0, or 1 + the number of the
; first array that does not fit; then nothing is written.
define private i64 @place(ptr %header, ptr %given, ptr %made) {
entry:
  %inputs = field i64, i64 %header, $inputs
  %wanted = field ptr, i64 %header, $wanted
  %number = field i64, i64 %header, $number
  %patches = field ptr, i64 %header, $patches
  %patched = field i64, i64 %header, $patched
  %type = field ptr, i64 %header, $array
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %good ]
  %more = icmp slt i64 %k, %number
  br i1 %more, label %look, label %place
look:
  %object = call ptr @array(ptr %header, ptr %given, ptr %made, i64 %inputs, i64 %k)
  %offset = mul i64 %k, $wanted_bytes
  %want = getelementptr i8, ptr %wanted, i64 %offset
  %fits = call i1 @fits(ptr %object, ptr %type, ptr %want)
  %after = add i64 %k, 1
  br i1 %fits, label %good, label %bad
good:
  br label %next
bad:
  ret i64 %after
place:
  %j = phi i64 [ 0, %next ], [ %j1, %write ]
  %left = icmp slt i64 %j, %patched
  br i1 %left, label %write, label %done
write:
  %twice = shl i64 %j, 1
  %p_place = getelementptr i64, ptr %patches, i64 %twice
  %where = load ptr, ptr %p_place, align 8
  %which = field i64, i64 %p_place, 1
  %found = call ptr @array(ptr %header, ptr %given, ptr %made, i64 %inputs, i64 %which)
  %data = field ptr, i8 %found, $at_data
  store ptr %data, ptr %where, align 8
  %j1 = add i64 %j, 1
  br label %place
done:
  ret i64 0
}
"""

_CALLS: Final = """
; Find the operands in tuples and run. Returns what @place does; if not 0, nothing has run; or -1 if
; the run paused, and `pirkit_program_run` goes on.
define i64 @pirkit_program_call(ptr %header, ptr %inputs_tuple, ptr %results_tuple) {
entry:
  %items = field i64, i64 %header, $items
  %given = getelementptr i8, ptr %inputs_tuple, i64 %items
  %made = getelementptr i8, ptr %results_tuple, i64 %items
  %unfit = call i64 @place(ptr %header, ptr %given, ptr %made)
  %fits = icmp eq i64 %unfit, 0
  br i1 %fits, label %run, label %done
run:
  %ran = call i64 @pirkit_program_run(ptr %header)
  %paused = icmp eq i64 %ran, $PAUSED
  %state = select i1 %paused, i64 -1, i64 0
  br label %done
done:
  %found = phi i64 [ %unfit, %entry ], [ %state, %run ]
  ret i64 %found
}

; As `pirkit_program_call`, into arrays of the caller: each is writeable, and apart in memory from
; all inputs and other results. Returns 1, and nothing has run, where one is not.
define i64 @pirkit_program_into(ptr %header, ptr %inputs_tuple, ptr %results_tuple) {
entry:
  %spans = field ptr, i64 %header, $spans
  %items = field i64, i64 %header, $items
  %inputs = field i64, i64 %header, $inputs
  %wanted = field ptr, i64 %header, $wanted
  %number = field i64, i64 %header, $number
  %type = field ptr, i64 %header, $array
  %given = getelementptr i8, ptr %inputs_tuple, i64 %items
  %made = getelementptr i8, ptr %results_tuple, i64 %items
  br label %check
check:
  %n = phi i64 [ 0, %entry ], [ %n1, %right ]
  %unknown = icmp slt i64 %n, %number
  br i1 %unknown, label %each, label %next
each:
  %object_n = call ptr @array(ptr %header, ptr %given, ptr %made, i64 %inputs, i64 %n)
  %offset_n = mul i64 %n, $wanted_bytes
  %want_n = getelementptr i8, ptr %wanted, i64 %offset_n
  %fits = call i1 @fits(ptr %object_n, ptr %type, ptr %want_n)
  br i1 %fits, label %right, label %bad
right:
  %data = field i64, i8 %object_n, $at_data
  %bytes = field i64, i64 %want_n, $bytes
  %behind = add i64 %data, %bytes
  %twice = shl i64 %n, 1
  %p_first = getelementptr i64, ptr %spans, i64 %twice
  %p_behind = getelementptr i64, ptr %p_first, i64 1
  store i64 %data, ptr %p_first, align 8
  store i64 %behind, ptr %p_behind, align 8
  %flags = field i32, i8 %object_n, $at_flags
  %masked = and i32 %flags, $writeable
  %open = icmp ne i32 %masked, 0
  %is_input = icmp slt i64 %n, %inputs
  %either = or i1 %open, %is_input
  %n1 = add i64 %n, 1
  br i1 %either, label %check, label %bad
next:
  %k = phi i64 [ %inputs, %check ], [ %k1, %alone ]
  %more = icmp slt i64 %k, %number
  br i1 %more, label %look, label %apart
look:
  %twice_k = shl i64 %k, 1
  %p_start = getelementptr i64, ptr %spans, i64 %twice_k
  %start = load i64, ptr %p_start, align 8
  %end = field i64, i64 %p_start, 1
  br label %other
other:
  %j = phi i64 [ 0, %look ], [ %j1, %between ]
  %before = icmp slt i64 %j, %k
  br i1 %before, label %compare, label %alone
compare:
  %twice_j = shl i64 %j, 1
  %p_start_j = getelementptr i64, ptr %spans, i64 %twice_j
  %start_j = load i64, ptr %p_start_j, align 8
  %end_j = field i64, i64 %p_start_j, 1
  %below = icmp ule i64 %end_j, %start
  %above = icmp ule i64 %end, %start_j
  %disjoint = or i1 %below, %above
  br i1 %disjoint, label %between, label %bad
between:
  %j1 = add i64 %j, 1
  br label %other
alone:
  %k1 = add i64 %k, 1
  br label %next
apart:
  %found = call i64 @pirkit_program_call(ptr %header, ptr %inputs_tuple, ptr %results_tuple)
  ret i64 %found
bad:
  ret i64 1
}
"""


def program_text() -> str:
    """The text of the module of `RUN_FUNCTIONS`."""
    return _module(_PLACING + _CALLS)


def tensor_program_text() -> str:
    """The text of the module of `TENSOR_FUNCTIONS`."""
    calls = tensor_call_text(HEADER) + tree_call_text(HEADER)
    return _module(_PLACING + calls, "private")


def _module(text: str, linkage: str = "") -> str:
    words = {name: str(word) for name, word in HEADER.items()}
    places = {f"at_{name}": str(offset) for name, offset in LAYOUT.items()}
    calls = Template(text).substitute(
        words,
        **places,
        flags=str(CONTIGUOUS_AND_ALIGNED),
        writeable=str(WRITEABLE),
        bytes=str(WANTED.index("bytes")),
        wanted_bytes=str(8 * len(WANTED)),
        PAUSED=str(PAUSED),
        recipe_bytes=str(8 * len(RECIPE)),
        at_items=str(ITEMS),
        KEPT=str(KEPT),
        most_references=str(1 << 30),
    )
    run = run_text("pirkit_program_run", linkage)
    return with_field_loads(f"{run}\n{calls}\n{INLINE}\n")
