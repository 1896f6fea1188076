"""Reuses trees of results of earlier calls that nobody else holds.

To build a tree of dicts and lists takes longer than a small program runs. So a compiled function
keeps the trees of its last calls. A later call returns one of them again if nobody else holds its
containers and tensors, and if the containers are what they were when the call returned: a container
has one reference, a dict has the same version (PEP 509), lists and tuples the same elements. A tree
that its receiver has changed is dropped at the next call.
"""

from __future__ import annotations

from typing import Final

from pirkit.runtime.native.routines import words

VERSION: Final = object.__basicsize__ + 8
"""Offset of the version in a dict, after the number of its elements."""

NODE: Final = ("type", "kind", "size", "at")
"""Words about a container, parents first: its class, the kind, the number of its elements, and
where in a slot it is told what it was."""
KINDS: Final = {tuple: 0, list: 1, dict: 2}

WORDS: Final = ("trees", "slots", "nodes", "containers", "slot_words", "uses", "tree_turn")
"""Words of the header: ``trees`` is the list of kept trees, ``tree_turn`` the next to be replaced.
``slots`` has ``slot_words`` words for each: the ``containers`` containers, the tensors, and what
the containers were. ``nodes`` describes the containers, ``uses`` how often a tree has each tensor.
"""

REUSE_POINTERS: Final = ("trees", "slots", "nodes", "uses")
REUSE_STRUCTS: Final = {
    "Node": words(NODE, {"type"}),
    "Object": {
        "references": ("i64", 0), "type": ("ptr", object.__basicsize__ - 8),
        "size": ("i64", object.__basicsize__),
    },
}  # fmt: skip
REUSE_CONSTANTS: Final = {
    "NODE_BYTES": 8 * len(NODE), "VERSION": VERSION, "TUPLE": KINDS[tuple], "LIST": KINDS[list],
    "SAME_TREE": 0, "SEEN_TREE": 1, "CHANGED_TREE": 2,
}  # fmt: skip

TREE_REUSE: Final = """
# A kept tree that nobody else sees, borrowed; its tensors and their arrays are in `made`.
def reuse(header: Header) -> ptr:
    for s in range(KEPT):
        root = ptr[ptr[trees + ITEMS], s]
        held = slots + 8 * s * slot_words
        if root == ptr[held]:
            state = state_of(header, held)
            if state == CHANGED_TREE:
                put_tree(header, s, none)
            elif state == SAME_TREE and are_free(header, held):
                return root
    return None

# Whether the containers of a tree are what they were, and nobody else holds one. A container is
# looked at after its parents: it is certainly alive where they are what they were.
@inline
def state_of(header: Header, held: ptr) -> i64:
    for c in range(containers):
        object: Object = ptr[held, c]
        if object.references != 1:
            return SEEN_TREE
        node: Node = nodes + c * NODE_BYTES
        was = held + 8 * node.at
        if object.type != node.type or object.size != node.size:
            return CHANGED_TREE
        if node.kind == TUPLE or node.kind == LIST:
            elements = object + items if node.kind == TUPLE else ptr[object + ITEMS]
            for i in range(node.size):
                if ptr[elements, i] != ptr[was, i]:
                    return CHANGED_TREE
        elif i64[object + VERSION] != i64[was]:
            return CHANGED_TREE
    return SAME_TREE

# Whether nobody else sees the tensors of a tree, which go to `made` with their arrays.
@inline
def are_free(header: Header, held: ptr) -> i1:
    count = number - inputs
    for k in range(count):
        old = ptr[held, containers + k]
        holders = i64[uses, k]
        for g in range(KEPT):
            if ptr[ptr[keeps + ITEMS], KEPT * k + g] == old:
                holders += 1
        data = unseen(header, old, holders, wanted + (inputs + k) * WANTED_BYTES)
        if data == None:
            return False
        ptr[made, k] = data
        ptr[made, count + k] = old
    return True

# Keep an object as one of the trees.
def put_tree(header: Header, s: i64, object: ptr):
    roots = ptr[trees + ITEMS]
    old = ptr[roots, s]
    keep(header, object)
    ptr[roots, s] = object
    drop(header, old)

# Keep the tree whose containers are in a tuple, parents first.
def keep_tree(header: Header, tuple: ptr):
    count = number - inputs
    header.tree_turn = tree_turn + 1 if tree_turn + 1 < KEPT else 0
    held = slots + 8 * tree_turn * slot_words
    listed = tuple + items
    put_tree(header, tree_turn, ptr[listed])
    for c in range(containers):
        object: Object = ptr[listed, c]
        ptr[held, c] = object
        node: Node = nodes + c * NODE_BYTES
        was = held + 8 * node.at
        if node.kind == TUPLE:
            copy(was, object + items, 8 * node.size)
        elif node.kind == LIST:
            copy(was, ptr[object + ITEMS], 8 * node.size)
        else:
            i64[was] = i64[object + VERSION]
    copy(held + 8 * containers, made + 8 * count, 8 * count)
"""
