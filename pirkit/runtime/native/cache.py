"""A cache of object code on disk, so that later processes need not compile.

Files of arrays lie beside the entries, with a limit of their own (see `array_file.py`).

Machine code that another user could have written is never run: the directory belongs to the user,
nobody else may write there, and each entry has a keyed hash (MAC) with a secret that only the user
can read. An entry that is damaged, forged or of another version is deleted and counts as a miss.
Without such a directory there is no cache, which costs only time.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

import platformdirs
from msgspec import Struct

from pirkit.diag.errors import ArtifactError
from pirkit.diag.settings import chosen, setting
from pirkit.diag.source_files import SOURCES, Sources
from pirkit.runtime.atomic_write import atomic_write

_MAGIC: Final = b"pirkit-native-1\n"
_SECRET_BYTES: Final = 32
_TAG_BYTES: Final = 32
_DEFAULT_LIMIT: Final = 256 << 20
_ARRAY_LIMIT: Final = 4 << 30
ARRAYS: Final = ".arrays"
"""What names of files with arrays end in."""
_TRIM_EVERY: Final = 256
"""A write triggers a trim for one key in this many; keys are hashes, so this is a random sample."""


class ObjectCache(Struct):
    """A directory of entries, one file for each key; `limit` bounds the bytes of all entries,
    `array_limit` those of all files of arrays.

    ``sources`` are the source files that compute entries: once they change on disk, the cache
    neither reads nor writes, as this process runs the old code.
    """

    folder: Path
    secret: bytes
    limit: int = _DEFAULT_LIMIT
    sources: Sources | None = None
    array_limit: int = _ARRAY_LIMIT

    def get(self, key: str) -> bytes | None:
        """The payload of a key, a hexadecimal number; None if there is no valid entry."""
        if self.sources and self.sources.changed:
            return None
        path = self.path(key)
        try:
            with regular_file(path) as file:
                data = file.read()
        except OSError:
            return None
        head = len(_MAGIC) + _TAG_BYTES
        tag, payload = data[len(_MAGIC) : head], data[head:]
        if data.startswith(_MAGIC) and hmac.compare_digest(tag, self._tag(key, payload)):
            with suppress(OSError):
                os.utime(path)
            return payload
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None

    def put(self, key: str, payload: bytes) -> None:
        """Store a payload. Errors of the file system are ignored."""
        self.put_all([(key, payload)])

    def put_all(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Store payloads under their keys."""
        if self.sources and not self.sources.unchanged():
            return
        for key, payload in entries:
            self._put(key, payload)

    def _put(self, key: str, payload: bytes) -> None:
        path = self.path(key)
        try:
            if path.exists() and not path.is_file():  # a pipe is written to, and waits for a reader
                path.unlink()
            # the tag reveals a torn entry, so no fsync is needed
            with atomic_write(str(path), durable=False) as file:
                file.write(_MAGIC + self._tag(key, payload) + payload)
        except (ArtifactError, OSError):
            return
        if int(key, 16) % _TRIM_EVERY == 0 or len(payload) * _TRIM_EVERY > self.limit:
            self.trim()

    def trim(self) -> None:
        """Delete the least recently used entries until the limits hold.

        Processes that do so at once delete the same entries; one that misses an entry leaves the
        rest to the others.
        """
        with suppress(OSError):
            with os.scandir(self.folder) as found:
                entries = [(e.stat(), e.path) for e in found if _is_ours(e.name)]
            left = {True: self.array_limit, False: self.limit}
            for status, path in sorted(entries, key=_age, reverse=True):
                kind = ARRAYS in Path(path).name
                left[kind] -= status.st_size
                if left[kind] < 0:
                    Path(path).unlink(missing_ok=True)

    def path(self, key: str, suffix: str = ".o") -> Path:
        """The file of a key's entry."""
        return self.folder / f"{key}{suffix}"

    def _tag(self, key: str, payload: bytes) -> bytes:
        message = key.encode() + b"\0" + payload
        return blake2b(message, key=self.secret, digest_size=_TAG_BYTES).digest()


def open_cache(
    folder: Path, secret_folder: Path, sources: Sources | None = None
) -> ObjectCache | None:
    """The cache in a directory; None if others may write there or no secret can be stored."""
    try:
        if not (_private(folder) and _private(secret_folder)):
            return None
        secret = _secret(secret_folder / "native.key")
    except OSError:
        return None
    return ObjectCache(folder, secret, sources=sources) if secret else None


def user_cache() -> ObjectCache | None:
    """The cache of this user, for object code and compiled programs.

    ``PIRKIT_NATIVE_CACHE=off`` disables it: then this is None. ``PIRKIT_CACHE_DIR`` is its folder.
    """
    return None if chosen("PIRKIT_NATIVE_CACHE") == "off" else _opened(cache_folder())


def cache_folder() -> Path:
    """The folder of the compile cache."""
    return Path(setting("PIRKIT_CACHE_DIR") or platformdirs.user_cache_path("pirkit"))


@cache
def _opened(folder: Path) -> ObjectCache | None:
    return open_cache(folder / "native", platformdirs.user_state_path("pirkit"), SOURCES)


def _age(entry: tuple[os.stat_result, str]) -> tuple[int, str]:
    return entry[0].st_mtime_ns, entry[1]


def _is_ours(name: str) -> bool:
    """Whether a file is an entry, or the temporary file of a process that died while writing."""
    return name.endswith((".o", ARRAYS)) or name.startswith(".")


def regular_file(path: Path) -> BinaryIO:
    """A regular file, open. Raises OSError for others: a read from a pipe would block."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(f"{path} is no file")
    return file


def _private(folder: Path) -> bool:
    """Whether a directory (created if missing) is owned by us and not writable by others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return False
    ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return ours and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _secret(path: Path) -> bytes | None:
    """The user's secret, created at the first call; None if others may read it."""
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process was faster: its secret counts
        finally:
            fresh.unlink(missing_ok=True)
    status = path.lstat()
    readable = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if not stat.S_ISREG(status.st_mode) or readable:
        return None
    with regular_file(path) as file:
        secret = file.read()
    return secret if len(secret) == _SECRET_BYTES else None
