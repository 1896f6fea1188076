"""Executables of programs that can only be lowered when sizes and attributes are known."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import Meta
from pirkit.runtime.plan import Plan
from pirkit.runtime.sessions import SHAPES_KEPT

Array = np.ndarray[Any, Any]

Lower = Callable[[Mapping[str, Meta], Mapping[str, Array]], Plan]
"""The plan for inputs of these shapes, and for this content of those that stand for attributes."""


@dataclass
class Specialized(Executable):
    """An executable that lowers its program anew for each combination of shapes and attributes.

    ``plan`` has ports and no instructions. ``static`` names the inputs whose content is an
    attribute somewhere. Raises what lowering raises, when the first run with these shapes comes.
    """

    lower: Lower = field(kw_only=True)
    static: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._known: OrderedDict[Hashable, Executable] = OrderedDict()
        self._one = threading.Lock()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """As a call; for names that are no Python identifiers."""
        self.refuse_unknown(inputs)
        _, metas = self._feed(inputs)
        shapes = {p.name: m for p, m in zip(self._ports, metas, strict=True) if m is not None}
        values = {name: np.asarray(inputs[name]) for name in self.static}
        key = (metas, tuple([(a.dtype.str, a.shape, a.tobytes()) for a in values.values()]))
        with self._one:
            executable = self._known.get(key)
            if executable is None:
                executable = self._lowered(shapes, values)
                self._known[key] = executable
            self._known.move_to_end(key)
            while len(self._known) > SHAPES_KEPT:
                self._known.popitem(last=False)
            executable.params, executable.seed, executable.runs = self.params, self.seed, self.runs
            self.runs += 1
            names = {p.name for p in executable.plan.inputs}
            outputs = executable.run({n: v for n, v in inputs.items() if n in names})
            self.updates = executable.updates
        return outputs

    def _lowered(self, shapes: Mapping[str, Meta], values: Mapping[str, Array]) -> Executable:
        return Executable(
            self.lower(shapes, values),
            self.library,
            self.params,
            self.seed,
            reuse=self.reuse,
            threads=self.threads,
            counters=self.counters,
        )
