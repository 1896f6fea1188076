"""numpy's functions of traced values at infinities, NaN, signed zeros and the ends of integers."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from tests import tolerance

HOSTILE: Final = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 3.0, 1e30, 1e-30]
ELEMENTS: Final = "cbrt signbit modf sign isfinite rint sqrt log1p trunc".split()
PAIRS: Final = """
    fmod heaviside hypot logaddexp logaddexp2 maximum fmin remainder copysign isclose arctan2
""".split()
REDUCTIONS: Final = """
    argmax argmin max nanmax nanmean nanvar nanstd nancumsum nancumprod median nanmedian sort
""".split()
ROWS: Final = np.array([[1.0, np.nan, 3.0, -np.inf], [np.inf, 2.0, -1.0, -0.0],
                        [5.0, 4.0, np.inf, -np.inf], [np.nan, 0.5, 0.25, 2.0]])  # fmt: skip


def _check(function: Any, *operands: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = function(*operands)
    found = pirkit.jit(function)(*operands)
    pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
    for want, got in pairs:
        want, got = np.asarray(want), np.asarray(got)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert not tolerance.difference(got, want)
        if want.dtype.kind == "f":
            zeros = want == 0
            assert np.array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name: str, dtype: Any) -> None:
    _check(getattr(np, name), np.array(HOSTILE, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, dtype: Any) -> None:
    x, y = np.meshgrid(np.array(HOSTILE, dtype), np.array(HOSTILE, dtype))
    _check(getattr(np, name), x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:invalid value", "ignore:Degrees of freedom")
def test_reductions(name: str, dtype: Any) -> None:
    for axis in (0, 1, None):
        _check(partial(getattr(np, name), axis=axis), ROWS.astype(dtype))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("name", ["hypot", "isclose", "logaddexp", "copysign"])
def test_ends_of_integers(name: str, dtype: Any) -> None:
    ends = np.iinfo(dtype)
    x, y = np.meshgrid(*[np.array([ends.min, ends.max, 0, 5], dtype)] * 2)
    _check(getattr(np, name), x, y)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_remainders_of_integers(dtype: Any) -> None:
    ends = np.iinfo(dtype)
    x, y = np.meshgrid(np.array([ends.min, ends.max, 0, 5], dtype), np.array([3, ends.max], dtype))
    for function in (np.fmod, np.remainder):
        _check(function, x, y)
        if ends.min:
            _check(function, x, -y)


def test_half_precision_is_computed_in_float32() -> None:
    x = np.array([6e-8, 1e-5, 300.0, 6e4, 0.0], np.float16)
    for function in (np.hypot, np.logaddexp):
        _check(function, x, x[::-1].copy())


def test_ldexp_by_large_exponents() -> None:
    x = np.array([0.0, 1.5, np.inf, 1e300, 5e-324, np.nan])
    for exponent in (0, 60, 1100, 2000, -1100, 2**31 - 1, -(2**31)):
        _check(np.ldexp, x, np.int32(exponent))
    _check(np.ldexp, np.array([1.0, 1e30, -0.0], np.float32), np.int32(50))


def test_types_of_small_integers() -> None:
    for name in ("cbrt", "hypot", "modf"):
        function = getattr(np, name)
        operands = [np.array([3, 4], np.int8)] * function.nin
        found = pirkit.jit(function)(*operands)
        wanted = function(*operands)
        pairs = zip(wanted, found, strict=True) if function.nout > 1 else [(wanted, found)]
        assert [np.asarray(g).dtype for _, g in pairs] == [w.dtype for w in np.atleast_2d(wanted)]


SMOOTH: Final[dict[str, tuple[Any, tuple[float, float], tuple[float, float, float]]]] = {
    # where `abs`, `maximum` or a cancelling quotient would give other derivatives: by the first
    # operand, twice by it, and by both
    "hypot": (np.hypot, (0.0, 2.0), (0.0, 0.5, 0.0)),
    "hypot of equals": (np.hypot, (3.0, 3.0), (0.5**0.5, 0.5**1.5 / 3, -(0.5**1.5) / 3)),
    "logaddexp": (np.logaddexp, (2.0, 2.0), (0.5, 0.25, -0.25)),
    "logaddexp2": (np.logaddexp2, (2.0, 2.0), (0.5, np.log(2) / 4, -np.log(2) / 4)),
    "fmod": (np.fmod, (0.0, 3.0), (1.0, 0.0, 0.0)),
    "sinc": (lambda x, y: np.sinc(x) * y, (1e-8, 1.0),
             (-(np.pi**2) / 3e8, -(np.pi**2) / 3, -(np.pi**2) / 3e8)),
    "norm": (lambda x, y: np.linalg.norm(np.stack([x, y])), (0.0, 2.0), (0.0, 0.5, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_where_pieces_meet(name: str) -> None:
    function, (x, y), (first, second, mixed) = SMOOTH[name]
    by_x = pirkit.grad(function)
    found = [pirkit.jit(f)(x, y) for f in (by_x, pirkit.grad(by_x), pirkit.grad(by_x, 1))]
    np.testing.assert_allclose(found, (first, second, mixed), rtol=1e-7, atol=1e-15)


HUGE: Final[dict[str, Any]] = {
    "subscript": lambda x: x[2**63],
    "axis": lambda x: np.cumsum(x, axis=2**33),
    "take": lambda x: np.take(x, 2**63),
    "update": lambda x: x.at[2**63].set(1.0),
    "vander": lambda x: np.vander(x, 2**33),
    "array_split": lambda x: np.array_split(x, 2**33),
    "keepdims": lambda x: x.sum(keepdims=7),
    "order": lambda x: np.diff(x, n=-1),
}


@pytest.mark.parametrize("name", HUGE)
def test_numbers_that_no_array_takes_are_refused(name: str) -> None:
    """With a code and at once, where numpy has errors of several kinds, or none."""
    with pytest.raises(pirkit.PirkitError):
        pirkit.jit(HUGE[name])(np.arange(4, dtype="float32"))


def test_differences_of_more_orders_than_elements_are_empty() -> None:
    assert pirkit.jit(lambda x: np.diff(x, n=2**33))(np.ones((2, 4))).shape == (2, 0)


@pytest.mark.parametrize("index", [2**63, 2**64, 4, (0, 0), "a", 1.5])
def test_subscripts_that_a_tensor_lacks(index: Any) -> None:
    """The error has a code, and is the IndexError that Python's protocols ask for."""
    tensor = pirkit.tensor([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(IndexError, match="PK0701"):
        tensor[index]
    with pytest.raises(IndexError, match="PK0701"):
        tensor[index] = 0.0
    with pytest.raises(IndexError, match="PK0701"):
        tensor.at[index].set(0.0)


@pytest.mark.parametrize("value", [np.ones(7), "x", [[1], [2, 3]]])
def test_values_that_do_not_fit_a_subscript(value: Any) -> None:
    tensor = pirkit.tensor([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(pirkit.PirkitError, match="PK0701"):
        tensor[:2] = value
    with pytest.raises(pirkit.PirkitError, match="PK0701"):
        tensor.at[:2].set(value)


@pytest.mark.parametrize("value", [2, -1, 0.5, "yes"])
def test_what_is_neither_true_nor_false(value: Any) -> None:
    with pytest.raises(pirkit.PirkitError, match="PK0701"):
        pirkit.ops.sum(pirkit.tensor([1.0]), keepdim=value)
