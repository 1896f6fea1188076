"""`split-complex`: programs of complex numbers compute the same by their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops

FUNCTIONS = (
    "exp expm1 log log1p sin cos tan sinh cosh tanh sigmoid sqrt abs conj sign angle real imag"
).split()

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "quotients": lambda a, b: (a / b + b / (a - 2j)) * (1 + 2j) / (3 + b),
    "by real and imaginary numbers": lambda a, b: (a / ops.real(b) + b / (1j * ops.imag(a))) * a,
    "matmuls": lambda a, b: (a @ b.T @ a).sum(axis=1) * (a[:, 0] * 1j + 1),
    "powers": lambda a, b: (a * b) ** 3 + (a + b) ** 2.5 + (a - b) ** -2 + a**b + (a * 0) ** 0.7,
    "broadcast parts": lambda a, b: ops.real(a)[:, :1] * 1j + ops.real(b)[:1] + a * b * a,
    "moves": lambda a, b: ops.concat([a * b, a + b, a - b], axis=0)[2:5].reshape(3, -1).T * 1j,
    "choices": lambda a, b: ops.where(ops.abs(a * b) > 1, a * b + b, b) * 2j - b,
    "comparisons": lambda a, b: ops.where(a * b == b * a, a + b, a - b) * ops.isnan(a * b + a),
    "means": lambda a, b: (a * a * 1j + b * b).mean(axis=0) * ops.cumsum(a * b - 1, axis=0),
    "casts": lambda a, b: ops.abs(a * b - a).astype(a.dtype) * (a + b) + ops.real(a * b),
    "pairs": lambda a, b: ops.as_complex(ops.as_real(a * b + a) * 2.0) * b - a,
    "a Fourier transform": lambda a, b: ops.real(
        pirkit.numpy.fft.fft((a * b * a + b - a) * b * b) * a * b
    ),
}  # fmt: skip


def numbers(dtype: str, seed: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    return (scale * found).astype(dtype)


def both(f: Callable[..., Any], *args: Any) -> tuple[Any, Any, int]:
    """Results of the kernels of complex numbers, and by parts; how many operations were split."""
    program = pirkit.run_passes(
        pirkit.trace(f, *args), "@simplify,functionalize,decompose,constant-fold,cse,dce"
    )
    split = pirkit.run_passes(program, "split-complex,cse,dce")
    given = dict(zip(("a", "b"), args, strict=True))
    plain, parted = (pirkit.compile(p, pipeline="")(**given)["y0"] for p in (program, split))
    gone = str(program).count("complex<") - str(split).count("complex<")
    return np.asarray(plain), np.asarray(parted), gone


def assert_near(found: Any, wanted: Any, dtype: str) -> None:
    """To the size of the numbers, not to that of each part."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    bound = {"complex64": 2e-5, "complex128": 1e-13}[dtype]
    assert (np.abs(found - wanted) <= bound * (np.abs(wanted) + 1e-30)).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_by_parts(name: str, dtype: str) -> None:
    function = getattr(ops, name)
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    plain, parted, gone = both(lambda a, b: function(a * b + a - b) * (a + 1) * (b + 2), a, b)
    assert gone > 0
    assert_near(parted, plain, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_parts(name: str, dtype: str) -> None:
    plain, parted, gone = both(PROGRAMS[name], numbers(dtype, 3), numbers(dtype, 4))
    assert gone > 0
    assert_near(parted, plain, dtype)


EDGES = {
    "exp": (-800 + 3j, 700 + 1j),
    "tanh": (400 + 1j, -400 + 2j, 0.5j * np.pi + 1e-9, 1e-12 + 1e-12j, 0j),
    "sigmoid": (800 + 1j, -800 + 1j, -30 + 2j),
    "sqrt": (0j, -4 + 0j, complex(-4, -0.0), 1e200 + 1e200j, 4 + 0j),
    "abs": (1e200 + 1e200j, 3e-200 + 4e-200j, 0j, complex(np.inf, 1)),
    "log": (1 + 1e-9j, 1e200 + 1e200j, -1 + 0j, 1e-12j),
    "log1p": (1e-12 + 1e-12j, 1e10 + 1j, -0.5 + 1j),
    "expm1": (1e-12 + 1e-12j, 5 + 1j),
    "sign": (0j, 3 + 4j),
}


@pytest.mark.parametrize("name", EDGES)
def test_large_small_and_special_numbers(name: str) -> None:
    """As numpy has them, where a formula by parts would overflow or cancel."""
    z = np.array(EDGES[name], complex)
    function = getattr(ops, name)
    program = pirkit.trace(lambda a: function(a.reshape(1, -1).T.T.reshape(-1)), z)
    split = pirkit.run_passes(program, "decompose,split-complex")
    assert str(split).count("complex<") < str(program).count("complex<")
    found = np.asarray(pirkit.compile(split, pipeline="")(a=z)["y0"])
    with np.errstate(all="ignore"):
        if name == "log1p":  # numpy's cancels near 0
            wanted = np.where(np.abs(z) < 1e-6, z - z * z / 2, np.log(1 + z))
        elif name == "sigmoid":
            right, left = 1 / (1 + np.exp(-z)), np.exp(z) / (1 + np.exp(z))
            wanted = np.where(np.real(z) > 0, right, left)
        else:
            wanted = getattr(np, name)(z)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=0, equal_nan=True)


def test_a_complex_network_is_one_native_call() -> None:
    """Loss and gradients of a complex network with derivatives, weights among the complex."""
    rng = np.random.default_rng(0)
    sizes = ((2, 6), (6, 6), (6, 1))
    params = [
        (0.3 * (rng.normal(size=s) + 1j * rng.normal(size=s)), np.zeros(s[1], complex))
        for s in sizes
    ]
    x = rng.normal(size=(12, 2))

    def field(params: Any, x: Any) -> Any:
        y = x.astype("complex128")
        for w, b in params[:-1]:
            y = ops.tanh(y @ w + b)
        return (y @ params[-1][0] + params[-1][1])[:, 0]

    def loss(params: Any, x: Any) -> Any:
        def along(k: int, f: Any) -> Any:
            way = np.zeros_like(x.numpy() if hasattr(x, "numpy") else x)
            way[:, k] = 1
            return lambda x: pirkit.jvp(f, (x,), (way,))[1]

        u = lambda x: field(params, x)  # noqa: E731
        found = 1j * along(1, u)(x) + 0.5 * along(0, along(0, u))(x) + ops.abs(u(x)) ** 2 * u(x)
        return (ops.abs(found) ** 2).mean()

    points = x
    step = pirkit.jit(pirkit.value_and_grad(lambda p: loss(p, points)))
    value, gradients = step(params)
    assert "kernel sequence" not in str(step.explain())
    assert "complex" not in str(step.explain())
    at, size = params[1][0], 1e-6
    for i, unit in ((0, 1), (3, 1j)):
        moved = at.copy()
        ends: list[float] = []
        for sign in (1, -1):
            moved.flat[i] = at.flat[i] + sign * size * unit
            ends.append(float(step([params[0], (moved, params[1][1]), params[2]])[0]))
        slope = (ends[0] - ends[1]) / (2 * size)
        gradient = np.asarray(gradients[1][0]).flat[i]
        np.testing.assert_allclose(gradient.real if unit == 1 else gradient.imag, slope, rtol=1e-5)
    assert np.isfinite(float(value))


def test_scalars_of_fused_kernels_are_left_alone() -> None:
    a = numbers("complex128", 5)
    program = pirkit.trace(lambda a: ops.abs(a * a + ops.exp(a)), a)
    split = pirkit.run_passes(program, "functionalize,decompose,fuse,split-complex")
    (found,) = pirkit.compile(split, pipeline="")(a=a).values()
    np.testing.assert_allclose(found, np.abs(a * a + np.exp(a)), rtol=1e-12)


@pytest.mark.parametrize("other", ["bool", "int64", "float32", "float64"])
def test_real_operands_of_other_types(other: str) -> None:
    a, x = numbers("complex64", 3), np.arange(1, 17).reshape(4, 4).astype(other)

    def f(a: Any, x: Any) -> Any:
        found = a / x + x * a - (a + x) * (x - a)
        return ops.where(ops.equal(found, x), a * 1j, found * a)

    program = pirkit.run_passes(pirkit.trace(f, a, x), "functionalize,decompose")
    split = pirkit.run_passes(program, "split-complex,cse,dce")
    assert str(split).count("complex<") < str(program).count("complex<")
    wanted, found = (pirkit.compile(p, pipeline="")(a=a, x=x)["y0"] for p in (program, split))
    assert_near(found, wanted, "complex64")


def test_places_of_complex_numbers_stay_complex() -> None:
    """What is not 0 is decided by both parts together."""
    a = numbers("complex128", 7)
    a[0, 1], a[2] = 0, 2j
    program = pirkit.trace(lambda a: ops.nonzero(a * 1j - 2 * a * (a == 0)), a)
    split = pirkit.run_passes(program, "functionalize,decompose,split-complex,cse,dce")
    (found,) = pirkit.compile(split, pipeline="")(a=a).values()
    np.testing.assert_array_equal(found, np.argwhere(a))


def test_parts_are_copies_of_what_is_written_in_place() -> None:
    """`complex(a, b)` holds numbers; its parts were `a` and `b`, which may change afterwards."""
    b = pirkit.ProgramBuilder()
    one, other = (b.input(name, (3, 4), "float64") for name in ("one", "other"))
    c = b.complex(one, other)
    real = b.real(c)
    b("pd_op.tanh_", real)
    late = b.complex(other, real)
    b("pd_op.exp_", real)
    b("pd_op.square_", other)
    b.output("product", b.abs(c * late * c))
    b.output("real", real)
    b.output("square", other)
    b.output("same", one)
    program = b.finish()
    x, y = np.random.default_rng(0).random((2, 3, 4))
    split = pirkit.run_passes(program, "split-complex")
    assert "complex<" not in str(split)
    found = pirkit.compile(split, pipeline="")(one=x, other=y.copy())
    z = x + 1j * y
    wanted = {"product": np.abs(z * (y + 1j * np.tanh(x)) * z), "real": np.exp(np.tanh(x))}
    for name, value in {**wanted, "square": y**2, "same": x}.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
