"""Specializes a kernel with symbolic sizes to given shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position
from pirkit.dialect.opdef import require
from pirkit.index.extent import at, is_sized, named, order
from pirkit.index.index_maps import Guard, at_sizes
from pirkit.index.size_solver import Derived, solve
from pirkit.index.substitution import resized
from pirkit.runtime.meta import UNKNOWN, TensorMeta, is_addressable

Shape = tuple[int, ...]


def specialised(kernel: MapExpr, shapes: Sequence[Shape]) -> MapExpr:
    """The kernel for inputs of these shapes. Raises ConstraintError if they do not fit."""
    return with_sizes(kernel, sizes_at(kernel, shapes)) if kernel.is_sized else kernel


def sizes_at(kernel: MapExpr, shapes: Sequence[Shape]) -> dict[str, int]:
    """The values of a kernel's symbols for inputs of these shapes, as far as they are known."""
    dims = [n for meta in kernel.inputs for n in meta.shape]
    return solve(dims, [n for shape in shapes for n in shape], kernel.sizes)


def results_at(kernel: MapExpr, shapes: Sequence[Shape]) -> tuple[TensorMeta, ...]:
    """The metas of a kernel's outputs for inputs of possibly partly known shapes.

    Raises ConstraintError if a value is larger than any memory, even one that is not materialized:
    the unfused ops would be refused too, and the number of its elements would overflow.
    """
    sizes = sizes_at(kernel, shapes)
    for origin in kernel.ops if kernel.is_sized else ():
        inside = _known(origin.meta, sizes)
        require(is_addressable(inside), "size", f"{inside} within it is larger than any memory")
    return tuple([_known(m, sizes) for m in kernel.results])


def _known(meta: TensorMeta, sizes: Mapping[str, int]) -> TensorMeta:
    found = meta_at(meta, sizes)
    return found.with_shape(UNKNOWN if is_sized(n) else n for n in found.shape)


def meta_at(meta: TensorMeta, sizes: Mapping[str, int]) -> TensorMeta:
    """A meta with symbolic sizes substituted."""
    return meta.with_shape(at(n, sizes) for n in meta.shape)


def with_sizes(kernel: MapExpr, sizes: Mapping[str, int]) -> MapExpr:
    """A kernel with symbols substituted by integers or other sizes."""
    return MapExpr(
        kernel.name,
        tuple([meta_at(m, sizes) for m in kernel.inputs]),
        tuple([_statement(s, sizes) for s in kernel.statements]),
        kernel.outputs,
        tuple([at(n, sizes) for n in kernel.rows]),
        tuple([derived_at(d, sizes) for d in kernel.sizes if is_sized(at(named(d.name), sizes))]),
        tuple([_origin(o, sizes) for o in kernel.ops]),
        kernel.excess,
    )


def _origin(origin: Origin, sizes: Mapping[str, int]) -> Origin:
    def operand(o: Operand) -> Operand:
        if isinstance(o, tuple):
            return tuple([cast("int | TensorMeta", operand(e)) for e in o])
        return meta_at(o, sizes) if isinstance(o, TensorMeta) else o

    operands = tuple(map(operand, origin.operands))
    return replace(origin, operands=operands, meta=meta_at(origin.meta, sizes))


def derived_at(size: Derived, sizes: Mapping[str, int]) -> Derived:
    """A derivation with symbols substituted."""
    name, args = repr(at(named(size.name), sizes)), [at(n, sizes) for n in size.args]
    return Derived(name, size.rule, tuple(sorted(args, key=order) if size.is_symmetric else args))


def _statement(statement: Statement, sizes: Mapping[str, int]) -> Statement:
    made: dict[int, Node] = {}
    for node in statement.nodes():
        made[id(node)] = _node(node, sizes, made)
    return replace(
        statement,
        meta=meta_at(statement.meta, sizes),
        body=made[id(statement.body)],
        extents=tuple([at(n, sizes) for n in statement.extents]),
        rows=None if statement.rows is None else at_sizes(statement.rows, sizes),
        start=None if statement.start is None else made[id(statement.start)],
        index=at_sizes(statement.index, sizes),
    )


def _node(node: Node, sizes: Mapping[str, int], made: Mapping[int, Node]) -> Node:
    match node:
        case Load():
            return Load(node.source, at_sizes(node.index, sizes))
        case Fill():
            return node
        case Position():
            return Position(resized(node.index, sizes), node.dtype)
        case Apply():
            args = tuple([made[id(a)] for a in node.args])
            return Apply(node.op, args, node.dtype, node.attrs, node.location)
        case Choose():
            guards = [Guard(resized(g.value, sizes), at(g.bound, sizes)) for g in node.guards]
            return decided(guards, made[id(node.yes)], made[id(node.no)], node.location)


def decided(guards: Sequence[Guard], yes: Node, no: Node, location: Any = None) -> Node:
    """A choice without guards that always hold; its ``no`` side if a guard never holds."""
    if any(g.is_false for g in guards):
        return no
    left = tuple([g for g in guards if not g.is_true])
    return Choose(left, yes, no, location) if left else yes
