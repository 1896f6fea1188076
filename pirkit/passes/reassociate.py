"""Sums of products in the order that takes the fewest operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.alias import alias_classes
from pirkit.analysis.derivative_sums import dtype_of
from pirkit.analysis.differentiation import stops_gradient
from pirkit.analysis.linear_forms import GRADIENT
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

_EXACT_ENOUGH: Final = (dt.float32, dt.float64)
"""Halves are rounded after every op, so that the order counts."""


class _Product(NamedTuple):
    """``x @ w + bias``, of which ``w`` is a matrix; it may be transposed, the bias may lack."""

    x: SSAValue
    w: SSAValue
    transposed: bool
    bias: SSAValue | None


class _Contraction(NamedTuple):
    """``sum(factor * product, axis=-1)``, and the ops of the sum and of the multiplication."""

    op: PirOp
    multiply: PirOp
    factor: SSAValue
    product: _Product


class ReassociatePass(Pass):
    """Multiply a factor that several sums share by their weight once, instead of each operand.

    The sum of ``f * (x @ w)`` over the last axis is that of ``(f @ w') * x``. Where several such
    sums share ``f`` and ``w``, as the derivatives of an operator network do, one matmul takes the
    place of theirs. If ``f`` is itself a product with a matrix, and nothing else reads it, both
    matrices are multiplied first where that takes fewer operations.

    Results change by rounding, so this is done in programs with pending derivatives only, between
    `taylor` and `expand-gradients`: the backward is then that of the shorter program.

    ::

        %1 = pd_op.sum(pd_op.multiply(%f, pd_op.matmul(%x, %w))) {axis = [1]}
        %2 = pd_op.sum(pd_op.multiply(%f, pd_op.matmul(%y, %w))) {axis = [1]}
        // becomes
        %g = pd_op.matmul(%f, %w) {transpose_y = true}
        %1 = pd_op.sum(pd_op.multiply(%x, %g)) {axis = [1]}
        %2 = pd_op.sum(pd_op.multiply(%y, %g)) {axis = [1]}
    """

    name = "reassociate"
    stats = Stats(rewritten="sums of products that share a factor and a weight")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            if all(op.name != GRADIENT for op in program.block.ops):
                continue
            while self._rewrite_one(ctx, program):
                pass

    def _rewrite_one(self, ctx: PassContext, program: ProgramOp) -> bool:
        """Rewrite the first sums that share something; whether there were any.

        Others may read the results that it replaces, so they are looked for again.
        """
        groups: defaultdict[object, list[_Contraction]] = defaultdict(list)
        for op in program.block.ops:
            if isinstance(op, PirOp) and (found := _contraction(op)):
                groups[found.factor, found.product.w, found.product.transposed].append(found)
        shared = [group for group in groups.values() if len(group) > 1]
        classes = ctx.analysis(alias_classes, program) if shared else None
        for group in shared:
            parts = [p for c in group for p in (c.product, _product(c.factor)) if p is not None]
            read = [*(v for p in parts for v in p), group[0].factor]
            read = [v for v in read if isinstance(v, SSAValue)]
            if classes is None or any(map(classes.is_written, read)):
                continue
            ctx.rewrote("shared-factor", group[0].op)
            ctx.count("rewritten", len(group))
            _rewrite(group)
            return True
        return False


def _rewrite(group: Sequence[_Contraction]) -> None:
    """Replace sums that share a factor and a weight; they are in the order of the program."""
    first = group[0].multiply
    assert first.parent is not None
    b = Builder(first.parent, before=first, location=first.location)
    factor, product = b.wrap(group[0].factor), group[0].product
    inner = _product(group[0].factor)
    is_last_use = all(u.operation in [c.multiply for c in group] for u in group[0].factor.uses)
    chained = inner is not None and is_last_use and _is_shorter(inner, factor, product)

    def times(b: Builder, matrix: Value, *, transposed: bool) -> Value:
        """The factor times a matrix."""
        if inner is None or not chained:
            return b.matmul(factor, matrix, transpose_x=False, transpose_y=transposed)
        transposes = {"transpose_x": inner.transposed, "transpose_y": transposed}
        found = b.matmul(b.wrap(inner.x), b.matmul(b.wrap(inner.w), matrix, **transposes))
        if inner.bias is None:
            return found
        bias = b.wrap(inner.bias)
        row = b.reshape(bias, (1, bias.shape[-1]))
        return b.add(found, b.matmul(row, matrix, transpose_x=False, transpose_y=transposed))

    weighted = times(b, b.wrap(product.w), transposed=not product.transposed)
    of_biases: dict[SSAValue, Value] = {}
    made: list[SSAValue] = []
    for each in group:
        b = Builder(first.parent, before=each.op, location=each.op.location)
        keepdim: bool = each.op.attribute("keepdim")
        found = b.sum(b.multiply(b.wrap(each.product.x), weighted), (-1,), keepdim=keepdim)
        if (bias := each.product.bias) is not None:
            if bias not in of_biases:
                column = b.reshape(b.wrap(bias), (factor.shape[-1], 1))
                of_biases[bias] = times(b, column, transposed=False)
            found = b.add(found, b.reshape(of_biases[bias], found.shape))
        made.append(found.ssa)
    for each, value in zip(group, made, strict=True):  # at the end, as one may read another
        replace(each.op, [value])


def _is_shorter(inner: _Product, factor: Value, outer: _Product) -> bool:
    """Whether ``x @ (v @ w)`` takes fewer operations than ``(x @ v) @ w`` does."""
    rows, mid = prod(factor.shape[:-1]), factor.shape[-1]
    deep, wide = _shape(inner.x)[-1], _shape(outer.x)[-1]
    return deep * mid * wide + rows * deep * wide < rows * mid * (deep + wide)


def _contraction(op: PirOp) -> _Contraction | None:
    """A sum of a product and a factor of the same shape, which nothing else reads."""
    if op.name != "pd_op.sum" or not _is_exact(op.results[0]) or stops_gradient(op.results[0]):
        return None
    if dtype_of(op.results[0]) is not dtype_of(op.operands[0]) or stops_gradient(op.operands[0]):
        return None
    multiply = op.operands[0].owner
    if not isinstance(multiply, PirOp) or multiply.name != "pd_op.multiply":
        return None
    rank = len(_shape(multiply.results[0]))
    last = tuple(op.attribute("axis")) in ((-1,), (rank - 1,))
    if rank < 2 or not last or not op.operands[0].has_one_use():
        return None
    for factor, summand in (multiply.operands, reversed(multiply.operands)):
        same_type = factor.type == summand.type == multiply.results[0].type
        if (
            same_type
            and factor is not summand
            and summand.has_one_use()
            and (found := _product(summand))
        ):
            return _Contraction(op, multiply, factor, found)
    return None


def _product(value: SSAValue) -> _Product | None:
    """``x @ w`` or ``x @ w + bias``, if nothing else reads the parts."""
    op, bias = value.owner, None
    if stops_gradient(value):
        return None
    if isinstance(op, PirOp) and op.name == "pd_op.add":
        left, right = op.operands
        inner, bias = (left, right) if len(_shape(left)) > len(_shape(right)) else (right, left)
        if len(_shape(bias)) != 1 or _shape(bias) != _shape(value)[-1:] or not inner.has_one_use():
            return None
        if inner.type != value.type or stops_gradient(inner):
            return None
        op = inner.owner
    if not isinstance(op, PirOp) or op.name != "pd_op.matmul" or op.attribute("transpose_x"):
        return None
    x, w = op.operands
    if len(_shape(w)) != 2 or len(_shape(x)) != len(_shape(value)) or not _is_exact(x):
        return None
    transposed: bool = op.attribute("transpose_y")
    while isinstance(op := w.owner, PirOp) and op.name == "pd_op.transpose":
        if tuple(op.attribute("perm")) != (1, 0) or stops_gradient(w):
            break
        w, transposed = op.operands[0], not transposed
    return _Product(x, w, transposed, bias)


def _is_exact(value: SSAValue) -> bool:
    """Whether a tensor has a known shape and an element type with digits to spare."""
    meta = meta_of(value.type)
    return isinstance(meta, TensorMeta) and meta.is_static and meta.dtype in _EXACT_ENOUGH


def _shape(value: SSAValue) -> tuple[int, ...]:
    meta = meta_of(value.type)
    return meta.shape if isinstance(meta, TensorMeta) else ()
