"""The text of a kernel proves itself: what is tampered with is refused."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError, RuntimeFault
from pirkit.dialect.map_expr import certificate
from pirkit.dialect.map_expr.affine import sizes_map
from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel import MapExpr, Origin, Statement
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.scalar_ops import LoadOp
from pirkit.dialect.map_expr.tree import Fill, Load
from pirkit.dialect.map_expr.verify_kernel import kernel_at, problem_of, problems
from pirkit.dialect.operation import ProgramOp
from pirkit.index.extent import is_sized
from pirkit.index.index_maps import space
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from tests.fusion.cases import CASES, Case, built
from tests.fusion.dynamic_programs import OpenMaker
from tests.fusion.random_programs import Array, Maker
from tests.fusion.test_random import fused
from tests.fusion.test_random import run as execute


def texts(program: ProgramOp) -> Iterator[str]:
    for made in plan_fusion(program.block, Policy(), storage=storage_of(program)).kernels:
        yield print_kernel(made.kernel)


def inputs(kernel: MapExpr) -> list[Array]:
    state = np.random.default_rng(0)
    return [_drawn(m, state) for m in kernel.inputs]


def _drawn(meta: TensorMeta, state: np.random.Generator) -> Array:
    if meta.dtype.is_float:
        return state.standard_normal(meta.shape).astype(meta.dtype.np)
    return state.integers(0, 2, meta.shape).astype(meta.dtype.np)


def changed(text: str, state: random.Random, held: tuple[str, ...] = ("kernel", "output")) -> str:
    """A text with a number, a name or a line of it changed; lines of some kinds stay."""
    lines = text.splitlines()
    places = [k for k, line in enumerate(lines) if not line.startswith(held)]
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
        if "read(" in text or kernel.is_sized:  # not all data may be; sizes: see below
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
        ("reduce pd_op.sum", "reduce pd_op.max", "reduced in another way"),
        ("of o2 stage", "of o1 stage", "another shape"),
        ("of o2 stage", "of pd_op.sum stage", "does not tell of which op"),
        ("pd_op.transpose", "pd_op.fft_c2c", "no index rule"),
        ("'axis': (0, )", "'axis': (5, )", "no call of the op"),
        ("pd_op.exp(o0", "pd_op.exp(float32[64, 32]", "only the shape is known"),
    ],
)
def test_what_is_told_of_a_kernel_that_does_not_follow(old: str, new: str, why: str) -> None:
    output = problem_of(TEXT.replace(old, new))
    assert output is not None
    assert why in output


def test_a_plan_of_a_kernel_that_does_not_follow_is_not_run() -> None:
    c, program = built("c07_transposed")
    (op,) = [op for op in fused(program)[0].operations if op.name == "pir.map_expr"]
    (load,) = [o for o in op.walk() if isinstance(o, LoadOp)]
    load.operands = [load.tensor]
    load.properties["index"] = sizes_map((0, 0))
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
    monkeypatch.setattr(certificate, "index_maps", {})
    with pytest.raises(RuntimeFault, match="has no index rule"):
        run(c.inputs)


def test_the_kernels_of_the_page_follow_from_their_ops() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fusion.md").read_text(encoding="utf-8")
    shown = re.findall(r"```\n(kernel .*?)```", page, re.DOTALL)
    assert len(shown) == 4
    assert [problem_of(text) for text in shown] == [None] * 4


@pytest.mark.parametrize("real", [1.5, -0.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("imag", [2.0, -2.0, -0.0, math.inf, -math.inf, math.nan])
def test_complex_numbers_are_read_as_they_were_written(real: float, imag: float) -> None:
    meta = TensorMeta((3,), dt.complex64)
    origin = Origin("pd_op.full", (), {"value": complex(real, imag)}, meta)
    filled = Statement(meta, Fill(complex(real, imag), dt.complex64), "pd_op.full", origin=0)
    text = print_kernel(MapExpr("fn", (), (filled,), (0,), ops=(origin,)))
    (found,) = parse_kernel(text).statements
    assert isinstance(found.body, Fill)
    assert repr(found.body.value) == repr(complex(real, imag))
    assert print_kernel(parse_kernel(text)) == text


def test_what_is_changed_in_a_kernel_of_open_sizes_is_refused_or_gives_the_same() -> None:
    """What sizes inputs have is taken as it is."""
    state = random.Random(0)
    refused = accepted = 0
    for seed in range(30):
        made = OpenMaker(seed, depth=4)
        for text in filter(lambda t: parse_kernel(t).is_sized, texts(made.program)):
            if "read(" in text:
                continue
            for _ in range(4):
                wrong = changed(text, state, ("kernel", "output", "input"))
                if is_refused(wrong):
                    refused += 1
                    continue
                accepted += 1
                for size in (1, 2, 3):
                    same_at(text, wrong, size)
    assert refused > 100
    assert accepted < refused // 5


def same_at(text: str, wrong: str, size: int) -> None:
    """Compare two kernels for inputs whose open axes have so many elements."""
    state = np.random.default_rng(0)
    metas = parse_kernel(text).inputs
    shapes = tuple([tuple([size if is_sized(n) else n for n in m.shape]) for m in metas])
    given = [_drawn(m.with_shape(s), state) for m, s in zip(metas, shapes, strict=True)]
    try:
        want = run(kernel_at(text, shapes), given)
    except ConstraintError:  # sizes that do not go together
        return
    for found, right in zip(run(kernel_at(wrong, shapes), given), want, strict=True):
        np.testing.assert_array_equal(found, right, err_msg=wrong)


def test_different_sizes_are_tried_where_a_kernel_leaves_them_open() -> None:
    """Right for all equal sizes, and beyond the end for others."""
    c = Case()
    total = c.sum(c.b.exp(c.open(-1, -1)), 1) + c.sum(c.open(-1, -1), 1)
    c.b("pir.shadow_output", total, output_name="y")
    (text,) = texts(c.program)
    kernel = parse_kernel(text)
    assert next(problems(kernel), None) is None
    (first, *_) = [s for s in kernel.statements if s.reduction]
    (load, *_) = first.loads()
    assert load.index == (*space(first.meta.shape), *space(first.extents, "r"))
    permuted = replace(first, body=Load(load.source, load.index[::-1]))
    wrong = replace(kernel, statements=(permuted, *kernel.statements[1:]), rows=())
    assert any("reads outside" in output for output in problems(wrong))
