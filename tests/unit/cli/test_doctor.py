"""What the doctor says of machines that the tests do not run on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pirkit.cli import doctor
from pirkit.runtime.native import target

TARGET = target.__name__
LLVM = SimpleNamespace(get_host_cpu_features=dict, get_host_cpu_name=lambda: "some cpu")


class CudaError(Exception):
    pass


def cupy(device_count: int | CudaError) -> Any:
    def count() -> int:
        if isinstance(device_count, CudaError):
            raise device_count
        return device_count

    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        getDeviceCount=count,
        getDeviceProperties=lambda i: {"name": f"GPU {i}".encode()},
        runtimeGetVersion=lambda: 12080,
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))


@pytest.mark.parametrize(
    ("count", "devices"),
    [(0, "none"), (2, "GPU 0, GPU 1"), (CudaError("no driver"), "none: no driver")],
)
def test_gpus(monkeypatch: pytest.MonkeyPatch, count: int | CudaError, devices: str) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "13.0")
    modules = {"cupy": cupy(count), "llvmlite.binding": LLVM, TARGET: target}
    monkeypatch.setattr(doctor.importlib, "import_module", modules.__getitem__)
    assert doctor.examine()["gpu"]["devices"] == devices


def test_package_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise ImportError("no such library")

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    assert doctor.examine()["cpu"]["llvmlite.binding"] == "cannot be imported: no such library"


@pytest.mark.parametrize(
    ("features", "width"),
    [({"avx512f", "avx2"}, "512 bits"), ({"neon"}, "128 bits"), (set[str](), "unknown")],
)
def test_vector_width(monkeypatch: pytest.MonkeyPatch, features: set[str], width: str) -> None:
    llvm = SimpleNamespace(
        get_host_cpu_features=lambda: {**dict.fromkeys(features, True), "sse2": False},
        get_host_cpu_name=lambda: "some cpu",
    )
    modules = {"llvmlite.binding": llvm, TARGET: target}
    monkeypatch.setattr(doctor.importlib, "import_module", modules.__getitem__)
    assert doctor.examine()["cpu"]["vector width"] == width


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x86-64", "x86-64, vectors of 128 bits (by PIRKIT_TARGET)"),
        ("x86-64-v9", "refused: PIRKIT_TARGET is `x86-64-v9`; the levels are"),
    ],
)
def test_native_target(monkeypatch: pytest.MonkeyPatch, value: str, shown: str) -> None:
    monkeypatch.setenv("PIRKIT_TARGET", value)
    monkeypatch.delenv("PIRKIT_VECTOR_BITS", raising=False)
    target.host.cache_clear()
    try:
        found = doctor.examine()["cpu"]["native target"]
    finally:
        monkeypatch.undo()
        target.host.cache_clear()
    if not target.host().x86:
        shown = "refused: PIRKIT_TARGET is"
    assert found.startswith(shown)
