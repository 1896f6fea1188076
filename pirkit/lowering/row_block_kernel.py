"""Row groups (matmuls and row kernels fused by blocks of rows) as native steps of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pirkit.lowering.codegen.matmul.fused_row_blocks import native_rows
from pirkit.lowering.codegen.matmul.row_block_plan import RowBlocks
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.segment import NativeStep

Array = np.ndarray[Any, Any]


def bind_rows(b: Binding) -> NativeStep:
    """Bind a row group."""
    blocks: RowBlocks = b.attrs["blocks"]
    return RowBlockStep(blocks, b.attrs["numbers"], len(b.inputs), b.attrs["results"])


class RowBlockStep(NativeStep):
    """The native function of a row group; operands that it reads precede those that it writes."""

    def __init__(
        self,
        blocks: RowBlocks,
        numbers: tuple[int, ...],
        inputs: int,
        results: tuple[TensorMeta, ...],
    ) -> None:
        self.function, self.numbers = native_rows(blocks), numbers
        self.inputs, self.results = inputs, results
        self.outputs = {inputs + k: k for k in range(len(results))}

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        return LaunchPart((LaunchFunction(self.function, self.numbers),))

    def error(self, flag: int) -> Exception:
        raise IndexError(flag)
