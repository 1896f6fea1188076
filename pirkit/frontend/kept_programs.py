"""What `compile_whole` made of a program, kept for later processes (see `keeping.py`)."""

from __future__ import annotations

from typing import Any, Final, cast

from pirkit.frontend import keeping
from pirkit.frontend.files import Program
from pirkit.lowering.codegen.awaiting import Awaited, kept_function
from pirkit.runtime.native.kept_program import pack_program, unpack_program
from pirkit.runtime.native.program import NativeProgram

Made = tuple[NativeProgram | None, tuple[str, ...]]
"""A native program, None where there is none, and the reasons that were told."""

_FORM: Final = "native program"


def key_of_program(program: Program, pipeline: str) -> str | None:
    """What decides about the native form of a program; None where nothing is kept."""
    return keeping.key_of(_FORM, program, pipeline)


def kept(key: str) -> Made | None:
    """What was made under a key; None where nobody keeps it, or a part of it is gone."""
    found = keeping.kept(key)
    if not isinstance(found, dict):
        return None
    entry = cast("dict[str, Any]", found)
    if not entry.keys() >= {"reasons", "program"} or not isinstance(entry["reasons"], list):
        return None
    reasons = tuple(map(str, cast("list[Any]", entry["reasons"])))
    if entry["program"] is None:
        return None, reasons
    program = unpack_program(entry["program"], kept_function)
    return (program, reasons) if program is not None else None


def keep(key: str, made: Made) -> None:
    """Keep what was made under a key, unless others had a say in it."""
    native, reasons = made
    entry: dict[str, Any] = {"reasons": list(reasons), "program": None}
    if native is not None:
        functions = [step.function for step in native.steps]
        keys = [f.key for f in functions if isinstance(f, Awaited)]
        if len(keys) != len(functions):
            return
        entry["program"] = pack_program(native, keys)
    keeping.keep(key, entry)
