"""Data classes that are made quickly.

`dataclasses.dataclass` writes the text of up to six methods for a class and compiles them, which
takes half a millisecond: a tenth of a second for the classes that a process of ours imports, most
of which make few instances or none. Here a class begins with methods that serve any fields, and
each is replaced by the one of `dataclasses` once it is called often enough for that to pay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

Method = Callable[..., Any]
Fields = tuple["Field[Any]", ...]

_CALLS: Final = 16
"""Calls of a method after which it pays to have it compiled."""
_MADE_HERE: Final = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")
_ALONE: Final[Mapping[str, Mapping[str, bool]]] = {
    "__init__": {"init": True},
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"unsafe_hash": True},
}
"""What asks `dataclasses` for one method and no other."""
_NONE: Final[Mapping[str, bool]] = {"init": False, "repr": False, "eq": False}


def _dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, **slots: bool) -> Any:
    """As `dataclasses.dataclass`, but for ``order`` and what else nobody here asks for."""

    def decorate(plain: Any) -> Any:
        if not _is_simple(plain, frozen):
            return dataclasses.dataclass(frozen=frozen, eq=eq, **slots)(plain)
        doc = plain.__doc__
        plain.__doc__ = doc or "-"  # `dataclasses` looks up the signature where there is none
        made: Any = dataclasses.dataclass(**_NONE, **slots)(plain)
        made.__doc__ = doc
        for name, value in {"init": True, "repr": True, "eq": eq, "frozen": frozen}.items():
            setattr(made.__dataclass_params__, name, value)
        for name, method in _methods(made, dataclasses.fields(made), frozen, eq):
            setattr(made, name, method)
        return made

    return decorate if cls is None else decorate(cls)


if not TYPE_CHECKING:
    dataclass = _dataclass


def _is_simple(plain: Any, frozen: bool) -> bool:
    """Whether a class has no method of these, nobody to freeze with, and no odd field."""
    if any(name in plain.__dict__ for name in _MADE_HERE):
        return False
    bases = [b for b in plain.__mro__[1:] if dataclasses.is_dataclass(b)]
    if bases and (frozen or any(cast(Any, b).__dataclass_params__.frozen for b in bases)):
        return False
    inherited: list[Any] = [f for b in bases for f in cast(Any, b).__dataclass_fields__.values()]
    own: list[Any] = [v for v in plain.__dict__.values() if isinstance(v, Field)]
    if not all(f.init and f.kw_only is not True for f in (*inherited, *own)):
        return False
    notes = [str(note) for note in get_annotations(plain).values()]
    return not any("InitVar" in note or "KW_ONLY" in note for note in notes)


def _methods(made: Any, fields: Fields, frozen: bool, eq: bool) -> Iterable[tuple[str, Method]]:
    """The methods of a class that can do without compiled text."""
    yield "__init__", _first(made, fields, frozen, "__init__", _initialise(made, fields))
    shown = [f.name for f in fields if f.repr]
    yield "__repr__", _first(made, fields, frozen, "__repr__", recursive_repr()(_show(shown)))
    if eq:
        compared = [f.name for f in fields if f.compare]
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        yield "__eq__", _first(made, fields, frozen, "__eq__", _equal(_values(compared)))
        if frozen:
            yield "__hash__", _first(made, fields, frozen, "__hash__", _hash(_values(hashed)))
        else:
            yield "__hash__", cast(Any, None)
    if frozen:
        yield from _frozen(made, frozenset(f.name for f in fields))
        if "__slots__" in made.__dict__ and "__getstate__" not in made.__dict__:
            yield from _state([f.name for f in fields])


def _first(made: Any, fields: Fields, frozen: bool, name: str, method: Method) -> Method:
    """A method as long as it is called seldom."""
    calls = 0

    def few(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > _CALLS:
            many = _compiled(made, fields, frozen, name)
            setattr(made, name, many)
            return many(self, *given, **named)
        return method(self, *given, **named)

    few.__name__ = name
    few.__qualname__ = f"{made.__qualname__}.{name}"
    return few


def _compiled(made: Any, fields: Fields, frozen: bool, name: str) -> Method:
    """The method that `dataclasses` makes for these fields."""
    body: dict[str, Any] = {
        "__module__": made.__module__,
        "__qualname__": made.__qualname__,
        "__doc__": "-",
        "__annotations__": {f.name: f.type for f in fields},
        **{f.name: _again(f) for f in fields},
    }
    if hasattr(made, "__post_init__"):
        body["__post_init__"] = made.__post_init__
    settings = {**_NONE, **_ALONE[name], "frozen": frozen and name == "__init__"}
    return dataclasses.dataclass(**settings)(type(made.__name__, (), body)).__dict__[name]


def _again(f: Field[Any]) -> Any:
    same: dict[str, Any] = {"repr": f.repr, "hash": f.hash, "compare": f.compare}
    if f.default is not MISSING:
        same["default"] = f.default
    elif f.default_factory is not MISSING:
        same["default_factory"] = f.default_factory
    return field(**same)


# --- methods for any fields ----------------------------------------------------------------------


def _initialise(made: Any, fields: Fields) -> Method:
    names = [f.name for f in fields]
    every = frozenset(names)
    defaults = {f.name: f.default for f in fields if f.default is not MISSING}
    factories = [(f.name, f.default_factory) for f in fields if f.default_factory is not MISSING]
    is_followed = hasattr(made, "__post_init__")
    put = object.__setattr__

    def initialise(self: Any, *given: Any, **named: Any) -> None:
        values = {**defaults, **dict(zip(names, given, strict=False)), **named}
        for name, make in factories:
            if name not in values:
                values[name] = cast(Any, make)()
        is_twice = named and not named.keys().isdisjoint(names[: len(given)])
        if len(given) > len(names) or is_twice or values.keys() != every:
            refuse = _compiled(made, fields, False, "__init__")
            refuse(self, *given, **named)
        for name in names:
            put(self, name, values[name])
        if is_followed:
            self.__post_init__()

    return initialise


def _show(names: list[str]) -> Method:
    def show(self: Any) -> str:
        inside = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({inside})"

    return show


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple([getattr(record, name) for name in names])


def _equal(values: Callable[[Any], tuple[Any, ...]]) -> Method:
    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return equal


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Method:
    def hash_(self: Any) -> int:
        return hash(values(self))

    return hash_


def _frozen(made: Any, names: frozenset[str]) -> Iterable[tuple[str, Method]]:
    def set_(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        cast(Any, super(made, self)).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        cast(Any, super(made, self)).__delattr__(name)

    yield "__setattr__", set_
    yield "__delattr__", delete


def _state(names: list[str]) -> Iterable[tuple[str, Method]]:
    """What copies and pickles a frozen instance that has no ``__dict__``."""

    def get(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_(self: Any, state: Any) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    yield "__getstate__", get
    yield "__setstate__", set_
