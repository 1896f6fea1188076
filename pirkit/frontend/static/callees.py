"""Calls of converted code: functions of the user are converted when they are called."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Value
from pirkit.frontend.control_flow import truth
from pirkit.frontend.static.branches import branch
from pirkit.frontend.static.conversion import converted, is_converted
from pirkit.frontend.static.decided import depth, effect, untraced
from pirkit.frontend.static.iterables import (
    traced_enumerate,
    traced_range,
    traced_reversed,
    traced_zip,
)
from pirkit.frontend.static.loops import iterate, loop
from pirkit.frontend.static.operators import (
    all_of,
    any_of,
    both,
    check,
    choice,
    compared,
    either,
    negated,
    plain,
)
from pirkit.frontend.static.sites import Site
from pirkit.frontend.tracing import Recorder
from pirkit.runtime import dtype as dt

Function = Callable[..., Any]
CALL: Final = "__call__"
PIRKIT: Final = f"{Path(__file__).parents[2]}/"
_FOLDERS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
LIBRARIES: Final = (*[f"{sysconfig.get_path(name)}/" for name in _FOLDERS], PIRKIT, "<frozen ")
"""Folders of code that is not the user's: the standard library, and what is installed."""


class Helpers:
    """The functions that converted code calls; ``sites`` are its branches and loops."""

    def __init__(self, sites: list[Site], recursive: bool) -> None:
        self._sites = sites
        self._recursive = recursive

    def branch(self, number: int, *parts: Any) -> None:
        """An `if`."""
        branch(self._sites[number], *parts)

    def loop(self, number: int, *parts: Any) -> None:
        """A `while`."""
        loop(self._sites[number], *parts)

    def iterate(self, number: int, *parts: Any) -> None:
        """A `for`."""
        iterate(self._sites[number], *parts)

    def callee(self, called: Any) -> Any:
        """The function to call: the converted one for a function of the user, else itself."""
        try:
            builtin = _BUILTINS.get(called)
        except TypeError:  # it is not hashable
            builtin = None
        if builtin is not None:
            return builtin
        return convert(called) if self._recursive else called

    depth = staticmethod(depth)
    effect, untraced = staticmethod(effect), staticmethod(untraced)
    both, either, negated = staticmethod(both), staticmethod(either), staticmethod(negated)
    choice, compared = staticmethod(choice), staticmethod(compared)
    check, plain = staticmethod(check), staticmethod(plain)


def helpers(sites: list[Site], recursive: bool = True) -> Helpers:
    """Helpers for the code of these branches and loops."""
    return Helpers(sites, recursive)


def convert(called: Any) -> Any:
    """A callable of the user, converted where it can be; anything else as it is."""
    static = getattr(cast(Any, type(called)), "pirkit_static", None)
    if static is not None:
        return static(called)
    if isinstance(called, FunctionType):
        if _is_library(called.__code__.co_filename):
            return _passing(called) if _takes_functions(called) else called
        return _function(called)
    if isinstance(called, MethodType):
        inner = convert(called.__func__)
        return called if inner is called.__func__ else MethodType(inner, called.__self__)
    if isinstance(called, partial):
        held = cast("partial[Any]", called)
        return partial(convert(held.func), *held.args, **held.keywords)
    if isinstance(called, type | BuiltinFunctionType):
        return _passing(called) if called in _TAKE_FUNCTIONS else called
    method = getattr(cast(Any, type(called)), CALL, None)
    if isinstance(method, FunctionType) and not _is_library(method.__code__.co_filename):
        return MethodType(_function(method), called)
    return called


def _function(function: FunctionType) -> FunctionType:
    if is_converted(function):
        return function
    try:
        return converted(function, helpers)
    except TraceError:  # generators and functions without source run as they are
        return function


def _is_library(file: str) -> bool:
    return file.startswith(LIBRARIES)


def _takes_functions(function: FunctionType) -> bool:
    """Whether it is one of pirkit's own, such as `grad`, which call what they are given."""
    return function.__code__.co_filename.startswith(PIRKIT)


_TAKE_FUNCTIONS: Final = (map, filter)


def _passing(called: Any) -> Any:
    """A function of a library, which gets functions of the user converted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        given = [_argument(a) for a in args]
        return called(*given, **{k: _argument(v) for k, v in kwargs.items()})

    return call


def _argument(value: Any) -> Any:
    return convert(value) if isinstance(value, FunctionType | MethodType) else value


# --- Python's own functions on traced values -----------------------------------------------------


def _as_int(*given: Any) -> Any:
    value = given[0] if len(given) == 1 else None
    if not isinstance(value, Value) or value.meta.numel != 1:
        return int(*given)
    b = cast(Recorder, value.b).innermost
    return b.reshape(b.cast(value, dt.int64), ())


def _as_float(*given: Any) -> Any:
    value = given[0] if len(given) == 1 else None
    if not isinstance(value, Value) or value.meta.numel != 1:
        return float(*given)
    b = cast(Recorder, value.b).innermost
    own = value if value.dtype.is_float else b.cast(value, dt.float32)
    return b.reshape(own, ())


def _as_bool(*given: Any) -> Any:
    value = given[0] if len(given) == 1 else None
    if not isinstance(value, Value):
        return bool(*given)
    return truth(cast(Recorder, value.b).innermost, value)


def _extreme(name: str, python: Function) -> Function:
    def extreme(*given: Any, **options: Any) -> Any:
        if options or not any(isinstance(v, Value) for v in given):
            return python(*given, **options)
        if len(given) == 1:
            return getattr(given[0], "min" if python is min else "max")()
        found: Any = given[0]
        for each in given[1:]:
            typed = found if isinstance(found, Value) else each
            if not isinstance(typed, Value):
                found = python(found, each)
                continue
            b = cast(Recorder, typed.b).innermost
            found = getattr(b, name)(b.value(found, typed), b.value(each, typed))
        return found

    return extreme


def _ordered(items: Any, /, *, key: Any = None, reverse: bool = False) -> list[Any]:
    """``sorted``, by an op for traced numbers, of which it may exchange equal ones."""
    given = list(items)
    if key is not None or not any(isinstance(v, Value) for v in given):
        return sorted(given, key=key, reverse=reverse)
    found = list(np.sort(np.stack(given)))
    return found[::-1] if reverse else found


_BUILTINS: Final[dict[Any, Function]] = {
    range: traced_range,
    enumerate: traced_enumerate,
    zip: traced_zip,
    reversed: traced_reversed,
    int: _as_int,
    float: _as_float,
    bool: _as_bool,
    any: any_of,
    all: all_of,
    sorted: _ordered,
    min: _extreme("minimum", min),
    max: _extreme("maximum", max),
}
"""By function; each does what Python's does with other arguments."""
