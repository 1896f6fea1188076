"""The properties of this machine: versions, BLAS, vector units, GPU, location of the cache."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from rich.console import Console
from rich.table import Table

from pirkit.diag.errors import UsageError
from pirkit.diag.version import VERSION
from pirkit.runtime.native.blas import blas as blas_of_numpy
from pirkit.runtime.native.cache import cache_folder

Report = dict[str, dict[str, str]]
"""Facts by section and name."""

ABSENT: Final = "not installed"

CORE: Final = ("numpy", "xdsl", "llvmlite", "ml_dtypes", "safetensors", "rich")
OPTIONAL: Final = ("cupy-cuda12x", "cupy-cuda13x", "torch", "paddlepaddle", "deepxde", "jax")

VECTOR_BITS: Final[Mapping[str, int]] = {
    "avx512f": 512,
    "avx2": 256,
    "avx": 256,
    "neon": 128,
    "sse2": 128,
}
"""CPU feature -> width of its vector registers, the widest first."""


def doctor(arguments: argparse.Namespace) -> int:
    """Print the report as a table, or as JSON with ``--json``; the exit code."""
    report = examine()
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0


def examine() -> Report:
    """All sections of the report, as text."""
    return {
        "pirkit": {"version": VERSION, "folder": str(Path(__file__).parents[1])},
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "platform": platform.platform(),
        },
        "packages": {name: _version(name) for name in CORE},
        "extras": {name: _version(name) for name in OPTIONAL},
        "cpu": _cpu(),
        "gpu": _gpu(),
        "cache": _cache(),
    }


def show(report: Report) -> None:
    """Print a report as one table."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section, facts in report.items():
        for i, (name, value) in enumerate(facts.items()):
            table.add_row("" if i else section, name, value)
    Console(highlight=False, markup=False, emoji=False).print(table)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ABSENT


def _kernels() -> str:
    found = blas_of_numpy()
    return found if isinstance(found, str) else f"{found.core}, {found.threads} threads"


def _cpu() -> dict[str, str]:
    config = cast(Mapping[str, Any], np.show_config(mode="dicts"))
    blas = config.get("Build Dependencies", {}).get("blas", {})
    facts = {
        "machine": platform.machine(),
        "cores": str(os.cpu_count() or "unknown"),
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "blas kernels": _kernels(),
    }
    facts |= _try_import("llvmlite.binding", _vector_units)
    return facts | _try_import("pirkit.runtime.native.target", _target)


def _target(module: Any) -> dict[str, str]:
    """The CPU that native code is compiled for, which the environment may cap."""
    try:
        target = module.host()
    except UsageError as error:
        return {"native target": f"refused: {error.message}"}
    capped = [name for name in ("PIRKIT_TARGET", "PIRKIT_VECTOR_BITS") if os.environ.get(name)]
    by = f" (by {', '.join(capped)})" if capped else ""
    return {"native target": f"{target.cpu}, vectors of {target.vector_bits} bits{by}"}


def _vector_units(llvm: Any) -> dict[str, str]:
    features = {name for name, present in llvm.get_host_cpu_features().items() if present}
    bits = next((bits for name, bits in VECTOR_BITS.items() if name in features), None)
    return {
        "model": llvm.get_host_cpu_name(),
        "vector width": f"{bits} bits" if bits else "unknown",
        "features": " ".join(name for name in (*VECTOR_BITS, "fma", "f16c") if name in features),
    }


def _gpu() -> dict[str, str]:
    if all(_version(name) == ABSENT for name in OPTIONAL if name.startswith("cupy")):
        return {"devices": "unknown: cupy is not installed (extra `gpu`)"}
    return _try_import("cupy", _devices)


def _devices(cupy: Any) -> dict[str, str]:
    runtime = cupy.cuda.runtime
    try:
        count: int = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return {"devices": f"none: {error}"}
    names = [runtime.getDeviceProperties(i)["name"].decode() for i in range(count)]
    return {"devices": ", ".join(names) or "none", "cuda": str(runtime.runtimeGetVersion())}


def _cache() -> dict[str, str]:
    folder = cache_folder()
    # The folder is made when it is first needed; until then its nearest parent decides.
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return {"folder": str(folder), "writable": "yes" if os.access(existing, os.W_OK) else "no"}


def _try_import(module: str, use: Callable[[Any], dict[str, str]]) -> dict[str, str]:
    """The facts of a module, or why it cannot be imported. Module names come from this file."""
    try:
        return use(importlib.import_module(module))
    except ImportError as error:
        return {module: f"cannot be imported: {error}"}
