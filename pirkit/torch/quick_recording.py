"""Records an op that needs no treatment of torch's in a third of the time.

Torch passes each op through three layers of Python: functionalization, the recorder of `make_fx`
and the inference of shapes. The first two treat writes, views, numbers that depend on data and
constants, and flatten the arguments of each op several times for them. Most ops have none of
these. Such an op is recorded here as these layers do it; any other goes their way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pirkit.torch.libtorch import (
    aten,
    effects,
    functional_tensor,
    functional_utils,
    fx,
    proxy_tensor,
    torch,
)

_FAKE: Final[Any] = torch._subclasses.FakeTensor
_NAMESPACES: Final = ("aten", "pirkit", "prims")
_TREATED: Final[Any] = functional_tensor.FunctionalTensor.metadata_fns | {
    aten.lift_fresh.default, aten.is_nonzero.default
}  # fmt: skip
"""Overloads that torch's layers answer or replace."""
_TAGS: Final = frozenset(
    {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}
)
_NUMBERS: Final = (
    int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip
_FUNCTIONALIZE: Final[Any] = torch._C.DispatchKey.Functionalize
_KEYS: Final[Any] = torch._C.DispatchKeySet(_FUNCTIONALIZE)


class _UntreatedError(Exception):
    """An argument that torch's layers have to treat."""


@cache
def _recorded_name(func: Any) -> str | None:
    """The name of nodes of an overload that is recorded as it is called; None for any other."""
    if (
        not isinstance(func, torch._ops.OpOverload)
        or func.namespace not in _NAMESPACES
        or func in _TREATED
        or func._schema.is_mutable
        or not _TAGS.isdisjoint(func.tags)
        or func._can_decompose()
    ):
        return None
    return func.overloadpacket.__name__.lstrip("_")


@cache
def _way(func: Any) -> Callable[..., Any] | None:
    """How an overload runs on functional tensors; None for the usual way.

    Functionalization only unwraps the arguments and wraps the results of overloads for which it has
    no kernel of its own. It has one for each view. It orders ops with effects, such as assertions.
    """
    if _recorded_name(func) is None or effects.has_effects(func):
        return None
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _FUNCTIONALIZE):
        return _pure
    first, *rest = func._schema.arguments
    aliases = all(r.alias_info is not None for r in func._schema.returns)
    is_view = first.alias_info is not None and not any(a.alias_info for a in rest) and aliases
    return _view if is_view else None


class QuickProxies(proxy_tensor.ProxyTorchDispatchMode):  # pyright: ignore[reportUntypedBaseClass]
    """The recorder of `make_fx`, with a short way for ops that need no treatment."""

    def __init__(self, usual: Any) -> None:
        proxy_tensor.ProxyTorchDispatchMode.__init__(
            self, usual.tracer, usual.tracing_mode, decomposition_table=usual.decomposition_table
        )

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Dynamo is off within `make_fx`, and need not be turned off for each op

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Record an op."""
        usual = proxy_tensor.ProxyTorchDispatchMode.__torch_dispatch__
        name = None if func in self.decomposition_table else _recorded_name(func)
        if name is None:
            return usual(self, func, types, args, kwargs)
        named: dict[str, Any] = kwargs or {}
        try:
            taken = tuple(map(self._taken, args)), {k: self._taken(a) for k, a in named.items()}
        except _UntreatedError:
            return usual(self, func, types, args, kwargs)
        graph = self.tracer.graph
        node = graph.create_node("call_function", func, *taken, name)
        with proxy_tensor._enable_thunkify(self.tracer):
            made = func(*args, **named)
        several: Any = made if type(made) in (list, tuple) else (made,)
        if not all(type(t) is _FAKE and not t._has_symbolic_sizes_strides for t in several):
            proxy = fx.Proxy(node, self.tracer)
            return proxy_tensor.track_tensor_tree(made, proxy, constant=None, tracer=self.tracer)
        if several is not made:
            self._track(made, node)
            return made
        for k, t in enumerate(several):
            part = graph.create_node("call_function", operator.getitem, (node, k), {}, "getitem")
            self._track(t, part)
        node.meta["val"] = [part.meta["val"] for part in node.users]
        return made

    def _taken(self, given: Any) -> Any:
        """What a node takes for an argument."""
        kind = given.__class__
        if kind is _FAKE:
            known = self.tracer.tensor_tracker.get(given)
            if known is None or known.constant is not None:
                raise _UntreatedError
            return known.proxy.node
        if kind in _NUMBERS:
            return given
        if kind in (list, tuple):
            return [*map(self._taken, given)]
        raise _UntreatedError

    def _track(self, tensor: Any, node: Any) -> None:
        """Let a node stand for a tensor.

        The node holds a copy: torch records a `detach` of new tensors that others refer to.
        """
        proxy = fx.Proxy(node, self.tracer)
        node.meta["val"] = proxy_tensor.snapshot_fake(tensor)
        proxy_tensor.set_proxy_slot(tensor, self.tracer, proxy_tensor._ProxyTensor(proxy, None))


def as_functional(given: Any, mode: Any) -> Any:
    """An input of a graph as `to_fun` makes it; autograd does not see the graph run."""
    if type(given) is not _FAKE or given._has_symbolic_sizes_strides:
        return functional_utils.to_fun(given)
    return _wrapped(given, mode)


def functional(mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an op on functional tensors that writes nothing; NotImplemented for others."""
    way = _way(func)
    if way is None or type(proxy_tensor.get_proxy_mode()) is not QuickProxies:
        return NotImplemented
    try:
        return way(mode, func, args, kwargs)
    except _UntreatedError:
        return NotImplemented


def _pure(mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    given = [*map(_unwrapped, args)]
    return _wrapped(func(*given, **{k: _unwrapped(a) for k, a in kwargs.items()}), mode)


def _view(mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Results share the memory of the first argument, and its later writes."""
    source, *numbers = args
    if type(source) is not functional_tensor.FunctionalTensor:
        raise _UntreatedError
    given = [source.elem, *map(_number, numbers)]
    named = {k: _number(a) for k, a in kwargs.items()}
    include = torch._C._dispatch_tls_local_include_set() | _KEYS
    exclude = torch._C._dispatch_tls_local_exclude_set().remove(_FUNCTIONALIZE)
    exclude -= functional_tensor.FunctionalTensor._extra_dispatch_keys
    with torch._C._ForceDispatchKeyGuard(include, exclude):
        before = torch._functionalize_enable_reapply_views(True)
        try:
            made = func._op_dk(_FUNCTIONALIZE, *given, **named)
        finally:
            torch._disable_functionalization()
            torch._functionalize_enable_reapply_views(before)
    several: Any = made if type(made) in (list, tuple) else [made]
    views = [functional_tensor.FunctionalTensor(v, mode) for v in several]
    for v in views:
        torch._functionalize_unsafe_set(v, source)
    return type(made)(views) if several is made else views[0]


def _unwrapped(given: Any) -> Any:
    kind = given.__class__
    if kind is functional_tensor.FunctionalTensor:
        torch._sync(given)
        return torch._from_functional_tensor(given.elem)
    return [*map(_unwrapped, given)] if kind in (list, tuple) else _number(given)


def _number(given: Any) -> Any:
    kind = given.__class__
    if kind in _NUMBERS or (kind in (list, tuple) and all(type(a) in _NUMBERS for a in given)):
        return given
    raise _UntreatedError


def _wrapped(made: Any, mode: Any) -> Any:
    if type(made) in (list, tuple):
        return type(made)([_wrapped(t, mode) for t in made])
    if not isinstance(made, torch.Tensor):
        return made
    return functional_tensor.FunctionalTensor(torch._to_functional_tensor(made), mode)
