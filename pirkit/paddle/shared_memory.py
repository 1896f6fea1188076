"""Tensors of Paddle and of pirkit over the same memory; nothing here copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.diag.errors import ArgumentError
from pirkit.paddle.libpaddle import paddle
from pirkit.runtime.tensor.conversion import from_dlpack
from pirkit.runtime.tensor.dense import DenseTensor

Array = np.ndarray[Any, Any]


def shared(tensor: Any) -> DenseTensor:
    """A tensor of pirkit over the memory of Paddle's.

    Raises ArgumentError (PK0701) for a tensor on another device than the CPU.
    """
    if not tensor.place.is_cpu_place():
        raise ArgumentError(
            f"`{tensor.name}` is on {tensor.place}, and pirkit.paddle runs on the CPU",
            help="`paddle.set_device('cpu')` before the layer is made",
        )
    return from_dlpack(tensor.detach())


def array_of(tensor: Any) -> Array:
    """An array over the memory of Paddle's tensor."""
    return shared(tensor).array


def given_back(tensor: DenseTensor) -> Any:
    """A tensor of Paddle over the memory of pirkit's."""
    return paddle.from_dlpack(tensor)


class Weights:
    """Tensors of pirkit over Paddle's parameters, made anew where Paddle has moved the memory.

    They are kept from step to step, because a tensor of pirkit counts the writes to its memory.
    """

    def __init__(self, tensors: list[Any]) -> None:
        self.tensors = tensors
        self._held: list[tuple[int, DenseTensor] | None] = [None] * len(tensors)

    def now(self) -> list[DenseTensor]:
        """One tensor for each parameter."""
        found: list[DenseTensor] = []
        for i, tensor in enumerate(self.tensors):
            if isinstance(tensor, DenseTensor):  # one that Paddle never filled
                found.append(tensor)
                continue
            held, place = self._held[i], tensor.data_ptr()
            if held is None or held[0] != place:
                held = self._held[i] = (place, shared(tensor))
            found.append(held[1])
        return found
