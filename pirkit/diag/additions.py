"""What other packages add to pirkit's tables: ops, rules, kernels.

What pirkit itself does with a program depends on its sources alone, so that it can be kept from one
process to the next. What others add may change from one process to the next.
"""

from __future__ import annotations

import sys
from typing import Final

_OWN: Final = "pirkit."

FOREIGN: Final[set[str]] = set()
"""Modules of other packages that have added something in this process."""


def note_addition(table: str) -> None:
    """Note which module adds to the tables of another one: the latest caller that is not that.

    What is added tells less: it may be a function of numpy, or made by ``functools``.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while (module := frame.f_globals.get("__name__", "?")) == table and frame.f_back is not None:
        frame = frame.f_back
    if not module.startswith(_OWN):
        FOREIGN.add(module)
