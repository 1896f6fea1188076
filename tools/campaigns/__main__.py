"""Runs a campaign by name, or prints the table of several.

python -m tools.campaigns programs --seed 1 --count 3000 --out programs.jsonl
python -m tools.campaigns table programs.jsonl files.jsonl
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from tools.campaigns.driver import main, read, table

NAMES: Final = ("op_table", "programs", "files", "processes", "transforms", "torch_ops")


def run(arguments: list[str]) -> int:
    """Run what the command line asks for; the exit status."""
    name, *rest = arguments or [""]
    if name == "table":
        print(table({Path(path).stem: read(Path(path)) for path in rest}))
        return 0
    if name not in NAMES:
        print(f"campaigns are {', '.join(NAMES)}; `table FILE...` prints what they found")
        return 2
    return main(import_module(f"tools.campaigns.{name}").CAMPAIGN, rest)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
