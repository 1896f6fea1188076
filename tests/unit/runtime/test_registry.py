"""The registry: order of selection, reasons, replacement, what is refused."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from pirkit.diag.errors import UnsupportedError, UsageError
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.device import HostDevice
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.registry import CPU, KERNELS, Backend, Kernel, Registry
from tests.whole_program.processes import printed


class Accelerator(HostDevice):
    name = "accelerator"


def fresh() -> Registry:
    made = Registry((Backend(CPU, "cpu", priority=10), Backend("blas", "cpu", priority=5)))
    made.add_device(Accelerator())
    made.add_backend(Backend("slow", "cpu", priority=-5))
    made.add_backend(Backend("accelerator", "accelerator"))
    return made


def add(to: Registry, backend: str, layout: str = "any", **options: bool) -> None:
    to.kernel("conv2d", backend=backend, layout=layout, dtypes=(dt.float32,), **options)(
        lambda b: np.add
    )


def found(of: Registry, layout: str = "any", backend: str = CPU) -> list[str]:
    choices = of.candidates("pd_op.conv2d", dt.float32, backend=backend, layout=layout)
    return [f"{c.kernel.key.backend} {c.kernel.key.layout}" for c in choices]


def test_exact_layout_then_any_then_libraries_by_priority() -> None:
    made = fresh()
    for backend, layout in (("slow", "any"), ("blas", "any"), (CPU, "any"), (CPU, "NHWC")):
        add(made, backend, layout)
    assert found(made, "NHWC") == ["cpu NHWC", "cpu any", "blas any", "slow any"]
    assert found(made, "NCHW") == ["cpu any", "blas any", "slow any"]
    assert found(made, backend="blas") == ["blas any", "cpu any", "slow any"]
    assert found(made, backend="accelerator") == []


def test_an_exact_hit_is_not_replaced_by_the_generic_kernel() -> None:
    made = fresh()
    add(made, CPU, "NHWC")
    assert found(made, "NHWC") == ["cpu NHWC"]
    assert found(made, "NCHW") == []


def test_reasons_tell_what_was_missing() -> None:
    made = fresh()
    add(made, "blas")
    (choice,) = made.candidates("pd_op.conv2d", dt.float32)
    assert choice.reasons == (
        "`cpu` has no kernel",
        "serves any layout of the library `blas`",
    )
    assert "conv2d (blas, any, float32)" in str(choice)
    assert list(made.candidates("pd_op.conv2d", dt.float64)) == []


def test_a_second_registration_is_refused_unless_asked_for() -> None:
    made = fresh()
    add(made, CPU)
    with pytest.raises(ValueError, match="override=True"):
        add(made, CPU)
    add(made, CPU, override=True)
    assert found(made) == ["cpu any"]


def test_kernels_are_overridden_before_others_are_loaded() -> None:
    """In a process of its own, as the kernels of this one are loaded."""
    code = """
from pirkit.runtime import dtype as dt
from pirkit.runtime.registry import KERNELS
KERNELS.kernel("exp", dtypes=(dt.float32,), override=True)(lambda b: None)
print(next(KERNELS.candidates("pd_op.exp", dt.float32)).kernel.source)
"""
    assert printed(code, {}) == "__main__.<lambda>\n"


def test_names_that_are_taken_or_unknown() -> None:
    made = fresh()
    with pytest.raises(ValueError, match="backend 'cpu'"):
        made.add_backend(Backend(CPU, "cpu"))
    with pytest.raises(ValueError, match="no device 'tpu'"):
        made.add_backend(Backend("tpu", "tpu"))
    with pytest.raises(ValueError, match="device 'accelerator'"):
        made.add_device(Accelerator())
    with pytest.raises(ValueError, match="no backend 'tpu'"):
        add(made, "tpu")
    with pytest.raises(UsageError) as known:
        made.backend("blass")
    assert known.value.help == "did you mean 'blas'?"


def test_a_kernel_that_declines_leaves_the_call_to_the_next() -> None:
    kernel = next(KERNELS.kernels("pd_op.add"))
    assert isinstance(kernel, Kernel)
    mixed = Binding(
        (TensorMeta((2,), dt.float32), TensorMeta((2,), dt.float64)),
        (TensorMeta((2,), dt.float64),),
        op="pd_op.add",
    )
    assert kernel(mixed) is None
    last = list(KernelLibrary().choices("pd_op.add", dt.float32, {}))[-1]
    assert last.kernel.key.backend == "reference"


@pytest.mark.skipif(find_spec("cupy") is not None, reason="cupy is installed")
def test_the_device_gpu_says_what_is_missing() -> None:
    with pytest.raises(UnsupportedError, match="cupy") as known:
        KERNELS.device("gpu").xp  # noqa: B018
    assert known.value.code == "PK0403"
    assert "cpu" in str(known.value.help)


def test_kernels_of_the_gpu_are_those_that_ask_the_array_module_and_some_of_its_own() -> None:
    portable = [k for k in KERNELS.kernels(backend=CPU) if k.portable]
    on_gpu = list(KERNELS.kernels(backend="gpu"))
    shared = {(k.op, k.key.dtype) for k in on_gpu if ".cupy." not in k.source}
    own = {(k.op, k.key.dtype) for k in on_gpu if ".cupy." in k.source}
    assert shared == {(k.op, k.key.dtype) for k in portable if k.kind == "dense"}
    assert not shared & own
    assert len(shared) > 300
    assert len(own) > 200
