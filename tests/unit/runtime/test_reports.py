"""What a detector reports: which boxes stay, in which order, and their numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit import ops

BOXES: Final = np.array(
    [[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6], [2.5, 0, 4, 2], [0, 0, 0.1, 0.1]], np.float32
)
SCORES: Final = np.array(
    [[0.9, 0.9, 0.9, 0.9, 0.9], [0.5, 0.6, 0.3, 0.4, 0.01], [0.1, 0.2, 0.8, 0.05, 0.05]], np.float32
)
"""Class 0 is the background; the first two boxes overlap."""
USUAL: Final[dict[str, Any]] = {"score_threshold": 0.08, "nms_top_k": 10, "keep_top_k": 10}


def reported(**options: Any) -> tuple[list[tuple[int, int]], list[int]]:
    """Of two images with the same boxes, of which the second has no good one: class and number."""
    boxes, scores = np.stack([BOXES] * 2), np.stack([SCORES, SCORES * np.float32(0.09)])
    out, index, counts = (
        np.asarray(v) for v in ops.multiclass_nms3(boxes, scores, None, **{**USUAL, **options})
    )
    np.testing.assert_array_equal(out[:, 2:], np.concatenate([BOXES] * 2)[index[:, 0]])
    return list(zip(out[:, 0].astype(int).tolist(), index[:, 0].tolist(), strict=True)), [*counts]


def test_the_best_of_boxes_that_overlap_stay() -> None:
    assert reported() == ([(1, 1), (1, 3), (1, 2), (2, 2), (2, 1)], [5, 0])


def test_limits() -> None:
    assert reported(nms_top_k=1) == ([(1, 1), (2, 2)], [2, 0])
    assert reported(keep_top_k=2) == ([(1, 1), (2, 2)], [2, 0])
    assert reported(keep_top_k=0) == ([], [0, 0])
    assert reported(keep_top_k=-1, nms_top_k=-1) == reported()


def test_the_background_is_a_class_where_it_is_none() -> None:
    found, counts = reported(background_label=-1)
    assert found[:4] == [(0, 0), (0, 2), (0, 3), (0, 4)]
    assert found[-2:] == [(0, 8), (0, 9)]
    assert counts == [9, 4]


def test_pixels_that_touch_do_not_overlap() -> None:
    """Between the first box and the fourth is half a pixel, though the widths count one more."""
    found, _ = reported(normalized=False, nms_threshold=0.05)
    assert (1, 3) in found


def test_boxes_for_each_class_are_reported_by_number() -> None:
    by_class = np.stack([BOXES] * 3, axis=1)
    out, index, counts = (
        np.asarray(v)
        for v in ops.multiclass_nms3(by_class, SCORES.T.copy(), np.array([3, 2], np.int32), **USUAL)
    )
    assert out[:, 0].tolist() == [1, 1, 2, 2, 1]
    assert index[:, 0].tolist() == [4, 7, 5, 8, 10]
    assert counts.tolist() == [4, 1]
