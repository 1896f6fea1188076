"""Ops that draw random numbers.

The reference rule of an op with effect ``random`` gets one more keyword, ``rng``: a numpy Generator
that the executor makes for that one call, from the seed and the position of the op. Same generator
state, same numbers; no rule keeps a generator or makes one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any, TypeAlias

from pirkit.dialect.opdef import RANDOM, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import requested
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.draws import greatest_below, truncation
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "random"

Rng: TypeAlias = "np.random.Generator"
"""A name only: numpy imports its generators when the first one is made."""
Sizes = tuple[int | None, ...] | None
"""An ``intarray``: None for an unknown element, or for an unknown length."""


def in_training(attrs: Mapping[str, Any]) -> bool:
    """True unless the attribute `is_test` is set: then nothing is drawn."""
    return not attrs["is_test"]


def generator(seed: int, position: int = 0) -> Rng:
    """The counter-based generator of one call; ``position`` distinguishes calls with one seed."""
    return np.random.Generator(np.random.Philox(key=[seed % 2**64, position % 2**64]))


@op
class Uniform:
    """Uniformly distributed numbers in [`min`, `max`).

    They are drawn in float64 and rounded to `dtype`, so narrower types may also give `max`.

    C1: no size is negative.
    C2: `dtype` is a float type.
    """

    name = "pd_op.uniform"
    signature = (
        "shape: intarray, min: scalar, max: scalar ; "
        "dtype: dtype, seed: i32, place: place = undefined -> out"
    )
    effects = RANDOM


@infer_meta(Uniform)
def _(*, shape: Sizes, dtype: DType, **_: object) -> TensorMeta:
    require(dtype.is_float, "C2", f"random numbers of dtype {dtype}")
    return TensorMeta(requested(shape), dtype)


@reference(Uniform)
def _(
    *, shape: tuple[int, ...], min: float, max: float, dtype: DType, rng: Rng, **_: object
) -> Array:
    drawn = np.minimum(min + (max - min) * rng.random(shape), greatest_below(min, max, dtype))
    return convert(np.asarray(drawn), dtype)


@samples(Uniform)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 3), min=-1.0, max=1.0, dtype=dt.float32, seed=0)
    yield s(shape=(), min=0.0, max=1.0, dtype=dt.float64, seed=3)
    yield s(shape=(0, 2), min=0.0, max=1.0, dtype=dt.bfloat16, seed=0)


@bad_samples(Uniform)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(-2,), min=0.0, max=1.0, dtype=dt.float32, seed=0)
    yield "C2", s(shape=(2,), min=0.0, max=1.0, dtype=dt.int64, seed=0)


@op
class Gaussian:
    """Normally distributed numbers; complex ones share the variance between their parts.

    C1: no size is negative.
    C2: `dtype` is a float or complex type.
    """

    name = "pd_op.gaussian"
    signature = (
        "shape: intarray ; "
        "mean: f32, std: f32, seed: i32, dtype: dtype, place: place = undefined -> out"
    )
    effects = RANDOM


@infer_meta(Gaussian)
def _(*, shape: Sizes, dtype: DType, **_: object) -> TensorMeta:
    known = dtype.is_float or dtype.is_complex
    require(known, "C2", f"random numbers of dtype {dtype}")
    return TensorMeta(requested(shape), dtype)


@reference(Gaussian)
def _(
    *, shape: tuple[int, ...], mean: float, std: float, dtype: DType, rng: Rng, **_: object
) -> Array:
    normal = np.asarray(rng.standard_normal(shape))
    if dtype.is_complex:
        normal = (normal + 1j * rng.standard_normal(shape)) * np.sqrt(0.5)
    return convert(np.asarray(mean + std * normal), dtype)


@samples(Gaussian)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 3), mean=0.0, std=1.0, seed=0, dtype=dt.float32)
    yield s(shape=(), mean=1.0, std=0.5, seed=3, dtype=dt.float64)
    yield s(shape=(0, 2), mean=0.0, std=1.0, seed=0, dtype=dt.float16)


@bad_samples(Gaussian)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(-2,), mean=0.0, std=1.0, seed=0, dtype=dt.float32)
    yield "C2", s(shape=(2,), mean=0.0, std=1.0, seed=0, dtype=dt.int64)


@op
class TruncatedGaussianRandom:
    """Numbers of the normal distribution truncated to [`a`, `b`].

    C1: no size is negative.
    C2: `a` is below `b`.
    C3: `dtype` is a float type.
    """

    name = "pd_op.truncated_gaussian_random"
    signature = (
        "; shape: i32[], mean: f32, std: f32, seed: i32, a: f32, b: f32, "
        "dtype: dtype = float32, place: place = undefined -> out"
    )
    effects = RANDOM


@infer_meta(TruncatedGaussianRandom)
def _(*, shape: tuple[int, ...], a: float, b: float, dtype: DType, **_: object) -> TensorMeta:
    require(a < b, "C2", f"no number lies between {a} and {b}")
    require(dtype.is_float, "C3", f"random numbers of dtype {dtype}")
    return TensorMeta(requested(shape), dtype)


@reference(TruncatedGaussianRandom)
def _(
    *,
    shape: tuple[int, ...],
    mean: float,
    std: float,
    a: float,
    b: float,
    dtype: DType,
    rng: Rng,
    **_: object,
) -> Array:
    low, high, factor = truncation(mean, std, a, b)
    tiny = np.finfo(np.float64).smallest_normal
    drawn = np.clip(low + (high - low) * rng.random(shape), tiny, 1 - 2.0**-53)
    inverse = np.frompyfunc(NormalDist().inv_cdf, 1, 1)(drawn)
    return convert(np.clip(np.asarray(inverse, np.float64) * factor + mean, a, b), dtype)


@samples(TruncatedGaussianRandom)
def _(s: SampleMaker) -> Iterator[Sample]:
    limits = {"a": -2.0, "b": 2.0}
    yield s(shape=(2, 3), mean=0.0, std=1.0, seed=0, **limits)
    yield s(shape=(0,), mean=0.0, std=1.0, seed=0, dtype=dt.float64, **limits)
    yield s(shape=(3,), mean=1.0, std=0.5, seed=0, a=6.0, b=8.0)
    yield s(shape=(2,), mean=1.0, std=0.0, seed=0, **limits)


@bad_samples(TruncatedGaussianRandom)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    law = {"mean": 0.0, "std": 1.0, "seed": 0}
    yield "C1", s(shape=(-2,), a=-2.0, b=2.0, **law)
    yield "C2", s(shape=(2,), a=2.0, b=-2.0, **law)
    yield "C3", s(shape=(2,), a=-2.0, b=2.0, dtype=dt.int64, **law)


@op
class Randint:
    """Integers in [`low`, `high`), all equally likely.

    C1: no size is negative.
    C2: `low` is below `high`.
    C3: `dtype` is an integer type.
    """

    name = "pd_op.randint"
    signature = (
        "shape: intarray ; "
        "low: i32, high: i32, dtype: dtype = int64, place: place = undefined -> out"
    )
    effects = RANDOM


@infer_meta(Randint)
def _(*, shape: Sizes, low: int, high: int, dtype: DType, **_: object) -> TensorMeta:
    require(low < high, "C2", f"no integer lies in [{low}, {high})")
    require(dtype.is_integer, "C3", f"random integers of dtype {dtype}")
    return TensorMeta(requested(shape), dtype)


@reference(Randint)
def _(*, shape: tuple[int, ...], low: int, high: int, dtype: DType, rng: Rng, **_: object) -> Array:
    return convert(np.asarray(rng.integers(low, high, shape)), dtype)


@samples(Randint)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(shape=(2, 3), low=-2, high=5)
    yield s(shape=(), low=0, high=1, dtype=dt.int32)
    yield s(shape=(0,), low=0, high=9)


@bad_samples(Randint)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(shape=(-2,), low=0, high=5)
    yield "C2", s(shape=(2,), low=5, high=5)
    yield "C3", s(shape=(2,), low=0, high=5, dtype=dt.float32)


@op
class Randperm:
    """The integers from 0 to `n - 1` in random order.

    C1: `n` is not negative.
    """

    name = "pd_op.randperm"
    signature = "; n: i32, dtype: dtype, place: place = undefined -> out"
    effects = RANDOM


@infer_meta(Randperm)
def _(*, n: int, dtype: DType, **_: object) -> TensorMeta:
    require(n >= 0, "C1", f"{n} numbers")
    return TensorMeta((n,), dtype)


@reference(Randperm)
def _(*, n: int, dtype: DType, rng: Rng, **_: object) -> Array:
    return convert(rng.permutation(n), dtype)


@samples(Randperm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(n=5, dtype=dt.int64)
    yield s(n=0, dtype=dt.int32)


@bad_samples(Randperm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(n=-1, dtype=dt.int64)


@op
class Bernoulli:
    """1 with probability `x`, else 0.

    C1: `x` is a float tensor.
    """

    name = "pd_op.bernoulli"
    signature = "x -> out"
    dtypes = dt.FLOATS
    domain = (0.0, 1.0)
    effects = RANDOM


@infer_meta(Bernoulli)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"probabilities of dtype {x.dtype}")
    return x


@reference(Bernoulli)
def _(x: Array, *, rng: Rng) -> Array:
    shape: tuple[int, ...] = x.shape
    drawn = np.asarray(rng.random(shape))
    return np.asarray(drawn < x.astype(np.float64)).astype(x.dtype)


@samples(Bernoulli)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.array([0.0, 1.0]))
    yield s(s.tensor())


@bad_samples(Bernoulli)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((3,), 0, 2))
