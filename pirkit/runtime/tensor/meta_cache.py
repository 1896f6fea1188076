"""Interned metas: one object for each shape and element type of live tensors."""

from __future__ import annotations

from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.forks import renewed
from pirkit.diag.shown import shown
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

DTypeLike = DType | str | np.dtype[Any] | type[Any]
"""An element type, its name, or numpy's spelling of it."""

_Key = tuple[tuple[int, ...], np.dtype[Any]]

_RECENT_LIMIT: Final = 1024
_RECENT: Final[dict[_Key, TensorMeta]] = {}
_LIVE: Final[WeakValueDictionary[_Key, TensorMeta]] = WeakValueDictionary()
_LOCK: Final = renewed(Lock())


def meta_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorMeta:
    """The meta of arrays of that shape and numpy dtype.

    While a meta is alive, equal calls return the same object, so a cache may use ``id(meta)`` as a
    key if its entry references the meta. Raises UnsupportedError for an unsupported dtype.
    """
    meta = _RECENT.get((shape, dtype))
    return meta if meta is not None else _interned((shape, dtype))


def _interned(key: _Key) -> TensorMeta:
    with _LOCK:
        meta = _LIVE.get(key)
        if meta is None:
            meta = _LIVE[key] = TensorMeta(key[0], element_type(key[1]))
        if len(_RECENT) >= _RECENT_LIMIT:
            _RECENT.clear()
        _RECENT[key] = meta
    return meta


def element_type(dtype: DTypeLike) -> DType:
    """The element type of a name, also of a short one of numpy's (``f4``), or of a numpy dtype.

    Raises UnsupportedError for other dtypes: strings, objects, swapped byte order.
    """
    if isinstance(dtype, DType):
        return dtype
    try:
        found = dt.BY_NAME.get(dtype) if isinstance(dtype, str) else None
        found = found or dt.of_numpy(np.dtype(dtype))
    except (TypeError, ValueError, SyntaxError, RecursionError):
        found = None
    if found is None or found not in dt.ALL:
        raise UnsupportedError(
            f"no tensor has elements of type `{shown(dtype, str)}`",
            help=f"element types are {', '.join(map(str, dt.ALL))}",
        )
    return found
