"""Programs that write in place where they may: numbers stay, and memory does not grow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import pirkit
from pirkit.dialect.text import print_mlir
from pirkit.frontend.cases import check_case, open_case
from pirkit.frontend.compile import DEFAULT_PIPELINE, run_passes
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.files import load
from pirkit.passes import run_pipeline
from pirkit.runtime.meta import Meta, of_array
from pirkit.runtime.planning import plan_memory
from pirkit.runtime.session import Draws
from tests.execution import parsed

FOLDER = Path(__file__).parents[2] / "corpus" / "paddle"
CASES = sorted(p for p in FOLDER.iterdir() if p.is_dir())


@pytest.mark.parametrize("source", ["main", "split"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_numbers_stay_those_of_paddle(case: Path, source: str) -> None:
    report = check_case(case, source, pipeline="@default,inplace")
    assert report.status == "pass", report.message


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_the_memory_of_a_run_does_not_grow(folder: Path) -> None:
    case, program = open_case(folder), load(folder / "program.txt")
    found: list[int] = []
    for pipeline in (DEFAULT_PIPELINE, f"{DEFAULT_PIPELINE},inplace"):
        exe = compile_program(program, pipeline=pipeline)
        held = {**case.step("inputs.npz", 1), **case.arrays("params.npz")}
        ports = (*exe.plan.inputs, *exe.plan.params)
        fed: dict[int, Meta] = {p.slot: of_array(held[p.name]) for p in ports}
        layout = plan_memory(
            exe.plan, exe.library, fed, device=exe.library.device, generator=Draws().generator
        )
        found.append(layout.nbytes)
    assert found[1] <= found[0]


@pytest.mark.parametrize(("operands", "is_written"), [("%a, %x", True), ("%a, %a", False)])
def test_an_operand_that_occurs_twice_is_not_written(operands: str, is_written: bool) -> None:
    module = parsed(f"""
        pir.program @main(%x "x" : tensor<2xf32>) {{
          %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
          %b = pd_op.add({operands}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %c = pd_op.exp(%b) : (tensor<2xf32>) -> tensor<2xf32>
          pir.shadow_output(%c) {{output_name = "c"}} : (tensor<2xf32>) -> ()
        }}""")
    run_pipeline(module, "inplace")
    assert ("pd_op.add_(" in print_mlir(module)) is is_written


def test_a_chain_that_is_four_times_as_long_takes_no_sixteen_times_as_long() -> None:
    def seconds(length: int) -> float:
        b = pirkit.ProgramBuilder()
        value = b.input("x", (5,), "float32")
        for _ in range(length):
            value = b.tanh(value)
        b.output("y", value)
        program = b.finish()
        start = time.process_time()
        changed = run_passes(program, "inplace")
        took = time.process_time() - start
        written = sum(op.name == "pd_op.tanh_" for op in changed.module.walk())
        assert written == length - 1
        return took

    assert min(seconds(4000) for _ in range(2)) < 10 * min(seconds(1000) for _ in range(3))
