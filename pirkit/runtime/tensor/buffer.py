"""Buffers of tensors: owner, address range, and version counter."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from msgspec import Struct
from numpy.lib.array_utils import byte_bounds

from pirkit.runtime.place import CPU, Place

Array = np.ndarray[Any, Any]


class Buffer(Struct, eq=False):
    """A memory range shared by a tensor and its views.

    ``owner`` is the object that keeps the memory alive. ``version`` counts the writes through
    tensors, so a write after a tensor was saved can be detected. Tensors created separately from
    one array have separate buffers: only views of a tensor share its version.
    """

    owner: object
    address: int
    nbytes: int
    place: Place = CPU
    writable: bool = True
    version: int = 0

    @classmethod
    def of_array(cls, array: Any) -> Buffer:
        """The buffer of an array: the memory of its base array."""
        if not is_numpy(array):
            return cls._on_device(array)
        root = cast("Array", array)
        while isinstance(root.base, np.ndarray):
            root = cast("Array", root.base)
        low, high = byte_bounds(root) if root.size else (address_of(root), address_of(root))
        owner: object = root if root.base is None else root.base
        return cls(owner, low, high - low, writable=root.flags.writeable)

    @classmethod
    def _on_device(cls, array: Any) -> Buffer:
        root = array
        while root.base is not None:
            root = root.base
        return cls(root, int(root.data.ptr), int(root.nbytes), place_of(array))


def is_numpy(array: Any) -> bool:
    """True for a numpy array; cupy arrays have the same API but are on a GPU."""
    return isinstance(array, np.ndarray)


def address_of(array: Any) -> int:
    """The address of the first element of an array."""
    if is_numpy(array):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def place_of(array: Any) -> Place:
    """The place of an array: the CPU for numpy, else the device of a cupy array."""
    return CPU if is_numpy(array) else Place("gpu", int(array.device.id))


def interface(address: int, nbytes: int) -> dict[str, object]:
    """The description of bytes at an address in numpy's array interface."""
    return {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (address, False)}
