"""Fused kernels in native code give what the interpreter of MapExpr gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.dialect.map_expr.interpreter import run as interpret
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.text import parse_kernel
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program, load
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import nests_of
from pirkit.lowering.kernels import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.why import why_kernels
from pirkit.runtime.executor import Executable
from pirkit.runtime.tensor import allocator
from tests.execution import parsed
from tests.fusion.cases import CASES
from tests.fusion.random_programs import Maker
from tests.fusion.test_cases import built
from tests.fusion.test_random import fused

Array = np.ndarray[Any, Any]

CORPUS = sorted((Path(__file__).parents[1] / "corpus" / "paddle").glob("*/program.txt"))


def kernels(program: ProgramOp) -> Iterator[MapExpr]:
    for op in program.walk():
        if isinstance(op, PirOp) and op.name == "pir.map_expr":
            yield parse_kernel(op.attribute("kernel"))


def check(kernel: MapExpr, inputs: Sequence[Array]) -> bool:
    """Compare one kernel, with poison in its outputs; False if no loop nest holds it."""
    nests = nests_of(kernel)
    if isinstance(nests, str):
        return False
    values = [np.full(s.meta.shape, 113, s.meta.dtype.np) for s in kernel.statements]
    arrays = [*inputs, *values]
    for nest in nests:
        native(nest.kernel).bind([arrays[k] for k in nest.arrays])()
    for number, want in zip(kernel.outputs, interpret(kernel, inputs), strict=True):
        found = values[number]
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(found, want, err_msg=kernel.name)
        else:
            close = {"rtol": 2e-5, "atol": 2e-6 * max(1.0, float(np.abs(want).max(initial=0)))}
            np.testing.assert_allclose(found, want, err_msg=kernel.name, **close)
    return True


def drawn(kernel: MapExpr, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [
        (rng.uniform(0.1, 2, m.shape) if m.dtype.is_float else np.ones(m.shape)).astype(m.dtype.np)
        for m in kernel.inputs
    ]


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    _, program = built(name)
    for kernel in kernels(fused(program, single=True)[0]):
        check(kernel, drawn(kernel))


@pytest.mark.parametrize("block", range(10))
def test_random_programs(block: int) -> None:
    held = 0
    for seed in range(20 * block, 20 * block + 20):
        made = Maker(seed, depth=3 + seed % 8)
        program, _ = fused(made.program, single=seed % 2 == 0)
        held += sum(check(kernel, drawn(kernel, seed)) for kernel in kernels(program))
    assert held > 10


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.parent.name)
def test_captured_programs(path: Path) -> None:
    program = run_passes(load(path), "@fused")
    for kernel in kernels(program.entry(None)):
        check(kernel, drawn(kernel))


SOFTMAX = """
pir.program @main(%x "x" : tensor<300x1100xf32>) {
  %y = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<300x1100xf32>) -> tensor<300x1100xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<300x1100xf32>) -> ()
}"""


def test_a_pipeline_ends_in_native_code_and_keeps_no_results() -> None:
    exe = compile(Program(parsed(SOFTMAX), {}, "test"), pipeline="@fused")
    x = np.random.default_rng(0).standard_normal((300, 1100)).astype(np.float32)
    plain = compile(Program(parsed(SOFTMAX), {}, "test"))(x=x)["y"]
    for array in (x, np.asfortranarray(x)):
        np.testing.assert_allclose(exe(x=array)["y"], plain, rtol=1e-5, atol=1e-8)
    live = allocator.HOST.stats.live
    for _ in range(20):
        exe(x=x)
    assert allocator.HOST.stats.live <= live
    assert "(native, any, float32)" in why_kernels(exe.plan, KernelLibrary())


def test_what_no_nest_holds_is_left_to_the_interpreter() -> None:
    _, program = built("c30_pad")
    made, _ = fused(program, single=True)
    (kernel,) = kernels(made)
    assert isinstance(nests_of(kernel), str)
    library = KernelLibrary()
    c, _ = built("c30_pad")
    found = Executable(write_plan(made, library=library), library).run(c.inputs)
    assert all(np.isfinite(a).all() for a in found.values())
