"""The table of saved bytes in docs/split.md: ``python -m tests.split.saved_bytes`` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pirkit.frontend.files import load
from pirkit.split import SplitParts, forward_backward
from pirkit.split.merge import joined
from pirkit.split.save_or_recompute import MODES
from tests.split.paddle_names import names_of

FOLDER = Path(__file__).parents[1] / "corpus" / "paddle"
CASES = sorted(p.parent for p in FOLDER.glob("*/backward.txt"))


@lru_cache
def of_paddle(folder: Path, mode: str) -> SplitParts:
    """Paddle's halves, put together and split by us."""
    forward, backward = (load(folder / f"{n}.txt").main for n in ("forward", "backward"))
    program, roles = joined(forward, backward, names_of(folder))
    return forward_backward(program, roles=roles, mode=mode)


@lru_cache
def of_ours(folder: Path, mode: str) -> SplitParts:
    """The program before the split, differentiated and split by us."""
    return forward_backward(load(folder / "program.txt"), mode=mode)


def rows() -> Iterator[str]:
    """A line for each case in which something is kept: Paddle's gradients, then ours."""
    for folder in CASES:
        splits = [split(folder, mode) for split in (of_paddle, of_ours) for mode in MODES]
        found = [parts.report.bytes for parts in splits]
        if any(found):
            yield f"| `{folder.name}` | " + " | ".join(f"{n:,}" for n in found) + " |"


if __name__ == "__main__":
    print(*rows(), sep="\n")
