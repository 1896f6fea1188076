"""Loops and branches in native programs: what they compute, where, and how they are interrupted."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pirkit
from pirkit import ops
from pirkit.lowering.codegen.emit import loop_function
from pirkit.lowering.whole_program import segments
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.compile_stats import COMPILE_STATS
from pirkit.runtime.native.function import Branch, Reserve
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_json import pack_program, unpack_program
from pirkit.runtime.native.program_session import Session
from tests.tolerance import drift

Array = np.ndarray[Any, Any]
NUMBERS = st.integers(0, 2)
X = np.linspace(-1, 1, 6, dtype=np.float32)


def powers(x: Any) -> Any:
    return pirkit.fori_loop(0, 7, lambda i, v: v * x + 0.5, x)


def swaps(x: Any) -> Any:
    return pirkit.fori_loop(0, 5, lambda i, s: (s[1], s[2], s[0] + s[1]), (x, x * 2, x * 3))


def nothing(x: Any) -> Any:
    return pirkit.fori_loop(3, 3, lambda i, v: v * 0.0, x)


def rows(x: Any) -> Any:
    return pirkit.scan(lambda c, v: (c + v, (c * v, np.exp(v))), x.sum(), x)


def backwards(x: Any) -> Any:
    return pirkit.scan(lambda c, v: (c * 0.5 + v, c), x[0], x, reverse=True)


def until(x: Any) -> Any:
    small = lambda s: (abs(s[0]) > 1e-3).any()  # noqa: E731
    return pirkit.while_loop(small, lambda s: (s[0] * 0.5, s[1] + 1), (x, 0))


def chosen(x: Any) -> Any:
    step = lambda i, v: pirkit.cond(v.sum() > 0, lambda v: v - 0.3, lambda v: v + v[0], v)  # noqa: E731
    return pirkit.fori_loop(0, 9, step, x)


def nested(x: Any) -> Any:
    inner = lambda i, v: pirkit.fori_loop(0, i, lambda j, w: np.sin(w) + x, v)  # noqa: E731
    return pirkit.fori_loop(0, 4, inner, x)


def outer_values(x: Any) -> Any:
    y, z = np.exp(x), x.reshape((2, 3))
    found = pirkit.fori_loop(0, 3, lambda i, v: v + z * y.reshape((2, 3)), z)
    return found, y + 1, found.sum() * z


def views(x: Any) -> Any:
    step = lambda i, s: (s[1].reshape((6,)), s[0].reshape((2, 3)))  # noqa: E731
    return pirkit.fori_loop(0, 3, step, (x, (x * x).reshape((2, 3))))


def matrices(x: Any) -> Any:
    m = x.reshape((6, 1)) * x.reshape((1, 6))
    return pirkit.fori_loop(0, 4, lambda i, v: np.tanh(v @ m) + m, m)


PROGRAMS = [powers, swaps, nothing, rows, backwards, until, chosen, nested, outer_values, views,
            matrices]  # fmt: skip


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Executable:
    return pirkit.compile(pirkit.trace(function, *args), **options)


def results(function: Callable[..., Any], *args: Any, **options: Any) -> list[Array]:
    exe = compiled(function, *args, **options)
    return [*exe(**dict(zip([i.name for i in exe.inputs], args, strict=True))).values()]


def native(function: Callable[..., Any], *args: Any) -> NativeProgram:
    found = compiled(function, *args, batch_lanes=True).native
    assert found is not None
    return found


def total(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: sum(v.sum() for v in pirkit.tree.leaves(function(x)) if v.dtype.is_float)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_native_call_computes_what_single_operators_do(function: Any, dtype: Any) -> None:
    x = X.astype(dtype)
    native(function, x)
    wanted = results(function, x, pipeline="expand-gradients")
    for found, array in zip(results(function, x, batch_lanes=True), wanted, strict=True):
        assert drift(found, array) is None


@pytest.mark.parametrize(
    "function", [f for f in PROGRAMS if f is not nothing], ids=lambda f: f.__name__
)
def test_derivatives_keep_their_stacks_in_native_memory(function: Any) -> None:
    first = pirkit.grad(total(function))
    second = pirkit.grad(lambda x: (first(x) * x).sum())
    for derivative in (first, second):
        native(derivative, X)
        wanted = results(derivative, X, pipeline="taylor,expand-gradients")
        for found, array in zip(results(derivative, X, batch_lanes=True), wanted, strict=True):
            assert drift(found, array) is None


@pytest.mark.parametrize("byte", [0, 1, 2, 128, 255])
def test_a_condition_is_true_if_its_byte_is_not_zero(byte: int) -> None:
    """In the driver, and where a loop is one function."""

    def function(c: Any, x: Any) -> Any:
        first = pirkit.cond(c, lambda v: v + 1.0, lambda v: v - 1.0, x)
        step = lambda i, v: pirkit.cond(c, lambda w: w * 2.0, lambda w: w * 3.0, v)  # noqa: E731
        return pirkit.fori_loop(0, 3, step, first)

    condition = np.array(byte, np.uint8).view(np.bool_)
    native(function, condition, X)
    (found,) = results(function, condition, X, batch_lanes=True)
    assert drift(found, (X + 1) * 8 if byte else (X - 1) * 27) is None


def test_a_stack_grows_while_a_loop_runs() -> None:
    def function(x: Any) -> Any:
        return pirkit.fori_loop(0, 5000, lambda i, v: np.sin(v * 1.0001) + 0.1 * x, x).sum()

    program = native(pirkit.grad(function), X)
    assert any(isinstance(s.function, Reserve) for s in program.steps)
    wanted = results(pirkit.grad(function), X, pipeline="taylor,expand-gradients")
    step = pirkit.jit(pirkit.grad(function))
    for _ in range(3):
        assert drift(np.asarray(step(X)), wanted[0]) is None


def body_of(program: NativeProgram) -> list[Any]:
    """The functions of the innermost loop that comes first."""
    for k, step in enumerate(program.steps):
        if isinstance(step.function, Branch) and step.function.target <= k:
            return [s.function for s in program.steps[step.function.target : k]]
    raise AssertionError("no loop")


@pytest.mark.parametrize("function", [powers, swaps, rows, until, chosen, nested])
def test_steps_of_a_small_loop_are_one_function(function: Any) -> None:
    assert len(body_of(native(function, X))) == 1
    *reserves, _ = body_of(native(pirkit.grad(total(function)), X))
    assert all(isinstance(f, Reserve) for f in reserves)


def test_steps_of_a_large_loop_stay_apart() -> None:
    def function(x: Any) -> Any:
        return pirkit.fori_loop(0, 7, lambda i, v: v * x.sum() + np.roll(v, 1), x)

    assert len(body_of(native(function, np.zeros(1000, np.float32)))) > 1


@pytest.mark.parametrize("function", [swaps, rows, chosen, nested], ids=lambda f: f.__name__)
def test_a_loop_function_may_return_after_each_iteration(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_function, "_CALL_NS", 0)
    x = X + 0.25  # of which no other test has compiled the programs
    for derived in (function, pirkit.grad(total(function))):
        wanted = results(derived, x, pipeline="taylor,expand-gradients")
        for found, array in zip(results(derived, x, batch_lanes=True), wanted, strict=True):
            assert drift(found, array) is None


def test_a_loop_may_have_no_steps() -> None:
    step = pirkit.jit(lambda x, go: pirkit.while_loop(lambda v: go, lambda v: v, x))
    np.testing.assert_array_equal(np.asarray(step(X, np.bool_(False))), X)
    empty = loop_function.LoopBody((), operands=1, condition=0, pushed=())
    assert loop_function.loop_function(empty).code.sizes == (1,)


def test_an_index_that_is_out_of_range_in_a_loop_is_refused() -> None:
    def function(x: Any, n: Any) -> Any:
        return pirkit.fori_loop(0, n, lambda i, v: v + x[i], x[0] * 0)

    step = pirkit.jit(function)
    assert drift(np.asarray(step(X, 6)), X.sum()) is None
    with pytest.raises(pirkit.PirkitError, match="PK0901"):
        step(X, 7)
    assert drift(np.asarray(step(X, 5)), X[:5].sum()) is None


def test_state_is_updated_in_place() -> None:
    """A turn writes one row of the result, not all of it; the state is not copied."""

    def function(x: Any) -> Any:
        return pirkit.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[1]

    program = native(function, np.zeros(100_000, np.float32))
    ((back, to),) = [
        (k, s.function.target)
        for k, s in enumerate(program.steps)
        if isinstance(s.function, Branch) and s.function.target <= k
    ]
    sizes = [sum(size for size in s.function.code.sizes) for s in program.steps[to:back]]
    whole = 4 * 100_000
    # the rows that are read and the result, and no third array, which would be a copy
    assert max(sizes) < 3 * whole


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=3, max_size=3
    ),
    st.integers(0, 4),
)
def test_variables_change_all_at_once(body: list[tuple[int, int, bool]], turns: int) -> None:
    def step(_: Any, s: Any) -> Any:
        return tuple([s[a] + 0.5 * s[b] if adds else s[a] for a, b, adds in body])

    def function(x: Any) -> Any:
        return pirkit.fori_loop(0, turns, step, (x, x + 1, x * x))

    state: Any = (X, X + 1, X * X)
    for k in range(turns):
        state = step(k, state)
    for found, wanted in zip(results(function, X, batch_lanes=True), state, strict=True):
        assert drift(found, wanted) is None


def test_a_loop_is_interrupted_and_runs_again() -> None:
    def function(x: Any, count: Any) -> Any:
        return pirkit.fori_loop(0, count, lambda i, v: v + 1.0, x)

    step = pirkit.jit(function)
    few = np.int64(3)
    np.testing.assert_array_equal(np.asarray(step(X, few)), X + 3)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    timer = threading.Timer(0.3, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  a busy machine may interrupt before the call
        timer.start()
        step(X, np.int64(1 << 40))
    timer.join()
    np.testing.assert_array_equal(np.asarray(step(X, few)), X + 3)


def test_an_interrupt_leaves_nothing_on_the_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come after native code has paused, and before Python goes on."""

    def interrupted(session: Session) -> None:
        session.stacks.enlarge()
        session._run(session.header_address)
        raise KeyboardInterrupt

    def function(x: Any) -> Any:
        return pirkit.fori_loop(0, 5000, lambda i, v: np.sin(v * 1.0001) + 0.1 * x, x).sum()

    program = native(pirkit.grad(function), X)
    program.free.append(session := program.session())
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_go_on", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(X)
    assert any(used for _, used, *_ in session.stacks.words)
    (found,) = program(X)
    assert not any(used for _, used, *_ in session.stacks.words)
    wanted = results(pirkit.grad(function), X, pipeline="taylor,expand-gradients")
    assert drift(found, wanted[0]) is None


def test_an_interrupt_leaves_no_broken_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come after native code has set a flag, and before Python looks at it."""

    def interrupted(session: Session) -> None:
        raise KeyboardInterrupt

    def function(x: Any, at: Any) -> Any:
        return ops.gather(x, at) * 2.0

    program = native(function, X, np.arange(6))
    with monkeypatch.context() as patch:
        patch.setattr(Session, "refuse", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(X, np.full(6, 6))
    np.testing.assert_array_equal(program(X, np.arange(6)[::-1].copy())[0], X[::-1] * 2)


def test_threads_run_one_loop_at_once() -> None:
    step = pirkit.jit(pirkit.grad(total(nested)))
    wanted = np.asarray(step(X))
    found: list[Array] = []

    def run() -> None:
        found.extend(np.asarray(step(X)) for _ in range(20))

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 80
    for array in found:
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.usefixtures("store")
def test_loops_are_kept_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    function = pirkit.grad(total(nested))
    wanted = results(function, X, batch_lanes=True)
    count = COMPILE_STATS.compiled
    monkeypatch.delattr(segments, "attempted")
    assert native(function, X).stacks
    assert drift(results(function, X, batch_lanes=True)[0], wanted[0]) is None
    assert count == COMPILE_STATS.compiled


def test_entries_of_loops_are_validated() -> None:
    program = native(pirkit.grad(total(nested)), X)
    functions = [s.function for s in program.steps]
    whole, steps = pack_program(program, [str(k) for k in range(len(functions))])
    stacks = [f.name for f in fields(program)].index("stacks")

    def read(steps: Any, whole: Any = whole) -> Any:
        return unpack_program([whole, steps], lambda k: functions[int(k)])

    assert read(steps).steps == program.steps
    (first, *_) = [k for k, s in enumerate(steps) if s[0][:1] == ["Branch"]]
    for words in (["Branch", len(steps) + 1, False], ["Branch", -1, True], ["Jump", 0, False],
                  ["Branch", 1], ["Branch", 1, 1], ["Reserve", -8], []):  # fmt: skip
        broken = [*steps[:first], [words, *steps[first][1:]], *steps[first + 1 :]]
        assert read(broken) is None, words
    held = [*whole[:stacks], [program.memory - 8], *whole[stacks + 1 :]]
    assert read(steps, held) is None
