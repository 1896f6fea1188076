"""Loops for digits: reshapes that join and split axes are read by strides, same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.delinearize import delinearized
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.runtime import dtype as dt
from tests.codegen.nests import check as check_nest
from tests.codegen.nests import compute
from tests.codegen.test_fused import check, drawn, kernels
from tests.fusion.test_random import fused

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def heads_of(x: Any, width: int) -> Any:
    """Queries, keys and values of rows that hold all three, as attention wants them."""
    batch, length, whole = x.shape
    parts = ops.reshape(x, [batch, length, 3, whole // 3 // width, width])
    return ops.unbind(ops.transpose(parts, [2, 0, 3, 1, 4]), 0)


def of_heads(x: Any, gq: Any, gk: Any, gv: Any, bias: Any) -> Any:
    def loss(x: Any, bias: Any) -> Any:
        q, k, v = heads_of(x + bias, 32)
        return (q * gq).sum() + (k * gk).sum() + (v * gv).sum()

    return pirkit.grad(loss, (0, 1))(x, bias)


CASES: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "heads joined": (
        lambda x: ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [2, 5, 192]) + 1.0,
        (normal(2, 3, 5, 64),),
    ),
    "rows and columns joined": (
        lambda x: ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [-1, 51]) + 1.0,
        (normal(2, 3, 19, 17),),
    ),
    "one axis of all": (
        lambda x: ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [-1]) * 2.0,
        (normal(2, 3, 5, 16),),
    ),
    "blocks of channels joined": (
        lambda x: ops.reshape(ops.transpose(x, [0, 1, 4, 2, 3]), [2, 24, 5, 7]) + 1.0,
        (normal(2, 3, 5, 7, 8),),
    ),
    "gradients of heads": (
        of_heads,
        (normal(2, 5, 192), *(normal(2, 2, 5, 32) for _ in "qkv"), normal(192)),
    ),
}


def kernels_of(name: str) -> list[MapExpr]:
    function, given = CASES[name]
    program = trace(function, given).program
    decomposed = pirkit.run_passes(program, "taylor,expand-gradients,decompose,dce")
    return list(kernels(fused(decomposed.entry(None), single=True)[0]))


def computes_places(kernel: MapExpr) -> bool:
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    return any(
        isinstance(s, Load) and s.at is not None
        for nest in nests
        if isinstance(nest.kernel, Kernel)
        for s in nest.kernel.statements()
    )


@pytest.mark.parametrize("name", CASES)
def test_places_are_strides(name: str) -> None:
    found = kernels_of(name)
    assert found
    for kernel in found:
        assert check(kernel, drawn(kernel))
        assert not computes_places(kernel)


def moved(extent: int, divisor: int, separate: int, limit: int, shift: int = 0) -> Kernel:
    """Rows of which element i is read at ``i + apart (i // divisor) + shift``; and their sums."""
    size = 4 * (limit + 1)
    body = (
        Index("i", 0, dt.int32),
        Constant("d", dt.int32, divisor),
        compute("q", "quotient", "i", "d", dtype=dt.int32),
        Constant("f", dt.int32, separate),
        compute("m", "multiply", "q", "f", dtype=dt.int32),
        compute("p", "add", "i", "m", dtype=dt.int32),
        Constant("s", dt.int32, shift),
        compute("at", "add", "p", "s", dtype=dt.int32),
        Load("x", 0, "at", limit),
        Constant("two", dt.int32, 2),
        Compute("low", "less_than", ("q", "two"), dt.bool_),
        Constant("zero", dt.float32, 0.0),
        Compute("y", "where", ("low", "x", "zero"), dt.float32),
        Store(1, "y"),
        Reduce("sum", "sum", "y"),
    )
    operands = (
        Operand(dt.float32, (0,), (size,), 3 * size),
        Operand(dt.float32, (4,), (4 * extent,), 12 * extent),
        Operand(dt.float32, (4,), (0,), 4 * extent),
    )
    return Kernel((extent,), (3,), operands, (LoopPhase(body, (Store(2, "sum"),)),))


def test_what_is_no_place_any_more_is_not_computed() -> None:
    kernel = moved(96, 32, 7, 120)
    made, arrays = delinearized(kernel, (5, 6, 7))
    assert made.outer == (3, 32)
    assert arrays == (5, 6, 7)
    assert made.operands[0].outer == (4 * 39, 4)
    assert not [
        s for s in made.statements() if isinstance(s, Compute) and s.primitive == "quotient"
    ]
    check_nest(kernel, function=native_sequence(kernel))
    check_nest(made, function=native_sequence(made))


@pytest.mark.parametrize(
    "kernel",
    [
        moved(96, 8, 7, 200),  # loops that are too short
        moved(100, 32, 7, 200),  # a digit that is not full
        moved(96, 32, 7, 100),  # places beyond the limit count as the limit
        moved(96, 32, 7, 200, shift=-1),  # places in front of the operand
    ],
)
def test_other_loops_stay(kernel: Kernel) -> None:
    assert delinearized(kernel, (0, 1, 2)) == (kernel, (0, 1, 2))


def test_what_the_kernel_stores_is_read_as_it_was() -> None:
    kernel = moved(96, 32, 7, 120)
    stored = next(s.operand for s in kernel.statements() if isinstance(s, Store))
    read = next(s.operand for s in kernel.statements() if isinstance(s, Load) and s.at is not None)
    arrays = [0, 1, 2]
    assert delinearized(kernel, arrays)[0] is not kernel
    arrays[read] = arrays[stored]
    assert delinearized(kernel, arrays) == (kernel, tuple(arrays))


def test_an_operand_is_not_left() -> None:
    kernel = moved(96, 32, 7, 120)
    short = replace(kernel.operands[0], size=kernel.operands[0].size - 4 * 20)
    kernel = replace(kernel, operands=(short, *kernel.operands[1:]))
    assert delinearized(kernel, (0, 1, 2))[0] is kernel
