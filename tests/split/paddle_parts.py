"""Splits by Paddle, as it printed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pirkit.frontend.files import load
from pirkit.split import SplitNames, SplitParts, SplitReport

FAKE = "Fake_var"


def paddle_parts(folder: Path) -> SplitParts:
    """The halves in ``forward.txt`` and ``backward.txt``, with the lists of ``names.json``."""
    held: dict[str, Any] = json.loads((folder / "names.json").read_text())
    names = {
        key: tuple([None if name == FAKE else name for name in held[key]])
        for key in SplitNames.__dataclass_fields__
    }
    return SplitParts(
        forward=load(folder / "forward.txt"),
        backward=load(folder / "backward.txt"),
        names=SplitNames(**names),
        saved=(),
        report=SplitReport("paddle", 0, (), ()),
        returns=tuple([(name, index) for index, name in enumerate(held["fo"])]),
    )
