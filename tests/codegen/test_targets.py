"""Code for other CPUs than this one: it must compile, and run where this CPU can run it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.diag.errors import UsageError
from pirkit.lowering.codegen.emit.compile import compile_kernel, key_of
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native import target as targets
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.object_compiler import SIMPLIFY, object_code
from pirkit.runtime.native.target import LEVELS, Target, host
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
    return replace(host(), cpu=cpu, features=features, vector_bits=bits)


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


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The target is chosen once more, by an environment that names none."""
    for name in ("PIRKIT_TARGET", "PIRKIT_VECTOR_BITS"):
        monkeypatch.delenv(name, raising=False)
    host.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    host.cache_clear()


def test_the_width_can_be_chosen(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("PIRKIT_VECTOR_BITS", "128")
    assert host().vector_bits == 128


@pytest.mark.skipif(not X86, reason="these are levels of x86-64")
@pytest.mark.parametrize("level", LEVELS)
def test_no_feature_beyond_the_level_is_used(level: str, fresh: pytest.MonkeyPatch) -> None:
    whole = host()
    fresh.setenv("PIRKIT_TARGET", level)
    host.cache_clear()
    try:
        capped = host()
    except UsageError as error:
        pytest.skip(str(error))
    beyond = {"x86-64": "sse4.2", "x86-64-v2": "avx", "x86-64-v3": "avx512f"}
    assert level not in beyond or not capped.has(beyond[level])
    assert not capped.has("avx512bf16")
    assert capped.vector_bits <= min(whole.vector_bits, {"v3": 256, "v4": 512}.get(level[-2:], 128))
    assert key_of("a kernel", capped) != key_of("a kernel", whole)
    for name, kernel in KERNELS.items():
        assert "llvm.x86.avx512" not in generate(kernel, capped).text or level[-2:] == "v4", name
        check(kernel, rtol=1e-2 if "16" in name else 1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("PIRKIT_TARGET", "x86-64-v5", "the levels are x86-64, x86-64-v2, x86-64-v3, x86-64-v4"),
        ("PIRKIT_TARGET", "native", "the levels are"),
        ("PIRKIT_VECTOR_BITS", "64", "the widths are 128, 256, 512"),
    ],
)
def test_unknown_targets_are_refused(
    variable: str, value: str, why: str, fresh: pytest.MonkeyPatch
) -> None:
    fresh.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{variable} is `{value}`; {why}") as refused:
        host()
    assert refused.value.code == "PK0705"


@pytest.mark.parametrize(
    ("triple", "features", "why"),
    [
        ("x86_64-unknown-linux-gnu", "+avx,-avx2", "this CPU lacks 64bit, avx2, bmi"),
        ("aarch64-unknown-linux-gnu", "+neon", "this CPU is no x86-64 but aarch64"),
    ],
)
def test_levels_that_the_cpu_lacks_are_refused(
    triple: str, features: str, why: str, fresh: pytest.MonkeyPatch
) -> None:
    cpu = SimpleNamespace(
        get_process_triple=lambda: triple,
        get_host_cpu_name=lambda: "generic",
        get_host_cpu_features=lambda: SimpleNamespace(flatten=lambda: features),
    )
    fresh.setattr(targets, "llvm", cpu)
    fresh.setenv("PIRKIT_TARGET", "x86-64-v3")
    with pytest.raises(UsageError, match=why):
        host()


@pytest.mark.parametrize(
    ("features", "bits"),
    [
        ("+avx2 +fma", 256),
        ("+avx2 +fma +avx512f +avx512cd", 256),  # Knights Landing: no VL, DQ, BW
        ("+avx2 +fma +avx512f +avx512cd +avx512vl +avx512dq +avx512bw", 512),  # Skylake-X
        ("+avx2 +fma +avx512f +avx512cd +avx512vl +avx512dq +avx512bw +avx512bf16", 512),
    ],
)
def test_vectors_are_as_wide_as_the_cpu_has_them(
    features: str, bits: int, fresh: pytest.MonkeyPatch
) -> None:
    cpu = SimpleNamespace(
        get_process_triple=lambda: "x86_64-unknown-linux-gnu",
        get_host_cpu_name=lambda: "a CPU",
        get_host_cpu_features=lambda: SimpleNamespace(flatten=lambda: features.replace(" ", ",")),
    )
    fresh.setattr(targets, "llvm", cpu)
    assert host().vector_bits == bits


@pytest.mark.skipif(not X86, reason="this is a vector of AVX-512")
@pytest.mark.parametrize("shuffled", ["before", "after"])
@pytest.mark.parametrize("simplify", ["", SIMPLIFY])
def test_doubled_bytes_compile(shuffled: str, simplify: str) -> None:
    """LLVM 22.1 does not end here unless the shuffle is isolated."""
    load, double = "load <64 x i8>, ptr %a, align 1", "shl <64 x i8> {}, splat (i8 1)"
    mask = ", ".join(f"i32 {lane // 2}" for lane in range(64))
    shuffle = f"shufflevector <64 x i8> {{}}, <64 x i8> poison, <64 x i32> <{mask}>"
    first, second = (shuffle, double) if shuffled == "before" else (double, shuffle)
    lines = [f"%x = {load}", f"%y = {first.format('%x')}", f"%z = {second.format('%y')}"]
    body = "\n  ".join([*lines, "store <64 x i8> %z, ptr %a, align 1", "ret void"])
    text = f"\n{simplify}\ndefine void @f(ptr %a) {{\n  {body}\n}}\n"
    features = "+avx512f,+avx512bw,+avx512dq,+avx512vl"
    assert object_code(text, "x86_64-unknown-linux-gnu", "x86-64-v4", features)


def converted(source: DType, goal: DType, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values as another element type, by code for a CPU without F16C."""
    load, store = Load("x", 0), Store(1, "y")
    compute = Compute("y", "cast", ("x",), goal)
    operands = [Operand(t, (t.itemsize,), (), t.itemsize * values.size) for t in (source, goal)]
    kernel = Kernel((values.size,), (), tuple(operands), (LoopPhase((load, compute, store)),))
    out = np.empty(values.size, goal.np)
    NativeFunction(compile_kernel(kernel, older("x86-64", "", 128))).bind([values, out])()
    return out


@pytest.mark.skipif(not X86, reason="other CPUs have the instructions")
def test_float16_without_its_instructions() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = converted(dt.float16, dt.float32, every)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(every))
    rng = np.random.default_rng(0)
    finite = np.unique(every[np.isfinite(every)]).astype(np.float32)
    between = (finite[1:] + finite[:-1]) / 2
    samples = [finite, between, np.nextafter(between, np.inf), np.nextafter(between, -np.inf)]
    samples += [rng.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)]
    samples += [np.array([65519.996, 65520, -65520, np.inf, np.nan, 1e-45, -0.0], np.float32)]
    values = np.concatenate(samples)
    with np.errstate(over="ignore", invalid="ignore"):
        want = values.astype(np.float16)
    narrow = converted(dt.float32, dt.float16, values)
    np.testing.assert_array_equal(narrow, want)
    np.testing.assert_array_equal(np.signbit(narrow), np.signbit(want))
