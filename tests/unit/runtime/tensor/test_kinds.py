"""Tensors that are not dense: storage, conversion, and the ops that take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, UnsupportedError, UsageError
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.selected_rows import SelectedRows
from pirkit.runtime.tensor.sparse import SparseCooTensor, SparseCsrTensor
from pirkit.runtime.tensor.string import StringTensor


def t(values: Any, dtype: Any = np.float32) -> Any:
    return pirkit.from_numpy(np.array(values, dtype))


def rows() -> SelectedRows:
    return SelectedRows([3, 1, 3], t([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 5)


def test_rows_that_occur_twice_count_together() -> None:
    dense = np.zeros((5, 2), np.float32)
    dense[3], dense[1] = [6.0, 8.0], [3.0, 4.0]
    np.testing.assert_array_equal(rows().to_dense(), dense)
    merged = rows().merged()
    assert merged.rows.tolist() == [1, 3]
    np.testing.assert_array_equal(merged.value, [[3.0, 4.0], [6.0, 8.0]])
    assert rows().shape == (5, 2)


def test_scale_of_selected_rows_keeps_rows_and_height() -> None:
    found = ops.scale(rows(), scale=2.0, bias=1.0)
    assert isinstance(found, SelectedRows)
    assert (found.rows.tolist(), found.height) == ([3, 1, 3], 5)
    np.testing.assert_array_equal(found.value, [[3.0, 5.0], [7.0, 9.0], [11.0, 13.0]])


def test_sums_of_rows() -> None:
    both = ops.add(rows(), rows())
    assert both.rows.tolist() == [3, 1, 3, 3, 1, 3]
    np.testing.assert_array_equal(both.to_dense(), 2 * rows().to_dense().array)
    dense = ops.add(rows(), t(np.ones((5, 2))))
    np.testing.assert_array_equal(dense, rows().to_dense().array + 1)
    assert ops.merge_selected_rows(rows()).rows.tolist() == [1, 3]
    np.testing.assert_array_equal(ops.to_dense(rows()), rows().to_dense())


@pytest.mark.parametrize(
    ("numbers", "height"), [([0, 1], 5), ([5, 0, 1], 5), ([-1, 0, 1], 5)], ids=str
)
def test_rows_that_do_not_fit(numbers: list[int], height: int) -> None:
    with pytest.raises(UsageError, match="row numbers"):
        SelectedRows(numbers, t(np.ones((3, 2))), height)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(3, 4), (2, 3, 4), (0, 3), (1, 1)]))
def test_sparse_round_trips(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-2, 3, shape).astype(np.float64) * rng.integers(0, 2, shape)
    coo = SparseCooTensor.from_dense(t(dense, np.float64))
    np.testing.assert_array_equal(coo.to_dense(), dense)
    csr = coo.to_csr()
    np.testing.assert_array_equal(csr.to_dense(), dense)
    np.testing.assert_array_equal(csr.to_coo().to_dense(), dense)


def test_coordinates_that_occur_twice_count_together() -> None:
    coo = SparseCooTensor([[0, 0, 1], [1, 1, 0]], t([1.0, 2.0, 5.0]), (2, 2))
    np.testing.assert_array_equal(coo.to_dense(), [[0.0, 3.0], [5.0, 0.0]])
    assert coo.coalesce().values.shape == (2,)
    doubled = ops.add(coo, coo)
    np.testing.assert_array_equal(doubled.to_dense(), [[0.0, 6.0], [10.0, 0.0]])
    np.testing.assert_array_equal(ops.scale(coo, scale=2.0).to_dense(), [[0.0, 6.0], [10.0, 0.0]])


@pytest.mark.parametrize("size", [2, 2**40])
def test_coordinates_whose_flat_positions_exceed_64_bits(size: int) -> None:
    last = size - 1
    coo = SparseCooTensor([[last, 0, last], [1, last, 1]], t([1.0, 2.0, 5.0]), (size, size))
    merged = coo.coalesce()
    np.testing.assert_array_equal(merged.indices, [[0, last], [last, 1]])
    np.testing.assert_array_equal(merged.values, [2.0, 6.0])


def test_sparse_tensors_with_dense_dimensions() -> None:
    dense = np.zeros((3, 2), np.float32)
    dense[1] = [1.0, 0.0]
    coo = SparseCooTensor.from_dense(t(dense), 1)
    assert (coo.indices.shape, coo.values.shape) == ((1, 1), (1, 2))
    np.testing.assert_array_equal(coo.to_dense(), dense)


def test_sparse_parts_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="outside"):
        SparseCooTensor([[2], [0]], t([1.0]), (2, 2))
    with pytest.raises(UsageError, match="row starts"):
        SparseCsrTensor([0, 1], [0], t([1.0]), (2, 2))
    with pytest.raises(UsageError, match="never fall"):
        SparseCsrTensor([0, 2, 1], [0], t([1.0]), (2, 2))
    with pytest.raises(UsageError, match="cannot be sparse"):
        SparseCooTensor.from_dense(t([1.0]), 0)
    with pytest.raises(UsageError, match="do not fit"):
        SparseCooTensor([[0]], t(1.0), (2,))
    with pytest.raises(UsageError, match="2 counted"):
        SparseCsrTensor([0, 1, 2], [[0], [1]], t([[1.0], [2.0]]), (2, 2))


@pytest.mark.parametrize("make", [
    lambda: SparseCooTensor([[0.7]], t([1.0]), (2,)), lambda: SelectedRows([0.7], t([[1.0]]), 2),
    lambda: SparseCsrTensor([0, 1], [0.7], t([1.0]), (1, 2)),
])  # fmt: skip
def test_indices_are_whole_numbers(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="indices of type float64"):
        make()


def test_sums_of_two_kinds() -> None:
    with pytest.raises(UsageError, match="another kind"):
        pirkit.ops.add(SparseCooTensor([[0]], t([1.0]), (2,)), t([1.0, 2.0]))


def test_half_precision_is_added_up_in_float32() -> None:
    ones = DenseTensor(np.ones((600, 1), ml_dtypes.bfloat16))
    rows = SelectedRows(np.zeros(600, np.int64), ones, 2)
    assert rows.to_dense().tolist() == [[600.0], [0.0]]  # one by one, it would stop at 256
    coo = SparseCooTensor(np.zeros((1, 600), np.int64), ones, (2, 1))
    assert coo.to_dense().tolist() == [[600.0], [0.0]]


def test_sums_of_other_shapes_are_refused() -> None:
    short, long = (SelectedRows([0], t([[1.0]]), height) for height in (2, 3))
    with pytest.raises(PirkitError):
        ops.add(short, long)
    with pytest.raises(PirkitError):
        ops.add(SparseCooTensor([[0]], t([1.0]), (2,)), SparseCooTensor([[0]], t([1.0]), (1,)))


def test_strings() -> None:
    words = StringTensor([["Abc", "ÄÖ"], ["", "x" * 100]])
    assert ops.lower(words).tolist() == [["abc", "ÄÖ"], ["", "x" * 100]]
    assert ops.lower(words, use_utf8_encoding=True).tolist()[0] == ["abc", "äö"]
    assert ops.upper(words).tolist()[0] == ["ABC", "ÄÖ"]
    odd = StringTensor(["ßŉᾳ İΣ"])  # each character becomes one, as in Paddle
    assert ops.upper(odd, use_utf8_encoding=True).tolist() == ["ẞŉᾼ İΣ"]
    assert ops.lower(odd, use_utf8_encoding=True).tolist() == ["ßŉᾳ i\u03c3"]
    assert ops.lower(StringTensor(np.zeros((0, 2), "U1"))).shape == (0, 2)
    with pytest.raises(UsageError, match="strings"):
        StringTensor([1])


def test_an_op_that_does_not_take_the_kind_names_those_it_takes() -> None:
    with pytest.raises(UnsupportedError, match="takes no selected_rows"):
        ops.tanh(rows())
