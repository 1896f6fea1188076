"""numpy's functions on values whose sizes only the run knows: right, or refused while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit.diag.errors import TraceError

Array = np.ndarray[Any, Any]
X: Final = np.arange(24.0).reshape(4, 6) % 7 - 2
WAYS: Final[dict[str, dict[str, Any]]] = {
    "native": {},
    "reference": {"backend": "reference", "pipeline": ""},
    "fused": {"pipeline": "decompose,fuse"},
}


def recorded(function: Callable[[Any], Any], x: Array) -> pirkit.Program:
    b = pirkit.ProgramBuilder()
    b.output("y", function(b.input("x", (-1,) * x.ndim, x.dtype)))
    return b.finish()


INDICES: Final[list[Any]] = [
    0, -1, slice(1, None), slice(None, -1), (slice(None, None, 2), -1), (..., 0),
    (slice(None), None, 2), (None, 0, slice(1, 3)), (slice(-3, -1), slice(1, 100)), (0, 0), None,
    ..., (-2, None, slice(None, None, 3)), (1, None, 1, None),
    (None, slice(-1, None), None, slice(None, None, 2)), (None, 1, None, slice(1, None), None),
]  # fmt: skip
COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "set": lambda x, v: v, "add": np.add, "multiply": np.multiply, "max": np.maximum,
    "divide": np.divide,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", COMBINED)
def test_updates_by_integers_and_slices(how: str, way: str) -> None:
    for index in INDICES:
        row = np.linspace(1.0, 2.0, X[index].shape[-1] if X[index].ndim else 1)
        value = row if X[index].ndim else row[0]
        wanted = X.copy()
        wanted[index] = COMBINED[how](wanted[index], value)
        program = recorded(lambda x, i=index, v=value: getattr(x.at[i], how)(v), X)
        found = pirkit.compile(program, **WAYS[way]).run({"x": X})["y"]
        np.testing.assert_allclose(found, wanted, err_msg=str(index))


FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "where": lambda m, x: m.where(x > 1, x, x[:1]),
    "select": lambda m, x: m.select([x > 1, x < 0], [x, -x], 7.0),
    "nansum": lambda m, x: m.nansum(x, axis=0),
    "take_along_axis": lambda m, x: m.take_along_axis(x, m.argsort(x, axis=1), axis=1),
    "all but the last": lambda m, x: x[:-1] - x[1:],
    "inner": lambda m, x: m.inner(x, x[:2]),
    "tensordot": lambda m, x: m.tensordot(x, x, ((0,), (0,))),
    "complex power": lambda m, x: m.exp2(m.multiply(x, 1j)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, way: str) -> None:
    program = recorded(lambda x: FUNCTIONS[name](pnp, x), X)
    exe = pirkit.compile(program, **WAYS[way])
    np.testing.assert_allclose(exe.run({"x": X})["y"], FUNCTIONS[name](np, X), rtol=1e-12)


REFUSED: Final[dict[str, Callable[[Any], Any]]] = {
    "size": lambda x: x * x.size,
    "np.size": lambda x: x * pnp.size(x),
    "squeeze": pnp.squeeze,
    "tensordot of two axes": lambda x: pnp.tensordot(x, x.T, ((0, 1), (1, 0))),
    "truth": lambda x: x if x else -x,
    "length": lambda x: x * len(x),
    "median": lambda x: pnp.median(x, axis=1),
    "cov": pnp.cov,
    "pad": lambda x: pnp.pad(x, 1, mode="reflect"),
    "convolve": lambda x: pnp.convolve(x[0], np.ones(2)),
    "insert": lambda x: pnp.insert(x, 1, 0.0, axis=0),
    "vander": lambda x: pnp.vander(x[0]),
    "matrix_rank": pnp.linalg.matrix_rank,
    "broadcast_arrays": lambda x: pnp.broadcast_arrays(x, x[:1])[0],
    "update from behind": lambda x: x.at[::-1].set(1.0),
    "update by an array": lambda x: x.at[np.array([0, 1])].set(1.0),
    "update by a mask": lambda x: x.at[np.array([True, False, True, True])].set(1.0),
    "too many indices": lambda x: x.at[0, 0, 0].set(1.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_size_is_refused(name: str) -> None:
    with pytest.raises(TraceError, match=r"unknown|traced tensor|too many"):
        recorded(REFUSED[name], X)
