"""What it costs to compute an operation again, on operations whose work can be counted by hand."""

from __future__ import annotations

from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import RecomputeCost
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.split.costs import recompute_cost_of, work_of
from tests.execution import parsed


def ops_of(body: str) -> dict[str, PirOp]:
    module = parsed(f"""
pir.program @main(%x "x" : tensor<4x8xf32>, %y "y" : tensor<8x2xf32>, %e "e" : tensor<4x0xf32>,
                  %f "f" : tensor<0x2xf32>) {{
{body}
}}""")
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return {op.name: op for op in operations(program.block)}


def test_a_product_takes_its_multiplications_and_an_elementwise_op_its_elements() -> None:
    found = ops_of("""
  %a = pd_op.matmul(%x, %y) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %b = pd_op.exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>""")
    assert work_of(found["pd_op.matmul"]) == 4 * 8 * 2 + 4 * 2 + 1
    assert work_of(found["pd_op.exp"]) == 4 * 8 + 1


def test_a_product_with_one_element_takes_its_multiplications() -> None:
    found = ops_of("""
  %a = pd_op.sum(%x) {axis = array<i64>, keepdim = true} : (tensor<4x8xf32>) -> tensor<1x1xf32>
  %b = pd_op.full() {shape = array<i64: 9, 1>, value = 2.0 : f64, dtype = #pir.dtype<float32>,
    place = #pir.place<cpu:0>} : () -> tensor<9x1xf32>
  %c = pd_op.matmul(%b, %a) : (tensor<9x1xf32>, tensor<1x1xf32>) -> tensor<9x1xf32>""")
    assert work_of(found["pd_op.matmul"]) == 9 + 9 + 1


def test_a_product_of_nothing_takes_little() -> None:
    found = ops_of("""
  %a = pd_op.matmul(%e, %f) : (tensor<4x0xf32>, tensor<0x2xf32>) -> tensor<4x2xf32>""")
    assert 0 < work_of(found["pd_op.matmul"]) < 4 * 8 * 2


def test_what_is_drawn_or_given_is_never_computed_again() -> None:
    found = ops_of("""
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<4x8xf32>
  %w = pd_op.relu_(%p) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = pd_op.share_data(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = pir.combine(%x, %v) : (tensor<4x8xf32>, tensor<4x8xf32>)
      -> !pir.vec<tensor<4x8xf32>, tensor<4x8xf32>>
  %r = pd_op.relu(%v) : (tensor<4x8xf32>) -> tensor<4x8xf32>""")
    assert recompute_cost_of(found["pir.parameter"]) is RecomputeCost.NEVER
    assert recompute_cost_of(found["pd_op.relu_"]) is RecomputeCost.NEVER
    assert recompute_cost_of(found["pir.combine"]) is RecomputeCost.NOTHING
    assert recompute_cost_of(found["pd_op.relu"]) is RecomputeCost.CHEAP
    free, cheap = work_of(found["pd_op.share_data"]), work_of(found["pd_op.relu"])
    assert work_of(found["pir.combine"]) <= free < cheap
