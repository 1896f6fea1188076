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
    """How a result is a view of an input, or of an output; sizes may be symbolic."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    """In elements, from the first element of the base, which may lie anywhere in its storage."""
    real: bool = False
    """Whether it is a view of the real and imaginary parts of a complex base."""

    @cached_property
    def is_static(self) -> bool:
        """Whether no size is symbolic."""
        return all(type(n) is int for n in (*self.size, *self.stride, self.offset))


@dataclass(frozen=True)
class Result:
    """A result of a graph.

    ``kind`` is ``node`` for a computed tensor, ``number`` for the number in one, ``input`` for an
    input as it is after the call, ``constant`` for a ``value`` known before. ``at`` is the index
    of the output of the graph, or of the input. ``view`` says which part of the output or input
    the result is; None for all of it.
    """

    kind: str
    at: int = 0
    view: View | None = None
    value: Any = None
    detached: bool = False
    """Whether it requires no gradient in torch, although the output or input may."""


@dataclass
class Captured:
    """A functional graph, and how its outputs become results and writes.

    Outputs of the graph are first the tensors that results need, then the new contents of written
    inputs.
    """

    graph: Any
    module: Any
    results: list[Result]
    written: list[tuple[int, int]]
    """Pairs of indices: of an input, and of the output that is its new content."""
    examples: list[Any]
    """The inputs as fake tensors, and numbers."""
    outputs: list[Any]
    """The nodes of the outputs."""
    learns: list[bool | None] = field(default_factory=list[bool | None])
    """Whether each output requires a gradient; None where torch does not say."""
    attributes: list[Any] = field(default_factory=list[Any])
    """Tensors that the graph module holds, such as an optimizer's state: they are last inputs."""
    parameters: dict[int, str] = field(default_factory=dict[int, str])
    """The names of inputs that become parameters of the program, by index."""
    source: Any = None
    """The graph module of Dynamo, which torch can run instead."""

    @property
    def placeholders(self) -> list[Any]:
        return [n for n in self.graph.nodes if n.op == "placeholder"]
