"""Triangular factors, eigenvalues of any matrix, ranks, and least squares.

Derivatives after C. Boeddeker, P. Hanebrink et al., "On the computation of complex-valued gradients
with application to statistically optimum beamforming" (2017). Eigenvalues have to differ; of an
eigenvector only what does not depend on its phase has a derivative.
"""

from __future__ import annotations

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.operation import origin_of, span_of
from pirkit.dialect.rules.linalg.factorization import inverse_gaps
from pirkit.dialect.rules.linalg.solve import adjoint, transposed
from pirkit.dialect.rules.movement.movement import arange, from_start
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

_LOWER = {"upper": False, "transpose": False, "unitriangular": True}
_UPPER = {"upper": True, "transpose": False, "unitriangular": False}


# --- triangular factors --------------------------------------------------------------------------


@decompose("pd_op.lu_unpack")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x = c.b, c.x
    rows, columns = x.shape[-2:]
    if UNKNOWN in (rows, columns):
        return NotImplemented
    least = min(rows, columns)
    nothing = b.const(0.0, dt.float32, (0,))
    lower, upper = nothing, nothing
    if c.unpack_ludata:
        lower = _unit_lower(b, _columns(b, x, 0, least))
        upper = b.triu(_rows(b, x, 0, least), diagonal=0)
    return _permutation(b, c.y, x) if c.unpack_pivots else nothing, lower, upper


def _unit_lower(b: Builder, x: Value) -> Value:
    below = b.tril(x, diagonal=-1)
    ones = b.ones_like(x)
    return below + b.tril(b.triu(ones, diagonal=0), diagonal=0)


def _rows(b: Builder, x: Value, start: int, stop: int) -> Value:
    return _part(b, x, x.rank - 2, start, stop)


def _columns(b: Builder, x: Value, start: int, stop: int) -> Value:
    return _part(b, x, x.rank - 1, start, stop)


def _part(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    if start == stop and UNKNOWN not in x.shape:  # a slice keeps one element at least
        return b.const(0.0, x.dtype, (*x.shape[:axis], 0, *x.shape[axis + 1 :]))
    return b.slice(x, axes=(axis,), starts=(start,), ends=(stop,), infer_flags=(1,),
                   decrease_axis=())  # fmt: skip


def _permutation(b: Builder, pivots: Value, x: Value) -> Value:
    """The matrix that undoes the exchanges: row i of ``order`` went to place i."""
    order = arange(b, x, x.rank - 2)
    batch_and_rows = x.shape[:-1]
    if UNKNOWN in batch_and_rows:
        order = b.expand_like(order, x[..., 0])
    else:
        order = b.expanded(order, batch_and_rows)
    axis = order.rank - 1
    for i in range(min(x.shape[-2:])):
        here = _part(b, order, axis, i, i + 1)
        place = from_start(b, b.cast(_part(b, pivots, axis, i, i + 1), dt.int64) - 1)
        there = b.take_along_axis(order, place, axis=axis)
        order = b.put_along_axis(order, place, here, axis=axis, reduce="assign")
        order = b.put_along_axis(order, b.zeros_like(place) + i, there, axis=axis, reduce="assign")
    numbers = b.unsqueeze(arange(b, x, x.rank - 2), axis=(1,))
    return b.cast(b.equal(numbers, b.unsqueeze(order, axis=(-2,))), x.dtype)


@vjp("pd_op.lu")
def _(c: OpCall, g: Value, *_: None) -> Value:
    """The rows of ``x`` are exchanged; the triangles share what their product is moved by."""
    b, x = c.b, c.x
    rows, columns = x.shape[-2:]
    if UNKNOWN in (rows, columns):
        raise UnsupportedError(
            f"the derivative of `{c.op.name}` has to know whether there are more rows or columns",
            code="PK0402",
            span=span_of(c.op),
            notes=origin_of(c.op),
            help="state the sizes of its operand",
        )
    least = min(rows, columns)
    exchanged, lower, upper = b.lu_unpack(c.out, c.pivots)
    of_lower = b.tril(_columns(b, g, 0, least), diagonal=-1)
    of_upper = b.triu(_rows(b, g, 0, least), diagonal=0)
    if rows < columns:
        found = _wide(b, lower, upper, of_lower, of_upper)
    elif rows > columns:
        found = _tall(b, lower, upper, of_lower, of_upper)
    else:
        found = _square(b, lower, upper, of_lower, of_upper)
    return exchanged @ found


def _square(b: Builder, lower: Value, upper: Value, of_lower: Value, of_upper: Value) -> Value:
    both = b.tril(adjoint(b, lower) @ of_lower, diagonal=-1)
    both = both + b.triu(of_upper @ adjoint(b, upper), diagonal=0)
    return _at_end(b, _in_front(b, lower, both), upper)


def _in_front(b: Builder, lower: Value, x: Value) -> Value:
    """``inverse(adjoint(lower)) @ x``."""
    flags = {"upper": True, "transpose": False, "unitriangular": True}
    return b.triangular_solve(adjoint(b, lower), x, **flags)


def _at_end(b: Builder, x: Value, upper: Value) -> Value:
    """``x @ inverse(adjoint(upper))``."""
    return adjoint(b, b.triangular_solve(upper, adjoint(b, x), **_UPPER))


def _wide(b: Builder, lower: Value, upper: Value, of_lower: Value, of_upper: Value) -> Value:
    """Columns on the right are the left factor's equations solved for them."""
    rows, columns = upper.shape[-2:]
    right = _in_front(b, lower, _columns(b, of_upper, rows, columns))
    moved = right @ adjoint(b, _columns(b, upper, rows, columns))
    left = _square(
        b,
        lower,
        _columns(b, upper, 0, rows),
        of_lower - b.tril(moved, diagonal=-1),
        b.triu(_columns(b, of_upper, 0, rows), diagonal=0),
    )
    return b.concat([left, right], axis=-1)


def _tall(b: Builder, lower: Value, upper: Value, of_lower: Value, of_upper: Value) -> Value:
    """Rows at the bottom are the right factor's equations solved for them."""
    rows, columns = lower.shape[-2:]
    bottom = _at_end(b, _rows(b, of_lower, columns, rows), upper)
    moved = adjoint(b, _rows(b, lower, columns, rows)) @ bottom
    top = _square(
        b,
        _rows(b, lower, 0, columns),
        upper,
        _rows(b, of_lower, 0, columns),
        of_upper - b.triu(moved, diagonal=0),
    )
    return b.concat([top, bottom], axis=-2)


# --- eigenvalues ---------------------------------------------------------------------------------


@vjp("pd_op.eig")
def _(c: OpCall, of_w: Value | None, of_v: Value | None) -> Value | None:
    b, w, v = c.b, c.out_w, c.out_v
    adjoint_of = adjoint(b, v)
    inner: Value | None = None
    if of_v is not None:
        derivative = adjoint_of @ of_v
        own = b.cast(b.real(b.diagonal(derivative, offset=0, axis1=-2, axis2=-1)), v.dtype)
        derivative = derivative - (adjoint_of @ v) * b.unsqueeze(own, axis=(-2,))
        inner = derivative * inverse_gaps(b, b.conj(w), b.conj(w))
    if of_w is not None:
        values = b.diag_embed(b.cast(of_w, v.dtype))
        inner = values if inner is None else inner + values
    if inner is None:
        return None
    found = b.solve(adjoint_of, inner @ adjoint_of)
    return found if c.x.dtype.is_complex else b.cast(b.real(found), c.x.dtype)


@decompose("pd_op.eigvals")
def _(c: OpCall) -> Value:
    return c.b.eig(c.x)[0]


@decompose("pd_op.matrix_rank")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.wide(c.x)
    sizes = b.abs(b.eigh(x)[0]) if c.hermitian else b.svd(x)[1]
    if not c.use_default_tol:
        above = sizes > float(c.tol)
    elif UNKNOWN in x.shape[-2:]:
        return NotImplemented
    elif 0 in x.shape[-2:]:
        above = sizes > 0.0
    else:
        share = float(x.dtype.limits.eps) * max(x.shape[-2:])
        above = b.greater_than(sizes, b("pd_op.max", sizes, axis=(-1,), keepdim=True) * share)
    return b.sum(b.cast(above, dt.int64), (sizes.rank - 1,))


@decompose("pd_op.lstsq")
def _(c: OpCall) -> tuple[Value, ...]:
    b, x, y = c.b, c.x, c.y
    if UNKNOWN in x.shape[-2:] or isinstance(c.rcond, Value):
        return NotImplemented
    u, sizes, vh = b.svd(x, full_matrices=False)
    bound = 0.0 if c.driver == "gels" else c.rcond
    if 0 in x.shape[-2:]:  # there is no greatest of none
        remaining = sizes > 0.0
    else:
        remaining = b.greater_than(sizes, b("pd_op.max", sizes, axis=(-1,), keepdim=True) * bound)
    inverse = b.where(remaining, 1 / b.where(remaining, sizes, 1.0), b.zeros_like(sizes))
    solution = transposed(b, vh) @ (b.unsqueeze(inverse, axis=(-1,)) * (transposed(b, u) @ y))
    nothing = b.const(0.0, x.dtype, (0,))
    remains = nothing
    if c.driver != "gelsy" and x.shape[-2] > x.shape[-1]:
        away = y - x @ solution
        remains = b.sum(away * away, (away.rank - 2,))
    rank = b.const(0, dt.int64, (0,))
    if c.driver != "gels":
        rank = b.cast(b.sum(b.cast(remaining, dt.int64), (sizes.rank - 1,)), dt.int32)
    return solution, remains, rank, sizes if c.driver in ("gelsd", "gelss") else nothing
