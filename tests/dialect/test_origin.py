"""Messages name the line of the model and the layer that an operation comes from."""

from __future__ import annotations

from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import make, origin_of


def test_the_last_frame_and_the_layer_are_named() -> None:
    frames = (
        '  File "train.py", line 3, in <module>',
        "    y = model(x)",
        '  File "model.py", line 41, in forward',
        "    q @ k",
    )
    op = make(
        "pd_op.full",
        attrs={"shape": (1,), "value": 1.0},
        attributes={
            "op_callstack": encode("str[]", frames),
            "struct_name": encode("str", "/Attention/"),
        },
    )
    assert origin_of(op) == ("traced from model.py:41, in forward: q @ k", "in layer `/Attention/`")


def test_an_operation_without_origin_has_no_notes() -> None:
    assert origin_of(make("pd_op.full", attrs={"shape": (1,), "value": 1.0})) == ()
