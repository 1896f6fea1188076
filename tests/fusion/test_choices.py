"""What fusion chooses, beside what its choices have to hold whatever the program is."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion import horizontal, partition
from pirkit.lowering.fusion.explain import alias_refusal
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Group, Loops, Policy
from pirkit.lowering.fusion.materialize import Choice
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.reshape_aliases import alias_reshapes
from pirkit.lowering.fusion.uses import Needs, Reader
from tests.execution import parsed
from tests.fusion.cases import CASES, Case, built
from tests.fusion.pairs import refusals
from tests.fusion.random_programs import Maker, Turner

SEEDS = range(24)
T = "tensor<2x3xf32>"


def grown(seed: int) -> Any:
    return (Maker if seed % 2 else Turner)(seed, depth=10 + seed % 9).program


@pytest.mark.parametrize("policy", [Policy(), Policy(ops=5), Policy(inputs=3)])
def test_kernels_are_joined_within_limits(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the joined one has the work of the larger one."""
    unite, joined, others = horizontal._unite, 0, 0  # pyright: ignore[reportPrivateUsage]

    def watched(parts: Any, host: Group, group: Group, loops: Loops) -> None:
        nonlocal joined, others
        joined += 1
        assert len({*host.inputs, *group.inputs}) <= policy.inputs
        assert len(host.units) + len(group.units) <= policy.ops
        if loops.rows:
            assert loops.work == max(host.loops.work, group.loops.work)
            others += host.loops.work != group.loops.work
        unite(parts, host, group, loops)

    monkeypatch.setattr(horizontal, "_unite", watched)
    for seed in SEEDS:
        program = grown(seed)
        plan_fusion(program.block, policy, storage=storage_of(program))
    assert joined
    assert others or policy != Policy()


def test_what_no_tile_holds_is_a_value_that_is_needed_at_several_indices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decide, seen = partition.choose, 0

    def watched(reader: Reader, needs: Needs, limit: int, allowed: bool) -> Choice:
        nonlocal seen
        choice = decide(reader, needs, limit, allowed)
        if choice.tile is None:
            assert all(len(needs.members[unit.result]) > 1 for unit in choice.values)
            seen += any(len(at) == 1 for at in needs.members.values())
        return choice

    monkeypatch.setattr(partition, "choose", watched)
    for seed in SEEDS:
        program = grown(seed)
        for policy in (Policy(), Policy(tile=False), Policy(recompute=2)):
            plan_fusion(program.block, policy, storage=storage_of(program))
    assert seen


def test_a_refusal_that_is_tampered_with_does_not_hold() -> None:
    tried = 0
    for name in CASES:
        for _, _, _, refusal in refusals(built(name)[1], Policy()):
            if refusal is None or refusal.kind != "index-conflict":
                continue
            assert refusal.holds()
            for other in tampered(refusal):
                assert not other.holds()
                tried += 1
    assert tried > 10


@pytest.mark.parametrize("reads", [True, False])
def test_what_a_write_separates_names_who_reads_afterwards(reads: bool) -> None:
    last = f"%r = pd_op.add(%a, %x) : ({T}, {T}) -> {T}" if reads else ""
    module = parsed(f"""
pir.program @main(%x "x" : {T}) {{
  %a = pd_op.tanh(%x) : ({T}) -> {T}
  %w = pd_op.relu_(%x) : ({T}) -> {T}
  %b = pd_op.sin(%a) : ({T}) -> {T}
  {last}
  pir.shadow_output(%b) {{output_name = "b"}} : ({T}) -> ()
}}
""")
    tanh, _, sin = [op for op in module.walk() if isinstance(op, PirOp) and op.results][:3]
    refusal = alias_refusal((tanh, sin))
    assert refusal.reason.endswith("another name" if reads else "writes in place")
    assert ("`pd_op.add`" in refusal.reason) == reads


def test_ops_with_effects_keep_their_order() -> None:
    c = Case()
    x = c(4)
    drawn = [c.b("pd_op.bernoulli", x) for _ in range(4)]
    for k, value in enumerate(drawn):
        c.b("pir.shadow_output", value, output_name=f"y{k}")
    effects = plan_fusion(c.program.block, Policy()).partition.effects
    ops = [value.ssa.owner for value in drawn]
    assert [effects[cast(PirOp, op)] for op in ops] == [x.ssa.owner, *ops[:-1]]


def tampered(refusal: Refusal) -> list[Refusal]:
    one, two = refusal.path1, refusal.path2
    found = [replace(refusal, path2=one), replace(refusal, path1=two)]
    found.append(replace(refusal, path1=(), path2=(), kind="index-conflict"))
    found.append(replace(refusal, kind="cost"))
    found += [replace(refusal, path1=one[1:])] if len(one) > 1 else []
    found += [replace(refusal, path2=two[1:])] if len(two) > 1 else []
    found += [replace(refusal, path1=one[:-1])] if len(one) > 1 else []
    return found


def test_reshapes_of_a_value_that_are_stored_anyway_become_reshapes_of_one() -> None:
    c = Case()
    x = c.b.exp(c(4, 6))
    for k, shape in enumerate(([24], [2, 12])):
        c.b("pir.shadow_output", c.b.reshape(x, shape=shape), output_name=f"y{k}")
    first, second = [
        op for op in c.program.block.ops if isinstance(op, PirOp) and op.name == "pd_op.reshape"
    ]
    assert second.operands[0] is x.ssa
    alias_reshapes(c.program.block)
    assert first.operands[0] is x.ssa
    assert second.operands[0] is first.results[0]
