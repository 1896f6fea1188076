"""The estimated time of a kernel, by which threads share it: more to do never takes less."""

from __future__ import annotations

from pirkit.lowering.codegen.emit.compile import estimated_work
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt

ROWS, COLUMNS = 64, 100


def kernel(*primitives: str) -> Kernel:
    """Copies rows, and applies operations to each element."""
    one = Operand(dt.float32, (4 * COLUMNS,), (4,), 4 * ROWS * COLUMNS)
    names = ["x", *(f"v{k}" for k in range(len(primitives)))]
    steps = [
        Compute(names[k + 1], primitive, (names[k],), dt.float32)
        for k, primitive in enumerate(primitives)
    ]
    body = (Load("x", 0), *steps, Store(1, names[-1]))
    return Kernel((ROWS,), (COLUMNS,), (one, one), (LoopPhase(body),))


def work(*kernels: Kernel, lanes: int = 8) -> int:
    return estimated_work(kernels[0].operands, kernels, lanes)


def test_what_is_computed_takes_time_beside_what_is_moved() -> None:
    copy, plain, costly = kernel(), kernel("abs"), kernel("exp")
    assert 0 < work(copy) < work(plain) < work(costly)
    assert work(copy) == work(copy, lanes=16)
    both = work(plain, costly) - work(copy)
    assert abs(both - (work(plain) + work(costly) - 2 * work(copy))) <= 2


def test_time_to_compute_falls_with_the_lanes() -> None:
    costly, moved = kernel("exp"), work(kernel())
    by_lanes = [work(costly, lanes=n) - moved for n in (1, 4, 8, 16)]
    assert by_lanes == sorted(by_lanes, reverse=True)
    assert abs(by_lanes[1] - 2 * by_lanes[2]) <= 2
    assert work(costly, lanes=0) == work(costly, lanes=1)
