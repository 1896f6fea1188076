"""Every kind of op in recorded programs is a primitive or is decomposed."""

from __future__ import annotations

import pytest

from pirkit.diag.errors import UnsupportedError
from tools.gen_docs import _rows, class_of


def test_a18_each_kind_of_recorded_programs_has_a_class_and_none_is_opaque() -> None:
    names = [row["op"] for row in _rows("paddle_ops.csv")]
    names += [f"pd_op.{op}" for row in _rows("torch_ops.csv") for op in row["ops"].split()]
    assert len(names) > 400
    assert [n for n in names if class_of(n) not in ("primitive", "composite")] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pd_op.add", "primitive"),
        ("pd_op.add_", "primitive"),
        ("builtin.combine", "primitive"),
        ("pd_op.softmax_grad", "composite"),
        ("pd_op.batch_norm_", "composite"),
    ],
)
def test_the_class_of_an_op(name: str, kind: str) -> None:
    assert class_of(name) == kind


def test_an_op_that_is_not_known_has_no_class() -> None:
    with pytest.raises(UnsupportedError, match="unknown op"):
        class_of("pd_op.no_such_op")
