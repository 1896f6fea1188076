"""What mutants of the code generator have shown that no test looked at."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pirkit.dialect.map_expr.tree import Apply
from pirkit.dialect.promotion import numpy_common
from pirkit.lowering.codegen.emit import batch_compile, memory_access
from pirkit.lowering.codegen.emit.memory_access import Memory
from pirkit.lowering.codegen.emit.split_reduction import (
    _MIN_ACCUMULATED_BLOCK,  # pyright: ignore[reportPrivateUsage]
    split_reductions,
)
from pirkit.lowering.codegen.emit.tiled_loops import lanes_of
from pirkit.lowering.codegen.emit.vector_emit import tree_reduce
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Statement,
)
from pirkit.lowering.codegen.ir.tiled_nest import Tile, TiledNest, TilePhase
from pirkit.lowering.codegen.lower.scalar_ops import is_supported
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import Target
from tests.codegen.nests import operand


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("step", [0, 4])
@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_one_element_is_loaded_without_a_branch_unless_a_guard_may_forbid_it(
    lanes: int, step: int, guarded: bool, masked: bool
) -> None:
    b, is_one = Builder(), lanes == 1 or step == 0
    mask = Value("%m", Type("i1", lanes)) if masked else None
    memory_access.load(b, dt.float32, Memory(Value("%p", PTR), step), lanes, mask, guarded)
    assert any("br i1" in line for line in b.lines) == (is_one and guarded and masked)
    assert any("masked.load" in line for line in b.lines) == (masked and not is_one)


@pytest.mark.parametrize(("op", "dtype", "is_known"), [
    ("pd_op.add", dt.float32, True), ("pd_op.add", dt.complex64, False),
    ("pd_op.svd", dt.float32, False),
])  # fmt: skip
def test_scalar_ops_that_have_native_code(op: str, dtype: dt.DType, is_known: bool) -> None:
    assert is_supported(Apply(op, (), dtype)) == is_known


@pytest.mark.parametrize(("more", "is_split"), [(0, False), (1, True), (1000, True)])
def test_rows_of_more_than_one_block_are_accumulated_in_parts(more: int, is_split: bool) -> None:
    nest = ((_MIN_ACCUMULATED_BLOCK + more,), (5,))
    operands = (operand(dt.float32, nest, [1, 0]), operand(dt.float32, nest, missing=[0]))
    phase = LoopPhase((Load("x", 0), Accumulate(1, "sum", "x")), ())
    assert (len(split_reductions(Kernel(*nest, operands, (phase,)), 1).steps) > 1) == is_split


@pytest.mark.parametrize("count", range(1, 8))
def test_partial_sums_are_added_once_each(count: int) -> None:
    b, values = Builder(), [Value(f"%part{k}", Type("float")) for k in range(count)]
    total = tree_reduce(b, "sum", values, dt.float32)
    read = [word.strip(",") for line in b.lines for word in line.partition("=")[2].split()]
    used = [word for word in read if word.startswith("%part")]
    assert sorted(used or [total.text]) == [v.text for v in values]
    assert len(b.lines) == count - 1


COMPUTED = {
    dt.float32: 4, dt.float64: 8, dt.float16: 4, dt.bfloat16: 4, dt.int8: 1, dt.int16: 2,
    dt.int32: 4, dt.int64: 8,
}  # fmt: skip
"""Bytes of the type in which values are computed: half precision is computed in float."""


@pytest.mark.parametrize("place", ["tile", "operand", "compute", "constant", "index"])
def test_a_vector_of_the_widest_type_fills_a_register(place: str) -> None:
    """Wherever that type stands in a nest of tiles; there are no more lanes than elements."""
    for dtype, other, bits, extent in product(COMPUTED, COMPUTED, (128, 256, 512), (1, 5, 1000)):
        nest = (1,), (1,)
        statement: Statement = {
            "compute": Compute("y", "add", ("x", "x"), dtype), "constant": Constant("y", dtype, 1),
            "index": Index("y", 0, dtype),
        }.get(place, Load("x", 0))  # fmt: skip
        operands = (operand(dtype if place == "operand" else other, nest, [1, 0]),)
        kernel = Kernel(*nest, operands, (LoopPhase((statement,), ()),))
        tiles = (Tile(dtype if place == "tile" else other, (0,)),)
        tiled = TiledNest(
            (extent,), (1,), ((0,),), operands, tiles, (TilePhase(kernel, (0, 0), ()),)
        )
        widest = max(COMPUTED[dtype], COMPUTED[other])
        most = max(2, 1 << (extent - 1).bit_length())
        target = Target("x86_64-unknown-linux-gnu", "x86-64", "", bits, 1 << 20)
        assert lanes_of(tiled, target) == min(max(2, bits // (8 * widest)), most)


def test_operands_of_two_types_are_computed_in_the_type_of_numpy() -> None:
    """Which knows no common type of both halves."""
    held = (*COMPUTED, dt.bool_, dt.uint8)
    for a, b in product(held, held):
        if {a, b} == {dt.float16, dt.bfloat16}:
            assert numpy_common(a, b) is dt.float32
        elif dt.bfloat16 not in (a, b):
            assert numpy_common(a, b).np == np.result_type(a.np, b.np)
    for other in (dt.float32, dt.float64):
        assert numpy_common(dt.bfloat16, other) is numpy_common(other, dt.bfloat16) is other


def test_what_it_takes_to_generate_code_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5.0, 5.5, 7.0, 9.0])
    monkeypatch.setattr(batch_compile, "time", SimpleNamespace(thread_time=lambda: next(clock)))
    functions: Any = [SimpleNamespace(write=lambda: "draft")] * 2
    made = batch_compile._written_drafts(functions)  # pyright: ignore[reportPrivateUsage]
    assert [seconds for _, _, seconds in made] == [0.5, 2.0]
