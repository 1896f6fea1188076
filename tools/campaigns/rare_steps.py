"""Steps of random programs that the others hardly make by chance: attention whose rows have a
factor, bytes over their whole range and products of them, divisions of integers of both signs; and
convolutions with filters that are parameters, which become blocked ones when these are frozen."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt

SIZES: Final = ((130, 24, 140, 17), (64, 32, 64, 32), (70, 16, 130, 20), (5, 4, 7, 3))
"""Rows, depth, columns and width of an attention."""
PRODUCTS: Final = ((1, 40, 33), (4, 64, 32), (9, 33, 17), (40, 96, 65), (3, 7, 5))
"""Rows, depth and columns of a product of bytes."""
IMAGES: Final = ((1, 16, 9, 8), (2, 16, 6, 7), (1, 32, 5, 17), (1, 3, 14, 13), (1, 24, 7, 7))
"""Images, with channels that fill blocks or nearly so, and those of a picture."""
FILTERS: Final = "f"
"""What the names of these filters begin with."""
FACTORS: Final = (3.0, 0.5, -1.0, 1.25, 2.0)


def attention(maker: Any) -> Value:
    """Rows of a softmax, times a factor, before or behind a product with another matrix."""
    b, draw = maker.b, maker.random
    rows, depth, columns, width = draw.choice(SIZES)
    dtype = draw.choice((dt.float32, dt.float32, dt.float64))
    batch = draw.choice(((), (2,), (2, 3)))
    shapes = (rows, depth), (columns, depth), (columns, width)
    q, k, v = (maker.fresh((*batch, *shape), dtype) for shape in shapes)
    scores = b("pd_op.matmul", q, k, transpose_y=True)
    if maker.flip():
        scores = scores * 0.25
    if maker.flip():
        weights = b("pd_op.softmax", scores, axis=-1)
    else:
        e = b.exp(scores - b("pd_op.max", scores, axis=(-1,), keepdim=True))
        weights = e / b.sum(e, (-1,), keepdim=True)
    for _ in range(draw.choice((0, 1, 1, 2))):
        weights = factored(maker, weights)
    found = b("pd_op.matmul", weights, v)
    return factored(maker, found) if maker.flip() else found


def factored(maker: Any, x: Value) -> Value:
    """A value times a number, or such a product added to it."""
    scaled = x * maker.random.choice(FACTORS)
    return scaled if maker.flip() else x - scaled


def of_bytes(maker: Any) -> Value:
    """Bytes become numbers with a scale and an offset, or are multiplied with weights of bytes."""
    b, draw = maker.b, maker.random
    rows, depth, columns = draw.choice(PRODUCTS)
    dtype = draw.choice((dt.uint8, dt.int8))
    x, weights = bytes_of(maker, (rows, depth), dtype), bytes_of(maker, (depth, columns), dt.int8)
    if maker.flip():
        real, other = (b("pd_op.cast", v, dtype="float32") * 0.01 for v in (x, weights))
        real = real - draw.choice((0.0, 1.28))
        return b("pd_op.matmul", real, other) if maker.flip() else b.tanh(real)
    scales = maker.given(np.abs(maker.array((columns,), dt.float32)) * np.float32(0.01))
    size = draw.choice(((1,), (rows, 1)))
    of_rows = maker.given(np.abs(maker.array(size, dt.float32)) * np.float32(0.01))
    added = maker.given(maker.draw.integers(-9, 9, columns).astype(np.int32))
    last = added if maker.flip() else None
    return b("pir.quantized_matmul", x, weights, scales, of_rows, last, columns=columns)


def bytes_of(maker: Any, shape: tuple[int, ...], dtype: Any) -> Value:
    limits = np.iinfo(dtype.np)
    return maker.given(maker.draw.integers(limits.min, limits.max + 1, shape).astype(dtype.np))


def divided(maker: Any) -> tuple[Value, ...]:
    """Quotients and remainders of integers of both signs, by numbers and by each other."""
    b, draw = maker.b, maker.random
    dtype = draw.choice((dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8))
    shape = draw.choice(((50,), (7, 9), (3, 40), (1003,)))
    limits = np.iinfo(dtype.np)
    low, high = max(limits.min, -1000), min(limits.max, 1000)
    x, y = (maker.given(maker.draw.integers(low, high, shape).astype(dtype.np)) for _ in "xy")
    if maker.flip():
        y = b.zeros_like(x) + draw.choice((1, 2, 3, 7, 16) if low == 0 else (-7, -2, -1, 2, 3, 8))
    first, second = (b(f"pd_op.{draw.choice(('floor_divide', 'remainder'))}", x, y) for _ in "xy")
    return first + 1, b("pd_op.cast", second, dtype="float32") * 0.5


def rare(maker: Any) -> Any:
    return maker.random.choice((attention, attention, of_bytes, divided))(maker)


def blocked(maker: Any) -> Value:
    """Convolutions with filters that are parameters, and what keeps the layout between them."""
    b, draw = maker.b, maker.random
    x = maker.fresh(draw.choice(IMAGES), dt.float32)
    for _ in range(draw.choice((1, 2, 2, 3))):
        channels, *sides = x.shape[1:]
        sizes = [min(draw.choice((1, 2, 3, 3, 5)), side) for side in sides]
        alone = channels % 8 == 0 and draw.random() < 0.25
        filters, depth = (channels, 1) if alone else (draw.choice((8, 16, 16, 20, 32)), channels)
        held = maker.array((filters, depth, *sizes), dt.float32) / np.sqrt(depth * np.prod(sizes))
        # Blocked convolutions do not multiply padding (docs/trust.md), and sums of large numbers
        # overflow in any order.
        w = parameter(maker, np.clip(np.nan_to_num(held), -8, 8).astype(np.float32))
        words = {"strides": [draw.choice((1, 1, 2)) for _ in sizes],
                 "paddings": [draw.randint(0, size // 2) for size in sizes],
                 "groups": channels if alone else 1}  # fmt: skip
        made = b(f"pd_op.{'depthwise_' if alone else ''}conv2d", x, w, **words)
        if maker.flip():
            made = made + parameter(maker, maker.array((1, filters, 1, 1), dt.float32))
        if made.shape == x.shape and maker.flip():
            made = made + x
        op = draw.choice(("relu", "relu", "hardswish", "tanh", ""))
        x = b(f"pd_op.{op}", made) if op else made
    return x


def parameter(maker: Any, array: Any) -> Value:
    name = f"{FILTERS}{len(maker.arrays)}"
    maker.arrays[name] = array
    return maker.b.parameter(name, array)
