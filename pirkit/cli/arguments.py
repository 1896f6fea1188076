"""The argument parser of every command: usage errors are diagnostics, with a near match."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from pirkit.diag.errors import ArgumentError
from pirkit.diag.span import Span
from pirkit.diag.version import VERSION

_UNKNOWN: Final = re.compile(r"unrecognized arguments: (\S+)")
_ARGUMENT: Final = re.compile(r"argument (\S+): invalid choice")
_NAMED: Final = re.compile(r"argument (\S+): ")
_ELSEWHERE: Final = {
    "--emit": "-t", "--to": "-t", "--pass-pipeline": "-p", "--passes": "-p",
    "--print-ir-after-all": "--print all", "--mlir-print-ir-after-all": "--print all",
    "--mlir-print-ir-after-change": "--print after-change", "--print-between-passes": "--print all",
    "--mlir-print-op-generic": "--generic", "--print-op-generic": "--generic",
    "--mlir-print-debuginfo": "--locs", "--print-debuginfo": "--locs",
    "--mlir-timing": "--timing", "--time-passes": "--timing",
    "--mlir-pass-statistics": "--stats", "--verify-diagnostics": "--expect-diagnostics",
    "--verify-each": "--no-verify-each", "--mlir-print-ir-tree-dir": "--dump DIR",
    "--tcp": "--stdio", "--port": "--stdio", "--socket": "--stdio", "--pipe": "--stdio",
}  # fmt: skip
"""Flags of mlir-opt, xdsl-opt and language servers, and ours."""

_OF_OPT: Final = (
    "--bisect", "--count", "--dump", "--help-pass", "--list-ops", "--list-passes", "--print",
    "--remarks", "--stats", "--why-kernel", "--why-not",
)  # fmt: skip
"""Flags of `pirkit-opt` that are looked for at other commands."""

_CHOICE: Final = re.compile(r"invalid choice: '([^']*)'")


class _Once(argparse.Action):
    """Stores a value; a flag that is given again would drop the first one."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        if option_string and self.dest in parser.stored:
            parser.error(f"argument {'/'.join(self.option_strings)}: it is given twice")
        parser.stored.add(self.dest)
        setattr(namespace, self.dest, values)


class ArgumentParser(argparse.ArgumentParser):
    """An ``argparse`` parser that raises UsageError and knows ``--version``.

    Abbreviated flags are refused: a script that uses one would break when a flag is added.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._optional_values: set[str] = set()
        self.stored: set[str] = set()
        for action in (None, "store"):
            self.register("action", action, _Once)

    def add_version(self) -> None:
        """Add ``--version``."""
        self.add_argument("--version", action="version", version=f"pirkit {VERSION}")

    def add_load(self, group: Any) -> None:
        """Add ``--load``, which `pass_files.load_passes` follows."""
        group.add_argument(
            "--load", action="append", default=[], metavar="FILE",
            help="run a Python file first, whose ops and passes are then known",
        )  # fmt: skip

    def add_flags(self, group: Any, flags: Mapping[str, str]) -> None:
        """Add flags, each with its help: ``--flag``, ``--flag VALUE`` or ``--flag[=VALUE]``.

        An optional value is "" if the flag has none, None if the flag is absent. It is never after
        a blank, as there stands the file.
        """
        for flag, help in flags.items():
            name, optional, value = flag.rstrip("]").partition("[=")
            name, _, metavar = (name, "", value) if optional else name.partition(" ")
            if optional:
                self._optional_values.add(name)
            kind: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
            group.add_argument(name, help=help, **kind)

    def _get_formatter(self) -> argparse.HelpFormatter:
        """Help in which ``--flag[=VALUE]`` shows that the value is optional."""
        formatter = super()._get_formatter()
        spelled = formatter._format_action_invocation

        def shown(action: argparse.Action) -> str:
            text = spelled(action)
            if self._optional_values & set(action.option_strings):
                return f"{text.replace(' ', '[=', 1)}]"
            if len(action.option_strings) < 2 or action.nargs == 0:
                return text
            value = text.removeprefix(f"{action.option_strings[0]} ").partition(", --")[0]
            return f"{', '.join(action.option_strings)} {value}"  # the value once

        formatter._format_action_invocation = shown
        return formatter

    def parse_command_line(self) -> argparse.Namespace:
        """The arguments of the process; ``--flag`` of an optional value stands for ``--flag=``."""
        spelled = [f"{a}=" if a in self._optional_values else a for a in sys.argv[1:]]
        return self.parse_args(spelled)

    def given(self, arguments: argparse.Namespace) -> set[str]:
        """The long names of the arguments that are not at their defaults."""
        return {
            next((o for o in action.option_strings if o.startswith("--")), f"--{action.dest}")
            for action in self._actions
            if getattr(arguments, action.dest, action.default) != action.default
        }

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage."""
        choices = _ARGUMENT.search(message)
        words = self._command()._words() if choices is None else self._choices_of(choices[1])
        word = self._wrong_word(message)
        near = did_you_mean(word, words) if (word[1:] and word[0] == "-") or choices else None
        ours = _ELSEWHERE.get(word, "")
        if ours.partition(" ")[0] in words:
            near = f"it is `{ours}` here"
        elif word in _OF_OPT and word not in words:
            near = f"`pirkit-opt` takes {word}"
        elif self.prog == "pirkit" and word in ("opt", "run", "reduce", "lsp"):
            near = f"it is a command of its own: `pirkit-{word}`"
        elif word.startswith("-") and "--pipeline" in words and word.strip("-") in pass_names():
            near = f"passes come after -p: `-p {word.strip('-')}`"
        hint = self._hint(message) or near or self._described(message)
        raise ArgumentError(message, help=hint or f"`{self.prog} --help` describes the arguments")

    def _wrong_word(self, message: str) -> str:
        match = _UNKNOWN.search(message) or _CHOICE.search(message)
        return match[1].partition("=")[0] if match else ""

    def _operands(self) -> str:
        positional = [a for a in self._actions if not a.option_strings]
        if any(isinstance(a.choices, Mapping) for a in positional):
            positional = [argparse.Action([], a.dest, choices=a.choices) for a in positional]
        shown = [a.metavar or "|".join(map(str, a.choices or (a.dest,))) for a in positional]
        return " ".join(map(str, shown))

    def _described(self, message: str) -> str | None:
        """The help of the argument that a message is about, or the list of arguments."""
        named = _NAMED.search(message)
        flags = named[1] if named else ""
        for action in self._actions:
            called = ("/".join(action.option_strings), action.metavar, action.dest)
            if flags and flags in called and action.help:
                metavar = action.metavar or ""
                shown = metavar if isinstance(metavar, str) else " ".join(metavar)
                return f"{flags} {shown}: {action.help}".replace(" :", ":")
        if _UNKNOWN.search(message):
            command = self._command()
            return f"it is `{command.prog} [OPTIONS] {command._operands()}".rstrip() + "`"
        return f"it is `{self.prog} {self._operands()}`" if "are required" in message else None

    def _command(self) -> ArgumentParser:
        """The parser of the command that the arguments name, or this one."""
        for action in self._actions:
            choices: Any = action.choices
            if isinstance(choices, Mapping):
                commands = cast(Mapping[str, ArgumentParser], choices)
                return next((commands[a] for a in sys.argv[1:] if a in commands), self)
        return self

    def _hint(self, message: str) -> str | None:
        """How a flag with an optional value is written, if a file name follows it."""
        given = next((a for a in sys.argv[1:] if a in self._optional_values), None)
        is_extra = _UNKNOWN.search(message) is not None
        return (
            f"the value of {given} comes after `=`: `{given}=...`" if given and is_extra else None
        )

    def _choices_of(self, flags: str) -> list[str]:
        """The choices of an argument by its flags, as argparse names it."""
        found: list[str] = []
        for action in self._actions:
            if flags in ("/".join(action.option_strings), action.metavar, action.dest):
                found += map(str, action.choices or ())
        return found

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


def pass_names() -> list[str]:
    """The names of passes that pirkit has, without an import of them."""
    text = Path(__file__).with_name("passes.txt").read_text(encoding="utf-8")
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def require_suffix(flag: str, path: str, suffix: str) -> None:
    """Raise ArgumentError (PK0701) for a file that is named as one of another kind."""
    if Path(path).suffix not in ("", suffix):
        raise ArgumentError(
            f"{flag} writes an {suffix} file, and {path} is named as another kind",
            span=Span(path),
            help=f"for instance `{flag} {Path(path).with_suffix(suffix)}`",
        )


def positive(text: str) -> int:
    """A count of at least 1, for ``type=`` of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def natural(text: str) -> int:
    """A number of at least 0, for ``type=`` of an argument."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 0")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0, for ``type=`` of an argument."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not found > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return found


def did_you_mean(word: str, known: list[str]) -> str | None:
    """A help text with the known words that are nearest to a mistyped one, or None."""
    names = list(dict.fromkeys(known))
    # Dashes make all flags alike, and few letters of a longer word are no likeness.
    bare = {name.lstrip("-"): name for name in reversed(names)}
    near = [bare[b] for b in difflib.get_close_matches(word.lstrip("-"), [*bare], 2, 0.62)]
    near = near or [name for name in names if word and word in name.split("-")]
    near = near or [name for name in names if name[:2] == "--" and word.startswith(f"{name}-")]
    return f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else None
