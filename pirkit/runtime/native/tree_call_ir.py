"""The call of a native program from trees of arguments to a tree of results, as LLVM IR.

It is a C function of Python (`METH_FASTCALL | METH_KEYWORDS`). A list of steps says where each
object of a call is found, what it has to be and what becomes of it; where one is not as it should
be nothing runs, and the call is that of a function of Python, ``otherwise``.

Every object that a step finds is held until the call ends, as other threads may change the
containers while the program runs. A call that begins while another one runs goes the other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pirkit.runtime.native.tensor_call_ir import loads
from pirkit.runtime.native.tree_reuse_ir import WORDS as TREES
from pirkit.runtime.native.tree_reuse_ir import tree_reuse_text


class Found(IntEnum):
    """Where a step finds its object: at ``key``, an index or an object."""

    ARGUMENT = 0
    IN_TUPLE = 1
    IN_LIST = 2
    IN_DICT = 3
    CALLED = 4
    """What the function ``key`` returns."""
    CONSTANT = 5
    """``key`` itself."""
    IN_CELL = 6
    ATTRIBUTE = 7
    APPLIED = 8
    """What the function ``key`` returns for the object of ``parent``."""
    PARENT = 9
    """The object of ``parent`` itself."""


class Use(IntEnum):
    """What becomes of the object."""

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
    """If the memo ``target`` holds for it, the steps behind it that the memo covers find what they
    found last; they and one more, whose use is `NOTE`, are skipped (see `step_memos`)."""
    NOTE = 8
    """The steps that the memo ``target`` covers have been taken."""
    CONTENT = 9
    """An array that has to be like the array ``target``, with the same bytes; native code has the
    words of `program_ir.WANTED` about it, and the bytes behind them."""


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

_WORDS: Final = (
    "steps", "taken", "positional", "named", "items", "inputs", "number", "busy", "containers",
)  # fmt: skip
_POINTERS: Final = (
    "walk", "names", "objects", "given", "made", "otherwise", "built", "true", "keep", "drop",
    "get", "error", "call", "vector", "integer", "in_cell", "attribute", "matches", "forget",
    "no_attribute", "array",
)  # fmt: skip
WORDS: Final = (
    "steps", "taken", "positional", "named", "busy", "walk", "names", "objects", "given",
    "otherwise", "built", "true", "no_attribute", *TREES,
)  # fmt: skip
"""Words of the header for this function alone: ``walk`` are ``steps`` steps, whose objects go to
``objects``, ``taken`` of them up to now; ``names`` are the ``named`` names of arguments, which
follow ``positional`` ones; ``given`` has the arrays and tensors of a call, in the order of the
program; ``built`` makes the tree of the tensors, as a tuple of its containers if ``containers`` is
not 0 (`tree_reuse_ir`); ``true`` and ``no_attribute`` are objects."""

_TEXT: Final = """
; The word that a memo tells by its address, or by its offset in an object.
define private i64 @word_at(ptr %place, ptr %object) alwaysinline {
entry:
  %at = load i64, ptr %place, align 8
  %from_first = add i64 %at, 4096
  %is_offset = icmp ult i64 %from_first, 8192
  %base = select i1 %is_offset, ptr %object, ptr null
  %there = getelementptr i8, ptr %base, i64 %at
  %word = load i64, ptr %there, align 8
  ret i64 %word
}

; Take the steps. Returns 0; 1 if something is not as it should be; 2 if an exception is set.
define private i64 @walk(ptr %header, ptr %args) {
entry:
  %overflow = alloca i32, align 4
$loads
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %used ], [ %behind, %recalled ]
  store i64 %k, ptr %p_taken, align 8
  %more = icmp slt i64 %k, %steps
  br i1 %more, label %step, label %done
step:
  %k1 = add i64 %k, 1
  %at = mul i64 %k, $step_bytes
  %p_found = getelementptr i8, ptr %walk, i64 %at
  %p_key = getelementptr i64, ptr %p_found, i64 1
  %p_parent = getelementptr i64, ptr %p_found, i64 2
  %p_type = getelementptr i64, ptr %p_found, i64 3
  %p_size = getelementptr i64, ptr %p_found, i64 4
  %p_use = getelementptr i64, ptr %p_found, i64 5
  %p_target = getelementptr i64, ptr %p_found, i64 6
  %found = load i64, ptr %p_found, align 8
  %parent_step = load i64, ptr %p_parent, align 8
  %index = load i64, ptr %p_key, align 8
  %key = load ptr, ptr %p_key, align 8
  %type = load ptr, ptr %p_type, align 8
  %size = load i64, ptr %p_size, align 8
  %use = load i64, ptr %p_use, align 8
  %target = load ptr, ptr %p_target, align 8
  %p_holder = getelementptr ptr, ptr %objects, i64 %parent_step
  %p_object = getelementptr ptr, ptr %objects, i64 %k
  switch i64 %found, label %called [ i64 0, label %argument
                                     i64 1, label %in_tuple
                                     i64 2, label %in_list
                                     i64 3, label %in_dict
                                     i64 5, label %constant
                                     i64 6, label %cell
                                     i64 7, label %member
                                     i64 8, label %applied
                                     i64 9, label %itself ]
itself:
  %holder = load ptr, ptr %p_holder, align 8
  br label %borrowed
applied:
  %an_image = call ptr %vector(ptr %key, ptr %p_holder, i64 1, ptr null)
  %no_image = icmp eq ptr %an_image, null
  br i1 %no_image, label %failed, label %held
constant:
  br label %borrowed
cell:
  %a_cell = load ptr, ptr %p_holder, align 8
  %a_content = call ptr %in_cell(ptr %a_cell)
  %no_content = icmp eq ptr %a_content, null
  br i1 %no_content, label %absent, label %held
member:
  %owner = load ptr, ptr %p_holder, align 8
  %a_member = call ptr %attribute(ptr %owner, ptr %key)
  %no_member = icmp eq ptr %a_member, null
  br i1 %no_member, label %lost, label %held
lost:
  %is_lost = call i32 %matches(ptr %no_attribute)
  %is_other = icmp eq i32 %is_lost, 0
  br i1 %is_other, label %failed, label %gone
gone:
  call void %forget()
  br label %no
argument:
  %p_argument = getelementptr ptr, ptr %args, i64 %index
  %an_argument = load ptr, ptr %p_argument, align 8
  br label %borrowed
in_tuple:
  %tuple = load ptr, ptr %p_holder, align 8
  %p_first = getelementptr i8, ptr %tuple, i64 %items
  %p_item = getelementptr ptr, ptr %p_first, i64 %index
  %an_item = load ptr, ptr %p_item, align 8
  br label %borrowed
in_list:
  %list = load ptr, ptr %p_holder, align 8
  %p_length = getelementptr i8, ptr %list, i64 $at_size
  %length = load i64, ptr %p_length, align 8
  %is_inside = icmp slt i64 %index, %length  ; a key's `__eq__` may have changed the list since
  br i1 %is_inside, label %element, label %no
element:
  %p_elements = getelementptr i8, ptr %list, i64 $at_items
  %elements = load ptr, ptr %p_elements, align 8
  %p_element = getelementptr ptr, ptr %elements, i64 %index
  %an_element = load ptr, ptr %p_element, align 8
  br label %borrowed
in_dict:
  %dict = load ptr, ptr %p_holder, align 8
  %a_value = call ptr %get(ptr %dict, ptr %key)
  %no_value = icmp eq ptr %a_value, null
  br i1 %no_value, label %absent, label %borrowed
absent:
  %raised = call ptr %error()
  %is_missing = icmp eq ptr %raised, null
  br i1 %is_missing, label %no, label %failed
called:
  %a_result = call ptr %call(ptr %key)
  %no_result = icmp eq ptr %a_result, null
  br i1 %no_result, label %failed, label %held
borrowed:
  %old = phi ptr [ %an_argument, %argument ], [ %an_item, %in_tuple ],
                 [ %an_element, %element ], [ %a_value, %in_dict ], [ %key, %constant ],
                 [ %holder, %itself ]
  call void @keep(ptr %header, ptr %old)
  br label %held
held:
  %object = phi ptr [ %a_result, %called ], [ %old, %borrowed ], [ %a_content, %cell ],
                   [ %a_member, %member ], [ %an_image, %applied ]
  store ptr %object, ptr %p_object, align 8
  store i64 %k1, ptr %p_taken, align 8
  %any_type = icmp eq ptr %type, null
  %p_own_type = getelementptr i8, ptr %object, i64 $at_type
  %own_type = load ptr, ptr %p_own_type, align 8
  %same_type = icmp eq ptr %own_type, %type
  %right_type = or i1 %any_type, %same_type
  br i1 %right_type, label %typed, label %no
typed:
  %any_size = icmp slt i64 %size, 0
  br i1 %any_size, label %sized, label %measure
measure:
  %p_own_size = getelementptr i8, ptr %object, i64 $at_size
  %own_size = load i64, ptr %p_own_size, align 8
  %same_size = icmp eq i64 %own_size, %size
  br i1 %same_size, label %sized, label %no
sized:
  switch i64 %use, label %used [ i64 1, label %operand
                                 i64 2, label %float
                                 i64 3, label %int
                                 i64 4, label %bool
                                 i64 5, label %same
                                 i64 6, label %scalar
                                 i64 7, label %recall
                                 i64 8, label %note
                                 i64 9, label %content ]
content:
  %is_alike = call i1 @fits(ptr %object, ptr %array, ptr %target)
  br i1 %is_alike, label %bytes, label %no
bytes:
  %data = field ptr, i8 %object, $at_data
  %copy = getelementptr i8, ptr %target, i64 $wanted_bytes
  %count = field i64, i64 %target, $bytes
  %whole_words = and i64 %count, -8
  br label %eight
eight:
  %e = phi i64 [ 0, %bytes ], [ %e8, %compare_eight ]
  %more_eights = icmp slt i64 %e, %whole_words
  br i1 %more_eights, label %compare_eight, label %byte
compare_eight:
  %e8 = add i64 %e, 8
  %p_new_eight = getelementptr i8, ptr %data, i64 %e
  %p_old_eight = getelementptr i8, ptr %copy, i64 %e
  %new_eight = load i64, ptr %p_new_eight, align 1
  %old_eight = load i64, ptr %p_old_eight, align 1
  %same_eight = icmp eq i64 %new_eight, %old_eight
  br i1 %same_eight, label %eight, label %no
byte:
  %b = phi i64 [ %e, %eight ], [ %b1, %compare_byte ]
  %more_bytes = icmp slt i64 %b, %count
  br i1 %more_bytes, label %compare_byte, label %used
compare_byte:
  %b1 = add i64 %b, 1
  %new_byte = field i8, i8 %data, %b
  %old_byte = field i8, i8 %copy, %b
  %same_byte = icmp eq i8 %new_byte, %old_byte
  br i1 %same_byte, label %byte, label %no
recall:  ; the memo: its state (1 while its steps are taken, 2 if they were), and pairs of words
  %state = load i64, ptr %target, align 8
  %fixed = field i64, i64 %target, 1
  %words = field i64, i64 %target, 2
  %covered = field i64, i64 %target, 3
  %pairs = getelementptr i64, ptr %target, i64 4
  br label %word
word:
  %w = phi i64 [ 0, %recall ], [ %w1, %watch ]
  %more_words = icmp slt i64 %w, %words
  br i1 %more_words, label %watch, label %unchanged
watch:
  %w1 = add i64 %w, 1
  %p_pair = getelementptr [2 x i64], ptr %pairs, i64 %w
  %then = field i64, i64 %p_pair, 1
  %now = call i64 @word_at(ptr %p_pair, ptr %object)
  %is_same_word = icmp eq i64 %now, %then
  br i1 %is_same_word, label %word, label %changed
changed:
  %is_other_object = icmp slt i64 %w, %fixed
  br i1 %is_other_object, label %unknown, label %renew
unknown:
  store i64 0, ptr %target, align 8
  br label %used
renew:
  %r = phi i64 [ %w, %changed ], [ %r1, %renew ]
  %r1 = add i64 %r, 1
  %p_renewed = getelementptr [2 x i64], ptr %pairs, i64 %r
  %new_word = call i64 @word_at(ptr %p_renewed, ptr %object)
  %p_new_word = getelementptr i64, ptr %p_renewed, i64 1
  store i64 %new_word, ptr %p_new_word, align 8
  %more_renewed = icmp slt i64 %r1, %words
  br i1 %more_renewed, label %renew, label %begin
unchanged:
  %is_valid = icmp eq i64 %state, 2
  br i1 %is_valid, label %again, label %begin
begin:
  store i64 1, ptr %target, align 8
  br label %used
again:
  %last = add i64 %k1, %covered
  br label %old_step
old_step:
  %s = phi i64 [ %k1, %again ], [ %s1, %keep_old ]
  %more_old = icmp slt i64 %s, %last
  br i1 %more_old, label %keep_old, label %recalled
keep_old:
  %s1 = add i64 %s, 1
  %old_object = field ptr, ptr %objects, %s
  call void @keep(ptr %header, ptr %old_object)
  br label %old_step
recalled:
  %p_noted = getelementptr ptr, ptr %objects, i64 %last
  store ptr %object, ptr %p_noted, align 8
  call void @keep(ptr %header, ptr %object)
  %behind = add i64 %last, 1
  store i64 %behind, ptr %p_taken, align 8
  br label %next
note:
  %noted = load i64, ptr %target, align 8
  %is_begun = icmp eq i64 %noted, 1
  br i1 %is_begun, label %end_note, label %used
end_note:
  store i64 2, ptr %target, align 8
  br label %used
scalar:
  %p_scalar = getelementptr i8, ptr %object, i64 $at_float
  %scalar_bytes = sub i64 0, %size
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %p_scalar, i64 %scalar_bytes, i1 false)
  br label %used
operand:
  store ptr %object, ptr %target, align 8
  br label %used
float:
  %p_float = getelementptr i8, ptr %object, i64 $at_float
  %real = load double, ptr %p_float, align 8
  store double %real, ptr %target, align 8
  br label %used
int:
  %whole = call i64 %integer(ptr %object, ptr %overflow)
  %too_large = load i32, ptr %overflow, align 4
  store i64 %whole, ptr %target, align 8
  %fits = icmp eq i32 %too_large, 0
  br i1 %fits, label %used, label %no
bool:
  %is_true = icmp eq ptr %object, %true
  %truth = zext i1 %is_true to i8
  store i8 %truth, ptr %target, align 1
  br label %used
same:
  %is_same = icmp eq ptr %object, %target
  br i1 %is_same, label %used, label %no
used:
  br label %next
done:
  ret i64 0
no:
  ret i64 1
failed:
  ret i64 2
}

; A call, in a session that no other one uses; the header, which is no object, where it misses.
define private ptr @tree_call(ptr %header, ptr %args, ptr %keywords) {
entry:
$loads
  store i64 0, ptr %p_taken, align 8
  %without = icmp eq i64 %named, 0
  br i1 %without, label %find, label %name
name:
  %p_first_name = getelementptr i8, ptr %keywords, i64 %items
  br label %each
each:
  %j = phi i64 [ 0, %name ], [ %j1, %one ]
  %more = icmp slt i64 %j, %named
  br i1 %more, label %one, label %find
one:
  %p_name = getelementptr ptr, ptr %p_first_name, i64 %j
  %p_wanted = getelementptr ptr, ptr %names, i64 %j
  %a_name = load ptr, ptr %p_name, align 8
  %wanted = load ptr, ptr %p_wanted, align 8
  %j1 = add i64 %j, 1
  %same = icmp eq ptr %a_name, %wanted
  br i1 %same, label %each, label %miss
find:
  %walked = call i64 @walk(ptr %header, ptr %args)
  switch i64 %walked, label %end [ i64 0, label %run
                                   i64 1, label %miss ]
run:
  %keeps_trees = icmp ne i64 %containers, 0
  br i1 %keeps_trees, label %again, label %make
again:
  %old = call ptr @reuse(ptr %header)
  %is_new = icmp eq ptr %old, null
  br i1 %is_new, label %room, label %rerun
rerun:
  %reran = call i64 @run_made(ptr %header, ptr %given)
  switch i64 %reran, label %end [ i64 0, label %reused
                                  i64 1, label %miss ]
reused:
  call void @keep(ptr %header, ptr %old)
  br label %end
room:
  call void @make_room(ptr %header)
  br label %make
make:
  %ran = call i64 @results(ptr %header, ptr %given)
  switch i64 %ran, label %end [ i64 0, label %build
                                i64 1, label %miss ]
build:
  %results = sub i64 %number, %inputs
  %tensors = getelementptr ptr, ptr %made, i64 %results
  %tree = call ptr %vector(ptr %built, ptr %tensors, i64 %results, ptr null)
  %no_tree = icmp eq ptr %tree, null
  %is_plain = icmp eq i64 %containers, 0
  %is_all = or i1 %no_tree, %is_plain
  br i1 %is_all, label %tell, label %hold
hold:
  call void @keep_tree(ptr %header, ptr %tree)
  %p_root = getelementptr i8, ptr %tree, i64 %items
  %root = load ptr, ptr %p_root, align 8
  call void @keep(ptr %header, ptr %root)
  call void @drop(ptr %header, ptr %tree)
  br label %tell
tell:
  %told = phi ptr [ %tree, %build ], [ %root, %hold ]
  call void @drop_all(ptr %header, ptr %tensors, i64 %results)
  br label %end
miss:
  br label %end
end:
  %result = phi ptr [ null, %find ], [ null, %make ], [ null, %rerun ], [ %told, %tell ],
                    [ %old, %reused ], [ %header, %miss ]
  %count = load i64, ptr %p_taken, align 8
  call void @drop_all(ptr %header, ptr %objects, i64 %count)
  ret ptr %result
}

define ptr @pirkit_program_tree(ptr %self, ptr %args, i64 %count, ptr %keywords) {
entry:
  %p_header = getelementptr i8, ptr %self, i64 $at_data
  %header = load ptr, ptr %p_header, align 8
$loads
  %no_names = icmp eq ptr %keywords, null
  br i1 %no_names, label %counted, label %count_names
count_names:
  %p_count = getelementptr i8, ptr %keywords, i64 $at_size
  %some = load i64, ptr %p_count, align 8
  br label %counted
counted:
  %given_names = phi i64 [ 0, %entry ], [ %some, %count_names ]
  %as_many = icmp eq i64 %count, %positional
  %as_many_names = icmp eq i64 %given_names, %named
  %idle = icmp eq i64 %busy, 0
  %right = and i1 %as_many, %as_many_names
  %can = and i1 %right, %idle
  br i1 %can, label %go, label %miss
go:
  store i64 1, ptr %p_busy, align 8
  %tree = call ptr @tree_call(ptr %header, ptr %args, ptr %keywords)
  store i64 0, ptr %p_busy, align 8
  %missed = icmp eq ptr %tree, %header
  br i1 %missed, label %miss, label %end
end:
  ret ptr %tree
miss:
  %other = call ptr %vector(ptr %otherwise, ptr %args, i64 %count, ptr %keywords)
  ret ptr %other
}
"""


def tree_call_text(header: Mapping[str, int]) -> str:
    """The functions, as a part of a module that has `results`; a template as the rest of it."""
    words = {"step_bytes": 8 * len(Step._fields), "at_size": SIZE, "at_float": FLOAT}
    text = _TEXT.replace("$loads", loads(header, _WORDS, _POINTERS)) + tree_reuse_text(header)
    for name, word in words.items():
        text = text.replace(f"${name}", str(word))
    return text
