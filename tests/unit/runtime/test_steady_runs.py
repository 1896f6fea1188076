"""What a run costs beside its kernels, told by counters and by the allocator, not by the clock."""

from __future__ import annotations

import tracemalloc
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict

from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from tests.execution import parsed

LENGTH: Final = 1000
VECTOR: Final = "tensor<4xf32>"


def chain_of_additions() -> Executable:
    lines = [f'pir.program @main(%v0 "x" : {VECTOR}, %y "y" : {VECTOR}) {{']
    for i in range(LENGTH):
        lines.append(f"  %v{i + 1} = pd_op.add(%v{i}, %y) : ({VECTOR}, {VECTOR}) -> {VECTOR}")
    lines += [f'  pir.shadow_output(%v{LENGTH}) {{output_name = "out"}} : ({VECTOR}) -> ()', "}"]
    (program,) = [op for op in parsed("\n".join(lines)).ops if isinstance(op, ProgramOp)]
    library = KernelLibrary()
    return Executable(write_plan(program, library=library), library)


def test_a_thousand_additions_infer_bind_and_allocate_nothing() -> None:
    exe = chain_of_additions()
    inputs: dict[str, Any] = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
    for _ in range(2):
        np.testing.assert_array_equal(exe.run(inputs)["out"], inputs["x"] + LENGTH)
    before = asdict(exe.counters)
    tracemalloc.start()
    try:
        for _ in range(5):
            tracemalloc.reset_peak()
            start, _ = tracemalloc.get_traced_memory()
            exe.run(inputs)
            _, peak = tracemalloc.get_traced_memory()
            # The run itself takes about 1 KiB, however long the chain is. An object that each
            # addition leaves behind would be at least 16 bytes.
            assert peak - start < 2 * LENGTH
    finally:
        tracemalloc.stop()
    assert asdict(exe.counters) == {**before, "runs": before["runs"] + 5}
