"""A progress bar for long work, shown on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")


def track(items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """Yield the items, with a progress bar on standard error that is labelled ``what``.

    Nothing is written if standard error is not a terminal. The bar disappears when it is full.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    if total is None and isinstance(items, Sequence):
        total = len(items)
    with _bar() as bar:
        yield from bar.track(items, total=total, description=what)


@contextmanager
def delayed_bar(what: str, total: int, *, after: float) -> Generator[Callable[[int], None]]:
    """A callback that reports how many of ``total`` items are done.

    A bar appears on standard error when that took ``after`` seconds and something is left, and
    disappears at the end. Nothing is written if standard error is not a terminal.
    """
    if total < 2 or not sys.stderr.isatty():
        yield lambda done: None
        return
    start = time.monotonic()
    bars: list[Callable[[int], None]] = []
    with ExitStack() as stack:

        def tell(done: int) -> None:
            if not bars and done < total and time.monotonic() - start >= after:
                bar = stack.enter_context(_bar())
                task = bar.add_task(what, total=total)
                bars.append(lambda done: bar.update(task, completed=done))
            for show in bars:
                show(done)

        yield tell


def _bar() -> Progress:
    from rich import console, progress  # noqa: PLC0415  slow to import

    return progress.Progress(console=console.Console(stderr=True), transient=True)
