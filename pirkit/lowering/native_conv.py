"""Binds convolutions to native code: blocked implicit GEMM, a weight-gradient kernel, or a loop
nest for grouped convolutions with few channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from pirkit.dialect.kinds import TRANSPOSED
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.conv.compile_conv import (
    native_blocked_conv,
    native_weight_grad,
    sparing_padding,
)
from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem
from pirkit.lowering.codegen.conv.conv_weight_grad import WeightGrad, dense_strides
from pirkit.lowering.codegen.conv.direct_conv import convolution
from pirkit.lowering.codegen.conv.transposed_conv_phases import (
    ConvSizes,
    conv_phases,
    transposed_conv_phases,
)
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.sequence_step import SequenceStep, step_over
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALF_TYPES, Binding, Step, widened
from pirkit.runtime.kernels.numpy.windows import CHANNELS_LAST, channels_first, geometry
from pirkit.runtime.native.function import NativeSequence
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

MIN_MULTIPLICATIONS: Final = 1 << 12
"""Smallest number of multiplications of a call for which compiling a specialized kernel pays.

Measured on captured networks: calls of 4,320 to 31,104 multiplications are 5 to 10 times as fast as
the numpy kernel, or the reference rule for groups and transposed ones, for 0.03 s of compile time.
"""

MIN_CHANNELS: Final = 8
MAX_NEST_TERMS: Final = 16
"""Filters or channels per group below which the register tiles of a GEMM are mostly empty, and
terms of a sum up to which filling a panel for them costs more than a nest's predicated loads."""

MAX_DEPTHWISE_TERMS: Final = 64
"""The same of depthwise convolutions without strides, whose register tiles are a single filter,
with 32 registers of 512 bits (Zen 4, 96 channels of 112 x 112, 5x5: 1.14 ms, blocked 1.45)."""

MAX_PHASES: Final = 1 << 12
"""Phases of a transposed convolution, each of which is a function of its own."""


def bind_convolution(b: Binding) -> Step | None:
    """Bind a convolution; None for small ones and those without native form.

    float16 and bfloat16 operands are computed in float32. Images whose channels are the last
    dimension are copied before and after: native code has them in front.
    """
    first = _channels_first(b)
    step = (widened(_bind) if b.dtype in HALF_TYPES else _bind)(first)
    if step is None or first is b:
        return step

    def copied(x: Array, filter: Array, out: Array) -> None:
        step(channels_first(x, True), filter, channels_first(out, True))

    return copied


def _channels_first(b: Binding) -> Binding:
    """The same convolution of images whose channels are dimension 1."""
    if b.attrs["data_format"] not in CHANNELS_LAST:
        return b
    x, out = b.input(), b.output()
    x, out = (m.with_shape((m.shape[0], m.shape[-1], *m.shape[1:-1])) for m in (x, out))
    attrs = {**b.attrs, "data_format": "NCHW"}
    return replace(b, inputs=(x, *b.inputs[1:]), outputs=(out,), attrs=attrs)


def why_never_native(b: Binding) -> str | None:
    """Why a convolution has no native form without copies at any size; None if it may have one."""
    if b.dtype not in (dt.float32, dt.float64, *HALF_TYPES):
        return f"its elements are {b.dtype}"
    if b.attrs["data_format"] in CHANNELS_LAST:
        return "its channels are the last dimension"
    phases = prod(map(min, b.attrs["strides"], b.output().shape[2:]))
    if has_trait(b.op, TRANSPOSED) and phases > MAX_PHASES:
        return f"it has {phases:,} phases, more than {MAX_PHASES:,}"
    return None


def why_not_native(b: Binding) -> str | None:
    """Why a convolution does not run as native code; None if it does."""
    b = _channels_first(b)
    reason = why_never_native(b)
    if reason is not None:
        return reason
    count = multiplications(b)
    if count < MIN_MULTIPLICATIONS:
        return f"it has {count:,} multiplications, fewer than {MIN_MULTIPLICATIONS:,}"
    return None


def multiplications(b: Binding) -> int:
    """The multiplications of a convolution; 0 if an operand or the result is empty."""
    met = b.input() if has_trait(b.op, TRANSPOSED) else b.output()
    if not met.shape[1] or not b.output().numel or not b.input().numel:
        return 0
    return met.numel // met.shape[1] * b.input(1).numel


def conv_form(b: Binding) -> Kernel | Sequence[ConvProblem] | WeightGrad:
    """A convolution over contiguous images, filter and result: a loop nest, or blocked problems.

    A convolution whose "filter" is larger than its result is a weight gradient in disguise (as
    autodiff writes it): a `WeightGrad` is returned for it.
    """
    s, is_transposed = _sizes(b), has_trait(b.op, TRANSPOSED)
    # a filter larger than the result: the forward convolution of a weight gradient
    if (
        not is_transposed
        and prod(s.sizes) > prod(s.positions)
        and (s.groups == 1 or s.group_filters >= MIN_CHANNELS)
    ):
        sides = s.lengths, s.sizes, s.positions, s.strides, s.dilations, s.before
        return WeightGrad(s.n, s.groups, s.group_filters, s.depth, *sides, s.dtype)
    narrow = s.groups > 1 and min(s.group_filters, s.depth) < MIN_CHANNELS
    # Its loads are contiguous, and its sums go to the result without scratch memory.
    narrow |= s.groups == 1 and not is_transposed and s.strides[-1] == 1
    short = s.depth * prod(s.sizes) <= _nest_terms(s)
    if narrow and short and (nest := _nest(s, is_transposed)):
        return nest
    return transposed_conv_phases(s) if is_transposed else conv_phases(s)


def _nest_terms(s: ConvSizes) -> int:
    """Terms of a sum up to which a nest is faster than a blocked kernel."""
    is_depthwise = s.depth == s.group_filters == 1 and prod(s.strides) == 1
    return MAX_DEPTHWISE_TERMS if is_depthwise and host().vector_bits > 256 else MAX_NEST_TERMS


def native_form(b: Binding) -> NativeSequence | WeightGrad:
    """The functions of a convolution; operands are images, filter and result."""
    form = conv_form(b)
    if isinstance(form, WeightGrad):
        return form
    if not isinstance(form, Kernel):
        return native_blocked_conv(form)
    found = native_sequence(form)
    if not has_trait(b.op, TRANSPOSED):
        return found
    return sparing_padding(transposed_conv_phases(_sizes(b)), found)


def _sizes(b: Binding) -> ConvSizes:
    groups, (first, second, *sizes) = b.attrs["groups"], b.input(1).shape
    filters, depth = first // groups, second
    if has_trait(b.op, TRANSPOSED):
        filters, depth = second, first // groups
    g = geometry(b, sizes, b.attrs["dilations"])
    sides = g.lengths, g.sizes, g.positions, g.strides, g.dilations, g.before
    return ConvSizes(b.input().shape[0], groups, filters, depth, b.dtype, *sides)


def _bind(b: Binding) -> Step | None:
    if why_not_native(b) is not None:
        return None
    found = native_form(b)
    return WeightGradStep(b, found) if isinstance(found, WeightGrad) else step_over(b, found)


class WeightGradStep(SequenceStep):
    """A weight gradient; both operands may be views with exchanged first axes."""

    def __init__(self, b: Binding, c: WeightGrad) -> None:
        super().__init__(native_weight_grad(c), (0, 1, 2), 2, (b.output(),))
        self.c = c

    def accepts(self, operand: int, array: Any) -> bool:
        """True also if the elements of each channel are contiguous."""
        return super().accepts(operand, array) or (
            operand < self.inputs
            and type(array) is np.ndarray
            and array.flags.aligned
            and _has_dense_channels(array)
        )

    def sequence_for(self, pinned: Mapping[int, Array]) -> NativeSequence:
        own = dense_strides(self.c)
        strides = list(own)
        for k in pinned.keys() & {0, 1}:
            # Along an axis of one element any stride is as good as that of a contiguous array.
            for axis, extent in enumerate(pinned[k].shape[:2]):
                if extent > 1:
                    strides[2 * k + axis] = pinned[k].strides[axis]
        x, channel, w, depth = strides
        known = x, channel, w, depth
        return (
            self.sequence if known == dense_strides(self.c) else native_weight_grad(self.c, known)
        )


def _has_dense_channels(a: Array) -> bool:
    dense = [prod(a.shape[k + 1 :]) * a.itemsize for k in range(2, a.ndim)]
    axes = zip(a.shape[2:], a.strides[2:], dense, strict=True)
    follow = all(extent == 1 or stride == step for extent, stride, step in axes)
    return follow and min(a.strides[:2]) >= 0


def _nest(s: ConvSizes, is_transposed: bool) -> Kernel | None:
    """A loop nest for groups of few channels or filters; None for transposed ones with strides."""
    if is_transposed and prod(s.strides) != 1:
        return None
    before = s.before
    # A transposed convolution is a convolution with the reversed filter and the remaining padding.
    if is_transposed:
        before = tuple(
            [d * (k - 1) - p for d, k, p in zip(s.dilations, s.sizes, before, strict=True)]
        )
    if any(p < 0 for p in before):
        return None
    return convolution(replace(s, before=before), is_transposed)
