"""Runs what a command names once its arguments are read."""

from __future__ import annotations

import argparse
from importlib import import_module


def run_command(target: str, arguments: argparse.Namespace) -> int:
    """Import ``module:function`` of this room, call it with the arguments; the exit code.

    Commands name the function instead of importing it, because `--help`, `--version` and wrong
    arguments are answered before xDSL, the passes and the kernels are imported.
    """
    module, _, function = target.partition(":")
    return getattr(import_module(f"pirkit.cli.{module}"), function)(arguments)
