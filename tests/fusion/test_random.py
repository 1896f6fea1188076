"""Random programs give the same numbers fused as op by op."""

from __future__ import annotations

import os

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.verify_kernel import problems
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.verify import verify_module
from pirkit.lowering.fusion.fuse_pass import FusePass
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes.base import PassContext
from pirkit.runtime.executor import Executable
from tests.fusion.random_programs import Array, Maker

SEEDS = 2004 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 300


def run(program: ProgramOp, inputs: dict[str, Array]) -> dict[str, Array]:
    library = KernelLibrary("reference")
    return dict(Executable(write_plan(program, library=library), library).run(inputs))


def fused(program: ProgramOp, **options: object) -> tuple[ProgramOp, PassContext]:
    module = ModuleOp([program.clone()])
    context = PassContext("fuse", ops=1000)
    FusePass(**options).run(context, module)  # type: ignore[arg-type]
    verify_module(module)
    return next(op for op in module.ops if isinstance(op, ProgramOp)), context


@pytest.mark.parametrize("block", range(12))
def test_fused_programs_give_the_same_numbers(block: int) -> None:
    for seed in range(SEEDS // 12 * block, SEEDS // 12 * (block + 1)):
        made = Maker(seed, depth=3 + seed % 10)
        want = run(made.program, made.inputs)
        program, _ = fused(made.program, single=seed % 2 == 0)
        got = run(program, made.inputs)
        assert want.keys() == got.keys()
        for name in want:
            np.testing.assert_allclose(
                got[name], want[name], rtol=2e-5, atol=1e-6, err_msg=f"seed {seed}, {name}"
            )


def test_the_text_of_a_kernel_is_the_kernel_and_keeps_the_rules_of_kernels() -> None:
    for seed in range(100):
        program, _ = fused(Maker(seed, depth=8).program, single=True)
        for op in program.operations:
            if isinstance(op, PirOp) and op.name == "pir.map_expr":
                text = op.attribute("kernel")
                kernel = parse_kernel(text)
                assert print_kernel(kernel) == text
                assert list(problems(kernel)) == []
