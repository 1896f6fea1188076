"""Additions of other packages to pirkit's tables: ops, rules, kernels.

The behaviour of pirkit alone depends only on its sources, so compiled programs can be cached across
processes. The additions of other packages may change from one process to the next.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

_OWN: Final = "pirkit."
_BODY: Final = "<module>"

FOREIGN: Final[set[str]] = set()
"""Modules of other packages that have added something in this process."""


Origin = Mapping[str, Any]
"""The globals of a module."""


def note_addition(table: str) -> Origin:
    """Note which module adds to the tables of another one: the latest caller that is not that.

    What is added tells less: it may be a function of numpy, or made by ``functools``. Gives the
    module whose body runs, which may have called a function of another one that adds.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while (module := frame.f_globals.get("__name__", "?")) == table and frame.f_back is not None:
        frame = frame.f_back
    if not module.startswith(_OWN):
        FOREIGN.add(module)
    while frame.f_code.co_name != _BODY and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def is_again(before: Origin | None, now: Origin) -> bool:
    """Whether a module adds once more what it added in an import that did not come to its end."""
    if before is None or before is now:
        return False
    return before.get("__name__") == now.get("__name__")
