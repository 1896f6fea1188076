"""Messages that nobody sees before something has imported `logging`, which takes 4 ms."""

from __future__ import annotations

import sys

from pirkit.diag.settings import SETTINGS, setting


def log(level: str, message: str, *args: object) -> None:
    """Log a message of level `info` or `debug`, unless no handler can be there yet."""
    if "logging" in sys.modules or setting(SETTINGS["log_level"].variable):
        from pirkit.diag.log import LOG  # noqa: PLC0415  slow, and seldom needed

        getattr(LOG, level)(message, *args)
