"""The oracle of ``pirkit-reduce FILE -- CMD...``: a command that exits as for the whole program."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.cli.arguments import did_you_mean
from pirkit.diag.errors import ArgumentError, PirkitError
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module

PLACE: Final = "{}"
"""Stands for the file of a trial in the command; it is the last argument if it does not occur."""


def command_oracle(
    module: ModuleOp, command: Sequence[str], seconds: float, builtin: Sequence[str]
) -> Callable[[ModuleOp], bool]:
    """Whether a command exits for a module with the status that it has for the whole one.

    A trial that the verifier refuses does not count, unless it refuses the whole module. A run that
    takes more than ``seconds`` is stopped, and counts as a status of its own, so that programs that
    hang can be reduced. Raises ArgumentError (PK0701) for a command that cannot be run.
    """
    is_valid = _is_valid(module)

    def status_of(trial: ModuleOp) -> int | None:
        with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8", delete=False) as to:
            to.write(print_mlir(trial))
        try:
            return _status([*_filled(command, to.name)], seconds, builtin)
        finally:
            os.unlink(to.name)

    wanted = status_of(module)
    return lambda trial: _is_valid(trial) >= is_valid and status_of(trial) == wanted


def _filled(command: Sequence[str], path: str) -> list[str]:
    if not any(PLACE in word for word in command):
        return [*command, path]
    return [word.replace(PLACE, path) for word in command]


def _status(command: Sequence[str], seconds: float, builtin: Sequence[str]) -> int | None:
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise ArgumentError(
            f"the oracle `{command[0]}` cannot be run: {error.strerror}",
            help=did_you_mean(command[0], list(builtin))
            or f"oracles are {', '.join(builtin)}, and commands such as `./test.sh {PLACE}`",
        ) from error


def _is_valid(module: ModuleOp) -> bool:
    try:
        verify_module(module)
    except PirkitError:
        return False
    return True
