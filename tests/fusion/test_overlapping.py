"""What windows, interpolation and joined lookups read several times: stored if that is cheaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.build import Value
from pirkit.dialect.program import Program
from pirkit.frontend.compile import compile
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.fusion.index_equations import equations
from pirkit.lowering.fusion.overlapping import broadcasts_of, overlap_of, shifts_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.machine_costs import CONCAT_SELECT_ADDS, LAUNCH_ADDS, LOOKUP_ADDS
from tests.fusion.cases import Case
from tests.tolerance import difference
from tools.campaigns.oracle import referred

TANH: Final = 10
"""What `tanh` costs, in additions per element (`pirkit.dialect.ops`)."""


def windows(c: Case, n: int, length: int, hop: int) -> Value:
    turned = c.op("flip", c.op("tanh", c(n)), axis=[0])
    return c.sum(c.op("frame", turned, frame_length=length, hop_length=hop, axis=-1), 0)


def pooled(c: Case, kind: str, kernel: int, stride: int, padding: int = 0) -> Value:
    return c.op(
        "pool2d", c.op("tanh", c(1, 3, 19, 23)), kernel_size=[kernel, kernel], strides=[stride] * 2,
        paddings=[padding] * 2, ceil_mode=False, exclusive=True, adaptive=False,
        data_format="NCHW", pooling_type=kind, global_pooling=False, padding_algorithm="EXPLICIT",
    )  # fmt: skip


def interpolated(c: Case, kind: str, to: tuple[int, int]) -> Value:
    return c.op(
        f"{kind}_interp", c.op("tanh", c(1, 2, 9, 13)), None, None, None, data_format="NCHW",
        out_d=0, out_h=to[0], out_w=to[1], scale=[], interp_method=kind, align_corners=False,
        align_mode=0,
    )  # fmt: skip


def joined(c: Case, rows: int, looked_up: int, others: int) -> Value:
    """Rows of a computed table, then others."""
    places = c(looked_up, dtype=dt.int64, below=rows)
    taken = c.op("gather", c.op("tanh", c(rows, 33)), places, axis=0)
    return c.b.concat([taken, c(others, 33)], axis=0)


NUMBERS: Final[dict[str, Callable[[Case], Value]]] = {
    "windows beside each other": lambda c: windows(c, 99, 3, 3),
    "windows that overlap": lambda c: windows(c, 101, 5, 2),
    "windows as long as their operand": lambda c: windows(c, 7, 7, 1),
    "one element in a window": lambda c: windows(c, 17, 1, 1),
    "largest of overlapping": lambda c: pooled(c, "max", 3, 1, 1),
    "largest of tiles": lambda c: pooled(c, "max", 2, 2),
    "means with gaps": lambda c: pooled(c, "avg", 2, 3),
    "means over the border": lambda c: pooled(c, "avg", 5, 2, 2),
    "bilinear, larger": lambda c: interpolated(c, "bilinear", (31, 29)),
    "bilinear, smaller": lambda c: interpolated(c, "bilinear", (4, 5)),
    "bicubic": lambda c: interpolated(c, "bicubic", (17, 33)),
    "nearest": lambda c: interpolated(c, "nearest", (1, 40)),
    "joined": lambda c: joined(c, 70, 33, 5),
    "joined with nothing": lambda c: joined(c, 1, 33, 0),
    "joined with copies": lambda c: c.b.concat([c.op("tanh", c(33, 1)), c(33, 16)], axis=1),
    "repeated": lambda c: c.op("tile", c.op("tanh", c(17, 33)), repeat_times=[7, 5]),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("limit", [None, 0, 1000], ids=["default", "stored", "computed again"])
def test_numbers_are_those_of_the_reference(name: str, limit: int | None) -> None:
    """Whatever is stored or computed again."""
    c = Case()
    c.b("pir.shadow_output", NUMBERS[name](c), output_name="y")
    program = Program(ModuleOp([c.program]), {}, name)
    option = "" if limit is None else f"{{recompute={limit}}}"
    found = compile(program, pipeline=f"decompose,fuse{option}", fused="interpret")
    want = referred(program, c.inputs)["y"]
    assert difference(np.asarray(found(**c.inputs)["y"]), want, dt.float32) is None


@pytest.mark.parametrize(
    ("length", "hop", "overlaps"),
    [(3, 3, False), (4, 3, False), (3, 2, False), (5, 3, True), (3, 1, True), (5, 1, True)],
)
def test_overlapping_windows_cost_what_they_compute_again(
    length: int, hop: int, overlaps: bool
) -> None:
    """Each result computes ``length`` elements, and ``hop`` of them are its own. Windows that read
    each element less than 1.5 times do not count as overlapping."""
    c = Case()
    y = windows(c, 3000 * hop + length - hop, length, hop)
    c.b("pir.shadow_output", y, output_name="y")
    found = equations(c.program.block)
    (made,) = [overlap_of(u, found) for op, u in found.units.items() if op.name == "pd_op.sum"]
    assert (made is not None) is overlaps
    if made is not None:
        assert made.value.op.name == "pd_op.tanh"
        assert [m.op.name for m in made.moves] == ["pd_op.flip", "pd_op.frame"]
        assert made.cost == (length - hop) * TANH
    assert len(plan_fusion(c.program.block, Policy()).kernels) == 1 + overlaps


@pytest.mark.parametrize(("looked_up", "others"), [(600, 300), (600, 3), (30, 1)])
def test_a_concatenation_looks_up_for_each_of_its_own_elements(looked_up: int, others: int) -> None:
    """Also where the other piece is, so that a piece made of what is looked up is stored first."""
    c = Case()
    taken = c.op("gather", c(300, 33), c(looked_up, dtype=dt.int64, below=300), axis=0)
    y = c.b.concat([c.op("tanh", taken), c(others, 33)], axis=0)
    c.b("pir.shadow_output", y, output_name="y")
    adds = TANH + CONCAT_SELECT_ADDS + LOOKUP_ADDS
    assert costs(c) == expected(adds, looked_up, looked_up + others)


@pytest.mark.parametrize(("rows", "looked_up"), [(300, 600), (300, 599), (30, 60)])
def test_what_is_looked_up_is_computed_for_each_lookup(rows: int, looked_up: int) -> None:
    c = Case()
    c.b("pir.shadow_output", joined(c, rows, looked_up, 300), output_name="y")
    assert costs(c) == (expected(TANH, rows, looked_up) if 2 * rows <= looked_up else [])


def costs(c: Case) -> list[int]:
    """What the concatenation of a program computes again, in additions per element."""
    found = equations(c.program.block)
    (unit,) = [u for op, u in found.units.items() if op.name == "pd_op.concat"]
    return [overlap.cost for overlap in broadcasts_of(unit, found).values()]


def expected(adds: int, rows: int, results: int) -> list[int]:
    """Of so many additions for each element of rows, where that is more than a launch costs."""
    cost = adds * (results - rows) // results
    return [cost] if cost * results * 33 > LAUNCH_ADDS else []


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_a_value_is_stored_if_more_than_twice_its_elements_are_read(count: int) -> None:
    """Of ``count`` shifts of it, all but one would compute it again."""
    c, size = Case(), 5000
    value = c.op("tanh", c(size))
    some = [
        c.op("slice", value, axes=[0], starts=[k], ends=[k + size - count]) for k in range(count)
    ]
    c.b("pir.shadow_output", sum(some[1:], some[0]), output_name="y")
    found = equations(c.program.block)
    units = [u for op, u in found.units.items() if op.name == "pd_op.add"]
    costs = [o.cost for u in units for o in shifts_of(u, found).values()]
    read = count * (size - count)
    assert costs == ([] if count == 2 else [TANH * (read - size) // size] * count)
