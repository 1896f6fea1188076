"""The `pirkit-opt` command, flag by flag."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import pirkit
from pirkit.cli.listings import kinds
from pirkit.cli.opt import FORMATS, TARGETS, main
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import READERS, WRITERS

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
FILE = str(CORPUS / "mlp" / "program.txt")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit-opt", *arguments])
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_flags_name_every_format() -> None:
    assert set(FORMATS) == {"auto", *READERS}
    assert set(TARGETS) == set(WRITERS)


def test_a_program_is_printed(run: Run) -> None:
    assert run(FILE) == (0, str(pirkit.load(FILE)), "")


@pytest.mark.parametrize("target", TARGETS)
def test_targets(run: Run, target: str, tmp_path: Path) -> None:
    if target == "onnx":
        pytest.importorskip("onnx")
    code, printed, err = run(FILE, "-t", target)
    assert (code, err) == (0, "")
    assert printed == WRITERS[target](pirkit.load(FILE).module).rstrip("\n") + "\n"
    out = tmp_path / "out"
    assert run(FILE, "-t", target, "-o", str(out)) == (0, "", "")
    assert out.read_text(encoding="utf-8") == printed


def test_the_format_can_be_said(run: Run) -> None:
    assert run(FILE, "-f", "paddle-text")[0] == 0
    code, out, err = run(FILE, "-f", "paddle-json")
    assert (code, out) == (1, "")
    assert err.startswith("error[PK")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_whole(run: Run, tmp_path: Path) -> None:
    """As `pirkit-opt <(command)` gives one: what looks at the format must not take bytes of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = Path(FILE).read_text()
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    assert run(str(pipe)) == run(FILE)
    writer.join()


def test_passes_run_and_tell(run: Run) -> None:
    code, out, err = run(
        FILE, "-p", "cse,dce", "--timing", "--stats", "--remarks", "--print", "after:dce"
    )
    assert code == 0
    assert out == str(pirkit.run_passes(pirkit.load(FILE), "cse,dce"))
    assert err.count("timing: ") == 2
    assert "pir.program @main" in err


def test_a_pass_that_does_not_exist(run: Run) -> None:
    code, out, err = run(FILE, "-p", "csee")
    assert (code, out) == (2, "")
    assert "did you mean" in err


def test_listings(run: Run) -> None:
    code, out, _ = run("--list-passes")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()]
    assert {"cse", "dce", "@default"} <= set(names)
    listed = json.loads(run("--list-passes", "--json")[1])
    assert [row["name"] for row in listed] == names
    assert run("--help-pass", "cse")[1].startswith("cse\n")
    assert run("--help-pass", "nothing")[0] == 2


def test_every_kind_of_op_is_covered(run: Run) -> None:
    code, out, _ = run("--list-ops")
    assert code == 0
    total = len(kinds())
    assert f"signature {total} of {total}, infer_meta {total} of {total}" in out
    assert f"reference {total} of {total}" in out
    rows = json.loads(run("--list-ops", "--json")[1])
    assert "pd_op.matmul" in [row["name"] for row in rows]


def test_the_result_survives_printing(run: Run) -> None:
    assert run(FILE, "--verify-roundtrip", "-p", "@default")[0] == 0


def test_a_result_that_does_not_survive_printing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(module: object, **options: bool) -> str:
        lossy.calls += 1  # type: ignore[attr-defined]
        return print_mlir(module, **options) + "// " * lossy.calls  # type: ignore[arg-type, attr-defined]

    lossy.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setattr("pirkit.cli.transform.print_mlir", lossy)
    code, _, err = run(FILE, "--verify-roundtrip")
    assert code == 70
    assert "does not round-trip" in err


def test_limits(run: Run, tmp_path: Path) -> None:
    assert run(FILE, "--limits", "strict")[0] == 0
    assert run(FILE, "--limits", "none at all")[0] == 2


# --- files of several parts ----------------------------------------------------------------------

PART = 'pir.program @{}(%x "x" : tensor<2xf32>) {{\n}}\n'


def test_parts_are_files_of_their_own(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "parts.mlir"
    path.write_text("// -----\n".join(PART.format(name) for name in ("a", "b")))
    code, out, _ = run(str(path), "--split-input-file")
    assert code == 0
    first, second = out.split("// -----\n")
    assert "@a" in first
    assert "@b" in second


def test_an_error_in_a_part_has_the_line_of_the_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "parts.mlir"
    path.write_text(PART.format("a") + "// -----\n" + "pir.program @b( {\n}\n")
    code, _, err = run(str(path), "--split-input-file")
    assert code == 1
    assert "parts.mlir:4:" in err


def test_a_separator_inside_a_string_separates_nothing(run: Run, tmp_path: Path) -> None:
    program = (CORPUS / "mlp" / "program.txt").read_text(encoding="utf-8")
    program = program.replace('struct_name:"/', 'struct_name:"/\n// -----\n/', 1)
    path = tmp_path / "parts.txt"
    path.write_text(program + "\n// -----\n" + program)
    code, out, err = run(str(path), "--split-input-file")
    assert (code, err) == (0, "")
    assert out.count("\n// -----\n") == 1


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["missing.txt"], 1),
        ([FILE, "--unheard-of"], 2),
        ([FILE, "-t", "tflite"], 2),
        ([FILE, "-o", "missing/folder"], 1),
    ],
)
def test_exit_codes(run: Run, arguments: list[str], code: int) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert err.startswith("error[PK")
    assert "Traceback" not in err


def test_errors_as_json(run: Run) -> None:
    code, out, err = run("missing.txt", "--json")
    assert (code, out) == (1, "")
    assert json.loads(err)["code"] == "PK0506"


def test_as_a_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pirkit-opt")), "-"],
        input=Path(FILE).read_bytes(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == str(pirkit.load(FILE))


def test_xdsl_reads_the_generic_form(run: Run, tmp_path: Path) -> None:
    tool = shutil.which("xdsl-opt", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("xdsl-opt is not installed beside Python")
    path = tmp_path / "a.mlir"
    run(FILE, "-t", "mlir-generic", "-o", str(path))
    done = subprocess.run(
        [tool, "--print-op-generic", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    again = tmp_path / "b.mlir"
    again.write_text(done.stdout)
    assert str(pirkit.load(again)) == str(pirkit.load(FILE))


def test_dump_writes_each_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "dump"
    source = Path(__file__).parents[2] / "corpus" / "paddle" / "while_tanh" / "program.txt"
    arguments = ["pirkit-opt", str(source), "-p", "cse,dce,dce", "--dump", str(folder)]
    monkeypatch.setattr("sys.argv", arguments)
    assert main() == 0
    index = json.loads((folder / "index.json").read_text())
    assert [row["pass"] for row in index["passes"]] == ["cse", "dce", "dce"]
    assert not index["passes"][2]["changed"]
    last = [row["file"] for row in index["passes"] if row["changed"]][-1]
    assert (folder / last).read_text() == capsys.readouterr().out
    assert (folder / "001_cse.diff").read_text().startswith("--- before\n+++ 001_cse\n")


def imported_by(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of pirkit-opt whose standard error names the modules that it imports."""
    code = f"import sys; sys.argv[1:] = {arguments}; from pirkit.cli.opt import main; main()"
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )


def test_reading_and_printing_need_no_compiler() -> None:
    done = imported_by(FILE)
    assert "pirkit.dialect.text" in done.stderr
    assert "llvmlite" not in done.stderr


@pytest.mark.parametrize("suffix", [".mlir", ".txt", ".json"])
def test_files_of_windows_are_read(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They begin with a byte-order mark, and their lines end in two characters."""
    source = Path(__file__).parents[2] / "corpus" / "paddle" / "mlp" / "program.txt"
    kinds = {".mlir": "mlir", ".txt": "paddle-text", ".json": "paddle-json"}
    plain, odd = tmp_path / f"plain{suffix}", tmp_path / f"odd{suffix}"
    monkeypatch.setattr(
        "sys.argv", [*"pirkit-opt -t".split(), kinds[suffix], str(source), "-o", str(plain)]
    )
    assert main() == 0
    odd.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    shown = []
    for path in (plain, odd):
        monkeypatch.setattr("sys.argv", ["pirkit-opt", str(path)])
        assert main() == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""


def modules_after(*arguments: str) -> set[str]:
    """The modules that are imported when pirkit-opt has written its result to nowhere."""
    code = (
        f"import sys; sys.argv[1:] = [*{arguments!r}, '-o', {os.devnull!r}]; "
        "from pirkit.cli.opt import main; main(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["lstm", "pinn_2nd_order", "transformer_encoder"])
def test_reading_and_printing_need_no_numpy(name: str) -> None:
    source = Path(__file__).parents[2] / "corpus" / "paddle" / name / "program.txt"
    imported = modules_after(str(source))
    assert "pirkit.dialect.verify" in imported
    assert not imported & {"numpy", "ml_dtypes"}


def test_a_program_imports_the_families_of_its_ops() -> None:
    families = {m for m in modules_after(FILE) if m.startswith("pirkit.dialect.ops.")}
    assert "pirkit.dialect.ops.linalg.linalg" in families
    assert not families & {"pirkit.dialect.ops.vision", "pirkit.dialect.ops.gradient.gradients_nn"}


def test_help_tells_of_all_passes_and_imports_none() -> None:
    done = imported_by("--help")
    assert all(f"  {name} " in done.stdout for name in ("cse", "fuse", "@default"))
    assert "pirkit.cli.opt" in done.stderr
    assert not any(name in done.stderr for name in ("numpy", "xdsl", "pirkit.passes"))
