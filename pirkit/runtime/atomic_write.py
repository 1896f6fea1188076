"""Atomic replacement of files."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pirkit.diag.paths import unwritable


@contextmanager
def atomic_write(path: str, *, durable: bool = True) -> Generator[IO[bytes]]:
    """A temporary file that replaces ``path`` when the block ends, and is deleted if it raises.

    If not ``durable``, there is no fsync: after a crash of the machine (not of the process) the
    file may be torn, which its reader must detect. A device or a pipe is written directly. Raises
    ArtifactError (PK0506) if writing is impossible.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
            return
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
