"""Special functions: Bessel functions, gamma functions, the inverse of the error function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import bessel, special_functions
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.gamma import gammaincc
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


class _FloatFunction:
    """C1: `x` is a float tensor."""

    signature = "x -> out"
    dtypes = dt.FLOATS
    cost = COSTLY


@op
class Erfinv(_FloatFunction):
    """Inverse of the error function: infinite at 1 and -1, NaN beyond."""

    name = "pd_op.erfinv"
    domain = (-0.99, 0.99)
    inplace = {"out": "x"}


@op
class I0(_FloatFunction):
    """Modified Bessel function of the first kind, of order 0."""

    name = "pd_op.i0"
    inplace = {"out": "x"}


@op
class I0e(_FloatFunction):
    """`i0` times `exp(-|x|)`."""

    name = "pd_op.i0e"


@op
class I1(_FloatFunction):
    """Modified Bessel function of the first kind, of order 1."""

    name = "pd_op.i1"


@op
class I1e(_FloatFunction):
    """`i1` times `exp(-|x|)`."""

    name = "pd_op.i1e"


@op
class Gammaln(_FloatFunction):
    """Logarithm of the absolute value of the gamma function."""

    name = "pd_op.gammaln"
    domain = (0.5, 6.0)
    inplace = {"out": "x"}


@op
class Polygamma:
    """The derivative of order `n` of `digamma`; infinite at 0 and the negative integers.

    C1: `x` is a float tensor.
    C2: `n` is at least 1 (order 0 is `digamma` itself) and at most 1000.
    """

    name = "pd_op.polygamma"
    cost = COSTLY
    signature = "x ; n: i32 -> out"
    dtypes = dt.FLOATS
    domain = (0.5, 6.0)
    inplace = {"out": "x"}


@op
class Logit:
    """`log(x / (1 - x))`, with `x` moved into [`eps`, `1 - eps`]; NaN outside [0, 1] if `eps` is 0.

    C1: `x` is a float tensor.
    C2: `eps` is at least 0 and less than 1/2.
    """

    name = "pd_op.logit"
    signature = "x ; eps: f64 = 1e-6 -> out"
    dtypes = dt.FLOATS
    domain = (0.01, 0.99)
    inplace = {"out": "x"}


def _logit(x: Array, *, eps: float) -> Array:
    low = x.dtype.type(eps)
    inside = np.clip(x, low, 1 - low) if eps else x
    with np.errstate(all="ignore"):
        return np.asarray(np.log(inside / (1 - inside)))


def _polygamma(x: Array, *, n: int) -> Array:
    return bessel.polygamma(x, n)


FUNCTIONS: Final[tuple[tuple[Any, Callable[..., Array]], ...]] = (
    (Erfinv, bessel.erfinv),
    (I0, partial(bessel.bessel_i, order=0, scaled=False)),
    (I0e, partial(bessel.bessel_i, order=0, scaled=True)),
    (I1, partial(bessel.bessel_i, order=1, scaled=False)),
    (I1e, partial(bessel.bessel_i, order=1, scaled=True)),
    (Gammaln, special_functions.lgamma),
)


@infer_meta(*(o for o, _ in FUNCTIONS))
def _float_only(x: TensorMeta, **_: object) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"not defined for {x.dtype}")
    return x


@infer_meta(Logit)
def _(x: TensorMeta, *, eps: float) -> TensorMeta:
    require(0 <= eps < 0.5, "C2", f"`eps` is {eps}")
    return _float_only(x)


MOST_DERIVATIVES: Final = 1000
"""Derivatives of higher order overflow except for very large `x`, and take long."""


@infer_meta(Polygamma)
def _(x: TensorMeta, *, n: int) -> TensorMeta:
    require(1 <= n <= MOST_DERIVATIVES, "C2", f"order {n}")
    return _float_only(x)


for _op, _function in (*FUNCTIONS, (Logit, _logit), (Polygamma, _polygamma)):
    reference(_op)(in_f32(_function))


@samples(*(o for o, _ in FUNCTIONS), Logit)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 4))


@samples(Polygamma)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), n=1)
    yield s(s.array([-0.5, -2.25, 9.0]), n=2)
    yield s(s.tensor(0, 4), n=3)


@bad_samples(*(o for o, _ in FUNCTIONS), Logit)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))
    if s.definition.base is Logit:
        yield "C2", s(s.tensor(3), eps=float("nan"))


@bad_samples(Polygamma)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3), n=1)
    yield "C2", s(s.tensor(3), n=0)


@op
class Gammaincc:
    """The regularized upper incomplete gamma function Q(`x`, `y`); 1 where one is not positive.

    Where `y` is infinite it is 0; Paddle gives NaN. As in Paddle, `x` has no gradient.

    C1: the shapes of `x` and `y` broadcast.
    C2: `x` and `y` are float tensors of one dtype.
    """

    name = "pd_op.gammaincc"
    cost = COSTLY
    signature = "x, y -> out"
    dtypes = (dt.float32, dt.float64)
    no_gradient = ("x",)
    domain = (0.5, 6.0)
    inplace = {"out": "x"}


@infer_meta(Gammaincc)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    fits = x.dtype is y.dtype and x.dtype.is_float
    require(fits, "C2", f"dtypes {x.dtype} and {y.dtype} are not one float type")
    return x.with_shape(broadcast(x.shape, y.shape, constraint="C1"))


@reference(Gammaincc)
def _(x: Array, y: Array) -> Array:
    return np.asarray(gammaincc(x, y)).astype(x.dtype)


@samples(Gammaincc)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 1), s.tensor(3))
    yield s(s.array([2.0, -1.0, 0.5]), s.array([-1.0, 2.0, 30.0]))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(0, 4), s.tensor(4))


@bad_samples(Gammaincc)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((3,), 1, 4), s.ints((3,), 1, 4))
