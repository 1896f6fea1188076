"""Primitives that stay on the CPU, with copies there and back, and why."""

from __future__ import annotations

from typing import Final

_DRAWN: Final = (
    "numbers are drawn by the generator of the host, so that a seed gives the same ones everywhere"
)
_BOXES: Final = "boxes are chosen one after the other, and few of them"

ON_HOST: Final[dict[str, str]] = {
    "pd_op.print": "it writes to a stream of the host",
    "pd_op.assert": "it raises an error on the host",
    "pd_op.memcpy_h2d": "it begins in the memory of the host",
    "pd_op.memcpy_d2h": "it ends in the memory of the host",
    "pd_op.eig": "cupy gives eigenvalues in no fixed order, and before version 14 none",
    "pd_op.prior_box": "anchors follow from sizes alone and are made once",
    "pd_op.yolo_box": _BOXES,
    "pd_op.distribute_fpn_proposals": _BOXES,
    "pd_op.generate_proposals": _BOXES,
    "pd_op.nms": _BOXES,
    "pd_op.multiclass_nms3": _BOXES,
    "pd_op.matrix_nms": _BOXES,
    "pir.non_max_suppression": _BOXES,
    "pd_op.gather_tree": "a path is followed back step by step",
    "pd_op.viterbi_decode": "a path is followed step by step, and there are few labels",
    "pd_op.uniform": _DRAWN,
    "pd_op.gaussian": _DRAWN,
    "pd_op.randint": _DRAWN,
    "pd_op.randperm": _DRAWN,
    "pd_op.bernoulli": _DRAWN,
    "pd_op.binomial": _DRAWN,
    "pd_op.poisson": _DRAWN,
    "pd_op.standard_gamma": _DRAWN,
}
"""Primitive -> reason."""
