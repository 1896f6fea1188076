"""From a program to an executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import PassError, VerifyError
from pirkit.diag.gc_pause import importing
from pirkit.frontend.cached_plans import cached_plan, plan_key, store_plan
from pirkit.frontend.files import Program
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.prim import default_pipeline, with_prim
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Plan

Array = np.ndarray[Any, Any]

DEFAULT_PIPELINE: Final = "@default"


def run_passes(program: Program, pipeline: str, **instrumentation: Any) -> Program:
    """A new program: the passes of the pipeline string applied to a copy of this one.

    Raises UsageError for an unknown pass or option, PassError if a pass fails.
    """
    with importing():
        from pirkit.passes import run_pipeline  # noqa: PLC0415  not for plans that are kept

    if not instrumentation:
        result = program.copy()
        try:
            run_pipeline(result.module, pipeline, verify_each=False)
        except (PassError, VerifyError):
            pass  # once more: verified after each pass, which tells the one that broke it
        else:
            return result
    result = program.copy()
    run_pipeline(result.module, pipeline, **instrumentation)
    return result


def compile(
    program: Program,
    *,
    backend: str = "cpu",
    pipeline: str | None = None,
    params: Mapping[str, Array] | None = None,
    entry: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    fallback: bool = True,
    prim: bool | None = None,
    prim_keep: Sequence[str] | None = None,
    certify: bool = False,
) -> Executable:
    """Lower a program to an executable: ``exe(**inputs)`` gives its outputs by name.

    ``pipeline`` defaults to `@default` on the CPU, where fused ops have native code, and to
    `@simplify` on other devices; ``pipeline=""`` binds the program as it is. ``params`` replaces
    the program's own weights. The backend ``cpu`` runs the kernels of the registry, ``reference``
    the reference rules of the op table, ``gpu`` cupy kernels; plug-ins add backends. Ops without a
    kernel on a device run on the CPU, with one warning each, unless ``fallback=False``. One run may
    use ``threads`` threads, by default those of the pool (``PIRKIT_NUM_THREADS``). ``prim``
    decomposes ops into primitives first, except those in ``prim_keep``; by default the environment
    decides (``PIRKIT_PRIM=1``, ``PIRKIT_PRIM_KEEP=softmax;gelu``). ``certify`` derives the indices
    of each fused kernel again before each launch, and refuses to launch a kernel that differs. The
    plan is cached on disk for later processes (see `compile_cache.py`).

    Raises UsageError for an unknown backend, UnsupportedError for an op without a kernel and for a
    device that this machine does not have.
    """
    library = KernelLibrary(backend, falls_back=fallback, certifies=certify)
    _ = library.device.xp
    wanted = default_pipeline(backend) if pipeline is None else pipeline
    pipeline = with_prim(wanted, prim, prim_keep)
    weights = dict(program.params if params is None else params)
    plan = _plan(program, pipeline, entry, library)
    return Executable(plan, library, weights, seed, threads=threads)


def _plan(program: Program, pipeline: str, entry: str | None, library: KernelLibrary) -> Plan:
    """The cached plan of a program, or a new one, which is then cached."""
    key = plan_key(program, pipeline, entry, library)
    plan = cached_plan(key) if key is not None else None
    if plan is None:
        with importing():
            from pirkit.lowering.plan_writer import write_plan  # noqa: PLC0415  unless it is kept

        lowered_from = run_passes(program, pipeline) if pipeline else program
        plan = write_plan(lowered_from.entry(entry), library=library)
        if key is not None:
            store_plan(key, plan)
    return plan
