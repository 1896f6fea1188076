"""Whether pirkit's files are still what this process read.

What a process keeps for others is filed under the files that made it. Once one of them has changed
it can no longer tell which it is running, since modules are read when they are first needed; so
from then on it neither keeps anything nor uses what others kept.

The times of files stand for their contents, as they do for Python: the time at which the system saw
a file change cannot be set, so that a copy of an older file counts as new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pirkit.diag.version import BEGAN_NS

Row = tuple[str, int, int, int]
"""A file: path, size, when it was written, when the system saw it change."""

_MARGIN_NS: Final = 100_000_000
"""How far the clock of a file system may be behind."""


class Sources:
    """The files below a folder, as they were when they were first looked at.

    ``changed`` is the result of the last check; once it is True it stays so. A check is not
    repeated within ``lasts`` seconds.
    """

    def __init__(self, root: Path | str, began_ns: int, lasts: float = 0.0) -> None:
        self.root = str(root)
        self._lasts, self._until = lasts, 0.0
        self.changed = False
        self._latest = began_ns - _MARGIN_NS
        self._seen: str | None = None

    def known(self) -> str | None:
        """A key of these files' paths and times; None if they are no files, or have changed.

        Only the first call reads the file system; `unchanged` reads it again.
        """
        if self._seen is None and not self.changed:
            self._seen = self._look()
        return None if self.changed else self._seen

    def unchanged(self) -> bool:
        """Whether no file has changed since the process began, by a look at all of them."""
        first = self._seen is None
        known = self.known()
        recent = first or time.monotonic() < self._until
        if known is not None and not recent and self._look() != known:
            self.changed = True
        return not self.changed

    def contents(self, paths: Iterable[Path]) -> str:
        """A hash of what is in some files; notes whether they have changed."""
        digest = blake2b(digest_size=16)
        for path in paths:
            with path.open("rb") as file:
                digest.update(file.read())
                self.changed |= os.fstat(file.fileno()).st_ctime_ns > self._latest
        return digest.hexdigest()

    def _look(self) -> str | None:
        try:
            found = sorted(files(self.root))
        except OSError:
            found = []
        if not found or max(row[3] for row in found) > self._latest:
            self.changed = True
            return None
        self._until = time.monotonic() + self._lasts
        return blake2b(repr((self.root, found)).encode(), digest_size=32).hexdigest()


def files(folder: str) -> Iterator[Row]:
    """The files below a folder but for Python's bytecode."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from files(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns


SOURCES: Final = Sources(Path(__file__).parents[1], BEGAN_NS, lasts=1.0)
"""The source files of pirkit."""
