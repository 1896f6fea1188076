"""Operations of two programs are matched by what they compute and by who uses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.matching import match_programs
from pirkit.dialect.operation import with_nested
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.files import load
from pirkit.frontend.program_diff import diff_programs

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
NAMES = ("a", "b")


def program(*lines: str) -> ModuleOp:
    """A program of vectors: ``y = add x x`` for ``%y = pd_op.add(%x, %x)``; ``y`` is its output."""
    ops: list[str] = []
    for line in lines:
        result, _, op, *operands = line.split()
        values = ", ".join(f"%{name}" for name in operands)
        types = ", ".join(["tensor<2xf32>"] * len(operands))
        ops.append(f"%{result} = pd_op.{op}({values}) : ({types}) -> tensor<2xf32>")
    ops.append('pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()')
    body = "\n".join(ops)
    return parse_mlir(f'pir.program @main(%x "x" : tensor<2xf32>) {{\n{body}\n}}')


def differences(first: ModuleOp, second: ModuleOp) -> tuple[int, int, int]:
    return diff_programs(first, second, NAMES)[:3]


def changed_lines(text: str) -> list[str]:
    lines = [
        line for line in text.splitlines() if line[:1] in "+-" and line[:3] not in ("---", "+++")
    ]
    return [re.sub(r"\s+", " ", line) for line in lines]


@pytest.mark.parametrize("case", ["while_tanh", "transformer_encoder", "if_else"])
def test_a_program_with_other_names_is_the_same(case: str) -> None:
    module = load(CORPUS / case / "program.txt").module
    renamed = parse_mlir(re.sub(r"%(\d+)", r"%name_\1", print_mlir(module)))
    assert len(match_programs(module, renamed).pairs) == len(list(with_nested(module)))
    assert diff_programs(module, renamed, NAMES) == (0, 0, 0, "")


def test_the_order_of_independent_operations_does_not_count() -> None:
    first = program("a = sin x", "b = cos x", "y = add a b")
    second = program("b = cos x", "a = sin x", "y = add a b")
    assert diff_programs(first, second, NAMES) == (0, 0, 0, "")


def test_a_difference_is_shown_with_the_names_of_the_first_program() -> None:
    first = program("a = sin x", "b = relu a", "c = exp b", "y = add c a")
    second = program("p = sin x", "q = silu p", "r = exp q", "y = add r p")
    found = diff_programs(first, second, NAMES)
    assert found[:3] == (1, 1, 1)
    type_ = "(tensor<2xf32>) -> tensor<2xf32>"
    assert changed_lines(found.text) == [
        f"- %b = pd_op.relu(%a) : {type_}",
        f"- %c = pd_op.exp(%b) : {type_}",
        f"+ %q = pd_op.silu(%a) : {type_}",
        f"+ %c = pd_op.exp(%q) : {type_}",
    ]


def test_two_operations_between_changed_ones_keep_their_places() -> None:
    # Each product has changed operations above and below, and all have an operand in common.
    first = program(*_stack("relu"))
    second = program(*_stack("silu"))
    matching = match_programs(first, second)
    kept = [(a, b) for a, b in matching.pairs.items() if a.name == "pd_op.multiply"]
    places = [list(first.walk()).index(a) == list(second.walk()).index(b) for a, b in kept]
    assert places == [True, True, True]


def _stack(activation: str) -> list[str]:
    return [
        *(f"a = {activation} x", "b = multiply a x"),
        *(f"c = {activation} b", "d = multiply c x"),
        *(f"e = {activation} d", "f = multiply e x", f"y = {activation} f"),
    ]


def test_removed_and_added_operations_are_counted() -> None:
    first = program("a = sin x", "b = sin x", "y = add a b")
    second = program("a = sin x", "y = add a a")
    assert differences(first, second) == (1, 0, 1)
    assert differences(second, first) == (0, 1, 1)
