"""Binds convolutions and pools over blocked channels to native code."""

from __future__ import annotations

from typing import Any, cast

from pirkit.lowering.codegen.conv.compile_conv import native_nchwc, native_winograd
from pirkit.lowering.sequence_step import SequenceStep, step_over
from pirkit.lowering.whole_program.nchwc import nchwc_conv_of, winograd_conv_of
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime.binding import Binding


def bind_nchwc(b: Binding) -> SequenceStep | None:
    """Bind a convolution; None for what has no native form. Operands in rows are not copied."""
    try:
        conv = nchwc_conv_of(cast("Any", b.inputs), b.output(), b.attrs)
    except NotNativeError:
        return None
    return step_over(b, native_nchwc(conv))


def bind_winograd(b: Binding) -> SequenceStep | None:
    """The same in Winograd's domain."""
    try:
        conv = winograd_conv_of(cast("Any", b.inputs), b.output(), b.attrs)
    except NotNativeError:
        return None
    return step_over(b, native_winograd(conv))
