"""A caching allocator for tensors: large blocks are reused, as page faults are expensive."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import deque
from collections.abc import Sequence
from errno import ENOMEM
from math import prod
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.meta import MAX_ARRAY_BYTES
from pirkit.runtime.tensor.buffer import Array, address_of, interface

_GUARDED: Final = os.environ.get("PIRKIT_SANITIZE") == "1" and os.name != "nt"
"""Whether each array ends where a forbidden page begins."""
SMALL: Final = 0 if _GUARDED else 1 << 18
"""Smaller requests, in bytes, go to numpy, which is faster than any cache written in Python."""

_PAGE: Final = mmap.PAGESIZE
_LINE: Final = 64
_CLASSES_PER_DOUBLING_LOG2: Final = 3


class Stats(Struct, frozen=True):
    """Counters of an allocator. Small requests count only as ``requests``."""

    requests: int = 0
    hits: int = 0
    """Large requests served by a cached block."""
    fresh: int = 0
    """Large requests that mapped new pages."""
    live: int = 0
    """Bytes of the blocks in use."""
    cached: int = 0
    """Bytes of the cached blocks."""
    peak: int = 0
    """The maximum of ``live`` so far."""


class _Block:
    """Pages of a size class."""

    __slots__ = ("described", "nbytes", "pages")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.pages = _pages(nbytes + 2 * _PAGE if _GUARDED else nbytes)
        address = address_of(np.frombuffer(self.pages, np.uint8))
        if _GUARDED:
            address += _PAGE
            _forbid(address - _PAGE)
            _forbid(address + nbytes)
        self.described = interface(address, nbytes)


class _Lease:
    """A block in use: the base object of the arrays over it, which returns it after them."""

    __slots__ = ("__array_interface__", "_block", "_returned")

    def __init__(self, block: _Block, returned: deque[_Block]) -> None:
        self.__array_interface__ = block.described
        self._block = block
        self._returned = returned

    def __del__(self) -> None:
        # The garbage collector may run this anywhere, even within the allocator's critical
        # section, so it takes no lock.
        self._returned.append(self._block)


class CachingAllocator:
    """Memory of the CPU. Blocks of at least ``SMALL`` bytes are page-aligned and reused.

    ``limit`` bounds the cached bytes; beyond it, blocks of the least recently used size classes are
    unmapped. Thread-safe.
    """

    def __init__(self, limit: int = 1 << 30) -> None:
        self._limit = limit
        self._lock = Lock()
        self._returned: deque[_Block] = deque()
        self._free: dict[int, list[_Block]] = {}
        """Cached blocks by size class, the most recently used class last."""
        self._requests = self._hits = self._fresh = 0
        self._live = self._cached = self._peak = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An uninitialized C-contiguous array. Raises MemoryError if the system has no memory."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < SMALL:
            with self._lock:
                self._requests += 1
            return np.empty(shape, dtype)
        memory = self._bytes(nbytes)
        first = memory.nbytes - -(-nbytes // _LINE) * _LINE if _GUARDED else 0
        return np.ndarray(shape, dtype, memory.data, first)

    def trim(self, keep: int = 0) -> int:
        """Unmap cached blocks until at most ``keep`` bytes remain; returns the bytes released."""
        with self._lock:
            self._collect()
            return self._shrink(keep)

    @property
    def stats(self) -> Stats:
        with self._lock:
            self._collect()
            return Stats(
                self._requests, self._hits, self._fresh, self._live, self._cached, self._peak
            )

    def after_fork(self) -> None:
        """In the child of a fork: replace the lock, which another thread may have held."""
        self._lock = Lock()

    def _bytes(self, nbytes: int) -> Array:
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            self._requests += 1
            block = self._taken(size)
            self._live += size
            self._peak = max(self._peak, self._live)
        return np.asarray(_Lease(block, self._returned))

    def _taken(self, size: int) -> _Block:
        free_blocks = self._free.get(size)
        if free_blocks:
            self._hits += 1
            self._cached -= size
            return free_blocks.pop()
        try:
            block = _Block(size)
        except OSError:
            self._shrink(0)
            try:
                block = _Block(size)
            except OSError as error:
                raise MemoryError(f"no memory for a tensor of {size:,} bytes") from error
        self._fresh += 1
        return block

    def _collect(self) -> None:
        """Move returned blocks into the cache."""
        while self._returned:
            block = self._returned.popleft()
            free_blocks = self._free.pop(block.nbytes, [])
            free_blocks.append(block)
            self._free[block.nbytes] = free_blocks
            self._live -= block.nbytes
            self._cached += block.nbytes
        self._shrink(self._limit)

    def _shrink(self, keep: int) -> int:
        before = self._cached
        while self._cached > keep:
            size = next(iter(self._free))
            free_blocks = self._free[size]
            if free_blocks:
                free_blocks.pop()
                self._cached -= size
            if not free_blocks:
                del self._free[size]
        return before - self._cached


def size_class(nbytes: int) -> int:
    """The block size for a request: a multiple of the page size, with at most 1/8 of waste."""
    step = 1 << max((nbytes - 1).bit_length() - 1 - _CLASSES_PER_DOUBLING_LOG2, 0)
    step = max(step, _PAGE)
    return -(-nbytes // step) * step


def no_memory(error: MemoryError) -> RuntimeFault:
    """The error of a program whose values do not fit into memory."""
    return RuntimeFault(
        f"the program needs more memory than there is: {error}" if str(error) else "out of memory",
        code="PK0901",
        help="look at the shapes of its inputs, and at the sizes that it computes from them",
    )


def plain_bytes(nbytes: int) -> Array:
    """Uninitialized bytes allocated by numpy. Raises MemoryError if the system has none."""
    if nbytes > MAX_ARRAY_BYTES:
        raise MemoryError(f"no memory for {nbytes:,} bytes")
    return np.empty(nbytes, np.uint8)


def _pages(nbytes: int) -> mmap.mmap:
    if nbytes > MAX_ARRAY_BYTES:
        raise OSError(ENOMEM, os.strerror(ENOMEM))
    if os.name == "nt":
        return mmap.mmap(-1, nbytes)
    # Shared pages, the default, would let a forked child write into its parent's tensors.
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _forbid(address: int) -> None:
    """Take a page away. Raises OSError if the system does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


HOST: Final = CachingAllocator()
"""The allocator of this process for the CPU."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HOST.after_fork)
