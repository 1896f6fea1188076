"""Writing where the data say: what is written and where comes from loop nests; the writing itself
is one loop on one thread, in the order of the elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.index.change import substitute
from pirkit.index.expr import Expr, Iter
from pirkit.index.maps import Guard, bindings, compose, flat, space
from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import key_of
from pirkit.lowering.codegen.generate import SYMBOL
from pirkit.lowering.codegen.loopnest import Operand
from pirkit.lowering.codegen.points import computed
from pirkit.lowering.codegen.writing import Unknown
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Code, NativeSequence
from pirkit.runtime.native.target import host

_WHOLE: Final = (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
ELEMENTS: Final = {
    dt.float32: "float",
    dt.float64: "double",
    **{d: f"i{8 * d.itemsize}" for d in _WHOLE},
}
"""The element types that are written, as LLVM has them."""

WRITTEN: Final = frozenset({*ELEMENTS, dt.float16, dt.bfloat16})
"""The element types of results: half floats are put together as float32, and rounded once."""

_NS: Final = 2
"""A guess of how long one element takes."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Rows of ``row`` elements that are put into a result of ``size`` elements, ``count`` of them.

    The operands are the result, the places in it, and what is put there. What has no place in it is
    passed by: the nest that made the places tells of it.
    """

    how: str
    dtype: DType
    size: int
    count: int
    row: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """As those of a loop nest."""
        written = self.count * self.row
        kinds = ((self.dtype, self.size), (dt.int64, self.count), (self.dtype, written))
        return tuple([Operand(d, (), (), n * d.itemsize) for d, n in kinds])


@dataclass(frozen=True, slots=True)
class Laid:
    """A kernel whose statements loop nests may hold, and what is put into which of its values.

    A landing comes with its operands: what is written into, places and elements, which are values
    behind those of the kernel and count as outputs. A value that is not written into itself is made
    of what was, afterwards.
    """

    kernel: MapExpr
    landings: Mapping[int, tuple[Landing, int, int, int]]


def laid_out(kernel: MapExpr) -> Laid:
    """A kernel without statements that write where the data say.

    Raises Unknown for one that writes complex numbers.
    """
    statements, more = list(kernel.statements), list[Statement]()
    landings: dict[int, tuple[Landing, int, int, int]] = {}

    def value(statement: Statement, shape: Sequence[int], dtype: DType, body: Node) -> int:
        more.append(_plain(statement, TensorMeta(tuple(shape), dtype), body))
        return len(kernel.statements) + len(more) - 1

    for k, statement in enumerate(kernel.statements):
        if statement.start is None:
            continue
        meta, extents = statement.meta, statement.extents
        if meta.dtype not in WRITTEN:
            raise Unknown(f"{meta.dtype.name} is written where the data say")
        dtype, begun = computed(meta.dtype), k
        at = bindings(space(extents, "r"), space(extents))
        whole = _whole_axes(statement)
        rows, row = extents[: len(extents) - whole], prod(extents[len(extents) - whole :])
        first = (*statement.index[: len(meta.shape) - whole], *[0] * whole)
        place = substitute(flat(first, meta.shape), at)
        body = _moved(statement.body, at)
        if dtype is meta.dtype:
            statements[k] = _plain(statement, meta, statement.start)
        else:
            begun = value(statement, meta.shape, dtype, _as(statement.start, dtype))
            whole_again = Load(len(kernel.inputs) + begun, space(meta.shape))
            statements[k] = _plain(statement, meta, _as(whole_again, meta.dtype))
            body = _as(body, dtype)
        places = value(statement, rows, dt.int64, Position(place, dt.int64))
        elements = value(statement, extents, dtype, body)
        landing = Landing(statement.attrs["reduce"], dtype, meta.numel, prod(rows), row)
        landings[k] = (landing, begun, places, elements)
    if not landings:
        return Laid(kernel, landings)
    last = range(len(statements), len(statements) + len(more))
    outputs = (*kernel.outputs, *last)
    return Laid(replace(kernel, statements=(*statements, *more), outputs=outputs), landings)


def _whole_axes(statement: Statement) -> int:
    """How many of the last axes are written from end to end wherever something is."""
    index, shape, extents = statement.index, statement.meta.shape, statement.extents
    points = space(extents, "r")
    found = 0
    for back in range(1, min(len(shape), len(extents)) + 1):
        point = points[-back]
        elsewhere = any(point.iters & e.iters for e in index[:-back])
        if index[-back] is not point or shape[-back] != extents[-back] or elsewhere:
            break
        found = back
    return found


def _plain(statement: Statement, meta: TensorMeta, body: Node) -> Statement:
    return Statement(meta, body, statement.op, stage=statement.stage)


def _as(node: Node, dtype: DType) -> Node:
    return Apply("pd_op.cast", (node,), dtype)


def _moved(root: Node, at: Mapping[Iter, Expr]) -> Node:
    """A tree over other iterators."""
    made: dict[int, Node] = {}
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
                done = Choose(guards, made[id(node.yes)], made[id(node.no)])
            case Apply():
                done = replace(node, args=tuple([made[id(a)] for a in node.args]))
        made[id(node)] = done
    return made[id(root)]


def native_landing(landing: Landing) -> NativeSequence:
    """What runs a landing."""
    function = function_of(key_of(landing, host()), lambda: _draft(landing))
    return NativeSequence(((function, (0, 1, 2)),), 3, ())


def _draft(landing: Landing) -> Draft:
    sizes = tuple([o.size for o in landing.operands])
    work = int(_NS * landing.count * landing.row)
    return Draft(landing_text(landing), Code(b"", SYMBOL, 1, 0, work, sizes))


def landing_text(landing: Landing) -> str:
    """The code of a landing, as text."""
    element = ELEMENTS[landing.dtype]
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
  %fits = icmp ult i64 %place, {landing.size - landing.row + 1}
  %first = mul i64 %k, {landing.row}
  br i1 %fits, label %element, label %done
element:
  %j = phi i64 [ 0, %row ], [ %next, %element ]
  %from = add i64 %first, %j
  %to = add i64 %place, %j
  %value.at = getelementptr {element}, ptr %values, i64 %from
  %value = load {element}, ptr %value.at
  %old.at = getelementptr {element}, ptr %out, i64 %to
  %old = load {element}, ptr %old.at
{_put_together(landing.how, element, landing.dtype)}
  store {element} %new, ptr %old.at
  %next = add i64 %j, 1
  %ends = icmp eq i64 %next, {landing.row}
  br i1 %ends, label %done, label %element
done:
  %following = add i64 %k, 1
  %over = icmp eq i64 %following, {landing.count}
  br i1 %over, label %end, label %row
end:
  ret void
}}
"""


def _put_together(how: str, element: str, dtype: DType) -> str:
    """What makes ``%new`` of ``%old`` and ``%value``; NaN stays NaN, as with numpy."""
    prefix = "f" if dtype.is_float else ""
    if how == "assign":
        return f"  %new = select i1 true, {element} %value, {element} %old"
    if how in ("add", "mul"):
        return f"  %new = {prefix}{how} {element} %old, %value"
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
