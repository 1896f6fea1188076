"""The largest element of a row is found by the product that makes it: the bits are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul import fused_row_blocks, fused_row_max
from pirkit.lowering.codegen.matmul.fused_row_max import with_row_max
from pirkit.lowering.codegen.matmul.row_block_plan import RowBlocks, RowGemm
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host
from tests.whole_program.test_attention_groups import (
    Array,
    attention,
    heads,
    masked,
    normal,
    transposed,
    with_gradients,
)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products do so too."""
    monkeypatch.setattr(fused_row_max, "_MIN_COLUMNS", 0)


def group_of(monkeypatch: pytest.MonkeyPatch, function: Any, given: tuple[Array, ...]) -> RowBlocks:
    """The group that a program is."""
    found: list[RowBlocks] = []
    native_rows = fused_row_blocks.native_rows
    with monkeypatch.context() as patch:
        patch.setattr(fused_row_blocks, "native_rows", lambda g: found.append(g) or native_rows(g))
        whole = pirkit.compile(trace(function, given).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    return found[0]


def products_with(group: RowBlocks) -> int:
    found = with_row_max(group, host())
    return sum(isinstance(s, RowGemm) and s.row_max is not None for s in found.steps)


def run(group: RowBlocks, values: list[Array]) -> list[Array]:
    """All operands after a run; those that are results begin as poison."""
    made = NativeFunction(compiled(fused_row_blocks.row_blocks_draft(group, host()), host()))
    arrays = [v.copy() for v in values]
    made.bind(arrays)()
    return arrays


def interpreted(group: RowBlocks, values: list[Array]) -> list[Array]:
    """The same by the interpreter of the loop IR."""
    arrays = [v.copy() for v in values]
    run_loops(fused_row_blocks.row_blocks_draft(group, host()).stages[-1].nest, arrays)
    return arrays


def operands(group: RowBlocks, special: bool) -> list[Array]:
    found: list[Array] = []
    for number, size in enumerate(group.sizes):
        array = normal(size // group.dtype.itemsize, kind=group.dtype.name, seed=number)
        if special and number < 3:
            array[:: 1999 + number] = [np.nan, np.inf, -np.inf][number]
        found.append(array)
    return found


def spread(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Where something is seen the largest of a row, which so ends in a result."""
    largest = ops.max(ops.matmul(q, k) * 0.25, [-1], keepdim=True)
    return ops.matmul(ops.where(seen > 0, largest + seen * 0, seen * 0), v)


def same_bits(group: RowBlocks, values: list[Array], monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(group, values)
    with monkeypatch.context() as patch:
        patch.setattr(fused_row_blocks, "_REWRITES", fused_row_blocks._REWRITES[:1])
        wanted = run(group, values)
    for made, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(made, right)


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [((67, 93, 20, 9), "float32"), ((130, 128, 16, 32), "float32"), ((9, 300, 33, 8), "float64")],
)
def test_bits_are_those_of_a_sweep(
    sizes: tuple[int, int, int, int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = group_of(monkeypatch, attention, heads(*sizes, (9,), kind))
    assert products_with(group) == 1
    for special in (False, True):
        same_bits(group, operands(group, special), monkeypatch)


@pytest.mark.parametrize("function", [attention, with_gradients(attention)])
def test_loops_are_interpreted_with_their_row_kernels(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several blocks, whose last one is shorter; the maxima, scales and packs of gradients too."""
    given = heads(130, 93, 20, 9, (8,))
    given = given if function is attention else (normal(8, 130, 9, seed=7), *given)
    group = group_of(monkeypatch, function, given)
    values = operands(group, False)
    for made, right in zip(interpreted(group, values), run(group, values), strict=True):
        np.testing.assert_allclose(made, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("what", [1.0, np.nan, np.inf, -np.inf])
def test_results_made_of_the_largest(what: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of which all is negative, and one with something else in one place."""
    q, k = -abs(normal(9, 67, 20)), abs(normal(9, 20, 93))
    q[3, 5, 6] *= what
    k[4, 7, 40] *= what
    given = q, k, normal(9, 93, 8), (normal(9, 67, 93) > 0).astype("float32")
    group = group_of(monkeypatch, spread, given)
    assert products_with(group) == 1
    whole = pirkit.compile(trace(spread, given).program, fast_math=True)
    assert whole.native is not None
    with np.errstate(invalid="ignore"):
        largest = np.max((q @ k) * np.float32(0.25), -1, keepdims=True)
        wanted = np.where(given[3] > 0, largest, 0) @ given[2]
    np.testing.assert_allclose(whole.native(*given)[0], wanted, rtol=1e-4, atol=1e-4)


def test_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (normal(3, 3, 67, 9, seed=7), *heads(67, 93, 20, 9, (3, 3)))
    assert products_with(group_of(monkeypatch, with_gradients(attention), given)) == 1


def falling(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(ops.softmax(transposed(q, k) * -0.25, -1), v)


def added(q: Any, k: Any, v: Any) -> Any:
    return masked(q, k, v, 1.0)


@pytest.mark.parametrize(
    ("function", "depth"),
    [(falling, 20), (added, 20), (attention, 600)],
    ids=["a negative factor", "a sum", "deep"],
)
def test_sweeps_that_stay(function: Any, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest of something else than the product, or of sums made in pieces."""
    assert not products_with(group_of(monkeypatch, function, heads(67, 93, depth, 9, (9,))))
