"""Frozen programs from the cache: no pass runs, nothing is compiled, constants are mapped."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.frontend import compile as compiling
from pirkit.frontend import compile_cache, freeze
from pirkit.frontend.files import Program, parse
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.array_file import ARRAYS
from pirkit.runtime.native.cache import ObjectCache
from pirkit.runtime.native.compile_stats import COMPILE_STATS
from tests.whole_program.processes import printed_twice

TEXT = """pir.program @main(%x "x" : tensor<9x300xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<300x70xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<70xf32>
  %s = pd_op.multiply(%w, %v) : (tensor<300x70xf32>, tensor<70xf32>) -> tensor<300x70xf32>
  %y = pd_op.matmul(%x, %s) {transpose_x = false, transpose_y = false} : (tensor<9x300xf32>, tensor<300x70xf32>) -> tensor<9x70xf32>
  %r = pd_op.relu(%y) : (tensor<9x70xf32>) -> tensor<9x70xf32>
  pir.shadow_output(%r) {output_name = "r"} : (tensor<9x70xf32>) -> ()
}"""  # noqa: E501
RANDOM = np.random.default_rng(5)
X, W, V = (RANDOM.standard_normal(s, np.float32) for s in ((9, 300), (300, 70), 70))


def program(**weights: Any) -> Program:
    made = Program(parse(TEXT, format="mlir", name="a.mlir"), {"w": W, "v": V, **weights})
    assert isinstance(made, Program)
    return made


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a name for each time that something is made anew."""
    seen: list[str] = []

    def noted(home: Any, name: str) -> None:
        run = getattr(home, name)

        def note(*given: Any, **named: Any) -> Any:
            seen.append(name)
            return run(*given, **named)

        monkeypatch.setattr(home, name, note)

    noted(freeze, "plan_with")
    noted(freeze, "freeze")
    noted(Executable, "watch")  # which computes constants
    return seen


COLD = ["freeze", "plan_with", "plan_with", "watch"]


def made(**named: Any) -> tuple[Executable, Any]:
    exe = compiling.compile(named.pop("program", None) or program(), freeze=True, **named)
    return exe, exe(x=X)["r"]


def constants(exe: Executable) -> list[Any]:
    return [a for name, a in exe.params.items() if name not in ("w", "v")]


def test_a_second_compilation_does_no_work(store: ObjectCache, work: list[str]) -> None:
    first, wanted = made()
    assert work == COLD
    np.testing.assert_allclose(wanted, np.maximum(X @ (W * V), 0), rtol=1e-4, atol=1e-4)
    before = COMPILE_STATS.copy()
    second, found = made()
    assert work == COLD
    assert COMPILE_STATS.since(before).compiled == 0
    assert repr(second.plan) == repr(first.plan)
    assert second.reasons == first.reasons
    np.testing.assert_array_equal(found, wanted)
    for exe in (first, second):
        assert constants(exe)
        assert all(isinstance(a.base, mmap.mmap) for a in constants(exe))


def test_other_weights_have_other_constants_and_the_same_plan(
    store: ObjectCache, work: list[str]
) -> None:
    made()
    for place in (0, -1):
        work.clear()
        other = W.copy()
        other.reshape(-1)[place] *= 2
        for expected in (["watch"], ["watch"]):
            _, found = made(program=program(w=other))
            assert work == expected  # the second time nothing is added
        wanted = np.maximum(X @ (other * V), 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    work.clear()
    made(program=program(w=np.asfortranarray(W)))
    assert work == []


def test_a_weight_that_changes_afterwards_changes_nothing(store: ObjectCache) -> None:
    mine = W.copy()
    exe, wanted = made(program=program(w=mine))
    mine[...] = 0
    np.testing.assert_array_equal(exe(x=X)["r"], wanted)
    _, found = made(program=program(w=mine))
    assert not found.any()


def test_what_decides_about_the_code_makes_it_anew(
    store: ObjectCache, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made()
    changes: tuple[tuple[str, Any], ...] = (
        ("VERSION", "another"),
        ("host", lambda: "a CPU with other features"),
        ("_distributions", lambda path: "another llvmlite"),
        ("thread_count", lambda: 77),
    )
    for name, value in changes:
        work.clear()
        with monkeypatch.context() as patch:
            patch.setattr(compile_cache, name, value)
            made()
        assert work == COLD
    for options in ({"pipeline": "@simplify"}, {"prim": True}, {"require_native": True}):
        work.clear()
        made(**options)
        assert work[0] == "freeze"
    work.clear()
    made()
    assert work == []


@pytest.mark.parametrize("damage", ["byte", "cut", "other", "gone"])
def test_damaged_constants_are_computed_again(
    store: ObjectCache, work: list[str], damage: str
) -> None:
    _, wanted = made()
    (path,) = store.folder.glob(f"*{ARRAYS}")
    data = bytearray(path.read_bytes())
    data[-data.count(0) // 2] ^= 4
    changed = {"byte": data, "cut": data[:5000], "other": b"numbers" * 9000, "gone": None}[damage]
    path.unlink()  # the first executable has mapped the old file
    if changed is not None:
        path.write_bytes(changed)
        path.chmod(0o600)
    work.clear()
    _, found = made()
    assert work == ["watch"]
    np.testing.assert_array_equal(found, wanted)


def test_a_plan_that_is_gone_is_made_again(store: ObjectCache, work: list[str]) -> None:
    _, wanted = made()
    for path in store.folder.glob("*.o"):
        if b'"plan"' in path.read_bytes():
            path.unlink()
    work.clear()
    _, found = made()
    assert work == COLD
    np.testing.assert_array_equal(found, wanted)


def test_without_a_cache_constants_are_in_memory(
    store: ObjectCache, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, wanted = made()
    monkeypatch.setattr(compile_cache, "user_cache", lambda: None)
    exe, found = made()
    assert not any(isinstance(a.base, mmap.mmap) for a in constants(exe))
    np.testing.assert_array_equal(found, wanted)


PLAIN = """pir.program @main(%x "x" : tensor<9x300xf32>) {
  %r = pd_op.tanh(%x) : (tensor<9x300xf32>) -> tensor<9x300xf32>
  pir.shadow_output(%r) {output_name = "r"} : (tensor<9x300xf32>) -> ()
}"""


def test_a_program_without_constants_is_cached_too(store: ObjectCache, work: list[str]) -> None:
    plain = Program(parse(PLAIN, format="mlir", name="b.mlir"), {"w": W})
    wanted = made(program=plain)[1]
    assert "freeze" in work
    work.clear()
    np.testing.assert_array_equal(made(program=plain)[1], wanted)
    assert work == []


SCRIPT = f"""
import sys
import numpy as np
import pirkit
from pirkit.frontend.files import Program, parse
random = np.random.default_rng(5)
x, w, v = (random.standard_normal(s, np.float32) for s in ((9, 300), (300, 70), 70))
program = Program(parse({TEXT!r}, format="mlir", name="a.mlir"), {{"w": w, "v": v}})
exe = pirkit.compile(program, freeze=True)
print(exe(x=x)["r"].tobytes().hex())
from pirkit.runtime.native.compile_stats import COMPILE_STATS
print("passes" if "pirkit.passes" in sys.modules else "kept", COMPILE_STATS.compiled > 0)
"""


def test_a_second_process_runs_no_pass_and_compiles_nothing(tmp_path: Path) -> None:
    first, second = printed_twice(SCRIPT, str(tmp_path))
    assert first[0] == second[0]
    assert [first[1], second[1]] == ["passes True", "kept False"]
