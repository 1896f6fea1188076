"""The text of a kernel proves itself: what is tampered with is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pirkit.diag.errors import ConstraintError, RuntimeFault
from pirkit.dialect.attrs import encode
from pirkit.dialect.map_expr import deriving
from pirkit.dialect.map_expr.checking import problem_of
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.text import parse_kernel, print_kernel
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.fusion.fusing import first_write, plan_fusion
from pirkit.lowering.fusion.partition import Policy
from pirkit.lowering.kernels import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from tests.fusion.cases import CASES, built
from tests.fusion.random_programs import Array, Maker
from tests.fusion.test_random import fused
from tests.fusion.test_random import run as execute


def texts(program: ProgramOp) -> Iterator[str]:
    if first_write(program) is None:
        for made in plan_fusion(program.block, Policy()).kernels:
            yield print_kernel(made.kernel)


def inputs(kernel: MapExpr) -> list[Array]:
    state = np.random.default_rng(0)
    return [_drawn(m, state) for m in kernel.inputs]


def _drawn(meta: TensorMeta, state: np.random.Generator) -> Array:
    if meta.dtype.is_float:
        return state.standard_normal(meta.shape).astype(meta.dtype.np)
    return state.integers(0, 2, meta.shape).astype(meta.dtype.np)


def changed(text: str, state: random.Random) -> str:
    """A text with a number, a name or a line of it changed; what is given out stays."""
    lines = text.splitlines()
    places = [k for k, line in enumerate(lines) if not line.startswith(("kernel", "output"))]
    at = state.choice(places)
    words = list(re.finditer(r"\d+|[a-z]\w*", lines[at]))
    word = state.choice(words)
    others = {w[0] for line in lines for w in re.finditer(r"\d+|[a-z]\w*", line)} - {word[0]}
    kind = str.isdigit
    alike = sorted(o for o in others if kind(o[0]) == kind(word[0][0]))
    other = state.choice(alike or sorted(others))
    lines[at] = lines[at][: word.start()] + other + lines[at][word.end() :]
    return "\n".join(lines) + "\n"


def is_refused(text: str) -> bool:
    try:
        return problem_of(text) is not None
    except ConstraintError:
        return True


def tampered(program: ProgramOp, state: random.Random, times: int) -> tuple[int, int]:
    """How many changed texts are refused, and how many are accepted, which give the same."""
    refused = accepted = 0
    for text in texts(program):
        kernel = parse_kernel(text)
        assert print_kernel(kernel) == text
        assert problem_of(text) is None
        if "read(" in text or kernel.is_sized:  # not all data, or sizes, may be
            continue
        given = inputs(kernel)
        want = run(kernel, given)
        for _ in range(times):
            wrong = changed(text, state)
            if is_refused(wrong):
                refused += 1
                continue
            other = parse_kernel(wrong)
            if other.inputs != kernel.inputs:
                continue
            accepted += 1
            for found, right in zip(run(other, given), want, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=wrong)
    return refused, accepted


def test_what_is_changed_is_refused_or_gives_the_same() -> None:
    state = random.Random(0)
    refused = accepted = 0
    for name in CASES:
        if name.startswith("c37"):  # very long
            continue
        counts = tampered(built(name)[1], state, 12)
        refused, accepted = refused + counts[0], accepted + counts[1]
    for seed in range(40):
        counts = tampered(Maker(seed, depth=6).program, state, 4)
        refused, accepted = refused + counts[0], accepted + counts[1]
    assert refused > 400
    assert accepted < refused // 5


TEXT = """\
kernel fn_exp_0_sum_1 rows [32]
input float32[32, 64]
op o0 = pd_op.transpose(x0, {'perm': (1, 0, )}, float32[64, 32])
op o1 = pd_op.exp(o0, {}, float32[64, 32])
op o2 = pd_op.sum(o1, {'axis': (0, ), 'dtype': None, 'keepdim': False}, float32[32])
value float32[32] of o2 stage 0 rows [i0] reduce pd_op.sum [64] {'dtype': None}
  t0 = pd_op.exp(x0[i0, r0], {}, float32)
  give t0
output v0
"""


def test_the_text_is_right_as_it_is() -> None:
    assert problem_of(TEXT) is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x0[i0, r0]", "x0[i0, 0]", "x0 is read at"),
        ("t0 = pd_op.exp", "t0 = pd_op.sin", "pd_op.exp is missing"),
        ("op o1 = pd_op.exp", "op o1 = pd_op.sin", "pd_op.sin is missing"),
        ("'perm': (1, 0, )", "'perm': (0, 1, )", "does not give"),
        ("give t0", "give x0[i0, r0]", "pd_op.exp is missing"),
        ("reduce pd_op.sum", "reduce pd_op.max", "put together in another way"),
        ("of o2 stage", "of o1 stage", "another shape"),
        ("of o2 stage", "of pd_op.sum stage", "does not tell of which op"),
        ("pd_op.transpose", "pd_op.matmul", "no index rule"),
        ("'axis': (0, )", "'axis': (5, )", "no call of the op"),
        ("pd_op.exp(o0", "pd_op.exp(float32[64, 32]", "only the shape is known"),
    ],
)
def test_what_is_told_of_a_kernel_that_does_not_follow(old: str, new: str, why: str) -> None:
    told = problem_of(TEXT.replace(old, new))
    assert told is not None
    assert why in told


def test_a_plan_of_a_kernel_that_does_not_follow_is_not_run() -> None:
    c, program = built("c07_transposed")
    (op,) = [op for op in fused(program)[0].operations if op.name == "pir.map_expr"]
    wrong = op.attribute("kernel").replace("[i1, i0]", "[0, 0]")
    op.properties["kernel"] = encode("str", wrong)
    with pytest.raises(RuntimeFault, match="does not follow from the ops"):
        execute(cast(ProgramOp, op.parent_op()), c.inputs)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_debug_mode_derives_a_kernel_before_each_launch(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, program = built("c07_transposed")
    library = KernelLibrary(backend, certifies=True)
    run = Executable(write_plan(fused(program)[0], library=library), library).run
    first, again = run(c.inputs)["y0"], run(c.inputs)["y0"]
    np.testing.assert_array_equal(first, again)
    monkeypatch.setattr(deriving, "index_maps", {})
    with pytest.raises(RuntimeFault, match="has no index rule"):
        run(c.inputs)


def test_the_kernels_of_the_page_follow_from_their_ops() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fusion.md").read_text(encoding="utf-8")
    shown = re.findall(r"```\n(kernel .*?)```", page, re.DOTALL)
    assert len(shown) == 2
    assert [problem_of(text) for text in shown] == [None, None]
