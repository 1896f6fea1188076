"""Kernels that wait are compiled together, by several processes where that pays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit import batch_compile
from pirkit.lowering.codegen.emit.batch_compile import Draft, LazyFunction, function_of
from pirkit.lowering.codegen.emit.compile import draft_of
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.runtime.native import compile_workers, parallel_compile
from pirkit.runtime.native.cache import open_cache
from pirkit.runtime.native.compile_stats import COMPILE_STATS
from pirkit.runtime.native.compile_workers import CompileWorker, WorkerEndedError
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.target import host
from tests.codegen.nests import softmax

WRONG = "define void @f() { ret nonsense }\n"
TEXTS = [draft_of(softmax(4, n), host()).text for n in (3, 16, 50, 100)]


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process helps, however little there is to do."""
    monkeypatch.setattr(parallel_compile, "worker_count", lambda texts: 1)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits but what the test lets wait, and no cache has it."""
    monkeypatch.setattr(batch_compile, "user_cache", lambda: None)
    monkeypatch.setattr(batch_compile, "_pending", type(batch_compile._pending)())
    monkeypatch.setattr(batch_compile, "_functions", {})


def writing(kernel: Kernel) -> Callable[[], Draft]:
    return lambda: draft_of(kernel, host())


def test_a_process_makes_the_same_code() -> None:
    child = CompileWorker(host())
    try:
        assert [child.compile(text) for text in TEXTS] == list(map(compile_ir, TEXTS))
    finally:
        child.end()


def test_a_process_refuses_what_llvm_refuses() -> None:
    child = CompileWorker(host())
    try:
        error = child.compile(WRONG)
        assert isinstance(error, InternalError)
        with pytest.raises(InternalError) as ours:
            compile_ir(WRONG)
        assert (error.message, error.notes) == (ours.value.message, ours.value.notes)
        assert child.compile(TEXTS[0]) == compile_ir(TEXTS[0])
    finally:
        child.end()


def test_who_ended_is_noticed() -> None:
    child = CompileWorker(host())
    child.kill()
    with pytest.raises(WorkerEndedError):
        child.compile(TEXTS[0])
    child.end()


@pytest.mark.usefixtures("helped")
def test_results_are_in_order() -> None:
    found = parallel_compile.compile_all([*TEXTS, WRONG], host())
    assert found[:-1] == list(map(compile_ir, TEXTS))
    assert isinstance(found[-1], InternalError)


@pytest.mark.usefixtures("helped")
@pytest.mark.parametrize("failing", [OSError, WorkerEndedError])
def test_who_cannot_help_is_not_missed(
    failing: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(CompileWorker):
        def __init__(self, target: object) -> None:
            if failing is OSError:
                raise OSError

        def compile(self, text: str) -> bytes:
            raise WorkerEndedError

        def kill(self) -> None: ...

        def end(self) -> None: ...

    monkeypatch.setattr(parallel_compile, "CompileWorker", Broken)
    assert parallel_compile.compile_all(TEXTS, host()) == list(map(compile_ir, TEXTS))


@pytest.mark.usefixtures("helped")
def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[CompileWorker] = []
    is_started = threading.Event()

    class Noted(CompileWorker):
        def compile(self, text: str) -> bytes | InternalError:
            started.append(self)
            is_started.set()
            return super().compile(text)

    def interrupted(text: str, target: object) -> bytes:
        assert is_started.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_compile, "CompileWorker", Noted)
    monkeypatch.setattr(parallel_compile, "compile_ir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parallel_compile.compile_all(TEXTS, host())
    for child in started:
        assert child._process.wait(10) is not None


@pytest.mark.parametrize("name", [None, "", "/opt/app/server"])
def test_only_a_python_is_started(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_workers.can_start()
    monkeypatch.setattr(sys, "executable", name)
    assert not compile_workers.can_start()


@pytest.mark.parametrize(
    ("threads", "count", "found"), [("1", 40, 0), ("4", 2, 0), ("4", 40, 3), ("2", 40, 1)]
)
def test_processes_are_started_where_they_pay(
    threads: str, count: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIRKIT_NUM_THREADS", threads)
    assert parallel_compile.worker_count(["\n" * 500] * count) == found


# --- functions that wait ---


@pytest.mark.usefixtures("alone")
def test_the_first_that_is_needed_makes_all() -> None:
    before = COMPILE_STATS.copy()
    first, second = (function_of(str(n), writing(softmax(2, n))) for n in (5, 6))
    assert COMPILE_STATS.since(before).compiled == 0
    assert first.address
    assert isinstance(second, LazyFunction)
    assert second.made is not None
    assert COMPILE_STATS.since(before).compiled == 2


@pytest.mark.usefixtures("alone")
def test_what_functions_cost_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_NUM_THREADS", "1")
    before = COMPILE_STATS.copy()
    first, second = (function_of(str(n), writing(softmax(2, n))) for n in (5, 6))
    assert first.address
    found = COMPILE_STATS.since(before)
    assert len(found.costs) == 2
    assert all(cost > 0 for cost in found.costs)
    assert found.linked == 1
    assert found.linking > 0
    assert second.address
    assert COMPILE_STATS.since(before).linked == 2
    assert len(before.costs) + 2 == len(COMPILE_STATS.costs)


@pytest.mark.usefixtures("alone")
def test_the_same_key_is_one_function() -> None:
    write = writing(softmax(2, 5))
    first = function_of("key", write)
    assert function_of("key", write) is first
    assert first.address
    assert function_of("key", write) is first


@pytest.mark.usefixtures("alone")
def test_what_nobody_holds_is_not_compiled() -> None:
    before = COMPILE_STATS.copy()
    dropped = function_of("dropped", writing(softmax(2, 5)))
    held = function_of("held", writing(softmax(2, 6)))
    del dropped
    gc.collect()
    assert held.address
    assert COMPILE_STATS.since(before).compiled == 1


@pytest.mark.usefixtures("alone")
def test_an_error_is_that_of_its_function() -> None:
    wrong = function_of("wrong", lambda: Draft(WRONG, draft_of(softmax(2, 5), host()).code))
    right = function_of("right", writing(softmax(2, 6)))
    for _ in range(2):
        with pytest.raises(InternalError, match="LLVM refuses"):
            _ = wrong.address
    assert right.address


@pytest.mark.usefixtures("alone")
def test_what_was_compiled_is_read_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_cache(tmp_path / "objects", tmp_path / "secret")
    monkeypatch.setattr(batch_compile, "user_cache", lambda: store)
    x, y = np.random.default_rng(0).random((2, 5), np.float32), np.zeros((2, 5), np.float32)
    key = "0" * 64
    function_of(key, writing(softmax(2, 5))).bind([x, y])()
    monkeypatch.setattr(batch_compile, "_functions", {})
    before, again = COMPILE_STATS.copy(), np.zeros_like(y)
    function_of(key, writing(softmax(2, 5))).bind([x, again])()
    found = COMPILE_STATS.since(before)
    assert (found.compiled, found.read) == (0, 1)
    np.testing.assert_array_equal(again, y)


@pytest.mark.usefixtures("alone")
def test_threads_that_need_the_same_get_the_same() -> None:
    functions = [function_of(str(n), writing(softmax(2, n))) for n in (5, 6, 7)]
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append([f.address for f in functions]))
        for _ in range(4)
    ]
    before = COMPILE_STATS.copy()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({tuple(each) for each in found}) == 1
    assert COMPILE_STATS.since(before).compiled == 3


PROGRAM = """
import sys
from pirkit.lowering.codegen.emit.batch_compile import function_of
from pirkit.lowering.codegen.emit.compile import draft_of
from pirkit.runtime.native import parallel_compile
from pirkit.runtime.native.target import host
from tests.codegen.nests import softmax
parallel_compile.worker_count = lambda texts: 1
functions = [function_of(str(n), lambda n=n: draft_of(softmax(2, n), host())) for n in (5, 60, 7)]
print(all(f.address for f in functions))
"""


def test_it_works_without_input_and_from_a_string() -> None:
    environment = {**os.environ, "PIRKIT_NATIVE_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.close(0)\n{PROGRAM}"],
        capture_output=True, text=True, check=False, env=environment, timeout=900,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.usefixtures("alone", "helped")
def test_the_child_of_a_fork_compiles() -> None:
    functions = [function_of(str(n), writing(softmax(2, n))) for n in (5, 6)]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(f.address for f in functions) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def resident_code() -> int:
    """KiB of LLVM's code that this process has mapped."""
    found, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith(" kB"):
            found += int(line.split()[1]) * (counts and line.startswith("Rss:"))
        elif "-" in line.split()[0]:
            counts = " r-xp " in line and "libllvmlite" in line
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are asked of Linux")
def test_pages_of_llvm_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long compilation; the next one reads them again, and makes the same code."""
    before = [compile_ir(text) for text in TEXTS]
    used = resident_code()
    assert used > 4096
    monkeypatch.setattr(parallel_compile, "worker_count", lambda texts: 0)
    monkeypatch.setattr(parallel_compile, "WORTH_S", float("inf"))
    parallel_compile.compile_all(TEXTS[:1], host())
    assert resident_code() > used // 2  # a short one keeps them
    monkeypatch.setattr(parallel_compile, "WORTH_S", 0.0)
    assert parallel_compile.compile_all(TEXTS, host()) == before
    assert resident_code() < used // 2
