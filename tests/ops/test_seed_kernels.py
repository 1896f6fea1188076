"""The six kernels with which Paddle's tensor operation library began (PR 34425), and matmul.

Every line is a statement about what the op means: values, element types, shapes, corners, refusals.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.runtime import dtype as dt

Array = np.ndarray[Any, Any]
NAN = float("nan")
INF = float("inf")


def t(values: Any, dtype: Any = np.float32) -> Any:
    return pirkit.from_numpy(np.array(values, dtype))


def same(found: Any, values: Any, dtype: Any = np.float32) -> None:
    expected = np.array(values, dtype)
    assert found.array.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.array, expected)


def refused(constraint: str) -> Any:
    class Refused:
        def __enter__(self) -> None:
            self.told = pytest.raises(RuntimeFault)
            self.info = self.told.__enter__()

        def __exit__(self, *error: Any) -> bool:
            result = bool(self.told.__exit__(*error))
            assert f"constraint {constraint}" in str(self.info.value.notes)
            return result

    return Refused()


# --- sign ---


def test_sign() -> None:
    same(ops.sign(t([-2.0, 3.0, 0.0])), [-1.0, 1.0, 0.0])
    same(ops.sign(t([NAN])), [NAN])
    assert not np.signbit(ops.sign(t([-0.0])).array[0])
    same(ops.sign(t([3 + 4j, 0j], np.complex64)), [0.6 + 0.8j, 0j], np.complex64)
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        same(ops.sign(t([-5, 0, 7], dtype)), [-1, 0, 1], dtype)
    same(ops.sign(t([0, 9], np.uint8)), [0, 1], np.uint8)
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float64):
        same(ops.sign(t([-5, 0, 7], dtype)), [-1, 0, 1], dtype)
    assert ops.sign(t(2.0)).shape == ()
    assert ops.sign(t(np.empty((0, 3)))).shape == (0, 3)


# --- mean ---


def test_mean() -> None:
    x = t([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]])
    same(ops.mean(x), 3.5)
    same(ops.mean(x, axis=[]), 3.5)
    same(ops.mean(x, axis=[0]), [2.0, 3.5, 5.0])
    same(ops.mean(x, axis=[-1], keepdim=True), [[np.float32(7 / 3)], [np.float32(14 / 3)]])
    same(ops.mean(t([1, 2, 4], np.int32)), 2, np.int32)
    same(ops.mean(t([1, 2, 4], np.int64)), 2, np.int64)
    same(ops.mean(t([True, False], bool)), True, bool)
    same(ops.mean(t([1 + 1j, 3 - 1j], np.complex64)), 2 + 0j, np.complex64)
    same(ops.mean(t(3.0), axis=[0]), 3.0)
    same(ops.mean(t(3.0), axis=[-1]), 3.0)
    same(ops.mean(t(np.empty((2, 0))), axis=[1]), [NAN, NAN])
    half = ops.mean(t(np.full(4096, 3.0), np.float16))
    same(half, 3.0, np.float16)


def test_mean_refuses() -> None:
    with pytest.raises(RuntimeFault, match="axis"):
        ops.mean(t([1.0]), axis=[1])
    with pytest.raises(RuntimeFault, match="axis"):
        ops.mean(t([[1.0]]), axis=[0, 0])


# --- scale ---


def test_scale() -> None:
    same(ops.scale(t([1.0, 2.0]), scale=3.0, bias=1.0), [4.0, 7.0])
    same(ops.scale(t([1.0, 2.0]), scale=3.0, bias=1.0, bias_after_scale=False), [6.0, 9.0])
    same(ops.scale(t([2, 3], np.int32), scale=1.5, bias=0.9), [2, 3], np.int32)
    same(ops.scale(t([200], np.uint8), scale=2), [144], np.uint8)
    same(ops.scale(t([1, 2], np.float16), scale=2.0), [2, 4], np.float16)
    same(ops.scale(t([1, 2], ml_dtypes.bfloat16), scale=2.0), [2, 4], ml_dtypes.bfloat16)
    same(ops.scale(t([1j], np.complex64), scale=2.0), [2j], np.complex64)
    same(ops.scale(t([1.0]), scale=t([5.0])), [5.0])
    same(ops.scale(t([INF]), scale=0.0), [NAN])
    assert ops.scale(t(np.empty((0, 2))), scale=2.0).shape == (0, 2)
    x = t([1.0, 2.0])
    assert ops.scale_(x, scale=2.0) is x
    same(x, [2.0, 4.0])


# --- dot ---


def test_dot() -> None:
    same(ops.dot(t([1.0, 2.0]), t([3.0, 4.0])), 11.0)
    same(ops.dot(t([[1.0, 2.0], [0.0, 1.0]]), t([[3.0, 4.0], [5.0, 6.0]])), [11.0, 6.0])
    same(ops.dot(t([1j], np.complex64), t([1j], np.complex64)), -1 + 0j, np.complex64)
    for dtype in (np.float64, np.int32, np.int64):
        same(ops.dot(t([1, 2], dtype), t([3, 4], dtype)), 11, dtype)
    same(ops.dot(t(np.empty(0)), t(np.empty(0))), 0.0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (t([1.0]), t([1], np.int32)),
        (t([1.0]), t([1.0, 2.0])),
        (t(1.0), t(1.0)),
        (t(np.ones((1, 1, 1))), t(np.ones((1, 1, 1)))),
    ],
    ids=["mixed dtypes", "lengths", "rank 0", "rank 3"],
)
def test_dot_refuses_before_any_kernel_runs(x: Any, y: Any) -> None:
    with pytest.raises(RuntimeFault) as told:
        ops.dot(x, y)
    assert "constraint C" in str(told.value.notes)


# --- full_like ---


def test_full_like() -> None:
    x = t([[1.0, 2.0]])
    same(ops.full_like(x, 7), [[7.0, 7.0]])
    same(ops.full_like(x, 3.9, dtype="int32"), [[3, 3]], np.int32)
    same(ops.full_like(x, NAN), [[NAN, NAN]])
    same(ops.full_like(t([0], np.int64), 2**53 + 1), [2**53 + 1], np.int64)
    same(ops.full_like(t([0], np.float16), INF), [INF], np.float16)
    assert ops.full_like(t(np.empty((0, 2))), 1.0).shape == (0, 2)


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int8, 300), (np.float16, 1e6), (bool, 2), (np.uint8, -1)]
)
def test_full_like_refuses_what_the_type_cannot_hold(dtype: Any, value: float) -> None:
    with pytest.raises(RuntimeFault):
        ops.full_like(t([0], dtype), value)


# --- flatten ---


def test_flatten() -> None:
    x = t(np.arange(24.0).reshape(2, 3, 4))
    assert ops.flatten(x, 0, -1).shape == (24,)
    assert ops.flatten(x, 1, 2).shape == (2, 12)
    assert ops.flatten(x, -3, -2).shape == (6, 4)
    assert ops.flatten(t(5.0), 0, -1).shape == (1,)
    half = t(np.ones((2, 2)), np.float16)
    assert ops.flatten(half, 0, 1).dtype is dt.float16
    view = ops.flatten(x, 0, -1)
    assert view.address == x.address
    view[0] = 7.0
    assert x.array[0, 0, 0] == 7.0
    assert x.version == view.version == 1


@pytest.mark.parametrize(("start", "stop"), [(2, 1), (0, 3), (-4, 1)])
def test_flatten_refuses(start: int, stop: int) -> None:
    with pytest.raises(RuntimeFault):
        ops.flatten(t(np.ones((2, 3, 4))), start, stop)


# --- matmul ---


def test_matmul() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    same(ops.matmul(t(a), t(b)), a @ b)
    same(ops.matmul(t(a.T), t(b.T), transpose_x=True, transpose_y=True), a @ b)
    same(ops.matmul(t([1.0, 2.0, 3.0]), t(b)), np.array([1.0, 2.0, 3.0]) @ b)
    same(ops.matmul(t(a), t([1.0, 2.0, 3.0]), transpose_y=True), a @ [1.0, 2.0, 3.0])
    batch = np.arange(24.0).reshape(2, 1, 3, 4)
    other = np.arange(40.0).reshape(5, 4, 2)
    same(ops.matmul(t(batch), t(other)), batch @ other)
    for dtype in (np.float64, np.int32, np.int64, np.complex64):
        same(ops.matmul(t(a, dtype), t(b, dtype)), (a @ b), dtype)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        same(
            ops.matmul(t(np.ones((2, 300)), dtype), t(np.ones((300, 1)), dtype)),
            [[300], [300]],
            dtype,
        )
    same(ops.matmul(t(np.empty((2, 0))), t(np.empty((0, 2)))), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("x", "y", "constraint"),
    [
        (t(1.0), t([1.0]), "C1"),
        (t(np.ones((2, 3))), t(np.ones((2, 3))), "C2"),
        (t(np.ones((2, 1, 1))), t(np.ones((3, 1, 1))), "C3"),
        (t(np.ones((1, 1))), t(np.ones((1, 1)), np.float64), "C4"),
    ],
)
def test_matmul_refuses_before_any_kernel_runs(x: Any, y: Any, constraint: str) -> None:
    with refused(constraint):
        ops.matmul(x, y)
