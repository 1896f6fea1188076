"""Inputs and weights drawn from a seed, for programs that have none."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.plan import Port

Array = np.ndarray[Any, Any]

DYNAMIC_DIMENSION: Final = 2
"""Size that is used for a dimension that the program does not determine."""


def random_inputs(ports: Iterable[Port], seed: int, integers: int = 2) -> dict[str, Array]:
    """An input for each port: standard normal numbers, or integers below ``integers``.

    The values depend only on the name and type of the port and on the seed. Raises UsageError for a
    port that is not a tensor.
    """
    return {port.name: _draw(port.name, port.meta, seed, integers) for port in ports}


def random_weights(ports: Iterable[Port], seed: int, integers: int = 2) -> dict[str, Array]:
    """A weight for each port, scaled so that networks compute finite numbers.

    Vectors, which may be variances, are near 1; matrices and filters are scaled by the number of
    terms in their sums. Raises UsageError for a port that is not a tensor.
    """
    drawn = random_inputs(ports, seed, integers)
    return {name: _as_weight(array) for name, array in drawn.items()}


HOSTILE: Final = (0.0, -0.0, 1.0, -1.0, 88.8, 1e-30, np.inf, -np.inf, np.nan)
"""Numbers for which rules of the real numbers fail, or functions are at an edge."""


def with_hostile(arrays: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The arrays with one element in four, if they are floating, from `HOSTILE`."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        found[name] = array
        if array.dtype.kind not in "biu":
            numbers: Array = rng.choice(np.array(HOSTILE), array.shape).astype(array.dtype)
            found[name] = np.where(rng.uniform(size=array.shape) < 0.25, numbers, array)
    return found


def _draw(name: str, meta: Meta, seed: int, integers: int) -> Array:
    if not isinstance(meta, TensorMeta):
        raise UsageError(f"`{name}` is a {meta}, which cannot be drawn; give inputs as a file")
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    shape = tuple(DYNAMIC_DIMENSION if d < 0 else d for d in meta.shape)
    if meta.dtype.kind in ("bool", "int", "uint"):
        return rng.integers(0, integers, shape).astype(meta.dtype.np)
    return np.asarray(rng.standard_normal(shape)).astype(meta.dtype.np)


def _as_weight(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array
    if array.ndim < 2:
        return (np.tanh(array.astype(np.result_type(array, np.float32))) / 2 + 1).astype(
            array.dtype
        )
    terms = prod(array.shape) / max(min(array.shape[:2]), 1)
    return (array / np.sqrt(max(terms, 1))).astype(array.dtype)
