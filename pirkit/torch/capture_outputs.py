"""Describes what a captured graph returns: computed tensors, views, inputs, numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pirkit.diag.errors import UnsupportedError
from pirkit.torch.captured_graph import Result, View
from pirkit.torch.libtorch import (
    aten,
    functional_tensor,
    functional_utils,
    storage_refs,
    symbolic_shapes,
    torch,
)


def outputs_of(
    given: Sequence[Any], wrapped: list[Any], returned: list[Any], first: dict[Any, Any],
    found: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """The outputs of the functional graph: what results need, then contents of written inputs.

    ``given`` are the inputs before the run, ``wrapped`` the functional tensors that stood for
    them, ``returned`` what the graph returned, ``first`` the first tensor of each storage. Puts
    ``results`` and ``written`` of `Captured` into ``found``. Where several results share a storage,
    its first tensor is an output too, and they are views of it. Raises UnsupportedError (PK0403)
    for an input whose shape or storage has changed.
    """
    is_tensor = [isinstance(a, torch.Tensor) for a in wrapped]
    for before, a in zip(given, wrapped, strict=True):
        if isinstance(a, torch.Tensor) and functional_utils.has_metadata_mutation(
            a, before, check_only_storage_mutation=False
        ):
            raise UnsupportedError(
                "the graph changes the shape or storage of an input in place",
                code="PK0403",
                help="make a new tensor instead of `resize_`, `set_` or `t_` on an argument",
            )
    storages = {
        storage_of(a): i
        for i, (a, tensor) in enumerate(zip(wrapped, is_tensor, strict=True))
        if tensor
    }
    results: list[Result] = []
    nodes: list[Any] = []
    held: dict[Any, int] = {}
    numbers: dict[int, int] = {}
    shared = Counter(storage_of(t) for t in {id(t): t for t in returned}.values() if _is_tensor(t))
    for value in returned:
        if not isinstance(value, torch.Tensor):
            if symbolic_shapes.free_unbacked_symbols(value):
                results.append(Result("number", len(nodes)))
                made = _tensor_of(value)
                is_functional = isinstance(made, functional_tensor.FunctionalTensor)
                nodes.append(made if is_functional else functional_utils.to_fun(made))
            else:
                results.append(Result("constant", value=value))
            continue
        source = storages.get(storage_of(value))
        if source is not None and _shows(value, wrapped[source]):
            results.append(Result("input", source, _view_of(value, wrapped[source])))
            continue
        if id(value) in numbers:
            results.append(Result("node", numbers[id(value)]))
            continue
        storage = storage_of(value)
        base, whole = held.get(storage), first.get(storage)
        if base is None and shared[storage] > 1 and whole is not None and _is_whole(whole):
            numbers[id(whole)] = held[storage] = base = len(nodes)
            nodes.append(whole)
            if whole is value:
                results.append(Result("node", base))
                continue
        if base is not None and _is_whole(nodes[base]) and _shows(value, nodes[base]):
            results.append(Result("node", base, _view_of(value, nodes[base])))
            continue
        numbers[id(value)] = held[storage] = len(nodes)
        results.append(Result("node", len(nodes)))
        nodes.append(value)
    written = [
        i
        for i, (a, tensor) in enumerate(zip(wrapped, is_tensor, strict=True))
        if tensor and functional_utils.has_data_mutation(a)
    ]
    found["results"] = results
    found["written"] = [(i, len(nodes) + k) for k, i in enumerate(written)]
    outputs = [*nodes, *(wrapped[i] for i in written)]
    for value in outputs:
        functional_utils.sync_functional_tensor(value)
    return [functional_utils.from_fun(value) for value in outputs]


def _is_tensor(given: Any) -> bool:
    return isinstance(given, torch.Tensor)


def _tensor_of(number: Any) -> Any:
    """A number that depends on data as a tensor, in Python's precision."""
    kinds = {torch.SymFloat: torch.float64, torch.SymInt: torch.int64, torch.SymBool: torch.bool}
    return aten.scalar_tensor(number, dtype=kinds[type(number)])


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor, as a key."""
    return storage_refs.StorageWeakRef(tensor.untyped_storage())


def _view_of(tensor: Any, base: Any) -> View | None:
    """The view that makes a tensor from another one in its storage; None if it is that one."""
    if tensor is base:
        return None
    real = base.is_complex() and not tensor.is_complex()
    offset = tensor.storage_offset() - base.storage_offset() * (1 + real)
    return View(tuple(tensor.size()), tuple(tensor.stride()), offset, real)


def _shows(tensor: Any, base: Any) -> bool:
    """Whether a tensor has the elements of a base, or their real and imaginary parts.

    A lazy conjugation or negation is not in memory, so a view by strides cannot have it.
    """
    if any(t.is_conj() or t.is_neg() for t in (tensor, base)):
        return False
    return tensor.dtype in (base.dtype, base.dtype.to_real())


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is contiguous and fills its storage: any view there is a view of it."""
    size = tensor.numel() * tensor.element_size()
    is_full = symbolic_shapes.statically_known_true(tensor.untyped_storage().nbytes() == size)
    return tensor.is_contiguous() and is_full
