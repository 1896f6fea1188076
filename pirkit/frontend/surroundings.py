"""The values that a function captures, watched from one compiled call to the next.

Arrays in closures, globals, defaults and attributes are inputs of the compiled program, read anew
at every call. Everything else there is part of the program: if it changes, so must the program.
"""

from __future__ import annotations

import sys
import threading
from argparse import Namespace
from array import array
from collections import UserList, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from keyword import iskeyword
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field

from pirkit.frontend.generated_code import function_of, value_of
from pirkit.runtime.tensor.dense import DenseTensor

MOST_PLACES: Final = 4096
"""The most places that are watched; further ones are taken as constant."""
DEEPEST: Final = 32
"""Containers and objects inside each other, up to which they are watched."""
MOST_BYTES: Final = 1 << 14
"""Size limit of an array whose content is compared: more would take microseconds."""

_PLAIN: Final = (
    bool, int, float, complex, str, bytes, range, slice, type(None), frozenset, np.generic, np.dtype
)  # fmt: skip
_FLOATS: Final[tuple[type[Any], ...]] = (float, np.floating)
_COMPLEX: Final[tuple[type[Any], ...]] = (complex, np.complexfloating)
_FIXED: Final = (tuple, frozenset)
_RECORDS: Final = (SimpleNamespace, Namespace, threading.local)
"""Classes of libraries whose attributes are the user's."""
_THIRD_PARTY: Final = """
    pirkit numpy xdsl ml_dtypes jax jaxlib flax optax equinox torch torchvision paddle tensorflow
    keras deepxde scipy sympy pandas sklearn matplotlib onnx onnxruntime cupy numba llvmlite
    safetensors rich tqdm pytest hypothesis IPython
"""
_LIBRARIES: Final = frozenset({*sys.stdlib_module_names, *_THIRD_PARTY.split()})
"""Packages whose globals are taken as constant; all others count as the user's."""


class Place(Struct, frozen=True):
    """The place of a captured value: an expression over `Surroundings.roots`."""

    expression: str
    label: str
    """The spelling in the user's code."""
    value: Any
    version: int | None = None
    """How often a tensor had been written."""
    array: str | None = None
    """The expression of the array whose content this is."""

    @property
    def is_array(self) -> bool:
        """Whether the place may be an input of the program."""
        return isinstance(self.value, np.ndarray | DenseTensor)


class Surroundings(Struct):
    """The places that a function may read, as they are now."""

    roots: dict[str, Any] = field(default_factory=dict[str, Any])
    places: list[Place] = field(default_factory=list[Place])
    objects: tuple[type, ...] = ()
    """Further types whose objects are compared by identity."""
    most_bytes: int = 0
    """Size limit of arrays whose content is watched."""
    _seen: set[int] = field(default_factory=set[int])
    _names: set[str] = field(default_factory=set[str])
    """The names of attributes and globals in the code of all visited functions."""
    _methods: list[tuple[str, type[Any]]] = field(default_factory=list[tuple[str, type[Any]]])
    """Methods of the classes of all instances, not visited yet: name and class."""

    @classmethod
    def of(cls, function: Any, objects: tuple[type, ...] = (), most_bytes: int = 0) -> Surroundings:
        """The surroundings of a function, and of the user's functions that it can reach."""
        made = cls(objects=objects, most_bytes=most_bytes)
        made._function(function)
        # Of the methods, visit those that the code names, and special ones, which Python calls.
        while called := [m for m in made._methods if m[0] in made._names or m[0][:2] == "__"]:
            made._methods = [m for m in made._methods if m not in called]
            for name, cls in called:
                made._method(name, cls)
        return made

    def change(self, inputs: frozenset[str]) -> str | None:
        """Why a program that was recorded in these surroundings is out of date; None if it is not.

        ``inputs`` are the expressions of arrays that are read at each call.
        """
        for place in self.places:
            try:
                now = value_of(place.expression, self.roots)
            except (AttributeError, LookupError, NameError, ValueError):
                return f"`{place.label}`: no longer there"
            is_read = place.expression in inputs or place.array in inputs
            if not is_read and not same(now, place.value, place.version):
                return f"`{place.label}`: {_shown(place.value)} -> {_shown(now)}"
        return None

    def checker(self) -> Callable[[], bool]:
        """A function that checks in a few microseconds whether something has changed."""
        lines = ["try:"]
        names = {**self.roots, "same": same}
        for i, place in enumerate(self.places):
            names[f"k{i}"] = place.value
            lines += [
                f"    v = {place.expression}",
                f"    if v is not k{i} and not same(v, k{i}): return True",
            ]
        lines += [
            "    return False",
            "except (AttributeError, LookupError, NameError, ValueError):",
        ]
        return function_of("is_other()", [*lines, "    return True"], names)

    def watch(self, label: str, held: Mapping[str, Any]) -> None:
        """Add the entries of a mapping, such as the attributes of an object of a library."""
        root = self._root(held)
        for name, each in list(held.items()):
            self._value(f"{root}[{name!r}]", f"{label}.{name}", each, 1, ())

    # --- functions ---

    def _root(self, thing: Any) -> str:
        name = f"r{len(self.roots)}"
        self.roots[name] = thing
        return name

    def _function(self, given: Any) -> None:
        """Visit what a callable reads, once."""
        function: Any = given
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        if isinstance(function, partial):
            held = cast("partial[Any]", function)
            self._function(held.func)
            self._value(self._root(held.args), "argument", held.args, 0, ())
            self._value(self._root(held.keywords), "argument", held.keywords, 0, ())
            return
        if isinstance(function, MethodType):
            self._function(function.__func__)
            self._attributes(self._root(function.__self__), "self", function.__self__, 0, ())
            return
        if not isinstance(function, FunctionType):
            inner = getattr(function, "__wrapped__", None)
            if inner is not None:
                self._function(inner)
            elif not _is_library(type(function)):
                self._function(function.__call__)
                self._attributes(self._root(function), "self", function, 0, ())
            return
        is_library = _is_library(function)
        names = tuple(dict.fromkeys(_names(function.__code__)))
        self._names |= {*names}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            if is_library and callable(value):  # functions that `grad` wraps are bound once
                self._function(value)
            elif not (is_library and _is_settled(value)):
                self._value(f"{self._root(cell)}.cell_contents", name, value, 0, names)
        if is_library:
            return
        known = function.__globals__
        found = [n for n in names if n in known]
        root = self._root(known) if found else ""
        for name in found:
            self._value(f"{root}[{name!r}]", name, known[name], 0, names)
        if vars(function):
            self._members(self._root(function), function.__name__, vars(function), 0, names)
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        if defaults:
            self._value(self._root(defaults), "default", defaults, 0, names)

    def _method(self, name: str, cls: type[Any]) -> None:
        """Watch a function of a class, and visit it."""
        member = vars(cls)[name]
        self._function(_function_of(member))
        # Each access to a class method makes a new object, but its function stays the same.
        inner = ".__func__" if isinstance(member, classmethod) else ""
        at = f"{self._root(cls)}.{name}"
        label = f"{cls.__name__}.{name}"
        self.places.append(Place(f"{at}{inner}", label, value_of(f"{at}{inner}", self.roots)))

    # --- values ---

    def _value(self, at: str, label: str, value: Any, depth: int, names: Sequence[str]) -> None:
        """Watch the value of the expression ``at`` and what is in it.

        ``names`` are those in the code that reads it, which are looked up in modules.
        """
        if depth > DEEPEST or len(self.places) >= MOST_PLACES:
            return
        if isinstance(value, staticmethod):  # the attribute of the class is the function
            value = cast("staticmethod[..., Any]", value).__func__
        if isinstance(value, classmethod):  # the attribute is a new object at each access
            self._function(cast("classmethod[Any, ..., Any]", value).__func__)
        elif isinstance(value, DenseTensor):
            self.places.append(Place(at, label, value, value.version))
        elif isinstance(value, (*_PLAIN, np.ndarray, *self.objects)):
            self.places.append(Place(at, label, value))
            if isinstance(value, np.ndarray) and value.nbytes <= self.most_bytes:
                content = value.tobytes()
                self.places.append(Place(f"{at}.tobytes()", label, content, None, at))
        elif isinstance(value, bytearray):
            self.places.append(Place(f"bytes({at})", label, bytes(value)))
        elif isinstance(value, array):
            self.places.append(Place(f"{at}.tobytes()", label, value.tobytes()))
        elif isinstance(value, ContextVar):
            unset = self._root(object())
            now = cast("ContextVar[Any]", value).get(self.roots[unset])
            self.places.append(Place(f"{at}.get({unset})", label, now))
        elif isinstance(value, ModuleType):
            if not _is_library(value):
                for name in names:
                    if name in vars(value):
                        inner = vars(value)[name]
                        self._value(f"{at}.{name}", f"{label}.{name}", inner, depth + 1, ())
        elif isinstance(value, type):
            if not _is_library(value):
                self._members(at, label, vars(value), depth, names)
        elif callable(value):
            if not isinstance(value, MethodType):
                self.places.append(Place(at, label, value))
            self._function(value)
        elif id(value) in self._seen:  # its contents are watched where it was found first
            self.places.append(Place(at, label, value))
        else:
            self._seen.add(id(value))
            self._container(at, label, value, depth, names)

    def _container(self, at: str, label: str, value: Any, depth: int, names: Sequence[str]) -> None:
        """Watch the elements of a container, or the attributes of another object."""
        items: Any = None
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
        elif isinstance(value, list | tuple | deque | UserList):
            items = enumerate(cast("Sequence[Any]", value))
        if isinstance(value, set):
            known = frozenset(cast("set[Any]", value))
            self.places.append(Place(f"frozenset({at})", label, known))
            return
        if items is None:
            self._attributes(at, label, value, depth, names)
            return
        self.places.append(Place(f"len({at})", f"len({label})", len(cast("list[Any]", value))))
        for key, each in items:
            known = repr(key) if isinstance(key, str | int) else self._root(key)
            self._value(f"{at}[{known}]", f"{label}[{key!r}]", each, depth + 1, names)

    def _attributes(
        self, at: str, label: str, value: Any, depth: int, names: Sequence[str]
    ) -> None:
        """Watch the attributes of an object: its own, its slots, and data of its classes.

        Methods of its classes are noted for `of`.
        """
        kind = kind_of(value)
        if _is_library(kind) and not isinstance(value, _RECORDS):
            return
        found: dict[str, Any] = {}
        hidden: set[str] = set()
        for cls in reversed([c for c in kind.__mro__ if not _is_library(c)]):
            found |= {n: v for n, v in vars(cls).items() if _is_data(v)}
            hidden |= {n for n, v in vars(cls).items() if isinstance(v, property)}
            if id(cls) not in self._seen:
                self._seen.add(id(cls))
                self._methods += [(n, cls) for n, v in vars(cls).items() if _function_of(v)]
                members = {kind_of(v) for v in vars(cls).values()}  # descriptors of the user
                own = [m for m in members if "__get__" in vars(m) and not _is_library(m)]
                self._methods += [("__get__", m) for m in own]
            slots: Any = vars(cls).get("__slots__", ())
            listed = (slots,) if isinstance(slots, str) else tuple(slots)
            found |= {n: getattr(value, n) for n in listed if hasattr(value, n)}
        own = {n: v for n, v in getattr(value, "__dict__", {}).items() if n not in hidden}
        self._members(at, label, found | own, depth, names)

    def _members(
        self, at: str, label: str, held: Mapping[str, Any], depth: int, names: Sequence[str]
    ) -> None:
        for name, each in list(held.items()):
            if name.isidentifier() and not iskeyword(name) and not name.startswith("__"):
                self._value(f"{at}.{name}", f"{label}.{name}", each, depth + 1, names)


def _is_data(member: Any) -> bool:
    """Whether a member of a class is a value that its objects share; methods are none."""
    return isinstance(member, (*_PLAIN, np.ndarray, DenseTensor, list, tuple, dict, set))


def _function_of(member: Any) -> FunctionType | None:
    """The function of a method or a property; None for other objects."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, member)
    return member if isinstance(member, FunctionType) else None


def same(now: Any, then: Any, version: int | None = None) -> bool:
    """Whether a value is unchanged; arrays have to be the same objects."""
    if now is then:
        return version is None or now.version == version
    if not isinstance(then, _PLAIN) or kind_of(now) is not kind_of(then):
        return False
    if now == then:
        return kinds_in(now) == kinds_in(then)
    return now != now and then != then  # NaN is unchanged


def kind_of(value: Any) -> type[Any]:
    """The class of an object, typed for the type checker."""
    return cast("type[Any]", type(value))


def kinds_in(value: Any) -> Any:
    """What `==` does not compare: the types of a value and its items, and the signs of zeros."""
    kind = kind_of(value)
    if kind is int or kind is str:
        return kind
    if isinstance(value, _FLOATS):
        return kind if value else (kind, repr(cast(Any, value)))
    if isinstance(value, _COMPLEX):
        return kind, repr(cast(Any, value))
    if isinstance(value, _FIXED):
        items = map(kinds_in, cast("tuple[Any, ...]", value))
        return kind, tuple(items) if isinstance(value, tuple) else frozenset(items)
    return kind


def _names(code: CodeType) -> Iterator[str]:
    """The globals and attributes that a function may read, those of functions inside it included;
    strings may be names of attributes, for `getattr`."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_settled(value: Any) -> bool:
    """Whether a value in a closure of a library cannot change."""
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return isinstance(value, set) or all(isinstance(v, _PLAIN) for v in items)


def _is_library(thing: Any) -> bool:
    """Whether a module, class or function is of a package in `_LIBRARIES`."""
    name: Any = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    if isinstance(thing, FunctionType):  # its `__module__` may be that of a wrapped function
        name = thing.__globals__.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES


def _shown(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(cast(Any, value))
    return f"another {type(value).__name__}"
