"""All programs of up to four operations over pure ones, views, writes and saved values.

Two storages, an input and a buffer; each operation reads any value that there is. What is shorter
than four is tried completely, of the longest one in `EVERY`; `PIRKIT_EXHAUSTIVE=1` tries them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice, product

import numpy as np
import pytest

from pirkit.split import forward_backward
from tests.execution import parsed
from tests.split.running import Halves
from tests.split.tape import Action, Grown, State, binary, text_type, unary

SHAPE = (3,)
T = text_type(SHAPE)
KINDS = ("pure", "view", "write", "save", "store")
EVERY = 1 if os.environ.get("PIRKIT_EXHAUSTIVE") == "1" else 101
LONGEST = 4
PARTS = 8

Program = tuple[tuple[str, int], ...]


def programs(length: int) -> Iterator[Program]:
    """Kind and operand of each operation."""
    for kinds in product(KINDS, repeat=length):
        for operands in product(*(range(2 + i) for i in range(length))):
            yield tuple(zip(kinds, operands, strict=True))


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


def check(program: Program, mode: str) -> None:
    """Two steps: the second finds what the first has written."""
    made = grown(program)
    parts = forward_backward(parsed(made.text), mode=mode)
    given = {"x": np.array([0.3, -1.2, 2.0]), "buf": np.array([1.5, 0.4, -0.7])}
    halves = Halves(parts, {"buf": given["buf"].copy()}, pipeline="")
    values = dict(made.outputs)
    for _ in range(2):
        state = made.eager(given)
        starts = dict(zip(("x", "buf"), state.tape, strict=False))
        outputs = halves.run({"x": given["x"].copy()})
        for (name, value), have in zip(made.outputs, outputs, strict=True):
            np.testing.assert_allclose(have, state.read(value).value, err_msg=f"{program} {name}")
        np.testing.assert_allclose(halves.params["buf"], state.read("buf").value)
        seeds: dict[int, np.ndarray] = {}
        for output, position in parts.returns:
            if position not in seeds:
                seeds[position] = np.array([1.0, -2.0, 0.5]) * (1 + position)
                state.read(values[output]).accumulate(seeds[position])
        state.backward()
        found = halves.gradients(seeds)
        for name, node in starts.items():
            want = np.zeros(SHAPE) if node.grad is None else node.grad
            have = found.get(name, np.zeros(SHAPE))
            np.testing.assert_allclose(have, want, atol=1e-12, err_msg=f"{program} {name}")
        given["buf"] = state.read("buf").value


@pytest.mark.slow  # some four thousand programs
@pytest.mark.parametrize("part", range(PARTS))
def test_all_small_programs(part: int) -> None:
    modes = ("save-all", "free", "min-cut")
    short = [p for n in range(LONGEST) for p in programs(n)]
    chosen = [*short, *islice(programs(LONGEST), 0, None, EVERY)]
    for number, program in islice(enumerate(chosen), part, None, PARTS):
        check(program, modes[number % 3])
