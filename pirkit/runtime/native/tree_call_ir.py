"""The call of a native program from trees of arguments to a tree of results, as native routines.

It is a C function of Python (`METH_FASTCALL | METH_KEYWORDS`). A list of steps says where each
object of a call is found, what it has to be and what becomes of it. If an object is not as it
should be, nothing runs, and the call goes to a function of Python, ``otherwise``.

Every object that a step finds is held until the call ends, as other threads may change the
containers while the program runs. A call that begins while another one runs goes to ``otherwise``,
too.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

from pirkit.runtime.native.routines import words
from pirkit.runtime.native.tree_reuse_ir import (
    REUSE_CONSTANTS,
    REUSE_POINTERS,
    REUSE_STRUCTS,
    TREE_REUSE,
)
from pirkit.runtime.native.tree_reuse_ir import WORDS as TREES


class Found(IntEnum):
    """The ways in which a step finds its object, by ``key``, an index or an object."""

    ARGUMENT = 0
    IN_TUPLE = 1
    IN_LIST = 2
    IN_DICT = 3
    CALLED = 4
    """The result of the function ``key``."""
    CONSTANT = 5
    """``key`` itself."""
    IN_CELL = 6
    ATTRIBUTE = 7
    APPLIED = 8
    """The result of the function ``key`` for the object of ``parent``."""
    PARENT = 9
    """The object of ``parent`` itself."""


class Use(IntEnum):
    """The uses of an object."""

    NOTHING = 0
    OPERAND = 1
    """It is the input ``target``: an array or a tensor."""
    FLOAT = 2
    """It is the content of the input ``target``, as for the next two."""
    INT = 3
    BOOL = 4
    SAME = 5
    """It has to be the object ``target``."""
    SCALAR = 6
    """The bytes of a scalar of numpy, of which ``size`` is minus the number, are the content."""
    RECALL = 7
    """If the memo ``target`` holds for it, the steps after it that the memo covers find what they
    found last; they and one more, whose use is `NOTE`, are skipped (see `step_memos`)."""
    NOTE = 8
    """The steps that the memo ``target`` covers have been taken."""
    CONTENT = 9
    """An array that has to be like the array ``target``, with the same bytes; native code has the
    words of `program_ir.WANTED` about it, and the bytes after them."""


class Step(NamedTuple):
    """One object of a call; native code has objects as their addresses."""

    found: Found
    key: Any
    parent: int = 0
    """The number of the step of its container."""
    type: type[Any] | None = None
    """Its class, where another one will not do."""
    size: int = -1
    """Its number of elements, where another one will not do."""
    use: Use = Use.NOTHING
    target: Any = 0


TYPE: Final = object.__basicsize__ - 8
"""Offset of the class in an object."""
SIZE: Final = object.__basicsize__
"""Offset of the number of elements in tuples, lists and dicts."""
FLOAT: Final = object.__basicsize__
"""Offset of the number in a float, in a complex number, and in scalars of numpy."""

WORDS: Final = (
    "steps", "taken", "positional", "named", "busy", "walk", "names", "objects", "given",
    "otherwise", "built", "true", "no_attribute", *TREES,
)  # fmt: skip
"""Words of the header for this function alone: ``walk`` are ``steps`` steps, whose objects go to
``objects``, ``taken`` of them up to now; ``names`` are the ``named`` names of arguments, which
follow ``positional`` ones; ``given`` has the arrays and tensors of a call, in the order of the
program; ``built`` makes the tree of the tensors, as a tuple of its containers if ``containers`` is
not 0 (`tree_reuse_ir`); ``true`` and ``no_attribute`` are objects."""

TREE_POINTERS: Final = (
    "walk", "names", "objects", "given", "otherwise", "built", "true", "no_attribute",
    *REUSE_POINTERS,
)  # fmt: skip
TREE_STRUCTS: Final = REUSE_STRUCTS | {
    "Step": words(Step._fields, {"key", "type", "target"}) | {"index": ("i64", 8)},
    "Memo": words(("state", "fixed", "count", "covered")),
    "Pair": words(("place", "word")) | {"address": ("ptr", 0)},
}  # fmt: skip
TREE_CONSTANTS: Final = REUSE_CONSTANTS | {f.name: f.value for f in (*Found, *Use)} | {
    "STEP_BYTES": 8 * len(Step._fields), "SIZE": SIZE, "NUMBER": FLOAT,
    "TAKING": 1, "TAKEN": 2, "MEMO_WORDS": 32,
}  # fmt: skip

TREE_CALL: Final = (
    TREE_REUSE
    + """
# Take the steps. Returns 0; 1 if something is not as it should be; 2 if an exception is set.
def take_steps(header: Header, args: ptr) -> i64:
    overflow = i32(0)
    k = 0
    while k < steps:
        step: Step = walk + k * STEP_BYTES
        object: Object = found(header, args, step)
        if object == None:
            return 1 if error() == None else 2
        ptr[objects, k] = object
        k += 1
        header.taken = k
        if step.type != None and object.type != step.type:
            return 1
        if step.size >= 0 and object.size != step.size:
            return 1
        use = step.use
        target = step.target
        if use == OPERAND:
            ptr[target] = object
        elif use == FLOAT:
            double[target] = double[object + NUMBER]
        elif use == INT:
            i64[target] = integer(object, address_of(overflow))
            if overflow != 0:
                return 1
        elif use == BOOL:
            i8[target] = i8(object == true)
        elif use == SAME:
            if object != target:
                return 1
        elif use == SCALAR:
            copy(target, object + NUMBER, 0 - step.size)
        elif use == RECALL:
            k = recall(header, target, object, k)
        elif use == NOTE:
            memo: Memo = target
            if memo.state == TAKING:
                memo.state = TAKEN
        elif use == CONTENT:
            if not has_content(header, object, target):
                return 1
    return 0

# The object of a step, with a reference; null where there is none, or an exception is set.
@inline
def found(header: Header, args: ptr, step: Step) -> ptr:
    holder = ptr[objects, step.parent]
    kind = step.found
    if kind == CALLED:
        return call(step.key)
    if kind == IN_CELL:
        return in_cell(holder)
    if kind == APPLIED:
        return vector(step.key, objects + 8 * step.parent, 1, None)
    if kind == ATTRIBUTE:
        member = attribute(holder, step.key)
        if member == None and matches(no_attribute) != 0:
            forget()
        return member
    borrowed: ptr = None
    if kind == ARGUMENT:
        borrowed = ptr[args, step.index]
    elif kind == IN_TUPLE:
        borrowed = ptr[holder + items, step.index]
    elif kind == IN_LIST:
        if step.index < i64[holder + SIZE]:  # a key's `__eq__` may have changed the list since
            borrowed = ptr[ptr[holder + ITEMS], step.index]
    elif kind == IN_DICT:
        borrowed = get(holder, step.key)
    elif kind == PARENT:
        borrowed = holder
    else:
        borrowed = step.key
    if borrowed != None:
        keep(header, borrowed)
    return borrowed

# Whether an array is like another one, with the same bytes, which are after the words about it.
@inline
def has_content(header: Header, object: Array, want: Wanted) -> i1:
    if not fits(object, array, want):
        return False
    return memcmp(object.data, want + WANTED_BYTES, want.bytes) == i32(0)

# The step after the ones that a memo covers, if it holds for an object; else the given one.
@inline
def recall(header: Header, memo: Memo, object: ptr, k: i64) -> i64:
    pairs = memo + MEMO_WORDS
    w = 0
    while w < memo.count:
        pair: Pair = pairs + 16 * w
        if word_at(pair, object) != pair.word:
            break
        w += 1
    if w < memo.count:
        if w < memo.fixed:
            memo.state = 0  # it is another object
            return k
        for r in range(w, memo.count):
            changed: Pair = pairs + 16 * r
            changed.word = word_at(changed, object)
    elif memo.state == TAKEN:
        last = k + memo.covered
        for s in range(k, last):
            keep(header, ptr[objects, s])
        ptr[objects, last] = object
        keep(header, object)
        header.taken = last + 1
        return last + 1
    memo.state = TAKING
    return k

# The word that a memo identifies by its address, or by its offset in an object.
@inline
def word_at(pair: Pair, object: ptr) -> i64:
    if below(pair.place + 4096, 8192):
        return i64[object + pair.place]
    return i64[pair.address]

# A call, in a session that no other one uses; the header, which is no object, where it misses.
def tree_call(header: Header, args: ptr, keywords: ptr) -> ptr:
    header.taken = 0
    for j in range(named):
        if ptr[keywords + items, j] != ptr[names, j]:
            return header
    tree = called_tree(header, args)
    drop_all(header, objects, header.taken)
    return tree

# The tree, which is null where an exception is set; the header where the call misses.
@inline
def called_tree(header: Header, args: ptr) -> ptr:
    state = take_steps(header, args)
    if state == 0:
        old: ptr = None
        if containers != 0:
            old = reuse(header)
            if old == None:
                put_tree(header, tree_turn, none)  # its tensors may serve again
        if old != None:
            state = run_made(header, given)
            if state == 0:
                keep(header, old)
                return old
        else:
            state = results(header, given)
            if state == 0:
                return built_tree(header)
    return header if state == 1 else None

@inline
def built_tree(header: Header) -> ptr:
    count = number - inputs
    tensors = made + 8 * count
    tree = vector(built, tensors, count, None)
    if tree != None and containers != 0:
        keep_tree(header, tree)
        root = ptr[tree + items]
        keep(header, root)
        drop(header, tree)
        tree = root
    drop_all(header, tensors, count)
    return tree

def pirkit_program_tree(self: ptr, args: ptr, count: i64, keywords: ptr) -> ptr:
    return tree_of(ptr[self + DATA], args, count, keywords)

@inline
def tree_of(header: Header, args: ptr, count: i64, keywords: ptr) -> ptr:
    names_given = 0 if keywords == None else i64[keywords + SIZE]
    if count == positional and names_given == named and busy == 0:
        header.busy = 1
        tree = tree_call(header, args, keywords)
        header.busy = 0
        if tree != header:
            return tree
    return vector(otherwise, args, count, keywords)
"""
)
