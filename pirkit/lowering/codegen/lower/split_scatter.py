"""Splits scatters off a MapExpr kernel: updates and indices are computed by nests of their own.

One more nest applies the updates in order, so that duplicate indices are deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.dialect.map_expr import tree
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Node, Position
from pirkit.index.expr import Expr, Iter
from pirkit.index.index_maps import Guard, bindings, compose, flat, space
from pirkit.index.substitution import substitute
from pirkit.lowering.codegen.ir.element_types import combination, compute_type
from pirkit.lowering.codegen.ir.loopnest import (
    Kernel,
    Load,
    LoopPhase,
    Operand,
    ReduceKind,
    Scatter,
)
from pirkit.lowering.codegen.ir.nest_builder import NotLowerableError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

_INTEGERS: Final = (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
SCATTERED: Final = frozenset({dt.float16, dt.bfloat16, dt.float32, dt.float64, *_INTEGERS})
"""The element types of results; fp16 and bf16 are combined in float32 and rounded once."""

_INT32: Final = 2**31 - 1
_KINDS: Final[dict[str, ReduceKind | None]] = {
    "assign": None, "add": "sum", "mul": "prod", "amin": "min", "amax": "max",
}  # fmt: skip


class SplitScatter(Struct, frozen=True):
    """A scatter as a nest, and the numbers of its arrays: inputs of the kernel, then its values.

    ``made`` are the values that have to be computed before.
    """

    nest: Kernel
    arrays: tuple[int, int, int]
    made: tuple[int, ...]


class SplitScatters(Struct, frozen=True):
    """A kernel without scatters, and the scatters into its values.

    The arrays of a scatter are what it combines into, indices and updates. They are appended to the
    values of the kernel and count as outputs; updates that are an input as it is are read in place.
    A result of narrower type is computed from its float32 copy afterwards.
    """

    kernel: MapExpr
    scatters: Mapping[int, SplitScatter]


def without_scatters(kernel: MapExpr) -> SplitScatters:
    """The kernel with each scatter replaced by statements for its operands.

    Raises NotLowerableError for complex elements.
    """
    statements, more = list(kernel.statements), list[Statement]()
    scatters: dict[int, SplitScatter] = {}

    def value(statement: Statement, shape: Sequence[int], dtype: DType, body: Node) -> int:
        more.append(_plain(statement, TensorMeta(tuple(shape), dtype), body))
        return len(kernel.statements) + len(more) - 1

    for k, statement in enumerate(kernel.statements):
        if statement.start is None:
            continue
        meta, extents = statement.meta, statement.extents
        # Complex elements have no native loop.
        if meta.dtype not in SCATTERED:
            raise NotLowerableError(f"a scatter of {meta.dtype.name} has no native code")
        dtype, first_nest = compute_type(meta.dtype), k
        at = bindings(space(extents, "r"), space(extents))
        whole = _whole_axes(statement)
        rows, row = extents[: len(extents) - whole], prod(extents[len(extents) - whole :])
        # The index of a row's first element: complete axes start at 0.
        first = (*statement.index[: len(meta.shape) - whole], *[0] * whole)
        place = substitute(flat(first, meta.shape), at)
        body = _over_iterators(statement.body, at)
        # Combine in place, or in a float32 copy that is rounded once at the end.
        if dtype is meta.dtype:
            statements[k] = _plain(statement, meta, statement.start)
        else:
            first_nest = value(statement, meta.shape, dtype, _as(statement.start, dtype))
            whole_again = tree.Load(len(kernel.inputs) + first_nest, space(meta.shape))
            statements[k] = _plain(statement, meta, _as(whole_again, meta.dtype))
            body = _as(body, dtype)
        kind = dt.int32 if meta.numel <= _INT32 else dt.int64
        made = [first_nest, value(statement, rows, kind, Position(place, kind))]
        updates = _input_as_it_is(kernel, body, extents, dtype)
        if updates is None:
            made.append(value(statement, extents, dtype, body))
            updates = len(kernel.inputs) + made[-1]
        first, places = (len(kernel.inputs) + number for number in made[:2])
        nest = scatter_nest(statement.attrs["reduce"], dtype, meta.numel, prod(rows), row, kind)
        scatters[k] = SplitScatter(nest, (first, places, updates), tuple(made))
    if not scatters:
        return SplitScatters(kernel, scatters)
    last = range(len(statements), len(statements) + len(more))
    outputs = (*kernel.outputs, *last)
    return SplitScatters(
        replace(kernel, statements=(*statements, *more), outputs=outputs), scatters
    )


def _input_as_it_is(
    kernel: MapExpr, body: Node, extents: Sequence[int], dtype: DType
) -> int | None:  # fmt: skip
    """The input whose elements a body reads in their order, all of them; None if there is none."""
    if not isinstance(body, tree.Load) or body.source >= len(kernel.inputs):
        return None
    meta = kernel.inputs[body.source]
    in_order = flat(body.index, meta.shape) == flat(space(extents), extents)
    same = meta.numel == prod(extents) and meta.dtype is dtype
    return body.source if same and in_order else None


def scatter_nest(
    how: str, dtype: DType, size: int, count: int, row: int, places: DType = dt.int64
) -> Kernel:  # fmt: skip
    """``count`` rows of ``row`` elements that are combined into a result of ``size`` elements.

    The operands are the result, the index of each row's first element, and the updates.
    Rows outside of the result are skipped: the nest that computed the index has flagged them.
    """
    nbytes, kind = dtype.itemsize, combination(_KINDS[how], dtype)
    operands = (
        Operand(dtype, (), (0, nbytes), size * nbytes),
        Operand(places, (), (places.itemsize, 0), count * places.itemsize),
        Operand(dtype, (), (row * nbytes, nbytes), count * row * nbytes),
    )
    # Without outer loops it is one block, so one thread combines the updates, in their order.
    body = (Load("at", 1), Load("update", 2), Scatter(0, kind, "update", "at", size - row))
    return Kernel((), (count, row), operands, (LoopPhase(body),))


def _whole_axes(statement: Statement) -> int:
    """The number of last axes that are written completely at every index: they form a row."""
    index, shape, extents = statement.index, statement.meta.shape, statement.extents
    iterations = space(extents, "r")
    found = 0
    for back in range(1, min(len(shape), len(extents)) + 1):
        point = iterations[-back]
        elsewhere = any(point.iters & e.iters for e in index[:-back])
        if index[-back] is not point or shape[-back] != extents[-back] or elsewhere:
            break
        found = back
    return found


def _plain(statement: Statement, meta: TensorMeta, body: Node) -> Statement:
    return Statement(meta, body, statement.op, stage=statement.stage)


def _as(node: Node, dtype: DType) -> Node:
    return Apply("pd_op.cast", (node,), dtype)


def _over_iterators(root: Node, at: Mapping[Iter, Expr]) -> Node:
    """A tree with its iterators substituted."""

    def change(node: Node) -> Node:
        match node:
            case tree.Load():
                return tree.Load(node.source, compose(node.index, at))
            case Position():
                return Position(substitute(node.index, at), node.dtype)
            case Choose():
                guards = tuple([Guard(substitute(g.value, at), g.bound) for g in node.guards])
                return replace(node, guards=guards)
            case _:
                return node

    return tree.rebuilt(root, change)
