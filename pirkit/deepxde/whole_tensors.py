"""Torch's functions as operations on whole tensors: a slice of points is cut out before them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, Final, cast

import numpy as np

from pirkit.deepxde.elementwise import Rule, ops
from pirkit.deepxde.programs import NotCovered
from pirkit.dialect.promotion import wider


def listed(given: Any) -> list[Any]:
    """The parts of a list or tuple, or one thing as a list."""
    return [*cast("list[Any]", given)] if isinstance(given, list | tuple) else [given]


def _numbers(given: Sequence[Any]) -> tuple[int, ...]:
    """Sizes or axes, given one by one or as a list."""
    return tuple([int(n) for n in np.ravel(np.asarray(given, object))])


def _concat(tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    return ops.concat(_of_one_type(tensors), axis=dim if axis is None else axis)


def stacked(tensors: Any, dim: int = 0) -> Any:
    """Tensors along a new axis."""
    return ops.stack(_of_one_type(tensors), axis=dim)


def _of_one_type(tensors: Sequence[Any]) -> list[Any]:
    """Tensors cast to the widest of their element types, as torch joins them."""
    kind = reduce(wider, [t.dtype for t in tensors])
    return [t if t.dtype is kind else t.b.cast(t, kind) for t in tensors]


def _reshape(x: Any, *shape: Any) -> Any:
    return x.reshape(_numbers(shape))


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    return ops.flatten(x, start_axis=start_dim, stop_axis=end_dim)


def _expand(x: Any, *shape: Any) -> Any:
    sizes = _numbers(shape)
    kept = (1,) * (len(sizes) - x.rank) + tuple(x.shape)
    return ops.expand(x, shape=[k if n < 0 else n for n, k in zip(sizes, kept, strict=True)])


def _tile(x: Any, *counts: Any) -> Any:
    return ops.tile(x, repeat_times=list(_numbers(counts)))


def _permute(x: Any, *dims: Any) -> Any:
    return x.transpose(_numbers(dims))


def _swapped(x: Any, a: int = 0, b: int = 1) -> Any:
    axes = list(range(x.rank))
    axes[a], axes[b] = axes[b], axes[a]
    return x.transpose(tuple(axes))


def _reversed(x: Any) -> Any:
    return x.transpose(tuple(reversed(range(x.rank))))


def _unsqueeze(x: Any, dim: int) -> Any:
    return ops.unsqueeze(x, axis=(dim,))


def _squeeze(x: Any, dim: Any = ()) -> Any:
    return ops.squeeze(x, axis=_numbers(dim))


def _flip(x: Any, *dims: Any) -> Any:
    return ops.flip(x, axis=_numbers(dims))


def _rmatmul(y: Any, x: Any) -> Any:
    return x @ y


def _einsum(equation: str, *given: Any) -> Any:
    return ops.einsum(listed(given[0]) if len(given) == 1 else [*given], equation=equation)


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, p: Any = None) -> Any:
    order = ord if ord is not None else p
    axes = listed(dim)
    if len(axes) > 1 or (order not in (None, 2, "fro") and dim is None and x.rank > 1):
        raise NotCovered("a norm of matrices is not recorded")
    order = 2.0 if order in (None, "fro") else float(order)
    axis = -1 if dim is None else axes[0]
    return ops.p_norm(x, porder=order, axis=axis, keepdim=keepdim, asvector=dim is None)


def _eigvalsh(x: Any, UPLO: str = "L") -> Any:
    return ops.eigvalsh(x, uplo=UPLO)


def _eigh(x: Any, UPLO: str = "L") -> Any:
    return ops.eigh(x, UPLO=UPLO)


def _unbind(x: Any, dim: int = 0) -> Any:
    before = (slice(None),) * (dim % x.rank)
    return [x[(*before, i)] for i in range(x.shape[dim])]


def _extreme(name: str, x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return getattr(x, name)(axis=None if dim in ((), []) else dim, keepdims=keepdim)


def _prod(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return x.prod(axis=dim, keepdims=keepdim)


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    count = x.shape[dim]
    sizes = [size] * -(-count // size) if isinstance(size, int) else size
    ends = np.minimum(np.cumsum(sizes), count).tolist()
    before = (slice(None),) * (dim % x.rank)
    return [x[(*before, slice(i, j))] for i, j in zip([0, *ends[:-1]], ends, strict=True)]


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, -(-x.shape[dim] // chunks), dim)


WHOLE: Final[dict[str, Rule]] = {
    **{name: _concat for name in ("cat", "concat", "concatenate")},
    **{name: _reshape for name in ("reshape", "view")},
    **{name: _swapped for name in ("transpose", "t", "swapaxes")},
    "flatten": _flatten,
    "expand": _expand,
    "repeat": _tile,
    "tile": _tile,
    "permute": _permute,
    "T": _reversed,
    "mT": partial(_swapped, a=-1, b=-2),
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "flip": _flip,
    "rmatmul": _rmatmul,
    "einsum": _einsum,
    **{name: _norm for name in ("norm", "linalg_norm", "linalg_vector_norm")},
    "linalg_eigvalsh": _eigvalsh,
    "linalg_eigh": _eigh,
    "unbind": _unbind,
    "prod": _prod,
    "amax": partial(_extreme, "max"),
    "amin": partial(_extreme, "min"),
    "split": _split,
    "chunk": _chunk,
}
