"""The settings of pirkit: one table of names, environment variables and what they do.

A value is that of the innermost ``with pirkit.config(...)``, else what was assigned to
``pirkit.config``, else the environment's.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from pirkit.diag.errors import UsageError


class Setting(NamedTuple):
    """One setting: its name in ``pirkit.config``, its environment variable, and its values."""

    name: str
    variable: str
    doc: str
    choices: tuple[str, ...] = ()
    """The values that it can have; empty if there are too many to list."""
    is_fixed: bool = False
    """True if it cannot change after the first native code was made."""


SETTINGS: Final = {
    s.name: s
    for s in (
        Setting("threads", "PIRKIT_NUM_THREADS", "most threads of a run; else one for each core"),
        Setting("cache_dir", "PIRKIT_CACHE_DIR", "folder of the compile cache; else the user's"),
        Setting("cache", "PIRKIT_NATIVE_CACHE",
                "what is cached on disk: `objects` is code of functions alone, `off` nothing",
                ("on", "objects", "off")),
        Setting("target", "PIRKIT_TARGET",
                "the x86-64 level that native code may use; else that of this CPU",
                ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"), is_fixed=True),
        Setting("vector_bits", "PIRKIT_VECTOR_BITS", "the largest vector width",
                ("128", "256", "512"), is_fixed=True),
        Setting("sanitize", "PIRKIT_SANITIZE",
                "native code ends the process at an access that leaves its buffer; in the"
                " environment, forbidden pages also surround each array",
                ("0", "1"), is_fixed=True),
        Setting("fused", "PIRKIT_FUSED", "what runs fused kernels on the CPU",
                ("native", "nest", "interpret")),
        Setting("prim", "PIRKIT_PRIM", "decompose operators into primitives first",
                ("0", "1", "forward", "backward")),
        Setting("fast_math", "PIRKIT_FAST_MATH",
                "`jit`, and `compile` without a pipeline, may factor common operands out of sums",
                ("0", "1")),
        Setting("winograd", "PIRKIT_WINOGRAD",
                "`freeze` may compute convolutions by Winograd's minimal filtering",
                ("1", "0")),
        Setting("prim_keep", "PIRKIT_PRIM_KEEP", "operators that are kept then, `softmax;gelu`"),
        Setting("prim_only", "PIRKIT_PRIM_ONLY", "the only operators that are decomposed then"),
        Setting("log_level", "PIRKIT_LOG",
                "show messages of the logger `pirkit` from this level on",
                ("DEBUG", "INFO", "WARNING", "ERROR")),
        Setting("debug", "PIRKIT_DEBUG", "commands show tracebacks of bugs", ("0", "1")),
    )
}  # fmt: skip

_ASSIGNED: Final[dict[str, str]] = {}
_INSIDE: Final[ContextVar[Mapping[str, str]]] = ContextVar("_INSIDE", default={})  # noqa: B039  never written


def setting(variable: str) -> str | None:
    """The value of a setting, by its environment variable; None if nothing sets it."""
    for values in (_INSIDE.get(), _ASSIGNED, os.environ):
        if variable in values:
            return values[variable]
    return None


def chosen(variable: str) -> str:
    """The value of a setting that has choices; empty if nothing sets it. Levels may be lower case.

    Raises UsageError (PK0705) for another value.
    """
    value = setting(variable) or ""
    (choices,) = (s.choices for s in SETTINGS.values() if s.variable == variable)
    if value.upper() in choices:
        return value.upper()
    if value and value not in choices:
        message = f"{variable} is {value!r}"
        raise UsageError(message, code="PK0705", help=f"it is one of {', '.join(choices)}")
    return value


def check_choices() -> None:
    """Raise UsageError (PK0705) if any setting has a value that is none of its choices."""
    for s in SETTINGS.values():
        if s.choices:
            chosen(s.variable)


def assign(variable: str, value: str | None) -> None:
    """Set a value for the whole process; None takes it back."""
    if value is None:
        _ASSIGNED.pop(variable, None)
    else:
        _ASSIGNED[variable] = value


@contextmanager
def overridden(values: Mapping[str, str]) -> Generator[None]:
    """Values, by variable, for the body of a ``with`` statement and this thread alone."""
    token = _INSIDE.set({**_INSIDE.get(), **values})
    try:
        yield
    finally:
        _INSIDE.reset(token)
