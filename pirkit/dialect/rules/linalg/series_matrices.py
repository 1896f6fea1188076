"""Taylor series of inverses, determinants, systems of equations and factorizations.

Each follows from the equation that defines the result, order by order: what is known of order k is
moved to one side, and the op itself, or its inverse, solves for the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet
from pirkit.dialect.rules.linalg.cofactors import determinants, has_cofactors
from pirkit.dialect.rules.linalg.factorization import inverse_gaps
from pirkit.dialect.rules.linalg.solve import adjoint, solves_vectors, transposed
from pirkit.dialect.rules.taylor.series import Coefficient, Series, integrated, scaled

Product = Callable[[Value, Value], Value]


def _product(p: Value, q: Value) -> Value:
    return p @ q


def _rest(b: Builder, x: Series, y: Series, k: int, multiply: Product = _product) -> Coefficient:
    """Coefficient k of a product, without the term that has the value of ``x``."""
    return _sum_of_products(b, x, y, k, multiply, lambda i, _: bool(i))


def _sum_of_products(
    b: Builder, x: Series, y: Series, k: int, multiply: Product, keeps: Callable[[int, int], bool]
) -> Coefficient:
    """The products of rows i and j in row k of a product, for those pairs that ``keeps`` takes."""
    found: Series = []
    for i, j, factor in b.algebra.pairs[k]:
        p, q = (x[i], y[j]) if keeps(i, j) else (None, None)
        found.append(None if p is None or q is None else scaled(multiply(p, q), factor))
    return b.total(found)


def _both(i: int, j: int) -> bool:
    return bool(i and j)


def _inverse(b: Builder, x: Series, first: Value) -> Series:
    """Coefficients of the inverses, from 0 on: ``x z = 1``."""
    z: Series = [first]
    for k in range(1, len(x)):
        rest = _rest(b, x, z, k)
        z.append(None if rest is None else -(first @ rest))
    return z


@jet("pd_op.inverse")
def _(c: OpCall, x: Series) -> Series:
    return _inverse(c.b, [c.x, *x], c.out)[1:]


# --- systems of equations ------------------------------------------------------------------------


@jet("pd_op.solve")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """``x z = y``."""
    b = c.b
    vectors = solves_vectors(c)

    def multiply(p: Value, q: Value) -> Value:
        return b.squeeze(p @ b.unsqueeze(q, axis=(-1,)), axis=(-1,)) if vectors else p @ q

    return _solved(c, x, y, multiply, lambda rest: b.solve(c.x, rest))


@jet("pd_op.triangular_solve")
def _(c: OpCall, x: Series, y: Series) -> Series:
    """As `solve`, of the triangle that is read."""
    b = c.b
    off = int(c.unitriangular)

    def read(v: Coefficient) -> Coefficient:
        if v is None:
            return None
        remaining: Value = b.triu(v, diagonal=off) if c.upper else b.tril(v, diagonal=-off)
        return transposed(b, remaining) if c.transpose else remaining

    return _solved(c, [read(v) for v in x], y, _product, lambda rest: c.again(c.x, rest))


def _solved(
    c: OpCall, x: Series, y: Series, multiply: Product, solve: Callable[[Value], Value]
) -> Series:
    b = c.b
    z: Series = [c.out]
    for k in range(1, len(x) + 1):
        rest = b.total([y[k - 1], scaled(_rest(b, [c.x, *x], z, k, multiply), -1)])
        z.append(None if rest is None else solve(b.expand_like(rest, c.out)))
    return z[1:]


# --- determinants --------------------------------------------------------------------------------


def _traces(c: OpCall, x: Series) -> Series:
    """Of the logarithm of the determinant, whose slope is ``tr(inverse(x) x')``."""
    b = c.b
    full: Series = [c.x, *x]
    inverse = _inverse(b, full, b.inverse(c.x))
    found: Series = []
    for k in range(1, len(full)):
        terms: Series = []
        for i, j, factor in b.algebra.pairs[k]:
            p, q, share = inverse[j], full[i], factor * b.algebra.degrees[i] / b.algebra.degrees[k]
            if i and p is not None and q is not None:
                terms.append(b.trace(p @ q, offset=0, axis1=-2, axis2=-1) * share)
        found.append(b.total(terms))
    return found


@jet("pd_op.det")
def _(c: OpCall, x: Series) -> Series:
    """By cofactors; for large matrices the product of itself and the slope of its logarithm."""
    b = c.b
    if has_cofactors(c.x):
        return determinants(b, [c.x, *x])[1:]
    logarithm: Series = [None, *_traces(c, x)]
    z: Series = [c.out]
    for k in range(1, len(x) + 1):
        z.append(integrated(b, z, logarithm, k))
    return z[1:]


@jet("pd_op.slogdet")
def _(c: OpCall, x: Series) -> Series:
    """The sign stays."""
    b = c.b
    local_derivatives = _traces(c, x)
    return [
        None if v is None else b.stack([b.zeros_like(v), b.real(v) if _rotations(v) else v], axis=0)
        for v in local_derivatives
    ]


@jet("pd_op.slogdet_v2")
def _(c: OpCall, x: Series) -> tuple[None, Series]:
    return None, [v if v is None or not _rotations(v) else c.b.real(v) for v in _traces(c, x)]


def _rotations(v: Value) -> bool:
    return v.dtype.is_complex


# --- factorizations ------------------------------------------------------------------------------


def _symmetric(b: Builder, x: Series) -> Series:
    """Matrices of which one triangle is read stand for symmetric ones, half for each triangle."""
    return [None if v is None else (v + adjoint(b, v)) * 0.5 for v in x]


def _middle(b: Builder, x: Series, k: int) -> Coefficient:
    """``sum of x_i adjoint(x_{k-i})`` over what is between."""
    return _sum_of_products(b, x, x, k, lambda p, q: p @ adjoint(b, q), _both)


@jet("pd_op.cholesky")
def _(c: OpCall, x: Series) -> Series:
    """``l adjoint(l) = x``: the part of each order is ``l`` times a triangle, half its diagonal."""
    b = c.b
    first = adjoint(b, c.out) if c.upper else c.out
    lower: Series = [first]
    for k, v in enumerate(_symmetric(b, x), 1):
        rest = b.total([v, scaled(_middle(b, lower, k), -1)])
        lower.append(None if rest is None else first @ _half(b, _between(b, first, rest)))
    return [None if v is None else adjoint(b, v) if c.upper else v for v in lower[1:]]


def _between(b: Builder, lower: Value, x: Value) -> Value:
    """``inverse(l) x adjoint(inverse(l))``."""
    flags = {"upper": False, "transpose": False, "unitriangular": False}
    left = b.triangular_solve(lower, x, **flags)
    return adjoint(b, b.triangular_solve(lower, adjoint(b, left), **flags))


def _half(b: Builder, x: Value) -> Value:
    """The lower triangle, with half of the diagonal."""
    return (b.tril(x, diagonal=0) + b.tril(x, diagonal=-1)) * 0.5


@jet("pd_op.eigh")
def _(c: OpCall, x: Series) -> tuple[Series, Series]:
    """``x v = v w`` with ``adjoint(v) v = 1``; the eigenvalues have to differ."""
    b = c.b
    adjoint_of = adjoint(b, c.out_v)
    gaps = b.cast(inverse_gaps(b, c.out_w, c.out_w), c.out_v.dtype)
    full: Series = [c.x, *_symmetric(b, x)]
    w: Series = [c.out_w]
    v: Series = [c.out_v]
    for k in range(1, len(full)):
        rest = b.total([_rest(b, full, v, k), scaled(_weighted(b, v, w, k), -1)])
        own = None if rest is None else adjoint_of @ rest
        w.append(None if own is None else b.cast(_diagonal(b, own), c.out_w.dtype))
        norm = _sum_of_products(b, v, v, k, lambda p, q: adjoint(b, p) @ q, _both)
        half = None if norm is None else b.diag_embed(_diagonal(b, norm)) * -0.5
        mixed = b.total([None if own is None else gaps * own, half])
        v.append(None if mixed is None else c.out_v @ mixed)
    return w[1:], v[1:]


def _weighted(b: Builder, v: Series, w: Series, k: int) -> Coefficient:
    return _sum_of_products(
        b, v, w, k, lambda p, q: p * b.cast(b.unsqueeze(q, axis=(-2,)), p.dtype), _both
    )


def _diagonal(b: Builder, x: Value) -> Value:
    found: Value = b.diagonal(x, offset=0, axis1=-2, axis2=-1)
    return b.cast(b.real(found), x.dtype) if x.dtype.is_complex else found
