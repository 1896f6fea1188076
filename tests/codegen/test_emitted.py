"""What the text of generated code looks like where that decides how fast it is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit import memory_access
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.emit.interleave import interleaved
from pirkit.lowering.codegen.emit.schedule import row_unroll
from pirkit.lowering.codegen.emit.split_reduction import (
    _MIN_ITERATIONS,  # pyright: ignore[reportPrivateUsage]
    split_reductions,
)
from pirkit.lowering.codegen.ir import memory_rewrites
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.llvm import llvm
from pirkit.runtime.native.object_compiler import INLINE, SIMPLIFY
from pirkit.runtime.native.target import host
from tests.codegen.nests import operand, softmax

VECTOR = Type("float", 16)


def chain(b: Builder, first: str) -> None:
    x = b.add(Value(first, VECTOR), 1.0)
    b.emit_void(f"store {b.mul(x, 2.0)}, ptr {first}_place")


def test_vectors_are_computed_side_by_side() -> None:
    b = Builder()
    interleaved(b, [lambda: chain(b, "%x"), lambda: chain(b, "%y")])
    assert [line.split()[2] for line in b.lines[:4]] == ["fadd", "fadd", "fmul", "fmul"]
    assert [line.split()[-1] for line in b.lines[4:]] == ["%x_place", "%y_place"]


def test_addresses_take_no_turn() -> None:
    b = Builder()

    def body(name: str, offset: int) -> None:
        place = f"%{name}"
        if offset:
            place = b.emit(PTR, f"getelementptr i8, ptr {place}, i64 {offset}").text
        x = b.emit(VECTOR, f"load {VECTOR}, ptr {place}")
        b.emit_void(f"store {b.mul(x, 2.0)}, ptr {place}")

    interleaved(b, [lambda: body("x", 0), lambda: body("x", 64), lambda: body("y", 64)])
    assert sum("getelementptr" in line for line in b.lines) == 2
    assert [line.split()[0] for line in b.lines[-3:]] == ["store"] * 3


@pytest.mark.parametrize(("lanes", "is_whole"), [(2, False), (3, False), (4, True), (8, True)])
def test_masked_accesses_below_128_bits_are_scalar(lanes: int, is_whole: bool) -> None:
    b, type_, mask = Builder(), Type("float", lanes), Value("%m", Type("i1", lanes))
    memory_access._masked_store(b, Value("%v", type_), Value("%p", PTR), 4, mask)
    assert any("masked.store" in line for line in b.lines) == is_whole
    memory_access.masked_load(b, type_, Value("%p", PTR), 4, mask)
    assert any("masked.load" in line for line in b.lines) == is_whole


def test_rows_of_128_elements_have_several_accumulators() -> None:
    assert [row_unroll(softmax(2, n), []) for n in (1, 127, 128, 1000)] == [1, 1, 4, 4]
    heavy = [Compute(f"x{k}", "tanh", ("x",), dt.float32) for k in range(20)]
    assert row_unroll(softmax(2, 128), heavy) == 2


@pytest.mark.parametrize(("more", "parts"), [(-1, 1), (0, 2), (2, 2)])
def test_a_reduction_of_two_parts_is_split(more: int, parts: int) -> None:
    nest = ((1,), (2 * _MIN_ITERATIONS + more,))
    operands = (operand(dt.float32, nest, [1, 0]), operand(dt.float32, nest, missing=[1]))
    phase = LoopPhase((Load("x", 0), Reduce("y", "sum", "x")), (Store(1, "y"),))
    assert len(split_reductions(Kernel(*nest, operands, (phase,)), 1).steps) == parts


def test_one_block_is_split_into_as_many_parts_as_are_wanted() -> None:
    nest = ((1,), (64 * _MIN_ITERATIONS,))
    operands = (operand(dt.float32, nest, [1, 0]), operand(dt.float32, nest, missing=[1]))
    phase = LoopPhase((Load("x", 0), Reduce("y", "sum", "x")), (Store(1, "y"),))
    parts, _ = split_reductions(Kernel(*nest, operands, (phase,)), 1).steps
    assert parts.kernel.outer[0] == 32


def test_parts_of_a_whole_tensor_are_contiguous() -> None:
    nest = ((), (61, 127, 211))
    operands = (operand(dt.float32, nest), operand(dt.float32, nest, missing=[0, 1, 2]))
    phase = LoopPhase((Load("x", 0), Reduce("y", "sum", "x")), (Store(1, "y"),))
    parts = split_reductions(Kernel(*nest, operands, (phase,)), 1).steps[0].kernel
    assert parts.operands[0].inner == (4,)
    assert parts.operands[0].outer == (4 * parts.inner[0],)


def test_parts_of_separate_rows_are_of_whole_rows() -> None:
    nest = ((), (400, 900))
    x = Operand(dt.float32, (), (4 * 1000, 4), 4 * 400 * 1000)
    y = operand(dt.float32, nest, missing=[0, 1])
    phase = LoopPhase((Load("x", 0), Reduce("y", "sum", "x")), (Store(1, "y"),))
    parts = split_reductions(Kernel(*nest, (x, y), (phase,)), 1).steps[0].kernel
    assert parts.inner[1] == 900


def test_what_another_vector_has_computed_comes_first() -> None:
    b = Builder()

    def short() -> None:
        shared = b.mul(b.add(Value("%x", VECTOR), 1.0), 2.0)
        b.emit_void(f"store {b.neg(shared)}, ptr %second")

    interleaved(b, [lambda: chain(b, "%x"), short])
    made: set[str] = set()
    for line in b.lines:
        name, _, text = line.strip().partition(" = ")
        read = {word.strip(",") for word in (text or name).split() if word.startswith("%v")}
        assert read <= made
        made.add(name)
    assert sum("fadd" in line for line in b.lines) == 1


def test_bodies_with_branches_stay_in_order() -> None:
    def written(together: bool) -> list[str]:
        b = Builder()

        def body(name: str) -> None:
            chain(b, name)
            b.branch(Value(f"{name}_big", Type("i1")), lambda: chain(b, name) or [])

        bodies = [lambda: body("%x"), lambda: body("%y")]
        if together:
            interleaved(b, bodies)
        else:
            for each in bodies:
                each()
        return b.lines

    assert written(True) == written(False)


def flat(count: int, primitive: str) -> Kernel:
    one = Operand(dt.float32, (4,), (), count * 4)
    body = (Load("x", 0), Compute("y", primitive, ("x",), dt.float32), Store(1, "y"))
    return Kernel((count,), (), (one, one), (LoopPhase(body),))


def test_flat_loops_that_compute_ask_memory_ahead() -> None:
    target = replace(host(), l2_bytes=1 << 20)
    assert "prefetch" in generate(flat(1 << 20, "tanh"), target).text
    assert "prefetch" not in generate(flat(1 << 16, "tanh"), target).text
    assert "prefetch" not in generate(flat(1 << 20, "abs"), target).text


def test_long_rows_ask_for_the_next_one_nearby() -> None:
    """They would push nothing out of the first cache that is read again; short rows would."""
    target = replace(host(), l2_bytes=1 << 20)
    long, short = (generate(softmax(4, n), target).text for n in (50_000, 1000))
    assert "i32 0, i32 3, i32 1)" in long
    assert "i32 0, i32 2, i32 1)" not in long
    assert "i32 0, i32 2, i32 1)" in short
    # a value that is kept where the result will be is just being written there
    assert "i32 1, i32 3, i32 1)" not in long
    assert "i32 1, i32 2, i32 1)" in short


def turned_sum(side: int) -> Kernel:
    """Sums of columns, and of rows that are turned to be added to them."""
    size, total = side * side * 4, Operand(dt.float32, (4,), (0,), side * 4)
    columns, rows = ((4,), (4 * side,)), ((4 * side,), (4,))
    operands = (Operand(dt.float32, *columns, size), Operand(dt.float32, *rows, size), total)
    body = (Load("x", 0), Load("y", 1), Compute("z", "add", ("x", "y"), dt.float32))
    phase = LoopPhase((*body, Reduce("total", "sum", "z")), (Store(2, "total"),))
    return Kernel((side,), (side,), operands, (phase,))


def test_a_phase_asks_for_what_it_reads_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first phase reads rows in tiles, which are asked for there; the second one columns."""
    target = replace(host(), l2_bytes=1 << 20)
    both = turned_sum(1024)
    (phase,) = both.loop_phases
    first = LoopPhase((Load("y", 1), Reduce("sums", "sum", "y")))
    terms = (Load("x", 0), Compute("z", "multiply", ("x", "sums"), dt.float32))
    second = LoopPhase((*terms, Reduce("total", "sum", "z")), phase.after)
    asked: dict[str, list[int]] = {}

    def noted(nest: Any, row: str, var: str, requests: Any) -> Any:
        asked[row] = [r.buffer for r in requests]
        return nest

    monkeypatch.setattr(memory_rewrites, "prefetch_rows", noted)
    generate(replace(both, loop_phases=(first, second)), target)
    assert asked["r0.1"] == [0]


def test_what_is_turned_is_asked_for_a_tile_ahead() -> None:
    target = replace(host(), l2_bytes=1 << 20)
    assert "prefetch" in generate(turned_sum(1024), target).text
    assert "prefetch" not in generate(turned_sum(256), target).text


def test_conditions_are_simplified_by_llvm_and_plain_numbers_are_not() -> None:
    one = Operand(dt.float32, (4,), (), 256)
    bits = Operand(dt.bool_, (1,), (), 64)
    asked = Compute("y", "greater_than", ("x", "x"), dt.bool_)
    choosing = Kernel((64,), (), (one, bits), (LoopPhase((Load("x", 0), asked, Store(1, "y"))),))
    assert SIMPLIFY in generate(choosing, host()).text.splitlines()
    assert SIMPLIFY not in generate(flat(64, "tanh"), host()).text


def test_what_asks_for_it_is_simplified() -> None:
    text = """
define <4 x i1> @f(<4 x i32> %x) {
  %low = icmp sge <4 x i32> %x, splat (i32 1)
  %high = icmp slt <4 x i32> %x, splat (i32 57)
  %within = and <4 x i1> %low, %high
  ret <4 x i1> %within
}
"""
    assert compile_ir(text) != compile_ir(f"{text}{SIMPLIFY}\n")


def test_all_modules_share_a_pass_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmlite never frees all of one."""
    made, make = [0], llvm.create_pass_builder

    def counted(*given: Any) -> Any:
        made[0] += 1
        return make(*given)

    monkeypatch.setattr(llvm, "create_pass_builder", counted)
    for line in (SIMPLIFY, INLINE):
        compile_ir(f"define void @first() {{\n  ret void\n}}\n{line}\n")
    before = made[0]
    assert before <= 1
    for line in (SIMPLIFY, INLINE):
        compile_ir(f"define void @second() {{\n  ret void\n}}\n{line}\n")
    assert made[0] == before
