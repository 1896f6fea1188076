"""What `compile_whole` made of a program, kept for later processes.

What is kept holds as long as everything that has a say is the same: the program, pirkit's sources,
the packages that are installed, the CPU, the limits. Where another package has added ops, rules or
kernels nothing is kept, and nothing that was kept is used: what they do may change unseen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, cast

from pirkit.diag.additions import FOREIGN
from pirkit.diag.limits import current_limits
from pirkit.diag.version import BEGAN_NS, VERSION
from pirkit.dialect.fingerprint import fingerprint_of
from pirkit.frontend.files import Program
from pirkit.lowering.codegen.awaiting import Awaited, kept_function
from pirkit.runtime.native.cache import ObjectCache, user_cache
from pirkit.runtime.native.kept_program import as_bytes, from_bytes, pack_program, unpack_program
from pirkit.runtime.native.pool import wanted_threads
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.target import host, l3_bytes

Made = tuple[NativeProgram | None, tuple[str, ...]]
"""A native program, None where there is none, and the reasons that were told."""

PIPELINES: Final = ("@simplify", "")
"""Pipelines whose programs are kept. Others may hold passes that are not pirkit's."""

_KEY_BYTES: Final = 32
_MARGIN_NS: Final = 100_000_000
"""How far the clock of a file system may be behind."""


def key_of_program(program: Program, pipeline: str) -> str | None:
    """What decides about the native form of a program; None where nothing is kept."""
    sources = _sources()
    if pipeline not in PIPELINES or FOREIGN or sources is None or _store() is None:
        return None
    parts = (
        fingerprint_of(program.module),
        pipeline,
        (VERSION, sources, sys.version),
        _distributions(tuple(map(str, sys.path))),
        (host(), l3_bytes(), wanted_threads()),
        current_limits(),
    )
    return blake2b(repr(parts).encode(), digest_size=_KEY_BYTES).hexdigest()


def kept(key: str) -> Made | None:
    """What was made under a key; None where nobody keeps it, or a part of it is gone."""
    store = _store()
    data = store.get(key) if store else None
    found = from_bytes(data) if data is not None else None
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
    store = _store()
    native, reasons = made
    if store is None or _others_have_a_say():
        return
    entry: dict[str, Any] = {"reasons": list(reasons), "program": None}
    if native is not None:
        functions = [step.function for step in native.steps]
        keys = [f.key for f in functions if isinstance(f, Awaited)]
        if len(keys) != len(functions):
            return
        entry["program"] = pack_program(native, keys)
    store.put(key, as_bytes(entry))


def _others_have_a_say() -> bool:
    """Whether other packages add to pirkit, those included that nobody has asked for yet."""
    from pirkit.dialect.opdef import all_ops  # noqa: PLC0415
    from pirkit.runtime.registry import KERNELS  # noqa: PLC0415

    all_ops()
    _ = KERNELS.backends
    return bool(FOREIGN)


def _store() -> ObjectCache | None:
    """The user's cache. ``PIRKIT_NATIVE_CACHE=objects`` keeps code of functions there only."""
    only_objects = os.environ.get("PIRKIT_NATIVE_CACHE") == "objects"
    return None if only_objects else user_cache()


@cache
def _sources() -> str | None:
    """What tells pirkit's files from others; None where they are no files, or have changed since
    this process began to read them: then it runs what they were.

    Their times stand for their contents, as they do for Python: the time at which the system saw a
    file change cannot be set, so that a copy of an older file counts as new.
    """
    root = Path(__file__).parents[1]
    try:
        found = sorted(_files(str(root)))
    except OSError:
        return None
    if not found or max(row[3] for row in found) > BEGAN_NS - _MARGIN_NS:
        return None
    return blake2b(repr((str(root), found)).encode(), digest_size=_KEY_BYTES).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@cache
def _distributions(path: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The packages that are installed, with their versions, by the folders that say so."""
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
