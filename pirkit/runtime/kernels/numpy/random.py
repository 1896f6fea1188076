"""Kernels that draw random numbers: the same ones as the reference rules, in their order."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.bessel import normal_quantile
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.convert import convert
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel

Draw = Callable[[np.random.Generator, Array], Any]

_LEAST: Final = np.finfo(np.float64).tiny
_MOST: Final = 1 - 2.0**-53
"""Bounds of a share whose quantile is finite."""


def _evenly(source: np.random.Generator, out: Array) -> None:
    source.random(out=out)


def _normally(source: np.random.Generator, out: Array) -> None:
    source.standard_normal(out=out)


def _drawn(b: Binding, draw: Draw, expanded: float, offset: float) -> Step | None:
    """``offset + spread * draw``, computed in float64 and rounded once."""
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
            np.copyto(out, w, casting="unsafe")

        walk(passes, out)

    return step


@kernel("uniform", dtypes=dt.FLOATS)
def uniform(b: Binding) -> Step | None:
    """Evenly spread numbers."""
    low, high = b.attrs["min"], b.attrs["max"]
    return _drawn(b, _evenly, high - low, low)


@kernel("gaussian", dtypes=dt.FLOATS)
def gaussian(b: Binding) -> Step | None:
    """Normally distributed numbers."""
    return _drawn(b, _normally, b.attrs["std"], b.attrs["mean"])


@kernel("truncated_gaussian_random", dtypes=dt.FLOATS)
def truncated_gaussian(b: Binding) -> Step | None:
    """Shares of the normal law between its shares at the bounds, turned into numbers."""
    generator, a = b.generator, b.attrs
    if generator is None or a["std"] <= 0:
        return None
    law = NormalDist(a["mean"], a["std"])
    low, high = law.cdf(a["a"]), law.cdf(a["b"])
    walk = walker(b, b.output().shape, dtype=dt.float64)

    def step(out: Array) -> None:
        source = generator()

        def passes(out: Array, w: Array) -> None:
            source.random(out=w)
            np.multiply(w, high - low, w)
            np.add(w, low, w)
            np.clip(w, _LEAST, _MOST, w)
            np.multiply(normal_quantile(w), law.stdev, w)
            np.add(w, law.mean, w)
            np.clip(w, a["a"], a["b"], w)
            np.copyto(out, w, casting="unsafe")

        walk(passes, out)

    return step


@kernel("bernoulli", dtypes=dt.FLOATS)
def bernoulli(b: Binding) -> Step | None:
    """1 where a number drawn from [0, 1) is below the probability."""
    generator = b.generator
    if generator is None:
        return None
    walk = walker(b, b.input().shape, dtype=dt.float64)

    def step(x: Array, out: Array) -> None:
        source = generator()

        def passes(x: Array, out: Array, w: Array) -> None:
            source.random(out=w)
            np.copyto(out, np.less(w, x), casting="unsafe")

        walk(passes, x, out)

    return step


@kernel("randint", dtypes=(dt.int32, dt.int64))
def randint(b: Binding) -> Step | None:
    """Integers from ``low`` to just below ``high``."""
    generator, low, high = b.generator, b.attrs["low"], b.attrs["high"]
    if generator is None:
        return None
    shape, dtype = b.output().shape, b.output().dtype

    def step(out: Array) -> None:
        out[...] = convert(np.asarray(generator().integers(low, high, shape)), dtype)

    return step


@kernel("randperm", dtypes=dt.REAL)
def randperm(b: Binding) -> Step | None:
    """The numbers 0 to n-1 in some order."""
    generator, count, dtype = b.generator, b.attrs["n"], b.output().dtype
    if generator is None:
        return None

    def step(out: Array) -> None:
        out[...] = convert(generator().permutation(count), dtype)

    return step
