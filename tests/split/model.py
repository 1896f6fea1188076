"""Trains a program step by step beside an eager function, whose gradients are differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pirkit import DenseTensor, tensor
from pirkit.split import RunnableProgram, SplitParts, forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.execution import parsed

Array = np.ndarray[Any, Any]
Eager = Callable[[dict[str, Array]], Sequence[Array]]
"""What a program does to its inputs and parameters, by name; gives the outputs."""

T = "tensor<2x3xf64>"
STEP = 1e-6
RATE = 0.1


def op(name: str, *operands: str, attrs: str = "", of: str = T) -> str:
    """The text of an operation on tensors of one type."""
    held = f" {{{attrs}}}" if attrs else ""
    return (
        f"pd_op.{name}({', '.join(operands)}){held} : ({', '.join([of] * len(operands))}) -> {of}"
    )


def parameter(name: str, *, frozen: bool = False, of: str = T) -> str:
    stop = ", stop_gradient = array<i1: true>" if frozen else ""
    return f'%{name} = pir.parameter() {{parameter_name = "{name}"{stop}}} : () -> {of}'


def output(name: str, value: str, of: str = T) -> str:
    return f'pir.shadow_output(%{value}) {{output_name = "{name}"}} : ({of}) -> ()'


def program(*lines: str, inputs: Mapping[str, str] | None = None) -> str:
    """The text of a program; inputs are called by what follows the `%`, with their types."""
    held = {"x": T} if inputs is None else inputs
    head = ", ".join(f'%{n} "{n}" : {t}' for n, t in held.items())
    return f"pir.program @main({head}) {{\n  " + "\n  ".join(lines) + "\n}\n"


def split(text: str, **options: Any) -> SplitParts:
    return forward_backward(parsed(text), **options)


@dataclass
class Model:
    """A split program with its parameters as tensors."""

    parts: SplitParts
    params: dict[str, DenseTensor]
    step: RunnableProgram = field(init=False)

    def __post_init__(self) -> None:
        self.step = RunnableProgram(self.parts)

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        names = self.parts.names
        given = [inputs[n] for n in names.fx]
        return self.step.forward(given, [self.params[n] for n in names.fp])

    def backward(self, seeds: Sequence[Any], outputs: Any = None, **options: Any) -> dict[str, Any]:
        found = self.step.backward(seeds, outputs, **options)
        names = (*self.parts.names.fx, *self.parts.names.fp)
        return {
            n: g.numpy()
            for n, g in zip(names, (*found[0], *found[1]), strict=True)
            if g is not None
        }


def train(
    text: str,
    eager: Eager,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    steps: int = 4,
    frozen: Sequence[str] = (),
    modes: Sequence[str] = MODES,
) -> SplitParts:
    """Check each step in each mode: outputs, gradients, whatever is written. Gives the last split.

    ``inputs`` and ``params`` are shapes, or arrays for what is not drawn.
    """
    parts = None
    for mode in modes:
        parts = split(text, mode=mode)
        _train(parts, eager, inputs, params, steps, frozen)
    assert parts is not None
    return parts


def _train(
    parts: SplitParts,
    eager: Eager,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    steps: int,
    frozen: Sequence[str],
) -> None:
    rng = np.random.default_rng(7)
    model = Model(parts, {n: tensor(_drawn(rng, s)) for n, s in params.items()})
    objects = dict(model.params)
    for step in range(steps):
        fed = {n: _drawn(rng, s) for n, s in inputs.items()}
        before = fed | {n: p.numpy().copy() for n, p in model.params.items()}
        after = {n: a.copy() for n, a in before.items()}
        want = list(eager(after))
        tensors = {n: tensor(a) for n, a in fed.items()}
        outputs = model.forward(tensors)
        for have, expected in zip(outputs, want, strict=True):
            np.testing.assert_allclose(have.numpy(), expected, rtol=1e-9, atol=1e-12)
        for name, held in {**tensors, **model.params}.items():
            np.testing.assert_allclose(held.numpy(), after[name], rtol=1e-9, err_msg=name)
        seeds = [rng.standard_normal(np.shape(w)) for w in want]
        found = model.backward(seeds, outputs)
        for name, value in before.items():
            if value.dtype.kind != "f" or name in frozen:
                assert name not in found, f"{name} has a gradient"
                continue
            slope = differences(eager, before, name, seeds)
            have = found.get(name, np.zeros_like(slope))
            np.testing.assert_allclose(have, slope, atol=2e-6, err_msg=f"{name}, step {step}")
            if name in params and name in found:
                model.params[name] -= RATE * tensor(found[name])
        assert all(model.params[n] is objects[n] for n in objects)


def differences(
    eager: Eager, given: Mapping[str, Array], name: str, seeds: Sequence[Array]
) -> Array:
    """The gradient by central differences."""

    def loss(index: tuple[int, ...], step: float) -> float:
        moved = {n: a.copy() for n, a in given.items()}
        moved[name][index] += step
        return sum(float(np.sum(s * y)) for s, y in zip(seeds, eager(moved), strict=True))

    slope = np.zeros_like(given[name])
    for index in np.ndindex(slope.shape):
        slope[index] = (loss(index, STEP) - loss(index, -STEP)) / (2 * STEP)
    return slope


def _drawn(rng: np.random.Generator, held: Any) -> Array:
    if isinstance(held, tuple):
        return rng.standard_normal(held)
    return np.array(held)
