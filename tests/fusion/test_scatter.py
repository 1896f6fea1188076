"""Ops that write at data-dependent indices end a kernel that makes what they write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Value
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.verify_kernel import problem_of
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.executor import Executable
from pirkit.runtime.place import UNDEFINED
from tests.fusion.cases import Case
from tests.fusion.random_programs import Array, Maker, Turner
from tests.fusion.test_random import fused, run

Build = Callable[[Case, DType], Value]


def nd(*places: int, depth: int, rest: tuple[int, ...]) -> Build:
    """Updates at coordinates, of which some are named several times."""

    def build(c: Case, dtype: DType) -> Value:
        x, index = c(4, 3, 5, dtype=dtype), c(*places, depth, dtype=dt.int64, below=3)
        updates = c(*places, *rest, dtype=dtype)
        return c.op("scatter_nd_add", x, index, updates * updates + 1.0)

    return build


def along(reduce: str, axis: int, *places: int) -> Build:
    def build(c: Case, dtype: DType) -> Value:
        x, index = c(4, 5, dtype=dtype), c(*places, dtype=dt.int32, below=4)
        values = c(*places, dtype=dtype) * 0.5 + 1.0
        attrs = {"axis": axis, "reduce": reduce, "include_self": True}
        return c.op("put_along_axis", c.b.abs(x), index, values, **attrs)

    return build


def one_value(c: Case, dtype: DType) -> Value:
    index = c(2, 5, dtype=dt.int64, below=4)
    value = c.b.exp(c(dtype=dtype))
    attrs = {"axis": 0, "reduce": "add", "include_self": True}
    return c.op("put_along_axis", c(4, 5, dtype=dtype), index, value, **attrs)


def of_softmax(c: Case, dtype: DType) -> Value:
    """What is written is the result of several stages."""
    zeros = c.b.const(0.0, dtype, (7, 6))
    return c.op("scatter_nd_add", zeros, c(9, 1, dtype=dt.int64, below=7), c.softmax(c(9, 6)))


def twice(c: Case, dtype: DType) -> Value:
    """One value is what is written and, elsewhere, what is written into."""
    x = c.b.tanh(c(6, 4, dtype=dtype))
    return c.op("scatter_nd_add", x, c(6, 1, dtype=dt.int64, below=6), x * 0.5)


PROGRAMS: dict[str, tuple[Build, DType]] = {
    "rows": (nd(6, depth=1, rest=(3, 5)), dt.float32),
    "coordinates": (nd(2, 3, depth=2, rest=(5,)), dt.float64),
    "elements": (nd(8, depth=3, rest=()), dt.float32),
    "halves": (nd(6, depth=1, rest=(3, 5)), dt.float16),
    **{f"along {way}": (along(way, 0, 3, 5), dt.float32) for way in ("assign", "add", "mul")},
    **{f"along {way}": (along(way, -1, 4, 6), dt.float64) for way in ("amin", "amax", "multiply")},
    "part of an axis": (along("add", 0, 2, 3), dt.float32),
    "one value": (one_value, dt.float32),
    "of softmax": (of_softmax, dt.float32),
    "twice": (twice, dt.float32),
}


def made(name: str) -> tuple[Case, ProgramOp]:
    build, dtype = PROGRAMS[name]
    c = Case()
    c.b("pir.shadow_output", build(c, dtype), output_name="y")
    return c, c.program


def natively(program: ProgramOp, inputs: dict[str, Array]) -> Array:
    library = KernelLibrary("cpu")
    return Executable(write_plan(program, library=library), library).run(inputs)["y"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_makes_and_writes(name: str) -> None:
    c, program = made(name)
    (found,) = plan_fusion(program.block, Policy()).kernels
    assert any(s.start is not None for s in found.kernel.statements)
    text = print_kernel(found.kernel)
    assert print_kernel(parse_kernel(text)) == text
    assert problem_of(text) is None
    assert not isinstance(nests_of(found.kernel), str)
    want, changed = run(program, c.inputs)["y"], fused(program)[0]
    assert want.dtype == run(changed, c.inputs)["y"].dtype
    exact = name not in ("one value", "of softmax", "twice")
    rtol, atol = (0.0, 0.0) if exact else (1e-5, 1e-7)
    np.testing.assert_allclose(run(changed, c.inputs)["y"], want, rtol=rtol, atol=atol)
    if name == "halves":  # native code rounds what is fused once
        rtol = 2e-3
    np.testing.assert_allclose(natively(changed, c.inputs), want, rtol=rtol, atol=atol)


def unfinished(kernel: MapExpr) -> list[str]:
    """Loads in the stage that makes what they read, where all of it has to be complete."""
    found: list[str] = []
    for statement in kernel.statements:
        for load in statement.loads():
            number = load.source - len(kernel.inputs)
            if number < 0:
                continue
            source = kernel.statements[number]
            scatters = source.start is not None or statement.start is not None
            waits = scatters or bool(source.reduction)
            if statement.stage < source.stage + waits:
                found.append(f"{source.op} of stage {source.stage} by {statement.op}")
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_anywhere_is_complete_before_it_is_read(name: str) -> None:
    for one in plan_fusion(made(name)[1].block, Policy()).kernels:
        assert unfinished(one.kernel) == []


def test_reductions_of_random_programs_are_complete_before_they_are_read() -> None:
    reads = 0
    for seed in range(60):
        program = (Turner if seed % 2 else Maker)(seed, depth=6 + seed % 8).program
        for one in plan_fusion(program.block, Policy()).kernels:
            assert unfinished(one.kernel) == [], seed
            reads += any(s.stage for s in one.kernel.statements)
    assert reads > 10


def test_elements_are_added_in_their_order() -> None:
    """All go to one place: every other order of these numbers gives another sum."""
    c = Case()
    updates = c(4096, 1)
    index = c(4096, 1, dtype=dt.int64, below=1)
    total = c.op("scatter_nd_add", c(1, 1), index, updates * updates * updates)
    c.b("pir.shadow_output", total, output_name="y")
    want, changed = run(c.program, c.inputs)["y"], fused(c.program)[0]
    (before,), terms = c.inputs["x2"][0], c.inputs["x0"][:, 0]
    for term in terms * terms * terms:
        before = before + term
    for got in (want, run(changed, c.inputs)["y"], natively(changed, c.inputs)):
        np.testing.assert_array_equal(got, [[before]])


@pytest.mark.parametrize("place", [3, -4])
def test_a_place_that_is_not_there_is_an_error(place: int) -> None:
    c = Case()
    index = c(2, 1, dtype=dt.int64, below=1)
    c.b(
        "pir.shadow_output",
        c.op("scatter_nd_add", c(3, 2), index, c.b.exp(c(2, 2))),
        output_name="y",
    )
    changed = fused(c.program)[0]
    assert [op.name for op in changed.operations].count("pir.map_expr") == 1
    good = natively(changed, {**c.inputs, "x0": np.array([[-3], [2]])})
    assert np.isfinite(good).all()
    for call in (run, natively):
        with pytest.raises(PirkitError, match="does not lie in"):
            call(changed, {**c.inputs, "x0": np.array([[0], [place]])})


def test_what_reads_the_result_waits() -> None:
    c = Case()
    total = c.op("scatter_nd_add", c(4), c(6, 1, dtype=dt.int64, below=4), c.b.exp(c(6)))
    c.b("pir.shadow_output", c.b.tanh(total) + 1.0, output_name="y")
    found = plan_fusion(c.program.block, Policy())
    assert len(found.kernels) == 2
    (refusal,) = {id(r): r for r in found.partition.refusals.values()}.values()
    assert (refusal.kind, refusal.ops[0].name) == ("stage", "pd_op.scatter_nd_add")
    np.testing.assert_allclose(
        natively(fused(c.program)[0], c.inputs), run(c.program, c.inputs)["y"], rtol=1e-5
    )


def test_of_open_sizes() -> None:
    c = Case()
    x = c.open(-6, 4)
    index = c.b("pd_op.data", name="at", shape=(-1, 1), dtype=dt.int64, place=UNDEFINED)
    c.inputs["at"] = np.array([[5], [0], [5]])
    total = c.op("scatter_nd_add", x, index, c.b.exp(c.open(-3, 4)))
    c.b("pir.shadow_output", total, output_name="y")
    changed = fused(c.program)[0]
    (op,) = [op for op in changed.operations if op.name == "pir.map_expr"]
    assert isinstance(op, PirOp)
    assert parse_kernel(op.attribute("kernel")).is_sized
    want = run(c.program, c.inputs)["y"]
    for got in (run(changed, c.inputs)["y"], natively(changed, c.inputs)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_updates_of_no_rows_for_an_open_number_of_places() -> None:
    """There is nothing that a kernel could read."""
    c = Case()
    index = c.b("pd_op.data", name="at", shape=(-1, 1), dtype=dt.int64, place=UNDEFINED)
    c.inputs["at"] = np.zeros((0, 1), np.int64)
    updates = c.b("pd_op.data", name="u", shape=(0, 4), dtype=dt.float32, place=UNDEFINED)
    c.inputs["u"] = np.zeros((0, 4), np.float32)
    x = c.open(-6, 4)
    total = c.op("scatter_nd_add", c.b.exp(x), index, updates)
    c.b("pir.shadow_output", total, output_name="y")
    got = run(fused(c.program)[0], c.inputs)["y"]
    np.testing.assert_allclose(got, run(c.program, c.inputs)["y"], rtol=1e-6)


def open_writes(op: str) -> Case:
    """What is an indirect store, all rows of open numbers."""
    c = Case()
    index = c.b("pd_op.data", name="at", shape=(-1, 1), dtype=dt.int64, place=UNDEFINED)
    x, updates = c.open(-6, 1), c.b.exp(c.open(-2, 1))
    if op == "put_along_axis":
        attrs = {"axis": 0, "reduce": "add", "include_self": True}
        y = c.op(op, x, index, updates, **attrs)
    else:
        y = c.op(op, x, index, updates)
    c.b("pir.shadow_output", y, output_name="y")
    return c


@pytest.mark.parametrize("op", ["scatter_nd_add", "put_along_axis"])
def test_open_sizes_that_do_not_go_together_are_refused(op: str) -> None:
    c = open_writes(op)
    forms = (c.program, fused(c.program)[0])
    places = np.array([[5], [0]])
    for rows in (2, 5, 0, 3):
        updates = np.ones((rows, 1), np.float32)
        inputs = {**c.inputs, "x1": updates, "at": places}
        for program in forms:
            for call in (run, lambda p, i: {"y": natively(p, i)}):
                if rows == 2:
                    assert call(program, inputs)["y"].shape == (6, 1)
                    continue
                with pytest.raises(PirkitError):
                    call(program, inputs)


def test_whatever_makes_what_is_written() -> None:
    """Random programs, each with a result put into another tensor at the end."""
    sinks = 0
    for seed in range(60):
        made = Maker(seed, depth=2 + seed % 6)
        b, last = made.b, made.values[-1]
        if not last.rank or last.dtype is not dt.float32 or 0 in last.shape:
            continue
        rows = last.shape[0]
        index = np.random.default_rng(seed).integers(-3, 3, (rows, 1))
        at = b("pd_op.data", name="at", shape=(rows, 1), dtype=dt.int64, place=UNDEFINED)
        total = b("pd_op.scatter_nd_add", b.const(1.0, dt.float32, (3, *last.shape[1:])), at, last)
        b("pir.shadow_output", total, output_name="total")
        inputs = {**made.inputs, "at": index}
        want = run(made.program, inputs)["total"]
        changed = fused(made.program, single=True)[0]
        for op in changed.operations:
            if op.name == "pir.map_expr":
                sinks += any(s.start for s in parse_kernel(op.attribute("kernel")).statements)
        library = KernelLibrary("cpu")
        call = Executable(write_plan(changed, library=library), library).run
        for got in (run(changed, inputs)["total"], call(inputs)["total"]):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")
    assert sinks > 30
