"""What kernels move is the least there is, and what fusing makes is bounded by the program."""

from __future__ import annotations

from math import prod

import pytest

from pirkit.dialect.build import Value
from pirkit.index import expr
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from tests.fusion.cases import CASES, Case
from tests.fusion.test_cases import built
from tests.fusion.test_dynamic_shapes import opened

PARTLY_READ = frozenset({"c28_slice", "c31_embedding"})
"""Cases whose kernels need only some elements of an input."""

OPEN = frozenset({"c35_two_unknown_sizes"})
"""Cases whose bytes are known only with the sizes."""

WHOLE = [
    name
    for name, (_, kernels, _) in CASES.items()
    if kernels == 1 and name not in PARTLY_READ | OPEN
]


def size(meta: TensorMeta) -> int:
    return prod(meta.shape) * meta.dtype.itemsize


@pytest.mark.parametrize("name", WHOLE)
def test_one_kernel_reads_each_input_once_and_writes_each_output_once(name: str) -> None:
    _, program = built(name)
    (made,) = plan_fusion(program.block, Policy()).kernels
    kernel = made.kernel
    assert kernel.traffic() == sum(map(size, (*kernel.inputs, *kernel.results)))


def test_what_is_not_needed_is_not_counted() -> None:
    _, program = built("c28_slice")
    (made,) = plan_fusion(program.block, Policy()).kernels
    kernel = made.kernel
    assert kernel.traffic() == 2 * sum(map(size, kernel.results))
    assert kernel.traffic() < sum(map(size, (*kernel.inputs, *kernel.results)))


def nodes_for(blocks: int, width: int) -> int:
    """Atoms and expressions made for that many normalised residual blocks."""

    def build(c: Case, h: Value, w: Value) -> Value:
        for _ in range(blocks):
            y = c.op("matmul", h, w, transpose_x=False, transpose_y=False)
            d = y - c.sum(y, 1, keep=True) * (1 / 64)
            v = c.sum(d * d, 1, keep=True) * (1 / 64)
            h = c.b.tanh(d * c.b.rsqrt(v + 1e-5)) + h
        return h

    _, program = opened(build, (width, 64), (64, 64))
    before = sum(expr.COUNTS.values())
    plan_fusion(program.block, Policy())
    return sum(expr.COUNTS.values()) - before


@pytest.mark.parametrize("width", [128, UNKNOWN], ids=["known", "open"])
def test_index_expressions_made_for_an_op_are_bounded(width: int) -> None:
    """Ops of equal shapes have equal indices, which are made once; here are 280 ops."""
    assert nodes_for(40, width) <= 60
