"""What a library computes has a space: the sum over it is what the library gives."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.opdef import OpDef, all_ops
from pirkit.dialect.text import parse_mlir
from pirkit.lowering.fusion.print import why_not_fused
from pirkit.runtime.meta import Meta, TensorMeta
from tests.fusion.test_named_sizes import some_calls

DECLARED = [d for d in all_ops() if library_spaces.get(d) is not None]


def test_what_is_run_by_a_library_is_declared() -> None:
    names = {d.name.partition(".")[2] for d in DECLARED}
    assert names == {"matmul", "conv2d", "conv3d", "depthwise_conv2d"}


@pytest.mark.parametrize("definition", DECLARED, ids=str)
def test_the_sum_over_the_space_is_the_result(definition: OpDef) -> None:
    tried = 0
    for call in some_calls(definition):
        metas = cast("list[Meta | None]", list(call.metas))
        results = [cast(TensorMeta, m) for m in call.infer()]
        value = library_spaces.of(definition)(MapCall(definition, metas, results, call.attrs))
        out = results[0]
        statement = Statement(
            out, value.body, definition.name, value.op, value.extents, value.attrs
        )
        inputs = tuple([cast(TensorMeta, m) for m in metas])
        arrays = [cast("np.ndarray", a) for a in call.args]
        if out.dtype.itemsize < 4:
            continue
        (found,) = run(MapExpr("one", inputs, (statement,), (0,)), arrays)
        np.testing.assert_allclose(found, call.compute()[0], rtol=1e-4, atol=1e-4)
        tried += 1
    assert tried


PRODUCT = """
pir.program @p(%x "x" : tensor<4x8xf32>, %w "w" : tensor<8x6xf32>) {
  %a = pd_op.exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = pd_op.matmul(%a, %w) {transpose_x = false, transpose_y = false}
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  pir.shadow_output(%b) {output_name = "b"} : (tensor<4x6xf32>) -> ()
}
"""


def test_the_refusal_shows_the_space() -> None:
    assert why_not_fused(parse_mlir(PRODUCT, "p"), "a", "b").splitlines()[0] == (
        "%a and %b are not in one kernel: opaque: `pd_op.matmul`: a library computes it faster than"
        " loops: [i0, i1] is the sum of x[i0, r0] * y[r0, i1] over r0 < 8"
    )
