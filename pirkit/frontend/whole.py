"""Programs that run as one piece of native code, with the interpreter where they cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import DEFAULT_PIPELINE, compile, run_passes
from pirkit.frontend.files import Program
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose import APART, TOGETHER, with_kernels, with_points
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.program import NativeProgram

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Whole:
    """A program that is one native call where it can be.

    ``native`` is that call, None where there is none; then ``reasons`` say why, and ``executable``
    runs the program instruction by instruction. Both are called with inputs by name.
    """

    native: NativeProgram | None
    reasons: tuple[str, ...]
    executable: Executable

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name. Raises RuntimeFault as `Executable` does."""
        native = self.native
        if native is None:
            return self.executable.run(inputs)
        names, results = native.names
        self.executable.refuse_unknown(inputs)
        params = self.executable.params
        missing = [n for n in names if n not in inputs and n not in params]
        if missing:
            raise RuntimeFault(f"no value for input {missing[0]!r}", code="PK0902")
        arrays = [inputs[n] if n in inputs else params[n] for n in names]
        return dict(zip(results, native(*arrays), strict=True))


def compile_whole(
    program: Program, *, pipeline: str = DEFAULT_PIPELINE, params: Mapping[str, Array] | None = None
) -> Whole:
    """Compile a program into one native function, all of it or nothing.

    ``pipeline`` runs first, then the operators are taken apart. Raises what `compile` raises.
    """
    executable = compile(program, pipeline=pipeline, params=params)
    apart = run_passes(program, f"{pipeline},{APART}" if pipeline else APART)
    found = with_points(write_plan(apart.entry(None)))
    if isinstance(found, NativeProgram):
        return Whole(found, (), executable)
    together = run_passes(apart, TOGETHER)
    second = with_kernels(write_plan(together.entry(None)))
    if isinstance(second, NativeProgram):
        return Whole(second, (f"points in lanes: {found}",), executable)
    return Whole(None, (f"points in lanes: {found}", f"kernels in order: {second}"), executable)
