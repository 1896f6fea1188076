"""Programs written as models: element types that ONNX's operators lack, sizes, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

import pirkit  # noqa: E402
from pirkit import ops  # noqa: E402
from pirkit.diag.errors import UnsupportedError  # noqa: E402
from pirkit.onnx import model_of_program  # noqa: E402
from pirkit.runtime import dtype as dt  # noqa: E402

Array = np.ndarray[Any, Any]
INTS: Final = np.arange(-6, 6).reshape(3, 4)
FLOATS: Final = np.linspace(-2, 3, 12).reshape(3, 4)
WRAPPING: Final = (INTS * 5461).astype(np.int16)
BOOLS: Final = INTS % 3 == 0
HOLES: Final = np.where(INTS > 2, np.nan, FLOATS)

CASES: Final[dict[str, tuple[Callable[..., Any], tuple[Array, ...]]]] = {
    "a function of integers": (ops.exp, (INTS.astype(np.int32),)),
    "a quotient of integers": (ops.divide, (INTS, np.abs(INTS) + 1)),
    "truth of numbers": (ops.logical_and, (FLOATS, np.abs(FLOATS) - 2)),
    "no truth of numbers": (ops.logical_not, (INTS,)),
    "products of int16": (lambda x: ops.matmul(x, x, transpose_y=True), (WRAPPING,)),
    "a maximum of int16": (lambda x: ops.max(x, axis=(1,)), (WRAPPING,)),
    "sums of bools": (ops.add, (BOOLS, ~BOOLS)),
    "bits of bools": (lambda x, y: ops.bitwise_or(ops.bitwise_not(x), y), (BOOLS, INTS > 4)),
    "an order of bools": (ops.less_than, (BOOLS, ~BOOLS)),
    "places of bools": (lambda x: ops.argmin(x, axis=1, flatten=False), (BOOLS,)),
    "a floor of integers": (ops.floor, (INTS.astype(np.int32),)),
    "finite numbers": (ops.isfinite, (HOLES,)),
    "parts of numbers": (ops.trunc, (FLOATS,)),
    "the other number": (ops.fmax, (HOLES, HOLES[::-1])),
    "the smaller integer": (ops.fmin, (INTS, INTS[::-1])),
    "an axis that stays": (lambda x: ops.squeeze(x, axis=(0, 1)), (FLOATS[:1],)),
    "no elements": (lambda x: ops.reshape(x, shape=(2, 0)), (FLOATS[:0],)),
    "a slope of float64": (ops.leaky_relu, (FLOATS,)),
    "a number transposed": (lambda x: ops.transpose(x, perm=()), (FLOATS[0, 0],)),
    "an image of three quarters": (
        lambda x: ops.nearest_interp(x, data_format="NCHW", scale=(0.75, 0.75),
                                     interp_method="nearest", align_corners=False, align_mode=1),
        (np.arange(40.0).reshape(1, 2, 5, 4),),
    ),
    "logarithms of large numbers": (ops.log1p, (np.array([np.inf, 1e300, 1e-20, -0.5, np.nan]),)),
    "signs of zeros": (lambda x: 1.0 / ops.trunc(x), (np.array([-0.0, 0.0, -0.5]),)),
    "parts of integers": (ops.trunc, (INTS,)),
    "a low threshold": (lambda x: ops.softplus(x, beta=1.0, threshold=1.0), (FLOATS,)),
    "a low lambda": (lambda x: ops.mish(x, **{"lambda": 1.0}), (FLOATS,)),
    "a mean of bools": (lambda x: ops.mean(x, axis=(1,)), (BOOLS,)),
    "sums of rows": (
        lambda x, i, u: ops.scatter(x, i, u, overwrite=False),
        (FLOATS, np.array([0, 2]), FLOATS[:2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "given"), CASES.values(), ids=CASES)
def test_a_model_computes_what_the_program_does(
    function: Callable[..., Any], given: tuple[Array, ...], tmp_path: Path
) -> None:
    program = pirkit.trace(function, *given)
    names = [port.name for port in pirkit.compile(program).plan.inputs]
    named = dict(zip(names, given, strict=True))
    wanted = pirkit.compile(program, backend="reference", pipeline="")(**named)["y0"]
    (found,) = ReferenceEvaluator(model_of_program(program)).run(None, named)
    assert found.dtype == wanted.dtype
    rtol = 1e-14 if wanted.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found, wanted, rtol=rtol)
    pirkit.save(program, tmp_path / "m.onnx")
    again = pirkit.compile(pirkit.load(tmp_path / "m.onnx"))(**named)["y0"]
    np.testing.assert_allclose(again, wanted, rtol=rtol)


UNKNOWN_SIZES: Final = {
    # name: (the shape, the line that makes %2, the type of %2)
    "parts": ("?x6", "%1 = pd_op.split_with_num(%0) {num = 2 : i32, axis = 0 : i32} : (TYPE) -> VEC"
              "\n%2 = pir.slice(%1) {index = 1 : i32} : (VEC) -> TYPE", "?x6"),
    "rows": ("4x?", "%2, %3, %4 = pd_op.layer_norm(%0) {epsilon = 1.0e-5 : f32, begin_norm_axis ="
             " 1 : i32} : (TYPE) -> (TYPE, tensor<4xf32>, tensor<4xf32>)", "4x?"),
    "channels": ("4x?x3", "%2, %3, %4 = pd_op.instance_norm(%0) {epsilon = 1.0e-5 : f32} : (TYPE)"
                 " -> (TYPE, tensor<?xf32>, tensor<?xf32>)", "4x?x3"),
}  # fmt: skip
MODULE: Final = """builtin.module {
  pir.program @main {
    %0 = pd_op.data() {name = "x", shape = array<i64: SHAPE>, dtype = #pir.dtype<float32>,
      place = #pir.place<undefined:0>} : () -> TYPE
    LINE
    pir.shadow_output(%2) {output_name = "y"} : (tensor<OUTxf32>) -> ()
  }
}"""


def with_line(sizes: str, line: str, out: str) -> pirkit.Program:
    """A program of one op on a float32 tensor ``x``; a ``?`` is a size that is not known."""
    shape = ", ".join(sizes.replace("?", "-1").split("x"))
    text = MODULE.replace("LINE", line).replace("SHAPE", shape).replace("OUT", out)
    text = text.replace("VEC", "!pir.vec<TYPE, TYPE>").replace("TYPE", f"tensor<{sizes}xf32>")
    return pirkit.loads(text)


@pytest.mark.parametrize("name", UNKNOWN_SIZES)
def test_sizes_that_are_not_known(name: str) -> None:
    program = with_line(*UNKNOWN_SIZES[name])
    sizes = [3 if n == "?" else int(n) for n in UNKNOWN_SIZES[name][0].split("x")]
    sizes[0] = 4  # which two divides
    x = np.linspace(-2, 3, np.prod(sizes), dtype=np.float32).reshape(sizes)
    (found,) = ReferenceEvaluator(model_of_program(program)).run(None, {"x": x})
    wanted = pirkit.compile(program, backend="reference", pipeline="")(x=x)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("%2 = pd_op.roll(%0) {shifts = array<i64: 1>, axis = array<i64: 0>} : (TYPE) -> TYPE",
         "along a size that is not known"),
        ("%1 = pd_op.split(%0) {sections = array<i64: 1, -1>, axis = 0 : i32} : (TYPE) -> VEC\n"
         "%2 = pir.slice(%1) {index = 1 : i32} : (VEC) -> TYPE", "has a size that is not stated"),
    ],
)  # fmt: skip
def test_forms_that_need_a_size_are_refused(line: str, told: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        model_of_program(with_line("?x6", line, "?x6"))
    assert any(told in text for text in (caught.value.message, *caught.value.notes))


@pytest.mark.parametrize("saturates", [0, 1])
def test_float8_overflows_as_before(saturates: int) -> None:
    model = onnx.parser.parse_model(f"""
<ir_version: 9, opset_import: ["" : 19]>
g (float[2] x) => (float[2] z) {{
  y = Cast <to = 17, saturate = {saturates}> (x)
  z = Cast <to = 1> (y)
}}""")
    again = model_of_program(pirkit.onnx.program_of_model(model))
    x = np.array([1000, 2], np.float32)
    (found,) = ReferenceEvaluator(again).run(None, {"x": x})
    np.testing.assert_array_equal(found, [448 if saturates else np.nan, 2])


def test_bfloat16_is_computed_in_float32(tmp_path: Path) -> None:
    x = FLOATS.astype(dt.bfloat16.np)
    program = pirkit.trace(ops.sin, x)
    assert [n.op_type for n in model_of_program(program).graph.node] == [
        "Cast", "Sin", "Cast", "Identity"
    ]  # fmt: skip
    pirkit.save(program, tmp_path / "m.onnx")
    again = pirkit.load(tmp_path / "m.onnx")
    (found,) = pirkit.compile(again)(x=x).values()
    np.testing.assert_array_equal(found, ops.sin(x).numpy())


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("MatMul", "uint64"),
        *[(o, k) for o in ("MatMul", "Gemm") for k in ("int32", "int64", "uint32")],
    ],
)
def test_products_of_integers_are_exact(operator: str, kind: str) -> None:
    big = 3**31 if kind.endswith("64") else 50_000
    x = (np.arange(1, 7).reshape(2, 3) * big).astype(kind)
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({kind}[2,3] x, {kind}[3,2] y) => ' \
           f"({kind}[2,2] z) {{ z = {operator} (x, y) }}"  # fmt: skip
    program = pirkit.onnx.program_of_model(onnx.parser.parse_model(text))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(pirkit.compile(program)(x=x, y=x.T)["z"], x @ x.T)


def test_windows_behind_an_image_are_refused() -> None:
    def pooled(x: Any, padding: int) -> Any:
        return ops.pool2d(
            x, kernel_size=(1, 1), strides=(2, 2), paddings=(padding, padding),
            pooling_type="max", ceil_mode=True, exclusive=True, data_format="NCHW",
        )  # fmt: skip

    x = np.zeros((1, 1, 5, 5))
    model_of_program(pirkit.trace(lambda x: pooled(x, 0), x))
    with pytest.raises(UnsupportedError) as told:
        model_of_program(pirkit.trace(lambda x: pooled(x[:, :, :4, :4], 1), x))
    assert any("`pd_op.pool2d` may have windows behind" in note for note in told.value.notes)


@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_places_in_an_image_of_float64(factor: float) -> None:
    """Paddle computes them in float32, of which `Resize` knows nothing."""
    how = {"scale": (factor, factor), "align_corners": False, "interp_method": "bilinear"}
    image = np.arange(40.0).reshape(1, 2, 5, 4)
    program = pirkit.trace(lambda x: ops.bilinear_interp(x, **how), image)
    model = model_of_program(program)
    assert ("Resize" in {node.op_type for node in model.graph.node}) == (factor == 2.0)
    (found,) = ReferenceEvaluator(model).run(None, {"x": image})
    (wanted,) = pirkit.compile(program)(x=image).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_what_no_operator_takes_is_refused_with_op_and_place() -> None:
    program = pirkit.trace(lambda x: x * x, FLOATS * 1j)
    with pytest.raises(UnsupportedError, match=r"`pd_op.multiply` is no Mul of ONNX") as told:
        model_of_program(program)
    assert told.value.code == "PK0402"
    assert told.value.span is not None


def test_a_factor_that_the_type_lacks_is_refused() -> None:
    program = pirkit.trace(lambda x: ops.scale(x, scale=-1.0), np.abs(INTS).astype(np.uint8))
    with pytest.raises(UnsupportedError, match=r"`pd_op.scale` has the number -1.0"):
        model_of_program(program)
