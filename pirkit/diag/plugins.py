"""Packages that declare plug-ins for pirkit in their entry points.

`importlib.metadata` finds them, but takes longer to import than all there is to read. So it is
asked only where some package names the group, or where packages lie elsewhere than in folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

from pirkit.diag.errors import PirkitError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SUFFIXES: Final = (".dist-info", ".egg-info")
_EGG: Final = ".egg"
"""A folder of this kind is a package itself."""


def plugins(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group, in the order of `importlib.metadata`."""
    if not _may_be_named(group):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415  slow, and seldom needed

    return tuple(entry_points(group=group))


def loaded(entry: EntryPoint) -> Any:
    """The object that an entry point names. UsageError (PK0710) if its package fails."""
    return _attempted(entry.load, f"plug-in `{entry.value}` of `{entry.group}`")


def called(extend: Callable[..., Any], *given: Any) -> None:
    """Call a function of a plug-in. UsageError (PK0710) if it fails."""
    _attempted(lambda: extend(*given), f"plug-in `{extend.__module__}:{extend.__name__}`")


def _attempted(work: Callable[[], Any], what: str) -> Any:
    try:
        return work()
    except PirkitError:
        raise
    except Exception as error:
        raise UsageError(
            f"{what} fails: {type(error).__name__}: {error}", code="PK0710",
            help="its package is broken, or of another version: repair it, or uninstall it",
        ) from error  # fmt: skip


def _may_be_named(group: str) -> bool:
    """Whether a package may name a group; False only where none does."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    return any(_names_one(folder or ".", group.encode()) for folder in map(str, sys.path))


def _names_one(folder: str, group: bytes) -> bool:
    """Whether a package in a folder may name a group."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    if any(name.lower().endswith(_EGG) for name in (folder, *names)):
        return True
    said = (name for name in names if name.lower().endswith(_SUFFIXES))
    return any(group in _text(os.path.join(folder, name, "entry_points.txt")) for name in said)


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
