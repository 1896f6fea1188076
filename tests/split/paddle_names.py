"""Name lists of Paddle and of pirkit, made comparable: middles are numbered in different orders."""

from __future__ import annotations

import json
from pathlib import Path

from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import ProgramOp, declares
from pirkit.split import SplitNames

FAKE = "Fake_var"


def names_of(folder: Path) -> SplitNames:
    """The lists of a captured case, with None for Paddle's `Fake_var`."""
    raw: dict[str, list[str]] = json.loads((folder / "names.json").read_text())
    raw["no_need_buffers"] = [n for n in raw["no_need_buffers"] if n != FAKE]
    return SplitNames(**{k: tuple(None if n == FAKE else n for n in v) for k, v in raw.items()})  # type: ignore[arg-type]


def by_value(names: SplitNames, forward: ProgramOp) -> dict[str, list[str]]:
    """The lists with the place of its value for each middle; middles and `no_need_buffers` sorted.

    Both splits keep the operations of the forward program in their order.
    """
    ops = [op for op in forward.operations if not declares(op, OUTPUT)]
    places = {r: f"value {i}.{k}" for i, op in enumerate(ops) for k, r in enumerate(op.results)}
    middles = {
        op.attribute("output_name"): places[op.operands[0]]
        for op in forward.operations
        if declares(op, OUTPUT) and op.attribute("output_name") in names.fm
    }
    found = {key: [middles.get(n or "", n or FAKE) for n in held] for key, held in names.items()}
    for key in ("fm", "bm", "no_need_buffers"):
        found[key].sort()
    return found
