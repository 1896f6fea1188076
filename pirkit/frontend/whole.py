"""Programs that run as one piece of native code, with the interpreter where they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pirkit.diag.collection import importing
from pirkit.diag.errors import RuntimeFault
from pirkit.diag.once import once
from pirkit.frontend.files import Program
from pirkit.frontend.kept_programs import keep, kept, key_of_program
from pirkit.runtime.native.program import NativeProgram

if TYPE_CHECKING:
    from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]

SIMPLIFY: Final = "@simplify"
"""The passes that a program gets that names none, before it is taken apart."""


@dataclass(eq=False)
class Whole:
    """A program that is one native call where it can be.

    ``native`` is that call, None where there is none; then ``reasons`` say why, and ``executable``
    runs the program instruction by instruction. Both are called with inputs by name.
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
        """What runs the program where it is no single call; compiled when it is asked for."""
        return self._executable()

    def _compiled(self) -> Executable:
        with importing():
            from pirkit.frontend.compile import DEFAULT_PIPELINE, compile  # noqa: PLC0415  seldom
            from pirkit.frontend.native_form import GRADIENTS  # noqa: PLC0415

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
        """The inputs of the native call that are no parameters."""
        return frozenset(self.native.names[0] if self.native else ()) - self.params.keys()

    def _refuse(self, inputs: Mapping[str, Any]) -> None:
        self.executable.refuse_unknown(inputs)
        names = self.native.names[0] if self.native else ()
        missing = next(n for n in names if n in self._names and n not in inputs)
        raise RuntimeFault(f"input {missing!r} is missing", code="PK0902")


def compile_whole(
    program: Program, *, pipeline: str = SIMPLIFY, params: Mapping[str, Array] | None = None
) -> Whole:
    """Compile a program into one native function, all of it or nothing.

    ``pipeline`` runs first, then the operators are taken apart. Where that fails, the reasons are
    told and the program runs as `compile` lets it. What is made of a program is kept on disk for
    later processes (see `kept_programs.py`). Raises what `compile` raises.
    """
    weights = dict(program.params if params is None else params)
    key = key_of_program(program, pipeline)
    made = kept(key) if key is not None else None
    if made is None:
        with importing():
            from pirkit.frontend.native_form import native_form  # noqa: PLC0415  unless it is kept

        made = native_form(program, pipeline)
        if key is not None:
            keep(key, made)
    native, reasons = made
    return Whole(program, pipeline, weights, native, reasons)
