"""The kernels of the backend ``gpu``, on a stand-in for cupy where there is no GPU."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.opdef import lookup
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import dtype as dt
from pirkit.runtime import fallback
from pirkit.runtime.binding import Binding
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import of_value
from pirkit.runtime.registry import GPU, KERNELS, Kernel
from tests.execution import parsed
from tests.ops.calls import Call
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
    assert any([agrees(kernel, call) for call in samples_of(kernel)]), "no sample is served"


def agrees(kernel: Kernel, call: Call) -> bool:
    """False for a call that the kernel does not serve."""
    expected = call.compute()
    metas = tuple(None if v is None else of_value(v) for v in expected)

    def scratch(shape: Any, dtype: Any) -> Any:
        return CUPY.empty(shape, dtype)

    step = kernel(Binding(call.metas, metas, call.attrs, kernel.op, CUPY, scratch))
    if step is None:
        return False
    args = on_device(call.args)
    with np.errstate(all="ignore"):
        if kernel.form == "out":
            found = on_device(tuple(map(poisoned, metas)))
            step(*args, *found)
        else:
            made = step(*args)
            found = made if isinstance(made, tuple) else (made,)
    check(found, expected, kernel, call)
    return True


# --- beyond the samples --------------------------------------------------------------------------

F32: Final = np.float32
WILD: Final = np.array(
    [[np.nan, 1, -0.0, 0.0, np.inf], [3, np.nan, 3, -np.inf, 3], [2.5, -2.5, 1e20, -1e20, 255.7]],
    F32,
)
TIED: Final = np.array([[1, 2, 0, 2, 1], [0, 0, 2, 2, 1], [-1, 1, 1, -1, 0]])
MATRIX_OF: Final = np.random.default_rng(5).standard_normal
WINDOWS: Final = {"padding_algorithm": "EXPLICIT", "strides": (2, 1), "dilations": (2, 1)}
Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def edges() -> Iterator[Case]:
    for target in (dt.int32, dt.int64, dt.int8, dt.uint8, dt.bool_, dt.float16, dt.complex64):
        yield "cast", (WILD,), {"dtype": target}
    for x in (WILD, TIED):
        for first in (False, True):
            axis = -1 if first else 0
            yield "argmax", (x,), {"axis": axis, "keepdims": first, "dtype": dt.int64}
            yield "argmin", (x,), {"axis": 0, "flatten": first, "dtype": dt.int32}
            yield "argsort", (x,), {"axis": axis, "descending": first}
            yield "topk", (x,), {"k": 2, "axis": axis, "largest": first}
            yield "cummax", (x,), {"axis": axis, "dtype": dt.int64}
            yield "cummin", (x,), {"axis": axis, "dtype": dt.int32}
            many = {"return_index": first, "return_inverse": first, "return_counts": first}
            yield "unique", (x,), {**many, "axis": (), "dtype": dt.int64}
            yield "cumsum", (TIED.astype(x.dtype),), {"axis": axis, "exclusive": first}
            yield "cumprod", (TIED,), {"dim": axis, "reverse": True, "exclusive": first}
    for op in ("bitwise_left_shift", "bitwise_right_shift"):
        for dtype in (np.int32, np.uint8):
            for is_arithmetic in (False, True):
                bits = (TIED * 37).astype(dtype), (TIED * 9 - 2).astype(dtype)
                yield op, bits, {"is_arithmetic": is_arithmetic}
    for order in ("i0e", "i1e"):
        yield order, (np.array([np.nan, 0, -3, 499, 501, -1e4, 1e30, np.inf]),), {}
    places = np.array([[0, -1], [1, 1], [-2, 0]])
    values = MATRIX_OF((3, 2), F32)
    base = MATRIX_OF((3, 5), F32)
    for includes in (False, True):
        kept = {"axis": 1, "reduce": "add", "include_self": includes}
        yield "put_along_axis", (base, places, values), kept
        yield "put_along_axis", (TIED, places, TIED[:, :2]), kept
    yield "scatter_nd_add", (TIED, np.array([[0], [2], [0]]), TIED), {}
    yield "scatter_nd_add", (base, np.zeros((4, 0), np.int64), MATRIX_OF((4, 3, 5), F32)), {}
    for layout, order in (("NCHW", (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1))):
        for groups in (1, 2, 4):
            x = MATRIX_OF((2, 4, 7, 8), F32).transpose(order)
            size = {"groups": groups, "data_format": layout, "paddings": (1, 0, 2, 1)}
            filters = MATRIX_OF((8, 4 // groups, 3, 2), F32)
            yield "conv2d", (x, filters), {**WINDOWS, **size}
            filters = MATRIX_OF((4, 8 // groups, 3, 2), F32)
            yield "conv2d_transpose", (x, filters), {**WINDOWS, **size}
    stack, right = MATRIX_OF((2, 1, 4, 4)), MATRIX_OF((1, 3, 4, 2))
    for flag in (False, True):
        triangle = {"upper": flag, "transpose": not flag, "unitriangular": flag}
        yield "triangular_solve", (stack, right), triangle
        yield "lu", (stack[..., :3],), {"pivot": flag}
    yield "lu", (np.zeros((2, 3, 3)),), {}
    yield "solve", (stack, right), {}


@pytest.mark.parametrize("case", list(edges()), ids=lambda case: case[0])
def test_kernels_agree_at_the_edges(case: Case) -> None:
    """NaN and infinities, equals, places named twice, padding, groups, leading dimensions."""
    name, args, given = case
    definition = lookup(f"pd_op.{name}")
    slots = [*definition.attrs, *(o for o in definition.operands if o.kind is not None)]
    call = Call(definition, args, {**{s.name: s.default for s in slots}, **given})
    dtype = dt.of_array(args[0])
    kernels = [k for k in KERNELS.kernels(definition.name, backend=GPU) if k.key.dtype is dtype]
    assert [agrees(k, call) for k in kernels] == [True]


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
