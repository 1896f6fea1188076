"""Runs checks in a child process, so that a kernel that ends the process, or never ends, is named.

The child notes in shared memory which kernel runs. If it dies there, a second child does the same
again up to that kernel, reports it in place of running it, and stops.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import operator
import os
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from pirkit.diag.errors import InternalError

PATIENCE: Final = 60.0
"""Seconds of wall time that a kernel may take. The first call of one may compile it."""
_NOTE: Final = struct.Struct("qd")
"""The number of a kernel, and since when it runs; 0 if it does not."""
T = TypeVar("T")


class EndedError(Exception):
    """A kernel ended its process, or never returned."""


class Watch(Struct):
    """Which kernel runs. ``ended`` says by number what became of those that never returned."""

    ended: Mapping[int, str] = field(default_factory=dict[int, str])
    shared: Any = field(default_factory=lambda: bytearray(_NOTE.size))
    number: int = 0

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Around what may not return. Raises EndedError if it did not the last time."""
        self.number += 1
        if self.number in self.ended:
            raise EndedError(self.ended[self.number])
        outer = bytes(self.shared[: _NOTE.size])
        _NOTE.pack_into(self.shared, 0, self.number, time.monotonic())
        try:
            yield
        finally:
            self.shared[: _NOTE.size] = outer


def watched(check: Callable[[Watch], T], patience: float = PATIENCE) -> T:
    """The result of ``check``, or its exception, in a child process; here without `os.fork`.

    It does the same each time it runs, and its result is a value of JSON.
    """
    if not hasattr(os, "fork"):
        return check(Watch())
    ended: dict[int, str] = {}
    while True:
        shared = mmap.mmap(-1, _NOTE.size)
        found = _in_child(check, Watch(ended, shared), patience)
        if isinstance(found, bytes):
            # An exception of the child is raised here, with its traceback.
            return json.loads(found) if found else check(Watch(ended))
        number, _ = _NOTE.unpack_from(shared)
        if not number or number in ended:
            raise InternalError(
                f"the process that checks kernels died outside of one: {found}",
                notes=("a kernel may have written outside of its memory before: "
                       "`PIRKIT_SANITIZE=1` names one that does",),
            )  # fmt: skip
        ended[number] = found


def returns_in_child(run: Callable[[], bool], patience: float = 5.0) -> bool:
    """Whether something returns True, in a process of its own if it may end that."""

    def check(watch: Watch) -> bool:
        try:
            with watch.running():
                return run()
        except EndedError:
            return False

    return watched(check, patience)


def _in_child(check: Callable[[Watch], Any], watch: Watch, patience: float) -> bytes | str:
    """The message of a child, or a description of how it ended."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    source, target = os.pipe()
    with warnings.catch_warnings():
        # Python warns of threads that hold locks; those of pirkit's pool hold none then.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(source)
        _serve(check, watch, target)
    os.close(target)
    sent, how, is_over = bytearray(), "", False
    try:
        while True:
            if select.select([source], [], [], min(1.0, patience / 10))[0]:
                part = os.read(source, 1 << 16)
                if not part:
                    is_over = True
                    break
                sent += part
                continue
            _, since = _NOTE.unpack_from(watch.shared)
            if since and time.monotonic() - since > patience:
                how = f"it has not ended after {patience:g} seconds"
                break
    finally:
        os.close(source)
        if not is_over:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if is_over and not status:
        return bytes(sent)
    if status < 0:
        return how or f"it ends the process by {signal.Signals(-status).name}"
    return how or f"it ends the process with status {status}"


def _serve(check: Callable[[Watch], Any], watch: Watch, target: int) -> None:
    """Run a check, send what came of it, and end the process without anything of the parent's."""
    status = 1
    try:
        try:
            answer = json.dumps(check(watch), default=operator.index).encode()
        except Exception:  # the parent meets it again
            answer = b""
        view = memoryview(answer)
        while view:
            view = view[os.write(target, view) :]
        status = 0
    finally:
        os._exit(status)
