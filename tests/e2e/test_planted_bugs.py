"""Bugs planted in passes, rules, fusion and the split are named by `--bisect`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import pirkit
from pirkit.dialect.operation import PirOp
from pirkit.dialect.text import parse_mlir
from pirkit.frontend import kernel_check
from pirkit.frontend.derivative_check import difference_quotient
from pirkit.frontend.kernel_check import check_kernels, check_module
from pirkit.frontend.numeric_check import NumberCheck
from pirkit.passes import run_pipeline
from tools.planted_bugs import BUGS, CORPUS

ROOT = Path(__file__).parents[2]
SHORT = [
    "cse ignores attributes",
    "a wrong equation",
    "decomposition of gelu",
    "derivative of tanh",
    "a kernel loads another element",
    "only shapes are saved",
    "the backward reads a later version",
    "derivative in a loop",
    "Taylor series of sin",
    "a loop loses its counter",
    "constants under wrong names",
]


def test_bisect_names_some_of_them() -> None:
    """In a process of its own: templates of derivatives are cached, wrong ones as well."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.planted_bugs", *SHORT],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PIRKIT_NATIVE_CACHE": "off"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_are_in_all_parts() -> None:
    rooms = [bug.room for bug in BUGS.values()]
    assert {"passes", "rules", "fusion", "split"} == {*rooms}
    assert all(rooms.count(room) >= 4 for room in rooms)


@pytest.mark.parametrize("name", BUGS)
def test_what_they_replace_is_there(name: str) -> None:
    assert hasattr(BUGS[name].owner, BUGS[name].name)


@pytest.mark.parametrize("name", ["while_tanh", "if_else"])
def test_halves_that_exchange_stacks_are_checked(name: str) -> None:
    module = pirkit.load(str(CORPUS / name / "program.txt")).module
    with mock.patch.object(kernel_check, "check_kernels", wraps=check_kernels) as asked:
        run_pipeline(module, "split,@default")
        assert check_module(module, "cpu") is None
    saved = asked.call_args.args[-1]
    stacks = [v for k, v in saved.items() if k.startswith("middle") and isinstance(v, list)]
    assert stacks
    assert all(stacks), "a stack is empty: the loop ran not once"


def test_labels_and_stopped_gradients_are_no_wrong_derivatives() -> None:
    text = """pir.program @main(%x "x" : tensor<4xf32>, %l "l" : tensor<4xf32>) {
      %a = pd_op.tanh(%x) {stop_gradient = array<i1: true>} : (tensor<4xf32>) -> tensor<4xf32>
      %y = pd_op.sigmoid_cross_entropy_with_logits(%a, %l)
        {normalize = false, ignore_index = -100 : i32}
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pir.shadow_output(%y) {output_name = "y"} : (tensor<4xf32>) -> ()
    }"""
    assert difference_quotient(parse_mlir(text)) is None


def test_writes_that_change_nothing_may_go() -> None:
    """Batch norm in inference writes its statistics as they were; `functionalize` drops that."""
    module = pirkit.load(str(CORPUS / "dropout_eval" / "program.txt")).module
    check = NumberCheck.of(module)
    run_pipeline(module, "functionalize,dce")
    assert check.difference(module) is None


def test_writes_that_change_something_may_not_go() -> None:
    module = pirkit.load(str(CORPUS / "buffer_update" / "program.txt")).module
    check = NumberCheck.of(module)
    *_, last = (o for o in module.walk() if isinstance(o, PirOp) and o.definition.writes)
    written, target = last.operands
    later = last.next_op
    while later is not None:  # the outputs stay as they are
        later.operands = [written if o is target else o for o in later.operands]
        later = later.next_op
    last.detach()
    last.erase()
    found = check.difference(module)
    assert found is not None
    assert "written" in found.what
