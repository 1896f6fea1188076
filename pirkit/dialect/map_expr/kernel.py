"""MapExpr: a kernel as statements over iteration spaces, with explicit index expressions.

A kernel has *inputs* and *statements*, each of which defines one materialized value; some values
are outputs, the others are temporaries. ``Load.source`` numbers inputs first, then values. A code
generator needs nothing else:

- the iteration space of a statement: ``meta.shape`` (iterators ``i0...``) and, for a reduction,
  ``extents`` (``r0...``) with the reducing op. A scatter iterates over ``r0...`` only; ``start`` is
  the initial content of its value, and ``index`` where each element is written;
- the body: a tree of scalar ops over loads with normalized indices;
- the ``stage``: statements of one stage read each other's values only elementwise;
- the common loops: ``rows`` of the kernel are their extents, and ``rows`` of a statement is its
  iteration mapping, the iteration of these loops that computes each element. Consecutive statements
  with a mapping can share the loops: each read of a temporary is in the iteration that computed it,
  so a temporary lives for one iteration only. A reduction may also have the mapping of the elements
  that it combines: then it accumulates over the common loops, its result is complete after the last
  iteration, and no statement with a mapping reads it. A statement without a mapping has loops of
  its own, with a barrier before and after it;
- the ``tile``: a value with tiles and the statements that read it are computed tile by tile, so
  that only a few tiles of it exist at a time.

Sizes may be symbolic (`pirkit.index.extent`): determined by the shapes of inputs, or derived from
others by ``sizes``. `specialize.py` substitutes actual shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.once import cached_property
from pirkit.dialect.map_expr.tree import Choose, Load, Node, Position, rebuilt, walk
from pirkit.index.expr import Expr
from pirkit.index.extent import is_sized, named
from pirkit.index.index_maps import Index, image_size, space
from pirkit.index.size_solver import Derived
from pirkit.index.substitution import numbers_of
from pirkit.runtime.meta import TensorMeta


class Statement(Struct, frozen=True, eq=False):
    """One materialized value: ``body`` for each element, reduced by ``reduction`` if that is set.

    ``op`` is the name of the op of the program whose result the value is.
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
    """The position of its op in the kernel's ``ops``; -1 if that is not recorded."""
    start: Node | None = None
    """For a scatter, the initial content of the value."""
    index: Index = ()
    """For a scatter, the index at which each element is written, over ``r0...``."""
    tile: tuple[int, ...] = ()
    """For a value held in tiles, the shape of a tile (`tiling.py`)."""

    @property
    def roots(self) -> tuple[Node, ...]:
        """The expression trees: the initial content of a scatter, and the body."""
        return (self.body,) if self.start is None else (self.start, self.body)

    def nodes(self) -> Iterator[Node]:
        """The nodes of its trees, each once per tree."""
        for root in self.roots:
            yield from walk(root)

    @property
    def work(self) -> int:
        """The number of evaluations of the body."""
        return prod(self.meta.shape) * prod(self.extents)

    @property
    def is_gathered(self) -> bool:
        """True for a reduction over the common loops, which accumulates in each iteration."""
        inner = {e.iter for e in space(self.extents, "r")}
        return any(not inner.isdisjoint(e.iters) for e in self.rows or ())

    def loads(self) -> Iterator[Load]:
        """The loads of its trees, each node once."""
        return (node for node in self.nodes() if isinstance(node, Load))

    def with_sources(self, source: Callable[[int], int]) -> Statement:
        """The statement with the tensors that it loads numbered otherwise."""

        def change(node: Node) -> Node:
            return Load(source(node.source), node.index) if isinstance(node, Load) else node

        start = None if self.start is None else rebuilt(self.start, change)
        return replace(self, body=rebuilt(self.body, change), start=start)

    def exprs(self) -> Iterator[Expr]:
        """All index expressions: of loads, positions, guards, and of a scatter's writes."""
        yield from self.index
        for node in self.nodes():
            if isinstance(node, Load):
                yield from node.index
            elif isinstance(node, Position):
                yield node.index
            elif isinstance(node, Choose):
                yield from (g.value for g in node.guards)


Operand = int | TensorMeta | None | tuple["int | TensorMeta", ...]
"""An operand of a replaced op: the number of an input or (after the inputs) of an op; only a meta
for a tensor that is not read; a tuple for a list."""


class Origin(Struct, frozen=True, eq=False):
    """An op of the program that a kernel replaces: its call, and the meta of its result.

    Every index of the kernel follows from the index rules of these ops (`certificate.py`).
    """

    op: str
    operands: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    meta: TensorMeta
    location: Any = None
    """Where the op was written; opaque here."""


class MapExpr(Struct, frozen=True, eq=False, dict=True):
    """A kernel. ``outputs`` are numbers of statements; ``ops`` are the ops that it replaces."""

    name: str
    inputs: tuple[TensorMeta, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[int, ...]
    rows: tuple[int, ...] = ()
    sizes: tuple[Derived, ...] = ()
    ops: tuple[Origin, ...] = ()
    excess: bool = False
    """Whether float16 and bfloat16 results may stay in float32 until they are stored or cast;
    else each op rounds its result to its declared element type."""

    @cached_property
    def is_sized(self) -> bool:
        """True if it has symbolic sizes."""
        return any(map(is_sized, self.numbers()))

    def numbers(self) -> Iterator[int]:
        """All numbers that may be symbolic, except those only in ``ops``."""
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
        """The meta of an input or of a statement's value."""
        count = len(self.inputs)
        return self.inputs[source] if source < count else self.statements[source - count].meta

    def traffic(self) -> int:
        """The memory traffic in bytes: the elements read of each input, and the outputs.

        Only for a kernel with static sizes.
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
