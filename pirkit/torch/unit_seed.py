"""The split of a loss: the forward computes its gradients, and the backward scales them.

The gradients of one number are linear in its cotangent. So they can be computed for the cotangent
one beside the number itself, in one native call that keeps no value of the forward in memory.
"""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.build import Builder
from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.dialect.types import meta_of
from pirkit.frontend.files import Program
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.split.add_gradients import differentiated
from pirkit.split.partition import forward_backward
from pirkit.split.split_result import SplitParts


def split_of_loss(given: Program) -> SplitParts | None:
    """The split of a program with one output that has gradients, a number; None for others.

    None, too, where it computes in float16: a gradient for the cotangent one may underflow where
    that of a scaled loss, which trainings multiply by thousands, would not. And None for a complex
    number: its gradients are linear in the parts of the cotangent, but not in the cotangent.
    """
    if not any(_is_number(v) for v in outputs_of(given.main).values()):
        return None
    copy = given.copy()
    program = copy.main
    roles, _ = differentiated(program, paddle_residuals=False)
    if len(roles.seeds) != 1 or roles.storage or not roles.gradients:
        return None
    seed = inputs_of(program)[next(iter(roles.seeds.values()))]
    if not _is_number(seed) or any(map(_is_half, operations(program.block))):
        return None
    names = set(roles.gradients.values())
    outputs = [op for op in program.operations if declares(op, OUTPUT) and host_name(op) in names]
    _scale(program, seed, outputs)
    return forward_backward(copy, mode="free", roles=roles)


def _is_number(value: SSAValue) -> bool:
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta) or not meta.is_static:
        return False
    return meta.numel == 1 and not meta.dtype.is_complex


def _is_half(op: PirOp) -> bool:
    metas = [meta_of(value.type) for value in op.results]
    return any(isinstance(m, TensorMeta) and m.dtype is dt.float16 for m in metas)


def _scale(program: ProgramOp, seed: SSAValue, outputs: list[PirOp]) -> None:
    """Compute the gradients for the cotangent one, and then their products with the cotangent."""
    meta = cast(TensorMeta, meta_of(seed.type))
    ops = list(program.operations)
    b = Builder(program.block, ops[ops.index(cast(PirOp, seed.owner)) + 1])
    one = b("pd_op.full", shape=meta.shape, value=1.0, dtype=meta.dtype)
    seed.replace_uses_with_if(one.ssa, lambda use: True)
    b = Builder(program.block)
    products: dict[SSAValue, SSAValue] = {}
    for op in outputs:
        gradient = op.operands[0]
        if gradient not in products:
            value = b.wrap(gradient)
            factor = b.reshape(b.wrap(seed), shape=(1,) * len(value.shape))
            products[gradient] = b.multiply(value, b.cast(factor, dtype=value.dtype)).ssa
        name = host_name(op)
        op.detach()
        op.erase()
        b("pir.shadow_output", b.wrap(products[gradient]), output_name=name)
