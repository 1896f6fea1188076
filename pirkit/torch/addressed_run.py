"""Calls executables of several instructions on memory at given addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


class AddressedRun:
    """The interface of `NativeProgram`, for an executable that is not one native call.

    ``names`` are those of inputs and of results, ``inputs`` and ``results`` their metas.
    """

    def __init__(
        self, executable: Executable, inputs: list[TensorMeta], results: list[TensorMeta]
    ) -> None:
        plan = executable.plan
        self.executable = executable
        self.names = tuple([p.name for p in plan.inputs]), tuple([o.name for o in plan.outputs])
        self.inputs, self.results = tuple(inputs), tuple(results)
        self._metas = (*inputs, *results)
        self._held: list[tuple[int, Array]] = [(-1, np.empty(0))] * len(self._metas)

    @classmethod
    def of(cls, executable: Executable) -> AddressedRun | None:
        """None for an executable with other inputs or outputs than tensors of static shapes.

        None, too, for one that has parameters or writes into inputs.
        """
        plan = executable.plan
        ports = [p.meta for p in (*plan.inputs, *plan.outputs)]
        metas = [m for m in ports if isinstance(m, TensorMeta) and m.is_static]
        if len(metas) < len(ports) or plan.params or plan.written:
            return None
        return cls(executable, metas[: len(plan.inputs)], metas[len(plan.inputs) :])

    def run_at(self, addresses: Sequence[int] | Array) -> None:
        """A call on memory at these addresses: of inputs, then of results.

        As in `NativeProgram.run_at`, nothing is checked. Most addresses, such as those of
        parameters, do not change from call to call, so arrays are made anew only where one does.
        Arrays own nothing: the caller keeps the memory alive until the call returns.
        """
        places = addresses.tolist() if isinstance(addresses, np.ndarray) else addresses
        held = [
            old if old[0] == address else (address, _array_at(address, meta))
            for old, address, meta in zip(self._held, places, self._metas, strict=True)
        ]
        self._held = held
        count = len(self.inputs)
        found = self.executable.run_fed([array for _, array in held[:count]], self.inputs)
        for name, (_, target) in zip(self.names[1], held[count:], strict=True):
            np.copyto(target, found[name])


def _array_at(address: int, meta: TensorMeta) -> Array:
    nbytes = meta.numel * meta.dtype.itemsize
    if not nbytes:
        return np.empty(meta.shape, meta.dtype.np)
    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.ndarray(meta.shape, meta.dtype.np, memory)
