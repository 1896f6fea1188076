"""Files that change while a process runs are noticed, whatever their times are set to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pirkit.diag.source_files import Sources, files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.py").write_text("1")
    (inner.parent / "b.py").write_text("2")
    (inner / "__pycache__").mkdir()
    return inner.parent


def begun_after(folder: Path) -> Sources:
    """Of a process that began long after all files were written."""
    latest = max(row[3] for row in files(str(folder)))
    return Sources(folder, latest + 10**9)


def changed(file: Path, text: str) -> None:
    """Write a file of the same size, with the times that it had, later by the system's clock."""
    status = file.stat()
    until = time.monotonic() + 300
    while file.stat().st_ctime_ns == status.st_ctime_ns and time.monotonic() < until:
        file.write_text(text)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_stays_is_known(folder: Path) -> None:
    source_files = begun_after(folder)
    assert source_files.known() is not None
    assert source_files.known() == begun_after(folder).known()
    (folder / "inner" / "__pycache__" / "a.pyc").write_text("code")
    assert source_files.unchanged()
    assert source_files.known() == begun_after(folder).known()


def test_a_file_that_changes_is_noticed(folder: Path) -> None:
    source_files = begun_after(folder)
    known = source_files.known()
    changed(folder / "inner" / "a.py", "3")
    assert begun_after(folder).known() not in (known, None)
    assert source_files.known() == known
    assert not source_files.unchanged()
    assert source_files.known() is None
    assert not source_files.unchanged()


@pytest.mark.parametrize("action", ["added", "removed", "moved"])
def test_files_that_come_and_go_are_noticed(action: str, folder: Path) -> None:
    source_files = begun_after(folder)
    assert source_files.unchanged()
    if action == "added":
        (folder / "c.py").write_text("")
    elif action == "removed":
        (folder / "b.py").unlink()
    else:
        (folder / "b.py").rename(folder / "c.py")
    assert not source_files.unchanged()


def test_what_changed_since_the_process_began_is_not_known(folder: Path) -> None:
    latest = max(row[3] for row in files(str(folder)))
    assert Sources(folder, latest).known() is None
    assert not Sources(folder, latest).unchanged()
    assert Sources(folder / "nothing", latest).known() is None


def test_contents_tell_texts_apart_and_note_a_change(folder: Path) -> None:
    paths = sorted(folder.rglob("*.py"))
    first = begun_after(folder)
    found = first.contents(paths)
    assert not first.changed
    changed(paths[0], "4")
    later = Sources(folder, paths[0].stat().st_ctime_ns)
    assert later.contents(paths) != found
    assert later.changed
    assert later.known() is None


RUN = """
import os, sys
from pathlib import Path
import pirkit
from pirkit.diag import source_files
root = Path(pirkit.__file__).parent
assert str(root).startswith(sys.argv[1])
import pirkit.lowering.codegen.emit.compile
if sys.argv[2]:
    file = root / "lowering" / "codegen" / sys.argv[2]
    file.write_bytes(file.read_bytes() + b"\\n")
import numpy as np
from pirkit import ops
from pirkit.frontend.tracing import trace
x = np.linspace(-1, 1, 64, dtype=np.float32)
exe = pirkit.compile(trace(lambda x: ops.tanh(x) * x + 1.0, (x,)).program)
assert np.allclose(exe(x0=x)["y0"], np.tanh(x) * x + 1)
print(source_files.SOURCES.changed)
"""


@pytest.mark.slow  # a copy of pirkit, and processes that compile
def test_a_process_whose_files_change_keeps_no_code(tmp_path: Path) -> None:
    import pirkit

    shutil.copytree(Path(pirkit.__file__).parent, tmp_path / "pirkit")
    environment = {**os.environ, "PIRKIT_NATIVE_CACHE": "", "PYTHONPATH": str(tmp_path)}
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        environment[name] = str(tmp_path / name)

    def run(changing: str) -> tuple[str, int]:
        time.sleep(0.2)  # a process knows files that changed a tenth of a second before it began
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(tmp_path), changing],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), len(list(tmp_path.glob("XDG_CACHE_HOME/**/*.o")))

    assert run("ir/llvm_text.py") == ("True", 0)
    said, count = run("")
    assert said == "False"
    assert count >= 2
    assert run("emit/generate.py") == ("True", count)
