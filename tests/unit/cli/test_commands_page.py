"""`docs/commands.md` and `--help` name the same flags."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pirkit.cli import lsp, main, opt_flags, reduce, run

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
PARSERS = {
    "pirkit": main._parser,
    "pirkit-lsp": lsp._parser,
    "pirkit-opt": opt_flags.make_parser,
    "pirkit-run": run._parser,
    "pirkit-reduce": reduce._parser,
}


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (s for s in action.option_strings if s.startswith("--"))
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from flags_of(command)


def documented(command: str) -> set[str]:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    section = next(s for s in sections if s.splitlines()[0] == f"`{command}`")
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {flag for row in rows for flag in re.findall(r"`(?:-\w, )?(--[\w-]+)", row)}


@pytest.mark.parametrize("command", PARSERS)
def test_each_flag_is_documented_and_each_documented_flag_exists(command: str) -> None:
    assert documented(command) == set(flags_of(PARSERS[command]())) - {"--help", "--version"}


@pytest.mark.parametrize("command", PARSERS)
def test_each_flag_has_a_help_text(command: str) -> None:
    assert [a.dest for a in PARSERS[command]()._actions if not a.help and a.option_strings] == []
