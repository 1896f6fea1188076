"""The compile cache: plans that `compile` made of programs, cached on disk for later processes.

The key covers everything that an entry depends on: the program, pirkit's sources, the installed
packages, the CPU, and the limits. If another package has added ops, rules, kernels or passes,
nothing is stored and no entry is used, because that package may change without a change of the key.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final

from msgspec.structs import replace

from pirkit.diag.limits import current_limits
from pirkit.diag.plugin_additions import FOREIGN
from pirkit.diag.settings import chosen
from pirkit.diag.source_files import SOURCES
from pirkit.diag.version import VERSION
from pirkit.dialect.fingerprint import fingerprint_of
from pirkit.dialect.opdef import load_plugins
from pirkit.dialect.program import Program
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, cached_function
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime.native.cache import ObjectCache, user_cache
from pirkit.runtime.native.digest import Digest
from pirkit.runtime.native.function import Control
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_json import pack_program, unpack_program
from pirkit.runtime.native.target import host, l3_bytes
from pirkit.runtime.native.thread_pool import thread_count
from pirkit.runtime.plan import PROGRAMS, Call, Instruction, Plan
from pirkit.runtime.plan_json import pack_plan, unpack_plan
from pirkit.runtime.registry import CPU, KERNELS
from pirkit.runtime.tensor.buffer import is_numpy
from pirkit.runtime.typed_json import NotSerializableError

_KEY_BYTES: Final = 32
_ARITHMETIC: Final = (
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "OPENBLAS_CORETYPE",
)
"""Environment variables on which the last bits of constants computed by numpy depend."""
_TABLES: Final = "pirkit.passes.registry"
"""The module with the table of passes; before it is imported, no package can have changed it."""


Made = tuple[Plan, tuple[str, ...]]
"""A plan, and the reasons why it is not one native call."""


def cache_key(program: Program, library: KernelLibrary, *settings: object) -> str | None:
    """The key of a program's plan, which covers all that it depends on; None if it is not cached.

    ``settings`` are what else determines the plan; their ``repr`` is a part of the key. Plans for
    other devices or kernel tables are not cached, as these may be plug-ins.
    """
    if library.backend != CPU or library.registry is not KERNELS:
        return None
    load_plugins(families=False)
    _ = KERNELS.backends  # loads the packages that add backends
    sources = SOURCES.known()
    if FOREIGN or not _own_passes() or sources is None or store() is None:
        return None
    parts = (
        fingerprint_of(program.module, places=True),
        (library.falls_back, *settings),
        (VERSION, sources, sys.version),
        _distributions(tuple(map(str, sys.path))),
        (host(), l3_bytes(), thread_count()),
        tuple(map(os.environ.get, _ARITHMETIC)),
        current_limits(),
    )
    return blake2b(repr(parts).encode(), digest_size=_KEY_BYTES).hexdigest()


def key_with(key: str, *parts: object) -> str:
    """The key combined with further parts."""
    return blake2b(repr((key, *parts)).encode(), digest_size=_KEY_BYTES).hexdigest()


def weights_key(key: str, weights: Mapping[str, Any]) -> str | None:
    """The key combined with the contents of weights; None if some are no arrays of numpy."""
    held = store()
    if held is None or not all(
        is_numpy(a) and a.dtype.hasobject is False for a in weights.values()
    ):
        return None
    hashed = Digest(held.secret)
    for name, array in weights.items():
        kind = array.dtype.name, array.dtype.str, array.shape
        hashed.add(repr((name, kind)).encode(), array)
    return key_with(key, hashed.digest())


def load_entry(key: str) -> Made | None:
    """The cached plan of a key; None if there is none, or a part of it is gone or damaged."""
    held = store()
    data = held.get(key) if held else None
    entry: Any = from_bytes(data) if data is not None else None
    try:
        plan, reasons = unpack_plan(entry["plan"]), tuple(map(str, entry["reasons"]))
        programs = [unpack_program(p, cached_function) for p in entry["programs"]]
        return _with_programs(plan, programs), reasons
    except (KeyError, TypeError, IndexError):
        return None


def save_entry(key: str, made: Made) -> None:
    """Store a plan, unless a plug-in took part in it or it holds other things than plain data."""
    held = store()
    plan, reasons = made
    programs: list[NativeProgram] = []
    body = [_without_program(i, programs) for i in plan.body]
    try:
        data = {
            "plan": pack_plan(replace(plan, body=tuple(body))),
            "programs": [pack_program(p, _keys(p)) for p in programs],
            "reasons": reasons,
        }
    except NotSerializableError:
        return
    if held is not None and not FOREIGN and _own_passes():
        held.put(key, as_bytes(data))


def _without_program(instruction: Instruction, programs: list[NativeProgram]) -> Instruction:
    """A native segment with its program replaced by a number; other instructions are unchanged."""
    if not isinstance(instruction, Call) or instruction.kernel not in PROGRAMS:
        return instruction
    programs.append(instruction.attrs["program"])
    return replace(instruction, attrs={"program": len(programs) - 1})


def _with_programs(plan: Plan | None, programs: Sequence[NativeProgram | None]) -> Plan:
    """The inverse of `_without_program`. Raises TypeError, KeyError or IndexError if it fails."""
    found = [program for program in programs if program is not None]
    if plan is None or len(found) < len(programs):
        raise TypeError("a part of an entry is gone")
    body: list[Instruction] = []
    for instruction in plan.body:
        if isinstance(instruction, Call) and instruction.kernel in PROGRAMS:
            number: int = instruction.attrs["program"]
            program = found[number]
            counts = len(instruction.inputs), len(instruction.outputs)
            if counts != (len(program.inputs), len(program.results)):
                raise TypeError("a segment has other operands than its program")
            attrs = {"program": program, "results": program.results}
            instruction = replace(instruction, attrs=attrs)
        body.append(instruction)
    return replace(plan, body=tuple(body))


def _keys(program: NativeProgram) -> list[str]:
    """For each step the key of its function in the cache of code; empty for control flow.

    Raises NotSerializableError if a function is not cached.
    """
    keys: list[str] = []
    for step in program.steps:
        if not isinstance(step.function, LazyFunction | Control):
            raise NotSerializableError("a function that no cache has")
        keys.append(step.function.key if isinstance(step.function, LazyFunction) else "")
    return keys


def as_bytes(data: Any) -> bytes:
    """Plain data as JSON."""
    return json.dumps(data, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> Any:
    """The inverse of `as_bytes`; None for anything else."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def store() -> ObjectCache | None:
    """The user's cache on disk; None if plans are not cached.

    ``PIRKIT_NATIVE_CACHE=objects`` limits the cache to code of functions, ``off`` switches it off.
    """
    only_objects = chosen("PIRKIT_NATIVE_CACHE") == "objects"
    return None if only_objects else user_cache()


def _own_passes() -> bool:
    """True if all passes and named pipelines are pirkit's own."""
    # Another thread may be in the middle of the import: `import_module` waits for its end.
    return _TABLES not in sys.modules or import_module(_TABLES).are_own()


@cache
def _distributions(path: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The installed packages with their versions, by folder of ``sys.path``."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        said = [n for n in names if n.endswith((".dist-info", ".egg-info", ".egg-link"))]
        if said:
            found.append((folder, tuple(sorted(said))))
    return tuple(found)
