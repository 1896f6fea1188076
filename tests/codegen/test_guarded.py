"""Native code touches nothing beside its operands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.function import NativeSequence
from pirkit.runtime.native.target import host
from tests.codegen.guarded import Guarded, survives
from tests.codegen.test_fused import drawn, kernels
from tests.fusion.cases import Case
from tests.fusion.random_programs import Maker
from tests.fusion.test_random import fused

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")

SIZES = (1, 2, 3, 5, 9, 17, 31, 33, 65)


@pytest.fixture(params=["128", "256", "512"])
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Code for vectors as wide, where the CPU has them."""
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", request.param)
    host.cache_clear()
    yield int(request.param)
    monkeypatch.undo()
    host.cache_clear()


def function_of(nest: ArrayNest) -> NativeSequence:
    return native_sequence(nest.kernel)


def calls(kernel: MapExpr, inputs: list[Array], at_end: bool, guarded: Guarded) -> Any:
    """A call of a kernel whose arrays all lie beside forbidden pages."""
    nests = nests_of(kernel)
    if isinstance(nests, str):
        return lambda: None
    metas = [s.meta for s in without_scatters(kernel).kernel.statements]
    arrays = [*inputs, *(np.full(m.shape, 113, m.dtype.np) for m in metas)]
    held = [guarded(a, at_end) for a in arrays]
    steps: list[Any] = []
    for nest in nests:
        flags = [guarded(np.zeros(1, np.uint8), at_end) for _ in nest.assertions]
        every = [*held, *flags]
        steps.append(function_of(nest).bind([every[k] for k in nest.arrays]))

    def run() -> None:
        for step in steps:
            step()

    return run


def check(found: list[tuple[MapExpr, list[Array]]]) -> None:
    guarded = Guarded()
    runs = [calls(k, x, at_end, guarded) for k, x in found for at_end in (True, False)]

    def run_all() -> None:
        for run in runs:
            run()

    if survives(run_all):
        return
    for number, run in enumerate(runs):
        assert survives(run), (found[number // 2][0].name, "end" if number % 2 == 0 else "begin")


def narrowed(size: int, source: dt.DType, target: dt.DType) -> Case:
    case = Case()
    y = case.op("cast", case(size, dtype=source), dtype=target)
    case.b("pir.shadow_output", case.op("add", y, y), output_name="y")
    return case


def test_numbers_that_are_narrowed(bits: int) -> None:
    """LLVM stored one lane of wider numbers as wide as they were."""
    found: list[tuple[MapExpr, list[Array]]] = []
    for target in (dt.bfloat16, dt.float16, dt.int8, dt.uint8, dt.int16):
        for source in (dt.int32, dt.float32):
            for size in SIZES:
                for kernel in kernels(
                    fused(narrowed(size, source, target).program, single=True)[0]
                ):
                    found.append((kernel, drawn(kernel)))
    assert len(found) == 2 * 5 * len(SIZES)
    check(found)


NARROW = (dt.bfloat16, dt.float16, dt.int8, dt.int16, dt.bool_, dt.float64, dt.int32, dt.float32)


def narrowing(seed: int) -> Maker:
    """A random program that gives some of its values in other types, too."""
    made = Maker(seed, depth=3 + seed % 8)
    for k, value in enumerate(made.values[-3:]):
        other = made.b.cast(value, NARROW[(seed + k) % len(NARROW)])
        made.b("pir.shadow_output", other, output_name=f"n{k}")
    return made


PROGRAMS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 12


def test_random_programs(bits: int) -> None:
    found: list[tuple[MapExpr, list[Array]]] = []
    for seed in range(bits, bits + PROGRAMS):
        program, _ = fused(narrowing(seed).program, single=seed % 2 == 0)
        found += [(k, drawn(k, seed)) for k in kernels(program)]
    check(found)


def test_a_predicate_of_all_lanes_is_a_branch() -> None:
    """A masked load of no lane from a page that is not mapped takes hundreds of cycles."""
    case = Case()
    joined = case.b.concat([case(2, 256), case(3, 256)], axis=0)
    case.b("pir.shadow_output", case.op("add", joined, joined), output_name="y")
    [kernel] = kernels(fused(case.program, single=True)[0])
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    [nest] = nests
    assert isinstance(nest.kernel, Kernel)
    assert any(isinstance(s, Load) and s.predicate for s in nest.kernel.statements())
    text = generate(nest.kernel, host()).text
    assert "llvm.masked.load" not in text
