"""The call of a native program from Python objects to new tensors, as native routines.

It is a C function of Python (`METH_FASTCALL`): it makes the tensors of the results and runs the
program, which would take longer in Python than a small program does.

A program keeps the small results of its last calls. If nobody else holds a result, neither the
tensor nor its array, a later call returns it again: a loop that drops results after some iterations
allocates nothing. What anybody can still see is never written.

A run that pauses (`records_ir`) is continued by ``goes_on``, a function of Python.
"""

from __future__ import annotations

from typing import Final

from pirkit.runtime.native.routines import words

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
"""How many tensors of earlier calls are kept for each result: a training step takes one and gives
another, and the variable that gets it holds a third one until it is assigned."""

RECIPE: Final = ("maker", "dtype", "rank", "extents", "meta", "kept")
"""Words that tell how a result is made: by calling ``maker``, or as an array of numpy where that is
0; ``meta`` is the meta of its tensor, ``kept`` is 1 if a program keeps it."""

POINTERS: Final = (
    "wanted", "patches", "array", "tensor", "spans", "recipes", "made", "keeps", "none",
    "new_array", "goes_on", *PYTHON,
)  # fmt: skip
"""The words of the header that are addresses."""

PYTHON_RESULTS: Final = {
    "new_tensor": "ptr", "new_tuple": "ptr", "call": "ptr", "release": "ptr", "get": "ptr",
    "error": "ptr", "vector": "ptr", "integer": "i64", "in_cell": "ptr", "attribute": "ptr",
    "matches": "i32", "new_array": "ptr",
}  # fmt: skip
"""Types of what these functions return."""

TENSOR_STRUCTS: Final = {
    "Recipe": words(RECIPE, {"maker", "dtype", "extents", "meta"})
    | {"rank32": ("i32", 8 * RECIPE.index("rank"))}
}
TENSOR_CONSTANTS: Final = {
    "KEPT": KEPT, "RECIPE_BYTES": 8 * len(RECIPE), "MOST_REFERENCES": 1 << 30,
}  # fmt: skip

# References: `new_array` takes one of the dtype. `made` has the arrays, which their tensors own,
# and after them new references to the tensors, which the tuple takes at the end.
TENSOR_CALL: Final = """
# Make the results and run. Returns 0, and there are tensors; 1 if nothing has run; 2 if an
# exception is set.
def results(header: Header, given: ptr) -> i64:
    count = number - inputs
    tensors = made + 8 * count
    header.turn = turn + 1 if turn + 1 < KEPT else 0
    for k in range(count):
        recipe: Recipe = recipes + k * RECIPE_BYTES
        ring = ptr[keeps + ITEMS] + 8 * KEPT * k
        object = kept_tensor(header, recipe, ring, wanted + (inputs + k) * WANTED_BYTES)
        if object == None:
            object = made_tensor(header, recipe)
            if object == None:
                forget()
                drop_all(header, tensors, k)
                return 1
            if recipe.kept != 0:
                keep(header, object)
                replaced = ptr[ring, turn]
                ptr[ring, turn] = object
                drop(header, replaced)
        ptr[tensors, k] = object
        ptr[made, k] = ptr[object + slot]
    state = run_made(header, given)
    if state != 0:
        if state == 1:
            forget()
        drop_all(header, tensors, count)
    return state

# The tensor of an earlier call that nobody else sees, with a new reference; null if there is none.
@inline
def kept_tensor(header: Header, recipe: Recipe, ring: ptr, want: Wanted) -> ptr:
    for g in range(recipe.kept * KEPT):
        old = ptr[ring, g]
        if unseen(header, old, 1, want) != None:
            keep(header, old)
            return old
    return None

# A new tensor; null where an exception is set.
@inline
def made_tensor(header: Header, recipe: Recipe) -> ptr:
    data: ptr = None
    if recipe.maker == None:
        keep(header, recipe.dtype)
        data = new_array(array, recipe.dtype, recipe.rank32, recipe.extents, None, None, i32(0),
                         None)
    else:
        data = call(recipe.maker)
    if data == None:
        return None
    object = new_tensor(tensor, 0)
    if object == None:
        drop(header, data)
        return None
    keep(header, recipe.meta)
    ptr[object + slot] = data
    ptr[object + meta_slot] = recipe.meta
    return object

# Run on the arrays in `made`. Returns 0; 1 if nothing has run; 2 if an exception is set.
def run_made(header: Header, given: ptr) -> i64:
    if place(header, given, made) != 0:
        return 1
    state = 0
    if brief != 0:
        state = pirkit_program_run(header)
    else:
        thread = release()
        state = pirkit_program_run(header)
        take(thread)
    if state == PAUSED:
        went = call(goes_on)
        if went == None:
            return 2
        drop(header, went)
    return 0

# The array of a tensor of an earlier call that has so many references and is as wanted, if nobody
# sees either otherwise; else null.
@inline
def unseen(header: Header, old: Array, expected: i64, want: Wanted) -> ptr:
    if old.type != tensor or old.references != expected:
        return None
    if ptr[old + buffer_slot] != None or ptr[old + weak_slot] != None:
        return None
    data: Array = ptr[old + slot]
    if data == None:
        return None
    if data.references != 1 or data.weak != None or data.flags & WRITEABLE == 0:
        return None
    return data if fits(data, array, want) else None

# `Py_IncRef` and `Py_DecRef`, without a call where the count is of a usual size: neither that of an
# immortal object (PEP 683), nor one that becomes 0.
@inline
def keep(header: Header, object: ptr):
    if below(i32[object] - 1, MOST_REFERENCES):
        i32[object] = i32[object] + 1
    else:
        function = header.keep
        function(object)

@inline
def drop(header: Header, object: ptr):
    if below(i32[object] - 2, MOST_REFERENCES):
        i32[object] = i32[object] - 1
    else:
        function = header.drop
        function(object)

# Drop the references to some objects.
def drop_all(header: Header, objects: ptr, count: i64):
    for k in range(count):
        drop(header, ptr[objects, k])

# The tensors of a call on arrays or tensors, as a tuple; None where it has not run.
def pirkit_program_tensors(self: ptr, given: ptr, count: i64) -> ptr:
    return tensors_of(ptr[self + DATA], given, count)

@inline
def tensors_of(header: Header, given: ptr, count: i64) -> ptr:
    if count == inputs:
        size = number - inputs
        tensors = made + 8 * size
        state = results(header, given)
        if state == 2:
            return None
        if state == 0:
            tuple = new_tuple(size)
            if tuple != None:
                copy(tuple + items, tensors, 8 * size)
                return tuple
            forget()
            drop_all(header, tensors, size)
    keep(header, none)
    return none
"""
