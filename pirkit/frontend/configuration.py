"""``pirkit.config``: all settings in one place, for the process or for a ``with`` statement."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.diag.log import show_from
from pirkit.diag.settings import SETTINGS, Setting, assign, overridden, setting
from pirkit.runtime.native.cores import at_most, limit_all

_TARGET: Final = "pirkit.runtime.native.target"


class Config:
    """The settings: ``pirkit.config.threads = 2`` for the process, and for a part of it::

        with pirkit.config(threads=1, cache="off"):
            ...

    The second form holds for the thread that runs it, and goes before the first, which goes before
    environment variables (see ``docs/commands.md``). Reading a setting gives its value, or None
    where nothing sets it; assigning None takes back what was assigned. Raises ArgumentError
    (PK0701) for unknown settings and values, and for those that determine native code (``target``,
    ``vector_bits``, ``sanitize``) once code was compiled.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = setting(_known(name).variable)
        return int(value) if name == "threads" and value and value.isdecimal() else value

    def __setattr__(self, name: str, value: Any) -> None:
        text = None if value is None else _text(_known(name), value)
        assign(_known(name).variable, text)
        if name == "threads":
            limit_all(None if text is None else int(text))
        if name == "log_level":
            show_from(text)

    @contextmanager
    def __call__(self, **settings: Any) -> Generator[Config]:
        """Settings for the body of a ``with`` statement, in this thread; None changes nothing."""
        known = {_known(name): value for name, value in settings.items()}
        texts = {s.name: _text(s, value) for s, value in known.items() if value is not None}
        outer = setting(SETTINGS["log_level"].variable)
        with (
            overridden({SETTINGS[name].variable: text for name, text in texts.items()}),
            at_most(int(texts["threads"]) if "threads" in texts else None),
        ):
            if "log_level" in texts:
                show_from(texts["log_level"])
            try:
                yield self
            finally:
                if "log_level" in texts:
                    show_from(outer)

    def __dir__(self) -> list[str]:
        return list(SETTINGS)

    def __repr__(self) -> str:
        values = {name: setting(s.variable) for name, s in SETTINGS.items()}
        given = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"pirkit.config({', '.join(given)})"

    def settings(self) -> Mapping[str, Setting]:
        """The settings by name, with their environment variables and what they do."""
        return SETTINGS


def _known(name: str) -> Setting:
    if name not in SETTINGS:
        raise ArgumentError(
            f"there is no setting `{name}`", help=f"settings are {', '.join(SETTINGS)}"
        )
    return SETTINGS[name]


def _text(known: Setting, value: Any) -> str:
    """A value as the text of an environment variable. Raises ArgumentError for an invalid one."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    is_count = text.isdecimal() and int(text) > 0 and not isinstance(value, bool)
    if known.name == "threads" and not is_count:
        raise _wrong(known, value, "give a number of threads, at least 1")
    if known.choices and text not in known.choices:
        raise _wrong(known, value, f"it is one of {', '.join(known.choices)}")
    target: Any = sys.modules.get(_TARGET)
    if known.is_fixed and target is not None and target.host.cache_info().currsize:
        raise _wrong(
            known, value, f"code was compiled already: set {known.variable} before the process"
        )
    return text


def _wrong(known: Setting, value: Any, help: str) -> UsageError:
    return ArgumentError(f"the setting `{known.name}` is not {value!r}", help=help)


config: Final = Config()


def threads(count: int) -> at_most:
    """A context in which runs of this thread use at most ``count`` threads, BLAS included.

    Raises ArgumentError (PK0701) for what is not a positive integer.
    """
    return at_most(int(_text(SETTINGS["threads"], count)))
