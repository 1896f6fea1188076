"""What the doctor says of machines that the tests do not run on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pirkit.cli import doctor

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
    modules = {"cupy": cupy(count), "llvmlite.binding": LLVM}
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
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: llvm)
    assert doctor.examine()["cpu"]["vector width"] == width
