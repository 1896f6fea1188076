"""The call of a native program from Python objects to new tensors, as LLVM IR.

It is a C function of Python (`METH_FASTCALL`): it makes the tensors of the results and runs the
program, which would take longer in Python than a small program does.

A program keeps small results of its last calls. One that nobody else holds, neither the tensor nor
its array, is the result of a later call again, so that a loop which drops what it got some turns
before allocates nothing. What anybody can still see is never written.

A run that pauses (`records_ir`) goes on in ``goes_on``, a function of Python that ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

PYTHON: Final = {
    "new_tensor": "PyType_GenericAlloc",
    "new_tuple": "PyTuple_New",
    "call": "PyObject_CallNoArgs",
    "keep": "Py_IncRef",
    "drop": "Py_DecRef",
    "forget": "PyErr_Clear",
    "release": "PyEval_SaveThread",
    "take": "PyEval_RestoreThread",
    "get": "PyDict_GetItemWithError",
    "error": "PyErr_Occurred",
    "vector": "PyObject_Vectorcall",
    "integer": "PyLong_AsLongLongAndOverflow",
    "in_cell": "PyCell_Get",
    "attribute": "PyObject_GetAttr",
    "matches": "PyErr_ExceptionMatches",
}
"""Functions of Python's C API whose addresses are in the header of a program."""

KEPT: Final = 3
"""Results of earlier calls that are kept for each result: what a training step got and gives, and
one more, as a variable holds the last result until it is assigned."""

RECIPE: Final = ("maker", "dtype", "rank", "extents", "meta", "kept")
"""Words that tell how a result is made: by calling ``maker``, or as an array of numpy where that is
0; ``meta`` is the meta of its tensor, ``kept`` is 1 if a program keeps it."""

_WORDS: Final = (
    "inputs", "number", "slot", "meta_slot", "buffer_slot", "weak_slot", "brief", "turn",
)  # fmt: skip
_POINTERS: Final = (
    "recipes", "made", "keeps", "wanted", "array", "tensor", "none", "new_array", "goes_on",
    *PYTHON,
)  # fmt: skip

# References: `new_array` takes one of the dtype. `made` has the arrays, which their tensors own,
# and `tensors` new references to the tensors, which the tuple takes at the end.
_TEXT: Final = """
; Make the results and run. Returns 0, and there are tensors; 1 if nothing has run; 2 if an
; exception is set.
define private i64 @results(ptr %header, ptr %given) {
entry:
$loads
  %results = sub i64 %number, %inputs
  %tensors = getelementptr ptr, ptr %made, i64 %results
  %next_turn = add i64 %turn, 1
  %wraps = icmp sge i64 %next_turn, $KEPT
  %turned = select i1 %wraps, i64 0, i64 %next_turn
  store i64 %turned, ptr %p_turn, align 8
  %p_kept = getelementptr i8, ptr %keeps, i64 $at_items
  %kept = load ptr, ptr %p_kept, align 8
  br label %allocate

allocate:
  %k = phi i64 [ 0, %entry ], [ %k1, %have ]
  %more = icmp slt i64 %k, %results
  br i1 %more, label %each, label %find
each:
  %at = mul i64 %k, $recipe_bytes
  %recipe = getelementptr i8, ptr %recipes, i64 %at
  %p_is_kept = getelementptr i64, ptr %recipe, i64 5
  %is_kept = load i64, ptr %p_is_kept, align 8
  %first_kept = mul i64 %k, $KEPT
  %ring = getelementptr ptr, ptr %kept, i64 %first_kept
  %wanted_index = add i64 %inputs, %k
  %wanted_at = mul i64 %wanted_index, $wanted_bytes
  %want = getelementptr i8, ptr %wanted, i64 %wanted_at
  %end_kept = mul i64 %is_kept, $KEPT
  br label %search

search:
  %g = phi i64 [ 0, %each ], [ %g1, %in_use ]
  %candidates = icmp slt i64 %g, %end_kept
  br i1 %candidates, label %candidate, label %fresh
candidate:
  %p_old = getelementptr ptr, ptr %ring, i64 %g
  %old = load ptr, ptr %p_old, align 8
  %old_array = call ptr @unseen(ptr %header, ptr %old, i64 1, ptr %want)
  %is_free = icmp ne ptr %old_array, null
  br i1 %is_free, label %reuse, label %in_use
in_use:
  %g1 = add i64 %g, 1
  br label %search
reuse:
  call void @keep(ptr %header, ptr %old)
  br label %have

fresh:
  %maker = load ptr, ptr %recipe, align 8
  %is_small = icmp eq ptr %maker, null
  br i1 %is_small, label %small, label %large
small:
  %p_dtype = getelementptr i64, ptr %recipe, i64 1
  %p_rank = getelementptr i64, ptr %recipe, i64 2
  %p_extents = getelementptr i64, ptr %recipe, i64 3
  %dtype = load ptr, ptr %p_dtype, align 8
  %rank = load i32, ptr %p_rank, align 8
  %extents = load ptr, ptr %p_extents, align 8
  call void @keep(ptr %header, ptr %dtype)
  %a_small = call ptr %new_array(
      ptr %array, ptr %dtype, i32 %rank, ptr %extents, ptr null, ptr null, i32 0, ptr null)
  br label %known
large:
  %a_large = call ptr %call(ptr %maker)
  br label %known
known:
  %a = phi ptr [ %a_small, %small ], [ %a_large, %large ]
  %no_array = icmp eq ptr %a, null
  br i1 %no_array, label %no_memory, label %wrap
wrap:
  %t = call ptr %new_tensor(ptr %tensor, i64 0)
  %no_tensor = icmp eq ptr %t, null
  br i1 %no_tensor, label %drop_array, label %fill
drop_array:
  call void @drop(ptr %header, ptr %a)
  br label %no_memory
fill:
  %p_meta = getelementptr i64, ptr %recipe, i64 4
  %meta = load ptr, ptr %p_meta, align 8
  call void @keep(ptr %header, ptr %meta)
  %p_held_array = getelementptr i8, ptr %t, i64 %slot
  %p_held_meta = getelementptr i8, ptr %t, i64 %meta_slot
  store ptr %a, ptr %p_held_array, align 8
  store ptr %meta, ptr %p_held_meta, align 8
  %keeps_it = icmp ne i64 %is_kept, 0
  br i1 %keeps_it, label %remember, label %have
remember:
  %p_place = getelementptr ptr, ptr %ring, i64 %turn
  %replaced = load ptr, ptr %p_place, align 8
  call void @keep(ptr %header, ptr %t)
  store ptr %t, ptr %p_place, align 8
  call void @drop(ptr %header, ptr %replaced)
  br label %have

have:
  %got = phi ptr [ %old, %reuse ], [ %t, %fill ], [ %t, %remember ]
  %got_array = phi ptr [ %old_array, %reuse ], [ %a, %fill ], [ %a, %remember ]
  %p_got = getelementptr ptr, ptr %tensors, i64 %k
  %p_got_array = getelementptr ptr, ptr %made, i64 %k
  store ptr %got, ptr %p_got, align 8
  store ptr %got_array, ptr %p_got_array, align 8
  %k1 = add i64 %k, 1
  br label %allocate

find:
  %state = call i64 @run_made(ptr %header, ptr %given)
  switch i64 %state, label %raise [ i64 0, label %done
                                    i64 1, label %clear ]
raise:
  call void @drop_all(ptr %header, ptr %tensors, i64 %results)
  ret i64 2
done:
  ret i64 0

no_memory:
  br label %clear_from
clear:
  br label %clear_from
clear_from:
  %end = phi i64 [ %k, %no_memory ], [ %results, %clear ]
  call void %forget()
  call void @drop_all(ptr %header, ptr %tensors, i64 %end)
  ret i64 1
}

; Run on the arrays in `made`. Returns 0; 1 if nothing has run; 2 if an exception is set.
define private i64 @run_made(ptr %header, ptr %given) {
entry:
$loads
  %unfit = call i64 @place(ptr %header, ptr %given, ptr %made)
  %all_fit = icmp eq i64 %unfit, 0
  br i1 %all_fit, label %run, label %missed
run:
  %holds = icmp ne i64 %brief, 0
  br i1 %holds, label %run_brief, label %run_long
run_brief:
  %ran_brief = call i64 @pirkit_program_run(ptr %header)
  br label %ran
run_long:
  %thread = call ptr %release()
  %ran_long = call i64 @pirkit_program_run(ptr %header)
  call void %take(ptr %thread)
  br label %ran
ran:
  %end_of_run = phi i64 [ %ran_brief, %run_brief ], [ %ran_long, %run_long ]
  %paused = icmp eq i64 %end_of_run, $PAUSED
  br i1 %paused, label %go_on, label %done
go_on:
  %went = call ptr %call(ptr %goes_on)
  %interrupted = icmp eq ptr %went, null
  br i1 %interrupted, label %raised, label %went_on
went_on:
  call void @drop(ptr %header, ptr %went)
  br label %done
done:
  ret i64 0
missed:
  ret i64 1
raised:
  ret i64 2
}

; The array of a tensor of an earlier call that has so many references and is as wanted, if nobody
; sees either otherwise; else null.
define private ptr @unseen(ptr %header, ptr %old, i64 %expected, ptr %want) alwaysinline {
entry:
$loads
  %own_type_at = getelementptr i8, ptr %old, i64 $at_type
  %type = load ptr, ptr %own_type_at, align 8
  %is_tensor = icmp eq ptr %type, %tensor
  %references = load i64, ptr %old, align 8
  %as_many = icmp eq i64 %references, %expected
  %free = and i1 %is_tensor, %as_many
  br i1 %free, label %look, label %seen
look:
  %own_array_at = getelementptr i8, ptr %old, i64 %slot
  %own_buffer_at = getelementptr i8, ptr %old, i64 %buffer_slot
  %own_weak_at = getelementptr i8, ptr %old, i64 %weak_slot
  %its_array = load ptr, ptr %own_array_at, align 8
  %buffer = load ptr, ptr %own_buffer_at, align 8
  %weak = load ptr, ptr %own_weak_at, align 8
  %no_buffer = icmp eq ptr %buffer, null
  %no_weak = icmp eq ptr %weak, null
  %plain = and i1 %no_buffer, %no_weak
  %has_array = icmp ne ptr %its_array, null
  %usable = and i1 %plain, %has_array
  br i1 %usable, label %look_closer, label %seen
look_closer:
  %array_references = load i64, ptr %its_array, align 8
  %alone = icmp eq i64 %array_references, 1
  %p_array_weak = getelementptr i8, ptr %its_array, i64 $at_weak
  %array_weak = load ptr, ptr %p_array_weak, align 8
  %array_no_weak = icmp eq ptr %array_weak, null
  %own_flags_at = getelementptr i8, ptr %its_array, i64 $at_flags
  %flags = load i32, ptr %own_flags_at, align 4
  %open = and i32 %flags, $writeable
  %is_open = icmp ne i32 %open, 0
  %unwatched = and i1 %alone, %array_no_weak
  %good = and i1 %unwatched, %is_open
  br i1 %good, label %compare, label %seen
compare:
  %as_wanted = call i1 @fits(ptr %its_array, ptr %array, ptr %want)
  br i1 %as_wanted, label %unseen, label %seen
unseen:
  ret ptr %its_array
seen:
  ret ptr null
}

; `Py_IncRef` and `Py_DecRef`, without a call where the count is of a usual size: neither that of an
; immortal object (PEP 683), nor one that becomes 0.
define private void @keep(ptr %header, ptr %object) alwaysinline {
entry:
  %references = load i32, ptr %object, align 8
  %less = sub i32 %references, 1
  %is_usual = icmp ult i32 %less, $most_references
  br i1 %is_usual, label %here, label %there
here:
  %more = add i32 %references, 1
  store i32 %more, ptr %object, align 8
  ret void
there:
  %function = field ptr, i64 %header, $keep
  call void %function(ptr %object)
  ret void
}
define private void @drop(ptr %header, ptr %object) alwaysinline {
entry:
  %references = load i32, ptr %object, align 8
  %least = sub i32 %references, 2
  %is_usual = icmp ult i32 %least, $most_references
  br i1 %is_usual, label %here, label %there
here:
  %fewer = sub i32 %references, 1
  store i32 %fewer, ptr %object, align 8
  ret void
there:
  %function = field ptr, i64 %header, $drop
  call void %function(ptr %object)
  ret void
}

; Drop the references to some objects.
define private void @drop_all(ptr %header, ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %one ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %done
one:
  %place = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %place, align 8
  call void @drop(ptr %header, ptr %object)
  %after = add i64 %k, 1
  br label %next
done:
  ret void
}

; The tensors of a call on arrays or tensors, as a tuple; None where it has not run.
define ptr @pirkit_program_tensors(ptr %self, ptr %given, i64 %count) {
entry:
  %p_header = getelementptr i8, ptr %self, i64 $at_data
  %header = load ptr, ptr %p_header, align 8
$loads
  %results = sub i64 %number, %inputs
  %tensors = getelementptr ptr, ptr %made, i64 %results
  %all_there = icmp eq i64 %count, %inputs
  br i1 %all_there, label %run, label %missed
run:
  %state = call i64 @results(ptr %header, ptr %given)
  switch i64 %state, label %raised [ i64 0, label %pack
                                     i64 1, label %missed ]
pack:
  %tuple = call ptr %new_tuple(i64 %results)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %full, label %copy
copy:
  %p_items = getelementptr i64, ptr %header, i64 $items
  %behind = load i64, ptr %p_items, align 8
  %first = getelementptr i8, ptr %tuple, i64 %behind
  %bytes = shl i64 %results, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %first, ptr align 8 %tensors, i64 %bytes, i1 false)
  ret ptr %tuple
full:
  call void %forget()
  call void @drop_all(ptr %header, ptr %tensors, i64 %results)
  br label %missed
missed:
  call void @keep(ptr %header, ptr %none)
  ret ptr %none
raised:
  ret ptr null
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def tensor_call_text(header: Mapping[str, int]) -> str:
    """The functions, as a part of a module that has `place`; a template as the rest of it."""
    return _TEXT.replace("$loads", loads(header, _WORDS, _POINTERS))


def loads(header: Mapping[str, int], words: Sequence[str], pointers: Sequence[str]) -> str:
    """The start of a function, which loads words of a header."""
    kinds = dict.fromkeys(words, "i64") | dict.fromkeys(pointers, "ptr")
    lines = [
        f"  %p_{name} = getelementptr i64, ptr %header, i64 {header[name]}\n"
        f"  %{name} = load {kind}, ptr %p_{name}, align 8"
        for name, kind in kinds.items()
    ]
    return "\n".join(lines)
