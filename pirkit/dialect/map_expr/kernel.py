"""MapExpr: a kernel as statements over iteration spaces, with every index solved.

A kernel has *inputs* and *statements*, each of which gives one stored value; some values are
outputs, the others are temporaries of the kernel. ``Load.source`` counts inputs first, then values.
A generator of code finds here, without asking anything else:

- the space of a statement: ``meta.shape`` (iterators ``i0...``) and, of a reduction, ``extents``
  (``r0...``) with the op that reduces elements; of one that writes at data-dependent indices, what
  is written ranges over ``r0...`` alone, and ``start`` and ``index`` say into what, and where;
- its body: a tree of scalar ops over loads with normalised indices;
- its ``stage``: statements of one stage read no value of each other but point by point;
- the loops that statements share: ``rows`` of the kernel are their extents, ``rows`` of a statement
  say at which iteration of them an element is computed. Statements with rows that follow each
  other may share the loops: between them, every read of a temporary is of the same iteration, so
  that it need not live longer than that. The iteration may be that of an element which a reduction
  combines: its result is known when all iterations are over, and no statement with rows reads it.
  A statement without rows has loops of its own: what it reads is complete
  before it starts, and it is complete before the next one does;
- its ``tile``: statements that read a value held in tiles go through tiles together with it, so
  that no more of it than some tiles exists at a time.

A size may be a name, or a polynomial of names, for a number that only the shapes of inputs tell
(`pirkit.index.extent`); ``sizes`` are those that follow from others. `specialize.py` makes it a
kernel without names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from pirkit.dialect.map_expr.tree import Choose, Load, Node, Position, walk
from pirkit.index.expr import Expr
from pirkit.index.extent import is_sized, named
from pirkit.index.index_maps import Index, image_size, space
from pirkit.index.size_solver import Derived
from pirkit.index.substitution import numbers_of
from pirkit.runtime.meta import TensorMeta


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One stored value: ``body`` for each element, reduced by ``reduction`` if there is one.

    ``op`` is the op of the program that the value is the result of.
    """

    meta: TensorMeta
    body: Node
    op: str
    reduction: str = ""
    extents: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stage: int = 0
    rows: tuple[Expr, ...] | None = None
    origin: int = -1
    """Which of the kernel's ``ops`` it is; -1 if the kernel does not tell."""
    start: Node | None = None
    """Of a value into which elements are written at data-dependent indices, what it is before."""
    index: Index = ()
    """And where they are written, over ``r0...``."""
    tile: tuple[int, ...] = ()
    """Of a value that is held in tiles, how many elements one has along each axis (`tiling.py`)."""

    @property
    def roots(self) -> tuple[Node, ...]:
        """Its trees: that of what it is before, if there is one, and its body."""
        return (self.body,) if self.start is None else (self.start, self.body)

    def nodes(self) -> Iterator[Node]:
        """The nodes of its trees, each once in each."""
        for root in self.roots:
            yield from walk(root)

    @property
    def work(self) -> int:
        """How often the body is computed."""
        return prod(self.meta.shape) * prod(self.extents)

    @property
    def is_gathered(self) -> bool:
        """True if the common loops go through what it reduces."""
        inner = {e.iter for e in space(self.extents, "r")}
        return any(not inner.isdisjoint(e.iters) for e in self.rows or ())

    def loads(self) -> Iterator[Load]:
        """What the body reads, each node once."""
        return (node for node in self.nodes() if isinstance(node, Load))

    def exprs(self) -> Iterator[Expr]:
        """The indices, positions and guards of its trees, and where it writes."""
        yield from self.index
        for node in self.nodes():
            if isinstance(node, Load):
                yield from node.index
            elif isinstance(node, Position):
                yield node.index
            elif isinstance(node, Choose):
                yield from (g.value for g in node.guards)


Operand = int | TensorMeta | None | tuple["int | TensorMeta", ...]
"""An operand of an op that a kernel stands for: inputs are counted first, then ops. Of what is not
read only the shape is known; a list has several."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """An op of the program that a kernel stands for: its call, and what it gives.

    From the index rules of these ops every index of the kernel follows.
    """

    op: str
    operands: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    meta: TensorMeta


@dataclass(frozen=True, eq=False)
class MapExpr:
    """A kernel. ``outputs`` are numbers of statements; ``ops`` are those that it stands for."""

    name: str
    inputs: tuple[TensorMeta, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[int, ...]
    rows: tuple[int, ...] = ()
    sizes: tuple[Derived, ...] = ()
    ops: tuple[Origin, ...] = ()
    excess: bool = False
    """Whether results of float16 and bfloat16 may stay in float32 until they are stored or cast;
    else each op rounds its result to the element type that it states."""

    @cached_property
    def is_sized(self) -> bool:
        """True if a number in it is known only when the kernel runs."""
        return any(map(is_sized, self.numbers()))

    def numbers(self) -> Iterator[int]:
        """Every number in it that may be a named size, but those that only its ops know."""
        for meta in self.inputs:
            yield from meta.shape
        yield from self.rows
        for statement in self.statements:
            yield from (*statement.meta.shape, *statement.extents)
            for expr in (*(statement.rows or ()), *statement.exprs()):
                yield from numbers_of(expr) if expr.sized else ()
            for node in statement.nodes():
                yield from (g.bound for g in node.guards) if isinstance(node, Choose) else ()
        yield from (n for size in self.sizes for n in (named(size.name), *size.args))

    @property
    def results(self) -> tuple[TensorMeta, ...]:
        """Metas of the outputs."""
        return tuple([self.statements[k].meta for k in self.outputs])

    def meta(self, source: int) -> TensorMeta:
        """The meta of an input or of a stored value."""
        count = len(self.inputs)
        return self.inputs[source] if source < count else self.statements[source - count].meta

    def traffic(self) -> int:
        """Bytes between the kernel and memory: what it reads of each input, and its outputs.

        Of a kernel whose sizes are known.
        """
        touched: dict[int, int] = {}
        seen: set[tuple[int, Index]] = set()
        for statement in self.statements:
            for load in statement.loads():
                if load.source >= len(self.inputs) or (load.source, load.index) in seen:
                    continue
                seen.add((load.source, load.index))
                meta = self.inputs[load.source]
                size = touched.get(load.source, 0) + image_size(load.index, meta.shape)
                touched[load.source] = min(size, meta.numel)
        read = sum(n * self.inputs[k].dtype.itemsize for k, n in touched.items())
        return read + sum(m.numel * m.dtype.itemsize for m in self.results)
