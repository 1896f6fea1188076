"""Variants of matmul in terms of `matmul` and `multiply`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.ops.linalg.einsum import parse
from pirkit.dialect.rules.elementwise.elementwise import analytic
from pirkit.dialect.rules.movement.size_ops import in_shape, product, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.bmm")
def _(c: OpCall) -> Value:
    return c.b.matmul(c.x, c.y)


@decompose("pd_op.mv")
def _(c: OpCall) -> Value:
    return c.b.matmul(c.x, c.vec)


@decompose("pd_op.dot")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    product = b.wide(x) * b.wide(c.y)
    remaining = c.out.rank == x.rank
    found = b("pd_op.sum", product, axis=(-1,), dtype=product.dtype, keepdim=remaining)
    return b.cast(found, x.dtype)


@decompose("pd_op.addmm", "pd_op.baddbmm")
def _(c: OpCall) -> Value:
    """A factor of 0 leaves its term out."""
    b = c.b
    start, x, y = (b.wide(v) for v in c.tensors())
    product = b.matmul(x, y)
    found = product * c.alpha if c.alpha else b.zeros_like(product)
    return b.cast(start * c.beta + found if c.beta else found, c.x.dtype)


@decompose("pd_op.linear_v2")
def _(c: OpCall) -> Value:
    b = c.b
    x, weight, bias = (b.wide(v) for v in (c.input, c.weight, c.bias))
    found = b.matmul(x, weight, transpose_y=c.transpose_weight) + bias
    return b.cast(found, c.input.dtype)


@decompose("pd_op.cross")
def _(c: OpCall) -> Value:
    b, axis = c.b, c.axis
    if axis == 9:  # the first dimension of size 3
        known = c.x.shape[: c.x.shape.index(3)] if 3 in c.x.shape else (UNKNOWN,)
        if UNKNOWN in known:
            return NotImplemented
        axis = c.x.shape.index(3)
    x1, x2, y1, y2 = (
        b.roll(b.wide(v), shifts=(-by,), axis=(axis,)) for v in (c.x, c.y) for by in (1, 2)
    )
    return b.cast(x1 * y2 - x2 * y1, c.x.dtype)


@vjp("pd_op.cross")
@analytic
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    dx = c.again(c.y, g) if c.wants("x") else None
    return dx, c.again(g, c.x) if c.wants("y") else None


@decompose("pd_op.kron")
def _(c: OpCall) -> Value:
    b, rank = c.b, max(c.x.rank, c.y.rank)
    x, y = (
        b.unsqueeze(v, axis=tuple(range(rank - v.rank))) if v.rank < rank else v for v in (c.x, c.y)
    )
    sizes = [product(b, m, n) for m, n in zip(sizes_of(b, x), sizes_of(b, y), strict=True)]
    if not rank:
        return x * y
    left = b.unsqueeze(x, axis=tuple(range(1, 2 * rank, 2)))
    right = b.unsqueeze(y, axis=tuple(range(0, 2 * rank, 2)))
    return in_shape(b, left * right, sizes)


@decompose("pd_op.bilinear")
def _(c: OpCall) -> Value:
    found = c.b.einsum([c.x, c.weight, c.y], equation="bm,omn,bn->bo")[0]
    return found if c.bias is None else found + c.bias


# --- einsum --------------------------------------------------------------------------------------

Term = tuple[Value, list[str]]
"""A tensor and the labels of its dimensions."""
_USUAL_SIZE: Final = 64


@decompose("pd_op.multi_dot")
def _(c: OpCall) -> Value:
    b, factors = c.b, list[Value](c.x)
    last = len(factors) - 1
    terms: list[Term] = [
        (b.wide(x), [str(i), str(i + 1)] if x.rank == 2 else ["1" if i == 0 else str(last)])
        for i, x in enumerate(factors)
    ]
    ends = [factors[0].rank == 2, factors[last].rank == 2]
    output = [label for label, kept in zip(("0", str(last + 1)), ends, strict=True) if kept]
    x, labels = _contracted(b, terms, output)
    return b.cast(_ordered(b, x, labels, output), factors[0].dtype)


@decompose("pd_op.einsum")
def _(c: OpCall) -> tuple[Value, list[Value], list[Value]]:
    b, operands = c.b, c.x
    inputs, output = parse(c.equation, [x.rank for x in operands])
    wide = len(operands) > 2
    terms = [
        _diagonal(b, (b.wide(x) if wide else x, labels))
        for x, labels in zip(operands, inputs, strict=True)
    ]
    sizes: dict[str, int] = {}
    for x, labels in terms:
        for label, size in zip(labels, x.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    terms = [_without_ones(b, term, sizes) for term in terms]
    x, labels = _summed(b, _contracted(b, terms, output), set(output))
    for label in output:
        if label not in labels:  # a dimension of 1 in every operand
            x, labels = b.unsqueeze(x, axis=(x.rank,)), [*labels, label]
    x = _ordered(b, x, labels, output)
    nothing = b.const(0.0, dt.float32, (0,))
    return b.cast(x, operands[0].dtype), [nothing for _ in operands], [*operands]


def _contracted(b: Builder, terms: Sequence[Term], output: Sequence[str]) -> Term:
    """The product of all terms, summed over what the output does not have.

    In each step the two terms are joined whose product takes the fewest multiplications, of equals
    those with the smallest result, then the first: a greedy order as in opt_einsum (Smith and Gray,
    2018). Unknown sizes count as `_USUAL_SIZE`.
    """
    left: list[Term] = list(terms)
    sizes = {
        label: _USUAL_SIZE if size == UNKNOWN else size
        for x, labels in terms
        for label, size in zip(labels, x.shape, strict=True)
    }

    def needed_beside(pair: Sequence[int]) -> set[str]:
        others = [labels for k, (_, labels) in enumerate(left) if k not in pair]
        return set(output).union(*others)

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        labels = {label for k in pair for label in left[k][1]}
        result = labels & needed_beside(pair)
        return prod(sizes[a] for a in labels), prod(sizes[a] for a in result)

    while len(left) > 1:
        i, j = min(combinations(range(len(left)), 2), key=cost)
        needed = needed_beside((i, j))
        others = [term for k, term in enumerate(left) if k not in (i, j)]
        # The product stands where its first term stood, so that equal costs go from left to right.
        left = [*others[:i], _joined(b, left[i], left[j], needed), *others[i:]]
    return left[0]


def _diagonal(b: Builder, term: Term) -> Term:
    """Take diagonals until no label stands twice."""
    x, labels = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = b.diagonal(x, offset=0, axis1=first, axis2=second)
            rest = [a for i, a in enumerate(labels) if i not in (first, second)]
            labels = [*rest, label]
    return x, labels


def _without_ones(b: Builder, term: Term, sizes: dict[str, int]) -> Term:
    """Without dimensions of 1 that broadcast."""
    x, labels = term
    gone = [i for i, a in enumerate(labels) if x.shape[i] == 1 != sizes[a]]
    if not gone:
        return term
    remaining = [a for i, a in enumerate(labels) if i not in gone]
    return b.squeeze(x, axis=tuple(gone)), remaining


def _summed(b: Builder, term: Term, needed: set[str]) -> Term:
    x, labels = term
    axes = [i for i, a in enumerate(labels) if a not in needed]
    if not axes:
        return term
    found = b("pd_op.sum", x, axis=tuple(axes), dtype=x.dtype, keepdim=False)
    return found, [a for a in labels if a in needed]


def _ordered(b: Builder, x: Value, labels: Sequence[str], wanted: Sequence[str]) -> Value:
    perm = tuple(labels.index(a) for a in wanted)
    return b.transpose(x, perm=perm) if perm != tuple(range(x.rank)) else x


def _joined(b: Builder, left: Term, right: Term, needed: set[str]) -> Term:
    """The product of two tensors, summed over what both have and nobody needs."""
    x, xs = _summed(b, left, needed | set(right[1]))
    y, ys = _summed(b, right, needed | set(left[1]))
    shared = [a for a in xs if a in ys]
    batch, inner = [a for a in shared if a in needed], [a for a in shared if a not in needed]
    rows, columns = [a for a in xs if a not in shared], [a for a in ys if a not in shared]
    if not inner:
        x = b.unsqueeze(x, axis=tuple(range(x.rank, x.rank + len(columns)))) if columns else x
        y = _ordered(b, y, ys, [*batch, *columns])
        new = [i for i, a in enumerate(xs) if a in rows]
        y = b.unsqueeze(y, axis=tuple(new)) if new else y
        return x * y, [*xs, *columns]
    sizes = dict(zip([*xs, *ys], [*sizes_of(b, x), *sizes_of(b, y)], strict=False))
    lead = len(batch)
    x = _ordered(b, x, xs, [*batch, *rows, *inner])
    y = _ordered(b, y, ys, [*batch, *inner, *columns])
    x = _as_matrices(b, x, lead, len(rows))
    y = _as_matrices(b, y, lead, len(inner))
    labels = [*batch, *rows, *columns]
    return in_shape(b, b.matmul(x, y), [sizes[a] for a in labels]), labels


def _as_matrices(b: Builder, x: Value, lead: int, rows: int) -> Value:
    """``lead`` dimensions of batches, then ``rows`` joined to one, then the others joined."""
    columns = x.rank - lead - rows
    if columns > 1:
        x = b.flatten(x, start_axis=lead + rows, stop_axis=x.rank - 1)
    if columns == 0:
        x = b.unsqueeze(x, axis=(x.rank,))
    if rows > 1:
        x = b.flatten(x, start_axis=lead, stop_axis=lead + rows - 1)
    return x if rows else b.unsqueeze(x, axis=(lead,))
