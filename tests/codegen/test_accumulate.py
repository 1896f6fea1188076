"""Rows that add up over each other: what is gathered, beside what each row gives."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.dialect.map_expr.kernel_text import parse_kernel
from pirkit.dialect.map_expr.verify_kernel import problems
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Kernel,
    Load,
    LoopPhase,
    Reduce,
    Statement,
    Store,
)
from pirkit.lowering.codegen.ir.loopnest import check as well_formed
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.codegen import nests
from tests.codegen.nests import compute, operand
from tests.codegen.test_fused import check, drawn
from tests.codegen.test_random import Maker

KERNELS = 60


class Gathering(Maker):
    """Random nests that gather over some of their outer axes, within a row or of whole rows."""

    def gathering(self) -> Kernel:
        if not self.outer:
            self.outer = (self.random.choice((1, 2, 17, 65)),)
        kernel = self.kernel()
        pick, rank = self.random, len(self.outer)
        shared = pick.sample(range(rank), pick.randint(1, rank))
        loop_phases: list[LoopPhase] = []
        for phase in kernel.loop_phases:
            body, after = list(phase.body), list(phase.after)
            for lines, inner in ((body, False), (after, True)):
                if not lines or pick.random() < 0.3:
                    continue
                missing = [
                    *shared,
                    *(k + rank for k in range(len(self.inner)) if inner or pick.random() < 0.3),
                ]
                halves = [dt.float16] if self.dtype is dt.float32 else []
                into = self.operand(missing, pick.choice([self.dtype, self.dtype, *halves]))
                kind = pick.choice(["sum", "max", "min"])
                named = [s for s in lines if not isinstance(s, (Store, Reduce, Accumulate))]
                lines.append(Accumulate(into, kind, named[-1].name))  # type: ignore[arg-type]
            loop_phases.append(LoopPhase(tuple(body), tuple(after)))
        return Kernel(self.outer, self.inner, tuple(self.operands), tuple(loop_phases))


@pytest.mark.parametrize("seed", range(KERNELS))
def test_native_code_equals_numpy(seed: int) -> None:
    kernel = Gathering(seed).gathering()
    nests.check(kernel, rtol=1e-3, atol=1e-3, seed=seed, function=native_sequence(kernel))


def rows_and_columns(rows: int, columns: int, dtype: DType) -> Kernel:
    """Rows without their mean, the sum of each column, and the largest mean."""
    nest = ((rows,), (columns,))
    work = dt.float32 if dtype.itemsize < 4 else dtype
    x, column, one = (operand(dtype, nest, missing=k) for k in ([], [0], [0, 1]))
    body: tuple[Statement, ...] = (
        Load("again", 0),
        compute("d", "subtract", "again", "total", dtype=work),
        Store(1, "d"),
        Accumulate(2, "sum", "d"),
    )
    first = LoopPhase((Load("x", 0), Reduce("total", "sum", "x")))
    loop_phases = first, LoopPhase(body, (Accumulate(3, "max", "total"),))
    return Kernel(*nest, (x, x, column, one), loop_phases)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.bfloat16, dt.int32])
@pytest.mark.parametrize("shape", [(1, 5), (13, 1), (16, 40), (17, 40), (700, 131), (3, 1024)])
def test_shapes_and_types(shape: tuple[int, int], dtype: DType) -> None:
    kernel = rows_and_columns(*shape, dtype)
    atol = 1e-3 * shape[0] * shape[1]
    nests.check(kernel, rtol=1e-4, atol=atol, function=native_sequence(kernel))


def test_nan_and_infinities_are_gathered() -> None:
    kernel = rows_and_columns(40, 33, dt.float32)
    x = np.random.default_rng(0).standard_normal((40, 33)).astype(np.float32)
    x[7, 5], x[8, 6] = np.nan, np.inf
    found = [np.empty(n, np.float32) for n in (40 * 33, 33, 1)]
    native_sequence(kernel).bind([x, *found])()
    assert np.isnan(found[1]).all()
    assert np.isnan(found[2]).all()
    x[7, 5] = -np.inf
    native_sequence(kernel).bind([x, *found])()
    assert found[2] == np.inf


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("columns", [3, 16, 20, 48, 163, 16 * 13 + 5])
def test_extrema_of_rows_meet_nan_wherever_it_is(columns: int, kind: str) -> None:
    nest = ((columns + 1,), (columns,))
    x, y = (operand(dt.float32, nest, missing=k) for k in ([], [1]))
    phase = LoopPhase((Load("x", 0), Reduce("m", kind, "x")), (Store(1, "m"),))  # type: ignore[arg-type]
    given = np.random.default_rng(0).standard_normal((columns + 1, columns)).astype(np.float32)
    given[np.arange(columns), np.arange(columns)] = np.nan
    found = np.empty(columns + 1, np.float32)
    native_sequence(Kernel(*nest, (x, y), (phase,))).bind([given, found])()
    np.testing.assert_array_equal(found, getattr(given, kind)(1))


@pytest.mark.parametrize("skipped", [0, 4])
def test_streams_begin_anywhere(skipped: int) -> None:
    kernel = rows_and_columns(70, 64, dt.float32)
    operands = [replace(o, stream=k in (1, 2)) for k, o in enumerate(kernel.operands)]
    kernel = replace(kernel, operands=tuple(operands))
    x = np.random.default_rng(0).standard_normal((70, 64)).astype(np.float32)
    whole = np.empty(x.nbytes + 128, np.uint8)
    start = -whole.ctypes.data % 64 + skipped
    y = whole[start : start + x.nbytes].view(np.float32).reshape(x.shape)
    column, one = np.empty(64, np.float32), np.empty(1, np.float32)
    native_sequence(kernel).bind([x, y, column, one])()
    np.testing.assert_allclose(y, x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(column, y.sum(0), rtol=1e-4, atol=1e-4)


def test_parts_do_not_depend_on_who_makes_them() -> None:
    kernel = rows_and_columns(1000, 37, dt.float32)
    steps = native_sequence(kernel).steps
    assert len(steps) == 3
    assert steps[0][0].code.blocks == -(-1000 // 32)


def test_what_is_gathered_has_the_same_axes_in_common() -> None:
    nest = ((4, 5), (6,))
    x, a, b = (operand(dt.float32, nest, missing=k) for k in ([], [0], [1]))
    phase = LoopPhase((Load("x", 0), Accumulate(1, "sum", "x"), Accumulate(2, "sum", "x")))
    with pytest.raises(InternalError, match="different axes"):
        well_formed(Kernel(*nest, (x, a, b), (phase,)))


BACKWARD = """\
kernel fn rows [40]
input float32[40, 70]
input float32[40, 70]
value float32[40, 1] of pd_op.sum stage 0 rows [i0] reduce pd_op.sum [70] {'dtype': None}
  give x0[i0, r0]
value float32[40, 70] of pd_op.subtract stage 1 rows [i0]
  t0 = pd_op.subtract(x0[i0, i1], v0[i0, 0], {}, float32)
  give t0
value float32[70] of pd_op.sum stage 1 rows [r0] reduce pd_op.sum [40] {'dtype': None}
  t0 = pd_op.multiply(v1[r0, i0], x1[r0, i0], {}, float32)
  give t0
value float32[] of pd_op.max stage 1 rows [r0] reduce pd_op.max [40, 70] {}
  give v1[r0, r1]
value float32[70] of pd_op.exp stage 3
  t0 = pd_op.add(v2[i0], v3[()], {}, float32)
  give t0
output v1
output v2
output v4
"""


def test_a_kernel_that_reduces_rows_and_columns_is_one_nest() -> None:
    kernel = parse_kernel(BACKWARD)
    assert list(problems(kernel)) == []
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    assert [len(n.kernel.loop_phases) for n in nests] == [2, 1]
    assert len(nests[0].kernel.accumulations()) == 2
    assert check(kernel, drawn(kernel))


def test_what_is_gathered_is_not_read_before_the_loops_are_over() -> None:
    text = BACKWARD.replace("pd_op.exp stage 3", "pd_op.exp stage 3 rows [i0]")
    known = "v4 reads a value that is known when all iterations of the common loops are over"
    assert known in list(problems(parse_kernel(text)))
