"""Special functions: those of `cupyx.scipy.special`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.cupy.results import Unary, computes

FUNCTIONS: Final = {
    "erf": "erf",
    "erfinv": "erfinv",
    "lgamma": "gammaln",
    "gammaln": "gammaln",
    "digamma": "digamma",
    "i0e": "i0e",
    "i1e": "i1e",
}
"""Op of one operand -> its function."""


def _function(name: str) -> Any:
    return getattr(import_module("cupyx.scipy.special"), name)


def _unary(name: str) -> Callable[[Binding], Any]:
    def bind(b: Binding) -> Step | None:
        return _function(name)

    return bind


for _op, _name in FUNCTIONS.items():
    computes(_op, dtypes=dt.FLOATS, widen=True)(_unary(_name))


@computes("polygamma", dtypes=dt.FLOATS, widen=True)
def polygamma(b: Binding) -> Unary | None:
    function, order = _function("polygamma"), b.attrs["n"]
    return lambda x: function(order, x)


@computes("gammaincc", dtypes=(dt.float32, dt.float64))
def gammaincc(b: Binding) -> Step | None:
    return _function("gammaincc")
