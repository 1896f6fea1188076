"""One pool owns the cores: BLAS has one thread in a run, and a run keeps to its threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.runtime.native.cores import (
    ONE_BLAS_THREAD,
    BlasThreads,
    allowed_threads,
    at_most,
    blas_threads,
    limit_all,
)


@pytest.fixture
def two() -> Iterator[BlasThreads]:
    found = blas_threads()
    if found is None:
        pytest.skip("numpy's BLAS has no setting for threads")
    before = found.get()
    found.set(2)
    if found.get() != 2:
        pytest.skip("this BLAS has one thread only")
    yield found
    found.set(before)


def test_runs_that_overlap_restore_what_was_set(two: BlasThreads) -> None:
    barrier, seen = threading.Barrier(8), list[int]()

    def run() -> None:
        barrier.wait()
        for _ in range(200):
            with ONE_BLAS_THREAD:
                seen.append(two.get())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    assert two.get() == 2


def test_a_run_that_fails_restores_it(two: BlasThreads) -> None:
    singular = np.zeros((4, 4), "float32")
    program = trace(lambda x: ops.inverse(x), (singular,)).program
    with pytest.raises(pirkit.PirkitError):
        pirkit.compile(program, pipeline="").run({"x0": singular})
    assert two.get() == 2


def test_a_child_that_was_forked_in_a_run_limits_later_ones(two: BlasThreads) -> None:
    with ONE_BLAS_THREAD:
        ONE_BLAS_THREAD.after_fork()
        assert two.get() == 2
    with ONE_BLAS_THREAD:
        assert two.get() == 1
    assert two.get() == 2


def test_limits_nest_and_belong_to_a_thread() -> None:
    whole = allowed_threads()
    other: list[int] = []
    with at_most(2), at_most(5), at_most(None):
        assert allowed_threads() == 2
        thread = threading.Thread(target=lambda: other.append(allowed_threads()))
        thread.start()
        thread.join()
    assert allowed_threads() == other[0] == whole


def test_a_setting_limits_threads_that_have_run_before() -> None:
    def has_run() -> None:
        with at_most(None), at_most(4):
            pass

    with ThreadPoolExecutor(1) as other:
        other.submit(has_run).result()
        try:
            limit_all(2)
            assert other.submit(allowed_threads).result() == 2
        finally:
            limit_all(None)


ALONE = """
import time
import numpy as np, pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace

x = np.ones((512, 512), "float32")
program = trace(lambda x: ops.inverse(ops.tanh(ops.matmul(x, x)) + ops.diag(x[0])), (x,)).program
run = pirkit.compile(program, threads=1).run
run({"x0": x})
own, all_threads = time.thread_time(), time.process_time()
for _ in range(20):
    run({"x0": x})
print((time.process_time() - all_threads) / (time.thread_time() - own))
"""


def test_one_thread_is_one_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env={**os.environ, "PIRKIT_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(done.stdout) <= 1.05


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "plain": (lambda a, b: ops.matmul(a, b), ((128, 96), (96, 160))),
    "transposed": (
        lambda a, b: ops.matmul(a, b, transpose_x=True, transpose_y=True), ((96, 128), (160, 96))
    ),
    "a view": (lambda a, b: ops.matmul(ops.transpose(a, [1, 0]), b), ((96, 128), (96, 160))),
    "heads": (
        lambda a, b: ops.matmul(
            ops.transpose(a, [0, 2, 1, 3]), ops.transpose(b, [0, 2, 1, 3]), transpose_y=True
        ),
        ((2, 64, 4, 80), (2, 64, 4, 80)),
    ),
    "rows of a batch": (lambda a, b: ops.matmul(a, b), ((3, 50, 96), (96, 160))),
    "rows that do not follow": (
        lambda a, b: ops.matmul(ops.transpose(a, [1, 0, 2]), b), ((50, 3, 96), (96, 160))
    ),
    "broadcast": (lambda a, b: ops.matmul(a, b), ((1, 96, 96), (5, 96, 96))),
    "bmm": (lambda a, b: ops.bmm(a, b), ((5, 96, 96), (5, 96, 96))),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_products(name: str, dtype: str) -> None:
    function, shapes = PRODUCTS[name]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    program = trace(function, tuple(given)).program
    fed = {f"x{k}": array for k, array in enumerate(given)}
    found = pirkit.compile(program, pipeline="").run(fed)["y0"]
    expected = pirkit.compile(program, pipeline="", backend="reference").run(fed)["y0"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
