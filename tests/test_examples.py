"""The examples run, and say what the pages about them say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pirkit

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_euler_beam() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "euler_beam.py")],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "gradients of 4 layers" in done.stdout
    assert float(done.stdout.rsplit(" ", 1)[1]) < 1e-10


def test_embedding() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "embedding.py")],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    first, last = map(float, re.findall(r"loss (\S+) -> (\S+) in", done.stdout)[0])
    assert last < first / 10
    assert "buffers copied: 0" in done.stdout


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_call_counter() -> None:
    lines = run("call_counter.py").splitlines()
    assert lines[-1] == "2 [6. 6. 6.] [6. 6. 6.] calls [3. 3. 3.]"


def test_recurrence() -> None:
    first, last = map(float, re.findall(r"loss (\S+) -> (\S+) in", run("recurrence.py"))[0])
    assert last < first / 1000


def test_custom_pass(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "custom_pass.py")],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "'relu-to-silu': {'rewritten': 2}" in done.stdout
    written = pirkit.load(tmp_path / "lenet_silu.json")
    assert written.params
    assert str(written).count("pd_op.silu") == 2
