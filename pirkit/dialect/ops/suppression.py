"""The best of boxes that overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.boxes import suppress
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Array = np.ndarray[Any, Any]


@op
class Nms:
    """Indices of the boxes of which no better one that stays covers more than `threshold`.

    `x [R, 4]` holds corners (x1, y1, x2, y2), the best box first.

    C1: `x` is `[R, 4]`.
    """

    name = "pd_op.nms"
    signature = "x ; threshold: f32 = 1.0 -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(Nms)
def _(x: TensorMeta, *, threshold: float) -> TensorMeta:
    require(x.rank == 2 and same_dim(x.shape[1], 4), "C1", f"{x} holds no boxes")
    return TensorMeta((UNKNOWN,), dt.int64)


@reference(Nms)
def _(x: Array, *, threshold: float) -> Array:
    return np.array(suppress(x, threshold, 1.0, len(x), False), np.int64)


@samples(Nms)
def _(s: SampleMaker) -> Iterator[Sample]:
    corners = s.tensor(8, 2, low=0.0, high=3.0)
    boxes = np.concatenate([corners, corners + s.tensor(8, 2, low=1.0, high=3.0)], axis=1)
    yield s(boxes, threshold=0.3)
    yield s(boxes, threshold=0.7)


@bad_samples(Nms)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4), threshold=0.3)
    yield "C1", s(s.tensor(3, 5), threshold=0.3)
