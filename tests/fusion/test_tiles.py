"""Values that are needed in several orders of loops: computed again, held in tiles, or stored."""

from __future__ import annotations

import os
from collections.abc import Collection

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit import ops
from pirkit.dialect.build import Value
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.tiling import Untiled
from pirkit.dialect.map_expr.verify_kernel import problem_of
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion import kernel_builder
from pirkit.lowering.fusion.fuse_pass import plan_fusion
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from tests.fusion.cases import Case, built
from tests.fusion.random_programs import Array, Turner
from tests.fusion.test_random import fused, run

SEEDS = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 40


def natively(program: ProgramOp, inputs: dict[str, Array]) -> dict[str, Array]:
    library = KernelLibrary("cpu")
    return dict(Executable(write_plan(program, library=library), library).run(inputs))


def kernels(program: ProgramOp) -> list[MapExpr]:
    made = (op for op in program.walk() if isinstance(op, PirOp) and op.name == "pir.map_expr")
    return [parse_kernel(op.attribute("kernel")) for op in made]


@pytest.mark.parametrize("block", range(4))
def test_random_programs_give_the_same_numbers(block: int) -> None:
    tiled = 0
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        made = Turner(seed, depth=2 + seed % 8)
        want = run(made.program, made.inputs)
        program, _ = fused(made.program, single=seed % 2 == 0)
        for kernel in kernels(program):
            text = print_kernel(kernel)
            assert problem_of(text) is None
            assert print_kernel(parse_kernel(text)) == text
            tiled += any(s.tile for s in kernel.statements)
            nests = nests_of(kernel)
            assert not isinstance(nests, str)
            assert any(isinstance(n.kernel, TiledNest) for n in nests) == any(
                s.tile for s in kernel.statements
            )
        for got in (run(program, made.inputs), natively(program, made.inputs)):
            for name in want:
                np.testing.assert_allclose(
                    got[name], want[name], rtol=2e-5, atol=2e-5, err_msg=f"seed {seed}, {name}"
                )
    assert tiled >= SEEDS // 20


def planned(c: Case, *results: Value, tile: bool = True) -> list[MapExpr]:
    for k, result in enumerate(results):
        c.b("pir.shadow_output", result, output_name=f"y{k}")
    return [k.kernel for k in plan_fusion(c.program.block, Policy(tile=tile)).kernels]


def dear(c: Case, x: Value) -> Value:
    return c.op("tanh", c.b.exp(x))


def test_each_element_is_read_and_written_once() -> None:
    c = Case()
    x = dear(c, c(100, 100))
    (kernel,) = planned(c, x + c.t(x))
    assert kernel.traffic() == 2 * 4 * 100 * 100
    assert [s.tile for s in kernel.statements] == [(64, 64), ()]


def test_without_tiles_the_value_is_stored() -> None:
    c = Case()
    x = dear(c, c(100, 100))
    made = planned(c, x + c.t(x), tile=False)
    assert len(made) == 2
    assert not any(s.tile for k in made for s in k.statements)


def test_a_result_that_another_one_reads_turned_is_computed_once() -> None:
    c = Case()
    x = dear(c, c(20, 30))
    (kernel,) = planned(c, x, c.t(x) + c(30, 20))
    assert [s.tile for s in kernel.statements] == [(20, 30), ()]
    assert kernel.outputs == (0, 1)


def test_what_two_results_need_in_two_orders_is_computed_once() -> None:
    c = Case()
    x = dear(c, c(20, 30))
    (kernel,) = planned(c, x * c(20, 30), c.t(x) + c(30, 20))
    assert [s.tile for s in kernel.statements] == [(20, 30), (), ()]


def test_what_is_made_of_many_tensors_that_would_be_read_turned_is_turned_once() -> None:
    for count, tiled in ((2, False), (3, True)):
        c = Case()
        x = c(20, 30)
        for _ in range(count - 1):
            x = x + c(20, 30)
        (kernel,) = planned(c, c.t(c.b.exp(x)) + c(30, 20))
        assert any(s.tile for s in kernel.statements) == tiled


def test_where_nothing_is_turned_tiles_are_wide() -> None:
    c = Case()
    x = dear(c, c(3, 2000))
    (kernel,) = planned(c, x, c.b.reshape(x, [1, 3, 2000]) * c(1, 3, 2000))
    assert [s.tile for s in kernel.statements] == [(1, 1024), ()]


def test_plans_and_whole_programs_go_through_tiles() -> None:
    x = np.random.default_rng(1).standard_normal((70, 70)).astype(np.float32)
    x[3, 9], x[9, 3] = np.nan, np.inf

    def permuted(x: ops.Tensor) -> ops.Tensor:
        y = ops.tanh(ops.exp(x))
        return y + ops.transpose(y, [1, 0])

    program = trace(permuted, (x,)).program
    y = np.tanh(np.exp(x))
    whole = compile(program, fast_math=True)
    assert whole.native is not None
    (name,) = (p.name for p in whole.plan.inputs)
    for run_ in (whole.run, compile(program, certify=True).run):
        (got,) = run_({name: x}).values()
        np.testing.assert_allclose(np.asarray(got), y + y.T, rtol=1e-5)


def test_what_reads_a_statement_of_a_tiled_nest_otherwise_follows_the_nest() -> None:
    x = np.random.default_rng(1).standard_normal((17, 70)).astype(np.float32)

    def several(x: ops.Tensor, w: ops.Tensor) -> tuple[ops.Tensor, ...]:
        first = ops.unsqueeze(ops.abs(x), axis=(1,))
        square = first * first
        one, kept = ops.leaky_relu(square), ops.abs(square)
        turned = ops.transpose(ops.heaviside(kept, kept), (2, 0, 1))
        return first, square, one, kept, turned, one**w

    program = trace(several, (x, np.abs(x))).program
    assert any(s.tile for k in kernels(run_passes(program, "@default").main) for s in k.statements)
    exact = compile(program, pipeline="", backend="reference").run({"x0": x, "x1": np.abs(x)})
    for name, array in compile(program).run({"x0": x, "x1": np.abs(x)}).items():
        np.testing.assert_allclose(array, exact[name], rtol=1e-5)


def test_chains_of_what_is_kept_go_on_in_the_same_kernel() -> None:
    c = Case()
    x = dear(c, c(2, 40, 40))
    y = dear(c, x + c.t(x, 0, 2, 1))
    (kernel,) = planned(c, y - c.t(y, 0, 2, 1), y)
    assert [s.tile for s in kernel.statements] == [(1, 40, 40), (1, 40, 40), ()]


def test_three_axes_that_change_places_in_a_circle() -> None:
    c = Case()
    x = dear(c, c(9, 9, 9))
    (kernel,) = planned(c, x + c.t(x, 1, 2, 0) + c.t(x, 2, 0, 1))
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    (nest,) = nests
    assert isinstance(nest.kernel, TiledNest)
    assert len(nest.kernel.images) == 3


def test_a_cheap_value_is_computed_again_and_a_sum_dissolves_tiles() -> None:
    c = Case()
    x = c.relu(c(40, 40))
    (kernel,) = planned(c, x + c.t(x))
    assert len(kernel.statements) == 1
    c = Case()
    x = c.b.exp(c(40, 40))
    (kernel,) = planned(c, c.sum(x + c.t(x), 1))
    assert not any(s.tile for s in kernel.statements)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("flip", "the indices differ by more than the order of loops"),
        ("sum", "computing again what is held in tiles would cost 20 additions per element"),
        ("open", "sizes are known only at run time"),
        ("softmax", "the kernel reduces elements"),
    ],
)
def test_where_tiles_do_not_serve_it_is_told_why(name: str, why: str) -> None:
    c = Case()
    x = dear(c, c.open(-8, -8) if name == "open" else c(8, 8))
    if name == "flip":
        result = x + c.op("flip", x, axis=[0])
    elif name == "softmax":
        x = dear(c, c.softmax(c(8, 8)))
        result = x + c.t(x)
    else:
        result = x + c.t(x)
    if name == "sum":
        result = c.sum(result, 1)
    c.b("pir.shadow_output", result, output_name="y")
    found = plan_fusion(c.program.block, Policy()).partition
    output = [f"{r.reason} {r.costs}" for r in found.refusals.values()]
    assert any(why in text for text in output)
    assert all(r.holds() for r in found.refusals.values())


@pytest.mark.parametrize("several", [False, True])
def test_a_part_of_what_is_kept_is_no_reason_to_keep_it(several: bool) -> None:
    """The loops of such a reader are shorter than those of the tiles."""
    c = Case()
    x = dear(c, c(40, 40))
    part = c.op("slice", x, axes=[0, 1], starts=[0, 0], ends=[20, 20])
    more = (x * 2.0, c.t(x) * 3.0) if several else ()
    for k, result in enumerate((part + c.t(part), *more)):
        c.b("pir.shadow_output", result, output_name=f"y{k}")
    want = run(c.program, c.inputs)
    program = fused(c.program, single=True)[0]
    for kernel in kernels(program):
        shapes = {s.meta.shape for s in kernel.statements}
        assert not any(s.tile for s in kernel.statements) or len(shapes) == 1
    for name, got in natively(program, c.inputs).items():
        np.testing.assert_allclose(got, want[name], rtol=2e-5, atol=2e-5)


def text_of(name: str) -> str:
    (made,) = plan_fusion(built(name)[1].block, Policy()).kernels
    return made.text


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("v0[i1, i0]", "v0[i1, i1]", "no permutation"),
        ("stage 1", "stage 0", "reads a value of stage 0"),
        ("of o3 stage 1", "of o3 stage 1 rows []", "no permutation"),
        ("tile [8, 8]", "tile [8, 4]", "not as long as they are wide"),
        ("tile [8, 8]", "tile [8]", "no such tiles"),
        ("tile [8, 8]", "tile [0, 8]", "no such tiles"),
    ],
)
def test_a_text_that_breaks_the_rules_of_tiles_is_refused(old: str, new: str, why: str) -> None:
    text = text_of("c08_dear_sum_with_own_transpose")
    assert problem_of(text) is None
    assert old in text
    assert why in str(problem_of(text.replace(old, new)))


def test_a_statement_between_those_that_go_through_tiles_is_refused() -> None:
    kernel = parse_kernel(text_of("c08_dear_sum_with_own_transpose"))
    made, last = kernel.statements
    wrong = replace(kernel, statements=(made, replace(made, tile=()), last), outputs=(2,))
    output = problem_of(print_kernel(wrong))
    assert output == "a statement that has no tiles is between v0 and v2"


def test_tiles_that_no_cache_holds_are_refused() -> None:
    c = Case()
    x = dear(c, c(3000, 3000))
    (kernel,) = planned(c, x + c.t(x))
    text = print_kernel(kernel)
    assert problem_of(text) is None
    wrong = problem_of(text.replace("tile [64, 64]", "tile [3000, 3000]"))
    assert wrong == "tiles are larger than what is held in a cache"


def test_a_text_that_reads_a_part_of_what_is_kept_in_tiles_is_refused() -> None:
    text = """\
kernel k rows []
input float32[8]
op o0 = pd_op.tanh(x0, {}, float32[8])
op o1 = pd_op.slice(o0, {'axes': (0, ), 'infer_flags': (), 'decrease_axis': (), 'starts': (0, ), \
'ends': (4, )}, float32[4])
value float32[8] of o0 stage 0
  t0 = pd_op.tanh(x0[i0], {}, float32)
  give t0
value float32[4] of o1 stage 0
  give v0[i0]
output v0
output v1
"""
    assert problem_of(text) is None
    wrong = problem_of(text.replace("of o0 stage 0", "of o0 stage 0 tile [4]"))
    assert wrong == "v1 reads v0 at no permutation"


def test_half_and_double_floats_in_tiles() -> None:
    for dtype in (dt.float16, dt.float64):
        c = Case()
        x = dear(c, c(37, 37, dtype=dtype))
        c.b("pir.shadow_output", x + c.t(x), output_name="y")
        want = run(c.program, c.inputs)["y"]
        got = natively(fused(c.program, single=True)[0], c.inputs)["y"]
        tolerance = 4e-3 if dtype is dt.float16 else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_tiles_that_do_not_go_together_are_no_reason_to_compute_much_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(kernel: MapExpr, held: Collection[int]) -> MapExpr:
        raise Untiled("too many orders")

    def texts(tile: bool) -> list[str]:
        c = Case()
        x = dear(c, c(64, 64))
        return [print_kernel(k) for k in planned(c, x + c.t(x), tile=tile)]

    stored = texts(tile=False)
    assert texts(tile=True) != stored
    monkeypatch.setattr(kernel_builder, "with_tiles", refuse)
    assert texts(tile=True) == stored
