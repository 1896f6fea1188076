"""Complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pirkit.dialect.kinds import ELEMENTWISE, INVOLUTION
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.elementwise.rounding import REAL_OF
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim, show, unchanged
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


@op
class Real:
    """The real parts.

    C1: `x` is complex.
    """

    name = "pd_op.real"
    signature = "x -> out"
    dtypes = dt.COMPLEX


@op
class Imag:
    """The imaginary parts.

    C1: `x` is complex.
    """

    name = "pd_op.imag"
    signature = "x -> out"
    dtypes = dt.COMPLEX


@infer_meta(Real, Imag)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype.is_complex, "C1", f"{x.dtype} has no real and imaginary part")
    return x.with_dtype(REAL_OF[x.dtype])


@reference(Real)
def _(x: Array) -> Array:
    return x.real


@reference(Imag)
def _(x: Array) -> Array:
    return x.imag


@op
class Conj:
    """The complex conjugate; a real tensor stays."""

    name = "pd_op.conj"
    traits = (INVOLUTION,)
    signature = "x -> out"
    dtypes = dt.NUMBERS


infer_meta(Conj)(unchanged)


@reference(Conj)
def _(x: Array) -> Array:
    return np.asarray(np.conj(x)) if x.dtype.kind == "c" else x


@op
class Angle:
    """Argument of a complex number in (-pi, pi]; 0 or pi for a real one.

    C1: `x` is a float or complex tensor.
    """

    name = "pd_op.angle"
    signature = "x -> out"
    dtypes = (*dt.FLOATS, *dt.COMPLEX)


@infer_meta(Angle)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype.is_float or x.dtype.is_complex, "C1", f"{x.dtype} has no angle")
    return x.with_dtype(REAL_OF.get(x.dtype, x.dtype))


@reference(Angle)
@in_f32
def _(x: Array) -> Any:
    if x.dtype.kind == "c":
        return np.angle(x)
    return np.where(x < 0, x.dtype.type(np.pi), np.where(x >= 0, x.dtype.type(0), x))


@samples(Real, Imag, Conj, Angle)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))


@bad_samples(Real, Imag)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, dtype=dt.float32))


@bad_samples(Angle)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))


@op
class Complex:
    """`real + 1j * imag`.

    C1: the shapes broadcast.
    C2: both parts are float32, or both float64.
    """

    name = "pd_op.complex"
    signature = "real, imag -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(Complex)
def _(real: TensorMeta, imag: TensorMeta) -> TensorMeta:
    parts = {part: entire for entire, part in REAL_OF.items()}
    fits = real.dtype is imag.dtype and real.dtype in parts
    require(fits, "C2", f"parts of dtypes {real.dtype} and {imag.dtype} make no complex number")
    return TensorMeta(broadcast(real.shape, imag.shape, constraint="C1"), parts[real.dtype])


@reference(Complex)
def _(real: Array, imag: Array) -> Array:
    shape = np.broadcast_shapes(real.shape, imag.shape)
    out = np.empty(shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    out.real = real
    out.imag = imag
    return out


@samples(Complex)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 1), s.tensor(3))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(0, 2), s.tensor(2))


@bad_samples(Complex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2), s.tensor(3))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))


@op
class AsComplex:
    """Complex numbers from pairs: the last dimension holds real and imaginary part, and goes.

    C1: `x` is float32 or float64.
    C2: the last dimension of `x` is 2.
    """

    name = "pd_op.as_complex"
    signature = "x -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(AsComplex)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype in dt.COMPLEX_OF, "C1", f"{x.dtype} is no part of a complex number")
    pairs = x.rank > 0 and same_dim(x.shape[-1], 2)
    require(pairs, "C2", f"shape {show(x.shape)} does not end in 2")
    return TensorMeta(x.shape[:-1], dt.COMPLEX_OF[x.dtype])


@reference(AsComplex)
def _(x: Array) -> Array:
    out = np.empty(x.shape[:-1], dt.COMPLEX_OF[dt.of_array(x)].np)
    out.real, out.imag = x[..., 0], x[..., 1]
    return out


@op
class AsReal:
    """Real and imaginary part of each number, in a new last dimension of 2.

    C1: `x` is complex.
    """

    name = "pd_op.as_real"
    signature = "x -> out"
    dtypes = dt.COMPLEX


@infer_meta(AsReal)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype.is_complex, "C1", f"{x.dtype} has no real and imaginary part")
    return TensorMeta((*x.shape, 2), dt.REAL_OF[x.dtype])


@reference(AsReal)
def _(x: Array) -> Array:
    return np.stack((x.real, x.imag), axis=-1)


@samples(AsComplex)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 2))
    yield s(s.tensor(2))
    yield s(s.tensor(0, 2))


@bad_samples(AsComplex)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((3, 2), 0, 3))
    yield "C2", s(s.tensor(2, 3))
    yield "C2", s(s.tensor())


@samples(AsReal)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))


@bad_samples(AsReal)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, dtype=dt.float32))
