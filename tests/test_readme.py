"""The commands of the README run, and end as it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands() -> list[tuple[str, bool]]:
    """Each command of the console blocks, and whether it is shown to fail."""
    found: list[tuple[str, bool]] = []
    for block in _BLOCK.findall((ROOT / "README.md").read_text()):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output.startswith("error[")))
    return found


@pytest.mark.parametrize(("command", "fails"), commands(), ids=lambda c: str(c)[:40])
def test_command_runs(command: str, fails: bool, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for word in ("-o lenet.json",):
        command = command.replace(word, f"-o {tmp_path}/lenet.json")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert (done.returncode != 0) == fails, done.stderr
    assert "Traceback" not in done.stderr
