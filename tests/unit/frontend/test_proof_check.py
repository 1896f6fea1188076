"""What a pass did is proved, refuted by an element, or tested."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.diag.errors import PassError, UsageError
from pirkit.dialect.operation import PirOp, make
from pirkit.dialect.text import parse_mlir
from pirkit.passes import run_pipeline
from pirkit.passes.base import Pass, PassContext
from pirkit.passes.replace_ops import replace

pytest.importorskip("z3", reason="proofs need z3-solver")

from pirkit.frontend.proof_check import CheckProof, ProofReport

Build = Callable[[Any], None]


def module_of(build: Build) -> ModuleOp:
    b = pirkit.ProgramBuilder()
    build(b)
    return b.finish().module


def reports(build: Build, pipeline: Any) -> list[ProofReport]:
    module = module_of(build)
    check = CheckProof(module)
    run_pipeline(module, pipeline, watchers=[check])
    return check.reports


def verdicts(build: Build, pipeline: Any) -> dict[str, str]:
    return {v.output: v.how for r in reports(build, pipeline) for v in r.verdicts}


def moved(b: Any) -> None:
    x = b.input("x", (2, 3, 4), "float32")
    t = b("pd_op.transpose", x, perm=[1, 0, 2])
    b.output("t", b("pd_op.transpose", t, perm=[2, 1, 0]))


def joined(b: Any) -> None:
    x = b.input("x", (4, 6), "float32")
    both = b("pd_op.concat", [x, b("pd_op.flip", x, axis=[1])], axis=0)
    part = b("pd_op.slice", both, axes=[0], starts=[2], ends=[6])
    wide = b("pd_op.expand", b.reshape(part, (1, 24)), shape=[3, 24])
    b.output("y", b.tanh(wide) * 2.0)


def softmax(b: Any) -> None:
    x = b.input("x", (3, 5), "float32")
    b.output("y", b.softmax(x, axis=-1))


def wide(b: Any) -> None:
    x, y = b.input("x", (3, 4), "float32"), b.input("y", (4,), "float32")
    b.output("s", b("pd_op.sum", x * 3.0 + x * y, axis=[1]))


@dataclass(frozen=True)
class Rewriting(Pass):
    """Puts another op in the place of each op of a name; it has no effect on others."""

    target: str

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, PirOp) and op.name == self.target:
                new = self.made(op)
                if new is not None:
                    replace(op, new.results, [new])

    def made(self, op: PirOp) -> PirOp | None:
        raise NotImplementedError


@dataclass(frozen=True)
class Merge(Rewriting):
    """Two transposes become one: in the right order, or in the wrong one."""

    name = "merge"
    target: str = "pd_op.transpose"
    right: bool = False

    def made(self, op: PirOp) -> PirOp | None:
        above = op.operands[0].owner
        if not isinstance(above, PirOp) or above.name != op.name:
            return None
        one, other = above.attribute("perm"), op.attribute("perm")
        perm = [one[k] for k in other] if self.right else [other[k] for k in one]
        return make(op.name, [above.operands[0]], {"perm": perm})


@dataclass(frozen=True)
class Swap(Rewriting):
    """Operands change places."""

    name = "swap"
    target: str = "pd_op.add"

    def made(self, op: PirOp) -> PirOp | None:
        return make(op.name, list(op.operands)[::-1])


def test_one_transpose_for_two_is_proved() -> None:
    assert verdicts(moved, [Merge(right=True)]) == {"t": "proved exactly"}


def test_inputs_may_be_arguments_of_the_program() -> None:
    """As in programs of the textual form, where no op stands for an input."""
    module = parse_mlir(
        """
        pir.program @main(%x "x" : tensor<2x3xf32>, %z "z" : tensor<2x3xf32>) {
          %a = pd_op.transpose(%x) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
          %b = pd_op.transpose(%a) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
          %y = pd_op.subtract(%b, %z) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
          pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
        }""",
        "arguments",
    )
    check = CheckProof(module)
    run_pipeline(module, [Merge(right=True)], watchers=[check])
    (report,) = check.reports
    assert not report.tested
    assert "pd_op.subtract" in report.proved


def test_transposes_in_the_wrong_order_are_refuted_by_an_element() -> None:
    def cube(b: Any) -> None:
        t = b("pd_op.transpose", b.input("x", (3, 3, 3), "float32"), perm=[1, 0, 2])
        b.output("t", b("pd_op.transpose", t, perm=[2, 1, 0]))

    told = r"t\[(\d), (\d), (\d)\] was x\((.*)\), and is x\((.*)\)"
    with pytest.raises(PassError, match=told) as caught:
        verdicts(cube, [Merge()])
    assert caught.value.code == "PK0804"
    found = re.search(told, caught.value.message)
    assert found is not None
    at = tuple(map(int, found.groups()[:3]))
    x = np.arange(27).reshape(3, 3, 3)
    (was, now) = (x[tuple(map(int, g.split(", ")))] for g in found.groups()[3:])
    assert x.transpose(1, 0, 2).transpose(2, 1, 0)[at] == was != now


def test_parts_of_what_is_joined_are_proved() -> None:
    found = reports(joined, "@simplify,functionalize,decompose,fuse")
    assert {v.how for r in found for v in r.verdicts} == {"proved exactly"}
    assert not any(r.tested for r in found)


def test_a_fused_kernel_with_reductions_is_proved_and_its_decomposition_tested() -> None:
    found = {r.pass_name: r for r in reports(softmax, "decompose,fuse")}
    assert [v.how for v in found["decompose"].verdicts] == ["tested"]
    assert "pd_op.exp" in found["decompose"].tested
    assert [v.how for v in found["fuse"].verdicts] == ["proved exactly"]
    assert str(found["fuse"]).startswith("proof: pass `fuse`: ")


def test_a_sum_in_another_order_is_equal_over_the_reals() -> None:
    assert verdicts(wide, [Swap()]) == {"s": "proved over the reals"}


def test_a_difference_the_other_way_round_is_found_by_running_it() -> None:
    def minus(b: Any) -> None:
        b.output("y", b.tanh(b.input("x", (3,), "float32") - b.input("z", (3,), "float32")))

    with pytest.raises(PassError, match="changed the numbers of @main: output `y`"):
        verdicts(minus, [Swap("pd_op.subtract")])


def test_draws_are_only_tested() -> None:
    def drawn(b: Any) -> None:
        b.output("y", b("pd_op.uniform", shape=[3], dtype="float32", min=0.0, max=1.0, seed=3,
                        place=None) * 2.0)  # fmt: skip

    (report,) = reports(drawn, "cse")
    assert [v.because for v in report.verdicts] == [
        "`pd_op.uniform` is no function of its operands"
    ]


def test_without_z3_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(UsageError, match="needs the package z3-solver") as caught:
        CheckProof(module_of(moved))
    assert "pip install z3-solver" in str(caught.value.help)
