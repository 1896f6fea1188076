"""Inverses, determinants and systems of linear equations.

Derivatives after M. Giles, "An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

from pirkit.diag.errors import DynamicShapeError
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.operation import span_of
from pirkit.dialect.ops.linalg.solve import holds_vectors
from pirkit.dialect.rules.linalg.cofactors import cofactors, has_cofactors
from pirkit.dialect.shapes import same_dim
from pirkit.runtime.meta import UNKNOWN


def transposed(b: Builder, x: Value) -> Value:
    """Matrices ``[..., m, n]`` turned."""
    axes = list(range(x.rank))
    return b.transpose(x, perm=(*axes[:-2], axes[-1], axes[-2]))


def conjugate(b: Builder, x: Value) -> Value:
    """The complex conjugate; real numbers as they are."""
    return b.conj(x) if x.dtype.is_complex else x


def adjoint(b: Builder, x: Value) -> Value:
    """The conjugate transpose of matrices."""
    return conjugate(b, transposed(b, x))


def scalars(b: Builder, x: Value) -> Value:
    """Numbers ``[...]`` as matrices ``[..., 1, 1]``."""
    return b.unsqueeze(b.unsqueeze(x, axis=(-1,)), axis=(-1,))


@vjp("pd_op.inverse")
def _(c: OpCall, g: Value) -> Value:
    adjoint_of = adjoint(c.b, c.out)
    return -(adjoint_of @ g @ adjoint_of)


@vjp("pd_op.det")
def _(c: OpCall, g: Value) -> Value:
    b, x = c.b, c.x
    if has_cofactors(x):
        return scalars(b, g) * conjugate(b, cofactors(b, x))
    return scalars(b, g * conjugate(b, c.out)) * adjoint(b, b.inverse(x))


@vjp("pd_op.slogdet")
def _(c: OpCall, g: Value) -> Value:
    """The sign has no slope."""
    b = c.b
    of_logarithm = b.gather(g, b.integers((1,)), axis=0)
    return scalars(b, b.squeeze(of_logarithm, axis=(0,))) * adjoint(b, b.inverse(c.x))


@vjp("pd_op.slogdet_v2")
def _(c: OpCall, _: Value | None, g: Value | None) -> Value | None:
    b = c.b
    return None if g is None else scalars(b, g) * adjoint(b, b.inverse(c.x))


@decompose("pd_op.matrix_power")
def _(c: OpCall) -> Value:
    """By repeated squaring."""
    b, n = c.b, abs(c.n)
    base = b.inverse(c.x) if c.n < 0 else c.x
    if n == 0:
        return _identity(b, c.x)
    found: Value | None = None
    while n:
        if n % 2:
            found = base if found is None else found @ base
        n //= 2
        base = base @ base if n else base
    assert found is not None
    return found


def _identity(b: Builder, x: Value) -> Value:
    ones = b.ones_like(x)
    return b.tril(b.triu(ones, diagonal=0), diagonal=0)


def solves_vectors(c: OpCall) -> bool:
    """Whether `y` of a `solve` holds vectors. Raises DynamicShapeError (PK0406) if its sizes, which
    are known only when the program runs, decide that.
    """
    x, y = c.x.shape, c.y.shape
    found = holds_vectors(x, y)
    if found and len(y) > 1 and UNKNOWN in (*x[:-1], *y) and same_dim(y[-2], x[-1]):
        raise DynamicShapeError(
            f"`y` of `{c.op.name}` holds vectors or a matrix, as its sizes turn out",
            span=span_of(c.op),
            help="compile the whole program, or bind the sizes of its inputs",
        )
    return found


@vjp("pd_op.solve")
def _(c: OpCall, g: Value) -> tuple[Value, Value]:
    b, x, out = c.b, c.x, c.out
    of_y = b.solve(adjoint(b, x), g)
    left, right = of_y, out
    if solves_vectors(c):
        left, right = b.unsqueeze(of_y, axis=(-1,)), b.unsqueeze(out, axis=(-1,))
    return b.sum_to(-(left @ adjoint(b, right)), x), b.sum_to(of_y, c.y)


@vjp("pd_op.triangular_solve")
def _(c: OpCall, g: Value) -> tuple[Value, Value]:
    """Only the triangle that is read has a derivative, without the diagonal if that is ones.

    ``transpose`` is that of the matrix itself, not of its conjugate.
    """
    b, x, out = c.b, c.x, c.out
    flags = {"upper": c.upper, "unitriangular": c.unitriangular}
    of_y = b.triangular_solve(conjugate(b, x), g, transpose=not c.transpose, **flags)
    if c.transpose:
        derivative = -(conjugate(b, out) @ transposed(b, of_y))
    else:
        derivative = -(of_y @ adjoint(b, out))
    off = int(c.unitriangular)
    derivative = b.triu(derivative, diagonal=off) if c.upper else b.tril(derivative, diagonal=-off)
    return b.sum_to(derivative, x), b.sum_to(of_y, c.y)


@decompose("pd_op.cholesky_solve")
def _(c: OpCall) -> Value:
    """Two triangular systems, of the factor and of its adjoint."""
    b, factor = c.b, c.y
    lower = adjoint(b, factor) if c.upper else factor
    half = b.triangular_solve(lower, c.x, upper=False, transpose=False, unitriangular=False)
    return b.triangular_solve(
        adjoint(b, lower), half, upper=True, transpose=False, unitriangular=False
    )


@decompose("pd_op.lu_solve")
def _(c: OpCall) -> Value:
    """Two triangular systems, of the factors in their order."""
    b, lu = c.b, c.lu
    if 0 in lu.shape[-2:]:
        return b.zeros_like(c.operand("b"))
    exchanged = b.lu_unpack(lu, c.pivots, unpack_ludata=False)[0]
    b.emitted[-1].attributes["stop_gradient"] = encode("bool[]", (True,) * 3)
    lower = {"upper": False, "unitriangular": True}
    upper = {"upper": True, "unitriangular": False}
    right: Value = c.operand("b")
    if c.trans == "N":
        half = b.triangular_solve(lu, transposed(b, exchanged) @ right, transpose=False, **lower)
        return b.triangular_solve(lu, half, transpose=False, **upper)
    half = b.triangular_solve(lu, right, transpose=True, **upper)
    return exchanged @ b.triangular_solve(lu, half, transpose=True, **lower)
