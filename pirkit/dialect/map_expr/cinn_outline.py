"""Prints a kernel in the form of CINN's strong-constraint branch (Paddle PR 58719): loops and ops.

::

    fn_elementwise_add_0_reduce_sum_1_2(&t_var_2[], t_y[], t_x[]) {
      AnchoredMapStmt(t_var_1) {
        MapStmt([i_0, i_1]) {
          reduce_sum_init(&t_var_2);
          MapStmt([i_2]) {
            elementwise_add(&t_var_1, t_x, t_y);
            reduce_sum_acc(&t_var_2, t_var_1);
          }
        }
      }
    }

The anchor is the value with the largest iteration space, whose index determines all others. This
form omits the indices; the text of `pir.map_expr` has them. A last line ``where t_var_1: keep(l1)``
lists the values held in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod
from typing import Final

from msgspec import Struct, field

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position
from pirkit.index.expr import Expr
from pirkit.index.index_maps import space

NAMES: Final = {
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "divide": "elementwise_div",
    **{name: f"reduce_{name}" for name in ("sum", "max", "min", "prod", "all", "any")},
}
"""CINN's names of ops, where they differ from Paddle's."""


def outline(kernel: MapExpr, inputs: Sequence[str] = ()) -> str:
    """The kernel in CINN's form; ``inputs`` are names of its inputs."""
    return "\n".join(_Outline(kernel, inputs).lines()) + "\n"


def _short(op: str) -> str:
    name = op.rpartition(".")[2]
    return NAMES.get(name, name)


class _Nest(Struct):
    """Loops around ops and inner nests."""

    loops: list[str]
    lines: list[str | _Nest] = field(default_factory=list["str | _Nest"])

    def text(self, depth: int) -> Iterator[str]:
        indent = "  " * depth
        if self.loops:
            yield f"{indent}MapStmt([{', '.join(self.loops)}]) {{"
        inner = depth + bool(self.loops)
        for line in self.lines:
            if isinstance(line, _Nest):
                yield from line.text(inner)
            else:
                yield "  " * inner + line
        if self.loops:
            yield indent + "}"


class _Outline:
    def __init__(self, kernel: MapExpr, inputs: Sequence[str]) -> None:
        self.kernel = kernel
        given = dict(enumerate(inputs))
        self.names = [f"t_{given.get(k, f'x{k}')}" for k in range(len(kernel.inputs))]
        self.iterators = count()
        self.variables = count(1)
        self.ops: list[str] = []
        self.anchor = ("", -1)

    def lines(self) -> Iterator[str]:
        shared = all(s.rows is not None and not s.is_gathered for s in self.kernel.statements)
        outer = [f"i_{next(self.iterators)}" for _ in self.kernel.rows] if shared else []
        nest = _Nest(outer)
        for statement in self.kernel.statements:
            nest.lines += self.statement(statement, shared)
        outputs = [f"&{self.names[len(self.kernel.inputs) + k]}[]" for k in self.kernel.outputs]
        inputs = [f"{n}[]" for n in reversed(self.names[: len(self.kernel.inputs)])]
        name = "_".join(f"{op}_{k}" for k, op in enumerate(self.ops))
        yield f"fn_{name}_{len(self.ops)}({', '.join((*outputs, *inputs))}) {{"
        yield f"  AnchoredMapStmt({self.anchor[0]}) {{"
        yield from nest.text(2)
        yield "  }"
        names = self.names[len(self.kernel.inputs) :]
        tiled = [n for n, s in zip(names, self.kernel.statements, strict=True) if s.tile]
        yield f"}} where {', '.join(f'{n}: keep(l1)' for n in tiled)}" if tiled else "}"

    def statement(self, statement: Statement, shared: bool) -> list[str | _Nest]:
        held = set[Expr](statement.rows or ()) if shared else set[Expr]()
        own = [e for e in space(statement.meta.shape) if e.iter is not None and e not in held]
        inner = [e for e in space(statement.extents, "r") if e.iter is not None]
        nest = _Nest([f"i_{next(self.iterators)}" for _ in own])
        body = _Nest([f"i_{next(self.iterators)}" for _ in inner]) if inner else nest
        reduce_op = _short(statement.reduction)
        value, lines = self.body(statement, bool(reduce_op))
        if reduce_op:
            result = f"t_var_{next(self.variables)}"
            nest.lines.append(f"{reduce_op}_init(&{result});")
            lines.append(f"{reduce_op}_acc(&{result}, {value});")
            self.ops.append(reduce_op)
        else:
            result = value
        body.lines += lines
        if body is not nest:
            nest.lines.append(body)
        self.names.append(result)
        size = prod(statement.meta.shape) * prod(statement.extents)
        if size > self.anchor[1]:
            self.anchor = (value, size)
        return [nest] if nest.loops else nest.lines

    def body(self, statement: Statement, is_reduced: bool) -> tuple[str, list[str | _Nest]]:
        """The value of the body, and the lines of the ops that compute it."""
        named: dict[int, str] = {}
        lines: list[str | _Nest] = []
        for node in statement.nodes():
            named[id(node)] = self.node(node, named, lines)
        value = named[id(statement.body)]
        if not is_reduced and not isinstance(statement.body, Apply | Choose):
            result = f"t_var_{next(self.variables)}"
            lines.append(f"{_short(statement.op)}(&{result}, {value});")
            self.ops.append(_short(statement.op))
            value = result
        return value, lines

    def node(self, node: Node, named: dict[int, str], lines: list[str | _Nest]) -> str:
        match node:
            case Load():
                return self.names[node.source]
            case Fill():
                return str(node.value)
            case Position():
                return f"position({node.index!r})"
            case Choose():
                op, args = "select", (node.yes, node.no)
            case Apply():
                op, args = _short(node.op), node.args
        result = f"t_var_{next(self.variables)}"
        operands = "".join(f", {named[id(a)]}" for a in args)
        lines.append(f"{op}(&{result}{operands});")
        self.ops.append(op)
        return result
