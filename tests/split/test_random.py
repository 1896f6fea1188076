"""Random training programs, five steps each: split and whole they do what an eager tape does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.verify import verify_module
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.split import SplitParts, forward_backward
from tests.execution import parsed
from tests.split.reference_tape import Array, Grown, State, grow
from tests.split.running import Halves

STEPS = 5
CHUNK = 10
CHUNKS = 30
RATE = 0.1


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_five_steps_are_those_of_an_eager_tape(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        check(seed)


def check(seed: int) -> None:
    program = grow(seed)
    module = parsed(program.text)
    least = forward_backward(module, mode="min-cut").report.bytes
    most = forward_backward(module).report.bytes
    assert least <= forward_backward(module, mode="free").report.bytes <= most
    options: list[dict[str, Any]] = [{"mode": m} for m in ("save-all", "free", "min-cut")]
    options.append({"budget": (least + most) // 2})
    parts = forward_backward(module, **options[seed % len(options)])
    verify_module(parts.forward.module)
    verify_module(parts.backward.module)
    rng = np.random.default_rng(seed)
    params = {n: rng.standard_normal(s) for n, s in program.params.items()}
    halves = Halves(parts, {n: a.copy() for n, a in params.items()})
    whole = compile_program(
        run_passes(Program(module), "autodiff{seeds=true}"), params=dict(params)
    )
    for step in range(STEPS):
        inputs = {n: rng.standard_normal(s) for n, s in program.inputs.items()}
        state = program.eager({**inputs, **params})
        where = f"seed {seed}, step {step}"
        seeds = check_forward(program, parts, halves, state, inputs, where, rng)
        found = halves.gradients(seeds)
        expected = gradients(program, parts, state, seeds, {**inputs, **params})
        for name, want in expected.items():
            have = found.get(name, np.zeros_like(want))
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9, err_msg=f"{where} {name}")
        check_whole(whole, program, parts, inputs, seeds, expected, where)
        for name in program.params:
            after = state.read(name).value
            params[name] = after - RATE * expected[name] if name in expected else after
        halves.params.update({n: a.copy() for n, a in params.items()})
        whole.params.update({n: a.copy() for n, a in params.items()})


def check_forward(
    program: Grown,
    parts: SplitParts,
    halves: Halves,
    state: State,
    inputs: dict[str, Array],
    where: str,
    rng: np.random.Generator,
) -> dict[int, Array]:
    """Outputs and everything that is written; gives gradients of the outputs."""
    outputs = halves.run({n: a.copy() for n, a in inputs.items()})
    for (name, value), have in zip(program.outputs, outputs, strict=True):
        want = state.read(value).value
        np.testing.assert_allclose(have, want, rtol=1e-9, err_msg=f"{where} {name}")
    for name in program.params:
        want = state.read(name).value
        np.testing.assert_allclose(halves.params[name], want, rtol=1e-9, err_msg=f"{where} {name}")
    for name, have in halves.forward.updates.items():
        want = state.read(name).value
        np.testing.assert_allclose(have, want, rtol=1e-9, err_msg=f"{where} {name}")
    return {
        position: rng.standard_normal(np.shape(have))
        for (_, position), have in zip(parts.returns, outputs, strict=True)
    }


def gradients(
    program: Grown,
    parts: SplitParts,
    state: State,
    seeds: dict[int, Array],
    given: dict[str, Array],
) -> dict[str, Array]:
    """What the tape gives for all sources that are not frozen."""
    values = dict(program.outputs)
    starts = dict(zip((*program.inputs, *program.params), state.tape, strict=False))
    done: set[int] = set()
    for output, position in parts.returns:
        if position not in done and parts.names.bo_g[position] is not None:
            state.read(values[output]).accumulate(seeds[position])
        done.add(position)
    state.backward()
    free = {n: node for n, node in starts.items() if n not in program.frozen}
    return {n: np.zeros_like(given[n]) if v.grad is None else v.grad for n, v in free.items()}


def check_whole(
    whole: Any,
    program: Grown,
    parts: SplitParts,
    inputs: dict[str, Array],
    seeds: dict[int, Array],
    expected: dict[str, Array],
    where: str,
) -> None:
    """The program that is not split gives the same gradients."""
    given: dict[str, Array] = {n: a.copy() for n, a in inputs.items()}
    first: set[int] = set()
    for output, position in parts.returns:
        is_first = position not in first and parts.names.bo_g[position] is not None
        first.add(position)
        given[f"{output}_grad"] = seeds[position] if is_first else np.zeros_like(seeds[position])
    found = whole.run(given)
    for name, want in expected.items():
        np.testing.assert_allclose(
            found[f"{name}_grad"], want, rtol=1e-9, atol=1e-9, err_msg=f"{where} whole {name}"
        )
