"""The options of `pirkit-opt` that look into pipelines, guard them, and test."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.cli.opt import main
from pirkit.dialect.operation import make
from pirkit.passes import PASSES, Pass, PassContext
from pirkit.passes.replace_ops import replace

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
LOOP = str(CORPUS / "while_tanh" / "program.txt")
TEXT = """pir.program @main(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %d = pd_op.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.add(%d, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""
Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class SineToCosine(Pass):
    """Copies exponentials, which is right, and takes a sine for a cosine, which is not."""

    name = "sine-to-cosine"

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        wrong = {"pd_op.exp": "pd_op.exp", "pd_op.sin": "pd_op.cos"}
        for op in list(module.walk()):
            if op.name in wrong:
                ctx.rewrote(op.name.removeprefix("pd_op."), op)
                new = make(wrong[op.name], list(op.operands))
                replace(op, new.results, [new])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Failing(Pass):
    """Meets something it did not expect."""

    name = "failing"

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        raise KeyError("unforeseen")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(PASSES, "sine-to-cosine", f"{__name__}:SineToCosine")
    monkeypatch.setitem(PASSES, "failing", f"{__name__}:Failing")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit-opt", *arguments])
        code = main()
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(TEXT)
    return str(path)


# --- checking ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--check", "--check=each"])
def test_numbers_that_stay_the_same(run: Run, flag: str) -> None:
    code, out, err = run(LOOP, "-p", "@default", flag, "--seed", "3")
    assert (code, err) == (0, "")
    assert out == run(LOOP, "-p", "@default")[1]


@pytest.mark.parametrize(
    ("flag", "culprit"), [("--check", "the pipeline"), ("--check=each", "pass `sine-to-cosine`")]
)
def test_numbers_that_change(run: Run, file: str, flag: str, culprit: str) -> None:
    code, out, err = run(file, "-p", "cse,sine-to-cosine,dce", flag, "--seed", "7")
    assert (code, out) == (3, "")
    assert err.startswith(
        f"error[PK0804]: {culprit} changed the numbers of @main: output `y`: 2 of 2 differ"
    )
    assert "seed 7" in err


def test_check_takes_no_other_word(run: Run, file: str) -> None:
    assert run(file, "--check=all")[0] == 2


def test_bisection_names_the_pass_and_the_rewrite(run: Run, file: str) -> None:
    code, out, err = run(file, "-p", "canonicalize,sine-to-cosine,dce", "--bisect")
    assert (code, err) == (3, "")
    assert out.startswith(
        f"pass 2: sine-to-cosine\nrewrite 3 of 3: sin at {file}:4:3\n  of `pd_op.sin`\nbreaks: "
    )


def test_bisection_of_a_pass_that_fails(run: Run, file: str) -> None:
    code, out, _ = run(file, "-p", "dce,failing", "--bisect")
    assert code == 3
    assert "pass 2: failing\nrewrite: none; the pass fails as a whole\n" in out


def test_bisection_without_a_culprit(run: Run, file: str) -> None:
    nothing = "no pass breaks the program, and no kernel computes wrong numbers\n"
    assert run(file, "-p", "@default", "--bisect") == (0, nothing, "")
    assert run(file, "--bisect")[0] == 2


# --- expected diagnostics ------------------------------------------------------------------------

BAD = """pir.program @bad(%x "x" : tensor<2xf32>) {{
  // expected-error @{place} {{{{{text}}}}}
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<3xf32>
}}
"""


@pytest.mark.parametrize(
    ("place", "text", "code"),
    [
        ("+1", "PK0202", 0),
        ("below", "PK0202", 0),
        ("+1", "PK0203", 1),
        ("above", "PK0202", 1),
        ("unknown", "PK0202", 1),
    ],
)
def test_expected_errors(run: Run, tmp_path: Path, place: str, text: str, code: int) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(TEXT + "// -----\n" + BAD.format(place=place, text=text))
    found, out, err = run(str(path), "--split-input-file", "--expect-diagnostics")
    assert (found, out) == (code, "")
    if code:
        assert err.startswith("error[PK0603]: 2 diagnostics differ")
        assert "missing: error" in err
        assert "unexpected: error at line 12" in err


def test_lines_of_expected_errors_end_with_a_line_feed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(f"// a page\f\u2028 that ends\n{BAD.format(place='+1', text='PK0202')}")
    assert run(str(path), "--expect-diagnostics") == (0, "", "")


def test_expected_remarks(run: Run, file: str) -> None:
    comment = "// expected-remark @unknown {{`dce` should come after `cse`}}\n"
    Path(file).write_text(comment.replace("cse", "canonicalize") + TEXT)
    assert run(file, "-p", "dce,canonicalize", "--expect-diagnostics") == (0, "", "")
    assert run(file, "-p", "canonicalize,dce", "--expect-diagnostics")[0] == 1


# --- looking -------------------------------------------------------------------------------------


def test_ids_stay_with_their_operations(run: Run, file: str) -> None:
    ids = re.compile(r"op_id = (\d+)")
    assert ids.findall(run(file, "--ids")[1]) == list("012345")
    assert ids.findall(run(file, "-p", "cse", "--ids")[1]) == list("02345")


def test_timing_to_a_file(run: Run, file: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    code, _, err = run(file, "-p", "cse,dce", f"--timing={trace}")
    assert (code, err) == (0, "")
    events = json.loads(trace.read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["cse", "verify cse", "dce", "verify dce"]
    assert events[0]["args"] == {"rewrites": 1}
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in events)
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)


def test_a_flag_with_an_optional_value_does_not_take_the_file(run: Run, file: str) -> None:
    assert run("--timing", file, "-p", "cse")[2].startswith("timing: cse ")


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [("", True), ("=analysis", True), ("=analysis:canonicalize", False), ("=missed", False)],
)
def test_remarks_are_filtered(run: Run, file: str, wanted: str, shown: bool) -> None:
    code, _, err = run(file, "-p", "dce,canonicalize", f"--remarks{wanted}")
    assert code == 0
    assert ("remark: analysis: dce: " in err) == shown


@pytest.mark.parametrize("wanted", ["some", "missed:csee"])
def test_remarks_that_do_not_exist(run: Run, file: str, wanted: str) -> None:
    assert run(file, "-p", "dce", f"--remarks={wanted}")[0] == 2


def test_rewrites_are_traced(run: Run, file: str) -> None:
    err = run(file, "-p", "cse,sine-to-cosine", "--trace-rewrites")[2]
    exp = "pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>"
    assert err.startswith(f"// cse: merge at {file}:3:3\n- %b = {exp}\n+ %a\n")
    assert f"// sine-to-cosine: exp at {file}:2:3\n- %a = {exp}\n+ " in err
    assert "= pd_op.cos(%x)" in err.splitlines()[-1]


def test_a_removed_operation_is_traced(run: Run, file: str) -> None:
    Path(file).write_text(TEXT.replace("(%d, %c)", "(%d, %d)"))
    assert run(file, "-p", "dce", "--trace-rewrites")[2].splitlines()[-1] == "+ (nothing)"


# --- reproducers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pipeline", "flag", "code"),
    [
        ("cse,failing,dce", ("--check=each",), "PK0801"),
        ("cse,sine-to-cosine", ("--check=each",), "PK0804"),
    ],
)
def test_a_failure_can_be_seen_again(
    run: Run, file: str, pipeline: str, flag: tuple[str, ...], code: str
) -> None:
    found, _, err = run(file, "-p", pipeline, "--seed", "5", *flag)
    assert found == 3
    path = Path(err.partition("--run-reproducer ")[2].partition("`")[0])
    held = path.read_text()
    assert f"// pipeline: {pipeline.split(',')[1]}\n// seed: 5\n" in held
    assert held.count("pd_op.exp") == 1, "it holds the module behind `cse`"
    found, out, again = run("--run-reproducer", str(path))
    assert (found, out) == (3, "")
    assert again.startswith(f"error[{code}]: ")
    assert run("--run-reproducer", str(path), "-p", "cse")[0] == 2


def test_a_file_that_is_no_reproducer(run: Run, file: str) -> None:
    code, _, err = run("--run-reproducer", file)
    assert code == 1
    assert "is no reproducer" in err


def test_a_reproducer_that_cannot_be_written(
    run: Run, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    code, _, err = run(file, "-p", "failing")
    assert code == 3
    assert "no reproducer could be written" in err
