"""Arrays in ``.npz`` and ``.npy`` files: sizes are checked before reading, writes are atomic.

Pickled objects are never read.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from pirkit.diag.errors import ArtifactError
from pirkit.diag.limits import check_unpacked
from pirkit.diag.paths import unreadable
from pirkit.diag.span import Span
from pirkit.frontend.foreign_files import DAMAGE
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.dtype import BY_NAME, DType, bfloat16

Array = np.ndarray[Any, Any]


def read_npz(path: str, dtypes: Mapping[str, str] | None = None) -> dict[str, Array]:
    """The arrays of a ``.npz`` file by name.

    ``dtypes`` names the true dtype of members that numpy cannot store (bfloat16 is stored as its
    bits in uint16). Raises ArtifactError for a file that is missing or must not be read (PK0506),
    and for a damaged one, one with pickled objects, or with two members of one name (PK0507);
    LimitError (PK0302) for a file that unpacks to far more than its own size.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # numpy would read devices and pipes to their end
            raise _damaged(path, "it is no regular file")
        size = status.st_size
        with zipfile.ZipFile(path) as archive:
            check_unpacked(size, sum(i.file_size for i in archive.infolist()), Span(path))
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise _damaged(path, f"it has two arrays of the name {twice[0]!r}")
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: np.asarray(held[name]) for name in held.files}
    except (FileNotFoundError, PermissionError) as error:
        raise unreadable(path, error) from error
    except DAMAGE as error:
        raise _damaged(path, str(error)) from error
    for name, dtype in (dtypes or {}).items():
        if name in arrays:
            arrays[name] = restore(arrays[name], BY_NAME[dtype])
    return arrays


def read_npy(path: str) -> Array:
    """The array of a ``.npy`` file.

    Raises ArtifactError for a file that is missing or must not be read (PK0506), and for a damaged
    one or one of objects (PK0507).
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _damaged(path, "it is no regular file", "npy")
        return np.asarray(np.load(path, allow_pickle=False))
    except (FileNotFoundError, PermissionError) as error:
        raise unreadable(path, error) from error
    except DAMAGE as error:
        raise _damaged(path, str(error), "npy") from error


def restore(array: Array, dtype: DType) -> Array:
    """An array with its true dtype: bfloat16 from its stored bits."""
    return array.view(dtype.np) if dtype is bfloat16 and array.dtype == np.uint16 else array


def write_npz(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; bfloat16 as its bits in uint16. Raises ArtifactError (PK0506)."""
    storable = {
        name: array.view(np.uint16) if array.dtype == bfloat16.np else array
        for name, array in arrays.items()
    }
    # Not `np.savez`, which takes arrays named `file` or `allow_pickle` as its own parameters.
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in storable.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _damaged(path: str, why: str, suffix: str = "npz") -> ArtifactError:
    problem = f"{path} is no usable .{suffix} file: {why}"
    return ArtifactError(problem, code="PK0507", span=Span(path))
