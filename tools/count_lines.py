"""Counts the lines of `pirkit` by room at some commits: `python tools/count_lines.py REV...`.

Ops with their rules and kernels are counted apart, and so are the interfaces to other projects:
rooms and files that read their programs or offer their functions.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

INTERFACES = {"torch", "onnx", "stablehlo", "deepxde", "paddle", "frontend/paddle"}
GROUPS = (("pirkit/dialect/ops", "ops, rules"), ("pirkit/dialect/rules", "ops, rules"),
          ("pirkit/runtime/kernels", "kernels"), ("pirkit/frontend/numpy", "frontend/numpy_*"),
          ("pirkit/frontend/array_", "frontend/numpy_*"),
          ("pirkit/frontend/paddle/", "frontend/paddle"))  # fmt: skip


def git(*words: str, given: bytes = b"") -> bytes:
    return subprocess.run(["git", *words], input=given, capture_output=True, check=True).stdout


def lines_of(commit: str) -> Counter[str]:
    """Lines of Python files by group."""
    names = git("ls-tree", "-r", "--name-only", commit, "pirkit").decode().split("\n")
    names = [name for name in names if name.endswith(".py")]
    asked = "".join(f"{commit}:{name}\n" for name in names).encode()
    text, found, at = git("cat-file", "--batch", given=asked), Counter[str](), 0
    for name in names:
        begin = text.index(b"\n", at) + 1
        at = begin + int(text[at:begin].split()[-1]) + 1
        parts = name.split("/")
        room = parts[1] if len(parts) > 2 else "(top)"
        group = next((g for prefix, g in GROUPS if name.startswith(prefix)), room)
        found[group] += text.count(b"\n", begin, at - 1)
    return found


def main() -> None:
    columns = {commit: lines_of(commit) for commit in sys.argv[1:] or ["HEAD"]}
    counts = list(columns.values())
    groups = sorted({g for c in counts for g in c}, key=lambda g: -max(c[g] for c in counts))
    is_interface = {g: g in INTERFACES or g == "frontend/numpy_*" for g in groups}
    core = [g for g in groups if not is_interface[g] and g not in ("ops, rules", "kernels")]
    interfaces = [g for g in groups if is_interface[g]]
    rows = [(g, [g]) for g in ("ops, rules", "kernels")] + [(g, [g]) for g in core]
    rows += [("without ops, rules, kernels, interfaces", core)] + [(g, [g]) for g in interfaces]
    rows += [("interfaces", interfaces), ("all", groups)]
    print(f"{'':36}" + "".join(f"{commit[:10]:>12}" for commit in columns))
    for title, parts in rows:
        print(f"{title:36}" + "".join(f"{sum(c[p] for p in parts):12,}" for c in counts))


if __name__ == "__main__":
    main()
