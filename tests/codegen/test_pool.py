"""The pool of native threads: many callers, nested runs, forks, the end of the interpreter."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from pirkit.diag.errors import UsageError
from pirkit.runtime.native import thread_pool as pools
from pirkit.runtime.native.engine import Library, compile_ir, load
from pirkit.runtime.native.thread_pool import Pool, pool, thread_count

COUNTING = """
; Adds one to the counter of each block, and takes a while.
define void @count(ptr %counters, i64 %slot, i64 %lo, i64 %hi) {
entry:
  br label %next
next:
  %k = phi i64 [ %lo, %entry ], [ %k1, %work ]
  %left = icmp slt i64 %k, %hi
  br i1 %left, label %work, label %done
work:
  %p = getelementptr i64, ptr %counters, i64 %k
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}
; Runs `count` on the pool from inside a run: args are pool, function, counters, blocks.
declare void @run(ptr, ptr, ptr, i64, i64, i64)
define void @nested(ptr %args, i64 %slot, i64 %lo, i64 %hi) {
  %p1 = getelementptr ptr, ptr %args, i64 1
  %p2 = getelementptr ptr, ptr %args, i64 2
  %p3 = getelementptr ptr, ptr %args, i64 3
  %pool = load ptr, ptr %args
  %run = load ptr, ptr %p1
  %counters = load ptr, ptr %p2
  %blocks = load i64, ptr %p3
  call void %run(ptr %pool, ptr @count, ptr %counters, i64 %blocks, i64 1, i64 64)
  ret void
}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return load(compile_ir(COUNTING.replace("declare void @run(ptr, ptr, ptr, i64, i64, i64)\n",
                                            "")), ["count", "nested"])  # fmt: skip


@pytest.fixture
def four() -> Iterator[Pool]:
    made = Pool(4)
    yield made
    made.stop()


def count(
    target: Pool, library: Library, blocks: int, chunk: int = 1, limit: int = 64
) -> list[int]:
    counters = (ctypes.c_int64 * blocks)()
    where = ctypes.addressof(counters)
    target.run(target.address, library.addresses["count"], where, blocks, chunk, limit)
    return list(counters)


def test_each_block_runs_once(four: Pool, library: Library) -> None:
    assert four.threads == 4
    for blocks in (1, 2, 3, 7, 64, 1000):
        for chunk in (1, 3, 2000):
            assert count(four, library, blocks, chunk) == [1] * blocks
    assert count(four, library, 5, limit=1) == [1] * 5


def are_asleep(target: Pool, workers: int) -> bool:
    """Waits for it. Those that were just woken count until they run: a second look may differ."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if target.sleepers == workers:
            return True
        time.sleep(0.001)
    return False


def test_idle_workers_sleep_and_are_woken(four: Pool, library: Library) -> None:
    for _ in range(20):
        assert are_asleep(four, 3)
        assert count(four, library, 50) == [1] * 50


def test_many_callers(four: Pool, library: Library) -> None:
    wrong: list[int] = []

    def call() -> None:
        for _ in range(300):
            if count(four, library, 16) != [1] * 16:
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_run_inside_a_run(four: Pool, library: Library) -> None:
    inner, outer = 40, 8
    counters = (ctypes.c_int64 * inner)()
    run = ctypes.cast(four.run, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    args = (ctypes.c_int64 * 4)(four.address, run, ctypes.addressof(counters), inner)
    function = library.addresses["nested"]
    four.run(four.address, function, ctypes.addressof(args), outer, 1, 64)
    runs = set(counters)
    assert len(runs) == 1
    assert 1 <= runs.pop() <= outer


def test_a_pool_that_was_stopped_still_runs(library: Library) -> None:
    made = Pool(3)
    made.stop()
    assert made.threads == 1
    assert count(made, library, 9) == [1] * 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_a_pool_of_its_own(library: Library) -> None:
    parents = pool()
    assert count(parents, library, 30) == [1] * 30
    child = os.fork()
    if child == 0:
        fine = pool() is not parents and count(pool(), library, 30) == [1] * 30
        pools.pool().stop()
        os._exit(0 if fine else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert count(pool(), library, 30) == [1] * 30


END = """
import ctypes
from pirkit.runtime.native.engine import compile_ir, load
from pirkit.runtime.native.thread_pool import pool
text = "define void @f(ptr %a, i64 %s, i64 %l, i64 %h) {{ ret void }}"
f = load(compile_ir(text), ["f"])
for _ in range({runs}):
    pool().run(pool().address, f.addresses["f"], 0, 100, 1, 64)
print("threads", pool().threads)
"""


@pytest.mark.parametrize("runs", [0, 1, 2000])
def test_the_interpreter_ends(runs: int) -> None:
    environment = {**os.environ, "PIRKIT_NUM_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", END.format(runs=runs)],
        capture_output=True, text=True, timeout=900, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "threads 4\n", "")


def test_signals_stay_with_python(four: Pool) -> None:
    import signal

    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen
    assert four.threads == 4


@pytest.mark.parametrize(("pirkit", "openmp", "wanted"), [("3", "5", 3), ("", "5,2", 5)])
def test_threads_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, pirkit: str, openmp: str, wanted: int
) -> None:
    monkeypatch.setenv("PIRKIT_NUM_THREADS", pirkit)
    monkeypatch.setenv("OMP_NUM_THREADS", openmp)
    assert thread_count() == wanted


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_threads_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PIRKIT_NUM_THREADS", text)
    with pytest.raises(UsageError, match="PIRKIT_NUM_THREADS"):
        thread_count()
