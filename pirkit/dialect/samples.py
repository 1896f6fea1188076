"""Sample calls of ops, from which the tests of the op table are generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from pirkit.dialect.opdef import OpDef
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np


class Sample(Struct, frozen=True):
    """One call of an op: arrays (lists, None) by position, attributes by keyword."""

    args: tuple[Array | list[Array] | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])


class SampleMaker:
    """Draws the arrays of samples for one op and one dtype, from a fixed seed."""

    def __init__(self, definition: OpDef, dtype: DType, seed: int = 0) -> None:
        self.definition = definition
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)

    def __call__(self, *args: Array | list[Array] | None, **attrs: Any) -> Sample:
        """A sample; attributes left out take their defaults."""
        return Sample(args, attrs)

    def tensor(
        self,
        *shape: int,
        dtype: DType | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Array:
        """A random tensor of the current dtype (or ``dtype``), uniform over the op's domain."""
        dtype = dtype or self.dtype
        low = self.definition.domain[0] if low is None else low
        high = self.definition.domain[1] if high is None else high
        if dtype.kind == "bool":
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_integer:
            low = max(low, 0) if dtype.kind == "uint" else low
            return np.asarray(self.rng.integers(int(low), int(high) + 1, shape)).astype(dtype.np)
        values = self.rng.uniform(low, high, shape)
        if dtype.is_complex:
            values = values + 1j * self.rng.uniform(low, high, shape)
        return np.asarray(values).astype(dtype.np)

    def ints(self, shape: Sequence[int], low: int, high: int, dtype: DType = dt.int64) -> Array:
        """Random integers in [low, high)."""
        return np.asarray(self.rng.integers(low, high, tuple(shape))).astype(dtype.np)

    def bools(self, *shape: int) -> Array:
        return np.asarray(self.rng.integers(0, 2, shape)).astype(np.bool_)

    def array(self, values: Any, dtype: DType | None = None) -> Array:
        """The given values as a tensor of the current dtype (or ``dtype``)."""
        return np.asarray(values).astype((dtype or self.dtype).np)
