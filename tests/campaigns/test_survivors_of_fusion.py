"""What mutants of fusion and of index rules have shown that no test looked at."""

from __future__ import annotations

import random
import re
from math import prod
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pirkit import ProgramBuilder
from pirkit.dialect.operation import PirOp
from pirkit.frontend.compile import compile as compile_program
from pirkit.index.expr import const
from pirkit.index.index_maps import space
from pirkit.lowering.fusion.fuse_pass import FusePass, plan_fusion
from pirkit.lowering.fusion.groups import Group, Policy
from pirkit.lowering.fusion.index_equations import equations
from pirkit.lowering.fusion.materialize import (
    CACHE_SHARE,
    TILE_EDGE,
    choose,
    edge_of,
    several_along,
)
from pirkit.lowering.fusion.recompute import again
from pirkit.lowering.fusion.simplify_kernels import SimplifyKernelsPass
from pirkit.lowering.fusion.tile_selection import (
    MIN_TILE_EDGE,
    WIDE_TILE_EDGE,
    _block,  # pyright: ignore[reportPrivateUsage]
    _is_permuted,  # pyright: ignore[reportPrivateUsage]
)
from pirkit.passes.base import PassContext
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from tests.fusion.cases import Case


@pytest.mark.parametrize("seed", range(20))
def test_a_tile_is_the_largest_that_fits_the_cache(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        rank = draw.randrange(1, 5)
        extents = [draw.choice((1, 2, 3, 8, 63, 64, 65, 200, 5000)) for _ in range(rank)]
        images = [tuple(range(rank)), *(tuple(draw.sample(range(rank), rank)) for _ in range(2))]
        images, lanes = images[: draw.randrange(1, 4)], {draw.randrange(rank)}
        along = [a for a in range(rank) if a in lanes or {i[a] for i in images} != {a}]
        assert several_along(images, lanes) == along
        sizes = draw.choices((1, 2, 4, 8, 16), k=draw.randrange(1, 9))
        most = draw.choice((TILE_EDGE, 1024))

        def held(edge: int) -> int:
            tile = prod(min(edge, extents[a]) for a in along)  # noqa: B023
            return len(images) * sum(sizes) * tile  # noqa: B023

        edges = [most >> k for k in range(most.bit_length())]
        fitting = [edge for edge in edges if held(edge) <= CACHE_SHARE]
        assert edge_of(extents, images, lanes, sizes, most) == max(fitting, default=1)


@pytest.mark.parametrize(("limit", "way"), [(4, "cut"), (5, "again"), (6, "again")])
def test_a_recomputation_within_the_limit_is_allowed(limit: int, way: str) -> None:
    """Of five additions where no tiles are possible."""
    x = ProgramBuilder().input("x", (4, 8), "float32")
    unit = SimpleNamespace(meta=TensorMeta((4, 8), dt.float32), result=x.ssa)
    needs = SimpleNamespace(sizes={}, others={}, members={}, tiles=[])
    reader = SimpleNamespace(
        additions=lambda _: 5, needs=lambda tile: needs, members={}, unit=unit, reduces=True
    )  # fmt: skip
    found = choose(cast(Any, reader), cast(Any, needs), limit, allowed=True)
    assert (found.way, found.is_allowed) == (way, way == "again")


@pytest.mark.parametrize(("unused", "count"), [(1, 5), (2, 9)])
def test_unused_results_of_kernels_are_counted(unused: int, count: int) -> None:
    """Beside the result: its load, its exp, its sum or product, and a constant."""
    b = ProgramBuilder()
    x = b.input("x", (4,), "float32")
    for k, value in enumerate((b.exp(x) + 1, b.exp(x) * x, b.exp(x) - x)):
        b.output(f"y{k}", value)
    module = b.finish().module
    FusePass().run(PassContext("fuse", 1 << 20), module)
    SimplifyKernelsPass().run(PassContext("simplify-kernels", 1 << 20), module)
    for op in [op for op in module.walk() if op.name == "pir.shadow_output"][:unused]:
        op.detach()
        op.erase()
    context = PassContext("simplify-kernels", 1 << 20)
    SimplifyKernelsPass().run(context, module)
    (kernel,) = [op for op in module.walk() if op.name == "pir.map_expr"]
    assert len(kernel.results) == 3 - unused
    assert context.stats["unused"] == count


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("length", "hop"), [(4, 1), (4, 2), (4, 3), (4, 4), (3, 5), (1, 1)])
def test_frames_of_any_rank(axis: int, batch: tuple[int, ...], length: int, hop: int) -> None:
    """Frames of a signal, and their overlap-add, are one kernel, for each rank and axis."""
    count = 5
    n = (count - 1) * hop + length
    shape = (n, *batch) if axis == 0 else (*batch, n)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    b = ProgramBuilder()
    v = b.input("x", shape, "float32")
    frames = b("pd_op.frame", v + v, frame_length=length, hop_length=hop, axis=axis)
    b.output("f", frames * frames)
    b.output("y", b("pd_op.overlap_add", frames * frames, hop_length=hop, axis=axis) * 0.5)
    found = compile_program(b.finish(), pipeline="@fused", fused="interpret")(x=x)
    at = np.arange(count)[:, None] * hop + np.arange(length)
    flat = x if axis == 0 else np.moveaxis(x, -1, 0)
    cut = (2 * flat[at]) ** 2
    whole = np.zeros_like(flat)
    for f in range(count):
        whole[f * hop : f * hop + length] += cut[f]
    wanted = cut if axis == 0 else np.moveaxis(cut, (1, 0), (-2, -1))
    np.testing.assert_allclose(found["f"], wanted, rtol=1e-6)
    put = whole if axis == 0 else np.moveaxis(whole, 0, -1)
    np.testing.assert_allclose(found["y"], 0.5 * put, rtol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_the_edge_of_a_tile_is_that_of_the_values_in_it(seed: int) -> None:
    """Whatever else the kernel computes; an edge is shorter only where two of it do not fit."""
    draw = random.Random(seed)
    for _ in range(20):
        rank = draw.randrange(2, 4)
        extents = tuple(draw.choices((3, 40, 700, 9000), k=rank))
        straight, turned = tuple(range(rank)), tuple(draw.sample(range(rank), rank))
        images = (straight,) if turned == straight else (straight, turned)
        types = draw.choices((dt.int8, dt.float32, dt.float64, dt.complex128), k=6)
        held = set(draw.sample(range(6), draw.randrange(1, 7)))
        statements = [SimpleNamespace(meta=TensorMeta((1,), n)) for n in types]
        frame = SimpleNamespace(axes=dict.fromkeys(range(6), straight), images=images,
                                extents=extents)  # fmt: skip
        block = _block(cast(Any, SimpleNamespace(statements=statements)), cast(Any, frame), held)
        along = several_along(images, {rank - 1})
        assert [n for a, n in enumerate(block) if a not in along] == [1] * (rank - len(along))
        each = len(images) * sum(types[k].itemsize for k in held)
        edge = max((block[a] for a in along), default=1)
        most = TILE_EDGE if len(images) > 1 else WIDE_TILE_EDGE
        if edge > MIN_TILE_EDGE:
            assert each * prod(block) <= CACHE_SHARE
        if edge < max((extents[a] for a in along), default=1) and 2 * edge <= most:
            longer = prod(min(2 * edge, extents[a]) for a in along)
            assert each * longer > CACHE_SHARE


@pytest.mark.parametrize(("read", "is_again"), [(dt.float16, True), (dt.float32, True),
                                                (dt.float64, False)])  # fmt: skip
def test_a_value_is_computed_again_from_little_more_bytes(read: dt.DType, is_again: bool) -> None:
    """Up to 2.25 times its own, if nobody else reads it."""
    c = Case()
    value = c.op("cast", c.op("exp", c(64, dtype=read)), dtype=dt.float16)
    c.b("pir.shadow_output", c.sum(value, 0), output_name="y")
    found = equations(c.program.block)
    (reader,) = [u for op, u in found.units.items() if op.name == "pd_op.sum"]
    chain = again(reader, [value.ssa], {}, found, 1000, Group())
    assert bool(chain) == is_again


def test_one_row_is_written_once() -> None:
    """A place without axes is one place, whatever the row that goes there."""
    b = ProgramBuilder()
    x, at, row = b.input("x", (5, 3)), b.input("at", (), "int64"), b.input("row", (3,))
    b.output("y", b("pd_op.scatter", x + x, at, row, overwrite=True))
    (unit,) = [
        u for op, u in equations(b.finish().main.block).units.items() if op.name == "pd_op.scatter"
    ]
    assert cast(Any, unit.value).extents == (1, 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_reads_along_another_last_axis_are_permuted(rank: int) -> None:
    shape = (4, 8, 3)[:rank]
    here = space(shape)
    assert not _is_permuted(shape, [here, (*here, const(0)), (const(1), *here)])
    assert not _is_permuted(shape, [])
    for k in range(rank - 1):
        turned = (*here[:k], *here[k + 1 :], here[k])
        assert _is_permuted(shape, [turned])
        assert _is_permuted(shape, [here, (*turned, const(0))])
    assert _is_permuted(shape, [(const(0),)])


def rows_of(c: Case, policy: Policy, *forced: tuple[str, str]) -> list[str]:
    """Which loops the values of the kernels share."""
    named = {op.name: cast(PirOp, op) for op in c.program.block.ops}
    pairs = [(named[f"pd_op.{a}"], named[f"pd_op.{b}"]) for a, b in forced]
    texts = [kernel.text for kernel in plan_fusion(c.program.block, policy, pairs).kernels]
    return [rows for text in texts for rows in re.findall(r"rows (\[.*?\])", text)]


@pytest.mark.parametrize("first", ["tanh", "flip", "frame"])
def test_a_forced_pair_has_the_loops_of_its_reader(first: str) -> None:
    """Any op between a value and the windows over it, though the windows overlap."""
    c = Case()
    turned = c.op("flip", c.op("tanh", c(101)), axis=[0])
    y = c.sum(c.op("frame", turned, frame_length=5, hop_length=2, axis=-1), 0)
    c.b("pir.shadow_output", y, output_name="y")
    assert rows_of(c, Policy(), (first, "sum")) == ["[49]", "[i0]"]


@pytest.mark.parametrize(("axis", "row"), [(0, "i1"), (1, "i0")])
def test_a_value_is_at_the_iteration_at_which_it_is_read_first(axis: int, row: str) -> None:
    """Read as it is and turned by one sum, it has the loop of another sum of it."""
    c = Case()
    x = c.op("tanh", c(8, 8))
    for k, y in enumerate((c.sum(x * c.t(x), axis), c.sum(x, axis))):
        c.b("pir.shadow_output", y, output_name=f"y{k}")
    assert rows_of(c, Policy(recompute=24)) == ["[8]", f"[{row}]", "[i0]"]
