"""Boxes relative to prior boxes."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.nn.box_coder import ENCODE


def _halves(x: Value) -> tuple[Value, Value]:
    return x[..., :2], x[..., 2:]


@decompose("pd_op.box_coder")
def _(c: OpCall) -> Value:
    b, target = c.b, c.target_box
    pixel = 0.0 if c.box_normalized else 1.0
    low, high = _halves(c.prior_box)
    size = high - low + pixel
    center = low + size * 0.5
    share = c.prior_box_var
    if share is None and c.variance:
        share = b.assign_value(shape=(4,), dtype=target.dtype, values=c.variance)
    if c.code_type == ENCODE:
        lower, upper = _halves(b.unsqueeze(target, axis=(1,)))
        ratio = b.abs((upper - lower + pixel) / size)
        apart = ((lower + upper) * 0.5 - center) / size
        found = b.concat([apart, b.log(ratio)], axis=2)
        return found if share is None else found / share
    if c.axis == 1:
        size, center = b.unsqueeze(size, axis=(1,)), b.unsqueeze(center, axis=(1,))
        share = b.unsqueeze(share, axis=(1,)) if c.prior_box_var is not None else share
    away, growth = _halves(target if share is None else target * share)
    middle, half = center + away * size, b.exp(growth) * size * 0.5
    return b.concat([middle - half, middle + half - pixel], axis=2)
