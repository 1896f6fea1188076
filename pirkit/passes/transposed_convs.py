"""Transposed convolutions of images with constant filters, as convolutions."""

from __future__ import annotations

from math import prod

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.frozen_values import frozen_values
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace
from pirkit.runtime.meta import TensorMeta

PACKING = 4
"""Packing one element of the filter, which native code does in each call, takes as long as moving
so many elements of the result."""


class _Axis(Struct, frozen=True):
    """One spatial axis: the image, the window, what is cut off in front, and the result."""

    size: int
    window: int
    stride: int
    before: int
    out: int
    dilation: int = 1

    @property
    def taps(self) -> int:
        """Elements of the image that an element of the result reads."""
        return -(-self.window // self.stride)

    @property
    def first(self) -> int:
        """The first block of `stride` elements of the uncut result that is needed."""
        return self.before // self.stride

    @property
    def blocks(self) -> int:
        return (self.before + self.out - 1) // self.stride + 1 - self.first

    @property
    def padding(self) -> tuple[int, int]:
        """The padding of the convolution: block `i` reads elements from `i - taps + 1` to `i`."""
        reach = self.dilation * (self.taps - 1)
        return reach - self.first, self.first + self.blocks - self.size


class ConvolveTransposedPass(Pass):
    """Write transposed convolutions with constant filters as convolutions of the image.

    A transposed convolution with stride `s` gives `s` results for each element of the image along
    an axis. They are the channels of a convolution without stride, whose filter holds every `s`-th
    element of the window, backwards; a transpose puts them in their places, and a slice cuts the
    padding off. `hoist-constants` then computes the new filter once, and `block-channels` packs it.

    Native code of a transposed convolution packs its filter in each call, so this pays where the
    filter has at least four times as many elements as the result. Without strides nothing has to be
    put in its place, which pays always, with dilation too.

    ::

        %1 = pd_op.conv2d_transpose(%x, %w) {strides = [2, 2], paddings = [1, 1], ...} :
          (tensor<1x512x4x4xf32>, tensor<512x256x4x4xf32>) -> tensor<1x256x8x8xf32>
        // becomes, with the windows of %w rearranged as %f
        %2 = pd_op.conv2d(%x, %f) {paddings = [1, 1, 1, 1], ...} :
          (tensor<1x512x4x4xf32>, tensor<1024x512x2x2xf32>) -> tensor<1x1024x5x5xf32>
        %3 = pd_op.reshape(pd_op.transpose(pd_op.reshape(%2)))
        %4 = pd_op.slice(%3) {starts = [1, 1], ends = [9, 9]} : ... -> tensor<1x256x8x8xf32>
    """

    name = "convolve-transposed"
    stats = Stats(rewritten="transposed convolutions as convolutions")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            frozen = frozen_values(program)
            for op in ctx.each(list(program.block.ops)):
                if not isinstance(op, PirOp) or op.name != "pd_op.conv2d_transpose":
                    continue
                if op.operands[1] in frozen and (axes := _axes(op)):
                    ctx.rewrote("transposed-convolution", op)
                    ctx.count("rewritten")
                    _rewrite(op, axes)


def _static(value: SSAValue) -> tuple[int, ...] | None:
    meta = meta_of(value.type)
    return meta.shape if isinstance(meta, TensorMeta) and meta.is_static else None


def _axes(op: PirOp) -> list[_Axis] | None:
    """The axes of a transposed convolution that is rewritten."""
    x, w, out = (_static(v) for v in (op.operands[0], op.operands[1], op.results[0]))
    if x is None or w is None or out is None or not prod(out) or not prod(w):
        return None
    plain = op.attribute("groups") == 1 and op.attribute("padding_algorithm") == "EXPLICIT"
    if not plain or op.attribute("data_format") not in ("NCHW", "AnyLayout"):
        return None
    strides, dilations = op.attribute("strides"), op.attribute("dilations")
    paddings = list(op.attribute("paddings"))
    is_worth = all(d == 1 for d in dilations) and prod(w) >= PACKING * prod(out)
    if not is_worth and any(s != 1 for s in strides):
        return None
    before = paddings if len(paddings) == 2 else paddings[::2]
    axes = [
        _Axis(x[k], w[k], strides[k - 2], before[k - 2], out[k], dilations[k - 2]) for k in (2, 3)
    ]
    return axes if all(min(a.padding) >= 0 for a in axes) else None


def _rewrite(op: PirOp, axes: list[_Axis]) -> None:
    block = op.parent
    assert block is not None
    b = Builder(block, before=op, location=op.location)
    x, w = b.wrap(op.operands[0]), b.wrap(op.operands[1])
    images, (channels, filters), (h, v) = x.shape[0], w.shape[:2], axes
    if all(a.stride == 1 for a in axes):
        flipped = b.flip(b.transpose(w, perm=(1, 0, 2, 3)), axis=(2, 3))
        dilations = [a.dilation for a in axes]
        out: Value = b.conv2d(x, flipped, paddings=(*h.padding, *v.padding), dilations=dilations)
        out.ssa.name_hint = op.results[0].name_hint
        replace(op, [out.ssa])
        return
    more = [n for a in axes for n in (0, a.taps * a.stride - a.window)]
    if any(more):
        w = b.pad(w, paddings=(0, 0, 0, 0, *more), pad_value=0.0)
    parts = b.reshape(w, [channels, filters, h.taps, h.stride, v.taps, v.stride])
    parts = b.transpose(b.flip(parts, axis=(2, 4)), perm=(1, 3, 5, 0, 2, 4))
    parts = b.reshape(parts, [filters * h.stride * v.stride, channels, h.taps, v.taps])
    out = b.conv2d(x, parts, paddings=(*h.padding, *v.padding))
    out = b.reshape(out, [images, filters, h.stride, v.stride, h.blocks, v.blocks])
    out = b.transpose(out, perm=(0, 1, 4, 2, 5, 3))
    out = b.reshape(out, [images, filters, h.blocks * h.stride, v.blocks * v.stride])
    starts = [a.before - a.first * a.stride for a in axes]
    ends = [start + a.out for start, a in zip(starts, axes, strict=True)]
    out = b.slice(out, axes=[2, 3], starts=starts, ends=ends)
    out.ssa.name_hint = op.results[0].name_hint
    replace(op, [out.ssa])
