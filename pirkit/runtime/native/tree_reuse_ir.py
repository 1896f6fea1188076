"""Trees of results of earlier calls that nobody else sees, as results again, in LLVM IR.

To build a tree of dicts and lists takes longer than a small program runs. So a compiled function
keeps the trees of its last calls. One whose containers and tensors nobody else holds is the result
of a later call: a container has one reference, and is what it was when the call returned. A dict
tells that by its version (PEP 509), lists and tuples by their elements. A tree that its receiver
has changed is dropped at the next call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pirkit.runtime.native.tensor_call_ir import loads

VERSION: Final = object.__basicsize__ + 8
"""Offset of the version in a dict, behind the number of its elements."""

NODE: Final = ("type", "kind", "size", "at")
"""Words about a container, parents first: its class, the kind, the number of its elements, and
where in a slot it is told what it was."""
KINDS: Final = {tuple: 0, list: 1, dict: 2}

WORDS: Final = ("trees", "slots", "nodes", "containers", "slot_words", "uses", "tree_turn")
"""Words of the header: ``trees`` is the list of kept trees, ``tree_turn`` the next to be replaced.
``slots`` has ``slot_words`` words for each: the ``containers`` containers, the tensors, and what
the containers were. ``nodes`` describes the containers, ``uses`` how often a tree has each tensor.
"""

_WORDS: Final = ("inputs", "number", "items", "containers", "slot_words", "tree_turn")
_POINTERS: Final = (
    "made", "keeps", "wanted", "none", "keep", "drop", "trees", "slots", "nodes", "uses",
)  # fmt: skip

_TEXT: Final = """
; A kept tree that nobody else sees, borrowed; its tensors and their arrays are in `made`.
define private ptr @reuse(ptr %header) {
entry:
$loads
  %results = sub i64 %number, %inputs
  %tensors = getelementptr ptr, ptr %made, i64 %results
  %roots = field ptr, i8 %trees, $at_items
  %kept = field ptr, i8 %keeps, $at_items
  br label %next
next:
  %s = phi i64 [ 0, %entry ], [ %s1, %other ]
  %more = icmp slt i64 %s, $KEPT
  br i1 %more, label %look, label %nothing
look:
  %s1 = add i64 %s, 1
  %slot_at = mul i64 %s, %slot_words
  %slot = getelementptr i64, ptr %slots, i64 %slot_at
  %root = field ptr, ptr %roots, %s
  %known = load ptr, ptr %slot, align 8
  %is_there = icmp eq ptr %root, %known
  br i1 %is_there, label %container, label %other
container:
  %c = phi i64 [ 0, %look ], [ %c1, %same ]
  %more_containers = icmp slt i64 %c, %containers
  br i1 %more_containers, label %check, label %leaf
check:
  %c1 = add i64 %c, 1
  %object = field ptr, ptr %slot, %c
  %references = load i64, ptr %object, align 8
  %is_alone = icmp eq i64 %references, 1
  br i1 %is_alone, label %describe, label %other
describe:
  %node_at = mul i64 %c, $node_words
  %node = getelementptr i64, ptr %nodes, i64 %node_at
  %type = load ptr, ptr %node, align 8
  %kind = field i64, i64 %node, 1
  %size = field i64, i64 %node, 2
  %was_at = field i64, i64 %node, 3
  %was = getelementptr i64, ptr %slot, i64 %was_at
  %its_type = field ptr, i8 %object, $at_type
  %its_size = field i64, i8 %object, $at_size
  %same_type = icmp eq ptr %its_type, %type
  %same_size = icmp eq i64 %its_size, %size
  %alike = and i1 %same_type, %same_size
  br i1 %alike, label %content, label %changed
content:
  switch i64 %kind, label %a_dict [ i64 0, label %a_tuple
                                    i64 1, label %a_list ]
a_dict:
  %version = field i64, i8 %object, $at_version
  %old_version = load i64, ptr %was, align 8
  %same_version = icmp eq i64 %version, %old_version
  br i1 %same_version, label %same, label %changed
a_tuple:
  %inside = getelementptr i8, ptr %object, i64 %items
  br label %elements
a_list:
  %outside = field ptr, i8 %object, $at_items
  br label %elements
elements:
  %first = phi ptr [ %inside, %a_tuple ], [ %outside, %a_list ]
  br label %element
element:
  %i = phi i64 [ 0, %elements ], [ %i1, %compare ]
  %more_elements = icmp slt i64 %i, %size
  br i1 %more_elements, label %compare, label %same
compare:
  %i1 = add i64 %i, 1
  %new_element = field ptr, ptr %first, %i
  %old_element = field ptr, ptr %was, %i
  %same_element = icmp eq ptr %new_element, %old_element
  br i1 %same_element, label %element, label %changed
same:
  br label %container

leaf:
  %k = phi i64 [ 0, %container ], [ %k1, %free ]
  %more_leaves = icmp slt i64 %k, %results
  br i1 %more_leaves, label %count, label %found
count:
  %k1 = add i64 %k, 1
  %tensor_index = add i64 %containers, %k
  %tensor = field ptr, ptr %slot, %tensor_index
  %uses_k = field i64, ptr %uses, %k
  %ring_at = mul i64 %k, $KEPT
  %ring = getelementptr ptr, ptr %kept, i64 %ring_at
  br label %turn
turn:
  %g = phi i64 [ 0, %count ], [ %g1, %counted ]
  %holders = phi i64 [ %uses_k, %count ], [ %holders1, %counted ]
  %more_turns = icmp slt i64 %g, $KEPT
  br i1 %more_turns, label %counted, label %try
counted:
  %g1 = add i64 %g, 1
  %held = field ptr, ptr %ring, %g
  %is_held = icmp eq ptr %held, %tensor
  %holds = zext i1 %is_held to i64
  %holders1 = add i64 %holders, %holds
  br label %turn
try:
  %index = add i64 %inputs, %k
  %want_at = mul i64 %index, $wanted_bytes
  %want = getelementptr i8, ptr %wanted, i64 %want_at
  %array = call ptr @unseen(ptr %header, ptr %tensor, i64 %holders, ptr %want)
  %is_free = icmp ne ptr %array, null
  br i1 %is_free, label %free, label %other
free:
  %to_array = getelementptr ptr, ptr %made, i64 %k
  %to_tensor = getelementptr ptr, ptr %tensors, i64 %k
  store ptr %array, ptr %to_array, align 8
  store ptr %tensor, ptr %to_tensor, align 8
  br label %leaf
found:
  ret ptr %root
changed:
  call void @put_tree(ptr %header, i64 %s, ptr %none)
  br label %other
other:
  br label %next
nothing:
  ret ptr null
}

; Keep an object as one of the trees.
define private void @put_tree(ptr %header, i64 %s, ptr %object) {
entry:
$loads
  %roots = field ptr, i8 %trees, $at_items
  %to_root = getelementptr ptr, ptr %roots, i64 %s
  %old = load ptr, ptr %to_root, align 8
  call void @keep(ptr %header, ptr %object)
  store ptr %object, ptr %to_root, align 8
  call void @drop(ptr %header, ptr %old)
  ret void
}

; Drop the tree that is to be replaced, whose tensors may serve again.
define private void @make_room(ptr %header) {
entry:
$loads
  call void @put_tree(ptr %header, i64 %tree_turn, ptr %none)
  ret void
}

; Keep the tree whose containers are in a tuple, parents first.
define private void @keep_tree(ptr %header, ptr %tuple) {
entry:
$loads
  %results = sub i64 %number, %inputs
  %tensors = getelementptr ptr, ptr %made, i64 %results
  %turned = add i64 %tree_turn, 1
  %wraps = icmp sge i64 %turned, $KEPT
  %next_turn = select i1 %wraps, i64 0, i64 %turned
  store i64 %next_turn, ptr %p_tree_turn, align 8
  %slot_at = mul i64 %tree_turn, %slot_words
  %slot = getelementptr i64, ptr %slots, i64 %slot_at
  %listed = getelementptr i8, ptr %tuple, i64 %items
  %root = load ptr, ptr %listed, align 8
  call void @put_tree(ptr %header, i64 %tree_turn, ptr %root)
  br label %container
container:
  %c = phi i64 [ 0, %entry ], [ %c1, %done ]
  %more = icmp slt i64 %c, %containers
  br i1 %more, label %note, label %leaves
note:
  %c1 = add i64 %c, 1
  %object = field ptr, ptr %listed, %c
  %to_object = getelementptr ptr, ptr %slot, i64 %c
  store ptr %object, ptr %to_object, align 8
  %node_at = mul i64 %c, $node_words
  %node = getelementptr i64, ptr %nodes, i64 %node_at
  %kind = field i64, i64 %node, 1
  %size = field i64, i64 %node, 2
  %was_at = field i64, i64 %node, 3
  %was = getelementptr i64, ptr %slot, i64 %was_at
  switch i64 %kind, label %a_dict [ i64 0, label %a_tuple
                                    i64 1, label %a_list ]
a_dict:
  %version = getelementptr i8, ptr %object, i64 $at_version
  br label %copy
a_tuple:
  %inside = getelementptr i8, ptr %object, i64 %items
  br label %copy
a_list:
  %outside = field ptr, i8 %object, $at_items
  br label %copy
copy:
  %from = phi ptr [ %version, %a_dict ], [ %inside, %a_tuple ], [ %outside, %a_list ]
  %count = phi i64 [ 1, %a_dict ], [ %size, %a_tuple ], [ %size, %a_list ]
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %was, ptr align 8 %from, i64 %bytes, i1 false)
  br label %done
done:
  br label %container
leaves:
  %to_tensors = getelementptr ptr, ptr %slot, i64 %containers
  %tensor_bytes = shl i64 %results, 3
  call void @llvm.memcpy.p0.p0.i64(
      ptr align 8 %to_tensors, ptr align 8 %tensors, i64 %tensor_bytes, i1 false)
  ret void
}
"""


def tree_reuse_text(header: Mapping[str, int]) -> str:
    """The functions, as a part of a module that has `unseen`; a template as the rest of it."""
    text = _TEXT.replace("$loads", loads(header, _WORDS, _POINTERS))
    for name, word in {"node_words": len(NODE), "at_version": VERSION}.items():
        text = text.replace(f"${name}", str(word))
    return text
