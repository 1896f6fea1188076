"""A live program in Paddle's written form, without a file."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from pirkit.paddle.libpaddle import core


def serialized(program: Any) -> bytes:
    """The bytes that Paddle's own writer makes of a program.

    The writer takes a path: it gets that of anonymous memory, or where the system has none, of a
    file that is removed at once.
    """
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("program")
        path = f"/proc/self/fd/{handle}"
    else:
        handle, path = tempfile.mkstemp(suffix=".json")
    try:
        core.serialize_pir_program(program, path, True, False, True)
        with open(path, "rb") as written:
            return written.read()
    finally:
        os.close(handle)
        if not path.startswith("/proc/"):
            os.unlink(path)
