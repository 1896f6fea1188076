"""A kernel for the new op, a library that replaces a built-in kernel, and a simulated device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.device import HostDevice
from pirkit.runtime.registry import Backend, Registry

Array = np.ndarray[Any, Any]


class Simulator(HostDevice):
    """A device whose memory is the host's, to try a compiler without the hardware."""

    name = "simulator"


def extend(registry: Registry) -> None:
    """Called once, when pirkit first looks for kernels."""
    registry.kernel("fma.multiply_add", dtypes=dt.FLOATS, inplace={"out": "z"})(multiply_add)
    registry.add_device(Simulator())
    registry.add_backend(Backend("simulator", device="simulator"))
    registry.kernel("tanh", backend="simulator", dtypes=(dt.float32,))(tanh)


def multiply_add(b: Binding) -> Step:
    """``x * y + z`` through one scratch array."""
    product = b.workspace(b.output().shape)
    multiply, add = b.xp.multiply, b.xp.add

    def step(x: Array, y: Array, z: Array, out: Array) -> None:
        multiply(x, y, product)
        add(product, z, out)

    return step


def tanh(b: Binding) -> Step:
    """The simulator counts what runs on it."""

    def step(x: Array, out: Array) -> None:
        CALLS.append("tanh")
        np.tanh(x, out)

    return step


CALLS: list[str] = []
