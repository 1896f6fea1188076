"""Bugs planted in the code generator and in the memory plan are found, and their kernels named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.cli import run
from pirkit.diag.errors import InternalError, RuntimeFault, UsageError
from pirkit.dialect.text import print_mlir
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import WRITERS, Program
from pirkit.frontend.kernel_check import check_kernels, check_whole
from pirkit.frontend.random_inputs import random_inputs
from pirkit.frontend.suspects import native_lines, native_plan, parts_ran
from pirkit.frontend.tracing import trace
from pirkit.lowering import instruction_check, interpreted_step, kernel_watch
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loop_ir import Nest
from pirkit.lowering.kernel_facts import inside_stage
from pirkit.lowering.native_ops import FUSED
from pirkit.runtime.dtype import float32
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import Call
from tests.codegen.planted import PLANTS, RANKED, REDUCED, planted, program_of
from tests.execution import parsed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    """What the tools say of each bug, in a process that no other test shares caches with."""
    environment = {**os.environ, "PIRKIT_NATIVE_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.codegen.planted"],
        capture_output=True, text=True, env=environment, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", PLANTS)
def test_bisect_names_the_kernel_and_its_emitter(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    plant, found = PLANTS[name], reports[name]
    assert (found["code"], found["sound"]) == (3, 0)
    assert "no pass breaks the program" in found["text"]
    first = found["text"].split("\n    at ")[0]
    assert not plant.op or f" = {plant.op}(" in first
    named = (
        f"emitted by {plant.emitter}"
        if plant.op and plant.emitter.endswith(".py")
        else plant.emitter
    )
    assert named in first
    for words in plant.also:
        assert words in found["text"]


@pytest.mark.parametrize("name", RANKED)
def test_bisect_ranks_the_file_with_the_bug(name: str, reports: dict[str, dict[str, Any]]) -> None:
    ranked = reports[name]["text"].split("most suspicious files: ")[1].splitlines()[0].split(", ")
    assert RANKED[name] in [Path(file).name for file in ranked[:3]]


@pytest.mark.parametrize("name", REDUCED)
def test_reduce_keeps_the_wrong_kernel(name: str, reports: dict[str, dict[str, Any]]) -> None:
    assert reports[name]["size"] < min(10, reports[name]["before"])


def checked(function: Any, *given: Any) -> str:
    program = run_passes(Program(trace(function, given).program.module), "@default")
    report = check_kernels(program.main, "cpu")
    assert not report
    return "\n".join(report.lines())


def test_a_kernel_that_cannot_be_compiled_is_named() -> None:
    """Such as after a wrong rewrite of loops, whose checks fail."""

    def refuse(*_: Any) -> None:
        raise InternalError("loop nest: operand 1 leaves its buffer")

    x = np.ones((4, 5), np.float32)
    program = run_passes(
        Program(trace(lambda x: ops.tanh(x) + 1.2345, [x]).program.module), "@default"
    )
    with (
        mock.patch("pirkit.lowering.native_fused.FusedKernel", refuse),
        pytest.raises(InternalError) as caught,
    ):
        check_kernels(program.main, "cpu")
    assert any("pir.map_expr : (tensor<4x5xf32>)" in note for note in caught.value.notes)
    assert any("kernel fn_tanh_0" in note for note in caught.value.notes)


def test_right_kernels_pass() -> None:
    def step(x: Any, w: Any) -> Any:
        hidden = ops.dropout(
            ops.tanh(ops.matmul(x, w)), None, 0.5, False, "upscale_in_train", 0, False
        )
        return ops.softmax(ops.reshape(hidden, [5, 14]), -1)

    given = np.ones((10, 6), np.float32), np.ones((6, 7), np.float32)
    assert "kernels are right" in checked(step, *given)
    assert checked(lambda x: ops.tanh(x) + 1.25, given[0]).endswith(": 1 kernel is right")


def test_rounding_that_is_enlarged_is_no_bug() -> None:
    def step(x: Any, w: Any) -> Any:
        y = ops.matmul(x, w)
        return ops.cos(ops.matmul(ops.tanh(y) + y * 20.0, w))

    given = np.ones((300, 300), np.float32)
    assert "kernels are right" in checked(step, given, given)


def test_each_instruction_has_the_line_that_emits_it() -> None:
    program = run_passes(
        Program(trace(lambda x: ops.exp(x).sum(1), [np.ones((4, 77), np.float32)]).program.module),
        "@default",
    )
    plain, located = (
        str(WRITERS[target](program.module)).splitlines() for target in ("llvm", "llvm-locations")
    )
    assert [line.partition("  ; pirkit/")[0] for line in located] == plain
    assert any("emit/nest_reductions.py" in line for line in located if " = select <" in line)
    places = [line.partition("  ; ")[2] for line in located if " = call <" in line]
    assert places
    assert all(re.fullmatch(r"pirkit/lowering/codegen/\S+\.py:\d+", p) for p in places)


def test_pending_derivatives_are_expanded_before_a_check(tmp_path: Path) -> None:
    text = print_mlir(trace(pirkit.grad(lambda x: ops.tanh(x).sum()), (np.ones(3),)).program.module)
    (tmp_path / "gradient.mlir").write_text(text)
    for pipeline in ([], ["-p", ""]):
        command = ["pirkit-run", "--check", str(tmp_path / "gradient.mlir"), *pipeline]
        with mock.patch.object(sys, "argv", command):
            assert run.main() == 0


def test_a_wrong_whole_program_is_found() -> None:
    program = Program(parsed(program_of(PLANTS["row tail"])))
    assert check_whole(program, 0, {}) is None
    with planted(PLANTS["row tail"]):
        wrong = check_whole(program, 0, {})
    assert "output `y0`" in str(wrong)


def refuses(*_: Any) -> Any:
    raise RuntimeFault("an index does not lie in [0, 3)")


def test_a_kernel_that_refuses_what_the_reference_computes_is_wrong() -> None:
    x = np.ones((4, 5), np.float32)
    program = Program(trace(lambda x: ops.cumsum(ops.roll(x, [1], [0]), 0), [x]).program.module)
    bound = instruction_check.Checked.bound

    def refusing(self: Any) -> Any:
        made = bound(self)
        if made is not None and self.binding.op == "pd_op.cumsum":
            made.inner = refuses
        return made

    with mock.patch.object(instruction_check.Checked, "bound", refusing):
        report = check_kernels(program.main, "cpu", sought="")
    [fault] = report.faults
    assert fault.what == "it refuses what the reference computes: an index does not lie in [0, 3)"
    assert "pd_op.cumsum" in fault.instruction


def test_a_native_call_that_refuses_what_the_reference_computes_is_wrong() -> None:
    x = np.ones((4, 5), np.float32)
    program = Program(trace(lambda x: ops.tanh(x) * 2.0, [x]).program.module)
    with mock.patch.object(NativeProgram, "over_cells", refuses):
        wrong = check_whole(program, 0, {}, sought="")
    assert wrong is not None
    assert wrong.startswith("it does not run: error[")


def test_a_process_that_dies_outside_of_kernels_does_not_hide_a_wrong_one() -> None:
    """Such as after a kernel that wrote outside of its memory."""
    plant = PLANTS["lowering"]
    program = run_passes(Program(parsed(program_of(plant))), "@default")
    in_child = kernel_watch._in_child
    answers: Iterator[Any] = chain([lambda *_: "it ends the process by SIGABRT"], repeat(in_child))

    def dies_once(*given: Any) -> Any:
        return next(answers)(*given)

    with planted(plant), mock.patch.object(kernel_watch, "_in_child", dies_once):
        report = check_kernels(program.main, "cpu")
    assert report.faults[0].emitters == (plant.emitter,)


def test_check_raises_for_a_wrong_kernel() -> None:
    plant = PLANTS["lowering"]
    program = run_passes(Program(parsed(program_of(plant))), "@default")
    with planted(plant):
        report = check_kernels(program.main, "cpu")
    assert report.faults[0].emitters == (plant.emitter,)
    with pytest.raises(RuntimeFault, match="1 of 1 kernels are wrong") as raised:
        report.require_right()
    assert raised.value.code == "PK0909"


@pytest.mark.parametrize("name", [n for n, p in PLANTS.items() if p.op == "pir.map_expr"])
def test_loop_nests_are_interpreted(name: str) -> None:
    program = Program(parsed(program_of(PLANTS[name])))
    right = pirkit.compile(program, backend="reference")
    inputs = random_inputs(right.plan.inputs, 0)
    nested = pirkit.compile(program, fused="nest")
    for output, found in nested.run(inputs).items():
        np.testing.assert_allclose(found, right.run(inputs)[output], rtol=1e-5, atol=1e-5)
    assert "nest" in {c.kernel.key.backend for c in nested.library.choices(FUSED, float32, {})}


@pytest.mark.parametrize("fused", ["nest", "interpret"])
def test_interpreters_run_fused_kernels(fused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((30, 77)).astype(np.float32)
    program = Program(trace(lambda x: ops.softmax(ops.tanh(x), -1), (x,)).program.module)
    right = pirkit.compile(program, backend="reference")(x0=x)["y0"]
    with planted(PLANTS["row tail"]):
        found = pirkit.compile(program, fused=fused)(x0=x)["y0"]
        monkeypatch.setenv("PIRKIT_FUSED", fused)
        again = pirkit.compile(program)(x0=x)["y0"]
    np.testing.assert_allclose(found, right, rtol=1e-5)
    np.testing.assert_array_equal(found, again)


def test_the_loops_of_matmuls_print_and_are_interpreted() -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(np.float32) for s in ((301, 400), (400, 310)))
    program = Program(trace(lambda x, y: ops.tanh(ops.matmul(x, y) * 0.1), (x, y)).program.module)
    text = WRITERS["nest"](run_passes(program, "@default").module)
    for words in ("reduce sum tx * ty", "schedule: block and pack", "microkernel a2[", "for k0 in"):
        assert words in text
    right = pirkit.compile(program, backend="reference")(x0=x, x1=y)["y0"]
    with planted(PLANTS["microkernel"]):
        found = pirkit.compile(program, fused="nest")(x0=x, x1=y)["y0"]
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["small matmul", "attention"])
def test_calls_that_stand_for_several_are_interpreted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of a routine of theirs is not met, since nothing of it is emitted."""
    nests: list[Nest] = []

    def run(nest: Nest, buffers: Any) -> None:
        nests.append(nest)
        run_loops(nest, buffers)

    monkeypatch.setattr(interpreted_step, "run_loops", run)
    program = Program(parsed(program_of(PLANTS[name])))
    right = pirkit.compile(program, backend="reference")
    inputs = random_inputs(right.plan.inputs, 0)
    with planted(PLANTS[name]):
        nested = pirkit.compile(program, pipeline="@default", fused="nest").run(inputs)
    assert len(nests) == 1
    for output, found in nested.items():
        np.testing.assert_allclose(found, right.run(inputs)[output], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("stage", "runs", "rests"),
    [
        ("lowering of the MapExpr to loop nests", "statement_nest.py", "loop_rewrites.py"),
        ("loops are wrong before any rewrite", "plain_loops.py", "loop_rewrites.py"),
        ("loops are wrong after `hoist`", "loop_rewrites.py", "nest_writer.py"),
        ("so the LLVM writer is wrong", "nest_writer.py", "schedule.py"),
    ],
)
def test_the_lines_of_a_stage_are_those_that_run_in_it(stage: str, runs: str, rests: str) -> None:
    """A line of another stage weighs less if that one is wrong."""
    x = np.ones((30, 77), np.float32)
    program = Program(trace(lambda x: ops.softmax(ops.tanh(x), -1), (x,)).program.module)
    lines = native_lines(lambda: native_plan(program, "segments"), inside_stage(stage))
    files = {Path(file).name for file, _ in lines}
    assert runs in files
    assert rests not in files


def test_the_ops_of_a_kernel_are_compared_alone() -> None:
    x = np.ones((30, 77), np.float32)
    program = Program(trace(lambda x: ops.sin(ops.exp(x)), (x,)).program.module)
    (call,) = native_plan(program, "kernels").body
    assert isinstance(call, Call)
    with planted(PLANTS["exp"]):
        found = parts_ran(call.kernel, [TensorMeta((30, 77), float32)], call.attrs)
    assert [is_right for _, is_right in found] == [False, True]


def test_an_unknown_interpreter_is_refused() -> None:
    program = Program(trace(lambda x: x, (np.ones(2, np.float32),)).program.module)
    with pytest.raises(UsageError, match="nothing called `llvm` runs fused kernels"):
        pirkit.compile(program, fused="llvm")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "nest",
            [
                "parallel for i0 in 30:",
                "t2 = reduce max t1",
                "store a5, t6",
                "// schedule: parallelize i0, vectorize r0.0",
                "vector for r0.0v in 0 .. ",
            ],
        ),
        (
            "llvm",
            [
                "define void @pirkit_kernel",
                "; $1 = pir.map_expr($0)",
                "codegen/emit/nest_writer.py",
            ],
        ),
        ("asm", ["pirkit_kernel:", "# $1 = pir.map_expr($0)", "strategy rows"]),
    ],
)
def test_each_stage_of_a_kernel_prints(target: str, words: list[str]) -> None:
    x = np.ones((30, 77), np.float32)
    program = Program(trace(lambda x: ops.softmax(ops.tanh(x), -1), (x,)).program.module)
    text = WRITERS[target](run_passes(program, "@default").module)
    for word in words:
        assert word in text
