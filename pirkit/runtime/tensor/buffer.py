"""The memory behind tensors: whose it is, and how often it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from pirkit.runtime.place import CPU, Place

Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class Buffer:
    """A stretch of memory that tensors share.

    ``owner`` is the object that keeps the memory alive. ``version`` counts the writes made through
    tensors, so whoever saved a tensor can tell whether it was written since. Tensors made
    separately from one array have a buffer each: only views of a tensor share its count.
    """

    owner: object
    address: int
    nbytes: int
    place: Place = CPU
    writable: bool = True
    version: int = 0

    @classmethod
    def of_array(cls, array: Any) -> Buffer:
        """The memory that an array lies in, up to the bounds of the array it is a view of."""
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
    """True for an array of the CPU; those of cupy look the same, but live elsewhere."""
    return isinstance(array, np.ndarray)


def address_of(array: Any) -> int:
    """Where the first element of an array is."""
    if is_numpy(array):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def place_of(array: Any) -> Place:
    """Where an array lives: numpy's on the CPU, cupy's on their device."""
    return CPU if is_numpy(array) else Place("gpu", int(array.device.id))


class _Borrowed:
    """Foreign memory, as numpy asks for it. Arrays made of it hold it, and so the owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, owner: object, writable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = interface(address, nbytes, writable)


def interface(address: int, nbytes: int, writable: bool = True) -> dict[str, object]:
    """Bytes at an address, in the words of numpy's array interface."""
    return {
        "version": 3,
        "typestr": "|u1",
        "shape": (nbytes,),
        "data": (address, not writable),
    }


def borrow(address: int, nbytes: int, owner: object, *, writable: bool = False) -> Array:
    """The bytes at an address as an array that keeps their owner alive and copies nothing.

    The caller vouches that the memory is readable for as long as ``owner`` lives.
    """
    return np.asarray(_Borrowed(address, nbytes, owner, writable))
