"""Reference values of the gradients of matmul.

Programs that take derivatives inside (physics-informed networks) hold these ops in their forward
part, because Paddle does not decompose them by default. Every order is written with the product
and its two gradients, so the chain does not end here but is only as long as Paddle's.
"""

from __future__ import annotations

from pirkit.dialect.opdef import reference
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np

Optional = Array | None


def _product(x: Array, y: Array, tx: bool, ty: bool) -> Array:
    a = x.swapaxes(-1, -2) if tx and x.ndim > 1 else x
    b = y.swapaxes(-1, -2) if ty and y.ndim > 1 else y
    return np.asarray(np.matmul(widened(a), widened(b))).astype(x.dtype)


def _gradients(x: Array, y: Array, g: Array, tx: bool, ty: bool) -> tuple[Array, Array]:
    """Gradients of ``matmul(x, y)`` with respect to ``x`` and ``y`` for the cotangent ``g``.

    ``x`` and ``y`` are only read for the gradient of the other one, and for their shapes.
    """
    a = _matrix(widened(x), tx, row=True)
    b = _matrix(widened(y), ty, row=False)
    wide = widened(g)
    if x.ndim == 1:
        wide = wide[..., None, :] if y.ndim > 1 else wide[..., None]
    if y.ndim == 1:
        wide = wide[..., None]
    da = np.matmul(wide, b.conj().swapaxes(-1, -2))
    db = np.matmul(a.conj().swapaxes(-1, -2), wide)
    return _back(da, x, tx), _back(db, y, ty)


def _matrix(x: Array, transposed: bool, *, row: bool) -> Array:
    if x.ndim == 1:
        return x[None, :] if row else x[:, None]
    return x.swapaxes(-1, -2) if transposed else x


def _back(gradient: Array, like: Array, transposed: bool) -> Array:
    """A gradient of the promoted operand as one of the operand: broadcast dimensions summed."""
    if like.ndim == 1:
        lead = tuple(range(gradient.ndim - 2))
        return gradient.sum(axis=lead).reshape(like.shape).astype(like.dtype)
    if transposed:
        gradient = gradient.swapaxes(-1, -2)
    lead = gradient.ndim - like.ndim
    stretched = [
        lead + i for i, d in enumerate(like.shape) if d == 1 and gradient.shape[lead + i] != 1
    ]
    total = gradient.sum(axis=(*range(lead), *stretched), keepdims=True)
    return total.reshape(like.shape).astype(like.dtype)


def _total(*terms: Optional) -> Optional:
    """The sum of the terms that exist."""
    given = [t for t in terms if t is not None]
    return sum(given[1:], given[0]) if given else None


@reference("pd_op.matmul_grad")
def _(
    x: Array, y: Array, out_grad: Array, *, transpose_x: bool, transpose_y: bool
) -> tuple[Array, ...]:
    return _gradients(x, y, out_grad, transpose_x, transpose_y)


@reference("pd_op.matmul_double_grad")
def _(
    x: Array,
    y: Array,
    grad_out: Array,
    grad_x_grad: Optional,
    grad_y_grad: Optional,
    *,
    transpose_x: bool,
    transpose_y: bool,
) -> tuple[Optional, ...]:
    flags = (transpose_x, transpose_y)
    ddx, ddy = grad_x_grad, grad_y_grad
    dx = None if ddy is None else _gradients(x, ddy, grad_out, *flags)[0]
    dy = None if ddx is None else _gradients(ddx, y, grad_out, *flags)[1]
    ddout = _total(
        None if ddx is None else _product(ddx, y, *flags),
        None if ddy is None else _product(x, ddy, *flags),
    )
    return dx, dy, ddout


@reference("pd_op.matmul_triple_grad")
def _(
    x: Array,
    y: Array,
    grad_out: Array,
    grad_grad_x: Optional,
    grad_grad_y: Optional,
    grad_x_grad: Optional,
    grad_y_grad: Optional,
    grad_grad_out_grad: Optional,
    *,
    transpose_x: bool,
    transpose_y: bool,
) -> tuple[Optional, ...]:
    flags = (transpose_x, transpose_y)
    ddx, ddy, u1, u2, u3 = grad_grad_x, grad_grad_y, grad_x_grad, grad_y_grad, grad_grad_out_grad

    def left(y: Optional, g: Optional) -> Optional:
        return None if y is None or g is None else _gradients(x, y, g, *flags)[0]

    def right(x: Optional, g: Optional) -> Optional:
        return None if x is None or g is None else _gradients(x, y, g, *flags)[1]

    def product(x: Optional, y: Optional) -> Optional:
        return None if x is None or y is None else _product(x, y, *flags)

    return (
        left(ddy, u3),
        right(ddx, u3),
        _total(product(u1, ddy), product(ddx, u2)),
        _total(left(u2, grad_out), left(y, u3)),
        _total(right(u1, grad_out), right(x, u3)),
    )
