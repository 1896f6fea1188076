"""Which format a text has, and files that are read and written whole."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import ArtifactError, ParseError, UnsupportedError, UsageError
from pirkit.frontend.files import READERS, WRITERS, detect_format, parse, write_file
from pirkit.runtime.atomic_write import atomic_write

CASE = Path(__file__).parents[2] / "corpus" / "paddle" / "mlp"


@pytest.mark.parametrize(
    ("text", "name", "format"),
    [
        ('{"base_code":', "", "paddle-json"),
        ('\n { "base_code"', "a.txt", "paddle-json"),
        ("{\n    (%0) = ", "a.json", "paddle-text"),
        ("{\n}", "", "paddle-text"),
        ("{\n ^%kwarg", "", "paddle-text"),
        ("builtin.module {", "", "mlir"),
        ('"builtin.module"() ({', "a.txt", "mlir"),
        ("// a comment", "", "mlir"),
        ("pir.program @main", "", "mlir"),
        ("#loc = loc(unknown)", "", "mlir"),
        ("nonsense", "a.mlir", "mlir"),
        ("nonsense", "a.json", "paddle-json"),
    ],
)
def test_the_format_shows_in_the_text(text: str, name: str, format: str) -> None:
    assert detect_format(text, name) == format


@pytest.mark.parametrize(("text", "code"), [("", "PK0102"), (" \n", "PK0102"), ("1", "PK0405")])
def test_a_text_in_no_format(text: str, code: str) -> None:
    with pytest.raises(ParseError) as caught:
        detect_format(text)
    assert caught.value.code == code


SHOWN = ("plan", "dot", "map-expr", "nest", "llvm", "llvm-locations", "asm", "onnx")
"""What is printed for people, and not read again; models of ONNX have tests of their own."""


@pytest.mark.parametrize("format", [f for f in WRITERS if f not in SHOWN])
def test_what_is_saved_loads_as_the_same_program(format: str, tmp_path: Path) -> None:
    program = pirkit.load(CASE / "program.txt")
    pirkit.save(program, tmp_path / "file", format=format)
    again = pirkit.load(tmp_path / "file")
    assert again.module.is_structurally_equivalent(program.module)


def test_weights_go_with_a_json_file(tmp_path: Path) -> None:
    program = pirkit.load(CASE / "model.json")
    pirkit.save(program, tmp_path / "again.json")
    again = pirkit.load(tmp_path / "again.json")
    assert str(again) == str(program)
    assert program.params.keys() == again.params.keys()
    assert program.params
    for name, array in program.params.items():
        np.testing.assert_array_equal(again.params[name], array)
    assert (tmp_path / "again.pdiparams").read_bytes() == (CASE / "model.pdiparams").read_bytes()


def test_a_json_file_lacks_no_weight(tmp_path: Path) -> None:
    program = pirkit.load(CASE / "model.json")
    name, _ = program.params.popitem()
    with pytest.raises(UsageError, match=f"no weight for its parameter `{name}`"):
        pirkit.save(program, tmp_path / "again.json")
    assert not [*tmp_path.iterdir()]
    program.params.clear()
    pirkit.save(program, tmp_path / "again.json")


def test_clusters_of_a_graph_have_names_of_their_own() -> None:
    def f(x: Any) -> Any:
        return pirkit.cond(x.sum() > 0, lambda: x, lambda: x)

    text = WRITERS["dot"](pirkit.trace(f, np.ones(3)).module)
    names = re.findall(r"subgraph (\w+)", text)
    assert len(names) == len(set(names)) == 3
    named = pirkit.trace(lambda größe: größe, np.ones(3))
    assert "größe" in WRITERS["dot"](named.module)


def test_weights_from_another_file(tmp_path: Path) -> None:
    program = pirkit.load(CASE / "program.txt", params=CASE / "params.npz")
    assert program.params.keys() == set(np.load(CASE / "params.npz", allow_pickle=False).files)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (CASE / "program.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    program = pirkit.load("-")
    assert program.source == "<stdin>"
    assert str(program) == str(pirkit.load(CASE / "program.txt"))


def test_line_ends_of_another_system(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes((CASE / "program.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert str(pirkit.load(tmp_path / "a.txt")) == str(pirkit.load(CASE / "program.txt"))


@pytest.mark.parametrize("data", [b"\xef\xbb{", b"{\n\xff"])
def test_a_file_that_is_not_utf8(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(ParseError) as caught:
        pirkit.load(tmp_path / "a.txt")
    assert caught.value.code == "PK0107"


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        pirkit.load(tmp_path / name)
    assert caught.value.code == "PK0506"


def test_every_format_that_is_read_is_written() -> None:
    assert READERS.keys() - WRITERS.keys() == {"stablehlo"}  # which is only read


# --- writing -------------------------------------------------------------------------------------


def test_a_file_appears_with_the_usual_permissions(tmp_path: Path) -> None:
    write_file(str(tmp_path / "a"), "ä")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").read_bytes() == "ä".encode()
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == os.stat(tmp_path / "b").st_mode & 0o777


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")

    def write() -> None:
        with atomic_write(str(target)) as file:
            file.write(b"half")
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  raised two lines above
        write()
    with pytest.raises(UnicodeEncodeError):
        write_file(str(target), "\ud800")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("name", ["missing/a", "folder"])
def test_a_place_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArtifactError) as caught:
        write_file(str(tmp_path / name), "text")
    assert caught.value.code == "PK0506"
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_refuses_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(ArtifactError, match="Permission denied"):
        write_file(str(tmp_path / "a"), "text")
    assert list(tmp_path.iterdir()) == []


def test_a_device_stays_a_device() -> None:
    write_file(os.devnull, "text")
    assert not Path(os.devnull).is_file()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    write_file(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


# --- compiling -----------------------------------------------------------------------------------


def test_backends() -> None:
    program = pirkit.load(CASE / "program.txt")
    with pytest.raises(UnsupportedError) as caught:
        pirkit.compile(program, backend="gpu")
    assert caught.value.code == "PK0403"
    with pytest.raises(UsageError, match="no backend 'tpu'"):
        pirkit.compile(program, backend="tpu")


def test_an_entry_that_the_module_lacks() -> None:
    program = pirkit.load(CASE / "program.txt")
    with pytest.raises(UsageError, match="called @other") as caught:
        pirkit.compile(program, entry="other")
    assert caught.value.help == "it holds @main"
    empty = pirkit.Program(parse("builtin.module {\n}"))
    with pytest.raises(UsageError, match="holds no program"):
        _ = empty.main


def test_passes_change_a_copy() -> None:
    program = pirkit.load(CASE / "program.txt")
    before = str(program)
    pirkit.run_passes(program, "@default")
    pirkit.compile(program)
    assert str(program) == before


def test_importing_pirkit_imports_nothing_heavy() -> None:
    script = (
        "import sys, pirkit; dir(pirkit)\n"
        "heavy = {'numpy', 'xdsl', 'rich', 'llvmlite', 'argparse'} & set(sys.modules)\n"
        "sys.exit(f'imports {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_of_the_package() -> None:
    for name in dir(pirkit):
        assert getattr(pirkit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = pirkit.laod
