"""The kernels of the backend ``gpu``, on a stand-in for cupy where there is no GPU."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernels import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import fallback
from pirkit.runtime.binding import Binding
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import of_value
from pirkit.runtime.registry import GPU, KERNELS, Kernel
from tests.execution import parsed
from tests.ops.fake_cupy import DeviceArray, FakeCupy, fake_cupyx, on_device, plain
from tests.ops.test_kernels import check, poisoned, samples_of

CUPY: Final = FakeCupy()
EVERY: Final = list(KERNELS.kernels(backend=GPU))


@pytest.fixture(autouse=True)
def _cupyx(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name, module in fake_cupyx().items():
        monkeypatch.setitem(sys.modules, name, module)


def test_the_stand_in_refuses_arrays_of_the_host() -> None:
    here, there = np.ones(3), on_device(np.ones(3))
    assert isinstance(there + 1, DeviceArray)
    mixes: list[Callable[[], Any]] = [
        lambda: CUPY.add(there, here),
        lambda: here + there,
        lambda: there[np.array([0])],
        lambda: there.__setitem__(0, here[:1]),
        lambda: CUPY.concatenate([there, here]),
        lambda: np.copyto(there, here),
        lambda: CUPY.linalg.inv(np.eye(2)),
    ]
    for mix in mixes:
        with pytest.raises(TypeError, match="Unsupported type"):
            mix()


@pytest.mark.parametrize("kernel", EVERY, ids=lambda k: f"{k.op}-{k.key.dtype}")
def test_kernel_agrees_with_the_reference(kernel: Kernel) -> None:
    served = 0
    for call in samples_of(kernel):
        expected = call.compute()
        metas = tuple(None if v is None else of_value(v) for v in expected)

        def scratch(shape: Any, dtype: Any) -> Any:
            return CUPY.empty(shape, dtype)

        binding = Binding(call.metas, metas, call.attrs, kernel.op, CUPY, scratch)
        step = kernel(binding)
        if step is None:
            continue
        served += 1
        args = on_device(call.args)
        with np.errstate(all="ignore"):
            if kernel.form == "out":
                found = on_device(tuple(map(poisoned, metas)))
                step(*args, *found)
            else:
                made = step(*args)
                found = made if isinstance(made, tuple) else (made,)
        check(found, expected, kernel, call)
    assert served, "no sample is served"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device, with the stand-in for cupy."""
    device: Any = KERNELS.device(GPU)
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    device.__dict__.pop("xp", None)
    yield device
    device.__dict__.pop("xp", None)


@pytest.fixture
def _no_lgamma(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """The device lacks one kernel."""
    slot = ("pd_op.lgamma", "dense")
    held = {k: v for k, v in KERNELS._kernels[slot].items() if k.backend != GPU}
    monkeypatch.setitem(KERNELS._kernels, slot, held)


MATRIX: Final = "tensor<3x3xf32>"
PROGRAM: Final = f"""
pir.program @main(%x "x" : {MATRIX}, %w "w" : {MATRIX}) {{
  %product = pd_op.matmul(%x, %w) {{transpose_x = false, transpose_y = true}}
    : ({MATRIX}, {MATRIX}) -> {MATRIX}
  %root = pd_op.tanh(%product) : ({MATRIX}) -> {MATRIX}
  %share = pd_op.log_softmax(%root) {{axis = -1 : i32}} : ({MATRIX}) -> {MATRIX}
  %gamma = pd_op.lgamma(%share) : ({MATRIX}) -> {MATRIX}
  %sum = pd_op.add(%gamma, %w) : ({MATRIX}, {MATRIX}) -> {MATRIX}
  pir.shadow_output(%sum) {{output_name = "y"}} : ({MATRIX}) -> ()
}}
"""


def bound(backend: str, **options: Any) -> Executable:
    (program,) = [op for op in parsed(PROGRAM).ops if isinstance(op, ProgramOp)]
    library = KernelLibrary(backend, **options)
    return Executable(write_plan(program, library=library), library)


def operands() -> dict[str, Any]:
    draw = np.random.default_rng(3).standard_normal
    return {name: draw((3, 3), np.float32) for name in ("x", "w")}


@pytest.mark.usefixtures("_no_lgamma")
def test_a_program_runs_on_the_device_and_what_has_no_kernel_on_the_host(gpu: Any) -> None:
    assert gpu.xp is CUPY
    fallback._warn_once.cache_clear()
    before = fallback.FALLBACKS["pd_op.lgamma"]
    exe = bound(GPU)
    with pytest.warns(fallback.FallbackWarning, match="pd_op.lgamma") as told:
        found = exe.run(operands())["y"]
    assert len(told) == 1
    assert fallback.FALLBACKS["pd_op.lgamma"] == before + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = exe.run(operands())["y"]
        taken_apart = [e.what for e in exe.trace(operands()).entries]
    assert "pd_op.exp" in taken_apart
    assert "pd_op.log_softmax" not in taken_apart
    for each in (found, again):
        np.testing.assert_allclose(plain(each), bound("cpu").run(operands())["y"], rtol=1e-6)


@pytest.mark.usefixtures("_no_lgamma")
def test_a_kernel_that_is_missing_is_an_error_if_asked_for(gpu: Any) -> None:
    with pytest.raises(UnsupportedError, match="lgamma"):
        bound(GPU, falls_back=False).run(operands())
