"""Imports a family of ops at the first lookup of one of its ops. All families take a tenth of a
second to import, and a program uses few.

``op_index.txt`` has a line for each module: its name below ``pirkit.dialect``, and the ops that it
declares or has rules for. An op that is missing there is found, too, but only after all modules
have been imported. ``python tools/gen_docs.py`` writes the file.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from pirkit.diag.gc_pause import imported, is_imported

INDEX: Final = Path(__file__).with_name("op_index.txt")
ROOM: Final = "pirkit.dialect."

_loaded: Final[set[str]] = set()
"""Modules imported to their end: a thread that does not find one here waits for its import."""


@cache
def modules() -> dict[str, list[str]]:
    """The modules in the order of their declarations, each with its ops."""
    lines = INDEX.read_text("utf-8").splitlines()
    return {ROOM + module: ops for module, *ops in map(str.split, lines)}


@cache
def homes() -> dict[str, list[str]]:
    """Each op, in the order of declarations, with the modules that it needs."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, ops in modules().items():
        for name in ops:
            found[name].append(module)
    return dict(found)


def load_home(name: str) -> None:
    """Import the modules of an op, if they are known."""
    for module in homes().get(name, ()):
        _load(module)


def load_families() -> None:
    """Import the modules of all ops of pirkit.

    A module whose file was removed is left out, as ``gen_docs.py`` needs all others to write the
    index again.
    """
    if len(_loaded) < len(modules()):
        for module in modules():
            try:
                _load(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise


def _load(module: str) -> None:
    if module not in _loaded:
        imported(module)
        if is_imported(module):
            _loaded.add(module)
