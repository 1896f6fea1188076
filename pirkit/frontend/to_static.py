"""`pirkit.to_static`: Python's control flow on tensors, from the source of a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, cast

from pirkit.diag.errors import ArgumentError
from pirkit.frontend import tree
from pirkit.frontend.jit import Jitted, Names, Places
from pirkit.frontend.static.callees import CALL, helpers
from pirkit.frontend.static.conversion import converted

Function = Callable[..., Any]


def to_static(
    function: Function | None = None,
    *,
    recursive: bool = True,
    static_argnums: Places = (),
    static_argnames: Names = (),
    donate_argnums: Places = (),
    donate_argnames: Names = (),
    fast_math: bool | None = None,
) -> Any:
    """A function whose `if`, `while` and `for` may depend on tensors; also a decorator.

    The source is converted: branches and loops that a traced value decides become `pd_op.if` and
    `pd_op.while`, those of Python values run as Python does. Functions of the user that it calls
    are converted as well, unless ``recursive`` is false. In a trace (of `grad`, `jit`, `vmap`,
    `trace`...) its calls are recorded; calls with tensors are compiled as by `pirkit.jit`, whose
    options it takes.

    Raises TraceError (PK0709) for what cannot be converted, and (PK0708) where tensors decide which
    type a variable has; each names the line and the remedy. Raises ArgumentError (PK0701) for what
    is no Python function. The transformation is that of AutoGraph (Moldovan et al., 2018) and of
    ``paddle.jit.to_static``.
    """
    options = (static_argnums, static_argnames, donate_argnums, donate_argnames, fast_math)
    if function is None:
        return partial(_made, recursive, options)
    return _made(recursive, options, function)


def _made(recursive: bool, options: Any, function: Any) -> Any:
    if isinstance(function, Static):
        return function
    if isinstance(function, Jitted):
        function = function.function
    if isinstance(function, MethodType):
        return _made(recursive, options, function.__func__).__get__(function.__self__)
    if not isinstance(function, FunctionType):
        method = getattr(cast(Any, type(function)), CALL, None)
        if not isinstance(method, FunctionType):
            raise ArgumentError(
                f"`to_static` converts a Python function, not a {type(function).__name__}",
                help="write `@pirkit.to_static`, `pirkit.to_static(f)` or"
                " `@pirkit.to_static(static_argnums=1)`",
            )
        return _made(recursive, options, MethodType(method, function))
    return Static(function, recursive, options)


_BOUND: Final = "_pirkit_static"


class _Bound:
    """The compiled methods of an object, which live as long as it does; a copy has its own."""

    def __init__(self) -> None:
        self.methods: dict[str, Static] = {}

    def __reduce__(self) -> Any:
        return _Bound, ()


class Static(Jitted):
    """A function with converted control flow; see `to_static`."""

    def __init__(self, function: Any, recursive: bool, options: tuple[Any, ...]) -> None:
        if isinstance(function, FunctionType):
            function = converted(function, partial(helpers, recursive=recursive))
        super().__init__(function, *options)
        self._recursive = recursive
        self.options = options

    def _by_function(self) -> tuple[Any, ...]:
        function = getattr(self.function, "__wrapped__", self.function)
        return _made, (self._recursive, self.options, function)

    def pirkit_static(self) -> Any:
        """The protocol by which converted code calls this function."""
        return self.function

    def _recorded(self, b: Any, call: Any) -> Any:
        """Record the call into a program; Python values stay Python values."""
        args, kwargs = call.whole(call.positional, call.by_name)
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: values of an object that is no tree are read at each call."""
        if instance is None:
            return self
        if tree.container_of(cast("type[Any]", type(instance))) is not None:
            return MethodType(self, instance)
        held: dict[str, Any] = getattr(instance, "__dict__", {})
        bound = held.setdefault(_BOUND, _Bound())
        name = getattr(self.function, "__qualname__", "")
        if name not in bound.methods:
            method = MethodType(self.function, instance)
            bound.methods[name] = Static(method, self._recursive, self.options)
        return bound.methods[name]

    def __repr__(self) -> str:
        return f"<to_static of {getattr(self.function, '__name__', self.function)!s}>"
