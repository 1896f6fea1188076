"""fp16 and bf16 that are written at data-dependent indices: put together as float32, rounded
once."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.interpret import run_nest
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loopnest import Kernel, Scatter
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.lower.split_scatter import scatter_nest
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host
from tests.codegen.guarded import Guarded, survives
from tests.codegen.test_fused import Array, check, kernels
from tests.codegen.test_guarded import calls
from tests.fusion.cases import Case
from tests.fusion.test_random import fused

WAYS = ("assign", "add", "mul", "amin", "amax")
STEPS = {
    "assign": lambda _, update: update, "add": np.add, "mul": np.multiply, "amin": np.minimum,
    "amax": np.maximum,
}  # fmt: skip
HALF_TYPES = (dt.float16, dt.bfloat16)


def scatters(nest: ArrayNest) -> bool:
    """Whether a nest writes at data-dependent indices."""
    kernel = nest.kernel
    return isinstance(kernel, Kernel) and any(isinstance(s, Scatter) for s in kernel.statements())


def put(how: str, dtype: DType, width: int = 17) -> Case:
    """Sixty rows of values that come into five."""
    case = Case()
    x, values = case(5, width, dtype=dtype), case(60, width, dtype=dtype)
    places = case(60, width, dtype=dt.int64, below=5)
    both = case.op("put_along_axis", case.relu(x), places, values, axis=0, reduce=how)
    case.b("pir.shadow_output", both + x, output_name="y")
    return case


def rows(dtype: DType) -> Case:
    """Whole rows, as gradients of embeddings are."""
    case = Case()
    x, places = case(9, 33, dtype=dtype), case(50, 1, dtype=dt.int64, below=9)
    y = case.op("scatter_nd_add", case.relu(x), places, case(50, 33, dtype=dtype))
    case.b("pir.shadow_output", y + x, output_name="y")
    return case


def landing(case: Case) -> tuple[MapExpr, list[Array]]:
    """The kernel that lands, and its inputs."""
    for kernel in kernels(fused(case.program, single=True)[0]):
        nests = nests_of(kernel)
        assert not isinstance(nests, str), nests
        if any(map(scatters, nests)):
            metas = {(m.shape, m.dtype): [] for m in kernel.inputs}
            for array in case.inputs.values():
                metas.setdefault((array.shape, dt.of_array(array)), []).append(array)
            return kernel, [metas[m.shape, m.dtype].pop(0) for m in kernel.inputs]
    raise AssertionError("nothing lands")


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=repr)
@pytest.mark.parametrize("how", WAYS)
def test_as_the_interpreter(how: str, dtype: DType) -> None:
    kernel, inputs = landing(put(how, dtype))
    assert check(kernel, inputs)
    values = next(a for a in inputs if len(a) == 60 and a.dtype.kind != "i")
    values[7, :3] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        assert check(kernel, inputs)


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=repr)
def test_rows_land_whole(dtype: DType) -> None:
    assert check(*landing(rows(dtype)))


@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16], ids=repr)
def test_updates_that_are_an_input_are_read_in_place(dtype: DType) -> None:
    """Those of a type that is combined in another one are converted first."""
    kernel, inputs = landing(put("add", dtype))
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    (nest,) = filter(scatters, nests)
    assert (nest.arrays[2] < len(kernel.inputs)) == (dtype is dt.float32)
    assert check(kernel, inputs)


@pytest.mark.parametrize("row", [1, 3, 19])
@pytest.mark.parametrize("how", WAYS)
def test_each_stage_of_the_schedule(how: str, row: int) -> None:
    """After each rewrite the loops combine in order, and skip rows outside of the result."""
    rng = np.random.default_rng(row)
    kind = dt.int32 if row == 3 else dt.int64
    kernel = scatter_nest(how, dt.float32, 5 * row, 12, row, kind)
    places = (rng.integers(-1, 6, 12) * row).astype(kind.np)
    updates = rng.uniform(0.5, 1.5, (12, row)).astype(np.float32)
    want: list[Array] = [np.ones(5 * row, np.float32), places, updates]
    run_nest(ArrayNest(kernel, (0, 1, 2)), want)
    found: list[list[Array]] = [[np.ones(5 * row, np.float32), places, updates]]
    for stage in stages_of(kernel, host()):
        found.append([np.ones(5 * row, np.float32), places, updates])
        run_loops(stage.nest, found[-1])
    native_sequence(kernel).bind(found[0])()
    expected = np.ones((5, row), np.float32)
    for place, update in zip(places // row, updates, strict=True):
        if 0 <= place < 5:
            expected[place] = STEPS[how](expected[place], update)
    for result in (want, *found):
        np.testing.assert_array_equal(result[0].reshape(5, row), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")
def test_nothing_beside_is_touched() -> None:
    guarded = Guarded()
    for dtype in HALF_TYPES:
        for how in ("assign", "add"):
            for width in (1, 16, 33):
                kernel, inputs = landing(put(how, dtype, width=width))
                for at_end in (True, False):
                    assert survives(calls(kernel, inputs, at_end, guarded))
