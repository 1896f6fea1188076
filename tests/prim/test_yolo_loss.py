"""The loss of a detector on a grid, where it is a few logarithms of two."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.prim.differentiation import Array, Traced

ATTRIBUTES: Final[dict[str, Any]] = {
    "anchors": (16, 16, 32, 32, 48, 48),
    "anchor_mask": (1, 2),
    "class_num": 3,
    "ignore_thresh": 0.7,
    "use_label_smooth": False,
}
GRID: Final = 4
"""Cells a side; the image is 128 pixels wide, so the first anchor that counts is a cell."""


def computed(x: Array, boxes: Array, score: float, pipeline: str) -> dict[str, Array]:
    labels, scores = np.zeros((1, len(boxes)), np.int32), np.full((1, len(boxes)), score)
    inputs = [x, boxes[None], labels, scores]
    t = Traced(inputs)
    loss, mask, match = t.b("pd_op.yolo_loss", *t.args, **ATTRIBUTES)
    found = t.run({"loss": loss, "mask": mask, "match": match}, pipeline)
    t = Traced(inputs)
    (slope,) = t.grad(t.b("pd_op.yolo_loss", *t.args, **ATTRIBUTES)[0], [t.args[0]])
    assert slope is not None
    return {**found, **t.run({"slope": slope}, pipeline)}


def zeros() -> Array:
    return np.zeros((1, 2 * 8, GRID, GRID))


@pytest.mark.parametrize("pipeline", ["", "decompose"])
def test_without_boxes_all_cells_deny_one(pipeline: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 16, GRID, GRID))
    found = computed(x, np.zeros((2, 4)), 1.0, pipeline)
    grid, slope = (v.reshape(2, 8, GRID, GRID) for v in (x, found["slope"]))
    np.testing.assert_allclose(found["loss"], [np.log1p(np.exp(grid[:, 4])).sum()], rtol=1e-13)
    np.testing.assert_allclose(slope[:, 4], 1 / (1 + np.exp(-grid[:, 4])), rtol=1e-12)
    assert not slope[:, [0, 1, 2, 3, 5, 6, 7]].any()
    assert found["match"].tolist() == [[-1, -1]]


@pytest.mark.parametrize("pipeline", ["", "decompose"])
def test_a_box_in_the_middle_of_a_cell(pipeline: str) -> None:
    """Its prediction is exact but for certainty; the one of its own cell affirms it."""
    side, score = 1 / GRID, 0.5
    box = np.array([[2.5 * side, 1.5 * side, side, side]])
    found = computed(zeros(), box, score, pipeline)
    of_box = (2 * (2 - side * side) + 3) * score + score  # centre, classes, certainty
    others = 2 * GRID * GRID - 1
    np.testing.assert_allclose(found["loss"], [(of_box + others) * np.log(2)], rtol=1e-13)
    expected = np.zeros((1, 2, GRID, GRID))
    expected[0, 0, 1, 2] = score
    np.testing.assert_array_equal(found["mask"], expected)
    assert found["match"].tolist() == [[0]]
    slope = found["slope"].reshape(2, 8, GRID, GRID)[0, :, 1, 2]
    np.testing.assert_allclose(slope[[0, 1, 4, 5, 6, 7]], [0, 0, -0.25, -0.25, 0.25, 0.25])


@pytest.mark.parametrize("pipeline", ["", "decompose"])
def test_boxes_of_other_anchors_and_of_one_cell(pipeline: str) -> None:
    """A small box matches no anchor that counts; of two in a cell the last gives the weight."""
    side = 1 / GRID
    small = [0.1, 0.1, side / 2, side / 2]
    boxes = np.array([small, [0.3, 0.3, side, side], [0.4, 0.4, side * 1.1, side]])
    found = computed(zeros(), boxes, 0.25, pipeline)
    assert found["match"].tolist() == [[-1, 0, 0]]
    assert np.argwhere(found["mask"] > 0).tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize("label", [-1, 3, 1 << 30])
def test_a_label_of_no_class_denies_all_of_them(label: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 16, GRID, GRID))
    boxes = np.array([[[0.6, 0.4, 0.25, 0.25]]])
    found: list[Array] = []
    for pipeline in ("", "decompose"):
        t = Traced([x, boxes, np.array([[label]], np.int32), np.ones((1, 1))])
        loss = t.b("pd_op.yolo_loss", *t.args, **ATTRIBUTES)[0]
        found.append(t.run({"loss": loss}, pipeline)["loss"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    logits = x.reshape(2, 8, GRID, GRID)[0, 5:, 1, 2]
    t = Traced([x, boxes, np.array([[2]], np.int32), np.ones((1, 1))])
    second = t.run({"loss": t.b("pd_op.yolo_loss", *t.args, **ATTRIBUTES)[0]}, "")["loss"]
    np.testing.assert_allclose(found[0] - second, [logits[2]], rtol=1e-9)
