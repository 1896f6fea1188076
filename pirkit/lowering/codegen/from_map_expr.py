"""From a MapExpr to loop nests that native code is generated from.

The loops that all statements share become the outer axes, what is left of their spaces the inner
ones; a reduction ends a sweep. Where statements do not go into one nest, each gets one of its own,
with the values between them in memory. What no nest holds (elements that the data choose, choices
by place) is left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.index.expr import Expr, Iter
from pirkit.index.maps import space
from pirkit.lowering.codegen import loopnest, primitives
from pirkit.lowering.codegen.loopnest import Compute, Constant, Fold, FoldKind, Index, Kernel, Stage
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

FOLDS: Final[dict[str, FoldKind]] = {
    "pd_op.sum": "sum",
    "pd_op.prod": "prod",
    "pd_op.max": "max",
    "pd_op.min": "min",
}
HARMLESS: Final = frozenset({"axis"})
"""Attributes of scalar ops that say nothing about single elements."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest, and for each of its operands the number of the array: inputs, then values."""

    kernel: Kernel
    arrays: tuple[int, ...]


class _Unknown(Exception):
    """No loop nest computes this; the message is for those who ask why."""


def nests_of(kernel: MapExpr) -> tuple[Nest, ...] | str:
    """The loop nests of a kernel in order, or why there are none."""
    metas = (*kernel.inputs, *(s.meta for s in kernel.statements))
    if any(m.numel == 0 for m in metas):
        return "there is nothing to compute"
    try:
        if all(s.rows is not None for s in kernel.statements):
            return (_Builder(kernel, tuple(range(len(kernel.statements))), kernel.rows).nest(),)
    except _Unknown:
        pass
    try:
        alone = range(len(kernel.statements))
        return tuple([_Builder(kernel, (k,), None).nest() for k in alone])
    except _Unknown as reason:
        return str(reason)


@dataclass
class _Sweep:
    """A stage in the making."""

    body: list[loopnest.Statement] = field(default_factory=list[loopnest.Statement])
    after: list[loopnest.Statement] = field(default_factory=list[loopnest.Statement])
    closed: set[int] = field(default_factory=set[int])
    """Values that are known only when the sweep is over."""


class _Builder:
    """One nest of some statements of a kernel; without ``rows`` a statement has all loops outside.

    Values of other statements are read from memory.
    """

    def __init__(
        self, kernel: MapExpr, statements: tuple[int, ...], rows: tuple[int, ...] | None
    ) -> None:
        self.kernel = kernel
        self.statements = statements
        self.inputs = len(kernel.inputs)
        self.outer: tuple[int, ...] = ()
        self.inner: tuple[int, ...] = ()
        self.axes: dict[int, dict[Iter, int]] = {}
        self.place(rows)
        self.operands: dict[tuple[Any, ...], int] = {}
        self.made: list[loopnest.Operand] = []
        self.arrays: list[int] = []
        self.values: dict[int, str] = {}
        self.count = 0
        self.sweeps = [_Sweep()]

    # --- axes ---

    def place(self, rows: tuple[int, ...] | None) -> None:
        """Give each iterator of each statement its axis of the nest."""
        if rows is None:
            (only,) = self.statements
            statement = self.kernel.statements[only]
            self.outer, self.inner = statement.meta.shape, statement.extents
            iters = (*space(statement.meta.shape), *space(statement.extents, "r"))
            self.axes[only] = {e.iter: a for a, e in enumerate(iters) if e.iter is not None}
            return
        self.outer = rows
        for number in self.statements:
            statement = self.kernel.statements[number]
            found: dict[Iter, int] = {}
            for axis, e in enumerate(statement.rows or ()):
                if e.iter is not None:
                    found[e.iter] = axis
                elif not e.is_constant or rows[axis] != 1:
                    raise _Unknown("a statement turns with the common loops in its own way")
            whole = (*space(statement.meta.shape), *space(statement.extents, "r"))
            left = [e.iter for e in whole if e.iter is not None and e.iter not in found]
            extents = tuple([i.extent for i in left])
            if extents and self.inner and extents != self.inner:
                raise _Unknown("statements sweep different spaces")
            self.inner = self.inner or extents
            if statement.reduction and len(left) != len([n for n in statement.extents if n > 1]):
                raise _Unknown("a fold is made at several points of a sweep")
            for axis, i in enumerate(left, len(rows)):
                found[i] = axis
            self.axes[number] = found

    def sweeps_inner(self, number: int) -> bool:
        return any(axis >= len(self.outer) for axis in self.axes[number].values())

    # --- statements ---

    def nest(self) -> Nest:
        for number in self.statements:
            self.statement(number, self.kernel.statements[number])
        stages = tuple([Stage(tuple(s.body), tuple(s.after)) for s in self.sweeps])
        kernel = Kernel(self.outer, self.inner, tuple(self.made), stages)
        return Nest(kernel, tuple(self.arrays))

    def statement(self, number: int, statement: Statement) -> None:
        inner = self.sweeps_inner(number) or not self.inner
        read = {load.source - self.inputs for load in statement.loads()}
        if inner and read & self.sweeps[-1].closed:
            self.sweeps.append(_Sweep())
        sweep = self.sweeps[-1]
        lines = sweep.body if inner else sweep.after
        name = self.tree(number, statement, lines)
        name = self.cast(name, self.dtype_of(statement.body), statement.meta.dtype, lines)
        if statement.reduction and prod(statement.extents) > 1:
            kind = FOLDS.get(statement.reduction)
            if kind is None or not inner:
                raise _Unknown(f"`{statement.reduction}` is no fold of native code")
            folded = self.fresh()
            lines.append(Fold(folded, kind, name))
            name, lines = folded, sweep.after
        elif statement.reduction and statement.reduction not in FOLDS:
            raise _Unknown(f"`{statement.reduction}` is no fold of native code")
        if lines is sweep.after:
            sweep.closed.add(number)
        self.values[number] = name
        if number in self.kernel.outputs or len(self.statements) == 1:
            source = self.inputs + number
            index = space(statement.meta.shape)
            lines.append(loopnest.Store(self.operand(number, source, index), name))

    def fresh(self) -> str:
        self.count += 1
        return f"n{self.count}"

    # --- trees ---

    def tree(self, number: int, statement: Statement, lines: list[loopnest.Statement]) -> str:
        names: dict[int, str] = {}
        for node in walk(statement.body):
            names[id(node)] = self.node(number, node, names, lines)
        return names[id(statement.body)]

    def node(
        self, number: int, node: Node, names: dict[int, str], lines: list[loopnest.Statement]
    ) -> str:
        match node:
            case Load():
                return self.load(number, node, lines)
            case Fill():
                return self.constant(node.value, node.dtype, lines)
            case Position():
                whole = self.position(number, node.index, lines)
                return self.cast(whole, dt.int64, node.dtype, lines)
            case Choose():
                return self.choose(number, node, names, lines)
            case Apply():
                return self.apply(node, [names[id(a)] for a in node.args], lines)

    def dtype_of(self, node: Node) -> DType:
        match node:
            case Load():
                return self.kernel.meta(node.source).dtype
            case Choose():
                return self.dtype_of(node.yes)
            case _:
                return node.dtype

    def load(self, number: int, node: Load, lines: list[loopnest.Statement]) -> str:
        value = node.source - self.inputs
        if value in self.values and len(self.statements) > 1:
            return self.temporary(number, value, node)
        for e, size in zip(node.index, self.kernel.meta(node.source).shape, strict=True):
            low, high = e.bounds
            if low < 0 or high >= size:
                raise _Unknown("an element is read only where it exists")
        name = self.fresh()
        lines.append(loopnest.Load(name, self.operand(number, node.source, node.index)))
        return name

    def temporary(self, number: int, value: int, node: Load) -> str:
        """A value of an earlier statement, at the same point of the loops."""
        theirs = {axis: i for i, axis in self.axes[value].items()}
        own = self.axes[number]
        for e, mine in zip(
            node.index, space(self.kernel.statements[value].meta.shape), strict=True
        ):
            if mine.iter is None:
                continue
            axis = self.axes[value][mine.iter]
            if e.iter is None or own.get(e.iter) != axis or theirs[axis] is not mine.iter:
                raise _Unknown("a value is read at another point than it is computed at")
        return self.values[value]

    def constant(self, value: Any, dtype: DType, lines: list[loopnest.Statement]) -> str:
        if dtype.is_complex:
            raise _Unknown("complex numbers have no native code")
        name = self.fresh()
        number = np.asarray(value).astype(dtype.np).item() if not dtype.is_float else float(value)
        lines.append(Constant(name, dtype, number))
        return name

    def cast(self, name: str, source: DType, dtype: DType, lines: list[loopnest.Statement]) -> str:
        return name if source is dtype else self.compute("cast", [name], dtype, lines)

    def compute(
        self, op: str, args: Sequence[str], dtype: DType, lines: list[loopnest.Statement]
    ) -> str:
        name = self.fresh()
        lines.append(Compute(name, op, tuple(args), dtype))
        return name

    def position(self, number: int, expr: Expr, lines: list[loopnest.Statement]) -> str:
        """An index expression as an int64."""
        total = self.constant(expr.constant, dt.int64, lines)
        for atom, factor in expr.terms:
            if not isinstance(atom, Iter):
                raise _Unknown("a place is no combination of loops")
            name = self.fresh()
            lines.append(Index(name, self.axes[number][atom]))
            scaled = [name, self.constant(factor, dt.int64, lines)]
            total = self.compute(
                "add", [total, self.compute("multiply", scaled, dt.int64, lines)], dt.int64, lines
            )
        return total

    def choose(
        self, number: int, node: Choose, names: dict[int, str], lines: list[loopnest.Statement]
    ) -> str:
        holds = self.constant(True, dt.bool_, lines)
        zero = self.constant(0, dt.int64, lines)
        for guard in node.guards:
            value = self.position(number, guard.value, lines)
            bound = self.constant(guard.bound, dt.int64, lines)
            for op, other in (("greater_equal", zero), ("less_than", bound)):
                inside = self.compute(op, [value, other], dt.bool_, lines)
                holds = self.compute("logical_and", [holds, inside], dt.bool_, lines)
        both = [names[id(node.yes)], names[id(node.no)]]
        return self.compute("where", [holds, *both], self.dtype_of(node.yes), lines)

    def apply(self, node: Apply, args: list[str], lines: list[loopnest.Statement]) -> str:
        op, dtype, attrs = node.op.partition(".")[2], node.dtype, node.attrs
        if dtype.is_complex or any(self.dtype_of(a).is_complex for a in node.args):
            raise _Unknown("complex numbers have no native code")
        if op == "scale" and dtype.is_float:
            factor = self.constant(attrs["scale"], dtype, lines)
            shift = attrs["bias"]
            x = args[0]
            if shift and not attrs["bias_after_scale"]:
                x = self.compute("add", [x, self.constant(shift, dtype, lines)], dtype, lines)
            x = self.compute("multiply", [x, factor], dtype, lines)
            if shift and attrs["bias_after_scale"]:
                x = self.compute("add", [x, self.constant(shift, dtype, lines)], dtype, lines)
            return x
        if op == "pow" and dtype.is_float:
            return self.power(args[0], float(attrs["y"]), dtype, lines)
        if op == "cast":
            return self.cast(args[0], self.dtype_of(node.args[0]), dtype, lines)
        if op == "assign":
            return args[0]
        if not primitives.knows(op) or not HARMLESS.issuperset(attrs):
            raise _Unknown(f"`{node.op}` has no native code")
        if op == "elementwise_pow" and not dtype.is_float:
            raise _Unknown("powers of integers have no native code")
        return self.compute(op, self.alike(node, args, lines), dtype, lines)

    def alike(self, node: Apply, args: list[str], lines: list[loopnest.Statement]) -> list[str]:
        """The operands, but for a condition, of one element type, as numpy takes them."""
        skip = int(node.op == "pd_op.where")
        dtypes = [self.dtype_of(a) for a in node.args]
        if len(set(dtypes[skip:])) < 2:
            return args
        common = dt.of_array(np.empty(0, np.result_type(*(d.np for d in dtypes[skip:]))))
        pairs = zip(args[skip:], dtypes[skip:], strict=True)
        return [*args[:skip], *(self.cast(a, d, common, lines) for a, d in pairs)]

    def power(self, x: str, exponent: float, dtype: DType, lines: list[loopnest.Statement]) -> str:
        match exponent:
            case 2.0:
                return self.compute("multiply", [x, x], dtype, lines)
            case 0.5:
                return self.compute("sqrt", [x], dtype, lines)
            case -0.5:
                return self.compute("rsqrt", [x], dtype, lines)
            case _:
                other = self.constant(exponent, dtype, lines)
                return self.compute("elementwise_pow", [x, other], dtype, lines)

    # --- memory ---

    def operand(self, number: int, source: int, index: Sequence[Expr]) -> int:
        """The operand that reads or writes an array at an index."""
        meta = self.kernel.meta(source)
        strides = [0] * (len(self.outer) + len(self.inner))
        offset, step = 0, meta.dtype.itemsize
        if meta.dtype.is_complex:
            raise _Unknown("complex numbers have no native code")
        for e, size in zip(reversed(index), reversed(meta.shape), strict=True):
            offset += e.constant * step
            for atom, factor in e.terms:
                if not isinstance(atom, Iter):
                    raise _Unknown("an index is no combination of loops")
                strides[self.axes[number][atom]] += factor * step
            step *= size
        key = (source, offset, *strides)
        if key not in self.operands:
            self.operands[key] = len(self.made)
            self.made.append(_operand(meta, strides, len(self.outer), offset))
            self.arrays.append(source)
        return self.operands[key]


def _operand(meta: TensorMeta, strides: list[int], outer: int, offset: int) -> loopnest.Operand:
    size = meta.numel * meta.dtype.itemsize
    return loopnest.Operand(
        meta.dtype, tuple(strides[:outer]), tuple(strides[outer:]), size, offset
    )
