"""Kernels that draw random numbers, the same as the reference rules and in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.bessel import normal_quantile
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.draws import greatest_below, truncation
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel

Draw = Callable[[np.random.Generator, Array], Any]

_LEAST: Final = np.finfo(np.float64).smallest_normal
_MOST: Final = 1 - 2.0**-53
"""Bounds of a probability whose quantile is finite."""


def _evenly(source: np.random.Generator, out: Array) -> None:
    source.random(out=out)


def _normally(source: np.random.Generator, out: Array) -> None:
    source.standard_normal(out=out)


def _drawn(
    b: Binding, draw: Draw, expanded: float, offset: float, most: float = np.inf
) -> Step | None:
    """``offset + expanded * draw``, at most ``most``, computed in float64 and rounded once."""
    generator = b.generator
    if generator is None:
        return None
    walk = walker(b, b.output().shape, dtype=dt.float64)

    def step(out: Array) -> None:
        source = generator()

        def passes(out: Array, w: Array) -> None:
            draw(source, w)
            np.multiply(w, expanded, w)
            np.add(w, offset, w)
            if most < np.inf:
                np.minimum(w, most, out=w)
            np.copyto(out, w, casting="unsafe")

        walk(passes, out)

    return step


@kernel("uniform", dtypes=dt.FLOATS)
def uniform(b: Binding) -> Step | None:
    """Uniformly distributed numbers."""
    low, high = b.attrs["min"], b.attrs["max"]
    return _drawn(b, _evenly, high - low, low, greatest_below(low, high, b.output().dtype))


@kernel("gaussian", dtypes=dt.FLOATS)
def gaussian(b: Binding) -> Step | None:
    """Normally distributed numbers."""
    return _drawn(b, _normally, b.attrs["std"], b.attrs["mean"])


@kernel("truncated_gaussian_random", dtypes=dt.FLOATS)
def truncated_gaussian(b: Binding) -> Step | None:
    """Uniform probabilities between those of the bounds, through the quantile function."""
    generator, a = b.generator, b.attrs
    if generator is None or a["std"] <= 0:
        return None
    low, high, factor = truncation(a["mean"], a["std"], a["a"], a["b"])
    walk = walker(b, b.output().shape, dtype=dt.float64)

    def step(out: Array) -> None:
        source = generator()

        def passes(out: Array, w: Array) -> None:
            source.random(out=w)
            np.multiply(w, high - low, w)
            np.add(w, low, w)
            np.clip(w, _LEAST, _MOST, w)
            np.multiply(normal_quantile(w), factor, w)
            np.add(w, a["mean"], w)
            np.clip(w, a["a"], a["b"], w)
            np.copyto(out, w, casting="unsafe")

        walk(passes, out)

    return step
