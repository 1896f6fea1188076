"""What is made of programs, cached on disk for later processes.

What is kept holds as long as everything that has a say is the same: the program, pirkit's sources,
the packages that are installed, the CPU, the limits. Where another package has added ops, rules,
kernels or passes nothing is kept, and nothing that was kept is used: what they do may change
unseen.
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
"""What decides about the last bits of constants that numpy folds."""
_TABLES: Final = "pirkit.passes.registry"
"""The module that knows all passes. What nobody has imported nobody has changed."""


def cache_key(form: str, program: Program, *settings: object, places: bool = False) -> str | None:
    """What decides about a form of a program; None where nothing is kept.

    ``places`` is for forms that tell where operations were written.
    """
    load_plugins()
    _ = KERNELS.backends  # theirs, which other packages add to
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
    """The plain data that were kept under a key; None where nobody keeps them."""
    held = store()
    data = held.get(key) if held else None
    return from_bytes(data) if data is not None else None


def save_entry(key: str, data: Any) -> None:
    """Keep plain data under a key, unless others had a say in them."""
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
    """The user's cache. ``PIRKIT_NATIVE_CACHE=objects`` keeps code of functions there only."""
    only_objects = os.environ.get("PIRKIT_NATIVE_CACHE") == "objects"
    return None if only_objects else user_cache()


def _own_passes() -> bool:
    """Whether passes and pipelines are those of pirkit."""
    tables: Any = sys.modules.get(_TABLES)
    return tables is None or tables.are_own()


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
