"""What holds of every split: the lists agree, the halves together are the whole, nothing moves."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from pirkit.analysis.versions import versions_of
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.files import Program
from pirkit.passes.differentiate import inputs_of, outputs_of
from pirkit.split import SplitParts, forward_backward
from pirkit.split.choose import MODES
from pirkit.split.merge import joined
from tests.execution import parsed
from tests.split.running import Halves
from tests.split.tape import grow

SEEDS = range(40)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lists_agree_with_the_programs(seed: int, mode: str) -> None:
    module = parsed(grow(seed).text)
    before = print_mlir(module)
    parts = forward_backward(module, mode=mode)
    assert print_mlir(module) == before, "a split changes what it is given"
    names = parts.names
    assert names.fm == names.bm
    assert len(names.fo) == len(set(names.fo)) == len(names.bo) == len(names.bo_g)
    assert len(names.fx) == len(names.bx) == len(names.bx_g)
    assert len(names.fp) == len(names.bp) == len(names.bp_g)
    assert sorted(names.fp) == list(names.fp)
    given = {*outputs_of(parts.forward_program), *inputs_of(parts.forward_program)}
    taken = list(inputs_of(parts.backward_program))
    lists = (*names.bo, *names.bx, *names.bp, *names.bm, *names.bo_g)
    assert taken == list(dict.fromkeys(n for n in lists if n is not None))
    seeds = {n for n in names.bo_g if n is not None}
    assert {n for n in taken if n not in seeds} <= given
    for argument in parts.backward_program.block.args:
        assert argument.uses, "the backward takes what it does not read"
    gradients = {n for n in (*names.bx_g, *names.bp_g) if n is not None}
    assert set(outputs_of(parts.backward_program)) == gradients
    assert set(names.no_need_buffers) <= set(taken)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_handed_over_holds_what_it_was_made_with(seed: int, mode: str) -> None:
    """Nothing writes the storage of a middle behind the operation that made it."""
    parts = forward_backward(parsed(grow(seed).text), mode=mode)
    versions = versions_of(parts.forward_program)
    outputs = outputs_of(parts.forward_program)
    sources = {*parts.names.fx, *parts.names.fp}
    for name in parts.names.fm:
        if name not in sources:
            assert all(map(versions.is_last, versions.made[outputs[name]])), name
    for op in parts.backward_program.operations:
        assert not op.definition.writes


@pytest.mark.parametrize("seed", SEEDS)
def test_together_the_halves_are_the_whole(seed: int) -> None:
    """Joined and split again, they are what they were; joined and run, they compute the same."""
    grown = grow(seed)
    parts = forward_backward(parsed(grown.text), mode=MODES[seed % 3])
    whole, roles = joined(parts.forward_program, parts.backward_program, parts.names)
    module = whole.parent_op()
    verify_module(module)  # type: ignore[arg-type]
    again = forward_backward(whole, roles=roles)
    assert again.names.fo == parts.names.fo
    assert again.names.fx == parts.names.fx
    assert len(list(again.forward_program.operations)) == len(
        list(parts.forward_program.operations)
    )
    rng = np.random.default_rng(seed)
    inputs = {n: rng.standard_normal(s) for n, s in grown.inputs.items()}
    params = {n: rng.standard_normal(s) for n, s in grown.params.items()}
    halves = Halves(parts, {n: a.copy() for n, a in params.items()})
    outputs = halves.run({n: a.copy() for n, a in inputs.items()})
    seeds = {
        position: np.ones_like(array)
        for (_, position), array in zip(parts.returns, outputs, strict=True)
    }
    expected = halves.gradients(seeds)
    exe = compile_program(Program(whole.parent_op()), params=params)  # type: ignore[arg-type]
    fed = {n: seeds[i] for i, n in enumerate(parts.names.bo_g) if n is not None}
    found = exe.run({**{n: a.copy() for n, a in inputs.items()}, **fed})
    for source, name in roles.gradients.items():
        np.testing.assert_allclose(found[name], expected[source], rtol=1e-12)


def text_of(parts: SplitParts) -> str:
    return print_mlir(parts.forward) + print_mlir(parts.backward)


SCRIPT = """
import sys
from tests.execution import parsed
from tests.split.tape import grow
from tests.split.test_laws import text_of
from pirkit.split import forward_backward
for seed in range(12):
    for mode in ("save-all", "min-cut"):
        sys.stdout.write(text_of(forward_backward(parsed(grow(seed).text), mode=mode)))
"""


def test_every_process_splits_alike() -> None:
    """Whatever the order of sets is there."""
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_program_alone_and_in_a_module() -> None:
    module = parsed(grow(3).text)
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    assert text_of(forward_backward(program)) == text_of(forward_backward(module))
