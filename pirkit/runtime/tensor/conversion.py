"""Tensors from Python values, from numpy and from other frameworks."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import CallError, InputError
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import DType
from pirkit.runtime.given_arrays import refuse_mask
from pirkit.runtime.place import CPU, Place
from pirkit.runtime.tensor import array_api, dlpack
from pirkit.runtime.tensor.buffer import Array
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type

_DEFAULTS: Final = {dt.float64: dt.float32, dt.complex128: dt.complex64}
"""From numpy's default element types of Python numbers to Paddle's."""


def tensor(data: Any, dtype: DTypeLike | None = None, place: Place | str = CPU) -> DenseTensor:
    """A tensor with a copy of the data: numbers, nested lists of them, an array, or a tensor.

    Without ``dtype``, arrays keep theirs; Python's floats become float32, integers int64, complex
    numbers complex64. Raises InputError for ragged lists, UnsupportedError for other elements,
    ArgumentError for a masked array.
    """
    array = _copied(data)
    held = element_type(array.dtype)
    wanted = _wanted(data, held) if dtype is None else element_type(dtype)
    return DenseTensor(convert(array, wanted)).to(place)


def _copied(data: Any) -> Array:
    if hasattr(data, "__dlpack_device__") and not isinstance(data, np.ndarray | DenseTensor):
        return from_dlpack(data, copy=True).numpy()
    if isinstance(data, np.ndarray):
        refuse_mask(data)
    try:
        return np.array(cast(Any, data))
    except TypeError:  # numpy cannot read tensors of bfloat16 in a list
        return np.array(array_api.unwrap(data))
    except ValueError as error:
        raise InputError(
            f"no tensor can be made of these values: {error}",
            help="a tensor is made of numbers, or of lists of numbers that are equally long",
        ) from error


def _wanted(data: Any, held: DType) -> DType:
    """The element type of arrays, also in lists; for Python's numbers the default of Paddle."""
    first: Any = data
    while isinstance(first, list | tuple) and first:
        first = cast("list[Any]", first)[0]
    return held if hasattr(cast(Any, first), "dtype") else _DEFAULTS.get(held, held)


def from_numpy(array: Array) -> DenseTensor:
    """A tensor that shares an array's memory; it is read-only if the array is.

    Raises UnsupportedError for unsupported element types, ArgumentError for a masked array.
    """
    refuse_mask(array)
    if not isinstance(cast(object, array), np.ndarray):
        raise CallError(
            f"`from_numpy` takes a numpy array, not a {type(array).__name__}",
            help="`pirkit.tensor(data)` copies numbers and lists",
        )
    element_type(array.dtype)
    return DenseTensor(np.asarray(array))


def from_dlpack(
    x: Any, /, *, device: Place | str | None = None, copy: bool | None = None
) -> DenseTensor:
    """A tensor that shares the memory of another framework's tensor, and keeps it alive.

    ``copy=True`` always copies, ``copy=False`` never (BufferError if a copy is needed). Raises
    UsageError for an object without DLPack support, UnsupportedError for unsupported element types.
    """
    made = DenseTensor(dlpack.read(x, copy))
    element_type(made.array.dtype)
    device = Place(device) if isinstance(device, str) else device
    if device is None or device == made.place:
        return made
    if copy is False:
        raise BufferError(f"a tensor on {made.place} cannot be shared with {device}")
    return made.to(device)
