"""Fourier transforms, linear algebra, and the calls of LAPACK that jax makes on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.rules import rule

_KINDS: Final = "sdcz"
"""First letters of LAPACK's names: float32, float64, complex64, complex128."""


@rule("fft")
def _(b: HloBuilder, x: Value, fft_type: str, fft_length: Sequence[int]) -> Value:
    """Transforms the last dimensions, one for each length."""
    axes = tuple(range(x.rank - len(fft_length), x.rank))
    how: dict[str, Any] = {"axes": axes, "normalization": "backward"}
    match fft_type:
        case "FFT" | "IFFT":
            return b.fft_c2c(x, forward=fft_type == "FFT", **how)
        case "RFFT":
            return b.fft_r2c(x, forward=True, onesided=True, **how)
        case "IRFFT":
            return b.fft_c2r(x, forward=False, last_dim_size=fft_length[-1], **how)
        case _:
            raise b.malformed(f"`{fft_type}` is no Fourier transform")


@rule("cholesky")
def _(b: HloBuilder, x: Value, lower: bool = False) -> Value:
    return b.cholesky(x, upper=not lower)


@rule("triangular_solve")
def _(
    b: HloBuilder, x: Value, y: Value, left_side: bool, lower: bool, unit_diagonal: bool,
    transpose_a: str,
) -> Value:  # fmt: skip
    return _solved(b, x, y, left_side, lower, unit_diagonal, transpose_a[0])


def _turned(b: HloBuilder, x: Value) -> Value:
    return b.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _solved(
    b: HloBuilder, x: Value, y: Value, left: bool, lower: bool, unit: bool, how: str
) -> Value:
    """Solves ``op(x) @ out = y``, or ``out @ op(x) = y`` by its transpose.

    ``how`` begins with the first letter of TRANSPOSE, ADJOINT or NO_TRANSPOSE, or is LAPACK's.
    """
    if how in ("A", "C"):
        x = b.conj(x) if x.dtype.is_complex else x
    is_transposed = how in ("T", "A", "C")
    if not left:
        y, is_transposed = _turned(b, y), not is_transposed
    found = b.triangular_solve(x, y, upper=not lower, transpose=is_transposed, unitriangular=unit)
    return found if left else _turned(b, found)


def _letter(b: HloBuilder, name: str, default: str) -> str:
    """An attribute of a call, which jax gives as the code of a letter."""
    held: dict[str, int] = b.node.attributes.get("mhlo.backend_config") or {}
    return chr(held[name]) if name in held else default


def _lapack(*names: str) -> Any:
    return rule(*[f"custom_call:lapack_{kind}{name}_ffi" for name in names for kind in _KINDS])


def _fine(b: HloBuilder, number: int) -> Value:
    """LAPACK's result ``info``: 0, for success."""
    return b.filled(0, dt.int32, b.outs[number].sizes)


@_lapack("trsm")
def _(b: HloBuilder, x: Value, y: Value) -> Value:
    return _solved(b, x, y, _letter(b, "side", "L") == "L", _letter(b, "uplo", "L") == "L",
                   _letter(b, "diag", "N") == "U", _letter(b, "trans_x", "N"))  # fmt: skip


@_lapack("potrf")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    upper = _letter(b, "uplo", "L") == "U"
    return b.cholesky(x, upper=upper), _fine(b, 1)


@_lapack("getrf")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    """Pivots count from 1, as in LAPACK; jax subtracts 1."""
    out, pivots, _ = b.lu(x)
    return out, b.cast(pivots, dt.int32), _fine(b, 2)


@_lapack("syevd", "heevd")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    values, vectors = b.eigh(x, UPLO=_letter(b, "uplo", "L"))
    return vectors, values, _fine(b, 2)


@_lapack("gesdd", "gesvd")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    """The results are: the operand, which LAPACK overwrites; singular values; U; V transposed."""
    mode = _letter(b, "mode", "A")
    u, s, v = b.svd(x, full_matrices=mode == "A")
    if mode == "N":  # nothing reads the vectors
        u, v = (b.filled(0.0, t.dtype, t.sizes) for t in b.outs[2:4])
    return x, s, u, v, _fine(b, 4)


@_lapack("geqrf")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    """R, and factors of reflectors. `orgqr`, which computes Q from reflectors, finds Q by them.

    No reflectors are computed: Q is remembered in ``b.reflected``.
    """
    q, r = b.qr(x, mode="complete")
    taus = b.filled(0.0, b.outs[1].dtype, b.outs[1].sizes)
    taus = b.assign(taus)
    b.reflected[taus.ssa] = q
    return r, taus


@_lapack("orgqr", "ungqr")
def _(b: HloBuilder, x: Value, taus: Value) -> Value:
    """The first columns of Q; the operands must come from `geqrf`."""
    q = b.reflected.get(taus.ssa)
    if q is None:
        raise b.unsupported("of reflectors that no QR factorization beside it made has no rule")
    return b.cut(q, q.rank - 1, 0, b.outs[0].sizes[-1])


@_lapack("geev")
def _(b: HloBuilder, x: Value) -> tuple[Value, ...]:
    """Eigenvalues; those of a real matrix as real and imaginary parts.

    Raises UnsupportedError (PK0411) if eigenvectors are wanted; their results are zeros.
    """
    values, _ = b.eig(x)
    if "V" in (_letter(b, "compute_left", "N"), _letter(b, "compute_right", "N")):
        raise b.unsupported("gives eigenvectors of a matrix without symmetry, which has no rule",
                            "use `jnp.linalg.eigh` where the matrix is symmetric")  # fmt: skip
    unread = [b.filled(0.0, t.dtype, t.sizes) for t in b.outs[-3:-1]]
    parts = [values] if x.dtype.is_complex else [b("pd_op.real", values), b("pd_op.imag", values)]
    return *parts, *unread, _fine(b, len(b.outs) - 1)
