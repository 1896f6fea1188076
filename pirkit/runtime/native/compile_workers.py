"""Processes that compile: LLVM as llvmlite has it serves one thread at a time.

A process lives as long as there is something to compile, and ends when its input does: so it does
not outlive its parent, whatever becomes of that. Its input and output are pipes of its own.
"""

from __future__ import annotations

import json
import subprocess
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
    """A process that compiles ended, or said what it never should."""


class CompileWorker:
    """A process that compiles for a CPU. Raises OSError if it cannot be started."""

    def __init__(self, target: Target) -> None:
        self._process = subprocess.Popen(
            # isolated and without `site`: neither the environment nor the folder that we are in
            # decides what it imports
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
        """Object code of a text, or the error that it gives. Raises ChildEndedError."""
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
        """End the process, whatever it does; who waits for its answer gets ChildEndedError."""
        self._process.kill()

    def end(self) -> None:
        """End the process and give its pipes back; nobody may wait for an answer."""
        self.kill()
        for stream in (self._asked, self._told):
            try:
                stream.close()
            except OSError:
                pass  # what was not sent is nobody's any more
        self._process.wait()


def can_start() -> bool:
    """Whether this process runs in a Python that can be started once more.

    In a program that holds Python, ``sys.executable`` may be that program, or nothing.
    """
    name = Path(sys.executable or "").name.lower()
    is_own = name.startswith(_PYTHONS) and not getattr(sys, "frozen", False)
    return is_own and _SCRIPT.is_file() and _FOLDER.is_dir()
