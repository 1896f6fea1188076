"""Activations that draw random numbers: gumbel_softmax, rrelu."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import (
    RANDOM,
    bad_samples,
    draws,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.random.random import Rng, in_training
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "random"


@op
class GumbelSoftmax:
    """The softmax of `(x + noise) / temperature`, with noise of the Gumbel distribution.

    If `hard` it is 1 at the greatest element and 0 elsewhere; the gradient is that of the softmax
    all the same.

    C1: `x` is a float tensor.
    C2: `axis` names a dimension of `x`.
    C3: `temperature` is positive.
    """

    name = "pd_op.gumbel_softmax"
    signature = "x ; temperature: f32 = 1.0, hard: bool = False, axis: i32 = -1 -> out"
    dtypes = (dt.float32, dt.float64)
    effects = RANDOM


@infer_meta(GumbelSoftmax)
def _(x: TensorMeta, *, temperature: float, axis: int, **_: object) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"no softmax of {x.dtype}")
    if x.rank:
        normalize_axis(axis, x.rank, "C2")
    require(temperature > 0, "C3", f"a temperature of {temperature}")
    return x


@reference(GumbelSoftmax)
def _(x: Array, *, temperature: float, hard: bool, axis: int, rng: Rng) -> Array:
    if not x.ndim:
        return np.ones_like(x)
    shape: tuple[int, ...] = x.shape
    drawn: Array = np.maximum(np.asarray(rng.random(shape)), np.finfo(np.float64).smallest_normal)
    scores = (x - np.log(-np.log(drawn))) / temperature
    powers = np.exp(scores - scores.max(axis, keepdims=True, initial=-np.inf))
    if hard:
        at = np.expand_dims(np.argmax(powers, axis), axis)
        places: Array = np.arange(shape[axis])
        places = places.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))
        return np.asarray(places == at).astype(x.dtype)
    return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)


@op
class Rrelu:
    """`x`, where it is negative times a slope from [`lower`, `upper`]; their mean if `is_test`.

    `noise` holds the slopes, and 1 where `x` is not negative.

    C1: `x` is a float tensor.
    C2: `lower` is at most `upper`.
    """

    name = "pd_op.rrelu"
    signature = (
        "x ; lower: f32 = 0.125, upper: f32 = 0.3333333333333333, is_test: bool = False "
        "-> out, noise~"
    )
    dtypes = dt.FLOATS
    effects = RANDOM


@infer_meta(Rrelu)
def _(x: TensorMeta, *, lower: float, upper: float, **_: object) -> tuple[TensorMeta, TensorMeta]:
    require(x.dtype.is_float, "C1", f"no slopes for {x.dtype}")
    require(lower <= upper, "C2", f"no slope lies in [{lower}, {upper}]")
    return x, x


draws(Rrelu)(in_training)


@reference(Rrelu)
def _(x: Array, *, lower: float, upper: float, is_test: bool, rng: Rng) -> tuple[Array, Array]:
    shape: tuple[int, ...] = x.shape
    mean = np.full(shape, (lower + upper) / 2)
    slope = mean if is_test else np.asarray(lower + (upper - lower) * rng.random(shape))
    noise = np.where(widened(x) < 0, slope, 1).astype(x.dtype)
    return np.asarray(widened(x) * widened(noise)).astype(x.dtype), noise


@samples(GumbelSoftmax)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), temperature=0.5)
    yield s(s.tensor(2, 3), hard=True, axis=0)
    yield s(s.tensor())
    yield s(s.tensor(0, 3))


@samples(Rrelu)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3), lower=0.25, upper=0.5, is_test=True)
    yield s(s.tensor(0, 3))


@bad_samples(GumbelSoftmax)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 0, 5))
    yield "C2", s(s.tensor(2, 3), axis=2)
    yield "C3", s(s.tensor(2, 3), temperature=0.0)


@bad_samples(Rrelu)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 0, 5))
    yield "C2", s(s.tensor(2), lower=0.5, upper=0.25)
