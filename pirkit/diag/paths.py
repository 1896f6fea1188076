"""The help text for a path that cannot be read or written."""

from __future__ import annotations

import difflib
import errno
import os
from pathlib import Path
from typing import Final

from pirkit.diag.errors import ArtifactError
from pirkit.diag.span import Span

# `Path.exists` and its like raise for names that are too long; the functions of `os.path` do not.
_SHOWN: Final = 4
_SHORTER: Final = "name a file with a shorter path"


def unreadable(path: str, error: OSError | None = None) -> ArtifactError:
    """The error (PK0506) of a file that is missing or cannot be read."""
    reason = "No such file or directory" if error is None else error.strerror
    return ArtifactError(
        f"cannot read {path}: {reason}",
        code="PK0506",
        span=Span(path),
        help=remedy(path, error),
    )


def unwritable(path: str, error: OSError) -> ArtifactError:
    """The error (PK0506) of a file that cannot be written."""
    folder = Path(path).parent
    help = "name a file in a folder that you may write to"
    if error.errno == errno.ENAMETOOLONG:
        help = _SHORTER
    elif os.path.exists(folder) and not os.path.isdir(folder):
        help = f"{folder} is a file: name a file in a folder"
    elif not os.path.isdir(folder):
        help = f"there is no folder {folder}: make it first"
    elif os.path.isdir(path):
        help = f"that is a folder: name a file in it, such as {Path(path) / 'out'}"
    return ArtifactError(
        f"cannot write {path}: {error.strerror}", code="PK0506", span=Span(path), help=help
    )


def remedy(path: str, error: OSError | None) -> str:
    """The help text for a path that cannot be used."""
    if isinstance(error, FileExistsError):
        return "a file is there already: name another folder"
    if isinstance(error, NotADirectoryError):
        return "a part of the path is a file, not a folder"
    if error is not None and error.errno == errno.ENAMETOOLONG:
        return _SHORTER
    return _other_file(Path(path))


def _other_file(path: Path) -> str:
    """Which file may be meant: one with a near name, or what the folder holds."""
    if str(path).startswith(("http:/", "https:/")):
        return "files are read, not addresses: download it first"
    if os.path.isdir(path):
        return f"that is a folder: name a file in it{_listed(path)}"
    folder = path.parent
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if os.path.exists(path):
        return "its permissions forbid it"
    others = [name for name in _names(folder) if name != path.name]
    near = difflib.get_close_matches(path.name, others, n=1)
    if near:
        return f"did you mean `{folder / near[0]}`?"
    return f"see what is there{_listed(folder, path.suffix)}"


def _listed(folder: Path, suffix: str = "") -> str:
    names = sorted(_names(folder), key=lambda name: not name.endswith(suffix))
    more = ", ..." if len(names) > _SHOWN else ""
    return f": {folder} holds {', '.join(names[:_SHOWN])}{more}" if names else ": it is empty"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith((".", "__")))
    except OSError:
        return []
