"""``pirkit diff``: prints how two programs differ, regardless of the names of their values."""

from __future__ import annotations

import argparse
import json

from pirkit.cli.torch_archives import load_program
from pirkit.diag.errors import ParseError
from pirkit.frontend.program_diff import diff_programs


def diff(arguments: argparse.Namespace) -> int:
    """Print the difference; exit code 0 if there is none, 1 if there is one."""
    try:
        first, second = (load_program(path) for path in (arguments.first, arguments.second))
    except ParseError as error:
        if "-f" in (error.help or ""):
            error.help = "`pirkit-opt FILE -f FORMAT -o FILE.mlir` makes it a file that this reads"
        raise
    found = diff_programs(first.module, second.module, (arguments.first, arguments.second))
    if arguments.json:
        print(json.dumps(found._asdict()))
    elif found.text:
        print(found.text, end="")
        print(f"{found.removed} removed, {found.added} added, {found.changed} changed")
    return 1 if found.text else 0
