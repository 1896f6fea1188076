"""One interface: operators, methods and numpy's functions on eager tensors and traced values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.frontend.numpy_functions import FUNCTIONS
from pirkit.frontend.traced_value import TracedValue
from pirkit.frontend.tracing import trace
from pirkit.runtime.tensor.methods import TensorMethods

_REAL: Final = [[1.5, -2.25, 3.0], [0.5, 4.0, -1.0]]
_INTS: Final = [[7, 3, 2], [5, 8, 9]]
ARRAYS: Final[dict[str, Any]] = {
    "float32": np.array(_REAL, np.float32),
    "float64": np.array(_REAL),
    "float16": np.array(_REAL, np.float16),
    "int64": np.array(_INTS),
    "int32": np.array(_INTS, np.int32),
    "uint8": np.array(_INTS, np.uint8),
    "bool": np.array([[True, False, True], [False, False, True]]),
    "complex64": np.array([[1 + 2j, -1j, 3], [0.5, 4j, -1]], np.complex64),
}

BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    name: getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod pow lt le gt ge eq ne and_ or_ xor lshift rshift"
    ).split()
} | {"matmul": lambda x, y: x @ y.T, "divmod": divmod}

UNARY: Final = {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "round": lambda x: x.round(1),
}

METHODS: Final[dict[str, Callable[[Any], Any]]] = {
    "sum": lambda v: v.sum(),
    "sum of an axis": lambda v: v.sum(axis=0),
    "sum with axes kept": lambda v: v.sum(1, keepdims=True),
    "sum over nothing": lambda v: v.sum(()),
    "sum in a type": lambda v: v.sum(dtype=np.complex128),
    "mean": lambda v: v.mean(),
    "mean of an axis": lambda v: v.mean(-1),
    "prod": lambda v: v.prod(),
    "max": lambda v: v.real.max(),
    "max of axes": lambda v: v.real.max((0, 1)),
    "max over nothing": lambda v: v.real.max(()),
    "min": lambda v: v.real.min(0),
    "any": lambda v: v.any(),
    "all": lambda v: v.all(axis=1),
    "argmax": lambda v: v.real.argmax(),
    "argmax of an axis": lambda v: v.real.argmax(1, keepdims=True),
    "argmin": lambda v: v.real.argmin(0),
    "argsort": lambda v: (
        v.real.argsort(kind="stable") if isinstance(v, np.ndarray) else v.real.argsort()
    ),
    "cumsum": lambda v: v.cumsum(),
    "cumsum of an axis": lambda v: v.cumsum(1),
    "cumprod": lambda v: v.cumprod(0),
    "var": lambda v: v.real.astype("float64").var(),
    "var with a correction": lambda v: v.real.astype("float64").var(axis=1, ddof=1),
    "std": lambda v: v.real.astype("float64").std(0),
    "reshape": lambda v: v.reshape(3, 2),
    "reshape to a tuple": lambda v: v.reshape((-1, 2)),
    "ravel": lambda v: v.ravel(),
    "flatten": lambda v: v.flatten(),
    "T": lambda v: v.T,
    "mT": lambda v: v.mT,
    "transpose": lambda v: v[None].transpose(1, 2, 0),
    "transpose by a tuple": lambda v: v.transpose((1, 0)),
    "swapaxes": lambda v: v.swapaxes(0, -1),
    "squeeze": lambda v: v[None, :, None].squeeze(),
    "squeeze an axis": lambda v: v[None, :, None].squeeze(0),
    "take": lambda v: v.take([0, 2], axis=1),
    "take of all": lambda v: v.take([0, 5, -1]),
    "repeat": lambda v: v.repeat(2, axis=1),
    "diagonal": lambda v: v.diagonal(1),
    "trace": lambda v: v.trace(),
    "clip": lambda v: v.real.clip(1, 2),
    "clip above": lambda v: v.real.clip(max=2),
    "dot": lambda v: v.dot(v.T),
    "dot with a number": lambda v: v.dot(2),
    "conj": lambda v: v.conj(),
    "conjugate": lambda v: v.conjugate(),
    "ptp": lambda v: np.ptp(v, axis=0),
    "ptp of all": lambda v: (
        np.ptp(v, keepdims=True) if isinstance(v, np.ndarray) else (v.ptp(keepdims=True))
    ),
    "searchsorted": lambda v: v.real[0].searchsorted(v.real),
    "reshape by columns": lambda v: v.reshape(3, -1, order="F"),
    "ravel by columns": lambda v: v.ravel("F"),
    "flatten by columns": lambda v: v.flatten("F"),
    "real": lambda v: v.real,
    "imag": lambda v: v.imag,
    "astype": lambda v: v.astype("complex128"),
    "copy": lambda v: v.copy(),
    "properties": lambda v: v.sum() * v.ndim * v.size * v.itemsize + v.nbytes * v.shape[1],
    "len": lambda v: v.sum() * len(v),
    "iteration": lambda v: sum(row.sum() for row in v),
    "steps back": lambda v: v[:, ::-1],
    "a list of places": lambda v: v[1, [0, 2]],
    "the last": lambda v: v[..., -1],
    "np.sin": np.sin,
    "np.exp": np.exp,
    "np.square": np.square,
    "np.isnan": np.isnan,
    "np.sum": lambda v: np.sum(v, axis=0),
    "np.mean": np.mean,
    "np.cumsum": lambda v: np.cumsum(v, axis=1),
    "np.add.reduce": np.add.reduce,
    "np.logical_not": np.logical_not,
    "np.where": lambda v: np.where(v != 0, v, 1),
}


def _checked(f: Callable[..., Any], *groups: list[Any]) -> None:
    """Eagerly and traced, ``f`` gives what it gives of numpy's arrays, element type included."""
    cases = [case for case in zip(*groups, strict=True) if _is_defined(f, case)]
    flat = [[a for a in case if isinstance(a, np.ndarray)] for case in cases]

    def every(given: Any, around: Callable[[Any], Any] = lambda a: a) -> list[Any]:
        found: list[Any] = []
        for case, arrays in zip(cases, given, strict=True):
            left = iter(arrays)
            result = f(*[around(next(left)) if isinstance(a, np.ndarray) else a for a in case])
            found += result if isinstance(result, tuple) else [result]
        return found

    with np.errstate(all="ignore"):
        expected = every(flat)
        eager = every(flat, pirkit.tensor)
    traced = trace(every, [flat])
    inputs = {f"x{i}": a for i, a in enumerate([a for arrays in flat for a in arrays])}
    outputs = pirkit.compile(traced.program).run({**inputs, **traced.captured})
    for i, wanted in enumerate(map(np.asarray, expected)):
        dtype = np.dtype(np.int64) if wanted.dtype == np.uint64 else wanted.dtype
        for found in (np.asarray(eager[i]), outputs[f"y{i}"]):
            assert found.dtype == dtype
            rtol = 4e-3 if dtype == np.float16 else 1e-5
            np.testing.assert_allclose(found, wanted.astype(dtype), rtol=rtol, atol=rtol)


def _is_defined(f: Callable[..., Any], case: tuple[Any, ...]) -> bool:
    try:
        with np.errstate(all="raise", under="ignore"):
            f(*case)
    except (TypeError, ValueError, FloatingPointError):
        return False
    return True


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_promote_as_numpy_does(name: str) -> None:
    rows = ("float32", "float64", "int64", "int32", "bool")
    pairs = [(ARRAYS[a], ARRAYS[b]) for a in rows for b in rows]
    pairs += [(ARRAYS[a], ARRAYS[a]) for a in ("float16", "uint8", "complex64")]
    _checked(BINARY[name], [a for a, _ in pairs], [b for _, b in pairs])


@pytest.mark.parametrize("name", [n for n in BINARY if n != "matmul"])
@pytest.mark.parametrize("number", [2, 2.5, True, 1j, np.float64(0.1), np.int32(3)], ids=repr)
def test_numbers_of_python_are_weak_and_those_of_numpy_are_not(name: str, number: Any) -> None:
    arrays = [a for a in ARRAYS.values() if name != "pow" or a.dtype != bool]
    _checked(BINARY[name], arrays, [number] * len(arrays))
    _checked(BINARY[name], [number] * len(arrays), arrays)


@pytest.mark.parametrize("name", [*UNARY, *METHODS])
def test_methods(name: str) -> None:
    arrays = list(ARRAYS.values())
    if name in (
        "round",
        "real",
        "conj",
        "conjugate",
        "ptp",
        "ptp of all",
    ):  # numpy: booleans become float16, complex parts
        arrays = [a for a in arrays if a.dtype.kind not in "bc"]
    _checked((UNARY | METHODS)[name], arrays)


def test_every_method_of_the_table_is_tested() -> None:
    named = {n for n in vars(TensorMethods) if not n.startswith("_")}
    tested = " ".join(METHODS) + " round max min ndim size nbytes itemsize shape dtype"
    assert not {n for n in named if n not in tested and n not in ("std", "var")}
    methods = named - {"T", "mT", "at", "flatten", "ndim", "size", "nbytes", "itemsize", "dtype",
                       "conjugate"}  # fmt: skip
    assert not {n for n in methods if n not in FUNCTIONS}


def test_traced_values_have_what_tensors_have() -> None:
    own = {"address", "buffer", "contiguous", "device", "is_contiguous", "kind", "mutable",
           "offset", "place", "strides", "to", "to_device", "version", "view_of", "writable",
           "array", "array_module", "block_until_ready"}  # fmt: skip
    # of memory, which a traced value has none of
    public = {n for n in dir(pirkit.Tensor) if not n.startswith("_")}
    assert not public - own - set(dir(TracedValue))


def test_bfloat16_takes_pythons_numbers() -> None:
    x = pirkit.tensor(ARRAYS["float32"]).astype("bfloat16")
    found = trace(lambda v: [v * 1.5, v + 1, v @ v.T, v.sum()], [x])
    outputs = pirkit.compile(found.program).run({"x0": x})
    assert {str(outputs[f"y{i}"].dtype) for i in range(4)} == {"bfloat16"}
    assert {t.dtype.name for t in (x * 1.5, x + 1, x @ x.T, x.sum())} == {"bfloat16"}


# --- tensors from around a function, beside values that are traced ---

AROUND: Final = pirkit.from_numpy(np.arange(1.0, 13.0).reshape(3, 4))
MIXED: Final[dict[str, tuple[Callable[[Any], Any], Any]]] = {
    "a row": (lambda i: AROUND[i], 1),
    "a row from the end": (lambda i: AROUND[-i], 1),
    "an element": (lambda i: AROUND[i, i + 1], 1),
    "a column": (lambda i: AROUND[:, i], 2),
    "after an ellipsis": (lambda i: AROUND[..., i], 2),
    "a new axis": (lambda i: AROUND[None, i], 2),
    "rows": (lambda i: AROUND[i], np.array([2, 0])),
    "rows in a list": (lambda i: AROUND[[i, 0]], 1),
    "rows from a place": (lambda i: AROUND[np.arange(2) + i], 1),
    "pairs": (lambda i: AROUND[i, [0, 1]], np.array([2, 0])),
    "in a loop": (lambda v: pirkit.fori_loop(0, 3, lambda i, s: s + AROUND[i] * i, v), np.ones(4)),
    "in vmap": (lambda i: pirkit.vmap(lambda j: AROUND[j, 1])(i), np.array([2, 0])),
    "get": (lambda i: AROUND.at[i].get(), 1),
    "set at": (lambda i: AROUND.at[i].set(5.0), 1),
    "set at in a list": (lambda i: AROUND.at[[i, 0]].set(5.0), 1),
    "add a value": (lambda v: AROUND.at[0].add(v), np.ones(4)),
    "take": (lambda i: AROUND.take(i, axis=1), np.array([2, 0])),
    "numpy.take": (lambda i: np.take(AROUND, i, axis=0), np.array([2, 0])),
    "dot": (lambda v: AROUND.dot(v), np.arange(4.0)),
    "clip": (lambda v: AROUND.clip(v, max=v * 2), np.full(4, 3.0)),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_from_around_take_what_is_traced(name: str) -> None:
    function, given = MIXED[name]
    held = pirkit.from_numpy(given) if isinstance(given, np.ndarray) else given
    found, want = pirkit.jit(function)(given), function(held)
    assert found.dtype is want.dtype
    np.testing.assert_array_equal(found, want)
    assert AROUND.version == 0


def test_writes_of_what_is_traced_are_refused_with_the_remedy() -> None:
    def written(v: Any) -> Any:
        AROUND.numpy()[0] = v

    with pytest.raises(pirkit.PirkitError, match="from_numpy") as caught:
        pirkit.jit(written)(np.ones(4))
    assert caught.value.span is not None
    with pytest.raises(pirkit.PirkitError, match="in place") as caught:
        pirkit.jit(lambda v: operator.iadd(AROUND, v))(np.ones(4))
    assert "x = x + v" in (caught.value.help or "")


SOME: Final[dict[str, Callable[[Any], Any]]] = {
    "sum": lambda x: np.sum(x, where=x > 0),
    "sum of an axis": lambda x: np.sum(x, axis=1, where=x > 0, initial=2.0),
    "prod": lambda x: np.prod(x, where=x > 0),
    "mean": lambda x: np.mean(x, axis=0, where=x > -3, keepdims=True),
    "mean of truths": lambda x: np.mean(x > 0, where=x > -3),
    "max": lambda x: np.max(x, axis=0, where=x < 0, initial=-9.0),
    "min": lambda x: np.amin(x, initial=-9.0),
    "any": lambda x: np.any(x > 3, where=x < 0),
    "all": lambda x: (x > 0).all(where=x > 0),
}


@pytest.mark.parametrize("name", SOME)
def test_reductions_of_some_elements(name: str) -> None:
    x = np.arange(12.0).reshape(4, 3) - 5
    want = np.asarray(SOME[name](x))
    for found in (SOME[name](pirkit.from_numpy(x)), pirkit.jit(SOME[name])(x)):
        assert found.dtype.np == want.dtype
        np.testing.assert_allclose(found, want)


def test_the_largest_of_some_elements_needs_a_number_to_begin_with() -> None:
    with pytest.raises(pirkit.PirkitError, match="where"):
        pirkit.jit(lambda x: np.max(x, where=x > 0))(np.ones(3))
