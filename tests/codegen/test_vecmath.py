"""Errors of the vector math, in units in the last place, over a dense sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compile_kernel
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host
from tests.codegen.nests import poisoned, run

Array = np.ndarray[Any, Any]
STEP = 20011
"""Every how many-th float32 is tried here; tools/measure_vecmath.py tries all of them."""


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


ERF = np.vectorize(math.erf, otypes=[np.float64])
EXACT: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    # what it is, and bounds for float32 and float64
    "exp": (np.exp, 1.05, 1.05),
    "expm1": (np.expm1, 1.15, 1.15),
    "log": (np.log, 0.91, 0.91),
    "log1p": (np.log1p, 1.45, 1.45),
    "sin": (np.sin, 0.9, 0.9),
    "cos": (np.cos, 0.9, 0.9),
    "tanh": (np.tanh, 1.35, 1.35),
    "sigmoid": (sigmoid, 1.49, 1.5),
    "erf": (ERF, 1.06, 5.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    "sqrt": (np.sqrt, 0.5, 0.5),
    "tan": (np.tan, 1.3, 1.3),
    "asin": (np.arcsin, 1.3, 1.3),
    "acos": (np.arccos, 1.2, 1.2),
    "atan": (np.arctan, 1.3, 1.3),
    "sinh": (np.sinh, 0.9, 0.9),
    "cosh": (np.cosh, 0.9, 0.9),
    "asinh": (np.arcsinh, 0.501, 2.0),
    "acosh": (np.arccosh, 0.501, 2.2),
    "atanh": (np.arctanh, 0.501, 2.1),
    "log2": (np.log2, 1.0, 1.0),
    "log10": (np.log10, 0.9, 0.9),
}
FARTHEST = [
    *(1.4141511917114258, 1.8667428),  # in float32: log2, atan
    *map(float.fromhex, ["0x1.2ec1ebf524769p+1", "0x1.01e627df66eb2p+0", "0x1.7e1d7eb4e7d46p-3"]),
]
"""Where errors are largest that samples would pass by: tan, acosh and atanh last."""
EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-45, 1e-40]


def apply(
    primitive: str, dtype: DType, *arguments: Array, bits: int | None = None
) -> Array:  # fmt: skip
    count = len(arguments[0])
    one = Operand(dtype, (dtype.itemsize,), (), count * dtype.itemsize)
    loads = tuple(Load(f"x{k}", k) for k in range(len(arguments)))
    names = tuple(load.name for load in loads)
    body = (*loads, Compute("y", primitive, names, dtype), Store(len(arguments), "y"))
    kernel = Kernel((count,), (), (one,) * (len(arguments) + 1), (LoopPhase(body),))
    buffers = [*arguments, poisoned(one)]
    target = host() if bits is None else replace(host(), vector_bits=bits)
    run(kernel, buffers, NativeFunction(compile_kernel(kernel, target)))
    return buffers[-1]


def worst(got: Array, exact: Array, dtype: DType) -> float:
    """The largest error in ULP; special values must be equal."""
    want = exact.astype(dtype.np)
    finite = np.isfinite(want) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    zero = finite & (want == 0)
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()
    size = np.spacing(np.abs(want[finite])).astype(exact.dtype)
    error = np.abs(got[finite].astype(exact.dtype) - exact[finite]) / size
    return float(error.max())


def sample() -> Array:
    bits = np.arange(0, 2**32, STEP, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([bits.view(np.float32), np.array([*EDGES, *FARTHEST], np.float32)])


def error(primitive: str, x: Array, bits: int | None = None) -> float:
    if bits is not None and bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    with np.errstate(all="ignore"):
        want = EXACT[primitive][0](x.astype(np.float64))
        return worst(apply(primitive, dt.float32, x, bits=bits), want, dt.float32)


@pytest.mark.parametrize("primitive", EXACT)
def test_float32(primitive: str) -> None:
    assert error(primitive, sample()) <= EXACT[primitive][1]


@pytest.mark.parametrize(
    ("primitive", "bits", "bound"),
    [("tanh", 512, 1.02), ("tanh", 256, 1.35), ("erf", 512, 1.02), ("erf", 256, 1.06)],
)
def test_float32_by_width(primitive: str, bits: int, bound: float) -> None:
    """Where the curve bends, and where it ends at 1."""
    x = np.concatenate([np.linspace(-10, 10, 400_001), np.linspace(0, 1e-3, 1000)])
    assert error(primitive, x.astype(np.float32), bits=bits) <= bound


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("primitive", ["tan", "asin", "acos", "atan", "sinh", "cosh", "acosh"])
def test_inverse_and_hyperbolic_functions_by_width(primitive: str, bits: int) -> None:
    near, far = (np.linspace(-end, end, 20_001, dtype=np.float32) for end in (1.1, 100))
    x = np.concatenate([sample()[::8], near, far])
    assert error(primitive, x, bits=bits) <= EXACT[primitive][1]


@pytest.mark.parametrize(("dtype", "bound"), [(dt.float32, 1.45), (dt.float64, 1.55)])
def test_angles_of_points(dtype: DType, bound: float) -> None:
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in EDGES for b in EDGES])
    y, x = (
        np.concatenate([rng.standard_normal(60_000) * 10 ** rng.uniform(-3, 3, 60_000), column])
        .astype(dtype.np)
        for column in grid.T
    )  # fmt: skip
    wide = np.float64 if dtype is dt.float32 else np.longdouble
    want = np.arctan2(y.astype(wide), x.astype(wide))
    assert worst(apply("atan2", dtype, y, x), want, dtype) <= bound


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
@pytest.mark.parametrize("primitive", ["floor_divide", "remainder"])
def test_quotients_of_floats_are_those_of_numpy(primitive: str, dtype: DType, bits: int) -> None:
    """Quotients near integers, beyond the mantissa, and of what is no number."""
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    rng = np.random.default_rng(0)
    edges = [*EDGES, 7.5, -7.5, 1e30, -1e-30, 3.4e38]
    grid = np.array([(a, b) for a in edges for b in edges])
    y = rng.standard_normal(30_000) * 10 ** rng.uniform(-3, 3, 30_000)
    near = (rng.integers(-(10**6), 10**6, 10_000) * y[:10_000].astype(dtype.np)).astype(dtype.np)
    near = np.nextafter(near, rng.choice([-np.inf, np.inf], 10_000).astype(dtype.np))
    others = rng.standard_normal(20_000) * 10 ** rng.uniform(-3, 12, 20_000)
    x = np.concatenate([near, others, grid[:, 0]]).astype(dtype.np)
    y = np.concatenate([y, grid[:, 1]]).astype(dtype.np)
    with np.errstate(all="ignore"):
        want = getattr(np, primitive)(x, y)
    got = apply(primitive, dtype, x, y, bits=bits)
    np.testing.assert_array_equal(got, want)
    zero = want == 0
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(("primitive", "end"), [("tanh", 9.2), ("erf", 3.93)])
def test_curves_that_end_at_one(primitive: str, end: float, bits: int) -> None:
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    far = np.concatenate([np.geomspace(end, 1e38, 5000), [math.inf]]).astype(np.float32)
    assert (apply(primitive, dt.float32, far, bits=bits) == 1).all()
    near = np.linspace(0, 12, 300_007).astype(np.float32)
    y = apply(primitive, dt.float32, near, bits=bits)
    assert (y <= 1).all()
    assert (y >= 0).all()
    np.testing.assert_array_equal(apply(primitive, dt.float32, -near, bits=bits), -y)


@pytest.mark.parametrize("primitive", EXACT)
def test_float64(primitive: str) -> None:
    exact, _, bound = EXACT[primitive]
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.uniform(-30, 30, 40000), rng.standard_normal(40000), rng.uniform(-800, 800, 8000),
        10 ** rng.uniform(-300, 300, 8000) * rng.choice([-1, 1], 8000), EDGES, FARTHEST,
        rng.uniform(-1, 1, 40000),
    ])  # fmt: skip
    wide = np.longdouble if primitive != "erf" else np.float64
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("no wider floats here to compare with")
    with np.errstate(all="ignore"):
        want = exact(x.astype(wide)).astype(np.longdouble)
        assert worst(apply(primitive, dt.float64, x), want, dt.float64) <= bound


@pytest.mark.parametrize("primitive", ["sin", "cos", "tan"])
@pytest.mark.parametrize(("dtype", "end"), [(dt.float32, 2**18), (dt.float64, 2**20)])
def test_angles_near_quarter_turns(primitive: str, dtype: DType, end: int) -> None:
    """Where nearly all of the angle is taken away, and what is left is all of the result."""
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("no wider floats here to compare with")
    quarter = np.longdouble("1.57079632679489661923132169163975144")
    turns = np.concatenate([np.arange(1, 50_000), np.arange(50_000, 2 * end // 3, 7)])
    x = (turns * quarter).astype(dtype.np)
    x = np.concatenate([x, np.nextafter(x, dtype.np.type(0))])
    x = x[x < end]
    want = EXACT[primitive][0](x.astype(np.longdouble))
    assert worst(apply(primitive, dtype, x), want, dtype) <= (1.1 if primitive == "tan" else 0.55)


def test_powers() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-20, 20, 30000), rng.uniform(0, 2, 30000)])
    y = np.concatenate([rng.integers(-9, 9, 30000), rng.uniform(-90, 90, 30000)])
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, -2.5, math.inf, -math.inf, math.nan]
    grid = np.array([(a, b) for a in edges for b in edges])
    x = np.concatenate([x, grid[:, 0]]).astype(np.float32)
    y = np.concatenate([y, grid[:, 1]]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
        assert worst(apply("elementwise_pow", dt.float32, x, y), want, dt.float32) <= 0.6


def test_powers_of_float64() -> None:
    """The vectors of AVX-512 have a formula of their own; near 1, near the ends of the range, and
    where lanes are left to the C library.
    """
    rng = np.random.default_rng(0)
    draw = rng.uniform
    near = 1 + draw(-1, 1, 60000) * 2.0 ** -rng.integers(1, 45, 60000)
    wide = 2.0 ** draw(-1000, 1000, 60000)
    x = np.concatenate([near, wide, draw(0, 20, 60000), draw(-5, 5, 3000), [0.0] * 8, wide[:800]])
    most = np.maximum(np.abs(np.log(near)), 1e-16)
    y = np.concatenate([draw(-700, 700, 60000) / most, draw(-0.7, 0.7, 60000),
                        draw(-9, 9, 60000), rng.integers(-9, 9, 3000), [0.0] * 8,
                        draw(-3, 3, 800)])  # fmt: skip
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, math.inf, -math.inf, math.nan, 5e-324, 1e308, 1e-308]
    grid = np.array([(a, b) for a in edges for b in edges])
    x, y = np.concatenate([x, grid[:, 0]]), np.concatenate([y, grid[:, 1]])
    found = apply("elementwise_pow", dt.float64, x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(np.power(x, y)))
        if np.finfo(np.longdouble).nmant <= 52:
            np.testing.assert_allclose(found, np.power(x, y), rtol=3e-16)
            return
        want = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        assert worst(found, want, dt.float64) <= 0.75


@pytest.mark.parametrize("exponent", [k / 2 for k in range(-9, 10)])
def test_powers_with_half_exponents_are_products_and_roots(exponent: float) -> None:
    x = sample()
    one = Operand(dt.float32, (4,), (), x.nbytes)
    power = Compute("y", "elementwise_pow", ("x", "p"), dt.float32)
    body = (Load("x", 0), Constant("p", dt.float32, exponent), power, Store(1, "y"))
    buffers = [x, poisoned(one)]
    run(Kernel((len(x),), (), (one, one), (LoopPhase(body),)), buffers)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        want = np.power(wide, np.full_like(wide, exponent))
        assert worst(buffers[1], want, dt.float32) <= (0.5 if abs(exponent) <= 4 else 0.6)


@pytest.mark.parametrize("primitive", ["maximum", "minimum", "fmax", "fmin"])
def test_extrema_of_nan(primitive: str) -> None:
    x = np.array([math.nan, 1, math.nan, 2, -math.inf, 3], np.float32)
    y = np.array([1, math.nan, math.nan, 1, 0, math.inf], np.float32)
    want = getattr(np, primitive)(x, y)
    np.testing.assert_array_equal(apply(primitive, dt.float32, x, y), want)


@pytest.mark.parametrize("dtype", [dt.int8, dt.int32, dt.int64, dt.uint8], ids=repr)
@pytest.mark.parametrize("primitive", ["floor_divide", "remainder"])
def test_division_of_integers_never_traps(primitive: str, dtype: DType) -> None:
    limits = np.iinfo(dtype.np)
    values = [limits.min, limits.max, 0, 1, 7, 100] + ([-1, -7] if limits.min else [])
    grid = np.array([(a, b) for a in values for b in values], dtype.np)
    x, y = np.ascontiguousarray(grid[:, 0]), np.ascontiguousarray(grid[:, 1])
    with np.errstate(all="ignore"):
        want = getattr(np, primitive)(x, y)
    np.testing.assert_array_equal(apply(primitive, dtype, x, y), want)
