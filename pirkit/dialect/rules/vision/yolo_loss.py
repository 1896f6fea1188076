"""The loss of a detector on a grid: all cells against all true boxes."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.vision.yolo_loss import SMALLEST, places_of, smoothed
from pirkit.dialect.rules.movement.movement import arange
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.yolo_loss")
def _(c: OpCall) -> tuple[Value, Value, Value]:
    """Of several true boxes in one cell and anchor, the last one determines the weight."""
    b, x, boxes = c.b, c.x, c.gt_box
    h, w = x.shape[2:]
    count = boxes.shape[1]
    if UNKNOWN in (h, w, count) or not h * w * count:
        return NotImplemented
    n, each, size = sizes_of(b, x)[0], len(c.anchor_mask), c.downsample_ratio * h
    cells = each * h * w
    channels = 5 + c.class_num
    grid = in_shape(b, x, [n, each, channels, h, w])
    score: Value = b.ones_like(boxes[:, :, 0]) if c.gt_score is None else c.gt_score
    true = [boxes[:, :, k] for k in range(4)]
    is_box = b.logical_and(true[2] >= SMALLEST, true[3] >= SMALLEST)

    predicted = [in_shape(b, v, [n, cells, 1]) for v in _predicted(c, grid, size)]
    shared = _overlaps(b, predicted, [b.unsqueeze(v, axis=(1,)) for v in true])
    shared = b.where(b.unsqueeze(is_box, axis=(1,)), shared, 0.0)
    shared = b("pd_op.max", shared, axis=(2,), keepdim=False)
    other = b.where(shared > c.ignore_thresh, b.like(-1.0, shared), b.zeros_like(shared))

    best, match = _matches(c, true, is_box, size)
    column, row = (
        b.clip(b.cast(b.trunc(v * k), dt.int64), min=0, max=k - 1)
        for v, k in ((true[0], w), (true[1], h))
    )
    is_matched = match >= 0
    cell = b.where(is_matched, match * (h * w) + row * w + column, 0)
    hits = b.equal(b.unsqueeze(cell, axis=(1,)), b.reshape(b.integers(range(cells)), (-1, 1)))
    hits = b.logical_and(hits, b.unsqueeze(is_matched, axis=(1,)))
    last = b.where(hits, b.integers(range(1, count + 1)), 0)
    last = b("pd_op.max", last, axis=(2,), keepdim=False)
    its = b.take_along_axis(score, b.clip(last - 1, min=0, max=count - 1), axis=1)
    mask: Value = b.where(last > 0, its, other)

    rows = in_shape(b, b.transpose(grid, perm=(0, 1, 3, 4, 2)), [n, cells, channels])
    places = b.unsqueeze(cell, axis=(2,)) + b.integers((0,) * channels)
    found = b.take_along_axis(rows, places, axis=1)
    of_boxes = _of_boxes(c, found, true, (column, row), best, score, is_box, size)
    loss = b.sum(b.where(is_matched, of_boxes, 0.0), (1,))

    is_there = in_shape(b, grid[:, :, 4], [n, cells])
    counted = b.where(mask > 1e-5, _entropy(b, is_there, 1.0) * mask, 0.0)
    free = b.abs(mask) <= 1e-5
    counted = counted + b.where(free, _entropy(b, is_there, 0.0), 0.0)
    mask = in_shape(b, mask, [n, each, h, w])
    return loss + b.sum(counted, (1,)), mask, b.cast(match, dt.int32)


def _predicted(c: OpCall, grid: Value, size: int) -> list[Value]:
    """Centres and sizes of predictions, ``[N, anchors, H, W]`` each."""
    b = c.b
    h = grid.shape[3]
    bias = -0.5 * (c.scale_x_y - 1)
    across, down = (b.cast(arange(b, grid, k), grid.dtype) for k in (4, 3))
    x = b.sigmoid(grid[:, :, 0]) * c.scale_x_y + bias + across
    y = b.sigmoid(grid[:, :, 1]) * c.scale_x_y + bias + b.unsqueeze(down, axis=(1,))
    sides = [
        b.reshape(_numbers(b, [c.anchors[2 * a + k] for a in c.anchor_mask], grid), (-1, 1, 1))
        for k in (0, 1)
    ]
    w, v = (b.exp(grid[:, :, 2 + k]) * (sides[k] / size) for k in (0, 1))
    return [x / h, y / h, w, v]


def _numbers(b: Builder, values: Sequence[int], like: Value) -> Value:
    return b.cast(b.integers(values), like.dtype)


def _overlaps(b: Builder, one: Sequence[Value], other: Sequence[Value]) -> Value:
    """Intersections over unions of boxes (centre, size)."""
    (x, y, w, h), (u, v, p, q) = one, other
    across = b.minimum(x + w / 2, u + p / 2) - b.maximum(x - w / 2, u - p / 2)
    down = b.minimum(y + h / 2, v + q / 2) - b.maximum(y - h / 2, v - q / 2)
    common = b.relu(across) * b.relu(down)
    return common / (w * h + p * q - common)


def _matches(c: OpCall, true: Sequence[Value], is_box: Value, size: int) -> tuple[Value, Value]:
    """The anchor that best fits each box, and its index among those in use, or -1."""
    b = c.b
    zero = b.unsqueeze(b.zeros_like(true[2]), axis=(2,))
    sides = [_numbers(b, c.anchors[k::2], true[0]) / size for k in (0, 1)]
    shapes = [b.unsqueeze(v, axis=(2,)) for v in true[2:]]
    shared = _overlaps(b, [zero, zero, *shapes], [zero, zero, *sides])
    best = b.argmax(shared, axis=-1, keepdims=False, flatten=False, dtype=dt.int64)
    table = places_of(c.anchors, c.anchor_mask)
    match = b.reshape_like(b.gather(b.integers(table), b.reshape(best, (-1,)), axis=0), best)
    return best, b.where(is_box, match, -1)


def _of_boxes(
    c: OpCall,
    found: Value,
    true: Sequence[Value],
    at: Sequence[Value],
    best: Value,
    score: Value,
    is_box: Value,
    size: int,
) -> Value:
    """What the prediction for each true box costs, ``[N, boxes]``."""
    b, h = c.b, c.x.shape[2]
    total: list[Value] = []
    for k in (0, 1):
        total.append(_entropy(b, found[:, :, k], true[k] * h - b.cast(at[k], found.dtype)))
        sides = b.gather(_numbers(b, c.anchors[k::2], found), b.reshape(best, (-1,)), axis=0)
        side = b.where(is_box, true[2 + k], 1.0)
        wanted = b.log(side / (b.reshape_like(sides, best) / size))
        total.append(b.abs(wanted - found[:, :, 2 + k]))
    where = (total[0] + total[1] + total[2] + total[3]) * (2.0 - true[2] * true[3])
    yes, no = smoothed(c.class_num, c.use_label_smooth)
    labels = b.unsqueeze(b.cast(c.gt_label, dt.int64), axis=(2,))
    is_its = b.equal(labels, b.integers(range(c.class_num)))
    classes = found[:, :, 5:]
    wanted = b.where(is_its, b.like(yes, classes), b.like(no, classes))
    return (where + b.sum(_entropy(b, classes, wanted), (2,))) * score


def _entropy(b: Builder, x: Value, wanted: Value | float) -> Value:
    """Of a sigmoid. Above the threshold `softplus` would be its argument."""
    return b.softplus(x, beta=1.0, threshold=1e9) - x * wanted
