"""Commands end with an exit code and a diagnostic, never with a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Never

import pytest

from pirkit.diag.entry import INTERRUPTED, PIPE_CLOSED, run_main
from pirkit.diag.errors import ParseError, PassError, UsageError, VerifyError
from pirkit.diag.source import source_line
from pirkit.diag.span import Span


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pirkit"])
    monkeypatch.delenv("PIRKIT_DEBUG", raising=False)


def raising(error: BaseException) -> Never:
    raise error


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1)])
def test_exit_code_is_what_the_command_returns(returned: int | None, code: int) -> None:
    assert run_main(lambda: returned) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(ParseError("a"), 1), (VerifyError("a"), 1), (UsageError("a"), 2), (PassError("a"), 3)],
)
def test_error_is_shown_and_gives_its_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(lambda: raising(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[PK0")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (SystemExit(), 0),
        (SystemExit(2), 2),
        (SystemExit("text"), 1),
        (KeyboardInterrupt(), INTERRUPTED),
    ],
)
def test_ending_without_a_diagnostic(
    ending: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(lambda: raising(ending)) == code
    assert capsys.readouterr() == ("", "")


def test_missing_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(lambda: raising(MemoryError())) == 1
    assert capsys.readouterr().err.startswith("error[PK0901]: out of memory")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (ValueError("two\nlines"), "ValueError: two lines"),
    ],
)
def test_anything_else_is_a_bug_of_ours(
    error: Exception, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(lambda: raising(error)) == 70
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error[PK9000]: {message}")
    assert "report it" in second


def test_traceback_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIRKIT_DEBUG", "1")
    assert run_main(lambda: raising(KeyError("x"))) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_missing_file_is_an_input_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(lambda: open("no/such/file").close()) == 1
    assert capsys.readouterr().err == (
        "error[PK0506]: cannot use `no/such/file`: no such file or directory\n"
        "  --> no/such/file\n"
        "  = help: there is no folder no/such\n"
    )


def test_os_error_without_details_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(lambda: raising(OSError("odd"))) == 1
    assert capsys.readouterr().err == "error[PK0506]: cannot write: odd\n"


def test_json_is_asked_for_by_a_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pirkit", "--json"])
    assert run_main(lambda: raising(UsageError("a"))) == 2
    assert json.loads(capsys.readouterr().err)["code"] == "PK0700"


def test_excerpt_is_shown_from_a_file_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.txt"
    path.write_text("the line\n")
    error = ParseError("bad", span=Span(str(path), 1, 5, 4))
    assert run_main(lambda: raising(error)) == 1
    assert "the line" not in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["pirkit", f"--input={path}"])
    assert run_main(lambda: raising(error)) == 1
    assert "1 | the line\n  |     ^^^^\n" in capsys.readouterr().err


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a bash script in which $PIRKIT is the command; its exit code is the command's."""
    prelude = f"unset PYTHONUNBUFFERED; PIRKIT='{sys.executable} -m pirkit.cli.main'"
    command = f"{prelude}; {script}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("$PIRKIT explain --list | true", PIPE_CLOSED),
        ("$PIRKIT --help | true", PIPE_CLOSED),
        ("$PIRKIT explain --list >&-", 0),
        ("$PIRKIT explain PK9999 2>&-", 2),
        ("cd $(mktemp -d); rmdir $PWD; $PIRKIT explain --list", 0),
    ],
)
def test_closed_streams_are_silent(script: str, code: int) -> None:
    done = shell(script)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("columns", ["0", "\u00b2"])
def test_an_error_is_shown_for_any_number_of_columns(columns: str) -> None:
    done = shell(f"COLUMNS={columns} $PIRKIT explain PK9999")
    assert (done.returncode, done.stderr[:13]) == (2, "error[PK0701]")


def test_closed_input_is_empty() -> None:
    done = shell("$PIRKIT diff - - <&-")
    assert (done.returncode, done.stderr[:13]) == (1, "error[PK0102]")


def test_bug_found_in_pirkit_names_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    def bug() -> int:
        source_line("a", "not a number")  # pyright: ignore[reportArgumentType]
        return 0

    assert run_main(bug) == 70
    assert " in diag/source.py:" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["explain --list", "--help"])
def test_full_disk_is_an_input_error(arguments: str) -> None:
    done = shell(f"$PIRKIT {arguments} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "error[PK0506]: cannot write: no space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_does_not_hide_an_earlier_error() -> None:
    script = "from pirkit.diag.entry import *; run_main(lambda: print('text') or 1 / 0)"
    done = shell(f'{sys.executable} -c "{script}" >/dev/full')
    assert done.stderr.startswith("error[PK9000]: ZeroDivisionError")
    assert "Exception ignored" not in done.stderr


def test_output_that_the_terminal_cannot_show_is_escaped() -> None:
    done = shell("PYTHONIOENCODING=ascii $PIRKIT explain \N{GREEK SMALL LETTER BETA}")
    assert done.returncode == 2
    assert "there is no error code `\\u03b2`" in done.stderr
