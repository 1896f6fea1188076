"""Torch's functions as operations of pirkit, by name: ``torch.add``, ``Tensor.add``, ``+``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Final, cast

import numpy as np

import pirkit
from pirkit.analysis.differentiation import flows
from pirkit.deepxde.elementwise import ELEMENTWISE, Rule, filled, ops
from pirkit.deepxde.libtorch import torch
from pirkit.deepxde.probes import Probe, Recording, Rows
from pirkit.deepxde.programs import NotCovered
from pirkit.deepxde.whole_tensors import WHOLE, listed, stacked
from pirkit.dialect.build import Value
from pirkit.dialect.infer import fill_value
from pirkit.runtime import dtype as dt


def call(
    recording: Recording, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Record a call, by the first table that has its function, else by its ATen ops.

    Raises NotCovered for what a program cannot hold.
    """
    plain, in_place = _plain(name)
    if plain in _CONTENT:
        raise NotCovered(f"the model reads the content of a tensor (`{plain}`)")
    if plain in _SAME:
        wanted = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, torch.dtype)]
        wanted += [v.dtype for v in args[1:] if isinstance(v, torch.Tensor)]
        wanted += [_TYPED[plain]] if plain in _TYPED else []
        if not wanted or wanted[0] is args[0].dtype:
            return args[0]
        value = recording.lifted(args[0])
        kind = dt.BY_NUMPY[np.dtype(str(wanted[0]).removeprefix("torch."))]
        return Probe.of(value.b.cast(value, kind), getattr(args[0], "rows", None))
    if in_place or plain == "setitem":
        _require_own(args[0], plain)
    kwargs = {k: v for k, v in kwargs.items() if v is not None or k not in _UNSET}
    by_name = any(isinstance(v, torch.Tensor) for v in kwargs.values())
    if plain in ELEMENTWISE and not by_name and _takes(ELEMENTWISE[plain], args, kwargs):
        found = _elementwise(recording, ELEMENTWISE[plain], args, kwargs)
    elif plain in _RULES and _takes(_RULES[plain], (recording, *args), kwargs):
        found = _RULES[plain](recording, *args, **kwargs)
    elif plain in WHOLE and _takes(WHOLE[plain], args, kwargs):
        given = {k: recording.whole(v) for k, v in kwargs.items()}
        found = WHOLE[plain](*map(recording.whole, args), **given)
    else:
        # Imported where needed: torch's recorder takes two seconds to load.
        by_aten: Any = import_module("pirkit.deepxde.aten_functions")
        found = by_aten.recorded(func, args, kwargs, recording.whole)
    probes = _probes(found)
    if in_place:
        args[0].value, args[0].rows = probes.value, probes.rows
        return args[0]
    if plain in _VIEWS and isinstance(args[0], Probe):
        for made in listed(probes):
            made.shares_with(args[0])
    return probes


def _takes(rule: Rule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a rule has these arguments; a call with others is recorded by its ATen ops."""
    kind = kwargs.get("dtype")
    if "out" in kwargs or (kind and any(t.dtype is not kind for t in args if hasattr(t, "dtype"))):
        return False
    try:
        signature(rule).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # a function of C has no signature
        return not kwargs
    return True


def _require_own(written: Any, name: str) -> None:
    """Raises NotCovered if a written tensor is no probe, or if others see the write."""
    if not isinstance(written, Probe):
        raise NotCovered(f"the model writes into a tensor of its own (`{name}`)")
    if written.is_shared or not torch.is_grad_enabled():
        raise NotCovered(f"the model writes into a part of a tensor (`{name}`)")


def _plain(name: str) -> tuple[str, bool]:
    """The name by which tables have a function, and whether it writes into its argument."""
    if name.endswith(".__get__"):
        return name[:-8], False
    if name.startswith("__") and name.endswith("__"):
        inner = name[2:-2]
        if inner[:1] == "i" and inner[1:] in ELEMENTWISE:
            return inner[1:], True
        return inner, False
    if name.endswith("_") and name not in _SAME and name not in _RULES:
        return name[:-1], True
    return name, False


def _probes(found: Any) -> Any:
    """The result of a rule, with probes for its values. NotCovered is raised for other objects."""
    if isinstance(found, Value):
        return Probe.of(found)
    if isinstance(found, list | tuple):
        parts = cast("list[Any]", found)
        kind: Any = type(parts) if isinstance(found, tuple) else tuple  # `.values`, `.indices`
        return kind(map(_probes, parts))
    if found is None or isinstance(found, bool | int | float | torch.Tensor):
        return found
    raise NotCovered(f"a function gives a {type(found).__name__}")


# --- elementwise: all rows at once ---------------------------------------------------------------


def _elementwise(
    recording: Recording, rule: Rule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A rule on all points, if all operands with rows stand for the same ones; else on slices."""
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
    """An operand extended to all points; None if it is recorded and its rows are no points."""
    if not isinstance(given, torch.Tensor) or given.ndim < rank or given.shape[0] == 1:
        return recording.lifted(given)
    if isinstance(given, Probe) and _has_rows(recording, given):
        return given.value
    return None if recording.is_recorded(given) else recording.padded(given, rows)


_SAME: Final = frozenset("as_tensor contiguous cpu to type_as float double retain_grad".split())
"""Functions whose result is the tensor that they get, or has its content in another type."""

_CONTENT: Final = frozenset("bool int index item tolist numpy array contains".split())
"""Functions that give Python the content of a tensor."""

_UNSET: Final = ("out", "dtype")
"""Arguments that torch's Python functions pass on even if they are None."""

_VIEWS: Final = frozenset(
    "getitem reshape view flatten expand permute transpose t swapaxes swapdims adjoint T mT H mH"
    " unsqueeze squeeze split chunk unbind view_as select narrow diagonal movedim moveaxis ravel"
    " unfold unflatten view_as_real view_as_complex real imag tensor_split hsplit vsplit dsplit"
    " as_strided split_with_sizes atleast_1d atleast_2d atleast_3d broadcast_to expand_as"
    " reshape_as detach".split()
)
"""Functions whose results may be parts of their argument."""

_TYPED: Final = {"float": torch.float32, "double": torch.float64}
"""Functions that cast, and the type to which they do."""


# --- with rules of their own ---------------------------------------------------------------------


def _getitem(recording: Recording, x: Any, index: Any) -> Any:
    """Indexing: a slice of points becomes the rows of a probe, all else an operation."""
    given = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    parts = tuple([p for part in given for p in _positions(recording, part)])
    first = parts[0]
    is_batch = isinstance(x, Probe) and _has_rows(recording, x)
    rows = _slice_of(first, x) if is_batch else None
    if rows is None:
        return recording.whole(x)[tuple(map(recording.whole, parts))]
    value = x.value[(slice(None), *parts[1:])] if len(parts) > 1 else x.value
    return Probe.of(value, None if rows == (0, recording.count) else rows)


def _positions(recording: Recording, index: Any) -> tuple[Any, ...]:
    """An index; a constant mask as the positions where it holds: their number is a static size."""
    is_mask = isinstance(index, torch.Tensor) and index.dtype is torch.bool and index.ndim
    if not is_mask or recording.is_recorded(index):
        return (index,)
    return index.nonzero(as_tuple=True)


def _slice_of(index: Any, x: Probe) -> Rows | None:
    """The rows of ``x.value`` that a slice of ``x`` takes; None for other indices and for steps."""
    if not isinstance(index, slice):
        return None
    begin, end, step = cast("slice[Any, Any, Any]", index).indices(x.shape[0])
    start = x.rows[0] if x.rows is not None else 0
    return (start + begin, start + max(begin, end)) if step == 1 else None


def _reduction(name: str) -> Rule:
    def rule(recording: Recording, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        keepdim = _.pop("keepdims", keepdim)
        dim = _.pop("axis", dim)
        rank = x.ndim
        axes: Any = range(rank) if dim in (None, (), []) else np.atleast_1d(dim).tolist()
        axes = tuple(sorted({int(a) % rank for a in axes}))
        value, rows = recording.lifted(x), getattr(x, "rows", None)
        if rows is not None and 0 in axes:  # over points: those that are not meant count as zeros
            count = int(np.prod([x.shape[a] for a in axes]))
            value = pirkit.where(recording.mask(rows, value) > 0.5, value, filled(value, 0.0))
            total = value.sum(axis=axes, keepdims=keepdim)
            return total if name == "sum" else total * (1.0 / count if count else math.nan)
        if not axes:
            return Probe.of(value, rows)
        return Probe.of(getattr(value, name)(axis=axes, keepdims=keepdim), rows)

    return rule


def _linear(recording: Recording, x: Any, weight: Any, bias: Any = None) -> Any:
    found = ops.matmul(recording.lifted(x), recording.lifted(weight), transpose_y=True)
    found = found if bias is None else found + recording.lifted(bias)
    return Probe.of(found, getattr(x, "rows", None))


def _gradient(
    recording: Recording, outputs: Any, inputs: Any, grad_outputs: Any = None,
    retain_graph: Any = None, create_graph: bool = False, only_inputs: bool = True,
    allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:  # fmt: skip
    """``torch.autograd.grad`` as `pir.gradient`, which passes expand: a Taylor series if nested.

    Raises NotCovered for batches of cotangents, and where torch gives None for an unused input.
    """
    if is_grads_batched:
        raise NotCovered("`torch.autograd.grad` of batches of cotangents is not recorded")
    targets = [recording.whole(y) for y in listed(outputs)]
    given = [None] * len(targets) if grad_outputs is None else listed(grad_outputs)
    b: Any = targets[0].b
    seeds = [
        b.ones_like(y) if seed is None else recording.whole(seed)
        for y, seed in zip(targets, given, strict=True)
    ]
    wrt = [recording.lifted(x) for x in listed(inputs)]
    ends = [t.ssa for t in targets]
    if allow_unused and not materialize_grads and not all(flows(ends, x.ssa) for x in wrt):
        raise NotCovered("`torch.autograd.grad` gives None for an input that is not used")
    found = b("pir.gradient", *targets, *seeds, *wrt, targets=len(targets), wrt=len(wrt))
    return tuple(listed(found if create_graph else pirkit.stop_gradient(found)))


def _filled_like(recording: Recording, x: Any, number: Any, **_: Any) -> Any:
    value = recording.lifted(x)
    return Probe.of(value.b.like(float(number), value), getattr(x, "rows", None))


def _like(number: float) -> Rule:
    def rule(recording: Recording, x: Any, **_: Any) -> Any:
        return _filled_like(recording, x, number)

    return rule


def _clone(recording: Recording, x: Any, **_: Any) -> Any:
    """A value of its own: a derivative by the copy is not one by what was copied."""
    value = recording.lifted(x)
    return Probe.of(value.b.assign(value), getattr(x, "rows", None))


def _softmax(name: str) -> Rule:
    def rule(recording: Recording, x: Any, dim: int, **_: Any) -> Any:
        found = getattr(ops, name)
        if dim % x.ndim == 0:
            return found(recording.whole(x), axis=dim)
        return Probe.of(found(recording.lifted(x), axis=dim), getattr(x, "rows", None))

    return rule


def _dropout(recording: Recording, x: Any, p: float = 0.5, training: bool = True, **_: Any) -> Any:
    if training and p:
        raise NotCovered("dropout draws random numbers")
    return _clone(recording, x)


def _detach(recording: Recording, x: Any) -> Any:
    return Probe.of(pirkit.stop_gradient(recording.lifted(x)), getattr(x, "rows", None))


def _watched(recording: Recording, x: Any, *_: Any) -> Any:
    """``requires_grad_`` of a tensor, with respect to which the model then differentiates.

    A constant becomes an input: a constant would be folded into the operations that read it.
    """
    value = recording.lifted(x)
    number = fill_value(value.ssa)
    if number is not None:
        value = recording.captured(np.full(value.shape, number, value.dtype.np))
    return Probe.of(value, getattr(x, "rows", None))


def _setitem(recording: Recording, x: Any, index: Any, given: Any) -> Any:
    """Write elements at places known before the program runs, as a `where` with a mask."""
    places = torch.zeros(x.shape, dtype=torch.bool)
    places[index] = True
    value = recording.whole(x)
    given = recording.whole(given)
    if isinstance(given, Value) and given.rank and tuple(given.shape) != tuple(x.shape):
        raise NotCovered("a tensor is written into a part of another one")
    given = given if isinstance(given, Value) else filled(value, given)
    x.value, x.rows = pirkit.where(recording.captured(places.numpy()), given, value), None


def _matmul(recording: Recording, x: Any, y: Any) -> Any:
    """A constant sparse matrix gathers rows, which are scaled and added up."""
    if isinstance(x, Probe) or not isinstance(x, torch.Tensor) or x.layout == torch.strided:
        return recording.whole(x) @ recording.whole(y)
    columns, scales = recording.entries(x)
    value = recording.whole(y)
    found = ops.gather(value, recording.captured(columns.ravel()), axis=0)
    found = found.reshape((*columns.shape, *found.shape[1:]))
    scales = scales.reshape(*scales.shape, *[1] * (value.rank - 1))
    return (found * recording.captured(scales)).sum(axis=1)


_MOST_PLACED: Final = 7
"""The most numbers that masks select; if more are stacked, `reroll` makes one operation of them."""


def _stack(recording: Recording, tensors: Any, dim: int = 0) -> Any:
    """A few numbers are selected by masks, not joined, so a program stays one loop over points."""
    values = [recording.whole(t) for t in tensors]
    if any(v.rank for v in values) or len(values) > _MOST_PLACED:
        return stacked(values, dim)
    parts = [
        pirkit.where(recording.place(i, len(values), v) > 0.5, v, filled(v, 0.0))
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
    "full_like": _filled_like,
    "clone": _clone,
    "dropout": _dropout,
    **{name: _softmax(name) for name in ("softmax", "log_softmax")},
    "detach": _detach,
    "stack": _stack,
    "requires_grad_": _watched,
    "setitem": _setitem,
    **{name: _matmul for name in ("matmul", "mm", "mv", "bmm", "_sparse_mm", "sparse_mm")},
}
