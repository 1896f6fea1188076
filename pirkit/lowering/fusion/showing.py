"""Kernels as text, and why two ops are not in one."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pirkit.diag.errors import UsageError
from pirkit.dialect.map_expr.outline import outline
from pirkit.dialect.map_expr.text import parse_kernel
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.fusion.fusing import Fused, FusePass, blocks_of, plan_fusion
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
        for block in (program.block, *blocks_of(program)):
            named = {r.name_hint: op for op in block.ops for r in op.results if r.name_hint}
            if first in named and second in named:
                found = plan_fusion(block, policy)
                refusal = refusal_of(found, named[first], named[second])
                if refusal is None:
                    return f"%{first} and %{second} are in one kernel"
                return str(refusal)
    raise UsageError(
        f"no block has values %{first} and %{second}",
        help="names are those of the program that is printed: `pirkit-opt FILE -p PASSES`",
    )


def refusal_of(found: Fused, one: Operation, other: Operation) -> Refusal | None:
    """Why two ops of a block are not in one kernel; None if they are."""
    ops = found.equations.ops
    first, second = sorted((_pir(one), _pir(other)), key=ops.index)
    for op in (first, second):
        reason = found.equations.opaque.get(op)
        if reason is not None:
            return Refusal("opaque", (first, second), f"`{op.name}`: {reason.reason}")
        if found.equations.units[op].is_free:
            return None  # it is made anew in every kernel that reads it
    groups = [found.partition.of[op] for op in (first, second)]
    if groups[0] is groups[1]:
        return None
    stated = found.partition.refusals.get((first, second))
    if stated is not None:
        return stated
    blocked = [r for (a, b), r in found.partition.refusals.items() if b is second or a is first]
    if blocked:
        return Refusal(blocked[0].kind, (first, second), f"with it: {blocked[0].reason}")
    if groups[0].level != groups[1].level:
        return _between(found, first, second)
    return Refusal(
        "unrelated", (first, second), "neither reads the other, and they read nothing in common"
    )


def _pir(op: Operation) -> PirOp:
    if not isinstance(op, PirOp):
        raise UsageError(f"`{op.name}` is no operation of a program")
    return op


def _between(found: Fused, first: PirOp, second: PirOp) -> Refusal:
    """The refusal of ops on different levels: something stands between, or keeps them apart."""
    own = found.partition.of
    seen: set[Operation] = set()
    stack: list[Operation] = [second]
    while stack:
        op = stack.pop()
        for value in op.operands:
            owner = value.owner
            if not isinstance(owner, PirOp) or owner in seen:
                continue
            seen.add(owner)
            stack.append(owner)
    between = [
        op
        for op in found.equations.ops
        if op in seen and op is not first and own.get(op) not in (own[first], own[second])
    ]
    if first not in seen:
        reason = "neither reads the other, and they wait for different operations"
        return Refusal("unrelated", (first, second), reason)
    for op in between:
        if any(v.owner in own and own.get(v.owner) is own[first] for v in op.operands):  # type: ignore[arg-type]
            reason = f"one kernel would have to wait for itself: `{op.name}` stands between"
            return Refusal("cycle", (first, second), reason)
    reason = "the reader waits for other operations that are computed later"
    return Refusal("cost", (first, second), reason, remedy="computed again, or stored")
