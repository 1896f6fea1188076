"""The commands of the README run, and end as it shows; so does the Python of every page."""

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


PAGES_WITH_THEIR_OWN_TEST = {"jit.md", "embedding.md"}
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```python\n" in page.read_text() and page.name not in PAGES_WITH_THEIR_OWN_TEST
]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_OTHER = re.compile(r"^```(python|sh) (?!no-run: )", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one page share their names, in order; one that cannot run says why, no-run."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(_PYTHON.findall(page.read_text())):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    assert not _OTHER.search(page.read_text())


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_commands_of_a_page_run(page: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for block in _SHELL.findall(page.read_text()):
        done = subprocess.run(
            ["sh", "-ec", block],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
