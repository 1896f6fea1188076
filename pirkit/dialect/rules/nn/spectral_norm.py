"""Spectral normalization by the power method, and its derivative with the vectors as constants."""

from __future__ import annotations

from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.linalg.solve import transposed
from pirkit.dialect.rules.movement.size_ops import in_shape


def _constant(b: Builder, x: Value) -> Value:
    """The same vector, through which no gradient flows."""
    held = b.assign(x)
    b.emitted[-1].attributes["stop_gradient"] = encode("bool[]", (True,))
    return held


def _unit(b: Builder, x: Value, eps: float) -> Value:
    length = b.sqrt(b.sum(x * x, (0, 1), keepdim=True))
    return x / (length + eps)


def _vectors(c: OpCall) -> tuple[Value, Value, Value]:
    """The weight as a matrix ``[h, w]``, and the vectors ``[h, 1]``, ``[w, 1]`` after all steps."""
    b, weight = c.b, c.weight
    rest = [i for i in range(weight.rank) if i != c.dim]
    u, v = in_shape(b, c.u, [-1, 1]), in_shape(b, c.v, [-1, 1])
    columns = b.transpose(weight, perm=(c.dim, *rest))
    matrix = b.flatten(columns, start_axis=1, stop_axis=weight.rank - 1)
    for _ in range(c.power_iters):
        v = _unit(b, transposed(b, matrix) @ u, c.eps)
        u = _unit(b, matrix @ v, c.eps)
    return matrix, _constant(b, u), _constant(b, v)


def _size(b: Builder, matrix: Value, u: Value, v: Value) -> Value:
    return b.sum(u * (matrix @ v), (0, 1))


@decompose("pd_op.spectral_norm")
def _(c: OpCall) -> Value:
    return c.weight / _size(c.b, *_vectors(c))


@vjp("pd_op.spectral_norm")
def _(c: OpCall, g: Value) -> tuple[Value, None, None]:
    """`out` is `weight / size`, and `size` has the gradient `u v'`."""
    b, weight = c.b, c.weight
    matrix, u, v = _vectors(c)
    size = _size(b, matrix, u, v)
    along = b.sum(g * weight, tuple(range(weight.rank))) / (size * size)
    order = (c.dim, *(i for i in range(weight.rank) if i != c.dim))
    gradient = b.reshape_like(u @ transposed(b, v), b.transpose(weight, perm=order))
    back = tuple(order.index(i) for i in range(weight.rank))
    return g / size - along * b.transpose(gradient, perm=back), None, None
