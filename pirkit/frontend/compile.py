"""``compile`` lowers a program to an executable; ``run_passes`` applies passes to a copy of it.

The work is in passes, in `native_compile`, which makes the plan, and in `compile_cache`, which
stores it for later processes. Modules that a cached plan does not need are imported late.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, cast, overload

import numpy as np

from pirkit.diag.errors import ArgumentError, NotNativeError, PassError, VerifyError
from pirkit.diag.gc_pause import importing
from pirkit.diag.settings import SETTINGS, check_choices, chosen
from pirkit.diag.unheard_log import log
from pirkit.dialect.program import Program
from pirkit.frontend.compile_cache import (
    Made,
    cache_key,
    key_with,
    load_entry,
    save_entry,
    store,
    weights_key,
)
from pirkit.frontend.python_calls import require
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_ops import FUSED_BY
from pirkit.lowering.native_ops import NAME as NATIVE
from pirkit.lowering.prim import default_pipeline, with_prim
from pirkit.runtime.executor import Executable
from pirkit.runtime.mode import Mode
from pirkit.runtime.native.array_file import map_arrays, save_arrays
from pirkit.runtime.native.cores import check_threads
from pirkit.runtime.native.float_environment import default_environment
from pirkit.runtime.registry import CPU
from pirkit.runtime.tensor.allocator import HOST

if TYPE_CHECKING:
    from pirkit.frontend.native_compile import Form
    from pirkit.passes import PipelineResult
    from pirkit.passes.base import PipelineItem

Array = np.ndarray[Any, Any]

DEFAULT_PIPELINE: Final = "@default"
"""The pipeline of `compile` on the CPU."""


@overload
def run_passes(
    program: Program,
    pipeline: str | Sequence[PipelineItem],
    *,
    stats: Literal[False] = False,
    **instrumentation: Any,
) -> Program: ...
@overload
def run_passes(
    program: Program,
    pipeline: str | Sequence[PipelineItem],
    *,
    stats: Literal[True],
    **instrumentation: Any,
) -> tuple[Program, PipelineResult]: ...
def run_passes(
    program: Program,
    pipeline: str | Sequence[PipelineItem],
    *,
    stats: bool = False,
    verified: bool = False,
    **instrumentation: Any,
) -> Program | tuple[Program, PipelineResult]:
    """A new program: the passes of a pipeline applied to a copy of this one.

    ``pipeline`` is a string, or a list of strings and passes: ``[MyPass(), "cse"]``. With
    ``stats`` the result is the program and a `PipelineResult`: times, counters and remarks.
    A ``verified`` program, such as what another pipeline gave, is not verified before the first
    pass. ``instrumentation`` are further parameters of `pirkit.passes.run_pipeline`.

    Raises UsageError for an unknown pass (PK0702) or a bad option (PK0703), VerifyError if the
    program is invalid, PassError if a pass fails (PK0801) or makes the program invalid (PK0802).
    """
    require(isinstance(cast(object, program), Program)
            and isinstance(cast(object, pipeline), str | list | tuple),
            f"`run_passes` takes a program and a pipeline, not a {type(program).__name__} and a"
            f" {type(pipeline).__name__}",
            "`pirkit.run_passes(program, 'cse,dce')`, or a list of passes")  # fmt: skip
    with importing():
        from pirkit.passes import run_pipeline  # noqa: PLC0415  not for cached plans

    if not instrumentation and not stats:
        result = program.copy()
        try:
            run_pipeline(result.module, pipeline, verify_each=False, verified=verified)
        except (PassError, VerifyError):
            pass  # run once more, verifying after each pass, to name the one that is to blame
        else:
            return result
    result = program.copy()
    found = run_pipeline(result.module, pipeline, **instrumentation)
    return (result, found) if stats else result


def compile(
    program: Program | Callable[..., Any],
    *examples: Any,
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
    fused: str | None = None,
    require_native: bool = False,
    fast_math: bool | None = None,
    batch_lanes: bool = False,
    freeze: bool | None = None,
    in_place: bool = False,
) -> Executable:
    """Lower a program to an executable: ``exe(**inputs)`` gives its outputs by name.

    A function is traced with the ``examples`` first (see `pirkit.trace`): its inputs have the names
    of its parameters. `pirkit.jit` gives a compiled function with the calls of the original one.
    ``entry`` names the program of a module that has several.

    Without a ``pipeline``, the pipeline on the CPU is `@default`, and every op that has a native
    form runs in native code: the whole program as one call, or segments of it between library
    calls. On other backends it is `@simplify`. A pipeline that is given runs as it is, and only
    fused kernels get native code; ``pipeline=""`` runs no pass. ``require_native`` refuses a
    program that is not one native call. ``batch_lanes`` decomposes every op and tries first to
    compute one batch row in each vector lane, which suits small networks and their derivatives.
    ``fast_math`` does so as well, and may factor common operands out of sums: results may differ
    for NaN, infinities and overflow. None takes what ``pirkit.config.fast_math`` says, if neither
    ``pipeline`` nor ``require_native`` is given.

    ``params`` replaces the program's own weights. ``freeze`` takes the weights for constants: batch
    norm in inference is folded into filters, and what depends on weights alone is computed once,
    now (see `freeze.py`); results change by rounding. None does so for models that were exported
    for inference (ONNX), on the CPU, where no other option says how to compile. Parameters that the
    program writes, such as caches, are replaced in each run, or with ``in_place`` written where
    they are.

    The ``backend`` ``cpu`` runs the kernels of the registry, ``reference`` the reference rules of
    the op table, ``gpu`` cupy kernels; plug-ins add others. Ops without a kernel on a device run on
    the CPU, with one warning each, unless ``fallback=False``. One run may use ``threads`` threads,
    by default those of the pool (``PIRKIT_NUM_THREADS``). ``seed`` seeds random ops. ``prim``
    decomposes operators into primitives first, except those in ``prim_keep``; by default the
    environment decides (``PIRKIT_PRIM=1``, ``PIRKIT_PRIM_KEEP=softmax;gelu``). ``certify`` solves
    the indices of each fused kernel again before each launch, and does not launch one that differs.
    ``fused`` says what runs fused kernels on the CPU: ``native`` code or, in the search for a wrong
    number, the interpreter of their loop nests (``nest``) or of their MapExpr (``interpret``); by
    default the environment decides (``PIRKIT_FUSED``). The plan is cached on disk for later
    processes (see `compile_cache.py`).

    Raises UsageError for an unknown backend or ``fused``, and for what is no program;
    UnsupportedError for an op without a kernel, and for a device that this machine does not have;
    NotNativeError (PK0407) for a program that is not one native call where that is required; and
    what `run_passes` raises.
    """
    check_choices()
    program = _as_program(program, examples)
    require(isinstance(cast(object, params), Mapping | None),
            f"`params` are arrays by name, not a {type(params).__name__}",
            "leave it out to take the program's own")  # fmt: skip
    check_threads(threads)
    library = KernelLibrary(backend, falls_back=fallback, certifies=certify, fused=_fused_by(fused))
    _ = library.device.xp  # raises now if this machine does not have the device
    if fast_math is None and pipeline is None and not require_native:
        fast_math = chosen(SETTINGS["fast_math"].variable) == "1"
    form: Form = "whole" if require_native else "segments"
    form = "fast" if fast_math else "lanes" if batch_lanes else form
    is_plain = form == "segments" and pipeline is not None
    if is_plain or backend != CPU or certify or library.fused != NATIVE:
        form = "kernels"
    wanted = default_pipeline(backend) if pipeline is None else pipeline
    pipeline_made = with_prim(wanted, prim, prim_keep)
    weights = dict(program.params if params is None else params)
    if freeze is None:
        freeze = program.is_export and form == "segments" and pipeline_made == wanted
        freeze = freeze and not in_place
    if freeze and weights:
        made, weights = _made_frozen(program, form, pipeline_made, entry, library, weights)
    else:
        made = _made(program, form, pipeline_made, entry, library)
    exe = Executable(made[0], library, weights, seed, threads=threads, reasons=made[1],
                     in_place=in_place)  # fmt: skip
    # A pickled copy is compiled again; it takes seed and weights from the executable.
    exe.remake = partial(
        compile, program, backend=backend, pipeline=pipeline, entry=entry, threads=threads,
        params=params if freeze else None, freeze=freeze, fallback=fallback, prim=prim,
        prim_keep=prim_keep, certify=certify, fused=fused, fast_math=bool(fast_math),
        batch_lanes=batch_lanes, in_place=in_place, require_native=require_native,
    )  # fmt: skip
    if require_native and exe.native is None:
        raise NotNativeError(
            f"@{exe.plan.name} is not one native call",
            notes=exe.reasons or (f"backend `{backend}`, or certified kernels, have no such call",),
            help="leave `require_native` out: what has a native form is native code anyway",
        )
    return exe


def _made_frozen(
    program: Program, form: Form, pipeline: str, entry: str | None, library: KernelLibrary,
    weights: dict[str, Array],
) -> tuple[Made, dict[str, Array]]:  # fmt: skip
    """The compiled form of a program whose weights are constants, and its weights and constants.

    Two plans are cached: that of the program, and that which computes the constants. The constants
    are cached as well, in a file whose key depends on the content of the weights.
    """
    winograd = chosen(SETTINGS["winograd"].variable)
    key = cache_key(program, library, form, pipeline, entry, "frozen", winograd)
    filed = weights_key(key, weights) if key is not None else None
    held = store()
    main = load_entry(key) if key is not None else None
    found = map_arrays(held, filed) if held and filed and main is not None else None
    if main is not None and found is not None:
        return main, weights | found
    constants_key = key_with(key, "its constants") if key is not None else None
    constants = load_entry(constants_key) if constants_key is not None else None
    if main is None or constants is None:
        with importing():
            from pirkit.frontend.freeze import frozen_plans  # noqa: PLC0415  unless cached

        weighted = Program(program.module, weights, program.source)
        main, constants = frozen_plans(weighted, form, pipeline, entry, library, run_passes)
        if key is not None and constants_key is not None:
            save_entry(key, main)
            save_entry(constants_key, constants)
    exe = Executable(constants[0], KernelLibrary(CPU), weights, 0)
    computed = exe.watch({}, Mode(), copies=False)
    if held and filed:
        save_arrays(held, filed, computed)
        found = map_arrays(held, filed)
    return main, weights | (found or {name: _in_pages(a) for name, a in computed.items()})


def _in_pages(array: Array) -> Array:
    """A contiguous copy, as an output may be a view; a large one begins at a page boundary."""
    copy = HOST.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _fused_by(fused: str | None) -> str:
    """The executor of fused kernels, from the argument, the environment or the default.

    Raises ArgumentError (PK0701) for an unknown name, UsageError (PK0705) for one in the
    environment.
    """
    wanted = fused or chosen("PIRKIT_FUSED") or NATIVE
    if wanted not in FUSED_BY:
        names = ", ".join(f"`{name}`" for name in FUSED_BY)
        raise ArgumentError(
            f"nothing called `{wanted}` runs fused kernels", help=f"`fused` is one of {names}"
        )
    return wanted


def _as_program(given: Any, examples: Sequence[Any]) -> Program:
    """The program itself, or that of a function, traced with the examples.

    Raises ArgumentError (PK0701) for everything else, and for too few examples.
    """
    if isinstance(given, Program) and not examples:
        return given
    if callable(given) and not isinstance(given, Program):
        with importing():
            from pirkit.frontend.function_programs import trace  # noqa: PLC0415  it compiles parts

        needed = _required(given)
        if len(examples) < needed:
            raise ArgumentError(
                f"`compile` of a function needs an example of each argument: {needed}, not"
                f" {len(examples)}",
                help="`pirkit.compile(f, x)`; only shapes and element types of `x` matter",
            )
        return trace(given, *examples)
    if isinstance(given, Program):
        problem, help = "a program takes no examples", "give inputs to the executable: `exe(x=x)`"
    else:
        problem = f"`compile` takes a program or a function, not a {type(given).__name__}"
        help = "`pirkit.load(path)` reads a program from a file"
    raise ArgumentError(problem, help=help)


def _required(function: Callable[..., Any]) -> int:
    """The number of positional parameters without a default; 0 if the signature is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in plain and p.default is p.empty for p in parameters)


def _made(
    program: Program, form: Form, pipeline: str, entry: str | None, library: KernelLibrary
) -> Made:
    """The cached plan of a program, or else a new one, which is cached."""
    key = cache_key(program, library, form, pipeline, entry)
    made = load_entry(key) if key is not None else None
    start = perf_counter()
    if made is None:
        with default_environment():
            with importing():
                from pirkit.frontend.native_compile import plan_with  # noqa: PLC0415  unless cached

            made = plan_with(form, program, pipeline, entry, library, run_passes)
        if key is not None:
            save_entry(key, made)
        log("debug", "lowered @%s in %.1f ms", made[0].name, (perf_counter() - start) * 1e3)
    else:
        log("debug", "read @%s from the compile cache", made[0].name)
    return made
