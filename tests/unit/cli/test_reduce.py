"""The `pirkit-reduce` command on planted bugs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.cli import slow_oracle
from pirkit.cli.reduce import main
from pirkit.diag.errors import UsageError
from pirkit.frontend.files import parse
from pirkit.passes import PASSES
from tests.unit.cli.test_opt_options import TEXT

PLANTED = "tests.unit.cli.test_opt_options"
CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setitem(PASSES, "sine-to-cosine", f"{PLANTED}:SineToCosine")
    monkeypatch.setitem(PASSES, "failing", f"{PLANTED}:Failing")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit-reduce", *arguments])
        code = main()
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(TEXT)
    return str(path)


def names(text: str) -> list[str]:
    (program,) = parse(text).ops
    return [op.name for op in program.regions[0].block.ops]


def test_wrong_numbers(run: Run, file: str) -> None:
    code, out, err = run(file, "-p", "cse,sine-to-cosine", "--", "numbers")
    assert (code, names(out)) == (0, ["pd_op.sin", "pir.shadow_output"])
    assert err.startswith("8 operations became 4 in ")
    assert "names no outputs" not in err


def test_the_same_error(run: Run, file: str) -> None:
    code, out, _ = run(file, "-p", "failing", "--", "error")
    assert code == 0
    assert "pd_op" not in out


def test_a_program_that_the_verifier_refuses(run: Run, file: str) -> None:
    bad = TEXT.replace(
        "%c = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>",
        "%c = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<3xf32>",
    )
    bad = bad.replace(
        "pd_op.add(%d, %c) : (tensor<2xf32>, tensor<2xf32>)",
        "pd_op.add(%d, %d) : (tensor<2xf32>, tensor<2xf32>)",
    )
    Path(file).write_text(bad)
    code, out, _ = run(file, "--", "error")
    assert code == 0
    assert out.count("pd_op.") == 1
    assert "tensor<3xf32>" in out


def test_nothing_to_reduce(run: Run, file: str) -> None:
    assert run(file, "-p", "cse", "--", "error")[0] == 2
    assert run(file, "-p", "cse", "--", "numbers")[0] == 2
    assert run(file, "-p", "failing", "--", "numbers")[0] == 2
    assert run(file, "--", "fear")[0] == 2


def test_output_goes_to_a_file(run: Run, file: str, tmp_path: Path) -> None:
    out = tmp_path / "small.mlir"
    assert run(file, "-p", "sine-to-cosine", "-o", str(out), "--", "numbers")[1] == ""
    assert names(out.read_text()) == ["pd_op.sin", "pir.shadow_output"]
    assert run(file, "-p", "sine-to-cosine", "-o", "-", "--", "numbers")[1] == out.read_text()


def test_a_command_with_the_same_exit_status(run: Run, file: str) -> None:
    code, out, _ = run(file, "--", "grep", "-q", "pd_op.sin", "{}")
    assert (code, names(out)) == (0, ["pd_op.sin"])
    code, out, _ = run(file, "--", "sh", "-c", "grep -q pd_op.exp $1 && exit 7", "test")
    assert (code, names(out)) == (0, ["pd_op.exp"])


def test_passes_that_make_the_program_slower(
    run: Run, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cosines(module: ModuleOp, backend: str, seed: int) -> float:
        return 1 + sum(op.name == "pd_op.cos" for op in module.walk())

    assert slow_oracle.seconds_of(parse(TEXT), "cpu", 0) > 0
    with pytest.raises(UsageError, match="no program"):
        slow_oracle.seconds_of(ModuleOp([]), "cpu", 0)
    monkeypatch.setattr(slow_oracle, "seconds_of", cosines)
    code, out, _ = run(file, "-p", "sine-to-cosine", "--", "slower")
    assert (code, names(out)) == (0, ["pd_op.sin"])
    code, _, err = run(file, "-p", "cse", "--times", "3", "--", "slower")
    assert code
    assert "the program takes 1.00 of the time, less than 3" in err
