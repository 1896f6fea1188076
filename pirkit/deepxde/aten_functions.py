"""Torch's functions without a rule of this room, as the overloads of ATen that they consist of.

The function runs on tensors without content and is recorded below autograd. The rules of
`pirkit/torch` make a program of that, whose operations are put into the program of the losses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from pirkit.deepxde.libtorch import torch
from pirkit.deepxde.programs import NotCovered
from pirkit.dialect.build import Value
from pirkit.torch.capture import capture
from pirkit.torch.captured_graph import Captured
from pirkit.torch.import_graph import import_graph
from pirkit.torch.imported_graph import Imported
from pirkit.torch.libtorch import fx, listed, symbolic_shapes

_MOST: Final = 256
_held: Final[dict[Hashable, tuple[Captured, Imported, Any]]] = {}
"""What `_consisting` gives, by function, structure of arguments, shapes and types of tensors, and
other arguments."""


def recorded(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    value_of: Callable[[Any], Value],
) -> Any:
    """The result of a function, with values as its tensors. ``value_of`` gives those of arguments.

    Raises NotCovered for a function that draws random numbers, writes into its arguments, gives
    numbers that depend on data, or has an op without a rule.
    """
    pytree = torch.utils._pytree
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    kinds = [(tuple(t.shape), t.dtype) for t in tensors]
    plain = [repr(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    key = (function, str(structure), tuple(kinds), tuple(plain))
    if key not in _held:
        if len(_held) >= _MOST:
            _held.clear()
        _held[key] = _consisting(function, leaves, structure, kinds)
    captured, imported, returned = _held[key]
    values = [value_of(t) for t in tensors]
    given = {f"x{i}": values[i] for i in imported.inputs}
    given |= {name: value_of(t) for name, t in _constants(imported)}
    found = imported.program(**given)
    stored = listed(found)
    nodes = [
        v if order is None else v.transpose(tuple(map(order.index, range(len(order)))))
        for v, order in zip(stored, imported.out_orders, strict=True)
    ]
    results = [
        nodes[r.at] if r.kind == "node" else values[r.at] if r.kind == "input" else r.value
        for r in captured.results
    ]
    return pytree.tree_unflatten(results, returned)


def _constants(imported: Imported) -> list[tuple[str, Any]]:
    names = imported.names[len(imported.inputs) + len(imported.draws) :]
    return list(zip(names, imported.constants, strict=True))


def _consisting(
    function: Callable[..., Any], leaves: Sequence[Any], structure: Any, kinds: Sequence[Any]
) -> tuple[Captured, Imported, Any]:
    """The ATen ops of a function of torch, and the structure of its results.

    It is captured on tensors without content, of the shapes and types ``kinds``. Raises NotCovered
    for a function that is more than operations on its arguments.
    """
    pytree: Any = torch.utils._pytree
    structures: list[Any] = []

    def flat(*tensors: Any) -> Any:
        """The function of its tensors alone; gives the leaves of its result."""

        given = iter(tensors)
        filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, structure)
        results, shape = pytree.tree_flatten(function(*args, **kwargs))
        structures.append(shape)
        # Copies: otherwise a result that is a view of an argument would be no output.
        return [r.clone() if isinstance(r, torch.Tensor) else r for r in results]

    graph = fx.Graph()
    inputs = [graph.placeholder(f"a{i}") for i in range(len(kinds))]
    graph.output(graph.call_function(flat, tuple(inputs)))
    mode = torch._subclasses.FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv())
    with mode:
        blanks = [torch.empty(shape, dtype=dtype) for shape, dtype in kinds]
    captured = capture(fx.GraphModule({}, graph), blanks)
    imported = import_graph(captured, {}, [True] * len(kinds))
    name = getattr(function, "__name__", str(function))
    if imported.fallbacks:
        raise NotCovered(f"`torch.{name}` is not recorded")
    if imported.draws:
        raise NotCovered(f"`torch.{name}` draws random numbers")
    if captured.written:
        raise NotCovered(f"`torch.{name}` writes into its arguments")
    if any(r.kind == "number" for r in captured.results):
        raise NotCovered(f"`torch.{name}` gives numbers")
    return captured, imported, structures[-1]
