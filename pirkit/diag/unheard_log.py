"""The logger for code that seldom logs: importing `logging` takes 4 ms."""

from __future__ import annotations

import sys

from pirkit.diag.settings import SETTINGS, setting


def log(level: str, message: str, *args: object) -> None:
    """Log a message; those of level `info` or `debug` not before there can be a handler."""
    if level == "warning" or "logging" in sys.modules or setting(SETTINGS["log_level"].variable):
        from pirkit.diag.log import LOG  # noqa: PLC0415  slow, and seldom needed

        getattr(LOG, level)(message, *args)
