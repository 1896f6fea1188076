"""The native programs of a model: its losses, their gradients, and a step of Adam."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, cast

import numpy as np

import pirkit
from pirkit.deepxde.libraries import deepxde
from pirkit.dialect.build import Value
from pirkit.frontend.reroll import reroll
from pirkit.frontend.tracing import fingerprint, trace
from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]
Losses = Callable[[Any, Any, Any], Any]
"""A function as DeepXDE's ``outputs_losses_train``: (inputs, targets, auxiliary variables) ->
(outputs, losses)."""


Record = Callable[
    [Losses, tuple[Any, Any, Any], Sequence[Value], Sequence[Value]], tuple[Value, Value, Any]
]
"""Records losses: (losses, data, values of the arrays of the data, values of the variables) ->
(outputs, losses, objects that have to live as long as the program)."""


class NotCovered(Exception):
    """The model does what is not recorded; the message says what."""


def tuples(inputs: Any) -> tuple[Any, ...]:
    """The arrays of the points: several for networks such as DeepONet, else one."""
    return cast("tuple[Any, ...]", inputs) if isinstance(inputs, tuple) else (inputs,)


def flat(data: tuple[Any, Any, Any]) -> list[Array]:
    """All arrays of a batch: inputs, targets and auxiliary variables, without those of None."""
    return [*tuples(data[0]), *(part for part in data[1:] if part is not None)]


@dataclass(frozen=True)
class Adam:
    """Settings of Adam that are constants of a step: decay rates of the moments, epsilon, and the
    weight decay of each variable.
    """

    betas: tuple[float, float]
    epsilon: float
    decays: tuple[float, ...]


@dataclass
class Programs:
    """The executables of a model by fingerprint of the program: other points need no other code."""

    variables: Sequence[Any]
    record: Record
    memory: Callable[[Any], Array]
    """The array over the memory of a variable."""
    learns: Callable[[Losses, Any], list[bool]]
    """Which variables an optimizer gets a gradient of a loss for; it leaves others alone."""
    held: dict[Hashable, Executable] = field(default_factory=dict[Hashable, Executable])

    def bound(
        self, losses: Losses, data: tuple[Any, Any, Any], adam: Adam | None, state: Sequence[Array]
    ) -> Bound:
        """The program of a loss for these points, bound to the memory of the variables.

        Its results ``y0``, ``y1``... are outputs and losses, if there is no ``state``. With one,
        they are the sum of the losses, the losses, and the gradients of all variables. With
        ``adam``, these are updated variables, first moments and second moments instead; ``state``
        is the step size, the correction of second moments, and both moments. Raises NotCovered for
        what cannot be recorded.
        """
        arrays = [np.ascontiguousarray(a) for a in flat(data)]
        weights = [self.memory(v) for v in self.variables]
        keep: list[Any] = []
        learns = self.learns(losses, data) if adam is not None or state else []

        def recorded(xs: Sequence[Value], values: Sequence[Value], held: Sequence[Value]) -> Any:
            outputs, found, made = self.record(losses, data, xs, values)
            keep.append(made)
            whole = [outputs, found]
            if adam is None and not held:
                return whole
            total = whole[1].sum()
            found = iter(_slopes(total, list(compress(values, learns))))
            b: Any = total.b
            gradients: list[Value] = [
                next(found) if learned else b.zeros_like(v)
                for v, learned in zip(values, learns, strict=True)
            ]
            if adam is None:
                return total, whole[1], gradients
            return total, whole[1], _updated(adam, values, gradients, held, learns)

        try:
            traced = trace(recorded, (arrays, weights, list(state)))
        finally:
            deepxde.gradients.clear()
        program = traced.program
        reroll(program.module, program.main, traced.captured)
        key = fingerprint(program.main)
        if key not in self.held:
            self.held[key] = pirkit.compile(program, fast_math=True)
        leaves = [*arrays, *weights, *state]
        given = {f"x{i}": a for i, a in enumerate(leaves)} | traced.captured
        return Bound(self.held[key], given, keep, flat(data), learns)


def _slopes(total: Value, values: Sequence[Value]) -> list[Value]:
    b: Any = total.b
    found = b("pir.gradient", total, b.ones_like(total), *values, targets=1, wrt=len(values))
    return [*found] if len(values) > 1 else [found]


def _updated(
    adam: Adam,
    values: Sequence[Value],
    gradients: Sequence[Value],
    held: Sequence[Value],
    learns: Sequence[bool],
) -> list[Any]:
    """Parameters and moments after a step, as ``torch.optim.Adam`` computes them."""
    (rate, correction), moments = held[:2], held[2:]
    count = len(values)
    one, two = adam.betas
    weights: list[Any] = []
    first: list[Any] = []
    second: list[Any] = []
    moments = (moments[:count], moments[count:])
    rows = zip(values, gradients, *moments, adam.decays, learns, strict=True)
    for w, g, m, v, decay, learned in rows:
        if not learned:
            for kept, old in ((weights, w), (first, m), (second, v)):
                kept.append(old)
            continue
        g = g + w * decay if decay else g
        first.append(m + (g - m) * (1 - one))
        second.append(v * two + g * g * (1 - two))
        weights.append(w - rate * (first[-1] / (second[-1] ** 0.5 / correction + adam.epsilon)))
    return [weights, first, second]


class Bound:
    """A program on fixed memory: ``run()`` computes ``results``, some of them in place.

    Its first inputs, ``x0``..., are the arrays ``data``; ``given`` are the arrays of all inputs.
    """

    def __init__(
        self,
        executable: Executable,
        given: dict[str, Array],
        keep: Any,
        data: list[Array],
        learns: list[bool],
    ) -> None:
        self.executable, self.given, self.keep, self.data = executable, given, keep, data
        self.learns = learns
        native = executable.native
        self.results: dict[str, Array] = {}
        self._call: Callable[[], None] | None = None
        self._owned: list[Array] = []
        if native is not None:
            self._native, (_, self._names) = native, native.names
            self.results = {
                n: np.empty(m.shape, m.dtype.np)
                for n, m in zip(self._names, native.results, strict=True)
            }

    def write_to(self, targets: dict[str, Array]) -> Bound:
        """Let these results be written to other memory, which may be that of an input."""
        self.results |= targets
        if self.executable.native is not None:
            arrays = [
                np.require(self.given[n], requirements=["C", "A"]) for n in self._native.names[0]
            ]
            self._call = self._native.bind(arrays, [self.results[n] for n in self._names])
        return self

    def take(self, data: list[Array]) -> None:
        """Read other arrays of the same shapes: they are copied into memory of this object."""
        if all(map(operator.is_, data, self.data)):
            return
        if not self._owned:
            self._owned = [np.array(a, self.given[f"x{i}"].dtype) for i, a in enumerate(data)]
            self.given |= {f"x{i}": a for i, a in enumerate(self._owned)}
            self.write_to({})
        for own, new, old in zip(self._owned, data, self.data, strict=True):
            if new is not old:
                np.copyto(own, new)
        self.data = data

    def run(self) -> None:
        """Compute the results from what memory holds now."""
        if self._call is not None:
            self._call()
            return
        found = self.executable.run(self.given)
        for name, array in found.items():
            if name in self.results:
                np.copyto(self.results[name], array)
            else:
                self.results[name] = array


MOST_KINDS: Final = 16
"""The most combinations of points and settings for which a model holds bound programs."""
