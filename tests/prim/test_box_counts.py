"""Boxes that `boxes_num` does not account for are refused, in generated code as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import LimitError, RuntimeFault


@pytest.mark.parametrize("counts", [[1, 4], [3, 0], [5, -1]])
@pytest.mark.parametrize(
    ("op", "channels", "more"),
    [("psroi_pool", 8, {"output_channels": 2}), ("roi_pool", 3, {}), ("roi_align", 3, {})],
)
def test_wrong_counts_are_refused(
    op: str, channels: int, more: dict[str, int], counts: list[int]
) -> None:
    b: Any = pirkit.ProgramBuilder()
    x = b.input("x", (2, channels, 6, 7), "float32")
    boxes, number = b.input("b", (4, 4), "float32"), b.input("n", (2,), "int32")
    found = b(f"pd_op.{op}", x, boxes, number, pooled_height=2, pooled_width=2, **more)
    b.output("y", found[0] if isinstance(found, tuple) else found)
    run = pirkit.compile(b.finish(), pipeline="@fused")
    given = np.ones((2, channels, 6, 7), np.float32), np.ones((4, 4), np.float32)
    run(x=given[0], b=given[1], n=np.array([1, 3], np.int32))
    with pytest.raises(RuntimeFault) as caught:
        run(x=given[0], b=given[1], n=np.array(counts, np.int32))
    assert caught.value.code == "PK0901"


@pytest.mark.parametrize(("side", "ratio"), [(1e9, -1), (4.0, 10**9)])
def test_more_points_than_a_loop_may_have_are_refused(side: float, ratio: int) -> None:
    x, boxes = np.ones((1, 1, 8, 8), np.float32), np.array([[0, 0, side, side]], np.float32)
    with pytest.raises(LimitError, match="loop_steps"):
        ops.roi_align(x, boxes, None, sampling_ratio=ratio)
