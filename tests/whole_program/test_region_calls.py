"""Loops in programs with library calls: each is one native call, with the calls in its body."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program import segments
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.function import LibraryCall
from pirkit.runtime.plan import REGION, SEGMENT, Call, If, Stack, While, instructions
from tests.tolerance import drift

Array = np.ndarray[Any, Any]
X = np.linspace(-1, 1, 6, dtype=np.float32)


def library(x: Any) -> Any:
    """What has no native form."""
    return ops.i0e(x) * x


def before_and_after(x: Any) -> Any:
    y = library(x * 2)
    return library(pirkit.fori_loop(0, 7, lambda i, v: np.sin(v) + y, x)) - x


def in_the_body(x: Any) -> Any:
    return pirkit.fori_loop(0, 7, lambda i, v: library(np.sin(v * 3) - v) + 0.5 * x, x)


def first_in_the_body(x: Any) -> Any:
    """The call reads the variable itself, and its result is the next value as it is."""
    return pirkit.fori_loop(0, 3, lambda i, s: (library(s[1]), s[0] * x), (x, -x))


def no_turn(x: Any) -> Any:
    return pirkit.fori_loop(3, 3, lambda i, v: library(v), x) + library(x)


def stacked(x: Any) -> Any:
    return pirkit.scan(lambda c, v: (library(c + v) * 0.5, (c * v, library(c))), x, x)


def nested(x: Any) -> Any:
    inner = lambda i, v: pirkit.fori_loop(0, i, lambda j, w: library(w * x) + w, v)  # noqa: E731
    return pirkit.fori_loop(0, 4, lambda i, v: inner(i, library(v)) * 0.5, x)


def in_a_branch(x: Any) -> Any:
    loop = lambda v: pirkit.fori_loop(0, 3, lambda i, w: library(w * w - x), v)  # noqa: E731
    return pirkit.cond(library(x)[0] < 0, loop, lambda v: v * 2, x)


def with_branches(x: Any) -> Any:
    step = lambda i, v: pirkit.cond(v[0] > 0, lambda v: library(v - 0.7), lambda v: v + 0.4, v)  # noqa: E731
    return pirkit.fori_loop(0, 9, step, x)


def until(x: Any) -> Any:
    small = lambda s: (abs(s[0]) > 1e-2).any()  # noqa: E731
    return pirkit.while_loop(small, lambda s: (library(s[0]) * -0.5, s[1] + 1), (x, 0))


def between(x: Any) -> Any:
    first = pirkit.fori_loop(0, 5, lambda i, v: np.sin(v) + v * x, x)
    return pirkit.fori_loop(0, 4, lambda i, v: v * np.cos(v), library(first * 2))


def reshaped(x: Any) -> Any:
    step = lambda i, v: library(v.reshape((2, 3))).reshape((6,)) * x  # noqa: E731
    return pirkit.fori_loop(0, 3, step, x)


PROGRAMS = [before_and_after, in_the_body, first_in_the_body, no_turn, stacked, nested, in_a_branch,
            with_branches, until, between, reshaped]  # fmt: skip


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Executable:
    return pirkit.compile(pirkit.trace(function, *args), **options)


def results(function: Callable[..., Any], *args: Any, **options: Any) -> list[Array]:
    exe = compiled(function, *args, **options)
    given = dict(zip([i.name for i in exe.inputs], args, strict=True))
    exe(**given)
    return [*exe(**given).values()]


def total(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: sum(v.sum() for v in pirkit.tree.leaves(function(x)) if v.dtype.is_float)


def is_flat(exe: Executable) -> bool:
    """Whether Python runs no loop and no stack of a loop."""
    return not any(isinstance(i, While | Stack) for i in instructions(exe.plan.body))


def kernels(exe: Executable) -> list[str]:
    return [i.kernel for i in exe.plan.body if isinstance(i, Call)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_loops_compute_what_single_steps_do(function: Any, threads: int | None) -> None:
    exe = compiled(function, X, threads=threads)
    assert is_flat(exe)
    assert exe.native is None
    wanted = results(function, X, pipeline="expand-gradients")
    for found, array in zip(results(function, X, threads=threads), wanted, strict=True):
        assert drift(found, array) is None


@pytest.mark.parametrize(
    "function", [f for f in PROGRAMS if f is not no_turn], ids=lambda f: f.__name__
)
def test_derivatives_keep_their_stacks_beside_library_calls(function: Any) -> None:
    first = pirkit.grad(total(function))
    second = pirkit.grad(lambda x: (first(x) * x).sum())
    for derivative in (first, second):
        assert is_flat(compiled(derivative, X))
        wanted = results(derivative, X, pipeline="taylor,expand-gradients")
        for found, array in zip(results(derivative, X), wanted, strict=True):
            assert drift(found, array) is None


def test_a_loop_without_library_calls_is_a_segment() -> None:
    assert kernels(compiled(before_and_after, X)).count(REGION) == 0
    assert kernels(compiled(in_the_body, X)).count(REGION) == 1
    exe = compiled(between, X)
    assert kernels(exe).count(SEGMENT) >= 2
    assert kernels(exe).count(REGION) == 0
    assert all("`pd_op." in reason for reason in exe.reasons)


def test_branches_are_native_calls_too() -> None:
    def function(x: Any) -> Any:
        y = pirkit.cond(x[0] > 0, library, lambda v: v * 2, x)
        return pirkit.cond(x[1] > 0, lambda v: v + 1, lambda v: v * 3, library(y))

    exe = compiled(function, X)
    assert not any(isinstance(i, If) for i in exe.plan.body)
    assert kernels(exe).count(REGION) == 1
    for x in (X, -X):
        (found,) = exe.run({exe.inputs[0].name: x}).values()
        y = np.asarray(library(x) if x[0] > 0 else x * 2)
        z = np.asarray(library(y))
        assert drift(found, z + 1 if x[1] > 0 else z * 3) is None


def test_a_call_reads_only_the_first_input_once() -> None:
    """The first slot is number 0: what reads it is no constant, and is computed once."""
    exe = compiled(lambda x: library(np.cumsum(x)) + np.cumsum(x), X)
    ran = [c.call.kernel for i in exe.plan.body if isinstance(i, Call) and i.kernel == SEGMENT
           for s in i.attrs["program"].steps for c in s.calls]  # fmt: skip
    assert ran.count("pd_op.cumsum") <= 1


def test_a_call_that_fails_ends_the_loop() -> None:
    def function(x: Any) -> Any:
        m = np.eye(30, dtype=np.float32)
        return pirkit.fori_loop(0, 5, lambda i, v: np.linalg.inv(m * v) @ (v - 1), x)

    step, good = pirkit.jit(function), np.full(30, 0.25, np.float32)
    wanted = np.asarray(step(good))
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(step(good)), wanted)
        with pytest.raises(pirkit.PirkitError, match="not invertible"):
            step(np.ones(30, np.float32))


def test_an_index_that_is_out_of_range_is_refused() -> None:
    def function(x: Any, n: Any) -> Any:
        return pirkit.fori_loop(0, n, lambda i, v: v + library(x)[i], x[0] * 0)

    step = pirkit.jit(function)
    terms = np.asarray(library(X))
    assert drift(np.asarray(step(X, 6)), terms.sum()) is None
    with pytest.raises(pirkit.PirkitError, match="PK0901"):
        step(X, 7)
    assert drift(np.asarray(step(X, 5)), terms[:5].sum()) is None


def test_a_loop_is_interrupted_and_runs_again() -> None:
    def function(x: Any, count: Any) -> Any:
        return pirkit.fori_loop(0, count, lambda i, v: library(v) + 1.0, x)

    step, gradient = pirkit.jit(function), pirkit.jit(pirkit.grad(lambda x: function(x, 2).sum()))
    few, slopes = np.int64(3), np.asarray(gradient(X))
    wanted = np.asarray(step(X, few))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    timer = threading.Timer(0.3, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  a busy machine may interrupt before the call
        timer.start()
        step(X, np.int64(1 << 40))
    timer.join()
    np.testing.assert_array_equal(np.asarray(step(X, few)), wanted)
    np.testing.assert_array_equal(np.asarray(gradient(X)), slopes)


def test_threads_run_one_loop_at_once() -> None:
    step = pirkit.jit(pirkit.grad(total(nested)))
    wanted = np.asarray(step(X))
    found: list[Array] = []

    def run() -> None:
        found.extend(np.asarray(step(X)) for _ in range(10))

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 40
    for array in found:
        np.testing.assert_array_equal(array, wanted)


def test_arrays_may_have_any_layout() -> None:
    exe = compiled(in_the_body, X)
    wide = np.zeros((6, 3), np.float32)
    wide[:, 1] = X
    (name,) = [i.name for i in exe.inputs]
    (found,), (wanted,) = exe.run({name: wide[:, 1]}).values(), exe.run({name: X}).values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("store")
def test_loops_with_calls_are_kept_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = results(in_the_body, X)
    monkeypatch.delattr(segments, "attempted")
    exe = compiled(in_the_body, X)
    (loop,) = [i for i in exe.plan.body if isinstance(i, Call) and i.kernel == REGION]
    assert any(isinstance(s.function, LibraryCall) for s in loop.attrs["program"].steps)
    assert drift(results(in_the_body, X)[0], wanted[0]) is None
