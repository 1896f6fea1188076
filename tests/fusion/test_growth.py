"""Work grows with the program, not with its square."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from tests.fusion.cases import Case


def blocks(ops: int) -> ProgramOp:
    """Normalised residual blocks: 11 ops, one of them a matrix product."""
    c = Case()
    h, w = c(128, 64), c(64, 64)
    for _ in range(ops // 11):
        y = c.op("matmul", h, w, transpose_x=False, transpose_y=False)
        d = y - c.sum(y, 1, keep=True) * (1 / 64)
        v = c.sum(d * d, 1, keep=True) * (1 / 64)
        h = c.b.tanh(d * c.b.rsqrt(v + 1e-5)) + h
    c.b("pir.shadow_output", h, output_name="y")
    return c.program


def chain(ops: int) -> ProgramOp:
    """One value after the other, each read twice."""
    c = Case()
    x = c(64, 64)
    for _ in range(ops // 2):
        x = c.b.tanh(x) + x
    c.b("pir.shadow_output", x, output_name="y")
    return c.program


def fan(ops: int) -> ProgramOp:
    """Many values of few inputs, put together."""
    c = Case()
    inputs = [c(64, 64) for _ in range(8)]
    values = [c.b.exp(inputs[k % 8]) * inputs[(k + 1) % 8] for k in range(ops // 3)]
    total = values[0]
    for value in values[1:]:
        total = total + value
    c.b("pir.shadow_output", total, output_name="y")
    return c.program


def permuted(ops: int) -> ProgramOp:
    """One value after the other, each read in two orders of its loops: many tiles."""
    c = Case()
    x = c(64, 64)
    for _ in range(ops // 3):
        x = c.b.tanh(x)
        x = x + c.t(x)
    c.b("pir.shadow_output", x, output_name="y")
    return c.program


def stencils(ops: int) -> ProgramOp:
    """Steps in time: each reads the one before at four shifted places."""
    c = Case()
    x = c(64, 64)
    for _ in range(ops // 9):
        rolled = [c.b.roll(x, shifts=(k,), axis=(a,)) for k in (1, -1) for a in (0, 1)]
        x = x + (rolled[0] + rolled[1] + rolled[2] + rolled[3]) * 0.1
    c.b("pir.shadow_output", x, output_name="y")
    return c.program


def calls_for(program: ProgramOp) -> int:
    """Calls of Python functions to fuse a program."""
    count = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        plan_fusion(program.block, Policy())
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", [blocks, chain, fan, permuted, stencils])
def test_twice_the_program_is_at_most_a_little_more_than_twice_the_work(
    shape: Callable[[int], ProgramOp],
) -> None:
    calls_for(shape(66))  # rules are loaded
    small, large = calls_for(shape(440)), calls_for(shape(880))
    assert large <= 2.2 * small


def test_ten_thousand_ops_are_fused_within_ten_seconds() -> None:
    program = chain(10_000)
    start = time.process_time()
    found = plan_fusion(program.block, Policy())
    assert time.process_time() - start < 10
    assert len(found.kernels) == 20


def test_each_block_is_one_kernel() -> None:
    assert len(plan_fusion(blocks(330).block, Policy()).kernels) == 30
