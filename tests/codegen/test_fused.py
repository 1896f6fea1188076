"""Fused kernels in native code give what the interpreter of MapExpr gives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.interpreter import run as interpret
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_text import parse_kernel
from pirkit.dialect.map_expr.specialize import specialised
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program, load
from pirkit.index.expr import Read
from pirkit.index.extent import at, is_sized, names_of
from pirkit.index.substitution import reads_of
from pirkit.lowering import native_fused as lowering_native
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.loopnest import Constant, Kernel, Store
from pirkit.lowering.codegen.lower.from_map_expr import ArrayNest, nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.tensor import allocator
from tests.execution import parsed
from tests.fusion.cases import CASES, Case, built
from tests.fusion.random_programs import Maker
from tests.fusion.test_random import fused

Array = np.ndarray[Any, Any]

CORPUS = sorted((Path(__file__).parents[1] / "corpus" / "paddle").glob("*/program.txt"))


def kernels(program: ProgramOp) -> Iterator[MapExpr]:
    for op in program.walk():
        if isinstance(op, PirOp) and op.name == "pir.map_expr":
            yield parse_kernel(op.attribute("kernel"))


def check(kernel: MapExpr, inputs: Sequence[Array]) -> bool:
    """Compare one kernel, with poison in its outputs; False if no loop nest holds it."""
    nests = nests_of(kernel)
    if isinstance(nests, str):
        print(f"{kernel.name}: {nests}")
        return False
    statements = without_scatters(kernel).kernel.statements
    values = [np.full(s.meta.shape, 113, s.meta.dtype.np) for s in statements]
    writes_once(nests)
    for nest in nests:
        flags = [np.zeros(1, np.uint8) for _ in nest.assertions]
        arrays = [*inputs, *values, *flags]
        run_nest = native_sequence(nest.kernel)
        run_nest.bind([arrays[k] for k in nest.arrays])()
        assert not any(flags)
    for number, want in zip(kernel.outputs, interpret(kernel, inputs), strict=True):
        found = values[number]
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(found, want, err_msg=kernel.name)
        else:
            close: dict[str, Any] = {
                "rtol": 2e-5,
                "atol": 2e-6 * max(1.0, float(np.abs(want).max(initial=0))),
            }
            np.testing.assert_allclose(found, want, err_msg=kernel.name, **close)
    return True


@cache
def captured(path: Path) -> tuple[MapExpr, ...]:
    """The kernels of a captured program, for sizes of 3 where it leaves them open."""
    found = kernels(run_passes(load(path), "@fused").entry(None))
    return tuple([specialised(k, [three(m.shape) for m in k.inputs]) for k in found])


def three(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([at(n, dict.fromkeys(names_of(shape), 3)) for n in shape])


def writes_once(nests: Sequence[ArrayNest]) -> None:
    """There are as many stores as elements: with poison beneath, none is written twice."""
    written, sizes = Counter[int](), dict[int, int]()
    for nest in nests:
        if not isinstance(kernel := nest.kernel, Kernel):
            continue
        for phase in kernel.loop_phases:
            for lines, points in (
                (phase.body, kernel.iterations),
                (phase.after, prod(kernel.outer)),
            ):
                for store in lines:
                    if isinstance(store, Store):
                        operand, array = kernel.operands[store.operand], nest.arrays[store.operand]
                        written[array] += points * operand.dtype.itemsize
                        sizes[array] = operand.size
    assert written == sizes


def drawn(kernel: MapExpr, seed: int = 0) -> list[Array]:
    """Inputs of a kernel; numbers that say where to read are ones that exist."""
    rng = np.random.default_rng(seed)
    above: dict[int, int] = {}
    below: dict[int, int] = {}
    for read in known(kernel):
        below[read.source] = min(below.get(read.source, read.extent), read.extent)
        least = -read.extent if read.from_end else 0
        above[read.source] = max(above.get(read.source, least), least)
    drawn: list[Array] = []
    for k, m in enumerate(kernel.inputs):
        floats = rng.uniform(-2, 2, m.shape) if seed % 2 else rng.uniform(0.1, 2, m.shape)
        ints = rng.integers(above[k], below[k], m.shape) if k in below else np.ones(m.shape)
        drawn.append((floats if m.dtype.is_float else ints).astype(m.dtype.np))
    return drawn


def known(kernel: MapExpr) -> Iterator[Read]:
    """Numbers that say where to read."""
    for statement in kernel.statements:
        yield from (r for e in statement.exprs() for r in reads_of(e))


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    _, program = built(name)
    for kernel in kernels(fused(program, single=True)[0]):
        at_shapes = [tuple(3 if is_sized(n) else n for n in m.shape) for m in kernel.inputs]
        known = specialised(kernel, at_shapes)
        check(known, drawn(known))


PROGRAMS = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 300


@pytest.mark.parametrize("block", range(PROGRAMS // 20))
def test_random_programs(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        made = Maker(seed, depth=3 + seed % 8)
        program, _ = fused(made.program, single=seed % 2 == 0)
        assert all(check(kernel, drawn(kernel, seed)) for kernel in kernels(program)), seed


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.parent.name)
def test_captured_programs(path: Path) -> None:
    for kernel in captured(path):
        check(kernel, drawn(kernel))


TURNS = """\
kernel fn rows [2]
input float32[2, 1, 1]
value float32[2, 1, 1] of pd_op.sum stage 0 rows [i0] reduce pd_op.sum [1] {'dtype': None}
  give x0[i0, 0, 0]
value float32[4, 5, 1] of pd_op.pad stage 1 rows [i0]
  t0 = choose(((i0, 2), (i1 + -2, 1), ), v0[i0, 0, 0], fill(0.25, float32))
  give t0
output v1
"""


def test_a_statement_that_turns_more_often_than_the_loops_has_loops_of_its_own() -> None:
    kernel = parse_kernel(TURNS)
    assert check(kernel, drawn(kernel))


SOFTMAX = """
pir.program @main(%x "x" : tensor<300x1100xf32>) {
  %y = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<300x1100xf32>) -> tensor<300x1100xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<300x1100xf32>) -> ()
}"""


def test_a_pipeline_ends_in_native_code_and_keeps_no_results() -> None:
    exe = compile(Program(parsed(SOFTMAX), {}, "test"), pipeline="@fused")
    x = np.random.default_rng(0).standard_normal((300, 1100)).astype(np.float32)
    plain = compile(Program(parsed(SOFTMAX), {}, "test"))(x=x)["y"]
    for array in (x, np.asfortranarray(x)):
        np.testing.assert_allclose(exe(x=array)["y"], plain, rtol=1e-5, atol=1e-8)
    live = allocator.HOST.stats.live
    for _ in range(20):
        exe(x=x)
    assert allocator.HOST.stats.live <= live
    assert "(native, any, float32)" in why_kernels(exe.plan, KernelLibrary())
    assert "(nest, any, float32)" in why_kernels(exe.plan, KernelLibrary(fused="nest"))


def test_large_results_go_past_the_caches_where_they_begin_at_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lowering_native, "l3_bytes", lambda: 1 << 10)
    program = run_passes(Program(parsed(SOFTMAX), {}, "test"), "@fused").entry(None)
    (op,) = [o for o in program.operations if o.name == "pir.map_expr"]
    assert isinstance(op, PirOp)
    meta = TensorMeta((300, 1100), dt.float32)
    step = lowering_native.bind_native(
        Binding((meta,), (meta,), {"kernel": op.attribute("kernel")})
    )
    assert step is not None
    x = np.random.default_rng(0).standard_normal(meta.shape).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    memory = np.empty(x.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64
    for skipped in (0, 4):
        y = memory[start + skipped :][: x.nbytes].view(np.float32).reshape(meta.shape)
        y[...] = np.nan
        step(x, y)
        np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-5)


COMPLEX = """
pir.program @main(%x "x" : tensor<4x5xcomplex<f32>>) {
  %a = pd_op.exp(%x) : (tensor<4x5xcomplex<f32>>) -> tensor<4x5xcomplex<f32>>
  %y = pd_op.sin(%a) : (tensor<4x5xcomplex<f32>>) -> tensor<4x5xcomplex<f32>>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x5xcomplex<f32>>) -> ()
}"""


def test_what_no_nest_holds_is_left_to_the_interpreter_and_told() -> None:
    exe = compile(Program(parsed(COMPLEX), {}, "test"), pipeline="@fused")
    x = (np.arange(20).reshape(4, 5) * (0.1 + 0.2j)).astype(np.complex64)
    np.testing.assert_allclose(exe(x=x)["y"], np.sin(np.exp(x)), rtol=1e-5)
    known = why_kernels(exe.plan, KernelLibrary())
    assert "not in native code: complex numbers have no native code" in known


def test_nearly_every_kernel_of_captured_programs_is_native() -> None:
    reasons: list[str] = []
    total = 0
    for path in CORPUS:
        for kernel in captured(path):
            total += 1
            nests = nests_of(kernel)
            reasons += [nests] if isinstance(nests, str) else []
    assert total > 100
    known = [reason for reason in reasons if "known only when it runs" not in reason]
    assert len(known) <= total // 50, reasons


GATHER = """
pir.program @main(%x "x" : tensor<7x40xf32>, %at "at" : tensor<5xi64>) {
  %g = pd_op.gather(%x, %at) {axis = 0 : i32}
    : (tensor<7x40xf32>, tensor<5xi64>) -> tensor<5x40xf32>
  %y = pd_op.exp(%g) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<5x40xf32>) -> ()
}"""


def test_numbers_that_say_where_to_read_are_checked() -> None:
    exe = compile(Program(parsed(GATHER), {}, "test"), pipeline="@fused")
    assert "(native, any, int64)" in why_kernels(exe.plan, KernelLibrary())
    x = np.random.default_rng(0).standard_normal((7, 40)).astype(np.float32)
    at = np.array([6, 0, -1, -7, 3])
    np.testing.assert_allclose(exe(x=x, at=at)["y"], np.exp(x[at]), rtol=1e-6)
    for wrong in (7, -8, 1 << 40, (1 << 32) + 1):
        with pytest.raises(PirkitError, match=r"an index does not lie in \[0, 7\)"):
            exe(x=x, at=np.array([6, 0, wrong, 2, 3]))
    np.testing.assert_allclose(exe(x=x, at=at)["y"], np.exp(x[at]), rtol=1e-6)


DIVIDE = """
pir.program @main(%x "x" : tensor<40xi32>, %d "d" : tensor<40xi32>) {
  %q = pd_op.floor_divide(%x, %d) : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi32>
  %y = pd_op.add(%q, %x) : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<40xi32>) -> ()
}"""


def test_whole_numbers_are_not_divided_by_zero() -> None:
    exe = compile(Program(parsed(DIVIDE), {}, "test"), pipeline="@fused")
    assert "(native, any, int32)" in why_kernels(exe.plan, KernelLibrary())
    x, d = np.arange(40, dtype=np.int32) - 20, np.full(40, -3, np.int32)
    np.testing.assert_array_equal(exe(x=x, d=d)["y"], x // d + x)
    d[37] = 0
    with pytest.raises(PirkitError, match="integer division by zero"):
        exe(x=x, d=d)


@pytest.mark.parametrize("after", [False, True])
def test_whole_numbers_are_scaled_by_whole_numbers(after: bool) -> None:
    case = Case()
    y = case.op("scale", case(7, 30, dtype=dt.int64), scale=3.0, bias=-2.0, bias_after_scale=after)
    case.b("pir.shadow_output", case.op("cast", y, dtype=dt.float32), output_name="y")
    for kernel in kernels(fused(case.program, single=True)[0]):
        assert check(kernel, [np.arange(-100, 110).reshape(7, 30)])


MANY = """
pir.program @main(%x "x" : tensor<2147483648xi8>) {
  %y = pd_op.abs(%x) : (tensor<2147483648xi8>) -> tensor<2147483648xi8>
  %z = pd_op.argmax(%y) {axis = 0 : i64, keepdims = false, flatten = false,
    dtype = #pir.dtype<int64>} : (tensor<2147483648xi8>) -> tensor<i64>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<i64>) -> ()
}"""


def test_places_among_as_many_elements_as_int32_counts() -> None:
    """They are computed in int32, in which the number of elements is none."""
    program = run_passes(Program(parsed(MANY), {}, "test"), "fuse")
    (kernel,) = kernels(program.entry(None))
    (nest,) = nests_of(kernel)
    assert isinstance(nest, ArrayNest)
    found = [s for s in nest.kernel.statements() if isinstance(s, Constant)]
    assert [s.value for s in found if s.dtype is dt.int32] == [(1 << 31) - 1]


@pytest.mark.parametrize("name", ["argmax", "argmin", "any", "all", "amax", "amin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_beyond_sums(name: str, axis: int) -> None:
    case = Case()
    x = case(33, 70, dtype=dt.bool_ if name in ("any", "all") else dt.float32, below=2)
    if "arg" in name:
        y = case.op(name, x, axis=axis, keepdims=False, flatten=False, dtype=dt.int64)
    else:
        y = case.op(name, x, axis=[axis], keepdim=False)
    case.b("pir.shadow_output", case.op("cast", y, dtype=dt.float32), output_name="y")
    rng = np.random.default_rng(1)
    for trial in range(3):
        found = rng.integers(-2, 3, (33, 70))
        given = found.astype(x.dtype.np) if x.dtype.is_float else found > (trial - 1) * 5
        if x.dtype.is_float and trial:
            given[rng.integers(0, 33, 9), rng.integers(0, 70, 9)] = np.nan
        for kernel in kernels(fused(case.program, single=True)[0]):
            assert check(kernel, [given])


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_that_are_roots_have_the_ends_of_the_reference(exponent: float) -> None:
    """At -0.0 and -inf a reciprocal root is -inf and NaN, and the power is inf and 0."""
    case = Case()
    y = case.op("pow", case(7, dtype=dt.float32), y=exponent)
    case.b("pir.shadow_output", y, output_name="y")
    x = np.array([-np.inf, -0.0, 0.0, -2.0, 4.0, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        assert all(check(kernel, [x]) for kernel in kernels(fused(case.program, single=True)[0]))
