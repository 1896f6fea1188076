"""Prints the listings of ``pirkit-opt --list-ops``, ``--list-passes`` and ``--help-pass``."""

from __future__ import annotations

import argparse

from pirkit.cli.coverage import list_missing, list_ops
from pirkit.cli.passes_help import list_passes, manual
from pirkit.cli.primitive_manifest import list_primitives


def print_listing(arguments: argparse.Namespace) -> int:
    """Print the listing that the flags request; the exit code."""
    if arguments.list_ops and arguments.missing:
        return list_missing(arguments.json)
    if arguments.list_ops and arguments.primitives:
        list_primitives(arguments.json)
    elif arguments.list_ops:
        list_ops(arguments.json)
    elif arguments.list_passes:
        list_passes(arguments.json)
    else:
        print(manual(arguments.help_pass))
    return 0
