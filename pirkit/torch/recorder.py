"""Functionalization that keeps what autograd knows and values do not: where gradients stop.

Ops are recorded below autograd, where a tensor and its `detach` are the same, and where a write
under `no_grad` looks like any other. In eager mode such a write changes the numbers of a tensor but
not its history: the gradient of the new numbers flows to what computed the old ones. Ops that one
function of the graph calls (`detach` in `gumbel_softmax`, a `clamp_` under `no_grad` in
`cosine_similarity`) count as ops of the graph.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pirkit.diag.errors import UnsupportedError
from pirkit.torch.capture_outputs import storage_of
from pirkit.torch.captured_graph import CUT
from pirkit.torch.libtorch import (
    aten,
    functional_tensor,
    functional_utils,
    proxy_tensor,
    pytree,
    torch,
)
from pirkit.torch.quick_recording import functional


class Recorder(functional_tensor.FunctionalTensorMode):  # pyright: ignore[reportUntypedBaseClass]
    """Marks nodes through which no gradient flows, and gives writes the gradient of eager mode."""

    def __init__(self, *, learns: bool, differentiates: bool) -> None:
        functional_tensor.FunctionalTensorMode.__init__(self, _allow_token_discovery=True)
        self.learns = learns
        """Whether gradients can be asked for: where they cannot, no node has to stop them."""
        self.differentiates = differentiates
        """Whether autograd sees what runs, because the graph calls `torch.autograd.grad`."""
        self.first: dict[Any, Any] = {}
        """By storage, the first tensor in it, of which later ones are views."""
        self.stops = False
        """Whether the node that runs stops gradients, and so all ops that it calls."""
        self.own = False
        """Whether a function with its own derivative runs: what it calls stops nothing."""
        self._detached: dict[int, Any] = {}
        """By id, tensors that share memory with another one, but send it no gradient."""
        self._written: dict[Any, Any] = {}
        """By storage, the value before a write that autograd did not see: it has the gradient."""
        self._apart: set[Any] = set()
        """Storages written through a detached tensor, which has no gradient, unlike the others."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Dynamo is off within `make_fx`, and need not be turned off for each op

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Functionalize an op, with marks for where gradients stop."""
        run = Recorder._run
        if not self.learns or func in functional_tensor.FunctionalTensor.metadata_fns:
            return run(self, func, types, args, kwargs)
        detaches = _detaches(func, differentiates=self.differentiates)
        stops = self.stops or (not self.own and (not torch.is_grad_enabled() or detaches))
        if not stops and not self._detached and not self._written:
            return run(self, func, types, args, kwargs)
        given = [
            a for a in pytree.tree_leaves((args, kwargs))
            if isinstance(a, functional_tensor.FunctionalTensor)
        ]  # fmt: skip
        self.read(given, stops=stops)
        with _marking(stops):
            # Tensors that the op writes without autograd seeing it, and what they held before.
            hidden = [
                t for t in _targets(func, args, kwargs or {})
                if (t.is_floating_point() or t.is_complex())
                and (stops or id(t) in self._detached)
            ]  # fmt: skip
            held = [self._value(self._base(t)) for t in hidden]
            result = run(self, func, types, args, kwargs)
            # Reading the values records pending writes here, where they are marked.
            for t, old in zip(hidden, held, strict=True):
                self._value(self._base(t))
                self._value(t)
                self._written.setdefault(storage_of(t), old)
                if not stops:
                    self._apart.add(storage_of(t))
        if stops or any(id(a) in self._detached for a in given):
            self.detach(pytree.tree_leaves(result), given)
        return result

    def _run(self, func: Any, types: Any, args: Sequence[Any], kwargs: Any) -> Any:
        found = functional(self, func, args, kwargs or {})
        if found is NotImplemented:
            usual = functional_tensor.FunctionalTensorMode.__torch_dispatch__
            return usual(self, func, types, args, kwargs)
        return found

    def detach(self, results: Iterable[Any], given: Sequence[Any]) -> None:
        """Note results that share memory with arguments, to which no gradient flows from them."""
        known, storages = set(map(id, given)), {storage_of(a) for a in given}
        for r in results:
            if (isinstance(r, functional_tensor.FunctionalTensor) and id(r) not in known
                    and storage_of(r) in storages):  # fmt: skip
                self._detached[id(r)] = r

    def read(self, given: Iterable[Any], *, stops: bool = False) -> None:
        """Prepare tensors that an op reads, or that are returned.

        What a hidden write has left in a storage gets the gradient of what was there. Raises
        UnsupportedError (PK0403) where that memory would need two gradients.
        """
        if not self._detached and not self._written:
            return
        for a in given:
            if id(a) in self._detached:
                if storage_of(a) in self._apart and storage_of(a) not in self._written:
                    raise UnsupportedError(
                        "a detached tensor is read after it was written, and so is the one whose "
                        "memory it shares", code="PK0403", help="write into a clone of it",
                    )  # fmt: skip
                with _marking(True):
                    self._value(a)
            elif not stops and storage_of(a) in self._written:
                self._keep_gradient(storage_of(a), self._base(a))

    def _keep_gradient(self, storage: Any, base: Any) -> None:
        """Let the gradient of what a storage holds flow to what it held before the hidden write."""
        new, old = self._value(base), self._written.pop(storage)
        with functional_tensor.disable_functional_mode():
            new = torch.ops.pirkit.constant(new)
            seed = torch.ops.pirkit.stand_in(new)
            (made,) = torch.ops.pirkit.custom([new], [old], [seed], [seed])
        base.replace_(made)
        base.commit_update()
        self._value(base)

    def _base(self, tensor: Any) -> Any:
        return self.first.get(storage_of(tensor), tensor)

    def _value(self, tensor: Any) -> Any:
        """The recorded value of a functional tensor, with all writes so far."""
        functional_utils.sync_functional_tensor(tensor)
        return torch._from_functional_tensor(tensor.elem)


_AUTOGRAD: Final[Any] = torch._C.DispatchKey.AutogradFunctionality


def _detaches(func: Any, *, differentiates: bool) -> bool:
    """Whether an op is a `detach` that the model calls.

    Transforms of `torch.func` call it, too, and so does autograd, where it runs, for tensors that
    it saves. A call of the model has passed autograd, whose dispatch key is excluded then.
    """
    if func is not aten.detach.default or torch._C._functorch.get_dynamic_layer_stack_depth():
        return False
    return not differentiates or torch._C._dispatch_tls_is_dispatch_key_excluded(_AUTOGRAD)


def _targets(func: Any, args: Sequence[Any], kwargs: Any) -> list[Any]:
    """The tensors into which an op writes."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    found: list[Any] = []
    for k, a in enumerate(schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            found += pytree.tree_leaves(args[k] if k < len(args) else kwargs.get(a.name))
    return [t for t in found if isinstance(t, functional_tensor.FunctionalTensor)]


@contextmanager
def _marking(stops: bool) -> Generator[None]:
    """If ``stops``, mark nodes that are recorded within it: no gradient flows through them."""
    mode = proxy_tensor.get_proxy_mode()
    if not stops or mode is None:
        yield
        return
    before = next(iter(reversed(mode.tracer.graph.nodes)), None)
    yield
    for node in reversed(mode.tracer.graph.nodes):
        if node is before:
            break
        node.meta[CUT] = True
