"""Runs what a command names once its arguments are read."""

from __future__ import annotations

import argparse

from pirkit.diag.gc_pause import imported


def run_command(target: str, arguments: argparse.Namespace) -> int:
    """Import ``module:function`` of this room, call it with the arguments; the exit code.

    Commands name the function instead of importing it, because `--help`, `--version` and wrong
    arguments are answered before xDSL, the passes and the kernels are imported.
    """
    module, _, function = target.partition(":")
    return getattr(imported(f"pirkit.cli.{module}"), function)(arguments)
