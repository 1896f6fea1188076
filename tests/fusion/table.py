"""The table of captured programs in docs/fusion.md; `python -m tests.fusion.table` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pirkit.frontend.files import load
from pirkit.lowering.fusion.fuse_pass import FusePass
from pirkit.passes import run_pipeline
from pirkit.passes.base import PassContext

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fusion.md"
CORPUS = ROOT / "tests" / "corpus" / "paddle"
BEFORE = "@simplify,functionalize,decompose,constant-fold,canonicalize,cse,dce"
HEAD = "| program | ops | kernels | bytes before | bytes after |\n| --- | --: | --: | --: | --: |\n"
OPEN = "open"
"""What stands for bytes that only the program's inputs tell."""


def rows() -> Iterator[str]:
    """A row for each program of which something is fused."""
    for path in sorted(CORPUS.glob("*/program.txt")):
        module = load(path).module
        run_pipeline(module, BEFORE)
        context = PassContext("fuse", ops=sum(1 for _ in module.walk()))
        FusePass().run(context, module)
        found = context.stats
        if not found["kernels"]:
            continue
        moved = [f"{found[k]:,}" if found[k] else OPEN for k in ("before", "after")]
        cells = [path.parent.name, f"{found['fused']}", f"{found['kernels']}", *moved]
        yield f"| {' | '.join(cells)} |\n"


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    start = text.index("| program |")
    end = text.find("\n\n", start)
    rest = text[end:] if end >= 0 else ""
    return text[:start] + (HEAD + "".join(rows())).rstrip("\n") + (rest or "\n")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
