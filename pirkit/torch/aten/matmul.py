"""Matrix multiplication: `mm`, `bmm`, `addmm` and their relatives."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


@rule("mm", "matmul")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    return b("pd_op.matmul", x, y)


@rule("bmm")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    """torch repeats a matrix for each of a batch, where the rows of the batch are one matrix."""
    matrix = _repeated(b, y)
    if matrix is None:
        return b("pd_op.matmul", x, y)
    rows = b.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
    return b.reshape(b("pd_op.matmul", rows, matrix), b.shape)


def _repeated(b: AtenBuilder, y: Value) -> Value | None:
    """The matrix that a batch repeats; None for a batch of matrices."""
    owner = y.ssa.owner
    if not isinstance(owner, PirOp) or owner.name != "pd_op.expand":
        return None
    source = b.wrap(owner.operands[0])
    is_one = source.shape == y.shape[1:] or source.shape == (1, *y.shape[1:])
    return b.reshape(source, y.shape[1:]) if is_one else None


@rule("mv")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    return b.reshape(b("pd_op.matmul", x, b.reshape(y, (*y.shape, 1))), b.shape)


@rule("dot", "vdot")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    return b.sum(b.multiply(x, y), (0,))


@rule("addmm", "baddbmm", "addbmm")
def _(b: AtenBuilder, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    product = b("pd_op.matmul", x, y)
    if "addbmm" in str(b.node.target) and "badd" not in str(b.node.target):
        product = b.sum(product, (0,))
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # a bias that is not finite takes no part either
        return b.expand(product, b.shape)
    return b.add(product, bias if beta == 1 else bias * beta)


@rule("addmv")
def _(b: AtenBuilder, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    product = b.reshape(b("pd_op.matmul", x, b.reshape(y, (*y.shape, 1))), (x.shape[0],)) * alpha
    return product if beta == 0 else b.add(product, bias * beta)


@rule("linear")
def _(b: AtenBuilder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    product = b("pd_op.matmul", x, b.permute(weight, [1, 0]))
    return product if bias is None else b.add(product, bias)
