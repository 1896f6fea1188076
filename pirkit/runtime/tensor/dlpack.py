"""Zero-copy exchange of arrays with other frameworks by DLPack.

Numpy creates and reads the capsules, including ownership. It does not support the element types of
``ml_dtypes``, so these are passed as unsigned integers of the same width, and the type in the
capsule is rewritten before the consumer sees it.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ArgumentError, UnsupportedError
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.buffer import Array

VERSION: Final = (1, 0)
"""The newest supported version of the protocol, the first with a read-only flag."""

CPU_DEVICE: Final = (1, 0)
_HOST_KINDS: Final = (1, 3)
"""Ordinary and pinned memory of the CPU."""

_UINT: Final = 1
_EXTRA_TYPES: Final = {
    (4, 16): dt.bfloat16.np,
    (10, 8): dt.float8_e4m3fn.np,
    (12, 8): dt.float8_e5m2.np,
}
"""From (code, bits) in a capsule to the dtypes that numpy does not support."""
_EXTRA_CODES: Final = {dtype: key for key, dtype in _EXTRA_TYPES.items()}
_CARRIERS: Final = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_LEGACY_NAME: Final = b"dltensor"
_VERSIONED_NAME: Final = b"dltensor_versioned"

_is_capsule: Final = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes, _is_capsule.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer: Final = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


def _described(capsule: object) -> _Tensor | None:
    """The tensor struct in an unused capsule, by reference; None for anything else."""
    if _is_capsule(capsule, _VERSIONED_NAME):
        address = cast(int, _pointer(capsule, _VERSIONED_NAME))
        return _Tensor.from_address(address + _Versioned.tensor.offset)
    if _is_capsule(capsule, _LEGACY_NAME):
        return _Tensor.from_address(cast(int, _pointer(capsule, _LEGACY_NAME)))
    return None


def export(
    array: Array,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """A capsule for an array of the CPU, with the arguments of ``__dlpack__``.

    Memory is shared unless the consumer could misread it: strides that are negative or not a
    multiple of the element size (some consumers abort), or read-only memory with a protocol version
    without the read-only flag. Then it is copied, or BufferError is raised if ``copy`` is False.
    """
    versioned = max_version is not None and tuple(max_version) >= VERSION
    if not _readable_by_all(array) or not (array.flags.writeable or versioned):
        if copy is False:
            raise BufferError("the consumer cannot share this memory: strides or read-only")
        copy = True
    if copy and not versioned:  # no flag to set, and numpy refuses read-only arrays here
        array, copy = array.copy(), None
    extra = _EXTRA_CODES.get(array.dtype)
    carried = array if extra is None else array.view(_CARRIERS[array.itemsize])
    capsule = carried.__dlpack__(
        stream=cast(Any, stream),
        max_version=VERSION if versioned else None,
        dl_device=cast(Any, dl_device),
        copy=copy,
    )
    described = _described(capsule)
    if extra is not None and described is not None:
        described.dtype.code, described.dtype.bits = extra
    return capsule


def _readable_by_all(array: Array) -> bool:
    return array.flags.aligned and all(
        step >= 0 and step % array.itemsize == 0 for step in array.strides
    )


def read(producer: Any, copy: bool | None = None) -> Any:
    """The array of a producer (or a bare capsule): numpy's, or cupy's for a GPU.

    It shares the producer's memory and keeps it alive, unless ``copy`` is True. An array of
    read-only memory is read-only, and so is one from a capsule without the read-only flag. Raises
    UsageError for an object that is no producer, UnsupportedError for unsupported element types;
    BufferError comes from the producer (a tensor that requires gradients, ``copy=False``).
    """
    capsule = producer
    if hasattr(producer, "__dlpack__"):
        if producer.__dlpack_device__()[0] not in _HOST_KINDS:
            return _read_on_device(producer, copy)
        capsule = _requested(producer, copy)
    described = _described(capsule)
    if described is None:
        raise ArgumentError(
            f"`{type(producer).__name__}` has no `__dlpack__`, and is no unused DLPack capsule",
            help="pass an array of numpy, torch, cupy or jax",
        )
    if described.device.kind not in _HOST_KINDS:
        raise UnsupportedError(
            "a bare capsule of a GPU", help="pass the tensor that made the capsule instead"
        )
    type_code = (described.dtype.code, described.dtype.bits)
    extra = _EXTRA_TYPES.get(type_code)
    if extra is not None:
        described.dtype.code = _UINT
    try:
        array = np.from_dlpack(_Carrier(capsule))
    except RuntimeError as error:
        raise UnsupportedError(
            f"DLPack elements of code {type_code[0]} with {type_code[1]} bits", notes=(str(error),)
        ) from error
    array = array if extra is None else array.view(extra)
    return array.copy() if copy else array


def _requested(producer: Any, copy: bool | None) -> object:
    wishes: dict[str, Any] = {"max_version": VERSION}
    if copy is False:
        wishes["copy"] = False
    try:
        return producer.__dlpack__(**wishes)
    except TypeError:  # written before version 1.0 of the protocol
        return producer.__dlpack__()


def _read_on_device(producer: Any, copy: bool | None) -> Any:
    if find_spec("cupy") is None:
        raise UnsupportedError(
            f"a tensor on DLPack device {tuple(producer.__dlpack_device__())}, without cupy",
            help="install the extra `gpu`, or copy the tensor to the CPU first",
        )
    array = import_module("cupy").from_dlpack(producer)
    return array.copy() if copy else array


class _Carrier:
    """A producer that passes an already inspected capsule to numpy."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_wishes: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return CPU_DEVICE
