"""How pirkit answers in Python: representations, errors, copies, settings and messages."""

from __future__ import annotations

import copy
import logging
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.entry import run_main
from pirkit.diag.errors import PirkitError, UsageError
from pirkit.diag.settings import SETTINGS, Setting, check_choices, chosen, setting
from pirkit.frontend.tracing import trace as record
from pirkit.runtime.native.cores import allowed_threads
from tests.frontend.wrong_calls import EXE, PROGRAM, WRONG, X, square_sum

ROOT = Path(__file__).parents[2]


@pirkit.jit
def halved(x: Any) -> Any:
    return x / 2


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_gets_a_sentence(name: str) -> None:
    call, code, words = WRONG[name]
    with pytest.raises(PirkitError) as caught:
        call()
    assert caught.value.code == code
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.help


def test_tracebacks_show_the_remedy() -> None:
    with pytest.raises(PirkitError) as caught:
        pirkit.compile(3)
    caught.value.add_note("seen by a user")
    shown = "".join(traceback.format_exception(caught.value))
    assert "help: `pirkit.load(path)`" in shown
    assert shown.rstrip().endswith("`pirkit explain PK0701` prints its page\nseen by a user")


@pytest.mark.parametrize("module", ["pirkit", "pirkit.numpy"])
def test_a_misspelt_name_is_corrected(module: str) -> None:
    code = f"import {module}\n{module}.{'tesnor' if module == 'pirkit' else 'sqrtt'}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "Did you mean: '" + ("tensor'" if module == "pirkit" else "sqrt'") in done.stderr


# --- representations ---


def test_representations_are_short() -> None:
    assert repr(PROGRAM).startswith("<Program @main of ")
    assert repr(EXE).startswith("<Executable @main(x: float64[3]) -> (y0: float64[]), ")
    assert repr(halved) == "<jit of halved>"
    seen: list[str] = []
    record(lambda x: (seen.append(repr(x)), x)[1], [X])
    assert seen == ["Traced(tensor<3xf64>)"]
    big = pirkit.from_numpy(np.ones((1000, 1000)))
    for each in (big, PROGRAM, EXE, halved, pirkit.config):
        assert len(repr(each)) < 500


def test_notebooks_get_escaped_html() -> None:
    program = pirkit.trace(square_sum, X)
    program.source = "<script>"
    assert "<script>" not in program._repr_html_()
    assert "tensor&lt;3xf64&gt;" in program._repr_html_()
    assert "<td>y0</td>" in EXE._repr_html_()
    assert "float32" in pirkit.tensor([1.0])._repr_html_()


def test_regions_fold_in_notebooks() -> None:
    html = pirkit.load(ROOT / "tests/corpus/paddle/if_else/program.txt")._repr_html_()
    summaries = re.findall(r"<details( open)?><summary>\s*(\S+)", html)
    assert summaries[:2] == [(" open", "builtin.module"), (" open", "pir.program")]
    assert summaries[2:] == [("", "%9"), ("", "}")]  # `} else {`
    assert html.count("<details") == html.count("</details>") == len(summaries) == 4


def test_an_executable_names_inputs_and_outputs() -> None:
    (taken,), (given,) = EXE.inputs, EXE.outputs
    assert (taken.name, taken.shape, str(taken.dtype)) == ("x", (3,), "float64")
    assert (given.name, given.shape, str(given.dtype)) == ("y0", (), "float64")


# --- copies ---


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_programs_and_what_is_compiled_are_copied(copied: Any) -> None:
    weights = np.ones(3)
    program = pirkit.trace(lambda x: (x * weights).sum(), X)
    other = copied(program)
    assert str(other) == str(program)
    assert other.params.keys() == program.params.keys()
    for name, array in other.params.items():
        assert array is not program.params[name]
    executable = pirkit.compile(program)
    again = copied(executable)
    np.testing.assert_array_equal(again(x=2 * X)["y0"], executable(x=2 * X)["y0"])
    assert copied(halved) is halved  # as other functions are: by name
    assert again.run.__self__ is not executable


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_one_native_call_is_one(copied: Any) -> None:
    """`kthvalue` has a native form only where all operations are decomposed."""
    program = pirkit.trace(lambda x: pirkit.ops.kthvalue(x, 2)[0], X)
    assert pirkit.compile(program).native is None
    assert copied(pirkit.compile(program, require_native=True)).native is not None


@pytest.mark.parametrize("make", [pirkit.jit, pirkit.to_static])
def test_a_function_without_a_name_of_its_own_is_pickled_by_its_function(make: Any) -> None:
    again = pickle.loads(pickle.dumps(make(square_sum, static_argnums=())))
    np.testing.assert_allclose(again(X), 3.0)


def test_pickled_functions_run_in_other_processes(tmp_path: Path) -> None:
    made = tmp_path / "f.pickle"
    made.write_bytes(pickle.dumps((halved, EXE)))
    code = (
        f"import pickle, numpy as np; f, e = pickle.load(open({str(made)!r}, 'rb'));"
        "print(f(np.float64(3)).item(), e(x=np.ones(3))['y0'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["1.5", "3.0"], done.stderr


# --- settings and messages ---


def test_settings_hold_inside_a_with_statement() -> None:
    before = allowed_threads()
    with pirkit.config(threads=1, fused="nest", cache="off"):
        assert (pirkit.config.threads, pirkit.config.fused) == (1, "nest")
        assert setting("PIRKIT_NATIVE_CACHE") == "off"
        assert allowed_threads() == 1
        with pirkit.config(fused="native"):
            assert (pirkit.config.threads, pirkit.config.fused) == (1, "native")
        with pirkit.config(threads=None, fused=None, cache_dir=None):
            assert (pirkit.config.threads, pirkit.config.fused) == (1, "nest")
            assert pirkit.config.cache_dir != "None"
        assert "fused='nest'" in repr(pirkit.config)
    assert allowed_threads() == before
    with pirkit.threads(1):
        assert allowed_threads() == 1


def test_settings_of_the_process_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIRKIT_PRIM", "forward")
    assert pirkit.config.prim == "forward"
    pirkit.config.prim = "0"
    pirkit.config.threads = 1
    try:
        assert (pirkit.config.prim, allowed_threads()) == ("0", 1)
    finally:
        pirkit.config.prim = pirkit.config.threads = None
    assert pirkit.config.prim == "forward"
    assert allowed_threads() > 1
    with pytest.raises(UsageError, match="`prim` is not"):
        pirkit.config.prim = "maybe"


@pytest.mark.parametrize("s", [s for s in SETTINGS.values() if s.choices], ids=lambda s: s.name)
def test_other_values_in_the_environment_are_refused(
    s: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By compilation and by every command."""
    monkeypatch.setenv(s.variable, "maybe")
    for call in (lambda: pirkit.compile(PROGRAM), lambda: check_choices()):
        with pytest.raises(UsageError, match=f"{s.variable} is 'maybe'") as caught:
            call()
        assert caught.value.code == "PK0705"
    ran: list[int] = []
    assert run_main(lambda: ran.append(0)) == 2
    assert not ran
    monkeypatch.setenv(s.variable, s.choices[0].lower())
    assert chosen(s.variable) == s.choices[0]


def test_the_cache_can_have_a_folder_of_its_own(tmp_path: Path) -> None:
    with pirkit.config(cache_dir=tmp_path, cache="on"):
        pirkit.compile(pirkit.trace(lambda x: x * 1.5 + 0.123, X))(x=X)
    assert any(path.is_file() for path in tmp_path.rglob("*"))


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    for known in SETTINGS.values():
        assert f"| `{known.name}` | `{known.variable}` |" in page


def test_compiling_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    f = pirkit.jit(lambda x: x + 1)
    with caplog.at_level(logging.INFO, logger="pirkit"):
        f(X)
        f(np.ones(4))
        f(np.ones(4))
    first, second = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert "first call: x tensor<3xf64>" in first
    assert "shape (3,) -> (4,)" in second


def test_programs_are_compared_by_identity() -> None:
    """Their weights are arrays, which have no truth value when they are compared."""
    first = pirkit.trace(lambda x: x * 2.0, np.ones(2))
    other = pirkit.Program(first.module, {"w": np.ones(2)})
    assert first != other
    assert other != pirkit.Program(first.module, {"w": np.ones(2)})
    assert {first: 1, other: 2}[other] == 2
