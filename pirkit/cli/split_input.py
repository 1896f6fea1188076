"""``pirkit-opt --split-input-file``: the parts of a text between lines ``// -----``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SPLIT: Final = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


def parts_of(text: str, split: bool) -> Iterator[str]:
    """The text or its parts, padded with blank lines so that line numbers agree with the file."""
    if not split:
        yield text
        return
    start = 0
    for m in (*_SPLIT.finditer(text), None):
        end = len(text) if m is None else m.start()
        if m is not None and _is_in_string(text[start:end]):
            continue
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = end if m is None else m.end()


def _is_in_string(part: str) -> bool:
    """True if a string is open at the end: only those of Paddle's text may hold line breaks."""
    quotes = part.count('"') - part.count('\\"')
    return part.lstrip().startswith("{") and quotes % 2 == 1
