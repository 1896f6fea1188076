"""Torch's functions as operations of pirkit, by name: ``torch.add``, ``Tensor.add``, ``+``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

import pirkit
from pirkit import ops
from pirkit.deepxde.probes import NotCovered, Probe, Recording, Rows
from pirkit.dialect.build import Value

Rule = Callable[..., Any]


def call(recording: Recording, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Record a call. Raises NotCovered for a function without a rule."""
    plain, in_place = _plain(name)
    if plain in _SAME:
        wanted = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, torch.dtype)]
        wanted += [_TYPED[plain]] if plain in _TYPED else []
        if any(w is not args[0].dtype for w in wanted):
            raise NotCovered("a tensor changes its element type")
        return args[0]
    if plain in _ELEMENTWISE:
        found = _elementwise(recording, _ELEMENTWISE[plain], args, kwargs)
    elif plain in _RULES:
        found = _RULES[plain](recording, *args, **kwargs)
    elif plain in _WHOLE:
        given = {k: recording.whole(v) for k, v in kwargs.items()}
        found = _WHOLE[plain](*map(recording.whole, args), **given)
    else:
        raise NotCovered(f"`torch.{plain}` is not recorded")
    probes = _probes(found)
    if in_place and isinstance(args[0], Probe):
        args[0].value, args[0].rows = probes.value, probes.rows
        return args[0]
    return probes


def _plain(name: str) -> tuple[str, bool]:
    if name.endswith(".__get__"):
        return name[:-8], False
    if name.startswith("__") and name.endswith("__"):
        inner = name[2:-2]
        if inner[:1] == "i" and inner[1:] in _ELEMENTWISE:
            return inner[1:], True
        return inner, False
    if name.endswith("_") and name not in _SAME:
        return name[:-1], True
    return name, False


def _probes(found: Any) -> Any:
    if isinstance(found, Value):
        return Probe.of(found)
    if isinstance(found, list | tuple):
        return tuple(map(_probes, found))
    return found


# --- elementwise: all rows at once ---------------------------------------------------------------


def _elementwise(
    recording: Recording, rule: Rule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    parts = {a.rows for a in args if isinstance(a, Probe) and _has_rows(recording, a)}
    if parts <= {None}:
        return rule(*map(recording.lifted, args), **kwargs)
    if len(parts) > 1:
        return rule(*map(recording.whole, args), **kwargs)
    (rows,) = parts
    assert rows is not None
    rank = max(a.ndim for a in args if isinstance(a, Probe))
    given = [_over_all(recording, a, rows, rank) for a in args]
    if any(g is None for g in given):
        return rule(*map(recording.whole, args), **kwargs)
    return Probe.of(rule(*given, **kwargs), rows)


def _has_rows(recording: Recording, probe: Probe) -> bool:
    return probe.rows is not None or (probe.ndim > 0 and probe.value.shape[0] == recording.count)


def _over_all(recording: Recording, given: Any, rows: Rows, rank: int) -> Any:
    """An operand beside values of all rows; None if it has rows in another way."""
    if not isinstance(given, torch.Tensor) or isinstance(given, Probe):
        return recording.lifted(given)
    if given.ndim < rank or given.shape[0] == 1:
        return recording.lifted(given)
    return None if recording.is_recorded(given) else recording.padded(given, rows)


def _scaled(rule: Rule) -> Rule:
    """A sum or difference, with torch's factor ``alpha``."""
    return lambda x, y, alpha=1: rule(x, y if alpha == 1 else y * alpha)


def _power(x: Any, y: Any) -> Any:
    return x**y


def _unary(name: str) -> Rule:
    def rule(x: Any, inplace: bool = False) -> Any:
        return getattr(ops, name)(x)

    return rule


def _gelu(x: Any, approximate: str = "none") -> Any:
    return ops.gelu(x, approximate=approximate == "tanh")


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    x = x if min is None else ops.maximum(x, _filled(x, min))
    return x if max is None else ops.minimum(x, _filled(x, max))


def _filled(like: Any, number: Any) -> Any:
    return number if isinstance(number, Value) else like * 0 + number


def _division(x: Any, y: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise NotCovered("a division that rounds is not recorded")
    return x / y


_SAME: Final = frozenset(
    "requires_grad_ as_tensor contiguous cpu to float double retain_grad clone".split()
)
"""Functions whose result is the tensor that they get."""

_TYPED: Final = {"float": torch.float32, "double": torch.float64}

_ELEMENTWISE: Final[dict[str, Rule]] = {
    **{
        name: _unary(name)
        for name in "tanh sin cos exp sigmoid silu relu selu log sqrt rsqrt abs square tan sinh"
        " cosh asin acos atan asinh acosh atanh erf expm1 log1p log2 log10 sign floor ceil"
        " reciprocal softsign mish lgamma digamma i0 i1 round trunc".split()
    },
    "add": _scaled(lambda x, y: x + y),
    "radd": lambda x, y: y + x,
    "sub": _scaled(lambda x, y: x - y),
    "subtract": _scaled(lambda x, y: x - y),
    "rsub": _scaled(lambda x, y: y - x),
    "mul": lambda x, y: x * y,
    "multiply": lambda x, y: x * y,
    "rmul": lambda x, y: y * x,
    "div": _division,
    "divide": _division,
    "true_divide": _division,
    "truediv": _division,
    "rtruediv": lambda x, y: y / x,
    "rdiv": lambda x, y: y / x,
    "pow": _power,
    "rpow": lambda x, y: y**x,
    "neg": lambda x: -x,
    "negative": lambda x: -x,
    "gelu": _gelu,
    "elu": lambda x, alpha=1.0, inplace=False: ops.elu(x, alpha=alpha),
    "softplus": lambda x, beta=1, threshold=20: ops.softplus(x, beta=beta, threshold=threshold),
    "leaky_relu": lambda x, negative_slope=0.01, inplace=False: ops.leaky_relu(
        x, negative_slope=negative_slope
    ),
    "maximum": lambda x, y: ops.maximum(x, y),
    "minimum": lambda x, y: ops.minimum(x, y),
    "clamp": _clamp,
    "where": lambda c, x, y: pirkit.where(c, x, y),
    **{
        name: (lambda other: lambda x, y: other(x, y))(rule)
        for name, rule in {
            "lt": lambda x, y: x < y,
            "le": lambda x, y: x <= y,
            "gt": lambda x, y: x > y,
            "ge": lambda x, y: x >= y,
        }.items()
    },
}


# --- with rules of their own ---------------------------------------------------------------------


def _getitem(recording: Recording, x: Any, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    first = parts[0]
    is_batch = isinstance(x, Probe) and _has_rows(recording, x)
    if not is_batch or not isinstance(first, slice) or first.step not in (None, 1):
        return recording.whole(x)[tuple(map(recording.whole, parts))]
    begin, end, _ = first.indices(x.shape[0])
    start = x.rows[0] if x.rows is not None else 0
    rows = (start + begin, start + max(begin, end))
    value = x.value[(slice(None), *parts[1:])] if len(parts) > 1 else x.value
    return Probe.of(value, None if rows == (0, recording.count) else rows)


def _reduction(name: str) -> Rule:
    def rule(recording: Recording, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        keepdim = _.pop("keepdims", keepdim)
        dim = _.pop("axis", dim)
        rank = x.ndim
        axes = range(rank) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
        axes = tuple(sorted({a % rank for a in axes}))
        value, rows = recording.lifted(x), getattr(x, "rows", None)
        if rows is not None and 0 in axes:
            count = int(np.prod([x.shape[a] for a in axes]))
            value = pirkit.where(recording.mask(rows, value) > 0.5, value, _filled(value, 0.0))
            total = value.sum(axis=axes, keepdims=keepdim)
            return total if name == "sum" else total * (1.0 / count)
        if not axes:
            return Probe.of(value, rows)
        return Probe.of(getattr(value, name)(axis=axes, keepdims=keepdim), rows)

    return rule


def _linear(recording: Recording, x: Any, weight: Any, bias: Any = None) -> Any:
    found = ops.matmul(recording.lifted(x), recording.lifted(weight), transpose_y=True)
    found = found if bias is None else found + recording.lifted(bias)
    return Probe.of(found, getattr(x, "rows", None))


def _gradient(
    recording: Recording, outputs: Any, inputs: Any, grad_outputs: Any = None, **_: Any
) -> Any:
    """``torch.autograd.grad``: requested now, computed by the passes, as a series if nested."""
    several = isinstance(inputs, list | tuple)
    targets = outputs if isinstance(outputs, list | tuple) else (outputs,)
    seeds = grad_outputs if isinstance(grad_outputs, list | tuple) else (grad_outputs,)
    if len(targets) != 1 or len(seeds) != 1:
        raise NotCovered("`torch.autograd.grad` of several outputs is not recorded")
    y = recording.whole(targets[0])
    b: Any = y.b
    seed = b.ones_like(y) if seeds[0] is None else recording.whole(seeds[0])
    wrt = [recording.lifted(x) for x in (inputs if several else (inputs,))]
    found = b("pir.gradient", y, seed, *wrt, targets=1, wrt=len(wrt))
    return found if isinstance(found, tuple) else (found,)


def _like(number: float) -> Rule:
    def rule(recording: Recording, x: Any, **_: Any) -> Any:
        value = recording.lifted(x)
        return Probe.of(value.b.like(number, value), getattr(x, "rows", None))

    return rule


def _detach(recording: Recording, x: Any) -> Any:
    return Probe.of(pirkit.stop_gradient(recording.lifted(x)), getattr(x, "rows", None))


def _stack(recording: Recording, tensors: Any, dim: int = 0) -> Any:
    """Numbers are selected by masks, not joined: so a program stays one loop over points."""
    values = [recording.whole(t) for t in tensors]
    if any(v.rank for v in values):
        return ops.stack(values, axis=dim)
    parts = [
        pirkit.where(recording.place(i, len(values), v) > 0.5, v, _filled(v, 0.0))
        for i, v in enumerate(values)
    ]
    return sum(parts[1:], parts[0])


_RULES: Final[dict[str, Rule]] = {
    "getitem": _getitem,
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "linear": _linear,
    "grad": _gradient,
    "zeros_like": _like(0.0),
    "ones_like": _like(1.0),
    "detach": _detach,
    "stack": _stack,
}


# --- of whole tensors ----------------------------------------------------------------------------


def _concat(tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    return ops.concat(list(tensors), axis=dim if axis is None else axis)


def _reshape(x: Any, *shape: Any) -> Any:
    return x.reshape(tuple(shape[0]) if isinstance(shape[0], tuple | list) else tuple(shape))


def _permute(x: Any, *dims: Any) -> Any:
    return x.transpose(tuple(dims[0]) if isinstance(dims[0], tuple | list) else tuple(dims))


def _swapped(x: Any, a: int, b: int) -> Any:
    axes = list(range(x.rank))
    axes[a], axes[b] = axes[b], axes[a]
    return x.transpose(tuple(axes))


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, p: Any = None) -> Any:
    if (ord if ord is not None else p) not in (None, 2, "fro"):
        raise NotCovered("a norm of another order than 2 is not recorded")
    squares = x * x
    return (
        squares.sum(axis=dim, keepdims=keepdim) ** 0.5 if dim is not None else squares.sum() ** 0.5
    )


_WHOLE: Final[dict[str, Rule]] = {
    "cat": _concat,
    "concat": _concat,
    "concatenate": _concat,
    "reshape": _reshape,
    "view": _reshape,
    "permute": _permute,
    "transpose": _swapped,
    "t": lambda x: _swapped(x, 0, 1),
    "T": lambda x: _permute(x, tuple(reversed(range(x.rank)))),
    "mT": lambda x: _swapped(x, -1, -2),
    "unsqueeze": lambda x, dim: ops.unsqueeze(x, axis=(dim,)),
    "squeeze": lambda x, dim=None: ops.squeeze(x, axis=() if dim is None else (dim,)),
    "flip": lambda x, *dims: ops.flip(x, axis=tuple(np.ravel(dims).tolist())),
    "matmul": lambda x, y: x @ y,
    "rmatmul": lambda x, y: y @ x,
    "mm": lambda x, y: x @ y,
    "mv": lambda x, y: x @ y,
    "einsum": lambda equation, *given: ops.einsum(
        list(given[0] if isinstance(given[0], list | tuple) else given), equation=equation
    ),
    "norm": _norm,
    "prod": lambda x, dim=None, keepdim=False: x.prod(axis=dim, keepdims=keepdim),
    "amax": lambda x, dim=(), keepdim=False: x.max(axis=dim or None, keepdims=keepdim),
    "amin": lambda x, dim=(), keepdim=False: x.min(axis=dim or None, keepdims=keepdim),
    "split": lambda x, size, dim=0: tuple(
        x[(slice(None),) * (dim % x.rank) + (slice(i, i + size),)]
        for i in range(0, x.shape[dim], size)
    ),
}
