"""The protocol of the thread pool, in all interleavings of a few threads, runs and blocks."""

from __future__ import annotations

import pytest

from pirkit.runtime.native.pool_ir import CLOSED, pool_text
from tests.threads.interleavings import FaultError, Machine, explore

_MAIN = """
define void @main() {{
  %started = call i64 @pirkit_pool_start(ptr 0, i64 {workers})
{runs}
  call void @pirkit_pool_stop(ptr 0, i64 {workers})
  ret void
}}
"""


def states(workers: int, runs: int, blocks: int, swaps: dict[str, str] | None = None) -> int:
    """How many states the pool has, with parts of its text swapped for others.

    A worker sleeps at once where it finds no new run, and the caller yields at once.
    """
    text = pool_text("none").replace("icmp sgt i64 %more, 2000", "icmp sgt i64 %more, 0")
    for old, new in (swaps or {}).items():
        assert old in text
        text = text.replace(old, new)
    ran = [
        f"  call void @pirkit_pool_run(ptr 0, ptr @job, ptr {r}, i64 {blocks}, i64 1, i64 9)\n"
        f"  call void @all_done(ptr {r}, i64 {blocks})"
        for r in range(1, runs + 1)
    ]
    machine = Machine(text + _MAIN.format(workers=workers, runs="\n".join(ran)))
    return explore(machine, machine.start({}))


@pytest.mark.parametrize(("workers", "runs", "blocks"), [(1, 2, 2), (2, 1, 1)])
def test_each_block_is_computed_once_and_all_threads_end(
    workers: int, runs: int, blocks: int
) -> None:
    assert states(workers, runs, blocks) > 100


RAISE = "  %raised = atomicrmw add ptr %generation, i64 1 seq_cst\n"
SLEEPERS = "  %sleepers = load atomic i64, ptr %p_sleepers seq_cst, align 8\n"
OPEN = f"  %opened = atomicrmw sub ptr %inside, i64 {CLOSED} acq_rel\n"
LIMIT = "  store i64 %limit, ptr %p_limit, align 8\n"
WAKE = "  call void @wake(ptr %pool)\n"
PLANTED = {
    "open before the job is written": ({OPEN: "", LIMIT: OPEN + LIMIT}, "race"),
    "look for sleepers before the new generation": (
        {RAISE + SLEEPERS: SLEEPERS + RAISE}, "wake-up is lost",
    ),
    "wake before the new generation": ({RAISE + WAKE: WAKE + RAISE}, "never come to the end"),
    "sleep without looking again": (
        {"br i1 %same, label %block, label %rise": "br label %block"}, "wake-up|never",
    ),
    "no wait for workers": (
        {"br i1 %empty, label %done, label %pausing": "br label %done"}, "computed|race",
    ),
    "enter a closed run": (
        {"br i1 %closed, label %refused, label %enter": "br label %enter"}, "race|computed",
    ),
    "chunks by two instructions": (
        {
            "%number = atomicrmw add ptr %next, i64 1 monotonic":
                "%number = load atomic i64, ptr %next monotonic, align 8\n"
                "  %more = add i64 %number, 1\n"
                "  store atomic i64 %more, ptr %next monotonic, align 8",
        },
        "computed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    swaps, told = PLANTED[name]
    with pytest.raises(FaultError, match=told):
        states(1, 2, 2, swaps)
