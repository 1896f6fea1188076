"""Devices: allocation of arrays, and transfers to and from the host.

A device has an array module with numpy's API (``xp``); kernels that use only functions of ``xp``
run on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import prod
from typing import Any, Protocol

import numpy as np

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.once import cached_property
from pirkit.runtime.arena import ALIGNMENT
from pirkit.runtime.given_arrays import given_array
from pirkit.runtime.tensor import allocator
from pirkit.runtime.tensor.allocator import SMALL

Array = np.ndarray[Any, Any]
Carve = Callable[[Sequence[int], "np.dtype[Any]", int], Any]
"""Creates an array of a shape and element type at a byte offset of a block of memory."""


class Device(Protocol):
    """The interface of a device."""

    @property
    def name(self) -> str:
        """The name of the device in backends and places."""
        ...

    @property
    def xp(self) -> Any:
        """The array module; raises UnsupportedError if it cannot be used on this machine."""
        ...

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """A new uninitialized array."""
        ...

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Any]:
        """A function that allocates such arrays, for repeated use."""
        ...

    def block(self, nbytes: int) -> Carve:
        """Allocate a block of memory, aligned for vector loads; returns its `Carve` function."""
        ...

    def take(self, value: Any) -> Any:
        """The value as an array of the device, without a copy if it is there already."""
        ...

    def to_host(self, array: Any) -> Array:
        """A numpy array with the elements of an array of the device."""
        ...


class HostDevice:
    """The CPU with numpy arrays. A plug-in that simulates a device may derive from it."""

    name = "cpu"
    xp: Any = np

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Like `numpy.empty`, with large blocks from the caching allocator."""
        return self.maker(shape, dtype)()

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """Like `empty`; small arrays bypass the allocator."""
        make = np.empty if prod(shape) * dtype.itemsize < SMALL else allocator.HOST.empty
        return partial(make, shape, dtype)

    def block(self, nbytes: int) -> Carve:
        """A block that starts at a multiple of the alignment."""
        raw = allocator.plain_bytes(nbytes + ALIGNMENT)
        start = -raw.ctypes.data % ALIGNMENT

        def carve(shape: Sequence[int], dtype: np.dtype[Any], offset: int) -> Array:
            return np.ndarray(shape, dtype, raw.data, start + offset)

        return carve

    def take(self, value: Any) -> Array:
        """The value as a numpy array; it is borrowed, not copied."""
        return given_array(value)

    def to_host(self, array: Any) -> Array:
        """The array itself."""
        return array


class CupyDevice:
    """A CUDA device with cupy arrays. Cupy is imported when the device is first used."""

    name = "gpu"

    @cached_property
    def xp(self) -> Any:
        """The cupy module; raises UnsupportedError where it, or a CUDA device, is missing."""
        try:
            cupy = import_module("cupy")
        except ImportError as error:
            raise UnsupportedError(
                "the backend `gpu` needs cupy, which is not installed",
                code="PK0403",
                help="install the extra `pirkit[cuda12]` or `pirkit[cuda13]`, or use backend `cpu`",
            ) from error
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise UnsupportedError(
                f"the backend `gpu` finds no CUDA device: {error}",
                code="PK0403",
                help="use the backend `cpu`",
            ) from error
        if not count:
            raise UnsupportedError(
                "this machine has no CUDA device", code="PK0403", help="use the backend `cpu`"
            )
        return cupy

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Like `cupy.empty`, from cupy's memory pool."""
        return self.xp.empty(shape, dtype)

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Any]:
        """Like `empty`: cupy's pool is a caching allocator."""
        return partial(self.xp.empty, shape, dtype)

    def block(self, nbytes: int) -> Carve:
        """A block from cupy's memory pool."""
        cupy = self.xp
        memory = cupy.cuda.alloc(max(nbytes, 1))

        def carve(shape: Sequence[int], dtype: np.dtype[Any], offset: int) -> Any:
            return cupy.ndarray(shape, dtype, memory + offset)

        return carve

    def take(self, value: Any) -> Any:
        """The value as a cupy array: copied from the host, borrowed from the device."""
        return self.xp.asarray(value)

    def to_host(self, array: Any) -> Array:
        """A copy on the host."""
        return self.xp.asnumpy(array)


HOST = HostDevice()
