"""Convolutions between plain images that `block-channels` leaves plain, and their padding."""

from __future__ import annotations

from math import prod
from typing import Final

from xdsl.ir import SSAValue

from pirkit.dialect.attrs import encode
from pirkit.dialect.kinds import ELEMENTWISE, RESHAPE
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.dialect.windows import padding_pairs
from pirkit.passes.block_values import Epilogue, Layouts, image_meta
from pirkit.passes.replace_ops import erase
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

_FEW_MULTIPLICATIONS: Final = 70
"""Multiplications for each element that changes its layout, up to which blocks take longer (Zen 4:
3 taps of 32 to 64 channels, 64 of them, 0.60 ms, in blocks 0.74; 3x3 of 16 to 32, 96, 0.37 and
0.34)."""
_FEW_OF_SIGNALS: Final = 120
"""The same of signals, whose rows are long."""
_FEW_OF_POINTS: Final = 100
"""The same with one or two taps, where a plain convolution is a matmul."""
_NEST_TAPS: Final = 64
_WIDE_BLOCK: Final = 16
"""Taps of depthwise convolutions that a nest has at most, and channels of a block that say that
registers have 512 bits."""


def absorb_padding(at: Layouts, op: PirOp) -> None:
    """Give a convolution the zeros that a `pad` adds to height and width.

    They are neither copied nor, over blocks, multiplied.
    """
    x = op.operands[0]
    lifted, images = x.owner, image_meta(x).shape
    if isinstance(lifted, PirOp) and RESHAPE in lifted.definition.traits:
        x = lifted.operands[0]  # a signal as an image of one row
    pad, given = x.owner, image_meta(x).shape
    if (
        not isinstance(pad, PirOp)
        or pad.name != "pd_op.pad"
        or len(pad.operands) > 1
        or pad.attribute("pad_value") != 0
        or op.attribute("padding_algorithm") != "EXPLICIT"
        or not str(op.attribute("data_format")).startswith("NC")
        or images not in (given, (*given[:2], 1, *given[2:]))
    ):
        return
    widths = list(pad.attribute("paddings"))
    if any(widths[:4]):
        return
    widths = [0, 0, *widths[4:]][-2 * (len(images) - 2) :]
    pairs = padding_pairs(op.attribute("paddings"), len(images) - 2, "C3")
    own = [n for pair in pairs for n in pair]
    b, source = at.builder(op), pad.operands[0]
    shape = image_meta(source).shape
    plain = source if len(shape) == len(images) else (
        b.reshape(b.wrap(source), (*shape[:2], 1, *shape[2:])).ssa
    )  # fmt: skip
    total = [m + n for m, n in zip(own, widths, strict=True)]
    op.properties["paddings"] = encode("i32[]", total)
    op.operands[0] = plain


def is_better(at: Layouts, op: PirOp, end: Epilogue) -> bool:
    """Whether a convolution between plain images saves less than the changes of layout cost.

    Of 90 such convolutions, most of those with few multiplications of an element take longer
    in blocks, up to five times: with few taps and few channels, or with a few channels in a group.
    So do those with many filters beyond theirs.
    """
    x, filter = op.operands
    filters, width, *sizes = image_meta(filter).shape
    taps, channels = prod(sizes), image_meta(x).shape[1]
    # Fewer channels than a block are read as they are.
    moved = filters + channels * (channels >= at.block)
    is_signal = sizes[0] == 1 and image_meta(x).shape[2] == 1
    few = taps * width * filters < (_FEW_OF_SIGNALS if is_signal else _FEW_MULTIPLICATIONS) * moved
    if taps <= 2:
        few = channels >= at.block and width * taps * filters < _FEW_OF_POINTS * moved
    if op.attribute("groups") > 1:
        few &= taps <= 2
        narrow = 1 < width < at.block or (width == 1 and (taps < 16 or _is_large(at, op)))
        few |= channels >= at.block and narrow
    wasteful = 7 * (-filters % at.block) > filters
    if not (few or wasteful) or x in at.blocked or end.residual is not None:
        return False
    return not _is_wanted(at, end.chain[-1].results[0])


def _is_large(at: Layouts, op: PirOp) -> bool:
    """Whether an image is beyond the L2 cache, so that copies cost more than a nest, which has 32
    registers of 512 bits for that (depthwise 5x5, 96 channels of 112 x 112: 1.14 and 1.25 ms).
    """
    image = image_meta(op.operands[0])
    taps = prod(image_meta(op.operands[1]).shape[2:])
    is_nest = prod(op.attribute("strides")) == 1 and taps <= _NEST_TAPS
    bytes_ = image.numel * image.dtype.itemsize
    return is_nest and at.block >= _WIDE_BLOCK and bytes_ > host().l2_bytes


def _is_wanted(at: Layouts, value: SSAValue) -> bool:
    """Whether a blocked convolution reads a value, directly or through blocked ops."""
    channels, reached = image_meta(value).shape[1], {value}
    todo = [value]
    while todo:
        for user in [u.operation for u in todo.pop().uses]:
            if not isinstance(user, PirOp):
                continue
            rule = at.rules.get(user.name)
            if rule == at.convolution:
                if user.operands[0] in reached and at.takes(user):
                    return True
            elif (
                rule is not None
                or user.name == "pir.combine"
                or RESHAPE in user.definition.traits  # as around norms of ONNX
                or (
                    user.definition.kind == ELEMENTWISE
                    and all(v in reached or at.follows(v, channels) for v in user.operands)
                )
            ):
                todo += [r for r in user.results if r not in reached]
                reached.update(user.results)
    return False


def as_matmul(at: Layouts, op: PirOp) -> None:
    """A plain convolution of one tap as a matmul, which takes a tenth to a fifth less time.

    With strides it is one of every second position, or third.
    """
    x, filter = op.operands
    image, weights, result = (meta_of(v.type) for v in (x, filter, op.results[0]))
    if not all(isinstance(m, TensorMeta) and m.is_static for m in (image, weights, result)):
        return
    sides, steps = image_meta(x).shape[2:], tuple(op.attribute("strides"))
    sizes, out = image_meta(filter).shape, image_meta(op.results[0])
    if (
        image_meta(x).dtype not in (dt.float32, dt.float64)
        or not out.numel
        or not str(op.attribute("data_format")).startswith("NC")
    ):
        return
    if (
        prod(sizes[2:]) > 1
        or any(op.attribute("paddings"))
        or out.shape[2:] != tuple([-(-n // s) for n, s in zip(sides, steps, strict=True)])
    ):
        return
    b, groups, place = at.builder(op), op.attribute("groups"), prod(out.shape[2:])
    read = b.wrap(x)
    if prod(steps) > 1:
        axes = tuple(range(2, 2 + len(sides)))
        read = b.strided_slice(read, axes=axes, starts=[0] * len(sides), ends=sides, strides=steps)
    few = [] if groups == 1 else [groups]
    rows, depth = sizes[0] // groups, sizes[1]
    columns = b.reshape(read, (out.shape[0], *few, depth, place))
    made = b("pd_op.matmul", b.reshape(b.wrap(filter), (*few, rows, depth)), columns)
    at.ctx.rewrote("matmul", op)
    at.ctx.count("matmuls")
    op.results[0].replace_all_uses_with(b.reshape(made, out.shape).ssa)
    erase(op)
