"""Pairs of ops that a kernel could be made of, and what is told of each."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.fusion.explain import Explainer
from pirkit.lowering.fusion.fuse_pass import FusePass, blocks_of, plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.fusion.partition import sources_of
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.value_names import named_ops, names_of
from pirkit.passes.pipeline import parse_pipeline

STRUCTURE = ("pir.combine", "pir.yield")


def pairs(block: Block) -> Iterator[tuple[PirOp, PirOp]]:
    """Each op with those that it reads from, and ops that read the same value."""
    ops = [op for op in block.ops if isinstance(op, PirOp) and op.name not in STRUCTURE]
    known: dict[Operation, int] = {op: k for k, op in enumerate(ops)}
    readers: dict[SSAValue, list[PirOp]] = {}
    seen: set[tuple[int, int]] = set()
    for op in ops:
        for value in dict.fromkeys(sources_of(op)):
            makers = [value.owner] if value.owner in known else []
            for other in (*makers, *readers.get(value, ())):
                key = (known[other], known[op])  # type: ignore[index]
                if key not in seen and other is not op:
                    seen.add(key)
                    yield ops[key[0]], op
            readers.setdefault(value, []).append(op)


def explainer(
    program: ProgramOp, block: Block, policy: Policy, *forced: tuple[PirOp, PirOp]
) -> Explainer:
    found = plan_fusion(block, policy, forced, storage_of(program))
    return Explainer(found.equations, found.partition, names_of(program), policy)


def refusals(
    program: ProgramOp, policy: Policy
) -> Iterator[tuple[Block, PirOp, PirOp, Refusal | None]]:
    """What is told of every pair of a program."""
    for block in blocks_of(program):
        output = explainer(program, block, policy)
        for one, other in pairs(block):
            yield block, one, other, output.refusal(one, other)


def is_fused_by(
    remedy: str, program: ProgramOp, block: Block, one: PirOp, other: PirOp
) -> Refusal | None:
    """What is told of a pair when the remedy's options are set."""
    (fuse,) = parse_pipeline(remedy)
    assert isinstance(fuse, FusePass)
    named = named_ops(program)
    pairs = [tuple(p.replace("%", "").split("+")) for p in fuse.forced]
    forced = [(named[a], named[b]) for a, b in pairs]
    return explainer(program, block, fuse.policy, *forced).refusal(one, other)
