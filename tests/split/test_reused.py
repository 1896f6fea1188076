"""Programs after `inplace`: freed memory is poisoned, and no result changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import ProgramOp
from pirkit.passes import run_pipeline
from pirkit.split import forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.execution import parsed
from tests.split.interpreting import Array, interpret
from tests.split.reference_tape import Growing

CHUNK, CHUNKS = 10, 4
DEPTH = 25


class Straight(Growing):
    """Programs without regions and lists."""

    def statement(self) -> None:
        kinds = [self.unary] * 4 + [self.binary] * 4 + [self.unary_write] * 2
        self.random.choice([*kinds, self.binary_write, self.assign, self.view])()


def program_of(module: ModuleOp) -> ProgramOp:
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return program


def check(module: ModuleOp, given: dict[str, Array]) -> int:
    """How many operations write in place that did not; outputs and what is written stay."""
    reusing = module.clone()
    run_pipeline(reusing, "inplace")
    found: list[dict[str, Any]] = []
    for each, poison in ((module, False), (reusing, True)):
        held = {name: array.copy() for name, array in given.items()}
        outputs = interpret(program_of(each), held, poison=poison)
        found.append({f"output {n}": a for n, a in outputs.items()} | held)
    for name, want in found[0].items():
        np.testing.assert_array_equal(found[1][name], want, err_msg=name)
    before, after = (
        sum(op.definition.writes for op in program_of(m).operations) for m in (module, reusing)
    )
    return after - before


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_run_with_poisoned_memory_is_the_same(chunk: int) -> None:
    assert sum(map(reused, range(chunk * CHUNK, (chunk + 1) * CHUNK))) > CHUNK


def reused(seed: int) -> int:
    """Of the whole program, made pure before, and of both halves of its split."""
    grown = Straight(seed, DEPTH).grown()
    rng = np.random.default_rng(seed)
    shapes = {**grown.inputs, **grown.params}
    given = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    pure = parsed(grown.text)
    run_pipeline(pure, "functionalize")
    parts = forward_backward(parsed(grown.text), mode=MODES[seed % 3])
    count = check(pure, given) + check(parts.forward.module, given)
    found = interpret(parts.forward_program, held := {n: a.copy() for n, a in given.items()})
    arguments = parts.backward_program.keywords
    seeds = {n: rng.standard_normal(shape) for n, shape in seeded(parts)}
    given = {n: {**held, **found, **seeds}[n] for n in arguments}
    return count + check(parts.backward.module, given)


def seeded(parts: Any) -> list[tuple[str, tuple[int, ...]]]:
    arguments = zip(parts.backward_program.keywords, parts.backward_program.block.args, strict=True)
    return [(n, v.type.get_shape()) for n, v in arguments if n in parts.names.bo_g]
