"""`--load`: passes of one's own on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pirkit
from pirkit.cli import opt, reduce, run
from pirkit.diag.errors import UsageError
from pirkit.passes import Pass, PassContext, pass_named, register_pass, registry
from pirkit.passes.dce import DcePass

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "custom_pass.py")
MODEL = str(Path(pirkit.__file__).parent / "samples" / "lenet.json")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    mains = {"pirkit-opt": opt.main, "pirkit-run": run.main, "pirkit-reduce": reduce.main}

    def call(command: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [command, *arguments])
        return (mains[command](), *capsys.readouterr())

    return call


def test_a_pass_from_a_file_runs_with_its_options(call: Run) -> None:
    pipeline = "relu-to-silu{slope=2.0},dce"
    code, out, err = call(
        "pirkit-opt", MODEL, "--load", EXAMPLE, "-p", pipeline, "--stats", "--count", "--json"
    )
    assert code == 0
    counts = json.loads(out)["main"]
    assert (counts["pd_op.silu"], counts["pd_op.scale"]) == (2, 2)
    assert "pd_op.relu" not in counts
    assert "operations rewritten" not in err
    assert "rewritten: 2" in err


OP = """
import numpy as np
from pirkit.dialect.opdef import decompose, infer_meta, op, reference

@op
class Halved:
    name = "loaded.halved"
    signature = "x -> out"

@infer_meta(Halved)
def _(x):
    return x

@reference(Halved)
def _(x):
    return np.asarray(x * 0.5)

@decompose(Halved)
def _(call):
    return call.x * 0.5
"""
PROGRAM = """
pir.program @main(%x "x" : tensor<3xf32>) {
  %y = loaded.halved(%x) : (tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<3xf32>) -> ()
}
"""


def test_a_file_may_declare_ops_alone(tmp_path: Path) -> None:
    ops, program = tmp_path / "ops.py", tmp_path / "p.mlir"
    ops.write_text(OP)
    program.write_text(PROGRAM)
    given = [str(program), "--load", str(ops)]
    commands = (["opt", *given, "-p", "decompose"], ["run", *given, "--inputs", "random:0"])
    for command, *arguments in commands:  # in a process each, as an op is declared once
        module = f"import sys; from pirkit.cli.{command} import main; sys.exit(main())"
        ran = subprocess.run(
            [sys.executable, "-c", module, *arguments], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert "scale" in ran.stdout or command == "run"


def test_its_manual_is_printed(call: Run) -> None:
    code, out, _ = call("pirkit-opt", "--load", EXAMPLE, "--help-pass", "relu-to-silu")
    assert code == 0
    assert "slope = 1.0: a float" in out


def test_other_commands_know_it_too(call: Run) -> None:
    code, out, _ = call(
        "pirkit-run", MODEL, "--load", EXAMPLE, "-p", "relu-to-silu", "--inputs", "random:0"
    )
    assert code == 0
    assert "float32[2, 10]" in out


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, "PK0506", "cannot read"),
        ("x = 1", "PK0701", "defines no op and no pass"),
        ("x = 1\ny = 1 / 0", "PK0701", "ZeroDivisionError"),
        ("def f(:", "PK0701", "SyntaxError"),
    ],
    ids=["missing", "no-pass", "raises", "syntax"],
)
def test_a_bad_file_is_refused(
    call: Run, tmp_path: Path, text: str | None, code: str, said: str
) -> None:
    path = tmp_path / "my_pass.py"
    if text is not None:
        path.write_text(text)
    exit_code, out, err = call("pirkit-opt", MODEL, "--load", str(path), "-p", "dce")
    assert (exit_code in (1, 2), out) == (True, "")
    assert f"error[{code}]" in err
    assert said in err
    if said == "ZeroDivisionError":
        assert "my_pass.py:2" in err


def test_a_pass_that_fails_names_its_line(call: Run, tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(
        "from pirkit.passes import Pass\n\n"
        "class Failing(Pass):\n    name = 'failing'\n\n"
        "    def run(self, ctx, module):\n        raise KeyError('unforeseen')\n"
    )
    code, _, err = call("pirkit-opt", MODEL, "--load", str(path), "-p", "dce,failing")
    assert code == 3
    assert f"raised in run, {path}:7" in err
    assert f"pirkit-opt --load {path} --run-reproducer" in err


def test_names_of_pirkit_s_own_passes_are_not_replaced() -> None:
    class Other(Pass):
        name = "dce"

        def run(self, ctx: PassContext, module: object) -> None: ...

    with pytest.raises(UsageError, match="belongs to another pass"):
        register_pass(Other)
    assert pass_named("dce") is DcePass


def test_passes_of_installed_packages_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pirkit.passes]\nmine = my_package:Mine\nbroken = my_package:Missing\n"
    )
    (tmp_path / "my_package.py").write_text(
        "from pirkit.passes import Pass\n\nclass Mine(Pass):\n    name = 'mine'\n"
        "    def run(self, ctx, module):\n        ctx.remark('analysis', 'was here')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_add_plugins", type(registry._add_plugins)(_again))
    _, found = pirkit.run_passes(pirkit.load(MODEL), ["mine", "dce"], stats=True)
    assert [remark.message for remark in found.remarks] == ["was here"]
    with pytest.raises(UsageError, match="cannot be imported from `my_package:Missing`"):
        pass_named("broken")


_again = registry._add_plugins._make


def test_lists_of_passes_hold_passes_and_strings() -> None:
    program = pirkit.load(MODEL)
    with pytest.raises(UsageError, match="made of passes and of strings"):
        pirkit.run_passes(program, [3])  # type: ignore[list-item]
    wanted = str(pirkit.run_passes(program, "dce"))
    assert str(pirkit.run_passes(program, [DcePass()])) == wanted
    assert str(pirkit.run_passes(program, [DcePass])) == wanted
