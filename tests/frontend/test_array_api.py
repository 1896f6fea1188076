"""`pirkit.numpy` against numpy 2, which conforms to the array API: computed, and recorded.

The official suite (`tools/array_api.py`, `docs/array-api.md`) checks more; it is not on the
package index, so these tests stand for it in CI.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pirkit
import pirkit.numpy as pnp
from pirkit.diag.errors import UsageError
from pirkit.frontend.array_namespace import DATA_DEPENDENT, EXTENSIONS, NAMES
from pirkit.frontend.array_signatures import ROWS
from tests.frontend import traced_namespace

BOOL, INTS, FLOATS, COMPLEX = (
    ["bool"],
    ["int8", "uint8", "int16", "int32", "int64"],
    ["float32", "float64"],
    ["complex64", "complex128"],
)
REAL = INTS + FLOATS
POOLS = {
    "b": [False, True],
    "i": [-7, -2, -1, 0, 1, 2, 3, 11],
    "u": [0, 1, 2, 3, 7, 200],
    "f": [-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0],
    "c": [-1.5 - 1j, 0.5j, 0.0, 1.0, 0.25 + 2j, -2.0],
}
SPECIAL = {**POOLS, "f": [*POOLS["f"], np.inf, -np.inf, np.nan]}

Draw = Callable[[Any], Any]
Case = tuple[tuple[Any, ...], dict[str, Any]]


def array(draw: Draw, dtypes: list[str], shape: tuple[int, ...] | None = None, pools: Any = POOLS,
          least: int = 0) -> Any:  # fmt: skip
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if shape is None:
        shape = draw(st.lists(st.integers(least, 3), max_size=3).map(tuple))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    return rng.choice(pools[dtype.kind], shape).astype(dtype)


def axis_of(draw: Draw, x: Any) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def axes_of(draw: Draw, x: Any) -> dict[str, Any]:
    every = list(range(-x.ndim, x.ndim))
    one = st.sampled_from(every) if every else st.none()
    several = st.permutations(range(x.ndim)).map(tuple)
    return {"axis": draw(st.none() | one | several), "keepdims": draw(st.booleans())}


# --- how the arguments of a function are drawn ---


def unary(dtypes: list[str], pools: Any = SPECIAL) -> Callable[[Draw], Case]:
    return lambda draw: ((array(draw, dtypes, pools=pools),), {})


def binary(dtypes: list[str], pools: Any = SPECIAL) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = array(draw, dtypes, pools=pools)
        kinds = [d for d in dtypes if np.dtype(d).kind == x.dtype.kind]
        lead = draw(st.integers(0, x.ndim))
        y = array(draw, kinds, x.shape[lead:], pools)
        return ((x, y) if draw(st.booleans()) else (y, x)), {}

    return case


def reduction(dtypes: list[str], least: int = 0, **more: Any) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = array(draw, dtypes, least=least)
        return (x,), axes_of(draw, x) | {k: draw(v) for k, v in more.items()}

    return case


def along(
    dtypes: list[str], least: int = 0, pools: Any = POOLS, **more: Any
) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = array(
            draw,
            dtypes,
            draw(st.lists(st.integers(least, 3), min_size=1, max_size=3).map(tuple)),
            pools,
        )
        return (x,), {"axis": axis_of(draw, x)} | {k: draw(v) for k, v in more.items()}

    return case


def matrices(
    dtypes: list[str], *, square: bool = False, positive: bool = False, **more: Any
) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        dtype = draw(st.sampled_from(dtypes))
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        stack = draw(st.sampled_from([(), (2,)]))
        x = rng.standard_normal((*stack, n, n if square else m))
        if square:
            x = x @ np.swapaxes(x, -1, -2) + np.eye(n) if positive else x + 3 * np.eye(n)
        return (x.astype(dtype),), {k: draw(v) for k, v in more.items()}

    return case


def fixed(*cases: Any, **options: Any) -> Callable[[Draw], Case]:
    return lambda draw: draw(
        st.sampled_from([(c if isinstance(c, tuple) else (c,), options) for c in cases])
    )


def keyed(args: tuple[Any, ...], **options: Any) -> Callable[[Draw], Case]:
    return lambda draw: (args, {k: draw(v) for k, v in options.items()})


A, V = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.array([3, 1, 2])
ANY, NUMBERS = BOOL + REAL + COMPLEX, REAL + COMPLEX
INEXACT = FLOATS + COMPLEX
flag = st.booleans()

CASES: dict[str, Callable[[Draw], Case]] = {
    **dict.fromkeys("acos acosh asin asinh atan atanh cos cosh exp log log10 log2 sin sinh sqrt tan tanh log1p".split(), unary(FLOATS)),
    **dict.fromkeys("expm1 reciprocal".split(), unary(FLOATS)),
    **dict.fromkeys("abs negative square positive sign".split(), unary(REAL)),
    **dict.fromkeys("isfinite isinf isnan".split(), unary(ANY)),
    **dict.fromkeys("ceil floor trunc round".split(), unary(REAL)),
    "signbit": unary(FLOATS), "conj": unary(NUMBERS), "real": unary(NUMBERS), "imag": unary(NUMBERS),
    "logical_not": unary(BOOL), "bitwise_invert": unary(BOOL + INTS),
    **dict.fromkeys("add subtract multiply".split(), binary(NUMBERS, POOLS)),
    **dict.fromkeys("maximum minimum".split(), binary(REAL)),
    **dict.fromkeys("equal not_equal".split(), binary(ANY)),
    **dict.fromkeys("less less_equal greater greater_equal".split(), binary(REAL)),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), binary(BOOL)),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), binary(BOOL + INTS)),
    **dict.fromkeys("atan2 copysign divide hypot logaddexp nextafter".split(), binary(FLOATS)),
    **dict.fromkeys("bitwise_left_shift bitwise_right_shift".split(), fixed((V, np.array([1, 0, 2])), (V, np.array(1)))),
    **dict.fromkeys("floor_divide remainder".split(), fixed(
        (np.array([-7, 7, -8, 0]), np.array([2, -2, 3, 5])), (np.array([-7.5, 7.5, 0.0]), np.array(-2.0)), (V.astype("int8"), np.array(2, "int8")))),
    "pow": fixed((np.array([2.0, 0.5, 9.0]), np.array([3.0, 2.0, 0.5])), (V, np.array([2, 0, 3]))),
    **dict.fromkeys("all any".split(), reduction(ANY)),
    "count_nonzero": reduction(ANY),
    **dict.fromkeys("sum prod".split(), reduction(BOOL + NUMBERS)),
    **dict.fromkeys("max min".split(), reduction(REAL, 1)),
    "mean": reduction(FLOATS, 1), "var": reduction(FLOATS, 1, correction=st.just(0.0)), "std": reduction(FLOATS, 1),
    **dict.fromkeys("argmax argmin".split(), along(REAL, 1, keepdims=flag)),
    **dict.fromkeys("cumulative_sum cumulative_prod".split(), along(NUMBERS, include_initial=flag)),
    **dict.fromkeys("sort argsort".split(), along(REAL, 0, descending=flag)),
    "diff": along(BOOL + NUMBERS, 1, n=st.integers(0, 2)),
    "unstack": along(ANY), "flip": along(ANY),
    "arange": fixed((5,), (1, 7, 2), (0.5, 2.0, 0.5)), "linspace": fixed((0.0, 1.0, 5), (3, -1, 4)),
    "eye": fixed((3,), (2, 3)), "zeros": fixed((3,), ((2, 3),)), "ones": fixed(((2, 0),)),
    "full": fixed(((2,), 3), ((2,), 1.5), ((), True)), "asarray": fixed(([1, 2],), (A,), (2.5,), (True,)),
    "full_like": fixed((A, 2), (V, 7)), "zeros_like": unary(ANY), "ones_like": unary(ANY),
    "tril": keyed((A,), k=st.integers(-2, 2)), "triu": keyed((A,), k=st.integers(-2, 2)),
    "meshgrid": lambda draw: ((V, A[0], np.arange(2)), {"indexing": draw(st.sampled_from(["xy", "ij"]))}),
    "astype": fixed((A, np.int32), (V, np.complex64), (V, np.bool_)), "broadcast_arrays": fixed((A, V), (A[0], np.float64(2) + A[:, :1])),
    "broadcast_to": fixed((V, (2, 3)), (A, (4, 2, 3))), "concat": lambda draw: (([A, A + 1],), {"axis": draw(st.sampled_from([0, 1, -1, None]))}),
    "stack": lambda draw: (([A, A + 1],), {"axis": draw(st.integers(-3, 2))}),
    "expand_dims": fixed((A, 0), (A, -1), (A, 1)), "squeeze": fixed((A[None], 0), (A[:, None], 1), (A[None, :, None], (0, 2))),
    "moveaxis": fixed((A[None], 0, -1), (A[None], (0, 1), (2, 0))), "permute_dims": fixed((A, (1, 0)), (A[None], (2, 0, 1))),
    "repeat": fixed((V, 2), (V, 0)), "reshape": fixed((A, (3, 2)), (A, (-1,)), (np.zeros((0, 2)), (2, 0))),
    "roll": lambda draw: ((A, draw(st.integers(-4, 4))), {"axis": draw(st.sampled_from([None, 0, -1]))}),
    "tile": fixed((A, (2,)), (A, (2, 1, 2)), (V, (0,))), "matrix_transpose": fixed(A, A[None]),
    "take": keyed((A, np.array([2, 0])), axis=st.just(1)), "take_along_axis": keyed((A, np.array([[2], [0]])), axis=st.just(-1)),
    "searchsorted": lambda draw: ((np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 2.0], [3.0, 9.0]])), {"side": draw(st.sampled_from(["left", "right"]))}),
    "where": fixed((A > 2, A, -A), (V > 1, V, np.array(0.5))), "clip": fixed((A, 1, 3), (V, None, 2), (A, np.float32(2), None)),
    "matmul": fixed((A, A.T), (V, V), (A, V), (np.ones((2, 1, 2, 3)), np.ones((4, 3, 2))), (np.zeros((0, 3)), np.zeros((3, 2)))),
    "tensordot": fixed((A, A.T), (A[None], A.T), axes=1), "vecdot": fixed((A, A), (A, V.astype("float32")), (A + 1j, A * 2j)),
    "linalg.matmul": fixed((A, A.T)), "linalg.matrix_transpose": fixed(A), "linalg.outer": fixed((V, V)), "linalg.vecdot": fixed((A, A)),
    "linalg.tensordot": fixed((A, A.T), axes=1), "linalg.cross": fixed((A, A[::-1].copy()), (V, A)),
    "linalg.cholesky": matrices(FLOATS, square=True, positive=True, upper=flag),
    **dict.fromkeys(["linalg.det", "linalg.inv", "linalg.slogdet"], matrices(FLOATS, square=True)),
    "linalg.eigvalsh": matrices(FLOATS, square=True, positive=True), "linalg.svdvals": matrices(FLOATS),
    "linalg.pinv": matrices(FLOATS), "linalg.matrix_rank": matrices(FLOATS),
    "linalg.matrix_norm": matrices(FLOATS, ord=st.sampled_from(["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]), keepdims=flag),
    "linalg.vector_norm": reduction(FLOATS, 1, ord=st.sampled_from([1, 2, 3, 0, np.inf, -np.inf])),
    "linalg.diagonal": keyed((A,), offset=st.integers(-1, 2)), "linalg.trace": keyed((A,), offset=st.integers(-1, 2)),
    "linalg.matrix_power": lambda draw: ((A[:, :2] + 3 * np.eye(2, dtype="float32"), draw(st.integers(-3, 4))), {}),
    "linalg.solve": fixed((A[:, :2] + np.eye(2), A.astype("float64")), (A[:, :2] + np.eye(2), np.array([1.0, 2.0]))),
    **dict.fromkeys(["fft.fft", "fft.ifft", "fft.hfft", "fft.irfft"], along(INEXACT, 2, n=st.sampled_from([None, 2, 5]), norm=st.sampled_from(["backward", "ortho", "forward"]))),
    **dict.fromkeys(["fft.rfft", "fft.ihfft"], along(FLOATS, 2, n=st.sampled_from([None, 2, 5]), norm=st.sampled_from(["backward", "ortho", "forward"]))),
    **dict.fromkeys(["fft.fftn", "fft.ifftn", "fft.irfftn", "fft.rfftn"], keyed((A,), s=st.sampled_from([None, (2, 4), (3, 2)]), axes=st.sampled_from([(0, 1), (-1, 0)]))),
    **dict.fromkeys(["fft.fftshift", "fft.ifftshift"], keyed((A,), axes=st.sampled_from([None, 0, (1,)]))),
    **dict.fromkeys(["fft.fftfreq", "fft.rfftfreq"], fixed((5,), (4,), d=0.5)),
    "nonzero": fixed(A, V > 1, V * 1j), **dict.fromkeys([n for n in DATA_DEPENDENT if n != "nonzero"], fixed(V, A, np.array([1, 1, 0]))),
    "can_cast": fixed((np.int32, np.int64), (np.float64, np.float32)), "result_type": fixed((V, A), (A, 1.0), (np.int8, np.uint8)),
}  # fmt: skip
"""How the arguments of each function are drawn."""

BY_PROPERTY = {"linalg.qr", "linalg.svd", "linalg.eigh", "empty", "empty_like", "finfo", "iinfo",
               "isdtype", "from_dlpack"}  # fmt: skip
"""Functions whose result is not unique, or not an array: they have tests of their own."""


def found_of(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def theirs(name: str, args: Any, options: Any) -> Any:
    """numpy's result; numpy does not sort in descending order."""
    if not options.get("descending", True) or name not in ("sort", "argsort"):
        options = {k: v for k, v in options.items() if k != "descending"}
        return found_of(np, name)(*args, **options)
    (x,), axis = args, options["axis"]
    places = np.argsort(-x.astype(np.float64), axis=axis, stable=True)
    return places if name == "argsort" else np.take_along_axis(x, places, axis)


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
        return
    if isinstance(expected, np.dtype | bool):
        assert getattr(found, "np", found) == expected
        return
    ours, expected = np.asarray(found), np.asarray(expected)
    wanted = np.dtype(np.int64) if expected.dtype == np.uint64 else expected.dtype
    assert (ours.dtype, ours.shape) == (wanted, expected.shape)
    single = wanted in (np.float32, np.complex64)
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if single else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(ours, expected.astype(wanted), **tolerance)


@pytest.mark.parametrize("name", CASES)
@settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_functions_compute_and_record_what_numpy_has(name: str, data: st.DataObject) -> None:
    args, options = CASES[name](data.draw)
    plain = {k: v for k, v in options.items() if v is not None or k == "axis"}
    with np.errstate(all="ignore"):
        expected = theirs(name, args, plain)
    tensors = [pirkit.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    lists = [[pirkit.from_numpy(a) for a in v] if isinstance(v, list) and isinstance(v[0], np.ndarray) else v for v in tensors]  # fmt: skip
    for namespace in (pnp, traced_namespace):
        compare(found_of(namespace, name)(*lists, **options), expected)


def test_every_function_of_the_standard_is_tested() -> None:
    assert set(CASES) | BY_PROPERTY == set(ROWS)
    assert not set(CASES) & BY_PROPERTY
    listed = {n for n in ROWS if "." not in n}
    assert listed <= set(NAMES)
    for extension, names in EXTENSIONS.items():
        assert {f"{extension}.{n}" for n in names} >= {n for n in ROWS if n.startswith(extension)}


@pytest.mark.parametrize("name", ROWS)
def test_signatures_are_those_of_the_table(name: str) -> None:
    function = found_of(pnp, name)
    assert f"({ROWS[name]})".replace('"', "'") == str(inspect.signature(function))
    with pytest.raises(UsageError, match=f"`{name}`") as caught:
        function(no_such_parameter=1)
    assert caught.value.help
