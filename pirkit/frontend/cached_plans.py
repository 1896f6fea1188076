"""Plans that `compile` wrote, cached for later processes (see `compile_cache.py`)."""

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
    """What decides about the plan of a program; None where nothing is kept.

    Other devices and other tables of kernels may be anybody's.
    """
    if library.backend != CPU or library.registry is not KERNELS:
        return None
    return compile_cache.cache_key(_FORM, program, pipeline, entry, library.falls_back, places=True)


def cached_plan(key: str) -> Plan | None:
    """The plan that was written under a key; None where nobody keeps it."""
    found = compile_cache.load_entry(key)
    return unpack_plan(found) if found is not None else None


def store_plan(key: str, plan: Plan) -> None:
    """Keep a plan, unless others had a say in it or it holds what is no plain data."""
    try:
        data = pack_plan(plan)
    except NotSerializableError:
        return
    compile_cache.save_entry(key, data)
