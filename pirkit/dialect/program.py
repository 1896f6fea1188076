"""`Program`: a module of programs with its weights, the object that users hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import UsageError
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import print_mlir

Array = np.ndarray[Any, Any]


@dataclass
class Program:
    """A module of programs, with its weights.

    ``str(program)`` is its text; ``program.main`` the first program of the module.
    """

    module: mlir.ModuleOp
    params: dict[str, Array] = field(default_factory=dict[str, Array])
    source: str = "<text>"

    @property
    def programs(self) -> dict[str, ProgramOp]:
        """The programs of the module by name."""
        return {op.symbol: op for op in self.module.ops if isinstance(op, ProgramOp)}

    @property
    def main(self) -> ProgramOp:
        """The first program. Raises UsageError if the module holds none."""
        return self.entry(None)

    def entry(self, name: str | None) -> ProgramOp:
        """The program of that name, or the first one. Raises UsageError if there is none."""
        programs = self.programs
        if name is None and programs:
            return next(iter(programs.values()))
        if name in programs:
            return programs[name]
        raise UsageError(
            f"{self.source} holds no program" + (f" called @{name}" if name else ""),
            help="it holds " + (", ".join(f"@{n}" for n in programs) or "nothing"),
        )

    def copy(self) -> Program:
        """A copy whose module can be changed without changing this one."""
        return Program(self.module.clone(), dict(self.params), self.source)

    def __str__(self) -> str:
        return print_mlir(self.module)
