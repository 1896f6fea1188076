"""The argument parser of every command: usage errors are diagnostics, with a near match."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from pirkit.diag.errors import UsageError
from pirkit.diag.version import VERSION

_UNKNOWN: Final = re.compile(r"unrecognized arguments: (\S+)")
_CHOICE: Final = re.compile(r"invalid choice: '([^']*)'")


class ArgumentParser(argparse.ArgumentParser):
    """An ``argparse`` parser that raises UsageError and knows ``--version``.

    Abbreviated flags are refused: a script that uses one would break when a flag is added.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._optional_values: set[str] = set()

    def add_version(self) -> None:
        """Add ``--version``."""
        self.add_argument("--version", action="version", version=f"pirkit {VERSION}")

    def add_optional_value(self, group: Any, flag: str, **options: Any) -> None:
        """Add a flag that may have a value behind ``=``: "" if it has none, None if it is absent.

        Never behind a blank, as there stands the file.
        """
        self._optional_values.add(flag)
        group.add_argument(flag, **options)

    def parse_command_line(self) -> argparse.Namespace:
        """The arguments of the process; ``--flag`` of an optional value stands for ``--flag=``."""
        spelled = [f"{a}=" if a in self._optional_values else a for a in sys.argv[1:]]
        return self.parse_args(spelled)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage."""
        hint = did_you_mean(self._wrong_word(message), self._words())
        raise UsageError(
            message, code="PK0701", help=hint or f"`{self.prog} --help` describes the arguments"
        )

    def _wrong_word(self, message: str) -> str:
        match = _UNKNOWN.search(message) or _CHOICE.search(message)
        return match[1].partition("=")[0] if match else ""

    def _words(self) -> list[str]:
        """Every flag and choice, those of the commands below included."""
        words = list(self._option_string_actions)
        for action in self._actions:
            choices: Any = action.choices or ()
            words.extend(map(str, choices))
            if isinstance(choices, Mapping):
                commands = cast(Mapping[str, ArgumentParser], choices)
                words.extend(word for command in commands.values() for word in command._words())
        return words


def did_you_mean(word: str, known: list[str]) -> str | None:
    """A help text with the known words that are nearest to a mistyped one, or None."""
    near = difflib.get_close_matches(word, list(dict.fromkeys(known)), n=2)
    return f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else None
