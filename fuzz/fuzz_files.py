"""Damaged files of all formats end in a coded error, in bounded time and memory."""

from __future__ import annotations

import random

from harness import fuzz, refuse

from tools.campaigns.files import changed, read, sources

BY_FORMAT = {(s.name, s.suffix): s for s in sources()}
FORMATS = sorted(BY_FORMAT)


def target(data: bytes) -> None:
    """The first byte selects the format, the others are the file."""
    if data:
        refuse(read(BY_FORMAT[FORMATS[data[0] % len(FORMATS)]], data[1:]))


def inputs(draw: random.Random) -> bytes:
    """A file of the corpus with changes."""
    source = draw.choice(sources())
    return bytes([FORMATS.index((source.name, source.suffix))]) + changed(source, draw)


if __name__ == "__main__":
    fuzz(target, inputs)
