"""The settings at the head of a reproducer, which are read before the passes are imported."""

from __future__ import annotations

import re
from typing import Final

from pirkit.diag.errors import ParseError
from pirkit.diag.span import Span

TITLE: Final = "// pirkit reproducer\n"
_FIELD: Final = re.compile(r"^// (pipeline|seed|check): (.*)$", re.M)


def settings_of(text: str, name: str) -> dict[str, str]:
    """The ``pipeline``, ``seed`` and ``check`` of a reproducer. Raises ParseError if it is none."""
    found = dict(_FIELD.findall(text[:4096]))
    is_one = text.startswith(TITLE) and "pipeline" in found
    if not is_one or not found.get("seed", "0").isdecimal():
        raise ParseError(
            "the file is no reproducer",
            span=Span(name, 1),
            help=f"it begins with `{TITLE.strip()}`",
        )
    return found
