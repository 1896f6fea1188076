"""A StableHLO module as it is parsed: functions, blocks and nodes, with types and locations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

DTYPES: Final[Mapping[str, DType]] = {
    "i1": dt.bool_, "i8": dt.int8, "i16": dt.int16, "i32": dt.int32, "i64": dt.int64,
    "ui8": dt.uint8, "ui16": dt.int16, "ui32": dt.int32, "ui64": dt.int64,
    "f16": dt.float16, "bf16": dt.bfloat16, "f32": dt.float32, "f64": dt.float64,
    "complex<f32>": dt.complex64, "complex<f64>": dt.complex128,
}  # fmt: skip
"""Element types. Signed integers of the same bits stand for unsigned ones of 16 bits and more."""


class Tensor(NamedTuple):
    """The type of a tensor: sizes, None for an unknown one, and the element type as in the text."""

    shape: tuple[int | None, ...]
    element: str

    @property
    def dtype(self) -> DType:
        return DTYPES[self.element]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a type whose sizes are all known."""
        return tuple([n for n in self.shape if n is not None])

    @property
    def is_unsigned(self) -> bool:
        """Whether signed integers stand for unsigned ones."""
        return self.element in ("ui16", "ui32", "ui64")

    def __str__(self) -> str:
        sizes = "".join(["?x" if n is None else f"{n}x" for n in self.shape])
        return f"tensor<{sizes}{self.element}>"


class Place(NamedTuple):
    """A line and a column of a file."""

    file: str
    line: int
    column: int


class Dense(NamedTuple):
    """A constant: its elements, or an array of rank 0 that stands for all, and its type."""

    array: np.ndarray[Any, Any]
    type: Tensor


@dataclass(slots=True)
class Node:
    """One operation. ``attributes`` are Python values by the names of the generic form.

    ``operands`` and ``results`` are names of values; ``line`` is that of the text.
    """

    name: str
    line: int
    operands: list[str] = field(default_factory=list[str])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    regions: list[Block] = field(default_factory=list["Block"])
    given: list[Tensor] | None = None
    """The types of the operands, if the text states them."""
    types: list[Tensor] = field(default_factory=list[Tensor])
    results: list[str] = field(default_factory=list[str])
    location: str | None = None


@dataclass(slots=True)
class Block:
    """The arguments and nodes of a region or a function; the last node is the return."""

    names: list[str] = field(default_factory=list[str])
    types: list[Tensor] = field(default_factory=list[Tensor])
    labels: list[str | None] = field(default_factory=list[str | None])
    """The locations of the arguments; in `main` they are the names of the Python arguments."""
    nodes: list[Node] = field(default_factory=list[Node])


@dataclass(slots=True)
class Function:
    """A function of the module; ``types`` are those of its results."""

    name: str
    body: Block
    types: list[Tensor]
    labels: list[str | None]
    """The names that jax gives the results, such as ``result['loss']``."""
    line: int


@dataclass(slots=True)
class Module:
    """The functions by name; ``places`` are the aliases of locations."""

    functions: dict[str, Function]
    places: Mapping[str, str]
    file: str
