"""A progress bar for long work, shown on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """Yield the items, with a bar on standard error that ``what`` stands beside.

    Nothing is written if standard error is not a terminal. The bar disappears when it is full.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console  # noqa: PLC0415  rich is slow to import
    from rich.progress import track as rich_track  # noqa: PLC0415

    if total is None and isinstance(items, Sequence):
        total = len(items)
    console = Console(stderr=True)
    yield from rich_track(items, what, total=total, console=console, transient=True)
