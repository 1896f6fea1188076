"""Locations: aliases, which may follow their uses, and the places in files that they lead to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pirkit.stablehlo.nodes import Place

_ALIAS: Final = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_FILE: Final = re.compile(r'"((?:[^"\\]|\\.)+)":(\d+):(\d+)')
_LOC_NAME: Final = re.compile(r"#loc\d*")
_STEPS: Final = 100
"""How many aliases lead from one to another."""


def places_in(text: str) -> Mapping[str, str]:
    """The aliases of locations that a text defines, before or after their uses."""
    return dict(_ALIAS.findall(text))


def place_of(location: str | None, aliases: Mapping[str, str]) -> Place | None:
    """The place in a file that a location names first: that of the innermost call; None if none."""
    for _ in range(_STEPS):
        alias = _LOC_NAME.search(location or "")
        found = _FILE.search(location or "", 0, alias.start() if alias else len(location or ""))
        if found is not None:
            return Place(found[1], int(found[2]), int(found[3]))
        if alias is None or location is None:
            return None
        location = location[: alias.start()] + aliases.get(alias[0], "") + location[alias.end() :]
    return None
