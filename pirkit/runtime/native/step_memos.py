"""Inline caches of calls: what a call found in dicts and attributes, for the next call.

A step whose object is a dict, or an instance whose attributes are read, gets a memo: some words of
memory that change whenever a value behind it does, such as the version of the dict (PEP 509). While
they are what they were, the steps to its values would find the same objects, and are skipped. So
the loop of a training script looks up neither parameters nor what is around the function.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from msgspec import Struct

from pirkit.runtime.native.tree_call_ir import TYPE, Found, Step, Use
from pirkit.runtime.native.tree_reuse_ir import VERSION

_INSIDE: Final = (
    Found.IN_TUPLE, Found.IN_LIST, Found.IN_DICT, Found.IN_CELL, Found.ATTRIBUTE, Found.APPLIED,
)  # fmt: skip
"""Places that have a container."""
_BEFORE: Final = -24
"""Offset of the pointer to the dict in an instance whose class has none for it."""


class Memo(Struct, frozen=True, eq=False):
    """The words that are compared before the steps to the values of one object.

    A word is identified by its place: an address, or an offset in the object.
    """

    covered: int
    """The number of the steps."""
    fixed: Sequence[tuple[int, int]]
    """Words that have to be these."""
    watched: Sequence[int]
    """Words that have to be what they were at the last call, which were read after ``fixed``."""
    owned: object = None
    """What has to stay where it is."""

    def words(self) -> list[int]:
        """As `tree_call_ir` has them: the state, the numbers of words, and pairs of place and word;
        addresses are at least as large as the first page of memory."""
        pairs = [*self.fixed, *[(at, 0) for at in self.watched]]
        return [
            0, len(self.fixed), len(pairs), self.covered, *[word for pair in pairs for word in pair]
        ]  # fmt: skip


def with_memos(steps: Sequence[Step]) -> list[Step]:
    """The steps with a memo for each object that can have one, whose values come right after it.

    After those is a step that says that all were found.
    """
    if not versions_are_known():
        return list(steps)
    holders = {s.parent for s in steps if s.found in _INSIDE}
    values: dict[int, list[int]] = {}
    for k, step in enumerate(steps):
        if step.found in (Found.IN_DICT, Found.ATTRIBUTE) and k not in holders and step.size < 0:
            values.setdefault(step.parent, []).append(k)
    memos = {
        at: memo
        for at, held in values.items()
        if steps[at].use is Use.NOTHING and (memo := _memo(steps, at, held)) is not None
    }
    moved = {k for at in memos for k in values[at]}
    found: list[Step] = []
    numbers: dict[int, int] = {}
    for k, step in enumerate(steps):
        if k in moved:
            continue
        memo = memos.get(k)
        numbers[k] = len(found)
        found.append(step if memo is None else step._replace(use=Use.RECALL, target=memo))
        if memo is not None:
            for value in values[k]:
                numbers[value] = len(found)
                found.append(steps[value])
            found.append(Step(Found.PARENT, 0, k, use=Use.NOTE, target=memo))
    parents = (*_INSIDE, Found.PARENT)
    return [s._replace(parent=numbers[s.parent]) if s.found in parents else s for s in found]


def _memo(steps: Sequence[Step], at: int, values: Sequence[int]) -> Memo | None:
    """The memo of a step's object, for the steps to its values; None if changes are invisible."""
    if all(steps[k].found is Found.IN_DICT for k in values):
        return Memo(len(values), (), (VERSION,)) if steps[at].type is dict else None
    owner = _known(steps, at)
    names = [cast("str", steps[k].key) for k in values]
    if isinstance(owner, type):
        return _memo_of_class(owner, names)
    kind: type[Any] = _class_of(owner)
    held: Any = getattr(owner, "__dict__", None)
    offset = kind.__dictoffset__ if kind.__dictoffset__ > 0 else _BEFORE
    getter: Any = kind.__getattribute__
    is_usual = getter in (object.__getattribute__, ModuleType.__getattribute__)
    if not is_usual or _class_of(held) is not dict or _word(id(owner) + offset) != id(held):
        return None
    for name in names:
        found = _in_classes(kind, name)
        is_shared = found is not None and not hasattr(found, "__get__")
        if hasattr(found, "__set__") or not (name in held or is_shared):
            return None
    classes = _Classes.of(kind)
    fixed = ((TYPE, id(kind)), (offset, id(held)), *classes.fixed)
    watched = (id(held) + VERSION, *classes.watched)
    return Memo(len(names), fixed, watched, (owner, held, classes))


def _memo_of_class(owner: type[Any], names: Sequence[str]) -> Memo | None:
    """The memo for attributes that a class or one of its bases holds."""
    if _class_of(owner) is not type:
        return None
    for name in names:
        found = _in_classes(owner, name)
        is_same = found in _THEMSELVES or not hasattr(found, "__get__")
        if found is None or not is_same or hasattr(_in_classes(type, name), "__set__"):
            return None
    classes = _Classes.of(owner)
    return Memo(len(names), ((TYPE, id(type)), *classes.fixed), classes.watched, classes)


_THEMSELVES: Final = (FunctionType, staticmethod, property)
"""Descriptors that return the same object for every access through the class."""


def _class_of(value: object) -> type[Any]:
    """The class of an object, typed for the type checker."""
    return cast("type[Any]", type(value))


def _in_classes(kind: type[Any], name: str) -> type[Any] | None:
    """The class of a member of a class or of its bases."""
    return next((_class_of(vars(c)[name]) for c in kind.__mro__ if name in vars(c)), None)


class _Classes(Struct, frozen=True):
    """The words that change with the attributes of a class or of its bases, or with the bases."""

    fixed: Sequence[tuple[int, int]]
    watched: Sequence[int]
    owned: object

    @classmethod
    def of(cls, kind: type[Any]) -> _Classes:
        order = kind.__mro__
        changeable = [c for c in order if c.__flags__ & _CAN_CHANGE]
        dicts = [next(iter(gc.get_referents(vars(c)))) for c in changeable]  # after their proxies
        in_class = (id(kind) + _order_at(), id(order))
        return cls((in_class,), [id(d) + VERSION for d in dicts], (order, dicts))


_CAN_CHANGE: Final = 1 << 9
"""`Py_TPFLAGS_HEAPTYPE`: a class made by a `class` statement, whose attributes can be assigned."""


def _known(steps: Sequence[Step], at: int) -> Any:
    """The object that a step finds in every call; None if that is not known."""
    step = steps[at]
    if step.found is Found.CONSTANT:
        return step.key
    if step.found is Found.IN_CELL:
        return getattr(_known(steps, step.parent), "cell_contents", None)
    if step.found is Found.ATTRIBUTE:
        return getattr(_known(steps, step.parent), "__dict__", {}).get(step.key)
    return None


@cache
def _order_at() -> int:
    """The offset of a class's method resolution order, in bytes, found in a known class."""
    order = Memo.__mro__
    places = range(0, cast("Any", type).__basicsize__, 8)
    return next(at for at in places if _word(id(Memo) + at) == id(order))


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


@cache
def versions_are_known() -> bool:
    """Whether every dict, and every change of one, has a version of its own, tested on some."""
    if sys.version_info >= (3, 13):
        return False
    known: dict[str, int] = {"a": 1, "b": 2}
    others = [{"a": 1, "b": 2}, dict(known), known.copy(), {**known}]
    seen = [_word(id(d) + VERSION) for d in (known, *others)]
    for change in (
        lambda: known.update(a=3), lambda: known.pop("a"), lambda: known.update(a=3),
        lambda: known.update(c=4), known.clear,
    ):  # fmt: skip
        change()
        seen.append(_word(id(known) + VERSION))
    before = seen[-1]
    known.get("a")
    return len(set(seen)) == len(seen) and _word(id(known) + VERSION) == before
