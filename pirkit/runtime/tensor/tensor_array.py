"""Tensor arrays: growing lists of tensors, as loops of programs use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.tensor.dense import DenseTensor


class TensorArray:
    """Tensors by index; writing beyond the end extends the array.

    Raises RuntimeFault (PK0904) for reading an index that was not written.
    """

    __slots__ = ("_items",)

    kind: ClassVar[str] = "array"

    def __init__(self, items: Iterable[DenseTensor] = ()) -> None:
        self._items: list[DenseTensor | None] = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[DenseTensor]:
        return (self.read(i) for i in range(len(self)))

    def write(self, index: int, tensor: DenseTensor) -> None:
        """Store a tensor at an index."""
        if index < 0:
            raise RuntimeFault(f"a tensor array has no index {index}", code="PK0904")
        self._items += [None] * (index + 1 - len(self._items))
        self._items[index] = tensor

    def read(self, index: int) -> DenseTensor:
        """The tensor at an index."""
        found = self._items[index] if 0 <= index < len(self._items) else None
        if found is None:
            raise RuntimeFault(
                f"index {index} of a tensor array of length {len(self)} was not written",
                code="PK0904",
            )
        return found

    def push(self, tensor: DenseTensor) -> None:
        """Append a tensor."""
        self._items.append(tensor)

    def pop(self) -> DenseTensor:
        """Remove and return the last tensor."""
        found = self.read(len(self._items) - 1)
        self._items.pop()
        return found

    def stack(self, axis: int = 0) -> DenseTensor:
        """All tensors stacked along a new axis."""
        return DenseTensor(np.stack([t.array for t in self], axis))

    def concat(self, axis: int = 0) -> DenseTensor:
        """All tensors concatenated along an existing axis."""
        return DenseTensor(np.concatenate([t.array for t in self], axis))
