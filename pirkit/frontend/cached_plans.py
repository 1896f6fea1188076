"""Plans of `compile`, cached on disk for later processes (see `compile_cache.py`)."""

from __future__ import annotations

from typing import Final

from pirkit.frontend import compile_cache
from pirkit.frontend.files import Program
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime.plan import Plan
from pirkit.runtime.plan_json import NotSerializableError, pack_plan, unpack_plan
from pirkit.runtime.registry import CPU, KERNELS

_FORM: Final = "plan"


def plan_key(
    program: Program, pipeline: str, entry: str | None, library: KernelLibrary
) -> str | None:
    """The cache key of a program's plan, or None if the plan is not cached.

    Plans for other devices or other tables of kernels are not cached: those may change unnoticed.
    """
    if library.backend != CPU or library.registry is not KERNELS:
        return None
    return compile_cache.cache_key(_FORM, program, pipeline, entry, library.falls_back, places=True)


def cached_plan(key: str) -> Plan | None:
    """The plan that is stored under a key, or None."""
    found = compile_cache.load_entry(key)
    return unpack_plan(found) if found is not None else None


def store_plan(key: str, plan: Plan) -> None:
    """Store a plan, unless other packages influence it or it contains more than plain data."""
    try:
        data = pack_plan(plan)
    except NotSerializableError:
        return
    compile_cache.save_entry(key, data)
