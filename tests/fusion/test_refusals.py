"""Of every pair of ops that is not in one kernel a reason is known, and what changes it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from pirkit.diag.errors import UsageError
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.files import load
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import DEFAULT, Policy
from pirkit.lowering.fusion.print import why_not_fused
from pirkit.lowering.fusion.refusal import KINDS
from pirkit.passes import run_pipeline
from tests.fusion.cases import CASES, built
from tests.fusion.pairs import is_fused_by, refusals
from tests.fusion.random_programs import Maker

CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"
CAPTURED = sorted(path.parent.name for path in CORPUS.glob("*/program.txt"))
BEFORE = "@simplify,functionalize,decompose,canonicalize,cse,dce"


def output(program: ProgramOp, policy: Policy = DEFAULT) -> Counter[str]:
    """Check what is told of every pair; how often each kind is."""
    found: Counter[str] = Counter()
    for block, one, other, refusal in refusals(program, policy):
        if refusal is None:
            found["fused"] += 1
            continue
        found[refusal.kind] += 1
        assert refusal.kind in KINDS
        assert refusal.reason
        assert refusal.holds()
        if refusal.kind in ("index-conflict", "cost"):
            assert refusal.remedy
        if refusal.remedy.startswith("fuse{"):
            assert is_fused_by(refusal.remedy, program, block, one, other) is None, str(refusal)
    return found


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    output(built(name)[1])


def test_random_programs() -> None:
    found: Counter[str] = Counter()
    for seed in range(100):
        policy = DEFAULT if seed % 2 else Policy(recompute=0)
        found += output(Maker(seed, depth=3 + seed % 10).program, policy)
    assert {"fused", "opaque", "cost", "index-conflict"} <= found.keys()


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_programs(name: str) -> None:
    module = load(CORPUS / name / "program.txt").module
    run_pipeline(module, BEFORE)
    for program in module.ops:
        assert isinstance(program, ProgramOp)
        output(program)


def test_a_certificate_that_is_tampered_with_does_not_hold() -> None:
    _, program = built("c08_sum_with_own_transpose")
    found = plan_fusion(program.block, Policy(recompute=0, tile=False)).partition
    (refusal,) = {id(r): r for r in found.refusals.values() if r.path1}.values()
    assert refusal.holds()
    (first, *rest), at = refusal.path1, refusal.path1[-1]
    moved = replace(at, index=tuple(e + 1 for e in at.index))
    for wrong in (
        replace(refusal, witness=dict.fromkeys(refusal.witness, 0)),
        replace(refusal, path1=refusal.path2),
        replace(refusal, path1=(first, *rest[:-1], moved)),
        replace(refusal, path1=(first,)),
        replace(refusal, tensor=None),
    ):
        assert not wrong.holds()


UNRELATED = """
pir.program @p(%x "x" : tensor<4xf32>, %y "y" : tensor<9xf32>) {
  %a = pd_op.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = pd_op.exp(%y) : (tensor<9xf32>) -> tensor<9xf32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<4xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<9xf32>) -> ()
}
"""


def test_ops_that_share_nothing_would_gain_nothing() -> None:
    text = why_not_fused(parse_mlir(UNRELATED, "p"), "a", "b")
    assert text == (
        "%a and %b are not in one kernel: cost: they share nothing that one kernel would read"
        " once\n  remedy: `fuse{forced=%a+%b}`"
    )


WRITES = """
pir.program @p(%x "x" : tensor<4xf32>) {
  %e = pd_op.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = pd_op.relu_(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %s = pd_op.sin(%e) : (tensor<4xf32>) -> tensor<4xf32>
  pir.shadow_output(%r) {output_name = "r"} : (tensor<4xf32>) -> ()
  pir.shadow_output(%s) {output_name = "s"} : (tensor<4xf32>) -> ()
}
"""


def test_a_program_that_writes_in_place_names_who_reads_what_was_written() -> None:
    text = why_not_fused(parse_mlir(WRITES, "p"), "e", "s")
    assert text == (
        "%e and %s are not in one kernel: alias: `pd_op.relu_` writes in place, and `pd_op.sin`"
        " reads that storage under another name\n  remedy: `functionalize,fuse`"
    )


V = "tensor<4xf32>"
SHOWN = ", ".join(f"print_tensor_{n} = true" for n in ("name", "type", "shape", "layout", "lod"))
PRINT = f'{{first_n = -1 : i32, message = "", summarize = 4 : i32, {SHOWN}, print_phase = "BOTH"}}'
PRINTS = f"""
pir.program @p(%x "x" : {V}) {{
  %a = pd_op.exp(%x) : ({V}) -> {V}
  %s = pd_op.print(%a) {PRINT} : ({V}) -> {V}
  %w = pd_op.print(%x) {PRINT} : ({V}) -> {V}
  %b = pd_op.tanh(%w) : ({V}) -> {V}
  pir.shadow_output(%b) {{output_name = "b"}} : ({V}) -> ()
}}
"""


def test_what_is_printed_in_order_keeps_two_ops_apart() -> None:
    """The second print needs the first, which needs `%a`; `%b` needs the second."""
    module = parse_mlir(PRINTS, "p")
    assert "cycle" in why_not_fused(module, "a", "b")
    run_pipeline(module, "fuse{forced=%a+%b}")
    assert not any(op.name == "pir.map_expr" for op in module.walk())


def test_the_pass_applies_a_remedy() -> None:
    module = parse_mlir(UNRELATED, "p")
    run_pipeline(module, "fuse{forced=%a+%b}")
    assert sum(op.name == "pir.map_expr" for op in module.walk()) == 1


@pytest.mark.parametrize("forced", ["a", "%a+", "%a+%c"])
def test_a_remedy_names_two_values_of_the_program(forced: str) -> None:
    with pytest.raises(UsageError, match=r"PK0703.*(no pair|no value %c)"):
        run_pipeline(parse_mlir(UNRELATED, "p"), f"fuse{{forced={forced}}}")


def test_an_op_is_not_forced_together_with_its_own_indices() -> None:
    """They have to be in memory before the kernel runs: it would read its own result."""
    index = "tensor<6xi64>"
    text = f"""
pir.program @p(%x "x" : tensor<6x4xf32>, %n "n" : {index}) {{
  %a = pd_op.add(%n, %n) : ({index}, {index}) -> {index}
  %i = pd_op.multiply(%a, %n) : ({index}, {index}) -> {index}
  %g = pd_op.gather(%x, %i) {{axis = 0 : i32}} : (tensor<6x4xf32>, {index}) -> tensor<6x4xf32>
  pir.shadow_output(%g) {{output_name = "g"}} : (tensor<6x4xf32>) -> ()
}}
"""
    for pair in ("%a+%g", "%i+%g"):
        run_pipeline(parse_mlir(text, "p"), f"fuse{{forced={pair}}}")  # it verifies the result


def test_no_remedy_is_told_for_an_op_and_its_own_indices() -> None:
    """Neither where they have too few loops in common as well."""
    rows, index = "tensor<64x4096xf32>", "tensor<64xi64>"
    module = parse_mlir(
        f"""
pir.program @p(%x "x" : {rows}) {{
  %t = pd_op.tanh(%x) : ({rows}) -> {rows}
  %s = pd_op.max(%t) {{axis = array<i64: 1>, keepdim = false}} : ({rows}) -> tensor<64xf32>
  %i = pd_op.cast(%s) {{dtype = #pir.dtype<int64>}} : (tensor<64xf32>) -> {index}
  %g = pd_op.gather(%t, %i) {{axis = 0 : i32}} : ({rows}, {index}) -> {rows}
  pir.shadow_output(%g) {{output_name = "g"}} : ({rows}) -> ()
}}
""",
        "p",
    )
    for first in "tsi":
        told = why_not_fused(module, first, "g")
        assert "have to be stored first" in told
        assert "remedy" not in told
