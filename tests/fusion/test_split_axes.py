"""A reshape that divides sums of loops reads what is stored first; others join the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.lowering.fusion.groups import DEFAULT
from tests.fusion.pairs import is_fused_by, refusals


def heads(x: Any, channels: int, parts: int) -> Any:
    """Rows of some channels for each part and pixel, of an image in blocks of channels."""
    n, blocks, height, width, block = x.shape
    plain = ops.reshape(ops.transpose(x, [0, 1, 4, 2, 3]), [n, blocks * block, height, width])
    kept = ops.slice(plain, axes=[1], starts=[0], ends=[channels])
    split = ops.reshape(kept, [n, parts, channels // parts, height, width])
    return ops.sigmoid(ops.transpose(split, [0, 1, 3, 4, 2]))


def program_of(channels: int, parts: int, side: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0).standard_normal
    given = draw((1, -(-channels // 16), side, side, 16)).astype(np.float32)
    return trace(lambda x: heads(x, channels, parts), (given,)).program, given


def kernels(program: Any, options: str = "") -> int:
    made = pirkit.run_passes(program, f"decompose,dce,fuse{options}")
    return sum(o.name == "pir.map_expr" for o in made.entry(None).block.ops)


@pytest.mark.parametrize(("channels", "parts"), [(255, 3), (60, 5), (63, 7)])
def test_the_operand_is_stored(channels: int, parts: int) -> None:
    program, given = program_of(channels, parts, 9)
    assert kernels(program) == 2
    assert kernels(program, "{recompute=24}") == 1
    blocks = given.transpose(0, 1, 4, 2, 3).reshape(1, -1, 9, 9)[:, :channels]
    split = blocks.reshape(1, parts, -1, 9, 9).transpose(0, 1, 3, 4, 2)
    found = pirkit.compile(program).run({"x0": given})
    wanted = 1 / (1 + np.exp(-split.astype(np.float64)))
    np.testing.assert_allclose(next(iter(found.values())), wanted, rtol=1e-5)


def test_the_refusal_names_what_fuses_the_two() -> None:
    program, _ = program_of(255, 3, 9)
    made = pirkit.run_passes(program, "decompose,dce").entry(None)
    found = [f for f in refusals(made, DEFAULT) if f[3] and f[3].kind == "cost"]
    assert found
    for block, one, other, refusal in found:
        assert refusal is not None
        assert "quotient of several loops" in refusal.reason
        assert is_fused_by(refusal.remedy, made, block, one, other) is None


@pytest.mark.parametrize(("channels", "parts", "side"), [(256, 4, 9), (255, 3, 1), (256, 1, 9)])
def test_whole_blocks_and_few_elements_are_no_reason(channels: int, parts: int, side: int) -> None:
    program, _ = program_of(channels, parts, side)
    assert kernels(program) == 1
