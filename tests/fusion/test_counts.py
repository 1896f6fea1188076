"""How many kernels well-known ops become, forward and backward."""

from __future__ import annotations

import pytest

from pirkit.dialect.operation import PirOp
from pirkit.dialect.text import parse_mlir
from pirkit.passes import run_pipeline
from tests.fusion import table

X = "tensor<2048x64xf32>"
W = "tensor<64xf32>"
ROW = "tensor<2048xf32>"
COLUMN = "tensor<2048x1xf32>"

OPS = {
    "softmax": (f"%y = pd_op.softmax(%x) {{axis = -1 : i32}} : ({X}) -> {X}", 1, 2),
    "log_softmax": (f"%y = pd_op.log_softmax(%x) {{axis = -1 : i32}} : ({X}) -> {X}", 1, 2),
    "layer_norm": (
        f"%y, %m, %v = pd_op.layer_norm(%x, %w, %w)"
        " {epsilon = 1.0e-5 : f32, begin_norm_axis = 1 : i32}"
        f" : ({X}, {W}, {W}) -> ({X}, {ROW}, {ROW})",
        1,
        2,
    ),
    "rms_norm": (
        f"%q = pd_op.multiply(%x, %x) : ({X}, {X}) -> {X}\n"
        f"  %v = pd_op.mean(%q) {{axis = array<i64: -1>, keepdim = true}} : ({X}) -> {COLUMN}\n"
        f"  %r = pd_op.rsqrt(%v) : ({COLUMN}) -> {COLUMN}\n"
        f"  %n = pd_op.multiply(%x, %r) : ({X}, {COLUMN}) -> {X}\n"
        f"  %y = pd_op.multiply(%n, %w) : ({X}, {W}) -> {X}",
        1,
        2,
    ),
    "gelu": (f"%y = pd_op.gelu(%x) {{approximate = false}} : ({X}) -> {X}", 1, 1),
    "gelu_tanh": (f"%y = pd_op.gelu(%x) {{approximate = true}} : ({X}) -> {X}", 1, 1),
    "silu_bias": (
        f"%b = pd_op.add(%x, %w) : ({X}, {W}) -> {X}\n  %y = pd_op.silu(%b) : ({X}) -> {X}",
        1,
        1,
    ),
}


def kernels(body: str, before: str) -> int:
    text = (
        f'pir.program @p(%x "x" : {X}, %w "w" : {W}) {{\n  {body}\n'
        f'  pir.shadow_output(%y) {{output_name = "y"}} : ({X}) -> ()\n}}\n'
    )
    module = parse_mlir(text, "p")
    run_pipeline(module, f"{before}decompose,canonicalize,cse,dce,fuse{{single=true}}")
    return sum(isinstance(op, PirOp) and op.name == "pir.map_expr" for op in module.walk())


@pytest.mark.parametrize("name", OPS)
def test_forward(name: str) -> None:
    body, forward, _ = OPS[name]
    assert kernels(body, "") == forward


@pytest.mark.parametrize("name", OPS)
def test_forward_and_backward(name: str) -> None:
    body, forward, backward = OPS[name]
    assert kernels(body, "autodiff{seeds=true},expand-gradients,") <= forward + backward


BATCH_NORM = """
pir.program @p(%x "x" : tensor<4x8x6x6xf32>, %m "m" : tensor<8xf32>, %v "v" : tensor<8xf32>,
               %w "w" : tensor<8xf32>, %b "b" : tensor<8xf32>) {
  %y, %mo, %vo, %sm, %sv, %r = pd_op.batch_norm(%x, %m, %v, %w, %b) {is_test = true,
    momentum = 0.9 : f32, epsilon = 1.0e-5 : f32, data_format = "NCHW",
    use_global_stats = false, trainable_statistics = false}
    : (tensor<4x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    -> (tensor<4x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<?xui8>)
  %z = pd_op.relu(%y) : (tensor<4x8x6x6xf32>) -> tensor<4x8x6x6xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<4x8x6x6xf32>) -> ()
}
"""  # noqa: E501


def test_batch_norm_of_inference_is_one_kernel_with_what_reads_it() -> None:
    module = parse_mlir(BATCH_NORM, "p")
    run_pipeline(module, "decompose,canonicalize,cse,dce,fuse{single=true}")
    names = [op.name for op in module.walk() if isinstance(op, PirOp)]
    assert names == ["pir.map_expr", "pir.shadow_output"]


def test_the_table_of_captured_programs_is_current() -> None:
    """`python -m tests.fusion.table` writes it anew."""
    assert table.page() == table.PAGE.read_text(encoding="utf-8")


def test_the_bytes_of_each_kernel_are_told() -> None:
    body, _, _ = OPS["silu_bias"]
    text = (
        f'pir.program @p(%x "x" : {X}, %w "w" : {W}) {{\n  {body}\n'
        f'  pir.shadow_output(%y) {{output_name = "y"}} : ({X}) -> ()\n}}\n'
    )
    result = run_pipeline(parse_mlir(text, "p"), "decompose,fuse")
    (output,) = [r.message for r in result.remarks if r.kind == "passed" and r.pass_name == "fuse"]
    size = 2048 * 64 * 4
    assert output.endswith(f"bytes are moved as {2 * size + 64 * 4:,}")
