"""The oracle `slower` of ``pirkit-reduce``: the program takes longer after the passes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import ArgumentError, PirkitError
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.verify import verify_module
from pirkit.frontend.derivative_check import has_derivatives
from pirkit.frontend.native_compile import GRADIENTS
from pirkit.frontend.numeric_check import Inputs, expanding, on_drawn_inputs
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.executor import Executable

_RUNS: Final = 7


def slower_oracle(module: ModuleOp, arguments: argparse.Namespace) -> Callable[[ModuleOp], bool]:
    """Whether a module takes ``arguments.times`` as long after the pipeline as before it.

    Raises ArgumentError (PK0701) if the whole module does not.
    """

    def ratio_of(trial: ModuleOp) -> float:
        """The time after the pipeline by the time before it; 0 for a trial that does not run."""
        changed = trial.clone()
        try:
            verify_module(trial)
            run_pipeline(changed, expanding(changed, arguments.pipeline))
            before = seconds_of(trial, arguments.backend, arguments.seed)
            return seconds_of(changed, arguments.backend, arguments.seed) / before
        except PirkitError:
            return 0.0

    if (found := ratio_of(module)) < arguments.times:
        raise ArgumentError(
            f"after the passes the program takes {found:.2f} of the time, less than"
            f" {arguments.times:g}",
            help="name the passes with -p and the ratio with --times; 0 means that it does not run",
        )
    # A disturbance of the machine is unlikely to hit the same trial twice.
    return lambda trial: all(ratio_of(trial) >= arguments.times for _ in range(2))


def seconds_of(module: ModuleOp, backend: str, seed: int) -> float:
    """CPU seconds of a run of the first program on random inputs: the least of some runs.

    Raises what writing the plan and running it raises.
    """
    copy = module.clone()
    if has_derivatives(copy):
        run_pipeline(copy, GRADIENTS)
    program = next((op for op in copy.ops if isinstance(op, ProgramOp)), None)
    if program is None:
        raise ArgumentError("there is no program in the module",
                         help="reduce a file that holds a `pir.program`")  # fmt: skip
    library = KernelLibrary(backend)
    plan = write_plan(program, library=library)

    def run(bound: Inputs) -> float:
        executable, times = Executable(plan, library, bound.of(plan.params), seed), list[float]()
        for _ in range(_RUNS + 1):
            inputs = bound.of(plan.inputs)
            start = time.process_time()
            executable.run(inputs)
            times.append(time.process_time() - start)
        return max(min(times[1:]), 1e-9)  # the clock's resolution: nobody divides by 0

    return on_drawn_inputs(plan, seed, run)
