"""Calls of native programs from trees to trees, as C functions of Python (see `tree_call_ir`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program_data import expected_metas
from pirkit.runtime.native.program_ir import HEADER
from pirkit.runtime.native.program_session import Session
from pirkit.runtime.native.run_functions import tree_method
from pirkit.runtime.native.step_memos import Memo, versions_are_known, with_memos
from pirkit.runtime.native.tensor_call import c_function, is_small
from pirkit.runtime.native.tensor_call_ir import KEPT
from pirkit.runtime.native.tree_call_ir import FLOAT, SIZE, Found, Step, Use
from pirkit.runtime.native.tree_reuse_ir import KINDS
from pirkit.runtime.tensor.buffer import address_of
from pirkit.runtime.tensor.meta_cache import meta_of

TreeCall = Callable[..., Any]
"""Takes the arguments of a call of a compiled function and gives its result."""

_OF_NUMBERS: Final = {Use.FLOAT: np.float64, Use.INT: np.int64, Use.BOOL: np.bool_}
"""Element types that native code writes."""
_NUMBERS: Final = (*_OF_NUMBERS, Use.SCALAR)


class Arguments(Struct, frozen=True):
    """The arguments of a call: ``steps`` find the inputs of a program in them."""

    positional: int
    names: tuple[str, ...]
    """Those of keyword arguments, in order; a call has to pass the same string objects."""
    steps: Sequence[Step]


class Results(Struct, frozen=True):
    """The tree of the tensors of a call, and what a program needs to know to keep it."""

    build: Callable[..., Any]
    """Makes the tree of some tensors."""
    listed: Callable[..., tuple[Any, ...]]
    """Makes the same tree, and returns a tuple of its containers, parents first."""
    containers: Sequence[tuple[type[Any], int]]
    """Their classes and numbers of elements."""
    uses: Sequence[int]
    """How often each tensor is in the tree."""


def tree_call(
    session: Session, arguments: Arguments, results: Results, otherwise: TreeCall
) -> TreeCall | None:
    """A call that runs in a session of its own; None where native code cannot make it.

    Calls that the steps do not fit, and those while another one runs, are those of ``otherwise``.
    """
    header: Any = session.header
    is_plain = header[HEADER["slot"]] and not session.uses_pool and not len(session.flags)
    is_plain = is_plain and session.block is not None
    inputs = session.program.inputs
    numbered = [s for s in arguments.steps if s.use in _NUMBERS]
    numbers: dict[int, Any] = {s.target: _element_type(s) for s in numbered}
    is_known = is_plain and _containers_are_known()
    if not is_known or any(inputs[k].dtype.np != dtype for k, dtype in numbers.items()):
        return None
    given = (ctypes.c_size_t * max(len(inputs), 1))()
    cells = {k: np.zeros((), dtype) for k, dtype in numbers.items()}
    for k, cell in cells.items():
        given[k] = id(cell)

    def words(step: Step) -> list[int]:
        places = (Found.ARGUMENT, Found.IN_TUPLE, Found.IN_LIST)  # places whose key is a number
        key = step.key if step.found in places else id(step.key)
        target = 0
        if step.use is Use.OPERAND:
            target = ctypes.addressof(given) + 8 * step.target
        elif isinstance(step.target, Memo):
            target = ctypes.addressof(memos[step.target])
        elif step.use is Use.CONTENT:
            target = address_of(contents[id(step.target)])
        elif step.use is Use.SAME:
            target = id(step.target)
        elif step.use is not Use.NOTHING:
            target = address_of(cells[step.target])
        kind = id(step.type) if step.type else 0
        return [step.found, key, step.parent, kind, step.size & _ONES, step.use, target]

    steps = with_memos(arguments.steps)
    memos = {s.target: _array(s.target.words()) for s in steps if s.use is Use.RECALL}
    contents = {id(s.target): _content(s.target) for s in steps if s.use is Use.CONTENT}
    listed = [word for step in steps for word in words(step)]
    walk, names = _array(listed), _array([*map(id, arguments.names)])
    objects = (ctypes.c_size_t * max(len(steps), 1))()
    for name, word in {
        "steps": len(steps), "positional": arguments.positional,
        "named": len(arguments.names), "walk": ctypes.addressof(walk),
        "names": ctypes.addressof(names), "objects": ctypes.addressof(objects),
        "given": ctypes.addressof(given), "otherwise": id(otherwise), "built": id(results.build),
        "true": id(True), "no_attribute": id(AttributeError),
    }.items():  # fmt: skip
        header[HEADER[name]] = word
    kept = _kept(header, session.program.results, results)
    _ = session.tensors  # the words of the header about results
    owned = (
        session, arguments, results, otherwise, given, cells, walk, names, objects, kept, memos,
        contents,
    )  # fmt: skip
    return c_function(tree_method(), np.frombuffer(header, np.uintp), owned)


def _content(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The data by which native code compares the bytes of an array."""
    words = np.frombuffer(expected_metas([meta_of(array.shape, array.dtype)]), np.uint8)
    return np.concatenate([words, np.frombuffer(array.tobytes(), np.uint8)])


def _array(words: Sequence[int]) -> Any:
    return (ctypes.c_size_t * max(len(words), 1))(*words)


def _element_type(step: Step) -> Any:
    """The element type of a number that a step reads; None if its memory layout is unexpected."""
    if step.use is not Use.SCALAR:
        return np.dtype(_OF_NUMBERS[step.use])
    assert step.type is not None
    return _layout_of(step.type)


@cache
def _layout_of(kind: type[Any]) -> np.dtype[Any] | None:
    """The element type of a class of scalars whose bytes lie where native code reads them."""
    one: Any = kind(3)
    array = np.asarray(one)
    held = ctypes.string_at(id(one) + FLOAT, array.itemsize)
    return array.dtype if held == array.tobytes() else None


def _kept(header: Any, metas: Sequence[TensorMeta], results: Results) -> tuple[Any, ...]:
    """Let native code keep trees of results, and return what has to live as long as it does.

    An empty tuple where native code cannot keep them.
    """
    classes = {kind for kind, _ in results.containers}
    can = all(map(is_small, metas)) and all(results.uses) and classes <= KINDS.keys()
    is_empty_tuple = (tuple, 0) in results.containers  # Python has only one empty tuple
    if not classes or not can or is_empty_tuple or (dict in classes and not versions_are_known()):
        return ()
    count = len(results.containers)
    nodes: list[int] = []
    at = count + len(metas)
    for kind, size in results.containers:
        nodes += [id(kind), KINDS[kind], size, at]
        at += 1 if kind is dict else size
    trees: list[Any] = [None] * KEPT
    words = (ctypes.c_size_t * len(nodes))(*nodes)
    uses = (ctypes.c_size_t * max(len(metas), 1))(*results.uses)
    slots = (ctypes.c_size_t * (KEPT * at))()
    for name, word in {
        "trees": id(trees), "slots": ctypes.addressof(slots), "nodes": ctypes.addressof(words),
        "containers": count, "slot_words": at, "uses": ctypes.addressof(uses),
        "built": id(results.listed),
    }.items():  # fmt: skip
        header[HEADER[name]] = word
    return trees, words, uses, slots


_ONES: Final = (1 << 64) - 1


@cache
def _containers_are_known() -> bool:
    """Whether containers and floats have the expected memory layout, tested on known objects."""
    sized: tuple[Any, ...] = ((1, 2, 3), [1, 2, 3], {"a": 1, "b": 2, "c": 3})
    real = 0.1
    return all(ctypes.c_int64.from_address(id(t) + SIZE).value == len(t) for t in sized) and (
        ctypes.c_double.from_address(id(real) + FLOAT).value == real
    )
