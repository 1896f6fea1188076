"""What holds of every split: the lists agree, the halves together are the whole, nothing moves."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, SSAValue

from pirkit.analysis.versions import versions_of
from pirkit.dialect.kinds import OUTPUT, SOURCE
from pirkit.dialect.operation import ProgramOp, declares
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.files import Program
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.split import SplitParts, forward_backward
from pirkit.split.add_gradients import differentiated
from pirkit.split.joint import source_of
from pirkit.split.merge import joined
from pirkit.split.save_or_recompute import MODES
from tests.execution import parsed
from tests.split.reference_tape import Growing, grow
from tests.split.running import Halves

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
    """Joined and run, they compute the same."""
    grown = grow(seed)
    parts = forward_backward(parsed(grown.text), mode=MODES[seed % 3])
    whole, roles = joined(parts.forward_program, parts.backward_program, parts.names)
    module = whole.parent_op()
    verify_module(module)  # type: ignore[arg-type]
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


class Pure(Growing):
    """Programs that write nothing in place, so that a split has nothing to put in place."""

    def statement(self) -> None:
        self.random.choice(
            [self.unary, self.binary, self.view, self.joined, self.element, self.turn]
        )()

    def turn(self) -> None:
        """A branch or a loop, unless it writes."""
        before = len(self.lines), len(self.actions), dict(self.shapes)
        self.random.choice([self.branch, self.loop])()
        if any("sigmoid_(" in line for line in self.lines[before[0] :]):
            del self.lines[before[0] :], self.actions[before[1] :]
            self.shapes = before[2]


Listing = tuple[list[Any], dict[str, Any]]


def listing(program: ProgramOp) -> Listing:
    """What a program does, whatever its values are called: operations in order, and outputs.

    What shares storage with an input or parameter is called by its name.
    """
    names: dict[SSAValue, Any] = {value: name for name, value in inputs_of(program).items()}
    counter = count()
    found: list[Any] = []

    def define(value: SSAValue) -> None:
        source = source_of(value)
        names[value] = next(counter) if source is None else names[source]

    def visit(block: Block) -> None:
        for op in block.ops:
            if declares(op, SOURCE) or declares(op, OUTPUT):
                continue
            operands = [names[v] for v in op.operands]
            for region in op.regions:
                for argument in region.block.args:
                    define(argument)
                visit(region.block)
            for result in op.results:
                define(result)
            types = [str(r.type) for r in op.results]
            found.append((op.name, str(op.properties), operands, types))

    visit(program.block)
    return found, {name: names[value] for name, value in outputs_of(program).items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_a3_merging_the_halves_gives_the_original(seed: int) -> None:
    """Up to renaming, with every operation in its place."""
    module = parsed(Pure(seed, 12).grown().text)
    parts = forward_backward(module)
    (original,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    roles, _ = differentiated(original)
    whole, merged = joined(parts.forward_program, parts.backward_program, parts.names)
    have, want = listing(whole), listing(original)
    assert have[0] == want[0]
    for source, name in roles.gradients.items():
        assert have[1][merged.gradients[source]] == want[1][name]
    returned = dict(parts.returns)
    for name, value in want[1].items():
        if name in returned:
            assert have[1][parts.names.fo[returned[name]]] == value


@pytest.mark.parametrize("seed", SEEDS)
def test_a3_splitting_what_was_merged_changes_nothing(seed: int) -> None:
    """Copies in front of writes are made where they are needed, which may be a little earlier.

    What the backward reads in a written parameter or input may be copied in the merged program.
    """
    parts = forward_backward(parsed(grow(seed).text))
    whole, roles = joined(parts.forward_program, parts.backward_program, parts.names)
    again = forward_backward(whole, roles=roles)
    if again.names != parts.names:
        shared = {*parts.names.fp, *parts.names.fx}
        pairs = list(zip(again.names.fm, parts.names.fm, strict=True))
        copied = {b for a, b in pairs if a != b}
        assert copied <= shared
        # The backward reads the copy, and not what it is a copy of; nothing else differs.
        for field in fields(parts.names):
            one, other = getattr(again.names, field.name), getattr(parts.names, field.name)
            changed = {y for x, y in zip(one, other, strict=True) if x != y}
            assert changed <= (copied if field.name in ("fm", "bm", "bp", "bx", "bo") else set())
        return
    halves = [(p.forward_program, p.backward_program) for p in (parts, again)]
    for one, other in zip(*halves, strict=True):
        if parts.report.notes:
            assert sorted(o.name for o in one.walk()) == sorted(o.name for o in other.walk())
        else:
            assert listing(one) == listing(other)


def text_of(parts: SplitParts) -> str:
    return print_mlir(parts.forward.module) + print_mlir(parts.backward.module)


SCRIPT = """
import sys
from tests.execution import parsed
from tests.split.reference_tape import Growing, grow
from tests.split.test_properties import text_of
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


def test_a_gradient_that_the_backward_does_not_take_is_no_input_of_the_whole() -> None:
    """Paddle's names may tell of one."""
    text = """pir.program @p(%x "x" : tensor<2xf32>) {
      %y = pd_op.tanh(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %n = pd_op.isnan(%x) : (tensor<2xf32>) -> tensor<2xi1>
      pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
      pir.shadow_output(%n) {output_name = "n"} : (tensor<2xi1>) -> ()
    }"""
    parts = forward_backward(parsed(text), mode=MODES[0])
    assert None in parts.names.bo_g
    names = replace(parts.names, bo_g=tuple([n or "unused@GRAD" for n in parts.names.bo_g]))
    whole, _ = joined(parts.forward_program, parts.backward_program, names)
    assert "unused@GRAD" not in str(whole.parent_op())
