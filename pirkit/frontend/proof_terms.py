"""Elements of the values of a program as terms of z3, for `proof_check.py`.

Scalar ops, inputs, and ops without index rules are unknown functions. So are sums and products of
integers, because they wrap in programs and not in z3. Over the reals, the arithmetic of floating
numbers is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from pirkit.analysis.element_moves import moves
from pirkit.diag.errors import PirkitError
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.map_expr.call import MapCall, call_of, maps_of, tensors_of
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import (
    Apply,
    Choose,
    Fill,
    Load,
    Node,
    Opaque,
    Position,
    Reduction,
    Scatter,
    Value,
)
from pirkit.dialect.op_form import STRUCTURAL
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.dialect.types import meta_of
from pirkit.index.expr import Broadcast, Expr, Floor, Iter, Read
from pirkit.index.extent import Undecided
from pirkit.index.index_maps import space
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

LARGEST: Final = 4_000
"""Most elements of values in one term."""
DEEPEST: Final = 120
"""The longest chain of values in one term, each of them computed from the next."""
EXACT, REAL = "exactly", "over the reals"
CONSTANT: Final = "pir.constant"
"""A source that a pass may replace by another one: it has one value, an input may have any."""

Term = Any
"""A term of z3, whose package has no types."""


class Unprovable(Exception):
    """The reason why something is not proved, and is tested instead."""


class Numbers:
    """Value numbers of one program: equal ops of equal operands have one."""

    def __init__(self, known: dict[Any, int]) -> None:
        self.known = known
        self.of: dict[SSAValue, int] = {}

    def add_arguments(self, program: ProgramOp) -> None:
        """Number the inputs that are arguments of a program: the pass keeps their order."""
        for k, argument in enumerate(program.block.args):
            self.of[argument] = self.known.setdefault(("argument", k), len(self.known))

    def key(self, op: PirOp) -> Any:
        """What equal ops have in common; an op with regions is equal to itself only."""
        if op.regions and not isinstance(op, KernelOp):
            return op
        held = op.attribute("kernel") if isinstance(op, KernelOp) else frozenset(
            (n, a) for n, a in op.properties.items() if n not in STRUCTURAL | {"stop_gradient"}
        )  # fmt: skip
        operands = tuple([None if v is None else self.of[v] for v in op.operand_slots])
        return op.name, held, operands, tuple([r.type for r in op.results])

    def add(self, op: PirOp, key: Any) -> None:
        """Number the results of an op as those of the other ops of that key."""
        for k, result in enumerate(op.results):
            self.of[result] = self.known.setdefault((key, k), len(self.known))


class Terms:
    """Elements of the values of one program as terms of z3.

    ``how`` is `EXACT` or `REAL`. Values whose numbers are ``shared`` are unknown functions, unless
    they only move elements.
    """

    def __init__(self, z3: Any, numbers: Numbers, how: str, shared: set[int]) -> None:
        self.z3, self.numbers, self.how, self.shared = z3, numbers, how, shared
        self.only_moves = True
        """Whether the terms hold elements of inputs and numbers only."""
        self._made: dict[Any, Term] = {}
        self.count = self._depth = 0

    def sort(self, dtype: DType) -> Any:
        """The sort of z3 for elements of a type."""
        if dtype.is_integer:
            return self.z3.IntSort()
        if self.how == REAL and dtype.is_float:
            return self.z3.RealSort()
        return self.z3.DeclareSort("Element")

    def function(self, name: str, args: Sequence[Term], dtype: DType) -> Term:
        """The result of an unknown function: equal for equal names and arguments."""
        if not args:
            return self.z3.Const(name, self.sort(dtype))
        return self.z3.Function(name, *[a.sort() for a in args], self.sort(dtype))(*args)

    def element(self, value: SSAValue, at: Sequence[Term]) -> Term:
        """The element of a value at coordinates."""
        key = value, tuple([a.get_id() for a in at])
        if key not in self._made:
            self.count += 1
            self._depth += 1
            if self.count > LARGEST or self._depth > DEEPEST:
                raise Unprovable("too many values for one term")
            self._made[key] = self._element(value, at)
            self._depth -= 1
        return self._made[key]

    def _element(self, value: SSAValue, at: Sequence[Term]) -> Term:
        meta, number, op = static_meta(value), self.numbers.of[value], value.owner
        if isinstance(value, BlockArgument):
            return self.function(f"argument {number}", at, meta.dtype)
        assert isinstance(op, PirOp)
        if declares(op, SOURCE) and op.name != CONSTANT:
            return self.function(host_name(op), at, meta.dtype)
        if number not in self.shared or moves(op):
            if isinstance(op, KernelOp):
                kernel = op.kernel
                statement = kernel.outputs[list(op.results).index(value)]  # pyright: ignore
                if not kernel.is_sized and (self.how == REAL or not kernel.excess):
                    return self._statement(op, kernel, statement, at)
            elif (found := roots(op)) is not None:
                root = found[list(op.result_slots).index(value)]  # pyright: ignore
                if root is not None and not isinstance(root, Scatter):
                    return _Body(self, root, meta, tensors_of(op), at).value()
        self.only_moves = False
        return self.function(f"value {number}", at, meta.dtype)

    def _statement(self, op: KernelOp, kernel: MapExpr, number: int, at: Sequence[Term]) -> Term:
        """The element of the value of a statement of a kernel."""
        key = op, number, tuple([a.get_id() for a in at])
        if key not in self._made:
            statement = kernel.statements[number]
            if statement.start is not None:
                raise Unprovable("a kernel scatters")
            root: Value = statement.body
            if statement.reduction:
                held = statement.extents, statement.attrs
                root = Reduction(statement.reduction, statement.body, *held)
            earlier = [partial(self._statement, op, kernel, k) for k in range(number)]
            sources = [*op.operands, *earlier]
            self._made[key] = _Body(self, root, statement.meta, sources, at).value()
        return self._made[key]


class _Body:
    """One expression tree of an op or kernel as a term, at coordinates of its result."""

    def __init__(
        self, terms: Terms, root: Value, meta: TensorMeta, sources: Sequence[Any], at: Any
    ) -> None:
        self.terms, self.z3, self.root, self.meta = terms, terms.z3, root, meta
        self.sources = sources
        self.iters = _bound(space(meta.shape), at)
        self._known: dict[int, Term] = {}

    def value(self) -> Term:
        root = self.root
        assert not isinstance(root, Scatter)
        if not isinstance(root, Reduction):
            return self.node(root)
        z3 = self.z3
        self.terms.only_moves = False
        inner = [z3.Int(f"r{k} {self.terms.count}") for k in range(len(root.extents))]
        self.iters |= _bound(space(root.extents, "r"), inner)
        body = self.node(root.body)
        within = [z3.And(r >= 0, r < n) for r, n in zip(inner, root.extents, strict=True)]
        outside = z3.Const("outside", body.sort())
        # An unknown function of the array of all terms, which is constant outside of the extents:
        # reductions are equal if their terms are.
        over = z3.Lambda(inner, z3.If(z3.And(*within), body, outside))
        shown = f"{root.op} {dict(root.attrs)} over {root.extents}"
        return self.terms.function(shown, (over,), self.meta.dtype)

    def node(self, node: Node) -> Term:
        if id(node) not in self._known:
            self._known[id(node)] = self._node(node)
        return self._known[id(node)]

    def _node(self, node: Node) -> Term:
        z3, terms = self.z3, self.terms
        match node:
            case Load(source, index):
                at = [self.index(e) for e in index]
                held = self.sources[source]
                return held(at) if callable(held) else terms.element(held, at)
            case Fill(value, dtype) if dtype.is_integer:
                return z3.IntVal(int(value))
            case Fill(value, dtype):
                if terms.how == REAL and dtype.is_float and np.isfinite(value):
                    return z3.RealVal(repr(float(value)))
                return z3.Const(f"{value!r}: {dtype}", terms.sort(dtype))
            case Position(index, dtype):
                at = self.index(index)
                return at if dtype.is_integer else terms.function(f"to {dtype}", (at,), dtype)
            case Choose(guards, yes, no):
                holds = [(self.index(g.value), g.bound) for g in guards]
                condition = z3.And(*[z3.And(e >= 0, e < n) for e, n in holds])
                return z3.If(condition, self.node(yes), self.node(no))
            case Apply(op, args, dtype, attrs):
                terms.only_moves = False
                given = [self.node(a) for a in args]
                if terms.how == REAL and dtype.is_float and op in _REAL:
                    if all(g.sort() == z3.RealSort() for g in given):
                        found = _REAL[op](given, attrs)
                        if found is not None:
                            return found
                return terms.function(f"{op} {sorted(attrs.items())!r}: {dtype}", given, dtype)

    def index(self, expr: Expr) -> Term:
        found: Term = self.z3.IntVal(expr.constant)
        for atom, factor in expr.terms:
            found = found + factor * self._atom(atom)
        return self.z3.simplify(found)

    def _atom(self, atom: Any) -> Term:
        match atom:
            case Iter():
                return self.iters[atom]
            case Floor():
                return self.index(atom.inner) / atom.by  # for a positive divisor z3 rounds down
            case Read():
                self.terms.only_moves = False
                at = [self.index(e) for e in atom.index]
                held = self.sources[atom.source]
                read: Any = held(at) if callable(held) else self.terms.element(held, at)
                return self.z3.If(read < 0, read + atom.extent, read) if atom.from_end else read
            case Broadcast():
                return self.z3.If(self.z3.IntVal(atom.extent) == 1, 0, self.index(atom.inner))
            case _:
                raise Unprovable("an index that is no sum of floors")


def _scale(g: Sequence[Term], attrs: Mapping[str, Any]) -> Term | None:
    if len(g) != 1:
        return None
    factor, bias = (repr(float(attrs[n])) for n in ("scale", "bias"))
    x = g[0]
    return x * factor + bias if attrs.get("bias_after_scale", True) else (x + bias) * factor


_REAL: Final[dict[str, Callable[[Sequence[Term], Mapping[str, Any]], Term | None]]] = {
    "pd_op.add": lambda g, _: g[0] + g[1],
    "pd_op.subtract": lambda g, _: g[0] - g[1],
    "pd_op.multiply": lambda g, _: g[0] * g[1],
    "pd_op.divide": lambda g, _: g[0] / g[1],
    "pd_op.square": lambda g, _: g[0] * g[0],
    "pd_op.cast": lambda g, _: g[0],
    "pd_op.scale": _scale,
}
"""Scalar ops on real numbers; None if they are called in another form."""


def _bound(iterators: Sequence[Expr], values: Sequence[Term]) -> dict[Iter, Term]:
    pairs = zip(iterators, values, strict=True)
    return {e.iter: v for e, v in pairs if e.iter is not None}


def static_meta(value: SSAValue) -> TensorMeta:
    """The meta of a tensor of known sizes. Raises Unprovable for other values."""
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta):
        raise Unprovable("a value is no tensor")
    if not meta.is_static:
        raise Unprovable("a size is known only when the program runs")
    return meta


def roots(op: PirOp) -> Sequence[Value | None] | None:
    """The expression tree of an element of each result; None for an op without index rules."""
    if declares(op, SOURCE) or op.regions:
        return None
    rule = library_spaces.get(op.definition)
    try:
        found: Any = maps_of(op)
        if rule is not None and isinstance(call := call_of(op), MapCall) and call.is_known:
            found = (rule(call),)
    except (PirkitError, Undecided):
        return None
    return None if isinstance(found, Opaque) else found
