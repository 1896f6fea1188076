"""The logger of pirkit, ``logging.getLogger("pirkit")``: what is compiled, and why again.

INFO logs each compiled signature with its reason, DEBUG the origin of plans and how long it
took. ``PIRKIT_LOG=INFO`` or ``pirkit.config.log_level`` shows them on standard error.
"""

from __future__ import annotations

import logging
from typing import Final

from pirkit.diag.settings import SETTINGS, setting

LOG: Final = logging.getLogger("pirkit")
_SHOWN: Final = logging.StreamHandler()
_SHOWN.setFormatter(logging.Formatter("pirkit: %(message)s"))


def show_from(level: str | None) -> None:
    """Show messages from a level on; None leaves them to the program's own handlers."""
    LOG.removeHandler(_SHOWN)
    LOG.setLevel(level or logging.NOTSET)
    LOG.propagate = level is None
    if level is not None:
        LOG.addHandler(_SHOWN)


if _level := setting(SETTINGS["log_level"].variable):  # the first compilation refuses others
    show_from(_level.upper() if _level.upper() in SETTINGS["log_level"].choices else "WARNING")
