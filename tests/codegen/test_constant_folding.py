"""What sizes decide is not written: loops that do not run, or run once, numbers that are known."""

from __future__ import annotations

import pytest

from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.ir.constant_folding import fold_constant, trip_count
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Value
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import host
from tests.codegen.nests import softmax


def roots(count: int) -> Kernel:
    one = Operand(dt.float32, (4,), (), 4 * count)
    body = (Load("x", 0), Compute("y", "sqrt", ("x",), dt.float32), Store(1, "y"))
    return Kernel((count,), (), (one, one), (LoopPhase(body),))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("add i64 3, 4", "7"),
        ("sub i64 3, 4", "-1"),
        ("mul i64 -3, 4", "-12"),
        ("and i64 37, -16", "32"),
        ("urem i64 37, 16", "5"),
        ("udiv i64 37, 16", "2"),
        ("icmp slt i64 3, 4", "true"),
        ("icmp sge i64 3, 4", "false"),
        ("add i64 %v1, 0", "%v1"),
        ("add i64 0, %v1", "%v1"),
        ("sub i64 %v1, 0", "%v1"),
        ("mul i64 1, %v1", "%v1"),
        ("mul i64 %v1, 0", "0"),
        ("udiv i64 %v1, 1", "%v1"),
        ("urem i64 %v1, 1", "0"),
        ("and i64 %v1, -1", "%v1"),
    ],
)
def test_what_is_known_is_told(text: str, known: str) -> None:
    assert fold_constant(text) == known


@pytest.mark.parametrize(
    "text",
    [
        "sub i64 0, %v1",
        "udiv i64 1, %v1",
        "urem i64 -3, 2",
        "udiv i64 3, 0",
        "icmp ult i64 -1, 2",
        "mul i64 9223372036854775807, 2",
        "add i32 1, 2",
        "add i64 %v1, %v2",
        "fadd float 1, 2",
    ],
)
def test_what_is_not_known_is_left(text: str) -> None:
    assert fold_constant(text) is None


@pytest.mark.parametrize(
    ("start", "stop", "step", "count"),
    [("0", "7", 2, 4), ("4", "4", 1, 0), ("5", "4", 1, 0), ("0", "%v1", 1, None)],
)
def test_loops_are_counted(start: str, stop: str, step: int, count: int | None) -> None:
    assert trip_count(start, stop, step) == count


def test_a_loop_that_runs_once_is_none() -> None:
    b = Builder()
    (total,) = b.loop(3, 4, 1, [Value("%x", I64)], lambda i, c: [b.plus(c[0], i)])
    assert total.text == "%v1"
    assert b.lines == ["  %v1 = add i64 %x, 3"]


def test_an_offset_is_an_instruction_of_the_blocks_that_use_it() -> None:
    b = Builder()
    place = b.at(Value("%p", PTR), 8)
    further = b.at(place, 8)
    assert not b.lines, "nobody reads it"

    def body(_: Value, carried: list[Value]) -> list[Value]:
        return [b.emit(I64, f"load i64, {further}"), b.plus(carried[1], 5)]

    b.loop(0, Value("%n", I64), 1, [Value("0", I64), b.plus(Value("%x", I64), 2)], body)
    b.emit(I64, f"load i64, {further}")
    added = [(k, x.strip()) for k, x in enumerate(b.lines) if " add " in x or "ptr" in x]
    ends = [k for k, line in enumerate(b.lines) if line.startswith("  br ")]
    (start, first), *inside, (_, load) = added
    assert "add i64 %x, 2" in first
    assert start < ends[0], "before the loop, whose phi reads it"
    assert sum("getelementptr i8, ptr %p, i64 16" in line for _, line in inside) == 2
    assert any("add i64 %c" in x and k < ends[2] for k, x in inside), "before its block ends"
    assert "load" in load


def test_a_count_is_hidden_from_those_who_would_count_otherwise() -> None:
    b = Builder()
    b.loop(0, 40, 4, [], lambda i, c: [])
    *_, following = (line for line in b.lines if " = call " in line)
    name = following.split()[0]
    assert following == f"  {name} = call i64 @llvm.expect.i64(i64 %v3, i64 0)"
    assert f"  %i1 = phi i64 [ 0, %entry ], [ {name}, %body1 ]" in b.lines
    assert "llvm.expect.i64" in b.declared


def test_a_loop_that_does_not_run_gives_what_it_was_given() -> None:
    b = Builder()
    assert b.loop(4, 4, 1, [Value("%x", I64)], lambda i, c: [i]) == [Value("%x", I64)]
    assert not b.lines


@pytest.mark.parametrize(("condition", "found"), [("true", "%then"), ("false", "%else")])
def test_a_branch_that_is_known_is_none(condition: str, found: str) -> None:
    b = Builder()
    holds, otherwise = Value(condition, I1), [Value("%else", I64)]
    assert b.branch(holds, lambda: [Value("%then", I64)], otherwise)[0].text == found
    assert not b.lines


LANES = host().vector_bits // 32
ONE_VECTOR = [(roots(3), 0), (roots(LANES), 0), (softmax(1, LANES), 0)]


@pytest.mark.parametrize(("kernel", "loops"), [*ONE_VECTOR, (roots(4096), 1), (roots(1 << 20), 2)])
def test_only_loops_that_repeat_are_written(kernel: Kernel, loops: int) -> None:
    text = generate(kernel, host()).text
    assert sum(line.startswith("head") for line in text.splitlines()) == loops
