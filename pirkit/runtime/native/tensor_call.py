"""Calls of native programs that give tensors, as C functions of Python (see `tensor_call_ir`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final
from weakref import ref

import numpy as np

from pirkit.diag.once import once
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import array_maker
from pirkit.runtime.native.program_ir import ITEMS
from pirkit.runtime.native.tensor_call_ir import KEPT, PYTHON
from pirkit.runtime.tensor.buffer import Buffer
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import meta_of

TensorCall = Callable[..., "tuple[DenseTensor, ...] | None"]
"""Takes arrays and tensors; None, and nothing has run, where they are not as they should be."""

MOST_KEPT: Final = 1 << 14
"""Bytes of the largest results that are kept: larger ones take longer than their allocation."""

_FASTCALL: Final = 0x80
_KEYWORDS: Final = 0x2
_NEW_ARRAY: Final = 94
"""The place of `PyArray_NewFromDescr` in the table of numpy's C API, the same since numpy 1.7."""

_New: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3,
    ctypes.c_int, ctypes.c_void_p,
)  # fmt: skip


class Method(ctypes.Structure):
    """`PyMethodDef`: it has to live as long as all functions made of it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def method(address: int, *, keywords: bool = False) -> Method:
    """The description of the native function at an address."""
    return Method(b"call", address, _FASTCALL | keywords * _KEYWORDS, None)


def c_function(
    described: Method, header: np.ndarray[Any, Any], owned: object = None
) -> Callable[..., Any]:
    """A native function with the words of a header, which it keeps alive as it does ``owned``."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return make(ctypes.addressof(described), header, owned)


@once
def functions() -> dict[str, int]:
    """Addresses of the functions that a tensor call needs, by word of the header; empty where one
    is missing, or numpy's does not do what it should."""
    try:
        table = _numpy_table()
        found = {n: _address(getattr(ctypes.pythonapi, f)) for n, f in PYTHON.items()}
    except (AttributeError, ImportError, ValueError):
        return {}
    new = ctypes.c_size_t.from_address(table + 8 * _NEW_ARRAY).value
    return found | {"new_array": new, "none": id(None)} if _makes_arrays(new) else {}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _numpy_table() -> int:
    module = import_module("numpy._core._multiarray_umath")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_size_t, [ctypes.py_object, ctypes.c_char_p]
    return get(module._ARRAY_API, None)


def _makes_arrays(new: int) -> bool:
    dtype = np.dtype(np.float32)
    extents = (ctypes.c_int64 * 2)(2, 3)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the function takes a reference
    made = _New(new)(id(np.ndarray), id(dtype), 2, ctypes.addressof(extents), None, None, 0, None)
    return type(made) is np.ndarray and made.shape == (2, 3) and made.dtype is dtype


@cache
def tensor_slots() -> dict[str, int]:
    """The offsets of a tensor's fields, in bytes, by word of the header; empty if they are unknown,
    or where lists or references are not as CPython has them."""
    array, meta, buffer = np.zeros(1), meta_of((1,), np.dtype(np.float64)), Buffer(None, 1, 2)
    tensor = DenseTensor(array, buffer, meta)
    weak = ref(tensor)
    words = (ctypes.c_size_t * (DenseTensor.__basicsize__ // 8)).from_address(id(tensor))
    wanted = {"slot": array, "meta_slot": meta, "buffer_slot": buffer}
    found = {n: [8 * k for k, word in enumerate(words) if word == id(o)] for n, o in wanted.items()}
    # From Python 3.12 on the list of weak references lies in front of the object.
    weak_slot = DenseTensor.__weakrefoffset__
    listed = [tensor, array]
    items = ctypes.c_size_t.from_address(id(listed) + ITEMS).value
    known = (
        [*(ctypes.c_size_t * 2).from_address(items)] == [id(tensor), id(array)]
        and ctypes.c_size_t.from_address(id(tensor) + weak_slot).value == id(weak)
        and _counted(words, tensor)
        and all(len(at) == 1 for at in found.values())
    )
    return {"weak_slot": weak_slot} | {n: at for n, (at,) in found.items()} if known else {}


def _counted(words: Any, thing: Any) -> bool:
    """Whether the first word of an object is the number of references to it."""
    before = words[0]
    others = [thing, thing]
    return words[0] == before + len(others)


def is_small(meta: TensorMeta) -> bool:
    """Whether results like that are kept for later calls."""
    return meta.numel * meta.dtype.itemsize <= MOST_KEPT


class Recipes:
    """How the results of a program are made, in words (`RECIPE`), and those of earlier calls."""

    def __init__(self, metas: Sequence[TensorMeta]) -> None:
        words: list[int] = []
        self.owned: list[Any] = []
        for meta in metas:
            maker = array_maker(meta)
            extents = (ctypes.c_int64 * max(meta.rank, 1))(*meta.shape)
            held = meta_of(meta.shape, meta.dtype.np)
            large = 0 if maker.func is np.empty else id(maker)
            kept, dtype = is_small(meta), meta.dtype.np
            words += [large, id(dtype), meta.rank, ctypes.addressof(extents), id(held), kept]
            self.owned += [maker, dtype, extents, held]
        self.words = (ctypes.c_size_t * max(len(words), 1))(*words)
        self.room = (ctypes.c_size_t * max(2 * len(metas), 1))()
        """Room for the addresses of the arrays and tensors of a call."""
        self.keeps: list[Any] = [None] * max(KEPT * len(metas), 1)
        """Tensors of earlier calls, which native code replaces."""
