"""All programs of up to four operations over pure ones, views, writes and saved values.

Two storages, an input and a buffer; each operation reads any value that there is. Of programs that
differ only in the order of operations that do not touch each other, or in operations that nobody
notices, one is tried: 13,415 of 78,160. Of the longest ones it is one in `EVERY`;
`PIRKIT_EXHAUSTIVE=1` tries them all, in each mode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from pirkit.dialect.op_form import KEYWORD
from pirkit.dialect.operation import ProgramOp, create
from pirkit.dialect.text import print_mlir
from pirkit.dialect.types import tensor_type
from pirkit.runtime import dtype as dt
from pirkit.split import SplitParts, forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.conftest import SHARE
from tests.execution import parsed
from tests.split.interpreting import interpret
from tests.split.reference_tape import Action, Grown, State, binary, text_type, unary
from tests.split.running import Halves

Array = np.ndarray[Any, Any]

SHAPE = (3,)
T = text_type(SHAPE)
KINDS = ("pure", "view", "write", "save", "store")
MAKING = ("pure", "save")
IS_EXHAUSTIVE = os.environ.get("PIRKIT_EXHAUSTIVE") == "1"
EVERY = 1 if IS_EXHAUSTIVE else 4 * SHARE
EXECUTED = 40
"""One in so many is compiled and executed as well."""
LONGEST = 4
PARTS = 8
OPS = {
    "pure": "pd_op.tanh",
    "view": "pd_op.share_data",
    "write": "pd_op.sin_",
    "save": "pd_op.multiply",
    "store": "pd_op.assign_out_",
}
X: Array = np.array([0.3, -1.2, 2.0])
BUFFER: Array = np.array([1.5, 0.4, -0.7])

Program = tuple[tuple[str, int], ...]


def programs(length: int) -> Iterator[Program]:
    """Kind and operand of each operation."""
    for kinds in product(KINDS, repeat=length):
        for operands in product(*(range(2 + i) for i in range(length))):
            yield tuple(zip(kinds, operands, strict=True))


@lru_cache
def distinct(length: int) -> tuple[Program, ...]:
    """One program of those that do the same for the same reason."""
    return tuple([p for p in programs(length) if is_noticed(p) and is_sorted(p)])


def storages(program: Program) -> list[int]:
    """The storage of each value, named by the first value that has it."""
    found = [0, 1]
    for number, (kind, index) in enumerate(program):
        made = number + 2 if kind in MAKING else found[index]
        found.append(1 if kind == "store" else made)
    return found


def touched(kind: str, storage: int) -> tuple[set[int], set[int]]:
    """The storages that an operation reads and writes."""
    reads = set[int]() if kind == "view" else {storage} | ({1} if kind == "save" else set[int]())
    writes = {"write": {storage}, "store": {1}}.get(kind, set[int]())
    return reads, writes


def is_noticed(program: Program) -> bool:
    """True if no operation could be left out: its name or its storage is read later."""
    held = storages(program)
    seen, named = {0, 1, held[-1]}, {len(program) + 1}
    for number, (kind, index) in reversed(list(enumerate(program))):
        name = number + 2
        if kind == "view":
            is_read = name in named
        else:
            is_read = kind == "store" or (held[index] if kind == "write" else name) in seen
        if not is_read:
            return False
        named.add(index)
        seen |= touched(kind, held[index])[0]
    return True


def is_sorted(program: Program) -> bool:
    """True if neighbours that do not touch each other stand in the order of their names."""
    held = storages(program)
    for number, (first, second) in enumerate(pairwise(program[:-1])):
        reads, writes = touched(first[0], held[first[1]])
        others, rewrites = touched(second[0], held[second[1]])
        depends = second[1] == number + 2 or writes & (others | rewrites) or rewrites & reads
        if not depends and second < first:
            return False
    return True


def grown(program: Program) -> Grown:
    """The program as text and as actions; the last value and the buffer are returned."""
    names, lines, actions = ["x", "buf"], [], []
    for number, (kind, index) in enumerate(program):
        x, y = names[index], f"v{number}"
        names.append(y)
        match kind:
            case "pure":
                line, action = f"pd_op.tanh(%{x}) : ({T}) -> {T}", unary("tanh", x, y)
            case "view":
                line, action = f"pd_op.share_data(%{x}) : ({T}) -> {T}", view(x, y)
            case "write":
                line = f"pd_op.sin_(%{x}) : ({T}) -> {T}"
                action = unary("sin", x, y, target=x)
            case "save":
                line = f"pd_op.multiply(%{x}, %buf) : ({T}, {T}) -> {T}"
                action = binary("multiply", x, "buf", y)
            case _:
                line = f"pd_op.assign_out_(%{x}, %buf) : ({T}, {T}) -> {T}"
                action = unary("assign", x, y, target="buf")
        lines.append(f"%{y} = {line}")
        actions.append(action)
    outputs = [("out", names[-1]), ("also", "buf")]
    tail = [f'pir.shadow_output(%{v}) {{output_name = "{n}"}} : ({T}) -> ()' for n, v in outputs]
    head = f'%buf = pir.parameter() {{parameter_name = "buf"}} : () -> {T}'
    text = f'pir.program @main(%x "x" : {T}) {{\n' + "\n".join([head, *lines, *tail, "}\n"])
    return Grown(text, actions, {"x": SHAPE}, {"buf": SHAPE}, frozenset(), outputs)


def view(x: str, y: str) -> Action:
    def action(state: State) -> None:
        state.where[y] = state.where[x]

    return action


def built(program: Program) -> ModuleOp:
    """The module that the text of ``grown`` means, quicker than by parsing it."""
    t = tensor_type(SHAPE, dt.float64)
    op = ProgramOp.build("main", [t], [{KEYWORD: StringAttr("x")}])
    module = ModuleOp([op])

    def emit(name: str, *operands: Any, hint: str | None = None, **attrs: str) -> Any:
        properties = {n: StringAttr(v) for n, v in attrs.items()}
        new = create(name, operands, [] if hint is None else [t], properties)
        op.block.add_op(new)
        for result in new.results:
            result.name_hint = hint
        return new.results[0] if hint is not None else None

    buffer = emit("pir.parameter", hint="buf", parameter_name="buf")
    values = [op.block.args[0], buffer]
    values[0].name_hint = "x"
    for number, (kind, index) in enumerate(program):
        x = values[index]
        operands = (x, buffer) if kind in ("save", "store") else (x,)
        values.append(emit(OPS[kind], *operands, hint=f"v{number}"))
    for name, value in (("out", values[-1]), ("also", buffer)):
        emit("pir.shadow_output", value, output_name=name)
    return module


def kept_run(parts: SplitParts, given: dict[str, Array]) -> tuple[list[Array], dict[str, Array]]:
    """The outputs of the forward half, and what it keeps for the backward half."""
    found = interpret(parts.forward_program, given)
    held, names = {**given, **found}, parts.names
    taken = {n for n in (*names.bo, *names.bx, *names.bp, *names.bm) if n is not None}
    return [found[names.fo[i]] for _, i in parts.returns], {n: held[n] for n in taken}


def check(program: Program, mode: str, *, execute: bool) -> None:
    """Two steps: the second finds what the first has written."""
    made = grown(program)
    parts = forward_backward(built(program), mode=mode)
    values = dict(made.outputs)
    names, given = parts.names, {"x": X.copy(), "buf": BUFFER.copy()}
    halves = Halves(parts, {"buf": BUFFER.copy()}, pipeline="") if execute else None
    for _ in range(2):
        state = made.eager(given)
        starts = dict(zip(("x", "buf"), state.tape, strict=False))
        outputs, kept = kept_run(parts, given)
        run = outputs if halves is None else halves.run({"x": X.copy()})
        for (name, value), one, other in zip(made.outputs, outputs, run, strict=True):
            want = state.read(value).value
            np.testing.assert_allclose(one, want, err_msg=f"{program} {name}")
            np.testing.assert_allclose(other, want, err_msg=f"{program} {name}")
        for name in starts:
            np.testing.assert_allclose(given[name], state.read(name).value, err_msg=str(program))
        seeds: dict[int, Array] = {}
        for output, position in parts.returns:
            if position not in seeds:
                seeds[position] = np.array([1.0, -2.0, 0.5]) * (1 + position)
                state.read(values[output]).accumulate(seeds[position])
        state.backward()
        named = {n: seeds[i] for i, n in enumerate(names.bo_g) if n is not None}
        found = interpret(parts.backward_program, kept | named)
        ways = [{s: found[g] for s, g in gradients(parts) if g is not None}]
        if halves is not None:
            ways.append(halves.gradients(seeds))
        for (name, node), way in product(starts.items(), ways):
            want = np.zeros(SHAPE) if node.grad is None else node.grad
            have = way.get(name, np.zeros(SHAPE))
            np.testing.assert_allclose(have, want, atol=1e-12, err_msg=f"{program} {name}")
        given["x"] = X.copy()


def gradients(parts: SplitParts) -> Iterator[tuple[str, str | None]]:
    names = parts.names
    return zip((*names.fx, *names.fp), (*names.bx_g, *names.bp_g), strict=True)


def test_how_many_there_are() -> None:
    counts = [len(distinct(n)) for n in range(1, LONGEST + 1)]
    assert counts == [10, 90, 965, 12350]


@pytest.mark.parametrize("length", [1, 2])
def test_the_module_is_that_of_the_text(length: int) -> None:
    for program in distinct(length):
        assert print_mlir(built(program)) == print_mlir(parsed(grown(program).text))


@pytest.mark.slow  # some four thousand programs
@pytest.mark.parametrize("part", range(PARTS))
def test_all_small_programs(part: int) -> None:
    short = [p for n in range(1, LONGEST) for p in distinct(n)]
    chosen = [*short, *distinct(LONGEST)[::EVERY]]
    for number, program in islice(enumerate(chosen), part, None, PARTS):
        modes = MODES if IS_EXHAUSTIVE else MODES[number % 3 : number % 3 + 1]
        for mode in modes:
            check(program, mode, execute=len(program) < 3 or number % EXECUTED == 0)
