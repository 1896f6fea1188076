"""The disk cache for compiled forms of programs, shared by later processes.

The key covers everything that an entry depends on: the program, pirkit's sources, the installed
packages, the CPU, and the limits. If another package has added ops, rules, kernels or passes,
nothing is stored and no entry is used, because that package may change without a change of the key.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from hashlib import blake2b
from typing import Any, Final

from pirkit.diag.limits import current_limits
from pirkit.diag.plugin_additions import FOREIGN
from pirkit.diag.source_files import SOURCES
from pirkit.diag.version import VERSION
from pirkit.dialect.fingerprint import fingerprint_of
from pirkit.dialect.opdef import load_plugins
from pirkit.frontend.files import Program
from pirkit.runtime.native.cache import ObjectCache, user_cache
from pirkit.runtime.native.pool import thread_count
from pirkit.runtime.native.target import host, l3_bytes
from pirkit.runtime.registry import KERNELS

_KEY_BYTES: Final = 32
_ARITHMETIC: Final = (
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "OPENBLAS_CORETYPE",
)
"""Environment variables on which the last bits of constants computed by numpy depend."""
_TABLES: Final = "pirkit.passes.registry"
"""The module with the table of passes; before it is imported, no package can have changed it."""


def cache_key(form: str, program: Program, *settings: object, places: bool = False) -> str | None:
    """The cache key of a form of a program, or None if the form is not cached.

    ``places`` includes source locations, for forms that contain them.
    """
    load_plugins()
    _ = KERNELS.backends  # loads the packages that add backends
    sources = SOURCES.known()
    if FOREIGN or not _own_passes() or sources is None or store() is None:
        return None
    parts = (
        form,
        fingerprint_of(program.module, places=places),
        settings,
        (VERSION, sources, sys.version),
        _distributions(tuple(map(str, sys.path))),
        (host(), l3_bytes(), thread_count()),
        tuple(map(os.environ.get, _ARITHMETIC)),
        current_limits(),
    )
    return blake2b(repr(parts).encode(), digest_size=_KEY_BYTES).hexdigest()


def load_entry(key: str) -> Any:
    """The plain data stored under a key, or None."""
    held = store()
    data = held.get(key) if held else None
    return from_bytes(data) if data is not None else None


def save_entry(key: str, data: Any) -> None:
    """Store plain data under a key, unless other packages influence them."""
    held = store()
    if held is not None and not FOREIGN and _own_passes():
        held.put(key, as_bytes(data))


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
    """The user's cache, or None: ``PIRKIT_NATIVE_CACHE=objects`` limits it to code of functions."""
    only_objects = os.environ.get("PIRKIT_NATIVE_CACHE") == "objects"
    return None if only_objects else user_cache()


def _own_passes() -> bool:
    """True if all passes and named pipelines are pirkit's own."""
    tables: Any = sys.modules.get(_TABLES)
    return tables is None or tables.are_own()


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
