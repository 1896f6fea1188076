"""The `pirkit` command: explain, doctor, version."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pirkit.cli.main import main
from pirkit.diag.codes import CODES
from pirkit.diag.version import VERSION


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit", *arguments])
        code = main()
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize("name", ["PK0203", "pk0203"])
def test_explain_prints_the_page(run, name: str) -> None:
    assert run("explain", name) == (0, CODES["PK0203"].page(), "")


def test_explain_as_json(run) -> None:
    code, out, _ = run("explain", "PK0203", "--json")
    assert code == 0
    assert json.loads(out) == {
        "code": "PK0203",
        "title": CODES["PK0203"].title,
        "page": CODES["PK0203"].page(),
    }


def test_explain_renders_markdown_on_a_terminal(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, out, _ = run("explain", "PK0203")
    assert code == 0
    assert "PK0203" in out
    assert "## Fix" not in out


def test_list_has_every_code(run) -> None:
    code, out, _ = run("explain", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(CODES)
    _, out, _ = run("explain", "--list", "--json")
    assert [row["code"] for row in json.loads(out)] == list(CODES)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("explain", "PK203"), "did you mean `PK0203`"),
        (("explain", "nonsense"), "`pirkit explain --list` prints all"),
        (("explain",), "either a code or --list"),
        (("explain", "PK0203", "--list"), "either a code or --list"),
        (("explian", "PK0203"), "did you mean `explain`?"),
        (("explain", "--lst"), "did you mean `--list`"),
        (("doctor", "--unheard-of"), "it is `pirkit doctor [OPTIONS]`"),
        ((), "the following arguments are required"),
    ],
)
def test_wrong_use(run, arguments: tuple[str, ...], text: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error[PK0701]: ")
    assert text in err


def test_doctor_knows_the_machine(run) -> None:
    code, out, _ = run("doctor", "--json")
    assert code == 0
    report = json.loads(out)
    assert list(report) == ["pirkit", "python", "packages", "extras", "cpu", "gpu", "cache"]
    assert report["pirkit"]["version"] == VERSION
    assert report["cache"]["writable"] in ("yes", "no")


def test_doctor_prints_a_table(run) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert out.startswith("pirkit ")
    assert "blas" in out


def test_version_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['pirkit', '--version']\n"
        "from pirkit.cli.main import main\n"
        "code = main()\n"
        "heavy = {'numpy', 'xdsl', 'rich', 'llvmlite'} & set(sys.modules)\n"
        "sys.exit(f'imports {heavy}' if heavy else code)\n"
    )
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    spent = os.times()
    seconds = spent.children_user + spent.children_system
    seconds -= before.children_user + before.children_system
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pirkit {VERSION}\n", "")
    assert seconds < 1, "far more than the 0.1 s of CPU time that it takes"
