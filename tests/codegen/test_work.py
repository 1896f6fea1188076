"""What a kernel costs: more to do never takes less, and a block of columns fits a cache."""

from __future__ import annotations

from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import estimated_work
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import host
from tests.codegen.nests import softmax

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


def test_columns_that_several_phases_read_fit_half_of_the_cache() -> None:
    blocks: list[int] = []
    for bytes_of_cache in (1 << 18, 1 << 20, 1 << 22):
        plan = schedule(softmax(4096, 64, axis=0), replace(host(), l2_bytes=bytes_of_cache))
        assert plan.strategy == "columns"
        column = 64 * plan.kernel.operands[0].dtype.itemsize
        assert plan.block <= max(4 * plan.lanes, bytes_of_cache // 2 // column)
        blocks.append(plan.block)
    assert blocks == sorted(set(blocks)), "a larger cache holds more columns"
