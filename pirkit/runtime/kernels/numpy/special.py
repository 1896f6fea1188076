"""Special functions, block by block: gamma and Bessel functions, the inverse of erf."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from pirkit.runtime import bessel, special_functions
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.gamma import gammaincc
from pirkit.runtime.kernels.numpy.cache_blocks import Passes, in_blocks, walker
from pirkit.runtime.registry import kernel

FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "lgamma": special_functions.lgamma,
    "gammaln": special_functions.lgamma,
    "digamma": special_functions.digamma,
    "erfinv": bessel.erfinv,
    "i0": partial(bessel.bessel_i, order=0, scaled=False),
    "i0e": partial(bessel.bessel_i, order=0, scaled=True),
    "i1": partial(bessel.bessel_i, order=1, scaled=False),
    "i1e": partial(bessel.bessel_i, order=1, scaled=True),
}
"""Op of one operand -> its function of arrays."""


def _passes(function: Callable[[Array], Array]) -> Passes:
    def passes(x: Array, out: Array) -> None:
        np.copyto(out, function(x))

    return passes


def _unary(function: Callable[[Array], Array]) -> Bind:
    passes = _passes(function)
    return lambda b: in_blocks(b, passes, scratch=0)


for _op, _function in FUNCTIONS.items():
    kernel(_op, dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)(_unary(_function))


@kernel("polygamma", dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)
def polygamma(b: Binding) -> Step:
    function = partial(bessel.polygamma, order=b.attrs["n"])
    return in_blocks(b, _passes(function), scratch=0)


@kernel("gammaincc", dtypes=(dt.float32, dt.float64), inplace={"out": ("x", "y")})
def regularized_gamma(b: Binding) -> Step:
    shape = b.output().shape
    walk = walker(b, shape, scratch=0)

    def passes(x: Array, y: Array, out: Array) -> None:
        np.copyto(out, gammaincc(x, y), casting="same_kind")

    def step(x: Array, y: Array, out: Array) -> None:
        walk(passes, np.broadcast_to(x, shape), np.broadcast_to(y, shape), out)

    return step
