"""Binds convolutions and pools over blocked channels to native code."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pirkit.lowering.codegen.conv.compile_conv import native_nchwc
from pirkit.lowering.whole_program.nchwc import nchwc_conv_of
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]


def bind_nchwc(b: Binding) -> Step | None:
    """Bind a convolution; None for what has no native form. Operands in rows are not copied."""
    try:
        conv = nchwc_conv_of(cast("Any", b.inputs), b.output(), b.attrs)
    except NotNativeError:
        return None
    call, result = native_nchwc(conv).at_addresses(), b.output()

    def step(*operands: Array | None) -> None:
        *given, out = operands
        held = [np.ascontiguousarray(a) for a in given if a is not None]
        assert out is not None
        whole = out if out.flags.c_contiguous else np.empty(result.shape, result.dtype.np)
        call([*map(address_of, held), address_of(whole)])
        if whole is not out:
            out[...] = whole

    return step
