"""Random numbers whose distribution a tensor gives, and those that overwrite a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import RANDOM, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.random.random import Rng
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "random"


@op
class Exponential:
    """Fills `x` with numbers of the exponential distribution with rate `lam`.

    C1: `x` is a float tensor.
    C2: `lam` is positive.
    """

    name = "pd_op.exponential_"
    signature = "x ; lam: f32 -> out"
    dtypes = dt.FLOATS
    effects = RANDOM
    inplace = {"out": "x"}
    reads_meta_only = ("x",)


@infer_meta(Exponential)
def _(x: TensorMeta, *, lam: float) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"random numbers of dtype {x.dtype}")
    require(lam > 0, "C2", f"a rate of {lam}")
    return x


@reference(Exponential)
def _(x: Array, *, lam: float, rng: Rng) -> Array:
    shape: tuple[int, ...] = x.shape
    return np.asarray(-np.log1p(-rng.random(shape)) / lam).astype(x.dtype)


@op
class StandardGamma:
    """Numbers of the gamma distribution with shape `x` and scale 1, one for each element.

    C1: `x` is a float tensor.
    """

    name = "pd_op.standard_gamma"
    signature = "x -> out"
    dtypes = (dt.float32, dt.float64)
    domain = (0.2, 3.0)
    effects = RANDOM


@op
class Dirichlet:
    """Dirichlet-distributed numbers with parameters `alpha`: sums along the last dimension are 1.

    C1: `alpha` is a float tensor.
    C2: `alpha` has at least one dimension.
    """

    name = "pd_op.dirichlet"
    signature = "alpha -> out"
    dtypes = (dt.float32, dt.float64)
    domain = (0.2, 3.0)
    effects = RANDOM


@op
class Binomial:
    """Numbers of the binomial distribution: how many of `count` trials succeed.

    Each succeeds with probability `prob`.

    C1: `count` is an integer or float tensor, `prob` a float one.
    C2: `count` and `prob` have the same shape.
    """

    name = "pd_op.binomial"
    signature = "count, prob -> out"
    dtypes = (dt.float32, dt.float64, dt.int64)
    domain = (0.0, 9.0)
    effects = RANDOM


@infer_meta(StandardGamma)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"random numbers of dtype {x.dtype}")
    return x


@infer_meta(Dirichlet)
def _(alpha: TensorMeta) -> TensorMeta:
    require(alpha.dtype.is_float, "C1", f"random numbers of dtype {alpha.dtype}")
    require(alpha.rank > 0, "C2", "`alpha` has no dimensions")
    return alpha


@infer_meta(Binomial)
def _(count: TensorMeta, prob: TensorMeta) -> TensorMeta:
    fits = (count.dtype.is_float or count.dtype.is_integer) and prob.dtype.is_float
    require(fits, "C1", f"no trials of dtypes {count.dtype} and {prob.dtype}")
    same = count.rank == prob.rank and all(map(same_dim, count.shape, prob.shape))
    require(same, "C2", f"shapes {show(count.shape)} and {show(prob.shape)} differ")
    return count.with_dtype(dt.int64)


@reference(StandardGamma)
def _(x: Array, *, rng: Rng) -> Array:
    return np.asarray(rng.standard_gamma(x.astype(np.float64))).astype(x.dtype)


@reference(Dirichlet)
def _(alpha: Array, *, rng: Rng) -> Array:
    drawn = np.asarray(rng.standard_gamma(alpha.astype(np.float64))).astype(alpha.dtype)
    return drawn / np.sum(drawn, axis=-1, keepdims=True)


@reference(Binomial)
def _(count: Array, prob: Array, *, rng: Rng) -> Array:
    return np.asarray(rng.binomial(count.astype(np.int64), prob), np.int64)


@samples(Exponential)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), lam=2.0)
    yield s(s.tensor(), lam=0.5)
    yield s(s.tensor(0, 2), lam=1.0)


@samples(StandardGamma, Dirichlet)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(4))
    yield s(s.tensor(0, 3))


@samples(Binomial)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3, dtype=dt.float32, low=0.0, high=1.0))
    yield s(s.array([3, 7]), s.array([0.0, 1.0], dt.float64))


@bad_samples(Exponential)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 0, 5), lam=1.0)
    yield "C2", s(s.tensor(2), lam=0.0)


@bad_samples(StandardGamma)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 1, 5))


@bad_samples(Dirichlet)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 1, 5))
    yield "C2", s(s.tensor())


@bad_samples(Binomial)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 1, 5), s.ints((2,), 0, 1))
    yield "C2", s(s.tensor(2), s.tensor(3, dtype=dt.float32, low=0.0, high=1.0))


@op
class Poisson:
    """Numbers of the Poisson distribution with mean `x`, one for each element.

    C1: `x` is a float tensor.
    """

    name = "pd_op.poisson"
    signature = "x -> out"
    dtypes = (dt.float32, dt.float64)
    domain = (0.2, 9.0)
    effects = RANDOM


@op
class Multinomial:
    """Indices along the last dimension of `x`, drawn with its elements as weights.

    There are `num_samples` for each row, without `replacement` distinct ones. It is an error at run
    time if a weight is negative or not finite, or if too few of a row are positive.

    C1: `x` is a float tensor of one or two dimensions.
    C2: `num_samples` is positive, and at most the places if there is no replacement.
    """

    name = "pd_op.multinomial"
    signature = "x, num_samples: i32 = 1 ; replacement: bool = False -> out"
    dtypes = (dt.float32, dt.float64)
    domain = (0.1, 2.0)
    effects = RANDOM


infer_meta(Poisson)(infer_meta.of(StandardGamma))


@infer_meta(Multinomial)
def _(x: TensorMeta, *, num_samples: int | None, replacement: bool) -> TensorMeta:
    require(x.dtype.is_float and x.rank in (1, 2), "C1", f"{x} holds no weights")
    size, count = x.shape[-1], num_samples
    fits = count is None or (count > 0 and (replacement or size == UNKNOWN or count <= size))
    require(fits, "C2", f"{count} places of {size}")
    return TensorMeta((*x.shape[:-1], UNKNOWN if count is None else count), dt.int64)


@reference(Poisson)
def _(x: Array, *, rng: Rng) -> Array:
    return np.asarray(rng.poisson(x.astype(np.float64))).astype(x.dtype)


@reference(Multinomial)
def _(x: Array, *, num_samples: int, replacement: bool, rng: Rng) -> Array:
    """With replacement by the running sum of the weights, without by a race of exponential times:
    the first to arrive are drawn in their order (Efraimidis and Spirakis 2006)."""
    weights: Array = x.astype(np.float64)
    shape: tuple[int, ...] = x.shape
    if not np.all((weights >= 0) & (weights < np.inf)):
        raise RuntimeFault("multinomial: a weight is negative or not finite")
    if np.any(np.sum(weights > 0, axis=-1) < (1 if replacement else num_samples)):
        raise RuntimeFault("multinomial: fewer places than draws have a weight")
    if replacement:
        ends: Array = np.cumsum(weights, axis=-1)
        drawn = rng.random((*shape[:-1], num_samples)) * ends[..., -1:]
        return np.sum(ends[..., None, :] <= drawn[..., None], axis=-1)
    with np.errstate(divide="ignore"):
        times = -np.log1p(-np.asarray(rng.random(shape))) / weights
    return np.argsort(times, axis=-1, kind="stable")[..., :num_samples]


@samples(Poisson)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 3))


@samples(Multinomial)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 4), num_samples=6, replacement=True)
    yield s(s.tensor(4), num_samples=3)
    yield s(s.array([0.0, 1.0, 0.0]))


@bad_samples(Poisson)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((2,), 1, 5))


@bad_samples(Multinomial)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3, 4))
    yield "C2", s(s.tensor(3), num_samples=4)
    yield "C2", s(s.tensor(3), num_samples=0, replacement=True)
