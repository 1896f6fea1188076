"""Convolutions of bytes, and what rounds to bytes, over blocked channels."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constant_scalar
from pirkit.dialect.operation import PirOp
from pirkit.passes.block_values import Epilogue, Layouts, image_meta, only_user
from pirkit.runtime import dtype as dt


def convolution(at: Layouts, op: PirOp) -> None:
    """Give a convolution of bytes blocks, with what follows it, up to the bytes of the next one."""
    x, filter, scales, offsets = op.operand_slots
    assert x is not None
    assert filter is not None
    assert scales is not None
    image, weights = image_meta(x), image_meta(filter)
    channels, filters = image.shape[1], weights.shape[0]
    if filter not in at.frozen or not image.is_static or not weights.is_static:
        return
    end = at.epilogue(op, channels=filters)
    quantization(end)
    b = at.builder(end.chain[-1])
    # A byte more is cheap: any number of filters and channels is in blocks.
    few = channels + -channels % 4
    block = at.block if x in at.blocked else min(few, at.block)
    given = at.filled(b, b.wrap(filter), 0)
    given = at.filled(b, given, 1, block=block)
    (rows, depth, *sizes), size = given.shape, at.block
    split = b.reshape(given, (rows // size, size, depth // block, block // 4, 4, *sizes))
    residual, scale, zero = summand(at, b, end.residual)
    operands = [
        at.in_blocks(b, x, block),
        b.transpose(split, perm=(0, 2, 5, 6, 3, 1, 4)),
        at.filled(b, b.wrap(scales), 0),
        at.bias(b, end, filters),
        residual,
        scale,
        _rate(b, end),
        None if offsets is None else at.filled(b, b.wrap(offsets), 0),
    ]
    same = {name: op.attribute(name) for name in ("strides", "paddings", "dilations")}
    made = b("pir.nchwc_quantized_conv2d", *operands, **same, activation=end.activation,
             zeros=(end.zero, zero))  # fmt: skip
    at.replace_convolution(end, b, made)


def _rate(b: Builder, end: Epilogue) -> Value | None:
    if not end.narrow:
        return None
    one = dict(shape=(1,), value=1.0, dtype=dt.float32)
    return b("pd_op.full", **one) if end.rate is None else b.wrap(end.rate)


def quantization(end: Epilogue) -> None:
    """Add to an epilogue the ops that round its result to uint8, if nothing else reads the result.

    They are ``cast(min(max(round(x * rate) + zero, 0), 255))``, as the pass `quantize` emits them.
    """
    chain, zero, rate = list[PirOp](), 0, None
    wanted = ["multiply", "round", "add", "maximum", "minimum", "cast"]
    while wanted and (user := only_user((chain or end.chain)[-1].results[0])) is not None:
        name = wanted.pop(0)
        if name == "multiply" and user.name == "pd_op.round":
            name = wanted.pop(0)  # the scales hold the rate
        if name == "add" and user.name == "pd_op.maximum":
            name = wanted.pop(0)
        if user.name != f"pd_op.{name}" or user.parent is not end.chain[0].parent:
            return
        value = (chain or end.chain)[-1].results[0]
        others = [v for v in user.operands if v is not value]
        number = constant_scalar(others[0]) if others else None
        if name == "multiply":
            rate = others[0] if others and image_meta(others[0]).shape == (1,) else None
            if rate is None:
                return
        elif name == "add":
            if number is None or number not in range(256):
                return
            zero = int(number)
        elif name in ("maximum", "minimum") and number != {"maximum": 0, "minimum": 255}[name]:
            return
        chain.append(user)
    if not wanted and image_meta(chain[-1].results[0]).dtype is dt.uint8:
        end.chain += chain
        end.rate, end.zero, end.narrow = rate, zero, True


def summand(
    at: Layouts, b: Builder, value: SSAValue | None
) -> tuple[Value | None, Value | None, int]:  # fmt: skip
    """A blocked summand, or the bytes that it was dequantized from, with scale and zero point."""
    if value is None:
        return None, None, 0
    whole, zero = at.blocked[value], 0.0
    product = whole.ssa.owner
    if isinstance(product, PirOp) and product.name == "pd_op.multiply":
        inner, scale = product.operands
        owner = inner.owner
        if isinstance(owner, PirOp) and owner.name == "pd_op.subtract":
            zero, owner = constant_scalar(owner.operands[1]), owner.operands[0].owner
        if zero in range(256) and isinstance(owner, PirOp) and owner.name == "pd_op.cast":
            source = owner.operands[0]
            if image_meta(source).dtype is dt.uint8 and image_meta(scale).shape == (1,):
                return b.wrap(source), b.wrap(scale), int(zero or 0)
    return whole, None, 0


def cast(at: Layouts, op: PirOp) -> None:
    """A cast back to the bytes that a blocked image comes from is no op."""
    x, wanted = at.blocked.get(op.operands[0]), image_meta(op.results[0]).dtype
    owner = x.ssa.owner if x is not None else None
    if x is not None and isinstance(owner, PirOp) and owner.name == "pd_op.cast":
        source = owner.operands[0]
        if wanted is dt.uint8 and image_meta(source).dtype is dt.uint8:
            b = at.builder(op)
            at.keep_layout(op, b, b.wrap(source))
            return
    at.elementwise(op)
