"""Non-maximum suppression of overlapping boxes."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.bounding_boxes import suppress
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.multiclass_nms import report

KIND = "algorithm"


@op
class Nms:
    """Indices of the boxes that stay: no better one that stays overlaps them too much.

    That is, their intersection over union is at most `threshold`. `x [R, 4]` holds corners (x1, y1,
    x2, y2), the best box first.

    C1: `x` is `[R, 4]`.
    """

    name = "pd_op.nms"
    signature = "x ; threshold: f32 = 1.0 -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(Nms)
def _(x: TensorMeta, **_: object) -> TensorMeta:
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


@op
class MulticlassNms3:
    """Boxes that detectors report: of each class the best of those that overlap.

    `bboxes [N, M, 4]` have `scores [N, C, M]`. In each image and class but `background_label`, the
    `nms_top_k` best of the boxes with more than `score_threshold` compete, as in `nms`; of all that
    stay in an image the `keep_top_k` best are reported. A row of `out` is the class, the score and
    the corners; `index` is the number of the box among all boxes, and `nms_rois_num` counts the
    rows of each image. Negative limits are none. `nms_eta` below 1 lowers the threshold after each
    box that stays, while it is above one half. Boxes that are not `normalized` count pixels: their
    far edges are part of them.

    With `rois_num`, how many boxes each image has, `bboxes [M, C, 4]` have one row for each class,
    `scores [M, C]`, and `index` is a number among all rows of boxes. The rows of an image are
    sorted by class and score, with `rois_num` by class and `index`.

    C1: `bboxes` has three dimensions, and four numbers for each box.
    C2: `scores` has a number for each box and class.
    C3: `rois_num` is a vector of integers.
    C4: the numbers in `rois_num` are those of all boxes together.
    """

    name = "pd_op.multiclass_nms3"
    signature = (
        "bboxes, scores, rois_num? ; score_threshold: f32, nms_top_k: i32, keep_top_k: i32, "
        "nms_threshold: f32 = 0.3, normalized: bool = True, nms_eta: f32 = 1.0, "
        "background_label: i32 = 0 -> out, index, nms_rois_num"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"rois_num": dt.INTS}


@infer_meta(MulticlassNms3)
def _(
    bboxes: TensorMeta, scores: TensorMeta, rois_num: TensorMeta | None, **_: object
) -> tuple[TensorMeta, ...]:
    boxes = bboxes.rank == 3 and same_dim(bboxes.shape[2], 4)
    require(boxes, "C1", f"{bboxes} holds no boxes")
    first, second = bboxes.shape[:2]
    if rois_num is None:
        fits = scores.rank == 3 and same_dim(scores.shape[0], first)
        fits = fits and same_dim(scores.shape[2], second)
        images = UNKNOWN if not fits or scores.shape[0] == UNKNOWN else scores.shape[0]
    else:
        fits = scores.rank == 2 and all(map(same_dim, scores.shape, (first, second)))
        vector = rois_num.rank == 1 and rois_num.dtype in dt.INTS
        require(vector, "C3", f"rois_num {rois_num} counts no boxes")
        images = rois_num.shape[0]
    require(fits, "C2", f"scores {scores} for {bboxes}")
    return (
        bboxes.with_shape((UNKNOWN, 6)),
        TensorMeta((UNKNOWN, 1), dt.int32),
        TensorMeta((images,), dt.int32),
    )


reference(MulticlassNms3)(report)


@samples(MulticlassNms3)
def _(s: SampleMaker) -> Iterator[Sample]:
    corners = s.tensor(2, 7, 2, low=0.0, high=2.0)
    boxes = np.concatenate([corners, corners + s.tensor(2, 7, 2, low=0.5, high=2.0)], axis=2)
    scores = s.tensor(2, 3, 7, low=0.1, high=1.0)
    usual = {"score_threshold": 0.3, "nms_top_k": 5, "keep_top_k": 4}
    yield s(boxes, scores, **usual)
    yield s(boxes, scores, **{**usual, "keep_top_k": -1}, normalized=False, background_label=-1)
    yield s(boxes, scores, **usual, nms_threshold=0.7, nms_eta=0.8)
    yield s(boxes, scores, **{**usual, "score_threshold": 2.0})
    by_class = np.stack([boxes[0]] * 3, axis=1)
    yield s(by_class, scores[0].T.copy(), s.array([3, 4], dt.int32), **usual)


@bad_samples(MulticlassNms3)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    usual = {"score_threshold": 0.3, "nms_top_k": 5, "keep_top_k": 4}
    yield "C1", s(s.tensor(2, 7, 5), s.tensor(2, 3, 7), **usual)
    yield "C2", s(s.tensor(2, 7, 4), s.tensor(2, 3, 6), **usual)
    yield "C3", s(s.tensor(7, 3, 4), s.tensor(7, 3), s.array([[7]], dt.int32), **usual)
    yield "C4", s(s.tensor(7, 3, 4), s.tensor(7, 3), s.array([3, 5], dt.int32), **usual)
    yield "C4", s(s.tensor(7, 3, 4), s.tensor(7, 3), s.array([8, -1], dt.int32), **usual)


@op
class NonMaxSuppression:
    """Rows `[image, class, box]` of the best boxes of each class and image that do not overlap.

    `boxes [N, M, 4]` hold two corners, in any order, or with `centered` the middle, width and
    height. Those whose `scores [N, C, M]` exceed `score_threshold` are visited from the best on:
    one stays if its intersection over union with each better one that stays is at most `threshold`.
    At most `limit` of a class stay (`NonMaxSuppression` of ONNX).

    C1: `boxes` has three dimensions, and four numbers for each box.
    C2: `scores` has a number for each class and box.
    """

    name = "pir.non_max_suppression"
    signature = (
        "boxes, scores ; limit: i64, threshold: f32, score_threshold: f32, "
        "centered: bool = False -> out"
    )
    dtypes = (dt.float32, dt.float64)


@infer_meta(NonMaxSuppression)
def _(boxes: TensorMeta, scores: TensorMeta, **_: object) -> TensorMeta:
    require(boxes.rank == 3 and same_dim(boxes.shape[2], 4), "C1", f"{boxes} holds no boxes")
    fits = scores.rank == 3 and same_dim(scores.shape[0], boxes.shape[0])
    require(fits and same_dim(scores.shape[2], boxes.shape[1]), "C2", f"scores {scores}")
    return TensorMeta((UNKNOWN, 3), dt.int64)


@reference(NonMaxSuppression)
def _(
    boxes: Array, scores: Array, *, limit: int, threshold: float, score_threshold: float,
    centered: bool,
) -> Array:  # fmt: skip
    half = boxes[..., 2:] / 2 if centered else 0
    first, second = boxes[..., :2] - half, boxes[..., :2] + half if centered else boxes[..., 2:]
    corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=2)
    rows: list[list[int]] = []
    for image, classes in enumerate(scores):
        for kind, each in enumerate(classes):
            order = np.argsort(-each, kind="stable")
            order = order[each[order] > score_threshold]
            kept = suppress(corners[image][order], threshold, 1.0, limit, False)
            rows += [[image, kind, int(order[k])] for k in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


@samples(NonMaxSuppression)
def _(s: SampleMaker) -> Iterator[Sample]:
    boxes, scores = s.tensor(2, 9, 4, low=0.0, high=2.0), s.tensor(2, 3, 9, low=0.1, high=1.0)
    yield s(boxes, scores, limit=4, threshold=0.3, score_threshold=-1.0)
    yield s(boxes, scores, limit=9, threshold=0.5, score_threshold=0.4, centered=True)


@bad_samples(NonMaxSuppression)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 7, 5), s.tensor(2, 3, 7), limit=1, threshold=0.5, score_threshold=0.0)
    yield "C2", s(s.tensor(2, 7, 4), s.tensor(2, 3, 6), limit=1, threshold=0.5, score_threshold=0.0)
