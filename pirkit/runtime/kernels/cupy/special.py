"""Special functions: those of `cupyx.scipy.special`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import pi
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


_FAR: Final = 500.0
"""From here on five terms of the series for large arguments are as exact as double precision."""


@computes("i0e", "i1e", dtypes=dt.FLOATS, widen=True)
def bessel(b: Binding) -> Unary:
    """In double precision. Far out cupy's function would multiply infinity by 0."""
    xp, order = b.xp, int(b.op[-2])
    function = _function(b.op.removeprefix("pd_op."))

    def run(x: Any) -> Any:
        wide = x.astype(dt.float64.np)
        size = xp.absolute(wide)
        near, far = function(xp.minimum(size, _FAR)), xp.maximum(size, _FAR)
        term = total = xp.ones(x.shape, dt.float64.np)
        for k in range(1, 5):
            term = term * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * far)
            total = total + term
        found = xp.where(size > _FAR, total / xp.sqrt(2 * pi * far), near)
        return found * xp.sign(wide) if order else found

    return run


@computes("gammaincc", dtypes=(dt.float32, dt.float64))
def gammaincc(b: Binding) -> Step | None:
    return _function("gammaincc")
