"""The certificate of a kernel: a proof that its indices follow from the ops that it replaces.

A kernel records the ops of the program that it computes. The check evaluates their index rules
again, independently of the program, the partitioner and the kernel builder; each statement must
equal the composition of the rules: the same scalar ops on the same elements of the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.symbolic_shapes import DeclaredSizes, result_shapes
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
    roots,
)
from pirkit.dialect.opdef import OpDef, find, index_maps, infer_meta
from pirkit.index.expr import Expr, Iter
from pirkit.index.extent import Undecided, is_sized, named, names_of
from pirkit.index.index_maps import Guard, Index, bindings, compose, space
from pirkit.index.size_solver import determined
from pirkit.index.substitution import renumber, substitute
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta, compatible

REFUSED: Final = (ConstraintError, Undecided, LookupError, TypeError, ValueError, ArithmeticError)
"""Exceptions that rules raise for invalid calls."""


class _Differs(Exception):
    """A statement differs from the result of its op's index rule; the message says where."""


def differences(kernel: MapExpr) -> Iterator[str]:
    """Messages for the statements that do not follow from the kernel's ops; empty if all do."""
    try:
        derived = _Derived(kernel)
    except _Differs as why:
        yield str(why)
        return
    for k, statement in enumerate(kernel.statements):
        try:
            derived.check(statement)
        except _Differs as why:
            yield f"v{k} does not follow from the ops: {why}"


def admits(kernel: MapExpr) -> bool:
    """True if the ops that a kernel replaces allow its shapes, all of which are numbers."""
    if any(is_sized(n) for origin in kernel.ops for n in origin.meta.shape):
        return False
    try:
        _Derived(kernel)
    except _Differs:
        return False
    return True


class _Derived:
    """The values of a kernel's ops, derived by their index rules."""

    def __init__(self, kernel: MapExpr) -> None:
        self.kernel = kernel
        self.count = len(kernel.inputs)
        self.sizes = DeclaredSizes(kernel.sizes)
        self.follow = {size.name for size in kernel.sizes}
        self.known = determined([n for m in kernel.inputs for n in m.shape], kernel.sizes)
        self.operands: list[tuple[int | TensorMeta, ...]] = []
        self.values: list[Value] = []
        for k, origin in enumerate(kernel.ops):
            self.operands.append(tuple(_flat(origin.operands)))
            # ops may read only earlier ones, so the derivation below is well-founded
            if any(isinstance(o, int) and o >= self.count + k for o in self.operands[-1]):
                raise _Differs(f"o{k} reads what is computed after it")
            self.values.append(self.value(k, origin))

    def meta(self, operand: int | TensorMeta) -> TensorMeta:
        if isinstance(operand, TensorMeta):
            return operand
        known = operand < self.count
        return self.kernel.inputs[operand] if known else self.kernel.ops[operand - self.count].meta

    def value(self, k: int, origin: Origin) -> Value:
        """The expression tree of an op, from its index rule."""
        definition = find(origin.op)
        rule = None if definition is None else index_maps.get(definition)
        if definition is None or rule is None:
            raise _Differs(f"o{k}, {origin.op}, has no index rule")
        metas: list[Meta | None] = []
        for operand in origin.operands:
            if isinstance(operand, tuple):
                metas.append(VecMeta(tuple(map(self.meta, operand))))
            else:
                metas.append(None if operand is None else self.meta(operand))
        try:
            # Of a kernel without symbolic sizes, these records may have some, equal to others.
            is_sized_call = any(map(is_sized, _sizes(*metas, origin.meta)))
            if not is_sized_call and not _gives(definition, metas, origin):
                raise _Differs(f"o{k}, {origin.op}, does not give a {origin.meta}")
            call = MapCall(definition, metas, [origin.meta], dict(origin.attrs), self.sizes)
            found = rule(call)
            self.inferred(k, call, origin)
        except REFUSED as why:
            raise _Differs(f"o{k}, {origin.op}, is no call of the op: {why}") from None
        if isinstance(found, Opaque | tuple):
            raise _Differs(f"o{k}, {origin.op}, has no index maps")
        return cast(Value, found)

    def inferred(self, k: int, call: MapCall, origin: Origin) -> None:
        """Compare the derived sizes of a result with those that the op's shape rule infers.

        A size that the kernel does not compute with has symbols that it need not derive.
        """
        definition = call.definition
        rule = result_shapes.get(definition)
        if rule is None or not self.kernel.is_sized or not _records_all(definition, origin):
            return
        free = {named(n) for n in names_of(origin.meta.shape) if n not in self.follow}
        (shape, *_) = rule(call, self.sizes)
        for declared, inferred in zip(origin.meta.shape, shape, strict=True):
            if (
                inferred is None
                or declared == inferred
                or not is_sized(declared)
                or declared in free
                or not self.known.issuperset(names_of((declared,)))
            ):
                continue
            raise _Differs(
                f"o{k}, {origin.op}, has an axis of {inferred!r} elements, not {declared!r}"
            )

    def check(self, statement: Statement) -> None:
        """Compare a statement with the rule of its op; raises _Differs."""
        if not 0 <= statement.origin < len(self.values):
            raise _Differs("the kernel does not tell of which op it is")
        value = self.values[statement.origin]
        if statement.meta != self.kernel.ops[statement.origin].meta:
            raise _Differs("it has another shape")
        declared_reduction = (statement.reduction, statement.extents, dict(statement.attrs))
        want: tuple[str, tuple[int, ...], dict[str, Any]] = ("", (), {})
        if isinstance(value, Reduction | Scatter):
            want = (value.op, value.extents, dict(value.attrs))
        if declared_reduction != want or (statement.start is not None) != isinstance(
            value, Scatter
        ):
            raise _Differs("it is reduced in another way")
        for node, root in zip(statement.roots, roots(value), strict=True):
            _Comparison(self, node, root, statement.origin).run()
        if isinstance(value, Scatter):
            index = renumbered(self, value.index, statement.origin)
            if statement.index != index:
                raise _Differs(f"it writes at {list(statement.index)}, not {list(index)}")


class _Comparison:
    """Compares nodes of a statement with nodes of rules, whose iterators are bound to indices."""

    def __init__(self, derived: _Derived, node: Node, rule: Node, origin: int) -> None:
        self.derived = derived
        self.kernel = derived.kernel
        self.left: list[tuple[Node, Node, int, Mapping[Iter, Expr]]] = [(node, rule, origin, {})]
        self.seen: set[tuple[int, int, Index]] = set()

    def run(self) -> None:
        while self.left:
            self.compare(*self.left.pop())

    def compare(self, node: Node, rule: Node, origin: int, at: Mapping[Iter, Expr]) -> None:
        match rule:
            case Load():
                self.load(node, rule, origin, at)
            case Choose():
                self.choose(node, rule, origin, at)
            case Apply():
                if not isinstance(node, Apply) or not _equal_op(node, rule):
                    raise _Differs(f"{rule.op} is missing")
                for arg, wanted in zip(node.args, rule.args, strict=True):
                    self.left.append((arg, wanted, origin, at))
            case Fill():
                if not isinstance(node, Fill) or node.dtype is not rule.dtype:
                    raise _Differs(f"the number {rule.value} is missing")
                if repr(node.value) != repr(rule.value):
                    raise _Differs(f"{node.value} stands for {rule.value}")
            case Position():
                where = substitute(rule.index, at)
                if not isinstance(node, Position) or node.dtype is not rule.dtype:
                    raise _Differs(f"the position {where} is missing")
                if node.index is not where:
                    raise _Differs(f"the position {node.index} stands for {where}")

    def load(self, node: Node, rule: Load, origin: int, at: Mapping[Iter, Expr]) -> None:
        operand = self.derived.operands[origin][rule.source]
        index = compose(renumbered(self.derived, rule.index, origin), at)
        if isinstance(operand, TensorMeta):
            raise _Differs("it needs a tensor of which only the shape is known")
        if operand < self.derived.count:
            if not isinstance(node, Load) or node.source != operand:
                raise _Differs(f"x{operand} is not read at {list(index)}")
            if node.index != index:
                raise _Differs(f"x{operand} is read at {list(node.index)}, not {list(index)}")
            return
        self.made(node, operand - self.derived.count, index)

    def made(self, node: Node, number: int, index: Index) -> None:
        """Compare a node with an element of an op's result: a load of it, or its inlined tree."""
        if isinstance(node, Load) and node.source >= self.derived.count:
            stored = self.kernel.statements[node.source - self.derived.count]
            if stored.origin == number:
                if node.index != index:
                    raise _Differs(f"o{number} is read at {list(node.index)}, not {list(index)}")
                return
        value = self.derived.values[number]
        if isinstance(value, Reduction | Scatter):
            raise _Differs(f"o{number} has to be stored first")
        key = (id(node), number, index)
        if key not in self.seen:
            self.seen.add(key)
            here = space(self.kernel.ops[number].meta.shape)
            self.left.append((node, value, number, bindings(here, index)))

    def choose(self, node: Node, rule: Choose, origin: int, at: Mapping[Iter, Expr]) -> None:
        guards: list[Guard] = []
        for guard in rule.guards:
            (value,) = renumbered(self.derived, (guard.value,), origin)
            guards.append(Guard(substitute(value, at), guard.bound))
        if any(g.is_false for g in guards):
            self.left.append((node, rule.no, origin, at))
            return
        left = tuple([g for g in guards if not g.is_true])
        if not left:
            self.left.append((node, rule.yes, origin, at))
            return
        if not isinstance(node, Choose) or node.guards != left:
            raise _Differs(f"the choice by {list(left)} is missing")
        self.left.append((node.yes, rule.yes, origin, at))
        self.left.append((node.no, rule.no, origin, at))


def renumbered(derived: _Derived, index: Index, origin: int) -> Index:
    """An index of an op's rule, with its index tensors renumbered as in the kernel."""

    def source_of(number: int) -> int:
        operand = derived.operands[origin][number]
        if isinstance(operand, TensorMeta) or operand >= derived.count:
            raise _Differs("an index is decided by what is no input")
        return operand

    return tuple([renumber(e, source_of) for e in index])


def _records_all(definition: OpDef, origin: Origin) -> bool:
    """Whether all attributes are recorded, those that an operand may give too."""
    kinds = (slot.name for slot in definition.operands if slot.kind is not None)
    return origin.attrs.keys() >= {*kinds, *(a.name for a in definition.attrs)}


def _gives(definition: OpDef, metas: list[Meta | None], origin: Origin) -> bool:
    """True if the op infers this result type; also if not all of its attributes are recorded."""
    if not _records_all(definition, origin):
        return True
    found = infer_meta.of(definition)(*metas, **origin.attrs)
    first = cast(Meta, found[0] if isinstance(found, tuple) else found)
    return compatible(first, origin.meta)


def _sizes(*metas: Meta | None) -> Iterator[int]:
    for meta in metas:
        if isinstance(meta, VecMeta):
            yield from _sizes(*meta.items)
        elif isinstance(meta, TensorMeta):
            yield from meta.shape


def _equal_op(node: Apply, rule: Apply) -> bool:
    same = node.op == rule.op and node.dtype is rule.dtype and len(node.args) == len(rule.args)
    return same and repr(dict(node.attrs)) == repr(dict(rule.attrs))


def _flat(operands: tuple[Operand, ...]) -> Iterator[int | TensorMeta]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from operand
        elif operand is not None:
            yield operand
