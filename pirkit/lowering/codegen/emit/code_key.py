"""The name of native code in its object file, and its key in the compile cache."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pirkit.diag.source_files import SOURCES
from pirkit.diag.version import VERSION
from pirkit.runtime import machine_costs
from pirkit.runtime.native.cached_ir import toolchain_hash
from pirkit.runtime.native.llvm import LLVMLITE_VERSION
from pirkit.runtime.native.target import Target

SYMBOL: Final = "pirkit_kernel"
"""The name of the function."""


def key_of(what: object, target: Target) -> str:
    """The cache key of code for ``what``, whose `repr` must identify it."""
    parts = (what, target, VERSION, LLVMLITE_VERSION, _generator_hash(), toolchain_hash())
    return blake2b(repr(parts).encode(), digest_size=32).hexdigest()


@cache
def _generator_hash() -> str:
    """A hash of the sources of the code generator, so that code of an older one is not reused."""
    generator = sorted(Path(__file__).parents[1].rglob("*.py"))
    # Code holds its estimated time, by which threads share it.
    return SOURCES.contents([*generator, Path(machine_costs.__file__)])
