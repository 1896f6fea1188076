"""The logger for code that seldom logs: importing `logging` takes 4 ms."""

from __future__ import annotations

import sys
from importlib import import_module

from pirkit.diag.settings import SETTINGS, setting


def log(level: str, message: str, *args: object) -> None:
    """Log a message of level `info` or `debug`, unless no handler can be there yet."""
    if "logging" in sys.modules or setting(SETTINGS["log_level"].variable):
        getattr(import_module("pirkit.diag.log").LOG, level)(message, *args)
