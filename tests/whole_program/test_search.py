"""`searchsorted` in native programs: the places of numpy's, for every length and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_as_numpy(dtype: str, side: Any) -> None:
    random = np.random.default_rng(0)
    for length in (1, 2, 7, 8, 9, 300):
        table = np.sort((random.normal(size=length) * 5).astype(dtype))
        queries = (random.normal(size=(3, 33)) * 6).astype(dtype)
        queries[0, : min(length, 33)] = table[:33]
        if dtype.startswith("float"):
            queries[1, :3] = np.nan, np.inf, -np.inf
            table[-1] = np.nan if length > 2 else table[-1]
        search = pirkit.jit(lambda t, q: np.searchsorted(t, q, side=side))
        np.testing.assert_array_equal(
            search(table, queries), np.searchsorted(table, queries, side=side)
        )


def test_a_table_for_each_row_and_one_native_call() -> None:
    random = np.random.default_rng(1)
    table, queries = np.sort(random.normal(size=(2, 3, 20)), -1), random.normal(size=(2, 3, 7))
    function = pirkit.jit(lambda t, q: ops.searchsorted(t, q * 1.5, out_int32=True) + 1)
    assert pirkit.compile(function.lower(table, queries), require_native=True).reasons == ()
    found = np.asarray(function(table, queries))
    for row in np.ndindex(2, 3):
        np.testing.assert_array_equal(
            found[row], np.searchsorted(table[row], queries[row] * 1.5) + 1
        )


def test_operands_that_are_views() -> None:
    """A reshaped operand is read where its source lies."""
    table, query = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(3.5, np.float32)
    search = pirkit.jit(lambda t, q: np.searchsorted(t.reshape(6), q.reshape(1)))
    np.testing.assert_array_equal(search(table, query), [4])
