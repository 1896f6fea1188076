"""Factorizations of matrices.

Derivatives after M. Giles (2008) and J. Townsend, "Differentiating the singular value
decomposition" (2016). Like the factorizations themselves, they need values that differ. Matrices of
which only one triangle is read have the derivative of a symmetric function: half for each triangle.
"""

from __future__ import annotations

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.operation import origin_of, span_of
from pirkit.dialect.rules.linalg.solve import adjoint, transposed
from pirkit.dialect.rules.movement.movement import END, part
from pirkit.dialect.rules.movement.size_ops import sizes_of
from pirkit.runtime.meta import UNKNOWN


def _refused(c: OpCall, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"`{c.op.name}` has no derivative {what}",
        code="PK0402",
        span=span_of(c.op),
        notes=origin_of(c.op),
        help="use the reduced form, or stop the gradient before it",
    )


def _right_of(b: Builder, x: Value, upper: Value) -> Value:
    """``x @ inverse(adjoint(upper))`` for an upper triangular matrix."""
    adjoint_of = b.triangular_solve(
        upper, adjoint(b, x), upper=True, transpose=False, unitriangular=False
    )
    return adjoint(b, adjoint_of)


@vjp("pd_op.cholesky")
def _(c: OpCall, g: Value) -> Value:
    b = c.b
    lower = transposed(b, c.out) if c.upper else c.out
    derivative = transposed(b, g) if c.upper else g
    half = b.tril(transposed(b, lower) @ derivative, diagonal=0)
    half = half - b.tril(b.triu(half, diagonal=0), diagonal=0) * 0.5
    solve = {"upper": False, "transpose": True, "unitriangular": False}
    left = b.triangular_solve(lower, half, **solve)
    found = transposed(b, b.triangular_solve(lower, transposed(b, left), **solve))
    return (found + transposed(b, found)) * 0.5


@vjp("pd_op.qr")
def _(c: OpCall, of_q: Value | None, of_r: Value | None) -> Value:
    """A wide matrix is a square one, and columns that only the upper triangle sees.

    So is, with no such columns, one of which is unknown whether it is wide.
    """
    b, x = c.b, c.x
    rows, columns = x.shape[-2:]
    if c.mode != "reduced":
        raise _refused(c, f"with mode {c.mode!r}")
    of_q = b.zeros_like(c.q) if of_q is None else of_q
    of_r = b.zeros_like(c.r) if of_r is None else of_r
    if rows >= columns and UNKNOWN not in (rows, columns):
        return _square_qr(b, c.q, c.r, of_q, of_r)
    last = (x.rank - 1,)
    least = sizes_of(b, c.q)[-1]
    border = least if isinstance(least, Value) else (least,)

    def head(v: Value) -> Value:
        return part(b, v, last, (0,), border)

    def tail(v: Value) -> Value:
        return part(b, v, last, border, (END,))

    of_q = of_q + tail(x) @ adjoint(b, tail(of_r))
    left = _square_qr(b, c.q, head(c.r), of_q, head(of_r))
    return b.concat([left, c.q @ tail(of_r)], axis=-1)


def _square_qr(b: Builder, q: Value, r: Value, of_q: Value, of_r: Value) -> Value:
    m = r @ adjoint(b, of_r) - adjoint(b, of_q) @ q
    both = b.tril(m, diagonal=0) + adjoint(b, b.tril(m, diagonal=-1))
    return _right_of(b, of_q + q @ both, r)


@vjp("pd_op.eigh")
def _(c: OpCall, of_w: Value | None, of_v: Value | None) -> Value | None:
    b, w, v = c.b, c.out_w, c.out_v
    adjoint_of = adjoint(b, v)
    inner: Value | None = None
    if of_v is not None:
        gaps = inverse_gaps(b, w, w)
        inner = b.cast(gaps, v.dtype) * (adjoint_of @ of_v)
    if of_w is not None:
        own = b.diag_embed(b.cast(of_w, v.dtype))
        inner = own if inner is None else inner + own
    if inner is None:
        return None
    found = v @ inner @ adjoint_of
    return (found + adjoint(b, found)) * 0.5


def inverse_gaps(b: Builder, rows: Value, columns: Value) -> Value:
    """``1 / (columns[j] - rows[i])``, zero on the diagonal."""
    gaps, same = _gaps(b, rows, columns)
    return (1.0 - same) / gaps


def _gaps(b: Builder, rows: Value, columns: Value) -> tuple[Value, Value]:
    """``columns[j] - rows[i]``, 1 on the diagonal; and the identity matrix."""
    gaps = b.unsqueeze(columns, axis=(-2,)) - b.unsqueeze(rows, axis=(-1,))
    same = b.tril(b.triu(b.ones_like(gaps), diagonal=0), diagonal=0)
    return gaps + same, same


def over_gaps(b: Builder, x: Value, values: Value) -> Value:
    """``x`` times `inverse_gaps`, but zero, with its derivatives, where both are zero.

    The condition asks for both: a derivative by ``x`` where only ``x`` is zero is the inverse gap.
    """
    gaps, same = _gaps(b, values, values)
    unused = b.logical_and(b.equal(gaps, b.zeros_like(gaps)), b.equal(x, b.zeros_like(x)))
    inverse = (1.0 - same) / b.where(unused, b.ones_like(gaps), gaps)
    return b.where(unused, b.zeros_like(inverse), inverse) * x


@vjp("pd_op.svd")
def _(c: OpCall, of_u: Value | None, of_s: Value | None, of_vh: Value | None) -> Value | None:
    b, u, s, vh = c.b, c.u, c.s, c.vh
    vectors = of_u is not None or of_vh is not None
    if vectors and c.full_matrices and c.x.shape[-1] != c.x.shape[-2]:
        raise _refused(c, "of its vectors with full matrices")
    if vectors and c.x.dtype.is_complex:
        raise _refused(c, "of its vectors for complex numbers")
    count = s.shape[-1]
    if c.full_matrices:
        u, vh = _first(b, u, u.rank - 1, count), _first(b, vh, vh.rank - 2, count)
    across, down = b.unsqueeze(s, axis=(-2,)), b.unsqueeze(s, axis=(-1,))
    inner = None if of_s is None else b.diag_embed(b.cast(of_s, u.dtype))
    outer: list[Value | None] = []
    squares = s * s
    if of_u is not None:
        adjoint_of = adjoint(b, u) @ of_u
        skew = over_gaps(b, adjoint_of - adjoint(b, adjoint_of), squares) * across
        inner = skew if inner is None else inner + skew
        outer.append(((of_u - u @ adjoint_of) / across) @ vh)
    if of_vh is not None:
        of_v = adjoint(b, of_vh)
        adjoint_of = vh @ of_v
        skew = down * over_gaps(b, adjoint_of - adjoint(b, adjoint_of), squares)
        inner = skew if inner is None else inner + skew
        outer.append(u @ adjoint(b, (of_v - adjoint(b, vh) @ adjoint_of) / across))
    if inner is None:
        return None
    return b.total([u @ inner @ vh, *outer])


def _first(b: Builder, x: Value, axis: int, count: int) -> Value:
    return b.slice(x, starts=(0,), ends=(count,), axes=(axis,), infer_flags=(1,), decrease_axis=())


@decompose("pd_op.svdvals")
def _(c: OpCall) -> Value:
    return c.b.svd(c.x, full_matrices=False)[1]


@decompose("pd_op.eigvalsh_grad")
def _(c: OpCall) -> Value:
    b, v = c.b, c.eigenvectors
    return v @ b.diag_embed(b.cast(c.eigenvalues_grad, v.dtype)) @ adjoint(b, v)


@decompose("pd_op.eigvalsh")
def _(c: OpCall) -> tuple[Value, Value | None]:
    values, vectors = c.b.eigh(c.x, UPLO=c.uplo)
    return values, vectors if c.is_used("eigenvectors") else None
