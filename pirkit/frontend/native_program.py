"""Programs as a single native call, or else run instruction by instruction."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.gc_pause import importing
from pirkit.diag.once import once
from pirkit.frontend.cached_programs import load_entry, program_key, save_entry
from pirkit.frontend.files import Program
from pirkit.runtime.native.program import NativeProgram

if TYPE_CHECKING:
    from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]

SIMPLIFY: Final = "@simplify"
"""The default pipeline, which runs before the program is decomposed."""


@dataclass(eq=False)
class CompiledProgram:
    """A program compiled to one native call, if that is possible.

    ``native`` is that call or None; if it is None, ``reasons`` say why, and ``executable`` runs the
    program instruction by instruction. Both take inputs by name.
    """

    program: Program
    pipeline: str
    params: dict[str, Array]
    native: NativeProgram | None
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        self._executable = once(self._compiled)

    @property
    def executable(self) -> Executable:
        """Runs the program instruction by instruction; compiled at the first access."""
        return self._executable()

    def _compiled(self) -> Executable:
        with importing():
            from pirkit.frontend.compile import DEFAULT_PIPELINE, compile  # noqa: PLC0415  seldom
            from pirkit.frontend.native_compile import GRADIENTS  # noqa: PLC0415

        chosen = DEFAULT_PIPELINE if self.pipeline == SIMPLIFY else self.pipeline
        pipeline = f"{GRADIENTS},{chosen}" if chosen else GRADIENTS
        return compile(self.program, pipeline=pipeline, params=self.params)

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name. Raises RuntimeFault as `Executable` does."""
        native = self.native
        if native is None:
            return self.executable.run(inputs)
        if inputs.keys() != self._names:
            self._refuse(inputs)
        names, results = native.names
        given: Mapping[str, Any] = {**self.params, **inputs} if self.params else inputs
        return dict(zip(results, native(*map(given.__getitem__, names)), strict=True))

    @cached_property
    def _names(self) -> Set[str]:
        """The inputs of the native call that are not parameters."""
        return frozenset(self.native.names[0] if self.native else ()) - self.params.keys()

    def _refuse(self, inputs: Mapping[str, Any]) -> None:
        self.executable.refuse_unknown(inputs)
        names = self.native.names[0] if self.native else ()
        missing = next(n for n in names if n in self._names and n not in inputs)
        raise RuntimeFault(f"input {missing!r} is missing", code="PK0902")


def compile_whole(
    program: Program, *, pipeline: str = SIMPLIFY, params: Mapping[str, Array] | None = None
) -> CompiledProgram:
    """Compile a program into one native function, all of it or nothing.

    ``pipeline`` runs first, then ops are decomposed. If no native function is possible, the result
    holds the reasons and runs the program as `compile` does. Results are cached on disk for later
    processes (see `cached_programs.py`). Raises the errors of `compile`.
    """
    weights = dict(program.params if params is None else params)
    key = program_key(program, pipeline)
    made = load_entry(key) if key is not None else None
    if made is None:
        with importing():
            from pirkit.frontend.native_compile import compile_native  # noqa: PLC0415  unless it is kept

        made = compile_native(program, pipeline)
        if key is not None:
            save_entry(key, made)
    native, reasons = made
    return CompiledProgram(program, pipeline, weights, native, reasons)
