"""Convolutions in groups, in native code: where products of matrices are too small for BLAS."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.convolving import Convolution, convolution
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.numpy.windows import geometry
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

TRANSPOSED: Final = frozenset({"pd_op.conv2d_transpose", "pd_op.conv3d_transpose"})
CONVOLUTIONS: Final = TRANSPOSED | {
    "pd_op.conv2d", "pd_op.conv3d", "pd_op.depthwise_conv2d",
}  # fmt: skip
WORTH: Final = 1 << 20
"""Multiplications of a call from which compiling a kernel for its sizes pays soon."""


def bind_convolution(b: Binding) -> Step | None:
    """What runs a convolution in groups; None for other ones, and for strides beyond 1."""
    groups, turned = b.attrs["groups"], b.op in TRANSPOSED
    first, second, *sizes = b.input(1).shape
    if groups == 1 or b.dtype not in (dt.float32, dt.float64):
        return None
    each, depth = (second, first // groups) if turned else (first // groups, second)
    if b.output().numel * depth * prod(sizes) < WORTH or not b.input().numel:
        return None
    g = geometry(b, sizes, b.attrs["dilations"])
    if g.last or prod(g.strides) != 1:
        return None
    before = g.before
    if turned:
        before = tuple(
            [d * (k - 1) - p for d, k, p in zip(g.dilations, sizes, before, strict=True)]
        )
    if any(p < 0 for p in before):
        return None
    n, sides = b.input().shape[0], (g.lengths, g.sizes, g.positions, g.dilations, before)
    nest = convolution(Convolution(n, groups, each, depth, *sides, b.dtype, turned))
    call, result = native(nest).at_addresses(), b.output()

    def step(x: Array, filter: Array, out: Array) -> None:
        given = [np.ascontiguousarray(a) for a in (x, filter)]
        whole = out if out.flags.c_contiguous else np.empty(result.shape, result.dtype.np)
        call([*map(address_of, given), address_of(whole)])
        if whole is not out:
            out[...] = whole

    return step
