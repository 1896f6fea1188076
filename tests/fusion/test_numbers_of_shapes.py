"""Integers that programs compute from shapes are known to fusion, and are what a run gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pirkit import ProgramBuilder
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.frontend.compile import compile as compile_program
from pirkit.lowering.fusion.shapes import Shapes
from pirkit.passes.differentiate import outputs_of

SHAPES = ((2, 3, 5), (4,), (7, 1))


class Maker:
    """Vectors of integers by any of the ops that compute shapes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.b: Any = ProgramBuilder()
        xs = [self.b.input(f"x{k}", shape, "float32") for k, shape in enumerate(SHAPES)]
        self.held: list[Value] = [self.b("pd_op.shape64", x) for x in xs]
        self.known: list[Value] = list(self.held)
        """Those whose elements fusion has to know."""
        for _ in range(12):
            self.step()

    def step(self) -> None:
        b, draw = self.b, self.draw
        x = draw.choice(self.held)
        is_known = any(v is x for v in self.known)
        size = x.shape[0]
        match draw.randrange(8):
            case 0:
                start = draw.randrange(-size, size)
                end = draw.choice((start % size + 1, size, size + 3))
                y = b("pd_op.slice", x, starts=(start,), ends=(end,), axes=(0,))
            case 1:
                other = draw.choice(self.held)
                is_known = is_known and any(v is other for v in self.known)
                y = b.concat([x, other], axis=0)
            case 2:
                factor = draw.choice((0.0, 1.0, 2.0, -3.0, 0.5, 1.5))
                is_known = is_known and factor == int(factor)
                y = b("pd_op.scale", x, scale=factor, bias=0.0)
            case 3:
                is_known = False
                y = b("pd_op.scale", x, scale=2.0, bias=1.0)
            case 4 | 5:
                alike = [v for v in self.held if v.shape == x.shape]
                other = draw.choice(alike)
                is_known = is_known and any(v is other for v in self.known)
                y = x * other
            case 6:
                middle = draw.choice(("int32", "float64", "bool", "int8"))
                is_known = is_known and middle in ("int32", "float64")
                y = b.cast(b.cast(x, middle), "int64")
            case _:
                y = b.reshape(x, (1, size)).reshape((size,))
        self.held.append(y)
        if is_known:
            self.known.append(y)


@pytest.mark.parametrize("seed", range(16))
def test_what_is_known_is_what_is_computed(seed: int) -> None:
    made = Maker(seed)
    for k, value in enumerate(made.held):
        made.b.output(f"y{k}", value)
    program = made.b.finish()
    given = {f"x{k}": np.zeros(shape, np.float32) for k, shape in enumerate(SHAPES)}
    ran = compile_program(program, backend="reference", pipeline="")(**given)
    shapes = Shapes()
    for op in program.main.operations:
        if isinstance(op, PirOp):
            shapes.visit(op)
    outputs = outputs_of(program.main)
    for k, value in enumerate(made.held):
        numbers = shapes.numbers(outputs[f"y{k}"])
        if numbers is not None:
            assert numbers == tuple(np.asarray(ran[f"y{k}"]).tolist()), k
        assert (numbers is not None) == any(v is value for v in made.known), k


@pytest.mark.parametrize("factor", [float("inf"), float("nan")])
def test_a_factor_that_is_no_number_is_no_shape(factor: float) -> None:
    b: Any = ProgramBuilder()
    x = b.input("x", (2, 3), "float32")
    b.output("y", b("pd_op.scale", b("pd_op.shape64", x), scale=factor, bias=0.0))
    program = b.finish()
    assert Shapes().numbers(outputs_of(program.main)["y"]) is None
