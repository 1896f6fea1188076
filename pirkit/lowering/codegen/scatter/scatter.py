"""Scatter: updates and indices are computed by vectorized loop nests; one single-threaded loop
applies them in order, so that duplicate indices are deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.index.expr import Expr, Iter
from pirkit.index.index_maps import Guard, bindings, compose, flat, space
from pirkit.index.substitution import substitute
from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import key_of
from pirkit.lowering.codegen.emit.generate import SYMBOL
from pirkit.lowering.codegen.ir.element_types import compute_type
from pirkit.lowering.codegen.ir.loopnest import Operand
from pirkit.lowering.codegen.ir.nest_builder import NotLowerableError
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import SCATTER_NS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Code, NativeSequence
from pirkit.runtime.native.target import host

_INDEX_TYPES: Final = (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
UPDATES_OPERAND: Final = {
    dt.float32: "float",
    dt.float64: "double",
    **{d: f"i{8 * d.itemsize}" for d in _INDEX_TYPES},
}
"""The element types of updates, as LLVM types."""

RESULT_OPERAND: Final = frozenset({*UPDATES_OPERAND, dt.float16, dt.bfloat16})
"""The element types of results; fp16 and bf16 are combined in float32 and rounded once."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """``count`` rows of ``row`` elements that are combined into a result of ``size`` elements.

    ``how`` is assign, add, mul, amin or amax. The operands are the result, the index of each row's
    first element (int64), and the updates. Rows outside of the result are skipped: the nest that
    computed the index has flagged them.
    """

    how: str
    dtype: DType
    size: int
    count: int
    row: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands, as those of a loop nest."""
        written = self.count * self.row
        kinds = ((self.dtype, self.size), (dt.int64, self.count), (self.dtype, written))
        return tuple([Operand(d, (), (), n * d.itemsize) for d, n in kinds])


@dataclass(frozen=True, slots=True)
class SplitKernel:
    """A kernel without scatters, and the scatters into its values.

    Each scatter comes with its operands: the values it combines into, indices and updates. They are
    appended to the values of the kernel and count as outputs. A result of narrower type is computed
    from its float32 copy afterwards.
    """

    kernel: MapExpr
    scatters: Mapping[int, tuple[Scatter, int, int, int]]


def without_scatters(kernel: MapExpr) -> SplitKernel:
    """The kernel with each scatter replaced by statements for its operands.

    Raises NotLowerableError for complex elements.
    """
    statements, more = list(kernel.statements), list[Statement]()
    scatters: dict[int, tuple[Scatter, int, int, int]] = {}

    def value(statement: Statement, shape: Sequence[int], dtype: DType, body: Node) -> int:
        more.append(_plain(statement, TensorMeta(tuple(shape), dtype), body))
        return len(kernel.statements) + len(more) - 1

    for k, statement in enumerate(kernel.statements):
        if statement.start is None:
            continue
        meta, extents = statement.meta, statement.extents
        # Complex elements have no native loop.
        if meta.dtype not in RESULT_OPERAND:
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
            whole_again = Load(len(kernel.inputs) + first_nest, space(meta.shape))
            statements[k] = _plain(statement, meta, _as(whole_again, meta.dtype))
            body = _as(body, dtype)
        places = value(statement, rows, dt.int64, Position(place, dt.int64))
        elements = value(statement, extents, dtype, body)
        scatter = Scatter(statement.attrs["reduce"], dtype, meta.numel, prod(rows), row)
        scatters[k] = (scatter, first_nest, places, elements)
    if not scatters:
        return SplitKernel(kernel, scatters)
    last = range(len(statements), len(statements) + len(more))
    outputs = (*kernel.outputs, *last)
    return SplitKernel(replace(kernel, statements=(*statements, *more), outputs=outputs), scatters)


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
    rebuilt: dict[int, Node] = {}
    for node in walk(root):
        match node:
            case Load():
                done: Node = Load(node.source, compose(node.index, at))
            case Fill():
                done = node
            case Position():
                done = Position(substitute(node.index, at), node.dtype)
            case Choose():
                guards = tuple([Guard(substitute(g.value, at), g.bound) for g in node.guards])
                done = Choose(guards, rebuilt[id(node.yes)], rebuilt[id(node.no)])
            case Apply():
                done = replace(node, args=tuple([rebuilt[id(a)] for a in node.args]))
        rebuilt[id(node)] = done
    return rebuilt[id(root)]


def native_scatter(scatter: Scatter) -> NativeSequence:
    """The callable of a scatter."""
    function = function_of(key_of(scatter, host()), lambda: _draft(scatter))
    return NativeSequence(((function, (0, 1, 2)),), 3, ())


def _draft(scatter: Scatter) -> Draft:
    sizes = tuple([o.size for o in scatter.operands])
    work = int(SCATTER_NS * scatter.count * scatter.row)
    known = about(scatter_text, f"scatter ({scatter.how})", lanes=1, rows=scatter.count)
    return Draft(scatter_text(scatter), Code(b"", SYMBOL, 1, 0, work, sizes), known)


def scatter_text(scatter: Scatter) -> str:
    """The LLVM module of a scatter: a loop over rows, in order, and one over their elements."""
    # The unsigned comparison rejects negative indices too; `row` elements from the index on must
    # fit.
    element = UPDATES_OPERAND[scatter.dtype]
    return f"""\
define void @{SYMBOL}(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {{
entry:
  %out = load ptr, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  %places = load ptr, ptr %second
  %third = getelementptr ptr, ptr %args, i64 2
  %values = load ptr, ptr %third
  br label %row
row:
  %k = phi i64 [ 0, %entry ], [ %following, %done ]
  %place.at = getelementptr i64, ptr %places, i64 %k
  %place = load i64, ptr %place.at
  %fits = icmp ult i64 %place, {scatter.size - scatter.row + 1}
  %first = mul i64 %k, {scatter.row}
  br i1 %fits, label %element, label %done
element:
  %j = phi i64 [ 0, %row ], [ %next, %element ]
  %from = add i64 %first, %j
  %to = add i64 %place, %j
  %value.at = getelementptr {element}, ptr %values, i64 %from
  %value = load {element}, ptr %value.at
  %old.at = getelementptr {element}, ptr %out, i64 %to
  %old = load {element}, ptr %old.at
{_combine_text(scatter.how, element, scatter.dtype)}
  store {element} %new, ptr %old.at
  %next = add i64 %j, 1
  %ends = icmp eq i64 %next, {scatter.row}
  br i1 %ends, label %done, label %element
done:
  %following = add i64 %k, 1
  %over = icmp eq i64 %following, {scatter.count}
  br i1 %over, label %end, label %row
end:
  ret void
}}
"""


def _combine_text(how: str, element: str, dtype: DType) -> str:
    """Instructions for ``%new`` from ``%old`` and ``%value``; NaN stays NaN, as in numpy."""
    prefix = "f" if dtype.is_float else ""
    if how == "assign":
        return f"  %new = select i1 true, {element} %value, {element} %old"
    if how in ("add", "mul"):
        return f"  %new = {prefix}{how} {element} %old, %value"
    # `%new` is the old value if it wins or is NaN, else the update, which may be NaN itself.
    order = "le" if how == "amin" else "ge"
    if not dtype.is_float:
        sign = "u" if dtype in (dt.uint8, dt.bool_) else "s"
        return (
            f"  %keeps = icmp {sign}{order} {element} %old, %value\n"
            f"  %new = select i1 %keeps, {element} %old, {element} %value"
        )
    return (
        f"  %wins = fcmp o{order} {element} %old, %value\n"
        f"  %nan = fcmp uno {element} %old, %old\n"
        f"  %keeps = or i1 %wins, %nan\n"
        f"  %new = select i1 %keeps, {element} %old, {element} %value"
    )
