"""Finds the line of a file that ``loc(...)`` names; aliases may follow their uses in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pirkit.stablehlo.nodes import Place

_ALIAS: Final = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_FILE: Final = re.compile(r'"((?:[^"\\]|\\.)+)":(\d+):(\d+)')
_LOC_NAME: Final = re.compile(r"#loc\d*")
_STEPS: Final = 100
"""The longest chain of aliases that is followed."""


def places_in(text: str) -> Mapping[str, str]:
    """Alias -> the location for which it stands, of all aliases that a text defines."""
    return dict(_ALIAS.findall(text))


def place_of(location: str | None, aliases: Mapping[str, str]) -> Place | None:
    """The first place in a file that a location names, which is that of the innermost call."""
    for _ in range(_STEPS):
        alias = _LOC_NAME.search(location or "")
        found = _FILE.search(location or "", 0, alias.start() if alias else len(location or ""))
        if found is not None:
            return Place(found[1], int(found[2]), int(found[3]))
        if alias is None or location is None:
            return None
        location = location[: alias.start()] + aliases.get(alias[0], "") + location[alias.end() :]
    return None
