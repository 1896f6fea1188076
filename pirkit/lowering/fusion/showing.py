"""Kernels as text, and why two ops are not in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from pirkit.diag.errors import UsageError
from pirkit.dialect.map_expr.outline import outline
from pirkit.dialect.map_expr.text import parse_kernel
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.fusion.explaining import Explainer
from pirkit.lowering.fusion.fusing import FusePass, plan_fusion, storage_of
from pirkit.lowering.fusion.names import named_ops, names_of
from pirkit.lowering.fusion.partition import DEFAULT, Policy
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.passes.base import PassContext


def print_map_exprs(module: ModuleOp) -> str:
    """Every kernel of a module in the seed's form; a module that has none is fused first."""
    if not any(True for _ in _kernels(module)):
        module = module.clone()
        FusePass(single=True).run(PassContext("fuse", ops=1 << 20), module)
    return "".join(
        outline(parse_kernel(op.attribute("kernel")), [v.name_hint or "" for v in op.operands])
        for op in _kernels(module)
    )


def _kernels(module: ModuleOp) -> Iterator[PirOp]:
    for op in module.walk():
        if isinstance(op, PirOp) and op.name == "pir.map_expr":
            yield op


def why_not_fused(module: ModuleOp, first: str, second: str, policy: Policy = DEFAULT) -> str:
    """Whether the ops that make two values are in one kernel; if not, the refusal as text.

    Values are named as in the program, without ``%``. Raises UsageError for one that is not there.
    """
    for program in module.ops:
        if not isinstance(program, ProgramOp):
            continue
        named = named_ops(program)
        one, other = named.get(first), named.get(second)
        if one is None or other is None or one.parent_block() is not other.parent_block():
            continue
        refusal = refusal_of(program, one, other, policy)
        return f"%{first} and %{second} are in one kernel" if refusal is None else str(refusal)
    raise UsageError(
        f"no block has values %{first} and %{second}",
        help="names are those of the program that is printed: `pirkit-opt FILE -p PASSES`",
    )


def refusal_of(
    program: ProgramOp, one: PirOp, other: PirOp, policy: Policy = DEFAULT
) -> Refusal | None:
    """Why two ops of one block are not in one kernel; None if they are."""
    found = plan_fusion(cast(Block, one.parent_block()), policy, (), storage_of(program))
    names = names_of(program)
    return Explainer(found.equations, found.partition, names, policy).refusal(one, other)
