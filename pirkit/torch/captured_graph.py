"""What capture gives: a functional graph, and how its outputs become results and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pirkit.diag.once import cached_property

CUT: Final = "pirkit_cut"
"""Mark of a node through which no gradient flows: made under `no_grad`, or by `detach`."""

SOURCE: Final = "pirkit_source"
"""The name of the node of Dynamo's graph that a node comes from."""


@dataclass(frozen=True)
class View:
    """A result that is a view of an input, or of another result: sizes may be symbolic."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    """From the first element of the input, which may lie anywhere in its storage."""
    real: bool = False
    """Whether it holds real numbers, parts of complex ones."""

    @cached_property
    def is_static(self) -> bool:
        """Whether no size is symbolic."""
        return all(type(n) is int for n in (*self.size, *self.stride, self.offset))


@dataclass(frozen=True)
class Result:
    """A result of a graph.

    ``kind`` is ``node`` for a computed tensor, ``number`` for the number in one, ``input`` for an
    input as it is after the call, ``constant`` for what is known before. ``at`` is the number of
    the node among the outputs of the graph, or that of the input. ``view`` says which part of the
    input or node it is.
    """

    kind: str
    at: int = 0
    view: View | None = None
    value: Any = None
    detached: bool = False
    """Whether torch says that it requires no gradient, although what it is part of may."""


@dataclass
class Captured:
    """A functional graph, and how its outputs become results and writes.

    Outputs of the graph are first what results need, then the new contents of written inputs.
    """

    graph: Any
    module: Any
    results: list[Result]
    written: list[tuple[int, int]]
    """Numbers of an input and of the output that is its new content."""
    examples: list[Any]
    """The inputs, tensors without data."""
    outputs: list[Any]
    """The nodes of the outputs."""
    learns: list[bool | None] = field(default_factory=list[bool | None])
    """Of each output whether it requires a gradient, None where nobody has said so."""
    attributes: list[Any] = field(default_factory=list[Any])
    """Tensors of the graph module itself, as the last inputs: state that an optimizer writes."""
    parameters: dict[int, str] = field(default_factory=dict[int, str])
    """Inputs that are parameters of the program, by number."""
    source: Any = None
    """The graph module of Dynamo, which torch can run instead."""

    @property
    def placeholders(self) -> list[Any]:
        return [n for n in self.graph.nodes if n.op == "placeholder"]
