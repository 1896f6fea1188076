"""Work grows with the program, not with its square."""

from __future__ import annotations

import sys

from pirkit.lowering.fusion.fusing import plan_fusion
from pirkit.lowering.fusion.partition import Policy
from tests.fusion.cases import Case


def calls_for(blocks: int) -> tuple[int, int]:
    """Calls of Python functions, and kernels, for that many normalised residual blocks."""
    c = Case()
    h, w = c(128, 64), c(64, 64)
    for _ in range(blocks):
        y = c.op("matmul", h, w, transpose_x=False, transpose_y=False)
        d = y - c.sum(y, 1, keep=True) * (1 / 64)
        v = c.sum(d * d, 1, keep=True) * (1 / 64)
        h = c.b.tanh(d * c.b.rsqrt(v + 1e-5)) + h
    c.b("pir.shadow_output", h, output_name="y")
    count = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        found = plan_fusion(c.program.block, Policy())
    finally:
        sys.setprofile(None)
    return count, len(found.kernels)


def test_twice_the_program_is_at_most_a_little_more_than_twice_the_work() -> None:
    calls_for(4)  # rules are loaded
    small, kernels = calls_for(30)
    large, more = calls_for(60)
    assert (kernels, more) == (30, 60)
    assert large <= 2.2 * small
