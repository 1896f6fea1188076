"""Row groups (matmuls and row kernels fused by blocks of rows) as native steps of a plan."""

from __future__ import annotations

from pirkit.lowering.codegen.matmul.fused_row_blocks import native_rows
from pirkit.lowering.sequence_step import SequenceStep, step_of
from pirkit.runtime.binding import Binding


def bind_rows(b: Binding) -> SequenceStep:
    """Bind a row group; operands that it reads precede those that it writes."""
    function, results = native_rows(b.attrs["blocks"]), b.attrs["results"]
    return step_of(function, b.attrs["numbers"], len(b.inputs), results)
