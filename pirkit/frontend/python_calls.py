"""Checks of calls from Python, whose errors are sentences with a code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pirkit.diag.errors import ArgumentError, CallError
from pirkit.frontend.user_line import user_span

P = ParamSpec("P")
R = TypeVar("R")


def takes_functions(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check calls of a function whose parameters of these names are functions.

    Raises CallError for other arguments there, and for missing and unknown ones.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        name = getattr(function, "__name__", "")

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = _bound(name, signature, args, kwargs)
            for parameter in names:
                value = given.get(parameter)
                if not callable(value):
                    raise CallError(
                        f"`{name}` takes a function as `{parameter}`, not a {type(value).__name__}",
                        span=user_span(),
                        help=f"it is `{name}({', '.join(signature.parameters)})`",
                    )
            return function(*args, **kwargs)

        return checked

    return decorate


def check_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raises CallError if a user's function cannot be called with these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function without a signature
    _bound(getattr(function, "__name__", type(function).__name__), signature, args, kwargs)


def _bound(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise CallError(
            f"`{name}`: {error}", span=user_span(), help=f"it is `{name}{signature}`"
        ) from error


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function by name; none for a C function without a signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def numbers_of(function: Callable[..., Any], places: int | Sequence[int]) -> set[int]:
    """Numbers of arguments, with negative ones counted from the end of the signature.

    A call may leave out arguments with defaults, so its own number of them says nothing. Numbers of
    a function with ``*args`` or without a signature stay as they are. Raises ArgumentError (PK0701)
    for an argument that the function does not have.
    """
    numbers = {places} if isinstance(places, int) else {*places}
    known = parameters_of(function).values()
    if not known or any(p.kind is p.VAR_POSITIONAL for p in known):
        return numbers
    listed = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    beyond = [n for n in numbers if not -len(listed) <= n < len(listed)]
    if beyond:
        raise ArgumentError(
            f"the function has no argument {beyond[0]}", span=user_span(),
            help=f"it has {len(listed)}: {', '.join(listed)}",
        )  # fmt: skip
    return {n % len(listed) for n in numbers}


def require(is_right: bool, problem: str, help: str) -> None:
    """Raises CallError with these words if a call is not right."""
    if not is_right:
        raise CallError(problem, span=user_span(), help=help)
