"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pirkit.diag.errors import ArtifactError
from pirkit.diag.span import Span


@contextmanager
def atomic_write(path: str, *, durable: bool = True) -> Generator[IO[bytes]]:
    """A file that takes the place of ``path`` when the block ends, and vanishes if it raises.

    What is not ``durable`` may be torn where the machine, not the process, stops: then its reader
    has to notice.

    A device or a pipe, which nothing can take the place of, is written directly. Raises
    ArtifactError (PK0506) if writing is impossible.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
            return
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
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
        raise ArtifactError(
            f"cannot write {path}: {error.strerror}", code="PK0506", span=Span(path)
        ) from error
