"""The CPU that native code is made for."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pirkit.runtime.native.llvm import llvm

_L2_WHEN_UNKNOWN = 1 << 18
_L3_WHEN_UNKNOWN = 1 << 24


@dataclass(frozen=True, slots=True)
class Target:
    """What code generation needs to know of a CPU; ``vector_bits`` are those of its registers."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    l2_bytes: int

    @property
    def x86(self) -> bool:
        return self.triple.startswith("x86_64")

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")


@cache
def host() -> Target:
    """The CPU this process runs on.

    512-bit vectors are used where the CPU has them and does not pay for them with its clock:
    AMD from Zen 4 on, Intel from Sapphire Rapids on (told by their bfloat16 instructions).
    ``PIRKIT_VECTOR_BITS`` overrides the choice.
    """
    text: str = llvm.get_host_cpu_features().flatten()
    on = {name[1:] for name in text.split(",") if name.startswith("+")}
    bits = 128
    if {"avx2", "fma"} <= on:
        bits = 256
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512bf16"} <= on:
        bits = 512
    wanted = os.environ.get("PIRKIT_VECTOR_BITS", "")
    if wanted in ("128", "256", "512") and int(wanted) <= bits:
        bits = int(wanted)
    if bits == 512:
        text += ",-prefer-256-bit"
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), text, bits, _l2_bytes())


@cache
def l3_bytes() -> int:
    """Bytes of the cache that CPUs share; a small guess where nobody tells."""
    return _cache_bytes(3, _L3_WHEN_UNKNOWN)


def _l2_bytes() -> int:
    return _cache_bytes(2, _L2_WHEN_UNKNOWN)


def _cache_bytes(level: int, unknown: int) -> int:
    """Bytes of one cache of a level, as Linux tells them."""
    if platform.system() != "Linux":
        return unknown
    path = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size")
    try:
        text = path.read_text().strip()
    except OSError:
        return unknown
    digits = text.rstrip("KMkm")
    if not digits.isdigit():
        return unknown
    return int(digits) << (20 if text[-1] in "Mm" else 10)
