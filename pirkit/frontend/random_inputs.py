"""Inputs and weights drawn from a seed, for programs that have none."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeVar

import numpy as np

from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.plan import Port

Array = np.ndarray[Any, Any]
T = TypeVar("T")

DYNAMIC_DIMENSION: Final = 2
"""Size that is used for a dimension that the program does not determine."""

_BITS: Final = range(2)
Integers = range | Mapping[str, range]
"""The range of random integers, or one by the name of a port; other ports have 0 and 1."""
RANGES: Final[Sequence[Integers]] = (range(4), _BITS, range(1))
"""Ranges of random integers, in the order in which checks try them: some are indices."""


def on_draws(run: Callable[[Integers], T], seed: int, ranges: Sequence[Integers] = RANGES) -> T:
    """The result of ``run`` for the first range of random integers that the program accepts.

    Raises the first RuntimeFault of ``run`` if it raises one for each range.
    """
    error: RuntimeFault | None = None
    for integers in ranges:
        try:
            return run(integers)
        except RuntimeFault as fault:
            error = error or fault
    assert error is not None
    error.notes = (*error.notes, f"run on random inputs of seed {seed}")
    raise error


def random_inputs(ports: Iterable[Port], seed: int, integers: Integers = _BITS) -> dict[str, Array]:
    """An input for each port: standard normal numbers, or integers of ``integers``.

    The last integer of a port is the largest one: indices reach the end of an axis, and loops whose
    number of iterations is an input repeat. The values depend only on the name and type of the port
    and on the seed. Raises UsageError for a port that is not a tensor.
    """
    if isinstance(integers, range):
        return {p.name: _draw(p.name, p.meta, seed, integers) for p in ports}
    return {p.name: _draw(p.name, p.meta, seed, integers.get(p.name, _BITS)) for p in ports}


def random_weights(
    ports: Iterable[Port], seed: int, integers: Integers = _BITS
) -> dict[str, Array]:
    """A weight for each port, scaled so that networks compute finite numbers.

    Vectors, which may be variances, are near 1; matrices and filters are scaled by the number of
    terms in their sums. Raises UsageError for a port that is not a tensor.
    """
    drawn = random_inputs(ports, seed, integers)
    return {name: _as_weight(array) for name, array in drawn.items()}


HOSTILE: Final = (0.0, -0.0, 1.0, -1.0, 88.8, 1e-30, np.inf, -np.inf, np.nan)
"""Numbers for which rules of the real numbers fail, or functions are at an edge."""


def with_hostile(arrays: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The arrays, of whose floating elements about one in four is replaced by one of `HOSTILE`."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        found[name] = array
        if array.dtype.kind not in "biu":
            numbers: Array = rng.choice(np.array(HOSTILE), array.shape).astype(array.dtype)
            chosen = np.asarray(rng.uniform(size=array.shape) < 0.25, np.bool_)
            found[name] = np.where(chosen, numbers, array)
    return found


def _draw(name: str, meta: Meta, seed: int, integers: range) -> Array:
    if not isinstance(meta, TensorMeta):
        raise UsageError(f"`{name}` is a {meta}, which cannot be drawn",
                         help="give inputs as a file")  # fmt: skip
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    shape = tuple(DYNAMIC_DIMENSION if d < 0 else d for d in meta.shape)
    if meta.dtype.kind in ("bool", "int", "uint"):
        drawn = rng.integers(integers.start, integers.stop, shape).astype(meta.dtype.np)
        # The last index of an axis is where bounds are off by one.
        drawn.reshape(-1)[-1:] = integers.stop - 1
        return drawn
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
