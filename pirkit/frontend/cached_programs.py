"""Results of `compile_whole`, cached on disk for later processes (see `compile_cache.py`)."""

from __future__ import annotations

from typing import Any, Final, cast

from pirkit.frontend import compile_cache
from pirkit.frontend.files import Program
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction, cached_function
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_json import pack_program, unpack_program

Made = tuple[NativeProgram | None, tuple[str, ...]]
"""A native program or None, and the reasons why there is none."""

_FORM: Final = "native program"


def program_key(program: Program, pipeline: str) -> str | None:
    """The cache key of the native form of a program, or None if it is not cached."""
    return compile_cache.cache_key(_FORM, program, pipeline)


def load_entry(key: str) -> Made | None:
    """The result that is stored under a key; None if there is none, or part of its code is gone."""
    found = compile_cache.load_entry(key)
    if not isinstance(found, dict):
        return None
    entry = cast("dict[str, Any]", found)
    if not entry.keys() >= {"reasons", "program"} or not isinstance(entry["reasons"], list):
        return None
    reasons = tuple(map(str, cast("list[Any]", entry["reasons"])))
    if entry["program"] is None:
        return None, reasons
    program = unpack_program(entry["program"], cached_function)
    return (program, reasons) if program is not None else None


def save_entry(key: str, made: Made) -> None:
    """Store a result under a key, unless other packages influence it."""
    native, reasons = made
    entry: dict[str, Any] = {"reasons": list(reasons), "program": None}
    if native is not None:
        functions = [step.function for step in native.steps]
        keys = [f.key for f in functions if isinstance(f, LazyFunction)]
        if len(keys) != len(functions):
            return
        entry["program"] = pack_program(native, keys)
    compile_cache.save_entry(key, entry)
