"""Plans that `compile` wrote, kept for later processes (see `keeping.py`)."""

from __future__ import annotations

from typing import Final

from pirkit.frontend import keeping
from pirkit.frontend.files import Program
from pirkit.lowering.kernels import KernelLibrary
from pirkit.runtime.kept_plan import NotPlainError, pack_plan, unpack_plan
from pirkit.runtime.plan import Plan
from pirkit.runtime.registry import CPU, KERNELS

_FORM: Final = "plan"


def key_of_plan(
    program: Program, pipeline: str, entry: str | None, library: KernelLibrary
) -> str | None:
    """What decides about the plan of a program; None where nothing is kept.

    Other devices and other tables of kernels may be anybody's.
    """
    if library.backend != CPU or library.registry is not KERNELS:
        return None
    return keeping.key_of(_FORM, program, pipeline, entry, library.falls_back, places=True)


def kept_plan(key: str) -> Plan | None:
    """The plan that was written under a key; None where nobody keeps it."""
    found = keeping.kept(key)
    return unpack_plan(found) if found is not None else None


def keep_plan(key: str, plan: Plan) -> None:
    """Keep a plan, unless others had a say in it or it holds what is no plain data."""
    try:
        data = pack_plan(plan)
    except NotPlainError:
        return
    keeping.keep(key, data)
