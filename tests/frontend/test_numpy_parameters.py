"""Parameters of numpy's functions that are seldom given, on traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import TraceError, UnsupportedError

X = np.arange(6.0).reshape(2, 3)
RANK_2 = np.diag([100.0, 1.0, 1e-3])
NAN = np.array([[1 + 2j, complex(np.nan, 1), 3], [complex(2, -np.inf), 0.5j, complex(0, np.nan)]])
LARGE = 2**60 + 1
"""An integer that no float64 has."""
SMALL = np.array([[1.0, 2], [1, 5]])
ONE: Any = np.int64(1)
SHIFTS = ((1, 2), None), ((1, 2), 0), ((1, -2), (1, 1)), (ONE, (0, 1)), (1, ONE)
UNSORTED = np.array([complex(x, y) for x in (1, np.nan, -2, np.inf) for y in (0, np.nan, -1)])[::-1]
UNSORTED = np.stack([UNSORTED, np.roll(UNSORTED, 1)])
PLACES = np.array([-5, -1, 0, 2, 3, 7])

CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda a: np.zeros_like(a, shape=(4,)), (X,)),
    (lambda a: np.full_like(a, 7, shape=5), (X,)),
    (lambda a: np.concatenate([a, a], dtype="f4"), (X,)),
    (lambda a: np.stack([a, a], dtype="f4"), (X,)),
    (lambda a: np.vstack([a, a], dtype="f4"), (X,)),
    (lambda a: np.array_equal(a, a, equal_nan=True), (np.array([1.0, np.nan]),)),
    (lambda a: np.array_equal(a, a), (np.array([1.0, np.nan]),)),
    (lambda a: np.linalg.matrix_rank(a, 0.1), (RANK_2,)),
    (lambda a: np.linalg.matrix_rank(a, rtol=0.1), (RANK_2,)),
    (lambda a: np.linalg.pinv(a, 0.1), (RANK_2,)),
    (lambda a: a.astype("f4"), (X,)),
    *[
        (lambda a, i, m=mode, n=axis: np.take(a, i, n, mode=m), (X, PLACES))  # pyright: ignore
        for mode in ("clip", "wrap")
        for axis in (None, 0, 1)
    ],
    *[
        (lambda a, v, m=mode: np.convolve(a, v, m), (np.arange(n) - 1.5, np.arange(m) + 0.5))  # pyright: ignore
        for mode in ("full", "same", "valid")
        for n, m in ((7, 3), (3, 7), (1, 1), (5, 5))
    ],
    *[
        (lambda a, v, r=right: np.digitize(a, v, r), (PLACES / 2, bins))  # pyright: ignore
        for right in (False, True)
        for bins in (np.array([3.0, 1.0, -0.5]), np.array([-0.5, 1.0, 3.0]))
    ],
    *[
        (lambda a, r=right: np.digitize(a, [3, 2, 1], r), (np.array([2, 0.5, 3]),))  # pyright: ignore
        for right in (False, True)
    ],
    *[
        (lambda y, v, n=axis: np.trapezoid(y, v, axis=n), (X * X, x))  # pyright: ignore
        for axis in (0, 1, -1)
        for x in (X + X * X, np.arange(2.0 + axis % 2) ** 3)
    ],
    (lambda a: np.nan_to_num(a, nan=7, posinf=8), (NAN,)),
    *[
        (lambda a, f=name, n=axis: getattr(np, f"nan{f}")(a, axis=n), (NAN[:, 1:].conj(),))  # pyright: ignore
        for name in ("sum", "prod", "cumsum", "cumprod", "mean", "var", "std")
        for axis in (None, 0, 1)
    ],
    *[
        (lambda a, f=name, n=ddof: getattr(np, f)(a, axis=0, ddof=n), (SMALL,))  # pyright: ignore
        for name in ("var", "std", "nanvar", "nanstd")
        for ddof in (1, 2, 3)
    ],
    *[(lambda a, n=ddof: np.cov(a, ddof=n), (X,)) for ddof in (2, 3, 4)],  # pyright: ignore
    (lambda a: np.linspace(a, 1.5, 7, dtype="i4"), (np.array([-2.5, 3.0]),)),
    (lambda a, v: np.insert(a, 1, v), (np.arange(3), np.array(2.7))),
    (lambda a: np.insert(a, [0, 2], [1.1, -2.2]), (np.arange(3, dtype="f4"),)),
    (lambda v: np.insert(np.arange(3, dtype="i4"), 1, v), (np.array(-1.7),)),
    (lambda a: np.interp(a, [2.0], [5.0], left=-1), (np.array([1, 2, 3, np.nan]),)),
    (lambda a, t, v: np.interp(a, t, v), (PLACES, np.array([2.0]), np.array([5.0]))),
    (lambda a: np.interp(a, [-1, 1, 3], [5j, 1 + 1j, 2]), (PLACES / 2,)),
    *[(lambda a, v=n: np.pad(a, 1, constant_values=v), (PLACES,)) for n in (LARGE, 2.7, -1)],  # pyright: ignore
    (lambda a: np.pad(a, 1, constant_values=np.int64(LARGE)) + 1, (PLACES[:, None] + PLACES,)),
    *[
        (lambda a, f=name, n=q: getattr(np, f)(a, n), (np.array([-np.inf, 0, 1, np.inf]),))  # pyright: ignore
        for name in ("quantile", "nanquantile")
        for q in (0.25, 0.5, 0.6)
    ],
    *[
        (lambda a, i=n: np.average(a, returned=True)[i], (a,))  # pyright: ignore
        for n in (0, 1)
        for a in (np.zeros(0), np.array([1, np.nan]))
    ],
    *[
        (lambda a, i=n: np.average(a, weights=[1, 2], returned=True)[i], (np.array([1, np.inf]),))  # pyright: ignore
        for n in (0, 1)
    ],
    *[
        (lambda a, o=o, n=axes: np.linalg.norm(a, o, n, True), (X[:, None] + X,))  # pyright: ignore
        for o in ("fro", 1, -2)
        for axes in ((0, 2), (-1, 0), (1, 2))
    ],
    (lambda a: np.linalg.norm(a, "nuc", None, True), (X,)),
    (lambda a: np.histogram(a, bins=np.int64(3))[0], (PLACES,)),
    *[(lambda a, s=s, n=n: np.roll(a, s, n), (X,)) for s, n in SHIFTS],  # pyright: ignore
    *[
        (lambda a, f=name: getattr(np, f)(a, ONE), (np.ones(1),))  # pyright: ignore
        for name in ("reshape", "broadcast_to", "tile", "repeat", "expand_dims")
    ],
    (lambda a: np.tensordot(a, a.T, ONE), (X,)),
    (lambda a: np.split(a, ONE + 1)[1], (X,)),
    (lambda a: np.average(a, ONE, weights=[1, 2, 3]), (X,)),
    *[
        (lambda a, n=n: np.round(a, n), (np.array([12345, 15, 25, -151, 49], d),))  # pyright: ignore
        for n in (-1, -2)
        for d in ("i4", "i8")
    ],
    *[
        (lambda a, n=n, f=name: getattr(np, f)(a, n), (np.array([-128, 127], d),))  # pyright: ignore
        for n in (2**70, -(2**70), 2**63, 300)
        for name in ("less", "greater_equal", "equal", "not_equal")
        for d in ("i1", "i8")
    ],
    *[
        (lambda a, f=name, n=axis: getattr(np, f)(a, n, "stable"), (UNSORTED,))  # pyright: ignore
        for name in ("sort", "argsort")
        for axis in (None, 0, 1)
    ],
    *[
        (lambda a, f=name: getattr(np, f)(a), (np.array([0.1 + 0.2j, 0, 2 - 1j]),))  # pyright: ignore
        for name in ("sinc", "gradient")
    ],
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy warns of some NaN
@pytest.mark.parametrize("number", range(len(CASES)))
def test_as_numpy(number: int) -> None:
    function, given = CASES[number]
    found, wanted = np.asarray(pirkit.jit(function)(*given)), np.asarray(function(*given))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert found.dtype.kind not in "iu" or np.array_equal(found, wanted)


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanpercentile"])
def test_quantiles_of_complex_numbers_are_refused(name: str) -> None:
    more = () if "median" in name else (0.3,)
    with pytest.raises(TraceError, match="quantiles of a tensor<2x3xc"):
        pirkit.jit(lambda a: getattr(np, name)(a, *more))(NAN)


def test_a_border_that_the_element_type_does_not_hold_is_refused() -> None:
    with pytest.raises(TraceError, match="300 is beyond int8"):
        pirkit.jit(lambda a: np.pad(a, 1, constant_values=300))(np.zeros(2, "i1"))


def test_i0_of_complex_numbers_is_refused() -> None:
    with pytest.raises(TraceError, match="`i0` of a tensor<2xc128>"):
        pirkit.jit(lambda a: np.i0(a))(np.ones(2, complex))


def test_a_sparse_grid() -> None:
    found = pirkit.jit(lambda a, b: np.meshgrid(a, b, sparse=True))(X[0], X[1])
    for one, other in zip(found, np.meshgrid(X[0], X[1], sparse=True), strict=True):
        assert one.shape == other.shape


@pytest.mark.parametrize("name", ["nope", ">f4", "U3", "O", "m8"])
def test_an_element_type_that_no_tensor_has(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        pirkit.tensor([1, 2], dtype=name)
