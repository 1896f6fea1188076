"""Elementwise steps write where they read, and native programs take memory in turns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pirkit import ops
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_session import BorrowingSession
from pirkit.runtime.native.workspace import Block, Workspace
from tests.whole_program.test_convolutions import whole_of


def rows(count: int, columns: int) -> Any:
    made = np.random.default_rng(count).standard_normal((count, columns))
    return (made / 16).astype(np.float32)


def chain(x: Any, w: Any) -> Any:
    """Running sums, which are steps of their own, between elementwise ones."""
    return ops.cumsum(ops.tanh(ops.cumsum(x, 0)) * w, 0)


def native_of(count: int) -> tuple[NativeProgram, tuple[Any, ...]]:
    given = rows(count, 512), rows(count, 512)
    native = whole_of(chain, given).native
    assert native is not None
    return native, given


def wanted(x: Any, w: Any) -> Any:
    return np.cumsum(np.tanh(np.cumsum(x.astype(np.float64), 0)) * w, 0)


def test_what_dies_at_an_elementwise_step_is_overwritten() -> None:
    native, given = native_of(64)
    assert native.memory <= given[0].nbytes
    np.testing.assert_allclose(native(*given)[0], wanted(*given), rtol=1e-4, atol=1e-4)


def test_calls_at_one_time_have_blocks_of_their_own() -> None:
    native, given = native_of(1024)
    assert isinstance(native.session(), BorrowingSession)
    first = native(*given)[0]
    np.testing.assert_allclose(first, wanted(*given), rtol=1e-3, atol=1e-3)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: native(*given)[0], range(16)):
            np.testing.assert_array_equal(found, first)


def test_one_block_serves_programs_in_turn() -> None:
    class User:
        def __init__(self, needs: int) -> None:
            self.needs = needs

    workspace = Workspace()
    small, large = User(1000), User(5000)
    workspace.join(small)
    workspace.join(large)
    block = workspace.take(small.needs)
    workspace.give(block)
    larger = workspace.take(large.needs)
    assert isinstance(larger, Block)
    assert larger.nbytes == large.needs
    workspace.give(larger)
    assert workspace.take(small.needs) is larger
    workspace.give(larger)
    del large
    assert workspace.take(small.needs).nbytes == small.needs
