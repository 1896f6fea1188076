"""A graph of Dynamo in pieces: torch runs the nodes between them, which no program can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pirkit.diag.span import Span
from pirkit.torch.capture import fakes_of, numbers_of
from pirkit.torch.imported_graph import Fallback
from pirkit.torch.libtorch import fx, torch
from pirkit.torch.node_error import NodeError, innermost_line

LIMIT: Final = 16
"""Nodes that torch may run between pieces; with more, it runs the whole graph."""

_VALUES: Final[Any] = (torch.Tensor, torch.SymInt, torch.SymFloat, int, float)
"""The types of values that a piece takes."""

Make = Callable[[Any, Sequence[Any]], Any]
"""Compiles a graph for inputs like these. Raises NodeError for what no program can hold."""


def in_pieces(
    graph: Any, inputs: Sequence[Any], make: Make, report: Callable[[list[Fallback], int], None]
) -> Any:
    """A graph compiled as a whole if that is possible, else as pieces around nodes that torch runs.

    Each NodeError of ``make`` names one more such node. Torch runs the whole graph if the error
    names none, if there are more than `LIMIT`, or if the graph differentiates. ``report`` gets the
    nodes that torch runs, and the number of all nodes that are calls.
    """
    left: dict[str, NodeError] = {}
    calls = [n for n in graph.graph.nodes if n.op.startswith("call_")]
    while True:
        try:
            made = make(graph, inputs) if not left else _pieces(graph, inputs, set(left), make)
        except NodeError as error:
            if (error.node is None or error.node in left or len(left) == LIMIT
                    or any(map(_transforms, calls))):  # fmt: skip
                report([_fallback(n, error) for n in calls], len(calls))
                return graph.forward
            left[error.node] = error
            continue
        if left:
            report([_fallback(n, left[n.name]) for n in calls if n.name in left], len(calls))
        return made


def _transforms(node: Any) -> bool:
    """Whether a node differentiates the nodes before it, or opens a transform of `torch.func`.

    Such a graph cannot be cut: tensors of a transform have no meaning outside of it.
    """
    name = str(getattr(node.target, "__name__", ""))
    return node.target is torch.autograd.grad or name.endswith("_increment_nesting")


def _fallback(node: Any, error: NodeError) -> Fallback:
    line = innermost_line(node.stack_trace)
    span = error.span if line is None else Span(*line)
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return Fallback(str(name or node.target), span, error.message)


@dataclass(frozen=True)
class Step:
    """A compiled piece, or nodes that torch runs, with names of values that it takes and gives."""

    call: Callable[..., Any]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    learns: bool
    """Whether gradients are recorded where it begins."""


class Pieces:
    """What Dynamo calls instead of a graph: its pieces, in order, each in its grad mode."""

    def __init__(self, takes: tuple[str, ...], steps: list[Step], returned: Any) -> None:
        self.takes, self.steps, self.returned = takes, steps, returned

    def __call__(self, *args: Any) -> Any:
        values = dict(zip(self.takes, args, strict=True))
        for step in self.steps:
            with torch.set_grad_enabled(step.learns):
                found = step.call(*[values[name] for name in step.takes])
            values.update(zip(step.gives, found, strict=True))

        def value(node: Any) -> Any:
            return values[node.name]

        return fx.map_arg(self.returned, value)


def _pieces(graph: Any, inputs: Sequence[Any], left: set[str], make: Make) -> Pieces:
    """A graph whose nodes in ``left`` are run by torch.

    Raises NodeError, also where a piece would take something else than tensors and numbers.
    """
    mode, fakes, _ = fakes_of(inputs)
    values = _Values(graph)
    with mode, numbers_of(mode):
        values.run(*fakes)
    nodes = list(graph.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    sizes = [n for n in places if isinstance(values.held[n], torch.SymInt)]
    steps: list[Step] = []
    by_torch: set[Any] = set()
    for is_left, part in _parts(nodes, left, values):
        inner = set(part)
        taken = [n for p in part for n in p.all_input_nodes
                 if n not in inner and n.op != "get_attr"]  # fmt: skip
        takes = list(dict.fromkeys([*sizes, *taken]))
        for n in taken:
            if not isinstance(values.held[n], _VALUES) and not (is_left and n in by_torch):
                raise NodeError(None, ValueError(f"`{n.name}` opens a context over several pieces"))
        by_torch.update(part if is_left else ())
        gives = [n for n in part if any(user not in inner for user in n.users)]
        learns = values.learns[part[0]]
        module = _module(graph, part, takes, gives)
        if is_left:
            call = module.forward
        else:
            examples = [values.held[n] for n in takes]
            with torch.set_grad_enabled(learns):
                call = make(module, examples)
        steps.append(Step(call, _names(takes), _names(gives), learns))
    return Pieces(_names(places), steps, nodes[-1].args[0])


def _names(nodes: Sequence[Any]) -> tuple[str, ...]:
    return tuple([n.name for n in nodes])


class _Values(fx.Interpreter):  # pyright: ignore[reportUntypedBaseClass]
    """Runs a graph on tensors without data, and keeps what each node gives."""

    def __init__(self, module: Any) -> None:
        fx.Interpreter.__init__(self, module, garbage_collect_values=False)
        self.held: dict[Any, Any] = {}
        self.learns: dict[Any, bool] = {}

    def run_node(self, n: Any) -> Any:
        self.learns[n] = torch.is_grad_enabled()
        self.held[n] = found = fx.Interpreter.run_node(self, n)
        return found


def _module(graph: Any, part: list[Any], takes: list[Any], gives: list[Any]) -> Any:
    """Some nodes of a graph as a graph module."""
    made = fx.Graph()
    copies: dict[Any, Any] = {}
    for node in takes:
        copies[node] = made.placeholder(node.name)
        copies[node].meta = dict(node.meta)

    def copied(node: Any) -> Any:
        if node not in copies:
            copies[node] = made.node_copy(node, copied)  # an attribute: others are copied before
        return copies[node]

    for node in part:
        copies[node] = made.node_copy(node, copied)
    made.output([copies[n] for n in gives])
    return fx.GraphModule(graph, made)


def _parts(nodes: list[Any], left: set[str], values: _Values) -> list[tuple[bool, list[Any]]]:
    """Consecutive nodes that torch runs, or that one piece holds; grad mode is one for all of them.

    No piece takes a tuple, so torch also runs the nodes that read a tuple of a node that it runs.
    """
    found: list[tuple[bool, list[Any]]] = []
    taken: set[Any] = set()
    last: tuple[bool, bool] | None = None
    for node in nodes:
        if not node.op.startswith("call_") or node.target is torch._C._set_grad_enabled:
            continue
        is_left = node.name in left or any(
            n in taken and not isinstance(values.held[n], _VALUES) for n in node.all_input_nodes
        )
        if is_left:
            taken.add(node)
        kind = is_left, values.learns[node]
        if kind != last:
            found.append((is_left, []))
            last = kind
        found[-1][1].append(node)
    return found
