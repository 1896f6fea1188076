"""Arrays in files of the cache, mapped read-only: processes that use the same file share its pages.

A file begins with a tag, a keyed hash of all that follows but for the arrays, and a keyed hash of
these. Both are checked before an array is used, so a file that is damaged, cut, forged, renamed, or
of another user is deleted, and counts as a miss. Files are replaced as a whole and never written to
again: what a process has mapped does not change, even when the file is deleted.
"""

from __future__ import annotations

import hmac
import json
import mmap
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArtifactError
from pirkit.runtime import dtype as dt
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.native.cache import ARRAYS, ObjectCache, regular_file
from pirkit.runtime.native.digest import Digest

Array = np.ndarray[Any, Any]

_MAGIC: Final = b"pirkit-arrays-1\n"
_TAG: Final = 32
_LENGTH: Final = 8
_HEAD: Final = len(_MAGIC) + 2 * _TAG + _LENGTH
"""Bytes before the table: magic, tag, hash of the arrays, length of the table."""
_PAGE: Final = 4096
_FREE: Final = 4
"""A file is written only if so many of its size fit on the disk."""


def save_arrays(store: ObjectCache, key: str, arrays: Mapping[str, Array]) -> None:
    """Keep arrays under a key. Errors of the file system are ignored."""
    if store.sources and not store.sources.unchanged():
        return
    size = sum(a.nbytes for a in arrays.values())
    rows: list[tuple[str, str, tuple[int, ...], int]] = []
    end = 0
    for name, array in arrays.items():
        rows.append((name, dt.of_array(array).name, array.shape, end))
        end += -(-array.nbytes // _PAGE) * _PAGE
    table = json.dumps(rows).encode()
    start = _start(len(table))
    path = store.path(key, ARRAYS)
    hashed = Digest(store.secret)
    try:
        if size > store.array_limit or shutil.disk_usage(store.folder).free < _FREE * size:
            return
        if path.exists() and not path.is_file():
            path.unlink()
        with atomic_write(str(path), durable=False) as file:
            for (name, _, _, offset), array in zip(rows, arrays.values(), strict=True):
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                hashed.add(name.encode(), data)
                file.seek(start + offset)
                file.write(data.data)
            file.truncate(start + end)
            head = hashed.digest() + len(table).to_bytes(_LENGTH, "little") + table
            file.seek(0)
            file.write(_MAGIC + _tag(store, key, head) + head)
    except (ArtifactError, OSError):
        return
    store.trim()


def map_arrays(store: ObjectCache, key: str) -> dict[str, Array] | None:
    """The arrays of a key, which cannot be written; None if there is no valid file."""
    if store.sources and store.sources.changed:
        return None
    path = store.path(key, ARRAYS)
    try:
        with regular_file(path) as file:
            pages = _mapped(file.fileno())
    except OSError:
        return None
    except ValueError:  # an empty file
        pages = None
    found = _arrays(store, key, pages) if pages is not None else None
    with suppress(OSError):
        if found is None:
            path.unlink(missing_ok=True)
        else:
            os.utime(path)
    return found


def _mapped(handle: int) -> mmap.mmap:
    if os.name == "nt":
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    # All pages are read at once, as they are hashed now: a fault for each costs more than that.
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(handle, 0, flags=flags, prot=mmap.PROT_READ)


def _arrays(store: ObjectCache, key: str, pages: mmap.mmap) -> dict[str, Array] | None:
    """The arrays of a mapped file; None if a tag, a size or an offset is wrong."""
    tag = pages[len(_MAGIC) : len(_MAGIC) + _TAG]
    count = int.from_bytes(pages[_HEAD - _LENGTH : _HEAD], "little")
    head = pages[len(_MAGIC) + _TAG : _HEAD + min(count, len(pages))]
    genuine = hmac.compare_digest(tag, _tag(store, key, head))
    if pages[: len(_MAGIC)] != _MAGIC or not genuine or len(head) != _TAG + _LENGTH + count:
        return None
    start, found, hashed = _start(count), dict[str, Array](), Digest(store.secret)
    try:
        for name, dtype, shape, offset in json.loads(head[_TAG + _LENGTH :]):
            if offset < 0:  # numpy does not refuse it
                return None
            array = np.ndarray(tuple(shape), dt.BY_NAME[dtype].np, pages, start + offset)
            hashed.add(str(name).encode(), array)
            found[name] = array
    except (KeyError, TypeError, ValueError):  # the file may end before an array
        return None
    return found if hmac.compare_digest(hashed.digest(), head[:_TAG]) else None


def _start(table: int) -> int:
    """The offset of the first array, after a table of that size in bytes."""
    return -(-(_HEAD + table) // _PAGE) * _PAGE


def _tag(store: ObjectCache, key: str, head: bytes) -> bytes:
    message = key.encode() + b"\0" + head
    return blake2b(message, key=store.secret, digest_size=_TAG).digest()
