"""What the default pipeline decomposes and puts together: what fusion gains by, nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pirkit.diag.errors import PassError, PirkitError, UnsupportedError, UsageError
from pirkit.dialect.operation import PirOp
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.files import Program, load
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.prim import default_pipeline
from pirkit.passes.cost_model import alone
from pirkit.passes.manager import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.plan import Call, instructions
from tests.execution import parsed
from tests.fusion.random_programs import Maker
from tests.fusion.test_random import fused, run

CORPUS = sorted((Path(__file__).parents[1] / "corpus" / "paddle").glob("*/program.txt"))
APART = "functionalize,decompose{profitable-only=true},cse,dce"


def ops(text: str, pipeline: str) -> Counter[str]:
    """How often each op is in the program that a pipeline makes of a text."""
    module = parsed(text)
    run_pipeline(module, pipeline)
    names = (op.name.partition(".")[2] for op in module.walk() if isinstance(op, PirOp))
    return Counter(names)


def program(body: str, arguments: str = '%x "x" : tensor<4x6xf32>', out: str = "4x6xf32") -> str:
    end = f'pir.shadow_output(%y) {{output_name = "y"}} : (tensor<{out}>) -> ()'
    return f"pir.program @main({arguments}) {{\n{body}\n{end}\n}}"


SOFTMAX = program("%y = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<4x6xf32>) -> tensor<4x6xf32>")
CHOSEN = program(
    "%y = pd_op.masked_select(%x, %m) : (tensor<4x6xf32>, tensor<4x6xi1>) -> tensor<?xf32>",
    '%x "x" : tensor<4x6xf32>, %m "m" : tensor<4x6xi1>',
    "?xf32",
)
SQUARE = program(
    "%y = pd_op.bmm(%x, %x) : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>",
    '%x "x" : tensor<2x3x3xf32>',
    "2x3x3xf32",
)


def test_what_becomes_kernels_is_taken_apart() -> None:
    assert "softmax" not in ops(SOFTMAX, APART)
    assert ops(SOFTMAX, "@default")["map_expr"] == 1


@pytest.mark.parametrize("sizes", [(3, 4, 5), (3, 7, 5)])
@pytest.mark.parametrize(("offset", "axes"), [(0, (1, 2)), (2, (0, 2)), (-1, (2, 1)), (1, (-2, 0))])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_diagonal_is_read_in_place(
    sizes: tuple[int, ...], offset: int, axes: tuple[int, int], is_known: bool
) -> None:
    """The kernel that reads it has the diagonal's indices: nothing is copied before."""
    x = -np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    wanted = np.sqrt(-x.diagonal(offset, *axes))
    whole = "x".join(str(n) if is_known else "?" for n in sizes)
    part = "x".join(str(n) if is_known else "?" for n in wanted.shape)
    text = program(
        f"%d = pd_op.diagonal(%x) {{offset = {offset} : i32, axis1 = {axes[0]} : i32, "
        f"axis2 = {axes[1]} : i32}} : (tensor<{whole}xf32>) -> tensor<{part}xf32>\n"
        f"%a = pd_op.abs(%d) : (tensor<{part}xf32>) -> tensor<{part}xf32>\n"
        f"%y = pd_op.sqrt(%a) : (tensor<{part}xf32>) -> tensor<{part}xf32>",
        f'%x "x" : tensor<{whole}xf32>',
        f"{part}xf32",
    )
    found = ops(text, "@default")
    assert not {"diagonal", "slice", "gather"} & found.keys() or not is_known
    y = compile(Program(parsed(text), {}, "test"))(x=x)["y"]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("is_known", [True, False])
def test_places_of_known_sizes_are_compared_in_int32(is_known: bool) -> None:
    """Vectors of int64 would have half as many lanes as those of the matrix."""
    n = "6" if is_known else "?"
    text = program(
        "%y = pd_op.diag_embed(%x) {offset = 0 : i32, dim1 = -2 : i32, dim2 = -1 : i32} : "
        f"(tensor<4x{n}xf32>) -> tensor<4x{n}x{n}xf32>",
        f'%x "x" : tensor<4x{n}xf32>',
        f"4x{n}x{n}xf32",
    )
    module = parsed(text)
    run_pipeline(module, "decompose")
    (compared,) = (op for op in module.walk() if isinstance(op, PirOp) and op.name == "pd_op.equal")
    assert ("i32" in str(compared.operands[0].type)) == is_known


def test_what_a_library_computes_either_way_is_taken_apart() -> None:
    found = ops(SQUARE, APART)
    assert (found["bmm"], found["matmul"]) == (0, 1)


def test_what_needs_calls_that_the_whole_does_without_stays_whole() -> None:
    assert ops(CHOSEN, APART)["masked_select"] == 1
    assert "masked_select" not in ops(CHOSEN, "decompose")


def test_an_op_that_stays_whole_tells_why_and_is_as_it_was() -> None:
    module = parsed(CHOSEN)
    before = str(module)
    result = run_pipeline(module, "decompose{profitable-only=true}")
    assert str(module) == before
    (remark,) = [r for r in result.remarks if r.pass_name == "decompose"]
    assert "would be a call that the composite does not need" in remark.message
    assert result.stats["decompose"]["remaining"] == 1


def gradient(name: str) -> str:
    t = "tensor<4x6xf32>"
    return program(f"%y = pd_op.{name}(%x, %x) : ({t}, {t}) -> {t}")


def test_what_has_no_kernel_is_taken_apart() -> None:
    assert "tanh_grad" not in ops(gradient("tanh_grad"), APART)


COMPLEX = program(
    """%c = pd_op.fft_r2c(%x)
    {axes = array<i64: 1>, normalization = "backward", forward = true, onesided = true}
    : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
  %a = pd_op.abs(%c) : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
  %e = pd_op.exp(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = pd_op.add(%e, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>""",
    out="4x4xf32",
)
MOVED = program(
    """%t = pd_op.transpose(%x) {perm = array<i32: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %y = pd_op.reshape(%t) {shape = array<i64: 3, 8>} : (tensor<6x4xf32>) -> tensor<3x8xf32>""",
    out="3x8xf32",
)
ONE = program(
    """%t = pd_op.transpose(%x) {perm = array<i32: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %y = pd_op.tanh(%t) : (tensor<6x4xf32>) -> tensor<6x4xf32>""",
    out="6x4xf32",
)


def test_what_has_no_native_code_keeps_no_others_out_of_kernels() -> None:
    found = ops(COMPLEX, "fuse{profitable-only=true}")
    assert (found["abs"], found["map_expr"], found["add"]) == (1, 1, 0)
    assert ops(COMPLEX, "fuse")["abs"] == 0


@pytest.mark.parametrize(
    ("text", "held"), [(MOVED, "reshape"), (ONE, "tanh")], ids=["views", "one"]
)
def test_kernels_that_save_nothing_are_not_made(text: str, held: str) -> None:
    found = ops(text, "fuse{profitable-only=true}")
    assert (found["map_expr"], found[held], found["transpose"]) == (0, 1, 1)
    assert ops(text, "fuse")["map_expr"] == 1


def alone_(op: str, dtype: str, shape: str, result: str, attrs: str = "") -> str:
    kinds = result.rpartition("x")[2], f"{shape}x{dtype}"
    reads = "%x, %x" if op == "add" else "%x"
    types = ", ".join([f"tensor<{kinds[1]}>"] * (2 if op == "add" else 1))
    body = f"%y = pd_op.{op}({reads}){attrs} : ({types}) -> tensor<{result}>"
    return program(body, f'%x "x" : tensor<{kinds[1]}>', result)


_MIDDLE = " {axis = array<i64: 1>, keepdim = false}"
_PROD = " {axis = array<i64: 1>, keepdim = false, reduce_all = false}"
_LAST = " {axis = array<i64: 2>, keepdim = false}"


@pytest.mark.parametrize(
    ("text", "is_made"),
    [
        (alone_("add", "f32", "64x65", "64x65xf32"), False),
        (alone_("add", "f16", "64x65", "64x65xf16"), True),
        (alone_("add", "bf16", "64x65", "64x65xbf16"), True),
        (alone_("add", "f16", "4x6", "4x6xf16"), False),
        (alone_("add", "f16", "?x65", "?x65xf16"), False),
        (alone_("erf", "f32", "64x65", "64x65xf32"), True),
        (alone_("sin", "f64", "64x65", "64x65xf64"), True),
        (alone_("sin", "f32", "64x65", "64x65xf32"), False),
        (alone_("max", "f32", "40x50x3", "40x3xf32", _MIDDLE), False),
        (alone_("max", "f32", "40x500x3", "40x3xf32", _MIDDLE), True),
        (alone_("max", "f32", "400x50x3", "400x50xf32", _LAST), True),
        (alone_("prod", "f32", "40x50x31", "40x31xf32", _PROD), True),
        (alone_("prod", "i64", "40x50x31", "40x31xi64", _PROD), False),
        (alone_("sum", "i32", "40x50x31", "40x31xi64", _MIDDLE), True),
    ],
)
def test_an_op_is_a_kernel_where_a_library_is_slow(text: str, is_made: bool) -> None:
    assert ops(text, "fuse{profitable-only=true}")["map_expr"] == is_made


@pytest.mark.parametrize("count", [7, 700])
def test_an_op_without_a_kernel_may_write_in_one(count: int) -> None:
    """Sums at places that depend on the data: rows come several times, and in any order.

    A call of the library is several of numpy, so that few rows are slow as well.
    """
    types = f"tensor<30x5xf32>, tensor<{count}xi64>, tensor<{count}x5xf32>"
    text = program(
        f"%y = pd_op.index_add(%x, %k, %v) {{axis = 0 : i32}} : ({types}) -> tensor<30x5xf32>",
        f'%x "x" : tensor<30x5xf32>, %k "k" : tensor<{count}xi64>, %v "v" : tensor<{count}x5xf32>',
        "30x5xf32",
    )
    found = ops(text, "@default")
    assert (found["map_expr"], found["index_add"]) == (1, 0)
    rng = np.random.default_rng(0)
    fed = {
        "x": rng.standard_normal((30, 5)).astype(np.float32),
        "k": rng.integers(-30, 30, count),
        "v": rng.standard_normal((count, 5)).astype(np.float32),
    }
    given = Program(parsed(text))
    plain, kernel = (compile(given, pipeline=name) for name in ("@simplify", "@default"))
    np.testing.assert_array_equal(kernel(**fed)["y"], plain(**fed)["y"])
    for exe in (plain, kernel):
        with pytest.raises(PirkitError):
            exe(**{**fed, "k": np.full(count, 30)})


@pytest.mark.parametrize(
    ("op", "dtype", "attrs", "is_native"),
    [
        ("round", "f32", "{decimals = 0 : i32}", True),
        ("round", "f32", "{decimals = 2 : i32}", False),
        ("pow", "i32", "{y = 3.0 : f32}", True),
        ("pow", "i64", "{y = 0.0 : f32}", True),
        ("pow", "i32", "{y = 2.5 : f32}", False),
        ("pow", "i32", "{y = 9.0 : f32}", False),
    ],
)
def test_ops_with_attributes_are_native_where_they_can_be(
    op: str, dtype: str, attrs: str, is_native: bool
) -> None:
    one = f"tensor<5x9x{dtype}>"
    body = f"%t = pd_op.{op}(%x) {attrs} : ({one}) -> {one}"
    body += f"\n%y = pd_op.add(%t, %x) : ({one}, {one}) -> {one}"
    text = program(body, f'%x "x" : {one}', f"5x9x{dtype}")
    assert ops(text, "fuse{profitable-only=true}")["map_expr"] == is_native
    x = np.linspace(-60_000, 60_000.5, 45).reshape(5, 9)
    x = x.astype({"f32": np.float32, "i32": np.int32, "i64": np.int64}[dtype])
    given = Program(parsed(text))
    plain, fused_ = (compile(given, pipeline=name)(x=x)["y"] for name in ("@simplify", "@default"))
    np.testing.assert_array_equal(fused_, plain)


@pytest.mark.parametrize(
    ("op", "dtype"), [("add", "f16"), ("add", "bf16"), ("erf", "f32"), ("sin", "f64")]
)
def test_what_is_a_kernel_alone_has_the_same_numbers(op: str, dtype: str) -> None:
    given = Program(parsed(alone_(op, dtype, "64x65", f"64x65x{dtype}")))
    kind = {"f16": dt.float16, "bf16": dt.bfloat16, "f32": dt.float32, "f64": dt.float64}[dtype]
    x = np.random.default_rng(0).standard_normal((64, 65)).astype(kind.np)
    x[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    plain, kernel = (compile(given, pipeline=name)(x=x)["y"] for name in ("@simplify", "@default"))
    assert plain.dtype == kernel.dtype
    near = {"erf": 5e-7, "sin": 1e-15}.get(op, 0.0)
    np.testing.assert_allclose(kernel.astype(float), plain.astype(float), rtol=near, atol=0)


@pytest.mark.parametrize("block", range(4))
def test_random_programs_give_the_same_numbers(block: int) -> None:
    made = 0
    for seed in range(25 * block, 25 * block + 25):
        given = Maker(seed, depth=3 + seed % 10)
        want = run(given.program, given.inputs)
        found, context = fused(given.program, profitable_only=True)
        made += context.stats["kernels"]
        got = run(found, given.inputs)
        assert want.keys() == got.keys()
        for name in want:
            np.testing.assert_allclose(
                got[name], want[name], rtol=2e-5, atol=1e-6, err_msg=f"seed {seed}, {name}"
            )
    assert made


def cost(given: Program) -> int:
    """Calls of a plan that are no views, those of a loop counted once."""
    calls = (i for i in instructions(write_plan(given.entry(None)).body) if isinstance(i, Call))
    return sum(alone(call.kernel, 0).calls for call in calls)


def test_captured_programs_become_fewer_calls() -> None:
    before, after, more = 0, 0, list[str]()
    for path in CORPUS:
        given = load(path)
        plain, fused_ = (cost(run_passes(given, name)) for name in ("@simplify", "@default"))
        before, after = before + plain, after + fused_
        more += [path.parent.name] * (fused_ > plain + 4)
    assert more == ["lstm"]  # a recurrence of five steps, in kernels
    assert after < before / 2


def test_kernels_are_made_where_they_are_native() -> None:
    assert default_pipeline("cpu") == "@default"
    assert default_pipeline("cpu", watched=True) == "@storage"
    assert default_pipeline("reference") == default_pipeline("gpu") == "@simplify"
    with pytest.raises(UsageError):
        default_pipeline("none such")


@pytest.mark.parametrize(("backend", "kernel"), [("cpu", "pir.segment"), ("reference", "softmax")])
def test_a_program_that_names_no_pipeline(backend: str, kernel: str) -> None:
    exe = compile(Program(parsed(SOFTMAX), {}, "test"), backend=backend)
    calls = [i.kernel for i in exe.plan.body if isinstance(i, Call)]
    assert calls == [kernel if "." in kernel else f"pd_op.{kernel}"]
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(exe(x=x)["y"], e / e.sum(-1, keepdims=True), rtol=1e-6)


UNREAD = program(
    """%a = pd_op.tanh(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %l = pir.combine(%a) : (tensor<4x6xf32>) -> !pir.vec<tensor<4x6xf32>>
  %e = pd_op.exp(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = pd_op.add(%e, %x) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"""
)


def test_lists_that_nobody_reads_are_in_nobodys_way() -> None:
    found = ops(UNREAD, "fuse")
    assert (found["map_expr"], found["combine"], found["tanh"]) == (1, 0, 0)


def test_kernels_have_no_derivative_and_no_place_in_a_model_of_paddle() -> None:
    module = parsed(SOFTMAX)
    run_pipeline(module, "@default")
    with pytest.raises(UnsupportedError, match=r"no operator of Paddle") as caught:
        write_paddle_json(module)
    assert "@simplify" in (caught.value.help or "")
    with pytest.raises(PassError, match=r"a kernel of fused ops") as failed:
        run_pipeline(module, "autodiff")
    assert "before `fuse`" in (failed.value.help or "")
