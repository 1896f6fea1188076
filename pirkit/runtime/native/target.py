"""The CPU that native code is compiled for."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from pirkit.diag.errors import UsageError
from pirkit.diag.settings import chosen, setting
from pirkit.runtime.native.llvm import llvm
from pirkit.runtime.native.tile_permission import tiles_permitted

_L2_WHEN_UNKNOWN = 1 << 18
_L3_WHEN_UNKNOWN = 1 << 24


class Target(Struct, frozen=True):
    """The properties of a CPU that code generation uses; ``vector_bits`` is the vector width."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    l2_bytes: int
    sanitized: bool = False
    """Whether code checks that its accesses stay in their buffers (``PIRKIT_SANITIZE=1``)."""

    @property
    def x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def gathers(self) -> bool:
        """Whether a gather takes less time than a load for each lane: not on AMD's Zen, whose
        gathers are microcode (Zen 4, 262,144 random elements of rows: 0.30 and 0.19 ms).
        """
        return not self.cpu.startswith("znver")

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")


_LEVEL_FEATURES: Final[Mapping[str, frozenset[str]]] = {
    "x86-64": frozenset("64bit cmov cx8 fxsr mmx sse sse2".split()),
    "x86-64-v2": frozenset("crc32 cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()),
    "x86-64-v3": frozenset("avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split()),
    "x86-64-v4": frozenset("avx512bw avx512cd avx512dq avx512f avx512vl".split()),
}
"""The features (LLVM names) that each level of the x86-64 psABI adds to the one before."""
LEVELS: Final = tuple(_LEVEL_FEATURES)
_LEVEL_BITS: Final = dict(zip(LEVELS, (128, 128, 256, 512), strict=True))
_WIDTHS: Final = ("128", "256", "512")


@cache
def host() -> Target:
    """The CPU of this process, restricted by the environment.

    512-bit vectors are used wherever AVX-512 F, VL, DQ and BW exist, for all kernels. Skylake-X and
    Cascade Lake lower their clock for them, but even there no family of kernels was faster with
    256 bits: matmuls and convolutions take 0.55 of the time, elementary functions 0.4 to 0.7, and
    kernels bound by memory the same (docs/native.md, Schedules). ``PIRKIT_TARGET`` is the x86-64
    level that code may use, ``PIRKIT_VECTOR_BITS`` the largest vector width. Raises UsageError
    (PK0705) for values that are unknown or that this CPU does not support.
    """
    text: str = llvm.get_host_cpu_features().flatten()
    on = frozenset([name[1:] for name in text.split(",") if name.startswith("+")])
    cpu: str = llvm.get_host_cpu_name()
    bits, triple = _vector_bits(on), llvm.get_process_triple()
    level = (setting("PIRKIT_TARGET") or "").strip()
    if level:
        cpu, text = level, ",".join([f"+{name}" for name in sorted(_level(level, triple, on))])
        bits = min(bits, _LEVEL_BITS[level])
    if "+amx-tile" in text and not tiles_permitted():
        text = text.replace("+amx-", "-amx-")
    bits = _allowed_bits(bits)
    if bits == 512:
        text += ",-prefer-256-bit"
    return Target(triple, cpu, text, bits, _l2_bytes(), chosen("PIRKIT_SANITIZE") == "1")


def _vector_bits(on: frozenset[str]) -> int:
    if _LEVEL_FEATURES["x86-64-v4"] <= on:
        return 512
    return 256 if {"avx2", "fma"} <= on else 128


def _level(level: str, triple: str, on: frozenset[str]) -> frozenset[str]:
    """All features of an x86-64 level; raises UsageError if this CPU lacks one."""
    if level not in LEVELS:
        raise _refused("PIRKIT_TARGET", level, f"the levels are {', '.join(LEVELS)}")
    if not triple.startswith("x86_64"):
        raise _refused("PIRKIT_TARGET", level, f"this CPU is no x86-64 but {triple}")
    below = LEVELS[: LEVELS.index(level) + 1]
    requests = frozenset[str]().union(*[_LEVEL_FEATURES[name] for name in below])
    if lacking := sorted(requests - on):
        raise _refused("PIRKIT_TARGET", level, f"this CPU lacks {', '.join(lacking)}")
    return requests


def _allowed_bits(bits: int) -> int:
    requested_bits = (setting("PIRKIT_VECTOR_BITS") or "").strip()
    if not requested_bits:
        return bits
    if requested_bits not in _WIDTHS:
        raise _refused("PIRKIT_VECTOR_BITS", requested_bits, f"the widths are {', '.join(_WIDTHS)}")
    return min(int(requested_bits), bits)


def _refused(variable: str, value: str, why: str) -> UsageError:
    return UsageError(f"{variable} is `{value}`; {why}", code="PK0705")


@cache
def l3_bytes() -> int:
    """Bytes of the L3 cache; a default where the system does not report it."""
    return _cache_bytes(3, _L3_WHEN_UNKNOWN)


def _l2_bytes() -> int:
    return _cache_bytes(2, _L2_WHEN_UNKNOWN)


def _cache_bytes(level: int, unknown: int) -> int:
    """Bytes of the cache of a level, from Linux's sysfs."""
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
