"""Programs that write in place: what stands before the first write is fused, the rest is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.cases import check_case
from tests.execution import parsed
from tests.fusion.test_random import fused, run

CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"

T = "tensor<2x3xf32>"

AFTER_IN_PLACE = f"""
pir.program @p(%x "x" : {T}, %y "y" : {T}) {{
  %a = pd_op.exp(%x) : ({T}) -> {T}
  %b = pd_op.add(%a, %y) : ({T}, {T}) -> {T}
  %w = pd_op.assign_out_(%b, %y) : ({T}, {T}) -> {T}
  %c = pd_op.sin(%y) : ({T}) -> {T}
  %d = pd_op.multiply(%c, %c) : ({T}, {T}) -> {T}
  pir.shadow_output(%d) {{output_name = "d"}} : ({T}) -> ()
}}
"""

NAMES = f"""
pir.program @p(%x "x" : {T}) {{
  %a = pd_op.exp(%x) : ({T}) -> {T}
  %b = pd_op.share_data_(%a) : ({T}) -> {T}
  %c = pd_op.add(%b, %x) : ({T}, {T}) -> {T}
  %d = pd_op.sin(%c) : ({T}) -> {T}
  %w = pd_op.add_(%b, %d) : ({T}, {T}) -> {T}
  pir.shadow_output(%a) {{output_name = "a"}} : ({T}) -> ()
}}
"""

BRANCH = f"""
pir.program @p(%x "x" : {T}, %y "y" : {T}, %q "q" : tensor<i1>) {{
  %a = pd_op.exp(%x) : ({T}) -> {T}
  %b = pd_op.add(%a, %y) : ({T}, {T}) -> {T}
  %i = "pd_op.if"(%q) ({{
    %m = pd_op.sin(%b) : ({T}) -> {T}
    %n = pd_op.multiply(%m, %y) : ({T}, {T}) -> {T}
    %w = pd_op.assign_out_(%n, %y) : ({T}, {T}) -> {T}
    pir.yield(%n) : ({T}) -> ()
  }}, {{
    pir.yield(%b) : ({T}) -> ()
  }}) : (tensor<i1>) -> {T}
  %c = pd_op.add(%i, %y) : ({T}, {T}) -> {T}
  %d = pd_op.sin(%c) : ({T}) -> {T}
  pir.shadow_output(%d) {{output_name = "d"}} : ({T}) -> ()
}}
"""

BRANCHED = f"""
pir.program @p(%x "x" : {T}, %y "y" : {T}, %q "q" : tensor<i1>) {{
  %i = "pd_op.if"(%q) ({{
    %m = pd_op.sin(%x) : ({T}) -> {T}
    pir.yield(%m) : ({T}) -> ()
  }}, {{
    pir.yield(%y) : ({T}) -> ()
  }}) : (tensor<i1>) -> {T}
  %a = pd_op.exp(%i) : ({T}) -> {T}
  %b = pd_op.add(%a, %y) : ({T}, {T}) -> {T}
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
}}
"""


def test_branches_that_write_nothing_are_no_end_of_fusing() -> None:
    program = next(op for op in parsed(BRANCHED).ops if isinstance(op, ProgramOp))
    made, context = fused(program)
    assert [r.kind for r in context.remarks] == ["passed"]
    ops = [op.name for op in made.operations]
    assert "pir.map_expr" in ops
    assert "pd_op.exp" not in ops


PROGRAMS = {
    "what stands behind": (AFTER_IN_PLACE, "assign_out_ sin multiply", "exp add"),
    "other names": (NAMES, "exp share_data_ add_", "add sin"),
    "branches": (BRANCH, "assign_out_ add sin", "exp add sin multiply"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_stay_and_only_ops_before_a_write_are_fused(name: str) -> None:
    text, left, gone = PROGRAMS[name]
    program = next(op for op in parsed(text).ops if isinstance(op, ProgramOp))
    made, _ = fused(program)
    ops = [op.name.partition(".")[2] for op in made.walk() if isinstance(op, PirOp)]
    assert ops.count("map_expr") == (2 if name == "branches" else 1)
    held = [op for op in ops if op in (*left.split(), *gone.split())]
    assert sorted(held) == sorted(left.split())
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal((2, 3)).astype(np.float32) for n in "xy"}
    given = {n: a for n, a in given.items() if f'"{n}"' in text}
    if "tensor<i1>" in text:
        given["q"] = np.asarray(True)
    want = run(program, {n: a.copy() for n, a in given.items()})
    got = run(made, {n: a.copy() for n, a in given.items()})
    for key in want:
        np.testing.assert_allclose(got[key], want[key], rtol=1e-6)


@pytest.mark.parametrize("case", ["conv_bn_train", "dynamic_batch", "inplace_ops"])
def test_captured_programs_give_paddles_numbers(case: str) -> None:
    report = check_case(CORPUS / case, "main", pipeline="@fused")
    assert report.status == "pass", report.message
