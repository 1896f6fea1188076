"""Derivatives of matmul and related products."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import vjp
from pirkit.dialect.rules.elementwise.elementwise import analytic


@vjp("pd_op.matmul")
@analytic
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    """As matrices of at least two dimensions; what was spread over batches is summed.

    A dot product has elementwise derivatives, which stay rows of a batch.
    """
    b, x, y = c.b, c.x, c.y
    tx, ty = c.transpose_x and x.rank > 1, c.transpose_y and y.rank > 1
    if x.rank == 1 and (y.rank == 1 or (y.rank == 2 and y.shape[-2 if ty else -1] == 1)):
        dx = g * (b.reshape(y, (-1,)) if y.rank == 2 else y) if c.wants("x") else None
        return dx, b.reshape_like(g * x, y) if c.wants("y") else None
    left, right = _matrix(b, x, -2), _matrix(b, y, -1)
    if x.rank == 1:
        g = b.unsqueeze(g, axis=[-1 if y.rank == 1 else -2])
    if y.rank == 1:
        g = b.unsqueeze(g, axis=[-1])
    dx = dy = None
    if c.wants("x"):
        dx = _product(b, right, g, ty, True) if tx else _product(b, g, right, False, not ty)
        dx = b.reshape_like(b.sum_to(dx, left), x)
    if c.wants("y"):
        if not tx and _one_for_many(y, left, g):
            left, g = (b.reshape(v, (-1, v.shape[-1])) for v in (left, g))
        dy = _product(b, g, left, True, tx) if ty else _product(b, left, g, not tx, False)
        dy = b.reshape_like(b.sum_to(dy, right), y)
    return dx, dy


def _one_for_many(y: Value, left: Value, g: Value) -> bool:
    """Whether a matrix is multiplied by many: their rows together give the sum at once."""
    return y.rank == 2 and left.rank > 2 and left.shape[-1] > 0 and g.shape[-1] > 0


def _matrix(b: Builder, x: Value, axis: int) -> Value:
    return b.unsqueeze(x, axis=[0 if axis == -2 else 1]) if x.rank == 1 else x


def _product(b: Builder, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> Value:
    return b.matmul(x, y, transpose_x=transpose_x, transpose_y=transpose_y)
