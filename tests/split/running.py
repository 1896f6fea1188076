"""Runs the halves of a split, one step after the other, as a host would."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pirkit.frontend.compile import DEFAULT_PIPELINE, compile
from pirkit.frontend.files import Program
from pirkit.runtime.executor import Executable
from pirkit.split import SplitParts

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]


@dataclass
class Halves:
    """Both halves, compiled, with the parameters that they share."""

    parts: SplitParts
    params: dict[str, Any]
    pipeline: str = DEFAULT_PIPELINE
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the last forward left for the backward."""

    def __post_init__(self) -> None:
        names = self.parts.names
        self.forward = self._compiled(self.parts.forward)
        self.backward = self._compiled(self.parts.backward)
        self.taken = {n for n in (*names.bo, *names.bx, *names.bp, *names.bm) if n is not None}

    def _compiled(self, program: Program) -> Executable:
        return compile(program, pipeline=self.pipeline, params=self.params)

    def run(self, inputs: Arrays) -> list[Any]:
        """The outputs of the program before the split, in order; writes parameters."""
        self.forward.params = self.params
        found = self.forward.run({n: inputs[n] for n in self.parts.names.fx})
        self.params.update(self.forward.params)
        held = {**inputs, **self.forward.updates, **self.params, **found}
        self.kept = {name: held[name] for name in self.taken}
        return [found[self.parts.names.fo[i]] for _, i in self.parts.returns]

    def gradients(self, of_outputs: Mapping[int, Any]) -> dict[str, Any]:
        """Gradients by the name of the source, given those of outputs by position in ``fo``."""
        names = self.parts.names
        seeds = {n: of_outputs[i] for i, n in enumerate(names.bo_g) if n is not None}
        kept = copy.deepcopy(self.kept)  # a run empties stacks
        found = self.backward.run({**kept, **seeds})
        return {
            source: found[name]
            for sources, gradients in ((names.fx, names.bx_g), (names.fp, names.bp_g))
            for source, name in zip(sources, gradients, strict=True)
            if name is not None
        }
