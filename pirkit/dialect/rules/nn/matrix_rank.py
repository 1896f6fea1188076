"""Ranks of matrices for computed tolerances, by their singular values."""

from __future__ import annotations

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.ops.nn.matrix_rank import default_share
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def _count(c: OpCall, atol: Value, rtol: Value | float) -> Value:
    b, x = c.b, c.x
    sizes = b.abs(b.eigh(x)[0]) if c.hermitian else b.svd(x)[1]
    bound = b.maximum(atol, rtol * b("pd_op.max", sizes, axis=(-1,), keepdim=False))
    above = b.greater_than(sizes, b.unsqueeze(bound, axis=(-1,)))
    return b.sum(b.cast(above, dt.int64), (above.rank - 1,))


@decompose("pd_op.matrix_rank_tol")
def _(c: OpCall) -> Value:
    if not c.use_default_tol:
        return _count(c, c.atol_tensor, 0.0)
    return NotImplemented if UNKNOWN in c.x.shape[-2:] else _count(c, c.atol_tensor, _share(c))


@decompose("pd_op.matrix_rank_atol_rtol")
def _(c: OpCall) -> Value:
    if c.rtol is not None:
        return _count(c, c.atol, c.rtol)
    if UNKNOWN in c.x.shape[-2:]:
        return NotImplemented
    none = c.b.zeros_like(c.atol)
    return _count(c, c.atol, c.b.where(c.b.equal(c.atol, none), none + _share(c), none))


def _share(c: OpCall) -> float:
    return default_share(c.x.meta)
