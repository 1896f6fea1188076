"""Norms of groups of channels of images whose channels are in blocks."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.passes.block_values import Layouts, image_meta, only_user
from pirkit.passes.replace_ops import erase


def group_norm(at: Layouts, op: PirOp) -> None:
    """Normalize groups of channels in blocks."""
    x, scale, bias = op.operand_slots
    if x is not None and x in at.blocked and op.attribute("data_format") == "NCHW":
        _normalize(at, op, op, x, op.attribute("groups"), scale, bias)


def instance_norm(at: Layouts, op: PirOp) -> None:
    """Normalize channels, or groups of them that a reshape has made channels, as ONNX has it."""
    x, scale, bias = op.operand_slots
    if x is None:
        return
    if x in at.blocked:
        _normalize(at, op, op, x, image_meta(x).shape[1], scale, bias)
        return
    source, back = x.owner, only_user(op.results[0])
    if not isinstance(source, PirOp) or source.name != "pd_op.reshape" or back is None:
        return
    image = source.operands[0]
    same = back.name == "pd_op.reshape" and back.results[0].type == image.type
    if image in at.blocked and same and image_meta(x).shape[0] == image_meta(image).shape[0]:
        _normalize(at, op, back, image, image_meta(x).shape[1], scale, bias)


def _normalize(
    at: Layouts, op: PirOp, last: PirOp, x: SSAValue, groups: int, scale: SSAValue | None,
    bias: SSAValue | None,
) -> None:  # fmt: skip
    """Replace the ops up to ``last``, if no group ends within the rest of a block."""
    channels = image_meta(x).shape[1]
    if (
        channels % at.block
        or groups <= 0
        or channels % groups
        or any(r.uses for r in op.results[1:])
    ):
        return
    b, image = at.builder(last), at.blocked[x]
    n, _, *sides, size = image.shape
    every = prod(sides) * (channels // groups)

    def mean(value: Value) -> Value:
        """The mean of each group, for each of its channels."""
        lanes = b.reshape(b.sum(value, (2, 3), keepdim=False), (n, groups, channels // groups))
        found = b.sum(lanes, (2,), keepdim=True) / float(every)
        return b.reshape(b.expand_as(found, lanes), (n, channels // size, 1, 1, size))

    centered = b.subtract(image, mean(image))
    factor = b.rsqrt(mean(b.multiply(centered, centered)) + op.attribute("epsilon"))
    found = b.multiply(centered, factor)
    for name, vector in (("multiply", scale), ("add", bias)):
        if vector is not None:
            found = b(f"pd_op.{name}", found, _spread(at, b, vector, channels))
    at.keep_layout(last, b, found)
    if last is not op:
        erase(op)


def _spread(at: Layouts, b: Builder, vector: SSAValue, channels: int) -> Value:
    """A number of each channel, or of each group, for the channels of blocks."""
    given = b.wrap(vector)
    groups = given.meta.numel
    if groups != channels:
        lines = b.expand(b.reshape(given, (groups, 1)), shape=(groups, channels // groups))
        given = b.reshape(lines, (channels,))
    return at.channel_vector(b, given)
