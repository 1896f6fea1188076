"""Worker processes that compile in parallel: llvmlite serializes all calls within one process.

A worker ends at the end of its input pipe, so it never outlives its parent, even one that crashes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import llvmlite as _llvmlite  # pyright: ignore[reportMissingTypeStubs]

from pirkit.diag.errors import InternalError
from pirkit.runtime.native import object_compiler
from pirkit.runtime.native.engine import refused
from pirkit.runtime.native.target import Target

Made = bytes | InternalError

_PYTHONS: Final = ("python", "pypy")
_SCRIPT: Final = Path(object_compiler.__file__)
_FOLDER: Final = Path(_llvmlite.__file__ or "").parents[1]


class WorkerEndedError(Exception):
    """A worker process ended, or sent a malformed answer."""


class CompileWorker:
    """A worker process for one target CPU. Raises OSError if it cannot be started."""

    def __init__(self, target: Target) -> None:
        import subprocess  # noqa: PLC0415  slow, and few compile so much

        self._process = subprocess.Popen(
            # isolated and without `site`: neither the environment nor the current directory
            # determines what it imports
            [sys.executable, "-I", "-S", str(_SCRIPT), str(_FOLDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the terminal is ours to handle
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked, self._told = self._process.stdin, self._process.stdout
        self._target = json.dumps([target.triple, target.cpu, target.features]).encode()
        self._knows_target = False

    def compile(self, text: str) -> Made:
        """Compile LLVM IR text to object code, or to an error. Raises WorkerEndedError."""
        try:
            if not self._knows_target:
                object_compiler.send(self._asked, self._target)
                self._knows_target = True
            object_compiler.send(self._asked, text.encode())
            found = object_compiler.receive(self._told)
        except (OSError, ValueError) as error:
            raise WorkerEndedError from error
        kind, what = (found or b"")[:1], (found or b"")[1:]
        if kind == object_compiler.DONE:
            return what
        if kind == object_compiler.REFUSED:
            return refused(what.decode())
        raise WorkerEndedError

    def kill(self) -> None:
        """Kill the process; a pending `compile` raises WorkerEndedError."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and close its pipes. No `compile` may be pending."""
        self.kill()
        for stream in (self._asked, self._told):
            try:
                stream.close()
            except OSError:
                pass  # an unsent request is dropped
        self._process.wait()


def can_start() -> bool:
    """Whether ``sys.executable`` is a Python interpreter that can be started as a worker.

    In a program that embeds Python it may be that program, or empty.
    """
    name = Path(sys.executable or "").name.lower()
    is_own = name.startswith(_PYTHONS) and not getattr(sys, "frozen", False)
    return is_own and _SCRIPT.is_file() and _FOLDER.is_dir()
