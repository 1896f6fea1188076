"""Matrix multiplication: `mm`, `bmm`, `addmm` and their relatives."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


@rule("mm", "matmul")
def product(b: AtenBuilder, x: Value, y: Value) -> Value:
    """A matmul; of an operand that is a transpose, it reads the source (`transpose_x`, `_y`)."""
    (x, x_turned), (y, y_turned) = (_turned(b, v) for v in (x, y))
    return b("pd_op.matmul", x, y, transpose_x=x_turned, transpose_y=y_turned)


def _turned(b: AtenBuilder, x: Value) -> tuple[Value, bool]:
    """The value of which ``x`` swaps the last two dimensions, and True; else ``x`` and False."""
    owner = x.ssa.owner
    if not isinstance(owner, PirOp) or owner.name != "pd_op.transpose":
        return x, False
    *rest, row, column = owner.attribute("perm")
    swaps = (*rest, column, row) == tuple(range(x.rank))
    return (b.wrap(owner.operands[0]), True) if swaps else (x, False)


@rule("bmm")
def _(b: AtenBuilder, x: Value, y: Value) -> Value:
    """Where torch repeats one matrix for the whole batch, one `mm` of all rows is the same."""
    matrix = _repeated(b, y)
    if matrix is None:
        return product(b, x, y)
    rows = b.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
    return b.reshape(product(b, rows, matrix), b.shape)


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
    found = product(b, x, y)
    if "addbmm" in str(b.node.target) and "badd" not in str(b.node.target):
        found = b.sum(found, (0,))
    found = found if alpha == 1 else b.multiply(found, b.typed(alpha, found.dtype))
    if beta == 0:  # a bias that is not finite takes no part either
        return b.expand(found, b.shape)
    return b.add(found, bias if beta == 1 else b.multiply(bias, b.typed(beta, bias.dtype)))


@rule("addmv")
def _(b: AtenBuilder, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    found = b.reshape(b("pd_op.matmul", x, b.reshape(y, (*y.shape, 1))), (x.shape[0],))
    found = b.multiply(found, b.typed(alpha, found.dtype))
    return found if beta == 0 else b.add(found, b.multiply(bias, b.typed(beta, bias.dtype)))


@rule("linear")
def _(b: AtenBuilder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    found = product(b, x, b.permute(weight, [1, 0]))
    return found if bias is None else b.add(found, bias)
