"""Reductions over whole dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.ops.regions import combiner_of, form_of
from pirkit.stablehlo.rules import RULES, rule

_REDUCED: Final = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_LOGICAL: Final = {"and": "all", "or": "any", "multiply": "all", "add": "any", "maximum": "any",
                   "minimum": "all"}  # fmt: skip

_FIRST: Final = {
    # As jax writes them: a0 and a1 are the best value so far and its index, a2 and a3 the next.
    f"{order} a0 a2; NE a0 a0; or v0 v1; EQ a0 a2; LT a1 a3; and v3 v4; or v2 v5;"
    " select v2 a0 a2; select v6 a1 a3; return v7 v8": op
    for order, op in (("GT", "argmax"), ("LT", "argmin"))
}
"""Form of a region that finds the first largest or least element, or NaN -> op."""


def combine(b: HloBuilder, how: str, values: Sequence[Value]) -> Value:
    """Values of equal shapes combined in pairs by the binary operation ``how``."""
    held = list(values)
    while len(held) > 1:
        pairs = [RULES[f"stablehlo.{how}"](b, x, y)
                 for x, y in zip(held[::2], held[1::2], strict=False)]  # fmt: skip
        held = pairs + held[len(held) & ~1 :]
    return held[0]


@rule("reduce")
def _(
    b: HloBuilder, *values: Value, dimensions: Sequence[int], combiner: str = ""
) -> Value | tuple[Value, ...]:
    count = len(values) // 2
    operands, inits = values[:count], values[count:]
    if not combiner:
        found = combiner_of(b.node.regions[0])
        if found not in _NEUTRAL or count != 1:
            return _by_region(b, operands, inits, dimensions)
        combiner = found
    how = combiner.removeprefix("stablehlo.")
    (x,), (init,) = operands, inits
    if not dimensions:
        return combine(b, how, [x, b.expanded(init, x.shape)])
    if not x.meta.numel:
        return b.expanded(init, b.outs[0].sizes)
    made = reduced(b, x, how, dimensions)
    if made is None:

        def step(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
            return [combine(b, how, [left[0], right[0]])]

        (made,) = _halved(b, [x], dimensions, step)
    if is_neutral(b, init, how):
        return made
    return combine(b, how, [made, b.expanded(init, made.shape)])


_NEUTRAL: Final = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf, "or": 0.0,
                   "xor": 0.0, "and": 1.0}  # fmt: skip


def is_neutral(b: HloBuilder, init: Value, how: str | None) -> bool:
    """Whether the initial value is the neutral element, which need not be combined at all.

    Its type is that of the node's first operand.
    """
    number, wanted = b.number_of(init), _NEUTRAL.get(how or "")
    if number is None or wanted is None:
        return False
    if init.dtype is dt.bool_:
        wanted = np.clip(wanted, 0.0, 1.0)
    elif init.dtype.is_integer:
        bounds = np.iinfo(init.dtype.np)
        low, high = (0, -1) if b.ins[0].is_unsigned else (bounds.min, bounds.max)
        ones = high if b.ins[0].element.startswith("ui") else -1
        wanted = {"maximum": low, "minimum": high, "and": ones}.get(how or "", wanted)
    return number == wanted


def reduced(b: HloBuilder, x: Value, how: str, dimensions: Sequence[int]) -> Value | None:
    """A reduction by one op; None if no op computes it."""
    axis = tuple(dimensions)
    if x.dtype is dt.bool_:
        return b(f"pd_op.{_LOGICAL[how]}", x, axis=axis) if how in _LOGICAL else None
    if how not in _REDUCED:
        return None
    if b.ins[0].is_unsigned and how in ("maximum", "minimum"):
        return b.ordered(b.apply(_REDUCED[how], b.ordered(x, b.ins[0]), axis=axis), b.ins[0])
    if how == "add":
        total = b("pd_op.sum", x, axis=axis, keepdim=False)
        return b.cast(total, x.dtype)
    if how == "multiply":
        return b.apply("prod", x, axis=axis, keepdim=False, reduce_all=False)
    return b.apply(_REDUCED[how], x, axis=axis, keepdim=False)


def _by_region(
    b: HloBuilder, operands: Sequence[Value], inits: Sequence[Value], dimensions: Sequence[int]
) -> tuple[Value, ...]:
    body = b.node.regions[0]
    size = 1
    for d in dimensions:
        size *= operands[0].shape[d]
    start = [b.expanded(i, t.sizes) for i, t in zip(inits, b.outs, strict=True)]
    if not size:
        return tuple(start)

    def step(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return b.elementwise(body, [*left, *right])

    op = _FIRST.get(form_of(body))
    made = None
    if op is not None and len(dimensions) == 1:
        made = _first(b, op, operands, dimensions[0])
        first = b.number_of(inits[1])
        how = "maximum" if op == "argmax" else "minimum"
        if made is not None and first is not None and first >= 0 and is_neutral(b, inits[0], how):
            return made
    made = made or _halved(b, operands, dimensions, step)
    return tuple(b.elementwise(body, [*start, *made]))


def _first(
    b: HloBuilder, op: str, operands: Sequence[Value], axis: int
) -> tuple[Value, ...] | None:
    """The first largest or least element and its index; None if indices are not an `iota`."""
    x, places = operands
    if not b.is_iota(places, axis) or x.dtype.is_complex:
        return None
    held = b.ordered(x, b.ins[0])
    is_narrow = not held.dtype.is_float and held.dtype.itemsize < 4
    at = b.arg_extreme(op, b.cast(held, dt.int32) if is_narrow else held, axis)
    best = b.apply("max" if op == "argmax" else "min", held, axis=(axis,))
    return b.ordered(best, b.ins[0]), b.cast(at, places.dtype)


def _halved(
    b: HloBuilder, values: Sequence[Value], dimensions: Sequence[int], step: Any
) -> list[Value]:
    """Adjacent elements combined by ``step``, until one is left; their order is kept."""
    rank = values[0].rank
    kept = [d for d in range(rank) if d not in dimensions]
    rest = tuple([values[0].shape[d] for d in kept])
    flat = [b.reshape(b.permute(v, [*sorted(dimensions), *kept]), (-1, *rest)) for v in values]
    while (size := flat[0].shape[0]) > 1:
        pairs = size // 2
        left = [b.cut(v, 0, 0, 2 * pairs - 1, 2) for v in flat]
        right = [b.cut(v, 0, 1, 2 * pairs, 2) for v in flat]
        made = list(step(left, right))
        if size % 2:
            made = [b.concat([m, b.cut(v, 0, size - 1, size)], 0)
                    for m, v in zip(made, flat, strict=True)]  # fmt: skip
        flat = made
    return [b.reshape(v, rest) for v in flat]
