"""Identifies numpy's BLAS and the CPU that its kernels are written for.

Native code has its own GEMM (`lowering/codegen/matmul/gemm.py`); plans call numpy for small
matmuls. OpenBLAS selects its kernels when it is loaded, by the CPU or by ``OPENBLAS_CORETYPE``;
kernels for an older CPU take at least twice as long, without any message.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

CORE_VARIABLE: Final = "OPENBLAS_CORETYPE"
BITS: Final = {
    "katmai": 128, "prescott": 128, "core2": 128, "penryn": 128, "dunnington": 128, "nehalem": 128,
    "atom": 128, "athlon": 128, "opteron": 128, "opteron_sse3": 128, "barcelona": 128,
    "bobcat": 128, "nano": 128, "sandybridge": 256, "bulldozer": 256, "piledriver": 256,
    "steamroller": 256, "excavator": 256, "haswell": 256, "zen": 256, "skylakex": 512,
    "cooperlake": 512, "sapphirerapids": 512,
}  # fmt: skip
"""Vector width, in bits, of OpenBLAS's kernels for each core type."""


class Blas(Struct, frozen=True):
    """An OpenBLAS in this process: the ``core`` whose kernels it uses, and its ``threads``."""

    core: str
    threads: int


@cache
def blas() -> Blas | str:
    """The OpenBLAS that numpy loaded, or the reason why it cannot be identified."""
    root = Path(np.__file__).parent
    places = (root.parent / "numpy.libs", root / ".dylibs")
    paths = sorted(p for place in places for p in place.glob("*openblas*"))
    if not paths:
        return "numpy brings no OpenBLAS of its own"
    library = ctypes.CDLL(str(paths[0]))
    for before, after in product(("scipy_", ""), ("64_", "")):
        name = f"{before}openblas_get_corename{after}"
        if hasattr(library, name):
            return _found(library, before, after)
    return f"{paths[0].name} has no function that is known"


def _found(library: Any, before: str, after: str) -> Blas:
    corename = library[f"{before}openblas_get_corename{after}"]
    corename.restype = ctypes.c_char_p
    threads = library[f"{before}openblas_get_num_threads{after}"]()
    return Blas(corename().decode(), threads)


@cache
def warn_of_old_kernels() -> None:
    """Warn, once, if the environment pins OpenBLAS to kernels for a CPU older than this one."""
    if not os.environ.get(CORE_VARIABLE):
        return
    found, here = blas(), _vector_bits()
    if isinstance(found, str):
        return
    bits = BITS.get(found.core.lower(), here)
    if bits < here:
        warnings.warn(
            f"{CORE_VARIABLE} pins numpy's BLAS to kernels for {found.core} ({bits} bits); "
            f"this CPU has vectors of {here} bits",
            RuntimeWarning,
            stacklevel=2,
        )


def _vector_bits() -> int:
    """The vector width of this CPU in bits, from numpy: this avoids importing LLVM."""
    config = cast("dict[str, Any]", np.show_config(mode="dicts"))
    simd = cast("dict[str, list[str]]", config.get("SIMD Extensions", {}))
    names = " ".join([*simd.get("baseline", []), *simd.get("found", [])]).upper()
    bits_by_feature = 512 if "AVX512" in names or "X86_V4" in names else 0
    return bits_by_feature or (256 if "AVX2" in names or "X86_V3" in names else 128)
