"""The `pirkit-run` command: programs, and captured cases."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.cli import compare_commits, profile_run
from pirkit.cli.run import main
from pirkit.diag.errors import UsageError
from pirkit.frontend.arrays import read_npz, write_npz

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus" / "paddle"
MLP = CORPUS / "mlp"
FILE = str(MLP / "program.txt")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit-run", *arguments])
        code = main()
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A case that recorded a wrong number."""
    case = Path(shutil.copytree(MLP, tmp_path / "broken"))
    arrays = read_npz(str(case / "outputs.npz"))
    arrays["step1/0"] = arrays["step1/0"] + np.float32(1)
    write_npz(str(case / "outputs.npz"), arrays)
    return str(case)


def test_a_program_on_recorded_inputs(run: Run, tmp_path: Path) -> None:
    recorded = read_npz(str(MLP / "inputs.npz"))
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    write_npz(str(inputs), {k[6:]: v for k, v in recorded.items() if k.startswith("step1/")})
    code, out, err = run(
        FILE,
        *("--params", str(MLP / "params.npz")),
        *("--inputs", str(inputs)),
        *("--outputs", str(outputs)),
        *("--repeat", "3", "--timing"),
    )
    assert code == 0
    assert "float32[4, 3]" in out
    assert "of 3\n" in err
    (found,) = read_npz(str(outputs)).values()
    expected = read_npz(str(MLP / "outputs.npz"))["step1/0"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_random_inputs_can_be_drawn_again(run: Run) -> None:
    first = run(FILE, "--inputs", "random:1", "--json")
    assert first[0] == 0
    assert np.shape(next(iter(json.loads(first[1]).values()))) == (4, 3)
    assert run(FILE, "--inputs", "random:1", "--json") == first
    assert run(FILE, "--inputs", "random:2", "--json") != first
    assert run(FILE, "--inputs", "random:x")[0] == 2


def test_numbers_that_json_lacks_are_words(run: Run, tmp_path: Path) -> None:
    """So that any reader of JSON takes them. The name of the program is no UTF-8."""
    program, page = tmp_path / os.fsdecode(b"caf\xe9.mlir"), tmp_path / "page.html"
    program.write_text(
        'pir.program @main(%x "x" : tensor<3xf32>) {\n'
        "  %y = pd_op.log(%x) : (tensor<3xf32>) -> tensor<3xf32>\n"
        '  pir.shadow_output(%y) {output_name = "y"} : (tensor<3xf32>) -> ()\n}\n'
    )
    np.savez(tmp_path / "x.npz", x=np.array([0, -1, np.inf], np.float32))
    common = (str(program), "--inputs", str(tmp_path / "x.npz"))
    code, out, _ = run(*common, "--json")
    assert (code, json.loads(out)) == (0, {"y": ["-INF", "NaN", "INF"]})
    assert run(*common, "--report", str(page))[0] == 0
    assert "caf\\udce9.mlir" in page.read_text()


def test_inputs_after_random_ones_replace_them(run: Run, tmp_path: Path) -> None:
    """So do those of a file whose name begins with the word."""
    program = tmp_path / "program.mlir"
    program.write_text(
        'pir.program @main(%x "x" : tensor<2xf32>) {\n'
        "  %z = pd_op.complex(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>\n"
        '  pir.shadow_output(%z) {output_name = "z"} : (tensor<2xcomplex<f32>>) -> ()\n}\n'
    )
    x = np.array([1, 2], np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "random_x.npz", x=x)
    for given in (f"random:0,x={tmp_path / 'x.npy'}", str(tmp_path / "random_x.npz")):
        code, out, _ = run(str(program), "--inputs", given, "--json")
        assert (code, json.loads(out)) == (0, {"z": [[1.0, 1.0], [2.0, 2.0]]})
        assert run("--check", str(program), "--inputs", given)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        ([FILE, FILE], 2),
        ([FILE, "--backend", "tpu"], 2),
        ([FILE, "--inputs", "missing.npz"], 1),
        ([FILE, "--entry", "other"], 2),
        (["--check"], 2),
    ],
)
def test_wrong_use(run: Run, arguments: list[str], code: int) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert err.startswith("error[PK")


def test_a_case_that_passes(run: Run) -> None:
    code, out, _ = run("--check", str(MLP), str(CORPUS / "nested_outputs"), "--from", "json")
    assert code == 0
    assert "1 passed, 0 failed, 1 skipped" in out


def test_a_case_that_fails(run: Run, broken: str) -> None:
    code, out, _ = run("--check", str(MLP), broken)
    assert code == 1
    assert "FAIL broken: output 0: error " in out
    assert "1 passed, 1 failed, 0 skipped" in out


def test_reports_as_json(run: Run, broken: str) -> None:
    code, out, _ = run("--check", str(MLP), broken, "--json")
    assert code == 1
    assert [(r["name"], r["status"]) for r in json.loads(out)] == [
        ("mlp", "pass"),
        ("broken", "FAIL"),
    ]


def test_plain_files_are_passed_over(run: Run) -> None:
    code, out, err = run("--check", str(CORPUS / "README.md"), str(MLP))
    assert code == 0
    assert "1 passed, 0 failed, 0 skipped" in out
    assert f"skipping {CORPUS / 'README.md'}: a case is a folder" in err


def test_a_folder_that_does_not_exist_is_a_failure(run: Run) -> None:
    code, out, _ = run("--check", "nowhere", str(MLP))
    assert code == 1
    assert "FAIL nowhere: " in out
    assert "1 passed, 1 failed" in out


@pytest.mark.parametrize("file", ["meta.json", "inputs.npz", "program.txt"])
def test_a_truncated_case_is_a_row(run: Run, broken: str, file: str) -> None:
    path = Path(broken, file)
    path.write_bytes(path.read_bytes()[:-200])
    code, out, err = run("--check", broken)
    assert code == 1
    assert "FAIL broken: error[PK" in out
    assert "Traceback" not in out + err


def test_two_processes(run: Run) -> None:
    code, out, _ = run("--check", str(MLP), str(CORPUS / "if_else"), "--jobs", "2")
    assert code == 0
    assert "2 passed" in out


def test_a_profile(run: Run, tmp_path: Path) -> None:
    common = (FILE, "--inputs", "random:0", "--repeat", "2")
    code, out, _ = run("--profile", *common, "--json")
    rows = json.loads(out)
    (matmul, *_) = [row for row in rows if row["instruction"] == "pd_op.matmul"]
    (m, k), (_, n) = ([int(d) for d in re.findall(r"(\d+)x", t)] for t in matmul["inputs"])
    assert code == 0
    assert matmul["flops"] == 2 * m * k * n
    assert matmul["bytes"] == 4 * (m * k + k * n + m * n)
    assert all(0 <= row["roofline"] <= 1 and row["us"] >= 0 for row in rows)
    assert "GFLOP/s" in run("--profile", *common)[1]
    stacks, trace = tmp_path / "stacks.txt", tmp_path / "trace.json"
    assert run(f"--profile={stacks}", *common)[0] == run(f"--profile={trace}", *common)[0] == 0
    assert re.search(r"program.txt:\d+;pd_op.matmul \d+\n", stacks.read_text())
    assert len(json.loads(trace.read_text())["traceEvents"]) == len(rows)


@pytest.mark.parametrize(("flags", "runs"), [((), 20), (("--repeat", "1"), 1)])
def test_a_profile_runs_as_often_as_asked(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], runs: int
) -> None:
    asked: list[int] = []
    once = profile_run.profile

    def profile(exe: Any, inputs: Any, repeat: int) -> Any:
        asked.append(repeat)
        return once(exe, inputs, 1)

    monkeypatch.setattr(profile_run, "profile", profile)
    assert run("--profile", FILE, "--inputs", "random:0", *flags)[0] == 0
    assert asked == [runs]


def test_a_profile_tells_the_kernels_of_native_segments(run: Run) -> None:
    """Two LSTM cells in one native call: each of the 5 steps, written out, has a row."""
    program = str(CORPUS / "lstm" / "program.txt")
    common = ("--profile", program, "--inputs", "random:0", "--repeat", "2", "--json")
    rows = json.loads(run(*common)[1])
    assert not any(row["instruction"] == "pir.segment" for row in rows)
    cells = [r for r in rows if r["inputs"] == ["tensor<2x6xf32>", "tensor<24x6xf32>"]]
    assert [row["flops"] for row in cells] == [2 * 2 * 6 * 24] * 2 * 5
    separate = json.loads(run(*common, "-p", "@default")[1])
    flops = [
        sum(r["flops"] for r in each if "matmul" in r["instruction"]) for each in (rows, separate)
    ]
    assert flops[0] == flops[1]


def test_a_comparison_of_pipelines(run: Run) -> None:
    common = (FILE, "--inputs", "random:0", "--repeat", "2", "--compare")
    code, out, _ = run(*common, "@simplify", "@default")
    assert code == 0
    assert re.search(r"^fused kernels|^instructions", out, re.MULTILINE)
    assert out.endswith("the numbers agree\n")


@pytest.mark.slow  # starts Python four times
def test_compare_two_commits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are the code that is here, where there may be no repository."""
    monkeypatch.setattr(compare_commits, "_code", lambda name, folder: ROOT)
    common = (FILE, "--inputs", "random:0", "--repeat", "2", "--json", "--compare")
    code, out, _ = run(*common, "git:HEAD:@fused", "@simplify")
    found = json.loads(out)
    assert (code, found["differences"]) == (0, {})
    first, second = found["pipelines"]
    assert first["instructions"] < second["instructions"]
    assert first["run_us"] > 0 < first["bytes"] < second["bytes"]


def test_the_code_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    (tmp_path / "pirkit").mkdir()
    monkeypatch.setattr(compare_commits, "_ROOT", tmp_path)
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run([*git, "init", "-q"], check=True)
    for text in ("first", "second"):
        (tmp_path / "pirkit" / "a.py").write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)
    code = compare_commits._code("git:HEAD~1:cse", tmp_path / "one")
    assert (code / "pirkit" / "a.py").read_text() == "first"
    assert compare_commits._code("cse", tmp_path / "two") == tmp_path
    with pytest.raises(UsageError, match="no commit `HEAD~7`"):
        compare_commits._code("git:HEAD~7", tmp_path / "three")
