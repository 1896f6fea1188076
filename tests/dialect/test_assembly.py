"""The readable form, as it is printed."""

from __future__ import annotations

import pytest

from pirkit.diag.errors import ParseError
from pirkit.dialect.text import parse_mlir, print_mlir

SQUARE = "tensor<4x4xf32>"


@pytest.mark.parametrize(
    "line",
    [
        f"%1 = pd_op.relu(%0) : ({SQUARE}) -> {SQUARE}",
        f"%1 = pd_op.matmul(%0, %0) {{transpose_x = true}} : ({SQUARE}, {SQUARE}) -> {SQUARE}",
        f"%1, %2, %3 = pd_op.layer_norm(%0) : ({SQUARE})"
        f" -> ({SQUARE}, tensor<4xf32>, tensor<4xf32>)",
        f"%1, %2, %3 = pd_op.layer_norm(%0, none, %0) : ({SQUARE}, none, {SQUARE})"
        f" -> ({SQUARE}, tensor<4xf32>, tensor<4xf32>)",
        f"%1 = pd_op.matmul_grad(%0, %0, %0) : ({SQUARE}, {SQUARE}, {SQUARE}) -> (none, {SQUARE})",
        f'pir.shadow_output(%0) {{output_name = "y"}} : ({SQUARE}) -> ()',
        f"%1 = pir.combine(%0, %0) : ({SQUARE}, {SQUARE}) -> !pir.vec<{SQUARE}, {SQUARE}>",
    ],
)  # fmt: skip
def test_operation_is_printed_as_it_was_read(line: str) -> None:
    text = f'builtin.module {{\n  pir.program @main(%0 "x" : {SQUARE}) {{\n    {line}\n  }}\n}}\n'
    assert print_mlir(parse_mlir(text)) == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"%1 = pd_op.relu(%0) : () -> {SQUARE}", "1 operands but 0 operand types"),
        (f"%1 = pd_op.relu(none) : ({SQUARE}) -> {SQUARE}", "must both be `none`"),
        (f"%1 = pd_op.relu(%0) : (none) -> {SQUARE}", "must both be `none`"),
    ],
)
def test_operands_and_their_types_correspond(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_mlir(f'pir.program @main(%0 "x" : {SQUARE}) {{\n{line}\n}}')
