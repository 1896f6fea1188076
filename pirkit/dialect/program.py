"""`Program`: a module of programs with its weights, the object that users hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import UsageError
from pirkit.diag.html import listing
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import parse_mlir, print_mlir

Array = np.ndarray[Any, Any]


@dataclass(repr=False)
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

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Program:
        params = {name: array.copy() for name, array in self.params.items()}
        return Program(self.module.clone(), params, self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as text with locations, and the weights."""
        return _of_text, (print_mlir(self.module, locations=True), self.params, self.source)

    def __str__(self) -> str:
        return print_mlir(self.module)

    def __repr__(self) -> str:
        names = [
            f"@{name} of {sum(1 for _ in p.walk()) - 1} ops" for name, p in self.programs.items()
        ]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return (
            f"<Program {shown or 'without programs'}, {len(self.params)} parameters, {self.source}>"
        )

    def _repr_html_(self) -> str:
        return listing(repr(self), str(self))


def _of_text(text: str, params: dict[str, Array], source: str) -> Program:
    return Program(parse_mlir(text, source), params, source)
