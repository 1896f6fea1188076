"""Code for other CPUs than this one: it must compile, and run where this CPU can run it."""

from __future__ import annotations

import dataclasses
import platform

import pytest

from pirkit.lowering.codegen.compile import compile_kernel
from pirkit.lowering.codegen.loopnest import Kernel
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.codegen.nests import check, layer_norm, softmax
from tests.codegen.test_kernels import elementwise, reduction

X86 = platform.machine() in ("x86_64", "AMD64")
KERNELS = {
    "softmax": softmax(5, 77),
    "softmax of bfloat16": softmax(5, 77, dt.bfloat16),
    "columns": softmax(70, 9, axis=0),
    "layer_norm": layer_norm(3, 130),
    "turned": elementwise((40, 50), [(1, 0), (0, 1), (0, 1)]),
    "sums": reduction((20,), (33,), (1, 0), dtype=dt.float64),
}


def older(cpu: str, features: str, bits: int) -> Target:
    return dataclasses.replace(host(), cpu=cpu, features=features, vector_bits=bits)


@pytest.mark.skipif(not X86, reason="these are CPUs of the x86 kind")
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(
    ("cpu", "features", "bits"),
    [("x86-64", "", 128), ("nehalem", "", 128), ("haswell", "", 256), ("skylake-avx512", "", 512)],
)
def test_older_cpus(kernel: Kernel, cpu: str, features: str, bits: int) -> None:
    if bits > host().vector_bits or (bits == 256 and not host().has("fma")):
        pytest.skip("this CPU does not run it")
    function = NativeFunction(compile_kernel(kernel, older(cpu, features, bits)))
    check(kernel, rtol=1e-4, atol=1e-5, function=function)


def test_the_width_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    host.cache_clear()
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", "128")
    assert host().vector_bits == 128
    host.cache_clear()
    monkeypatch.undo()
    assert host().vector_bits >= 128
