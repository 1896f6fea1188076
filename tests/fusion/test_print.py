"""What users see of kernels: the seed's form, and refusals."""

from __future__ import annotations

import pytest

from pirkit.diag.errors import UsageError
from pirkit.dialect.text import parse_mlir
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.fusion.print import print_map_exprs, why_not_fused

SEED = """
pir.program @seed(%x "x" : tensor<2x1024x1024xf32>, %y "y" : tensor<2x1024x1024xf32>) {
  %t = pd_op.add(%x, %y) : (tensor<2x1024x1024xf32>, tensor<2x1024x1024xf32>) -> tensor<2x1024x1024xf32>
  %out = pd_op.sum(%t) {axis = array<i64: 0>, keepdim = false} : (tensor<2x1024x1024xf32>) -> tensor<1024x1024xf32>
  pir.shadow_output(%out) {output_name = "out"} : (tensor<1024x1024xf32>) -> ()
}
"""  # noqa: E501

PRINTED = """\
fn_elementwise_add_0_reduce_sum_1_2(&t_var_2[], t_y[], t_x[]) {
  AnchoredMapStmt(t_var_1) {
    MapStmt([i_0, i_1]) {
      reduce_sum_init(&t_var_2);
      MapStmt([i_2]) {
        elementwise_add(&t_var_1, t_x, t_y);
        reduce_sum_acc(&t_var_2, t_var_1);
      }
    }
  }
}
"""

UNSOLVABLE = """
pir.program @unsolvable(%a "a" : tensor<8x1xf32>, %w "w" : tensor<1x1xf32>) {
  %x = pd_op.exp(%a) : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %y = pd_op.reshape(%x) {shape = array<i64: 1, 8>} : (tensor<8x1xf32>) -> tensor<1x8xf32>
  %z = pd_op.add(%x, %y) : (tensor<8x1xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %m = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<8x1xf32>, tensor<1x1xf32>) -> tensor<8x1xf32>
  %s = pd_op.add(%m, %x) : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<8x8xf32>) -> ()
  pir.shadow_output(%s) {output_name = "s"} : (tensor<8x1xf32>) -> ()
}
"""  # noqa: E501


def test_the_seeds_program_prints_as_in_the_seed() -> None:
    assert print_map_exprs(parse_mlir(SEED, "seed")) == PRINTED
    assert why_not_fused(parse_mlir(SEED, "seed"), "t", "out") == "%t and %out are in one kernel"


def test_the_seeds_unsolvable_program_gives_both_derivations_and_a_witness() -> None:
    module = parse_mlir(UNSOLVABLE, "unsolvable")
    assert why_not_fused(module, "x", "z", Policy(recompute=0)) == (
        "%x and %z are not in one kernel: index-conflict: one evaluation of `pd_op.exp` does not"
        " serve all that read it\n"
        "  %z[i0, i1] needs %y[0, i1] needs %x[i1, 0]\n"
        "  %z[i0, i1] needs %x[i0, 0]\n"
        "  the indices differ by [-1 * i0 + i1, 0]: see i0 = 0, i1 = 1\n"
        "  additions per element: compute again 14 (too many), tiles none (the indices differ by"
        " more than the order of loops), store 133\n"
        "  remedy: `fuse{recompute=10}`"
    )
    assert why_not_fused(module, "x", "z") == (
        "%x and %z are in one kernel\n"
        "  %x is computed again, as %z needs it at other indices; additions per element: compute"
        " again 14, tiles none (the indices differ by more than the order of loops), store 133"
    )


@pytest.mark.parametrize(
    ("pair", "kind"),
    [(("x", "m"), "opaque: `pd_op.matmul`"), (("x", "s"), "cycle: one kernel would have to wait")],
)
def test_refusals_name_their_reason(pair: tuple[str, str], kind: str) -> None:
    """A product of one column and one row would be fused."""
    text = """
        pir.program @library(%a "a" : tensor<8x2xf32>, %w "w" : tensor<2x2xf32>) {
          %x = pd_op.exp(%a) : (tensor<8x2xf32>) -> tensor<8x2xf32>
          %m = pd_op.matmul(%x, %w) : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
          %s = pd_op.add(%m, %x) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
          pir.shadow_output(%s) {output_name = "s"} : (tensor<8x2xf32>) -> ()
        }"""
    assert kind in why_not_fused(parse_mlir(text, "library"), *pair)


def test_a_value_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="no operation makes %nothing"):
        why_not_fused(parse_mlir(UNSOLVABLE, "unsolvable"), "x", "nothing")


TURNED = """
pir.program @turned(%a "a" : tensor<8x8xf32>) {
  %e = pd_op.exp(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %x = pd_op.tanh(%e) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = pd_op.transpose(%x) {perm = array<i32: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = pd_op.add(%x, %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<8x8xf32>) -> ()
}
"""


def test_what_is_kept_in_tiles_is_told() -> None:
    module = parse_mlir(TURNED, "turned")
    assert print_map_exprs(module).endswith("} where t_var_2: keep(l1)\n")
    assert why_not_fused(module, "x", "z") == (
        "%x and %z are in one kernel\n"
        "  %x is held in tiles, as %z needs it at other indices; additions per element: compute"
        " again 24 (too many), tiles 5.5, store 133"
    )
    refusal = why_not_fused(module, "x", "z", Policy(tile=False))
    assert "compute again 24 (too many), tiles none (not allowed), store 133" in refusal
    assert "store" not in why_not_fused(module, "e", "x")


def test_inputs_without_names_are_told_apart() -> None:
    text = SEED.replace("%x", "%0").replace("%y", "%1")
    assert "elementwise_add(&t_var_1, t_0, t_1);" in print_map_exprs(parse_mlir(text, "seed"))
