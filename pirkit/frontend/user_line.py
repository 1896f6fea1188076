"""The line of the user's Python that a call comes from, and errors that name it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from xdsl.dialects.builtin import LocationAttr, UnknownLoc

from pirkit.diag.errors import ArgumentError, TraceError, UsageError
from pirkit.diag.span import Span
from pirkit.dialect.operation import location_of

_NUMPY: Final = Path(str(getattr(find_spec("numpy"), "origin", None)))
_INSIDE: Final = (f"{Path(__file__).parents[1]}/", f"{_NUMPY.parent}/", "<frozen ")
"""Folders of code that calls tensors on behalf of the user; numpy's operators call back."""

_IS_USER: Final[dict[str, bool]] = {}
_LOCATIONS: Final[dict[tuple[str, int], LocationAttr]] = {}
_LOCATIONS_LIMIT: Final = 1 << 16


def user_line() -> tuple[str, int] | None:
    """File and line of the innermost frame outside of pirkit; None if there is no such frame."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        is_user = _IS_USER.get(file)
        if is_user is None:
            is_user = _IS_USER[file] = not file.startswith(_INSIDE)
        if is_user:
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def user_span() -> Span | None:
    """The location of :func:`user_line`, for messages."""
    found = user_line()
    return None if found is None else Span(*found)


def wrong_call(problem: str, help: str) -> UsageError:
    """The error for a call with arguments that do not fit (PK0701), at the user's line."""
    return ArgumentError(problem, span=user_span(), help=help)


def untraceable(problem: str, help: str) -> TraceError:
    """The error for something that cannot be recorded, at the user's line."""
    return TraceError(problem, span=user_span(), help=help)


def raised_at(error: BaseException) -> Span | None:
    """The innermost line of the user that an error has passed."""
    found, at = None, error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        found = found if file.startswith(_INSIDE) else Span(file, at.tb_lineno)
        at = at.tb_next
    return found


def user_location() -> LocationAttr:
    """The location of :func:`user_line`, for operations."""
    found = user_line()
    if found is None:
        return UnknownLoc()
    location = _LOCATIONS.get(found)
    if location is None:
        if len(_LOCATIONS) >= _LOCATIONS_LIMIT:
            _LOCATIONS.clear()
        location = _LOCATIONS[found] = location_of(*found)
    return location
