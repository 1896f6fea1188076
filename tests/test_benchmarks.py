"""Processes of the benchmarks that fail are told apart, and none outlives its limit."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import compare, compile_time

FAILURES = {
    "import os; os.kill(os.getpid(), 9)": "ended by SIGKILL",
    "raise SystemExit(3)": "ended with status 3",
    "import sys; sys.exit('no such workload')": "no such workload",
    "pass": "printed nothing",
    "import time; time.sleep(60)": "more than 0.5 s",
}


@pytest.mark.parametrize("program", FAILURES)
def test_a_process_without_a_result_says_why(program: str) -> None:
    limit = 0.5 if "sleep" in program else 60.0
    with pytest.raises(compile_time.ChildError) as raised:
        compile_time.measured([sys.executable, "-c", program], {}, limit)
    assert str(raised.value) == FAILURES[program]


def test_a_result_is_the_last_line_with_the_wall_time() -> None:
    program = "import os; print('noise'); print('{\"first\": ' + os.environ['NUMBER'] + '}')"
    found = compile_time.measured([sys.executable, "-c", program], {"NUMBER": "2.5"}, 60.0)
    assert found["first"] == 2.5
    assert 0 < found["wall"] < 60


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        script = f"(echo begun; exec sleep 900) > {pipe} & sleep 900"
        began = time.monotonic()
        with pytest.raises(compile_time.ChildError):
            compile_time.measured(["sh", "-c", script], {}, 1.0)
        assert time.monotonic() - began < 600
        os.set_blocking(reader, True)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(lambda: [os.read(reader, 100) for _ in range(2)])
            assert reading.result(timeout=600) == [b"begun\n", b""]
    finally:
        os.close(reader)


def test_a_failure_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    entry = compile_time.Entry("here", "pirkit", sys.executable, str(compile_time.ROOT))
    (row,) = compile_time.rows([entry], "no_such_workload", 1, 60.0)
    assert row == "| `no_such_workload` | here | KeyError: 'no_such_workload' | | | | |"
    assert "no_such_workload" in capsys.readouterr().err


def test_kernels_that_fail_are_a_row() -> None:
    row = compile_time.kernel_row(sys.executable, "no_such_workload", 1, 60.0)
    assert row == "| `no_such_workload` | KeyError: 'no_such_workload' | | | | |"


@pytest.mark.skipif("PIRKIT_EXHAUSTIVE" not in os.environ, reason="starts two processes")
def test_functions_are_counted_with_their_time() -> None:
    cells = compile_time.kernel_row(sys.executable, "ln_fwd", 1, 60.0).split("|")
    assert int(cells[2]) >= 1
    assert all(float(cell) > 0 for cell in cells[3:7])


def test_jax_takes_taylor_series_where_coordinates_are_derived() -> None:
    assert compile_time.variant("jax", "pinn_beam_10") == "jax_jet"
    assert compile_time.variant("jax", "gelu_tanh") == "jax"
    assert compile_time.variant("pirkit", "pinn_beam_10") == "pirkit"


def test_a_workload_without_results_is_compared() -> None:
    empty = [{"size": 0, "sums": [0.0, 0.0], "samples": []}]
    assert compare.difference(empty, empty) == 0.0
