"""``pirkit explain``: prints the page of an error code, or the list of codes."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.markdown import Markdown

from pirkit.cli.arguments import did_you_mean
from pirkit.diag.codes import CODES
from pirkit.diag.errors import ArgumentError


def explain(arguments: argparse.Namespace) -> int:
    """Print the page of ``arguments.code``, or all codes; the exit code.

    Raises ArgumentError (PK0701) for an unknown code, and for none or both of code and ``--list``.
    """
    if arguments.list == (arguments.code is not None):
        raise ArgumentError(
            "`pirkit explain` takes either a code or --list",
            help="for instance `pirkit explain PK0203`",
        )
    return _list_codes(arguments.json) if arguments.list else _page(arguments.code, arguments.json)


def _page(name: str, as_json: bool) -> int:
    code = CODES.get(name.upper())
    if code is None:
        raise ArgumentError(
            f"there is no error code `{name}`",
            help=did_you_mean(name.upper(), list(CODES))
            or "`pirkit explain --list` prints all; `pirkit-opt --list-ops` lists ops, "
            "`pirkit-opt --help-pass PASS` explains a pass",
        )
    if as_json:
        print(json.dumps({"code": code.code, "title": code.title, "page": code.page()}))
    elif sys.stdout.isatty():
        Console().print(Markdown(code.page()))
    else:
        print(code.page(), end="")
    return 0


def _list_codes(as_json: bool) -> int:
    if as_json:
        print(json.dumps([{"code": c.code, "title": c.title} for c in CODES.values()]))
        return 0
    for code in CODES.values():
        print(f"{code.code}  {code.title}")
    return 0
