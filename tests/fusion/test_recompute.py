"""What a kernel computes again of values that another one has."""

from __future__ import annotations

from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from tests.fusion.cases import Case


def test_what_is_made_of_a_value_that_is_read_anyway_is_not_read() -> None:
    c = Case()
    x = c.op("tanh", c.b.exp(c(64, 64)))
    square = x * x
    y = (x + c.b.cumsum(x + square, axis=0)) * square
    c.b("pir.shadow_output", y, output_name="y0")
    first, second = (k.kernel for k in plan_fusion(c.program.block, Policy()).kernels)
    assert len(first.outputs) == 2
    assert len(second.inputs) == 2
