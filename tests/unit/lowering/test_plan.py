"""The plan of a program: which values share a slot, what costs nothing, what is freed when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering import liveness
from pirkit.lowering.liveness import reads, with_frees, writes
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.plan import Call, Copy, If, Instruction, Plan, While, instructions
from tests.execution import parsed

F = "tensor<2xf32>"
OUT = f'pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()'
SCALE = (
    "%k = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64, dtype = #pir.dtype<float32>, "
    "place = #pir.place<cpu:0>} : () -> tensor<1xf32>"
)


def plan(body: str) -> Plan:
    module = parsed(f'pir.program @main(%c "c" : tensor<i1>, %x "x" : {F}) {{\n{body}\n}}')
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return write_plan(program)


def test_an_alias_class_has_one_slot() -> None:
    found = plan(f"""
        %v = pd_op.share_data(%x) : ({F}) -> {F}
        %y = pd_op.relu_(%v) : ({F}) -> {F}
        {OUT}""")
    (x,) = [p.slot for p in found.inputs if p.name == "x"]
    assert found.outputs[0].source == x
    assert all(i.outputs == (x,) for i in found.body if isinstance(i, Call))
    assert found.written == ("x",)


def test_lists_cost_nothing() -> None:
    found = plan(f"""
        %l = pir.combine(%x, %x) : ({F}, {F}) -> !pir.vec<{F}, {F}>
        %y, %z = pir.split(%l) : (!pir.vec<{F}, {F}>) -> ({F}, {F})
        {OUT}""")
    assert found.body == ()


def test_a_constant_that_is_an_attribute_is_not_computed() -> None:
    found = plan(f"""
        {SCALE}
        %y = pd_op.scale(%x, %k) {{bias = 0.0 : f32, bias_after_scale = true}}
            : ({F}, tensor<1xf32>) -> {F}
        {OUT}""")
    assert [i.kernel for i in found.body if isinstance(i, Call)] == ["pd_op.scale"]


def test_an_overwritten_constant_is_read_when_it_is_needed() -> None:
    found = plan(f"""
        {SCALE}
        %w = pd_op.exp_(%k) : (tensor<1xf32>) -> tensor<1xf32>
        %y = pd_op.scale(%x, %k) {{bias = 0.0 : f32, bias_after_scale = true}}
            : ({F}, tensor<1xf32>) -> {F}
        {OUT}""")
    (call,) = [i for i in found.body if isinstance(i, Call) and i.kernel == "pd_op.scale"]
    assert [(h.name, h.kind) for h in call.host] == [("scale", "scalar")]


def test_a_plan_as_text() -> None:
    found = plan(f"""
        %y = pd_op.if(%c) : (tensor<i1>) -> {F} {{
          %a = pd_op.exp(%x) : ({F}) -> {F}
          %b = pd_op.relu(%a) : ({F}) -> {F}
          pir.yield(%b) : ({F}) -> ()
        }} else {{
          pir.yield(%x) : ({F}) -> ()
        }}
        {OUT}""")
    assert str(found) == (
        "plan @main {\n"
        '  input $0 "c" : tensor<b>\n'
        '  input $1 "x" : tensor<2xf32>\n'
        "  if $0 {\n"
        "    $3 = pd_op.exp($1) : tensor<2xf32>\n"
        "    $4 = pd_op.relu($3) : tensor<2xf32>  // frees [$3]\n"
        "    $2 = $4  // frees [$4]\n"
        "  } else {\n"
        "    $2 = $1\n"
        "  }\n"
        '  output $2 "y" : tensor<2xf32>\n'
        "}\n"
    )


# --- frees, against what a run needs -------------------------------------------------------------

SLOTS = st.integers(0, 7)
CALLS = st.builds(
    lambda read, write: Call("k", tuple(read), tuple(write)),
    st.lists(SLOTS, max_size=2),
    st.lists(SLOTS, min_size=1, max_size=2),
)
COPIES = st.builds(lambda s, t: Copy((s,), (t,)), SLOTS, SLOTS)
BODIES = st.recursive(
    st.lists(CALLS | COPIES, max_size=4).map(tuple),
    lambda inner: st.lists(
        CALLS | COPIES | st.builds(If, SLOTS, inner, inner) | st.builds(While, SLOTS, inner),
        max_size=4,
    ).map(tuple),
    max_leaves=6,
)


def legal(body: tuple[Instruction, ...], defined: frozenset[int]) -> tuple[Instruction, ...]:
    """The body with every read of a slot that is not defined there turned into one of slot 0."""

    def known(slots: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(s if s in defined else 0 for s in slots)

    made: list[Instruction] = []
    for instruction in body:
        match instruction:
            case Call():
                made.append(replace(instruction, inputs=known(instruction.inputs)))
            case Copy():
                made.append(replace(instruction, sources=known(instruction.sources)))
            case If(condition, then, orelse):
                blocks = (legal(then, defined), legal(orelse, defined))
                made.append(If(known((condition,))[0], *blocks))
            case While(condition, inner):
                made.append(While(known((condition,))[0], legal(inner, defined)))
        defined |= set(writes(made[-1]))
    return tuple(made)


class Poisoned(Exception):
    """A slot was read behind its free."""


def walk(body: tuple[Instruction, ...], freed: set[int], choices: list[bool]) -> None:
    """Follow one path; a read of a slot that was freed and not written again is an error."""
    for instruction in body:
        for slot in reads(instruction):
            if slot in freed:
                raise Poisoned(slot)
        if isinstance(instruction, If):
            taken = choices.pop() if choices else True
            walk(instruction.then if taken else instruction.orelse, freed, choices)
        elif isinstance(instruction, While):
            while choices and choices.pop():
                walk(instruction.body, freed, choices)
                if instruction.condition in freed:
                    raise Poisoned(instruction.condition)
        freed -= set(writes(instruction))
        freed |= set(instruction.frees)


@given(BODIES, st.sets(SLOTS), st.lists(st.booleans(), max_size=12))
def test_nothing_is_read_behind_its_free(
    body: tuple[Instruction, ...], tiled: set[int], choices: list[bool]
) -> None:
    tiled = tiled | {0}
    freed: set[int] = set()
    walk(with_frees(legal(body, frozenset({0})), tiled), freed, list(choices))
    assert not freed & tiled


@given(st.lists(CALLS | COPIES, max_size=6).map(tuple), st.sets(SLOTS))
def test_each_slot_of_a_straight_line_is_freed_behind_its_last_use(
    body: tuple[Instruction, ...], tiled: set[int]
) -> None:
    for index, instruction in enumerate(with_frees(body, tiled)):
        touched = {*reads(body[index]), *writes(body[index])}
        later = {s for i in instructions(body[index + 1 :]) for s in (*reads(i), *writes(i))}
        assert set(instruction.frees) == touched - later - tiled


def test_a_slot_that_is_freed_too_early_is_noticed() -> None:
    early = (Call("k", (), (0,), frees=(0,)), Call("k", (0,), (1,)))
    with pytest.raises(Poisoned):
        walk(early, set(), [])


@pytest.mark.parametrize("inside", [False, True], ids=["block", "loop"])
def test_a_slot_that_is_freed_too_early_is_found(
    inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a loop, what an iteration frees is missing in the next one."""
    last = Call("pd_op.add", (1, 2), (2,), frees=(1,) if inside else ())
    calls = (Call("pd_op.exp", (0,), (2,), frees=() if inside else (1,)), last)
    body: tuple[Instruction, ...] = (While(3, calls),) if inside else calls
    monkeypatch.setattr(liveness, "_free_block", lambda body, _: body)
    with pytest.raises(InternalError, match=r"`pd_op.add` reads \$1, after it was freed"):
        with_frees(body, (0, 3))


@pytest.mark.parametrize("taken", [False, True])
def test_a_slot_that_one_branch_frees_too_early_is_found(
    taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = (Call("pd_op.exp", (0,), (2,), frees=(1,)),)
    branch = If(3, early if taken else (), () if taken else early)
    monkeypatch.setattr(liveness, "_free_block", lambda body, _: body)
    with pytest.raises(InternalError, match=r"`pd_op.tanh` reads \$1, after it was freed"):
        with_frees((branch, Call("pd_op.tanh", (1,), (4,))), (4,))


def test_what_both_branches_write_is_alive_in_the_next_iteration() -> None:
    branch = (Call("pd_op.exp", (0,), (1,)),)
    body = (If(3, branch, branch), Call("pd_op.exp", (1,), (0,)), Copy((1,), (2,)))
    (loop,) = with_frees((While(3, body),), (0, 2, 3))
    assert isinstance(loop, While)
    assert loop.body[-1].frees == (1,)


def some_body(
    draw: random.Random, size: int, known: list[int], fresh: Iterator[int], depth: int = 0
) -> tuple[Instruction, ...]:
    """Calls that read slots that are written and write new ones, and branches of them."""
    found: list[Instruction] = []
    for _ in range(size):
        if depth < 2 and draw.random() < 0.2:
            then, other = (
                some_body(draw, draw.randrange(3), list(known), fresh, depth + 1) for _ in range(2)
            )
            found.append(If(draw.choice(known), then, other))
            continue
        given = tuple(draw.choices(known, k=draw.randrange(3)))
        made = tuple(islice(fresh, draw.randrange(1, 3)))
        known += made
        found.append(Call(draw.choice(("pure", "effect", "partial")), given, made))
    return tuple(found)


def stripped(body: tuple[Instruction, ...], live: set[int]) -> tuple[Instruction, ...]:
    """The body without one dead call of a pure kernel after the other."""
    read = {s for i in instructions(body) for s in reads(i)} | live

    def visit(body: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
        kept: list[Instruction] = []
        for one in body:
            if isinstance(one, Call):
                dead = [s not in read for s in one.outputs]
                if one.kernel != "effect" and all(dead):
                    continue
                if one.kernel == "partial":
                    one = replace(
                        one, outputs=(None if dead[0] else one.outputs[0], *one.outputs[1:])
                    )
            elif isinstance(one, If):
                one = replace(one, then=visit(one.then), orelse=visit(one.orelse))
            kept.append(one)
        return tuple(kept)

    return visit(body)


def test_a_call_that_is_removed_although_it_is_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Forgetful(Counter[int]):
        def __getitem__(self, key: int) -> int:
            return 0

    monkeypatch.setattr(liveness, "Counter", Forgetful)
    body = Call("pd_op.exp", (0,), (1,)), Call("pd_op.add", (1, 1), (2,))
    with pytest.raises(InternalError, match=r"`pd_op.add` reads \$1, but no instruction"):
        liveness.without_dead_calls(body, (2,), {"pd_op.exp"}, {})


@pytest.mark.parametrize("seed", range(60))
def test_calls_whose_results_nobody_reads_are_removed(seed: int) -> None:
    draw = random.Random(seed)
    known = [0, 1]
    body = some_body(draw, 10, known, count(2))
    live = set(draw.choices(known, k=3))
    wanted, before = stripped(body, live), None
    while wanted != before:
        before, wanted = wanted, stripped(wanted, live)
    found = liveness.without_dead_calls(body, live, {"pure", "partial"}, {"partial": {0}})
    assert found == wanted
