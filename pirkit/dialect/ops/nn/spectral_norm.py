"""Weights divided by their greatest singular value."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.diag.limits import check
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import numel, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "normalization"


@op
class SpectralNorm:
    """`weight` divided by its greatest singular value, as dimension `dim` against the others.

    `power_iters` steps of the power method bring `u` and `v` closer to the singular vectors; `eps`
    is added to the norms that they are divided by. As in Paddle the vectors count as constants in
    the derivative.

    C1: `weight` has two to five dimensions.
    C2: `dim` is 0 or 1.
    C3: `power_iters` is not negative; LimitError for more than `loop_steps`.
    C4: `u` has the length of dimension `dim`, `v` that of the others together.
    """

    name = "pd_op.spectral_norm"
    signature = "weight, u, v ; dim: i32 = 0, power_iters: i32 = 1, eps: f32 = 1e-12 -> out"
    dtypes = (dt.float32, dt.float64)
    same_dtype = ("weight", "u", "v")
    no_gradient = ("u", "v")


@infer_meta(SpectralNorm)
def _(
    weight: TensorMeta, u: TensorMeta, v: TensorMeta, *, dim: int, power_iters: int, **_: object
) -> TensorMeta:
    require(2 <= weight.rank <= 5, "C1", f"a weight of shape {show(weight.shape)}")
    require(dim in (0, 1), "C2", f"dim {dim}")
    require(power_iters >= 0, "C3", f"{power_iters} steps")
    check("loop_steps", power_iters)
    others = numel([d for i, d in enumerate(weight.shape) if i != dim])
    for vector, length in ((u, weight.shape[dim]), (v, others)):
        fits = UNKNOWN in (length, numel(vector.shape)) or numel(vector.shape) == length
        require(fits, "C4", f"a vector {show(vector.shape)} for {show(weight.shape)}")
    return weight


@reference(SpectralNorm)
def _(weight: Array, u: Array, v: Array, *, dim: int, power_iters: int, eps: float) -> Array:
    matrix = np.moveaxis(weight, dim, 0).reshape(u.size, v.size)
    u, v = u.reshape(-1), v.reshape(-1)
    for _ in range(power_iters):
        v = matrix.T @ u
        v = v / (np.linalg.norm(v) + weight.dtype.type(eps))
        u = matrix @ v
        u = u / (np.linalg.norm(u) + weight.dtype.type(eps))
    return np.asarray(weight / (u @ matrix @ v), weight.dtype)


@samples(SpectralNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(3), s.tensor(4))
    yield s(s.tensor(3, 4), s.tensor(3), s.tensor(4), power_iters=0)
    yield s(s.tensor(2, 3, 2, 2), s.tensor(3), s.tensor(8), dim=1, power_iters=3, eps=1e-6)


@bad_samples(SpectralNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), s.tensor(3), s.tensor(1))
    yield "C2", s(s.tensor(3, 4, 2), s.tensor(2), s.tensor(12), dim=2)
    yield "C3", s(s.tensor(3, 4), s.tensor(3), s.tensor(4), power_iters=-1)
    yield "C4", s(s.tensor(3, 4), s.tensor(4), s.tensor(3))
