"""Weights in ``.safetensors`` files (https://github.com/huggingface/safetensors), by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
import safetensors
from safetensors import SafetensorError
from safetensors.numpy import save

from pirkit.diag.errors import ArtifactError, UsageError
from pirkit.diag.limits import read_whole
from pirkit.diag.paths import unreadable
from pirkit.diag.span import Span
from pirkit.runtime import dtype as dt
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]

SUFFIX: Final = ".safetensors"

_METADATA: Final = "__metadata__"

_DTYPES: Final[dict[str, DType]] = {
    "BOOL": dt.bool_,
    "U8": dt.uint8,
    "I8": dt.int8,
    "I16": dt.int16,
    "I32": dt.int32,
    "I64": dt.int64,
    "F16": dt.float16,
    "BF16": dt.bfloat16,
    "F32": dt.float32,
    "F64": dt.float64,
    "C64": dt.complex64,
}
"""The format's name of each element type that programs have."""


_deserialize: Final[Callable[[bytes], list[tuple[str, dict[str, Any]]]]] = cast(
    Any, safetensors
).deserialize


def read_safetensors(path: str) -> dict[str, Array]:
    """The arrays of a file by name; bfloat16 included.

    Raises ArtifactError for a missing file (PK0506), for a damaged one, for two arrays of one name
    and for an element type that programs do not have (PK0504).
    """
    try:
        data = read_whole(path)
        held = _deserialize(data)
    except OSError as error:
        raise unreadable(path, error) from error
    except SafetensorError as error:
        raise ArtifactError(
            f"{path} is no usable .safetensors file: {error}", code="PK0504", span=Span(path)
        ) from error
    _check_names(path, data)
    return {name: _array(path, name, tensor) for name, tensor in held}


def _check_names(path: str, data: bytes) -> None:
    """Refuse names that the header has twice; the library keeps one of them."""

    def named(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(entries)
        if len(found) < len(entries):
            names = [name for name, _ in entries]
            name = next(n for n in names if names.count(n) > 1)
            problem = f"{path} has two entries of the name {name!r}"
            raise ArtifactError(problem, code="PK0504", span=Span(path))
        return found

    length = int.from_bytes(data[:8], "little")
    json.loads(data[8 : 8 + length], object_pairs_hook=named)


def _array(path: str, name: str, tensor: Mapping[str, Any]) -> Array:
    dtype = _DTYPES.get(tensor["dtype"])
    if dtype is None:
        raise ArtifactError(
            f"{name!r} in {path} has elements of type {tensor['dtype']}",
            code="PK0504",
            span=Span(path),
            help=f"the types of programs are {', '.join(_DTYPES)}",
        )
    try:
        return np.frombuffer(tensor["data"], dtype.np).reshape(tensor["shape"])
    except (ValueError, OverflowError) as error:  # no elements, but a size that numpy cannot have
        raise ArtifactError(
            f"{name!r} in {path} has the shape {tensor['shape']}: {error}",
            code="PK0504",
            span=Span(path),
        ) from error


def write_safetensors(path: str, arrays: Mapping[str, Array]) -> None:
    """Write named arrays, atomically.

    Raises ArtifactError if that is impossible (PK0506), UsageError for an element type that the
    format does not have, and for the name of its metadata.
    """
    if _METADATA in arrays:
        raise UsageError(
            f"`{_METADATA}` names no tensor of a .safetensors file: its header has the entry",
            help="rename the parameter, or write the weights to .npz",
        )
    for name, array in arrays.items():
        if dt.of_array(array) not in _DTYPES.values():
            raise UsageError(
                f"`{name}` has elements of type {dt.of_array(array)}, which .safetensors lacks",
                help="write the weights to .npz",
            )
    # Not `ascontiguousarray`, which makes a vector of a number of rank 0.
    data = save({name: np.require(array, requirements="C") for name, array in arrays.items()})
    with atomic_write(path) as file:
        file.write(data)
