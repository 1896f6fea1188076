"""The text: its forms, locations, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
import pirkit.stablehlo
from pirkit.cli import opt, run
from pirkit.diag.errors import LimitError, ParseError, PirkitError, UnsupportedError
from pirkit.dialect.operation import PirOp, span_of
from pirkit.runtime import dtype as dt

MLP = Path(__file__).parent / "programs" / "mlp.float32.mlir"

PRETTY = """
module @m {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>) {
    %cst = stablehlo.constant dense<[1.0, -2.0, 0x7F800000]> : tensor<3xf32>
    %c = stablehlo.constant dense<"0x0100000002000000"> : tensor<2xi32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.minimum %arg0, %0 : tensor<2x3xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %3:2 = stablehlo.while(%i = %arg1, %s = %c) : tensor<i32>, tensor<2xi32>
    cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %5 = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = stablehlo.add %i, %i : tensor<i32>
      %6 = func.call @twice(%s) : (tensor<2xi32>) -> tensor<2xi32>
      stablehlo.return %5, %6 : tensor<i32>, tensor<2xi32>
    }
    return %2, %3#1 : tensor<2xf32>, tensor<2xi32>
  }
  func.func private @twice(%arg0: tensor<2xi32>) -> tensor<2xi32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xi32>
    return %0 : tensor<2xi32>
  }
}
"""  # noqa: E501
GENERIC = """
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3xf32>) -> tensor<f32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<3xf32> loc("weights")):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = "stablehlo.compare"(%a, %b)
        <{comparison_direction = #stablehlo<comparison_direction GT>}>
        : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = "stablehlo.select"(%2, %a, %b) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%1) : (tensor<f32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def body(*lines: str, result: str = "tensor<3xf32>") -> str:
    inner = "\n    ".join(lines)
    return (f"module {{\n  func.func @main(%x: tensor<3xf32>) -> {result} {{\n    {inner}\n"
            f"    return %0 : {result}\n  }}\n}}\n")  # fmt: skip


def test_the_pretty_form() -> None:
    program = pirkit.stablehlo.load(PRETTY)
    sums, state = (
        pirkit.compile(program)
        .run({"arg_0": np.ones((2, 3), np.float32) * 3, "arg_1": np.array(1, np.int32)})
        .values()
    )
    np.testing.assert_array_equal(sums, [2, 2])
    np.testing.assert_array_equal(state, [4, 8])


def test_the_generic_form() -> None:
    program = pirkit.loads(GENERIC)
    found = pirkit.compile(program).run({"weights": np.array([1, 5, 3], np.float32)})
    assert found["result_0"] == 5


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("%0 = stablehlo.constant dense<[true, false]> : tensor<2xi1>", [True, False]),
        ("%0 = stablehlo.constant dense<[4294967295, 7]> : tensor<2xui32>", [-1, 7]),
        ("%0 = stablehlo.constant dense<(1.0, -2.5)> : tensor<1xcomplex<f32>>", [1 - 2.5j]),
        ('%0 = stablehlo.constant dense<"0x00C0"> : tensor<1xbf16>', [-2.0]),
        ("%0 = stablehlo.constant dense<> : tensor<0xf32>", []),
    ],
)
def test_elements_of_constants(line: str, wanted: list[Any]) -> None:
    program = pirkit.loads(body(line, result=line.rpartition(" ")[2]))
    found = pirkit.compile(program).run({"arg_0": np.zeros(3, np.float32)})["result_0"]
    np.testing.assert_array_equal(found.astype(np.array(wanted).dtype), wanted)


def test_ops_are_located_at_lines_of_python() -> None:
    program = pirkit.load(MLP)
    spans = {op.name: span_of(op) for op in program.main.walk() if isinstance(op, PirOp)}
    lines = (Path(__file__).parent / "jax_functions.py").read_text().splitlines()
    span = spans["pd_op.matmul"]
    assert span is not None
    assert span.file == "tests/stablehlo/jax_functions.py"
    assert "x @ w" in lines[span.line - 1]
    assert [op.attribute("name") for op in program.main.walk() if isinstance(op, PirOp)
            and op.name == "pd_op.data"] == ["x", "w", "b", "v"]  # fmt: skip


WRONG: dict[str, tuple[str, str, str]] = {
    "cut": (PRETTY[: PRETTY.index("do {")], "PK0102", "ends in the middle"),
    "cut constant": (PRETTY[: PRETTY.index("0x7F")], "PK0102", "ends in the middle"),
    "unknown": (body("%0 = stablehlo.frobnicate %x : tensor<3xf32>"), "PK0411", "frobnicate"),
    "undefined": (body("%0 = stablehlo.tanh %y : tensor<3xf32>"), "PK0103", "%y"),
    "operands": (body("%0 = stablehlo.real %x : (tensor<4xf32>) -> tensor<4xf32>"), "PK0105",
                 "other types"),
    "result": (body("%0 = stablehlo.tanh %x : tensor<4xf32>"), "PK0105", "the text states"),
    "shapes": (body("%1 = stablehlo.constant dense<1.0> : tensor<2xf32>",
                    "%0 = stablehlo.add %x, %1 : tensor<3xf32>"), "PK0105", "does not fit"),
    "type": (body("%0 = stablehlo.tanh %x : tensor<?xf32>"), "PK0411", "concrete shapes"),
    "element": (body("%0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi4>"), "PK0411",
                "i4"),
    "attribute": (body("%0 = stablehlo.transpose %x, dims = [0] {odd = 1 : i64} : "
                       "(tensor<3xf32>) -> tensor<3xf32>"), "PK0411", "odd"),
    "elements": (body("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>"), "PK0106",
                 "no elements"),
    "number": (body("%0 = stablehlo.constant dense<[1.0, a, 2.0]> : tensor<3xf32>"), "PK0106",
               "no elements"),
    "call": (body("%0 = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "PK0103", "@f"),
    "library": (body("%0 = stablehlo.custom_call @secret(%x) : (tensor<3xf32>) -> tensor<3xf32>"),
                "PK0411", "@secret"),
    "endless": (body("%0 = call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "PK0411", "deep"),
    "count": (body("%0:2 = stablehlo.tanh %x : (tensor<3xf32>) -> tensor<3xf32>"), "PK0101",
              "1 results"),
    "many": (body("%0:2147483647 = stablehlo.tanh %x : tensor<3xf32>"), "PK0303", "2,147,483,647"),
    "garbage": (body("%0 = stablehlo.tanh %x ] : tensor<3xf32>"), "PK0101", "]"),
    "returned": (body("%0 = stablehlo.tanh %x : tensor<3xf32>", result="tensor<3xf64>"), "PK0105",
                 "declares"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_texts_have_a_code_and_a_place(name: str) -> None:
    text, code, told = WRONG[name]
    with pytest.raises((LimitError, ParseError, UnsupportedError)) as caught:
        pirkit.stablehlo.load(text)
    assert caught.value.code == code
    assert told in f"{caught.value.message} {caught.value.help}"
    assert caught.value.span is not None
    assert caught.value.span.line > 0


NESTED = """
func.func @main(%x: tensor<3xf32> loc("a b"("w.py":7:1))) -> tensor<3xf32> {
  %0 = stablehlo.tanh %x : tensor<3xf32> loc("g(x"(callsite("f"("m.py":3:4 to :9) at "h"(#loc1))))
  return %0 : tensor<3xf32> loc(#loc)
} loc(fused["p", unknown])
#loc = loc(unknown)
#loc1 = loc("n.py":5:6)
"""


def test_nested_locations_and_a_function_without_a_module() -> None:
    program = pirkit.stablehlo.load(NESTED)
    spans = [span_of(op) for op in program.main.walk() if op.name == "pd_op.tanh"]
    assert [(s.file, s.line, s.column) for s in spans if s is not None] == [("m.py", 3, 4)]


def test_every_cut_of_a_text_is_refused_with_a_code() -> None:
    text = MLP.read_text()[:3000]
    for end in range(0, len(text), 61):
        with pytest.raises(PirkitError):
            pirkit.stablehlo.load(text[:end] + "\n")


def test_an_unknown_operation_is_named_with_its_line_of_python() -> None:
    text = MLP.read_text().replace("stablehlo.maximum", "stablehlo.maximus")
    with pytest.raises(UnsupportedError, match="maximus") as caught:
        pirkit.stablehlo.load(text)
    assert any("jax_functions.py" in note for note in caught.value.notes)


def test_a_rule_of_the_user() -> None:
    @pirkit.stablehlo.rule("custom_call:thrice")
    def _(b: Any, x: Any) -> Any:
        return b.scaled(x, 3.0)

    line = "%0 = stablehlo.custom_call @thrice(%x) : (tensor<3xf32>) -> tensor<3xf32>"
    try:
        program = pirkit.stablehlo.load(body(line))
        np.testing.assert_array_equal(program(np.ones(3, np.float32)).numpy(), [3, 3, 3])
    finally:
        del pirkit.stablehlo.RULES["custom_call:thrice"]


def test_the_commands_read_it(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["pirkit-opt", str(MLP), "-p", "cse,dce", "--locs"])
    assert opt.main() == 0
    printed = capsys.readouterr().out
    assert "pd_op.matmul" in printed
    assert "jax_functions.py" in printed
    monkeypatch.setattr("sys.argv", ["pirkit-run", str(MLP), "--inputs", "random:0"])
    assert run.main() == 0
    assert "result: float32[8, 3]" in capsys.readouterr().out


def test_a_constant_of_a_megabyte_is_one_line() -> None:
    numbers = np.arange(300_000, dtype=np.float32)
    line = f'%0 = stablehlo.constant dense<"0x{numbers.tobytes().hex()}"> : tensor<300000xf32>'
    program = pirkit.stablehlo.load(body(line, result="tensor<300000xf32>"))
    (weights,) = program.params.values()
    np.testing.assert_array_equal(weights, numbers)


SCATTER = """func.func @main(%x: tensor<2xTYPE>, %u: tensor<1xTYPE>) -> tensor<2xTYPE> {
  %i = stablehlo.constant dense<0> : tensor<1x1xi32>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %1 = stablehlo.HOW %a, %b : tensor<TYPE>
    stablehlo.return %1 : tensor<TYPE>
  }) : (tensor<2xTYPE>, tensor<1x1xi32>, tensor<1xTYPE>) -> tensor<2xTYPE>
  return %0 : tensor<2xTYPE>
}"""


@pytest.mark.parametrize("how", ["maximum", "minimum"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_extremes_of_unsigned_numbers_are_scattered(how: str, bits: int) -> None:
    text = SCATTER.replace("TYPE", f"ui{bits}").replace("HOW", how)
    x, part = (np.array(v, f"u{bits // 8}") for v in ([1, 2], [1 << (bits - 1)]))
    wanted = [getattr(np, how)(x[0], part[0]), 2]
    as_held = (lambda a: a) if bits == 8 else (lambda a: a.view(f"i{bits // 8}"))
    found = pirkit.stablehlo.load(text)(as_held(x), as_held(part)).numpy()
    np.testing.assert_array_equal(found.view(x.dtype), wanted)


SELECT = """func.func @main(%x: tensor<4xTYPE>, %s: tensor<3xTYPE>) -> tensor<4xTYPE> {
  %z = stablehlo.constant dense<ZERO> : tensor<TYPE>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2>,
    window_strides = array<i64: 2>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<TYPE>, tensor<TYPE>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %1 = stablehlo.add %a, %b : tensor<TYPE>
    stablehlo.return %1 : tensor<TYPE>
  }) : (tensor<4xTYPE>, tensor<3xTYPE>, tensor<TYPE>) -> tensor<4xTYPE>
  return %0 : tensor<4xTYPE>
}"""


@pytest.mark.parametrize("type_", ["f4", "i4", "u1", "u4"])
def test_padding_of_selected_windows_is_below_all_numbers(type_: str) -> None:
    words = {"f4": "f32", "i4": "i32", "u1": "ui8", "u4": "ui32"}
    text = SELECT.replace("TYPE", words[type_]).replace("ZERO", "0.0" if type_ == "f4" else "0")
    as_held = (lambda a: a.view("i4")) if type_ == "u4" else (lambda a: a)
    x, s = (np.array(v, "i8").astype(type_) for v in ([-5, -7, 3, 4], [1, 2, 3]))
    found = pirkit.stablehlo.load(text)(as_held(x), as_held(s)).numpy()
    first = 2 if type_.startswith("u") else 0  # -7 is a large unsigned number
    wanted = [1, first, 2 - first, 3]
    np.testing.assert_array_equal(found.view(type_), wanted)


REDUCE = """func.func @main(%x: tensor<4xTYPE>) -> tensor<TYPE> {
  %init = stablehlo.constant dense<INIT> : tensor<TYPE>
  %0 = stablehlo.reduce(%x init: %init) across dimensions = [0] :
    (tensor<4xTYPE>, tensor<TYPE>) -> tensor<TYPE>
    reducer(%a: tensor<TYPE>, %b: tensor<TYPE>) { LINE stablehlo.return %c : tensor<TYPE> }
  return %0 : tensor<TYPE>
}"""
WINDOWS = """func.func @main(%x: tensor<4xTYPE>) -> tensor<TYPE> {
  %init = stablehlo.constant dense<INIT> : tensor<TYPE>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 4>}> ({
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    LINE stablehlo.return %c : tensor<TYPE>
  }) : (tensor<4xTYPE>, tensor<TYPE>) -> tensor<1xTYPE>
  %1 = stablehlo.reshape %0 : (tensor<1xTYPE>) -> tensor<TYPE>
  return %1 : tensor<TYPE>
}"""


@pytest.mark.parametrize("text", [REDUCE, WINDOWS])
@pytest.mark.parametrize(
    ("kind", "init", "op", "wanted"),
    [
        ("ui32", 2**31, "maximum", -(2**31)),
        ("ui32", 0, "maximum", 11),
        ("ui32", 2**31 - 1, "minimum", 3),
        ("i32", 1, "and", 1),
        ("i32", -1, "and", 3),
        ("i32", 5, "", 11),
    ],
)
def test_initial_values_are_combined(text: str, kind: str, init: int, op: str, wanted: int) -> None:
    line = f"%c = stablehlo.{op} %a, %b : tensor<TYPE>" if op else ""
    text = text.replace("LINE", line).replace("TYPE", kind).replace("INIT", str(init))
    text = text if op else text.replace("return %c", "return %b")
    found = pirkit.stablehlo.load(text)(np.array([3, 7, 7, 11], np.int32)).numpy()
    assert found == wanted


ARGMAX = """func.func @main(%x: tensor<3xf32>) -> (tensor<f32>, tensor<i32>) {
  %best = stablehlo.constant dense<BEST> : tensor<f32>
  %at = stablehlo.constant dense<7> : tensor<i32>
  %i = stablehlo.iota dim = 0 : tensor<3xi32>
  %0:2 = stablehlo.reduce(%x init: %best), (%i init: %at) across dimensions = [0] :
    (tensor<3xf32>, tensor<3xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
    reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
      %1 = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.or %1, %2 : tensor<i1>
      %4 = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %6 = stablehlo.and %4, %5 : tensor<i1>
      %7 = stablehlo.or %3, %6 : tensor<i1>
      %8 = stablehlo.select %3, %a, %c : tensor<i1>, tensor<f32>
      %9 = stablehlo.select %7, %b, %d : tensor<i1>, tensor<i32>
      stablehlo.return %8, %9 : tensor<f32>, tensor<i32>
    }
  return %0#0, %0#1 : tensor<f32>, tensor<i32>
}"""


@pytest.mark.parametrize(("best", "wanted"), [("9.0", (9, 7)), ("0xFF800000", (4, 1))])
def test_the_largest_element_is_compared_with_the_initial_one(best: str, wanted: Any) -> None:
    program = pirkit.stablehlo.load(ARGMAX.replace("BEST", best))
    found = program(np.array([1, 4, 2], np.float32))
    assert tuple(v.numpy() for v in found) == wanted
    reduces = {op.name for op in program.main.walk()}
    assert "pd_op.argmax" in reduces


@pytest.mark.parametrize(
    ("given", "line", "wanted"),
    [
        (np.float16(1.01), "reduce_precision %x, format = e8m7", 1.0078125),
        (dt.bfloat16.np.type(1e10), "reduce_precision %x, format = e5m10", np.inf),
        *[(np.array(-0.0, kind), f"{name} %x", -0.0) for kind in ("f2", "f4", "f8")
          for name in ("sign", "cbrt", "round_nearest_afz")],
        (np.float32(np.nan), "sign %x", np.nan),
        (np.float32(-0.3), "round_nearest_afz %x", -0.0),
        (np.float32(-2.5), "round_nearest_afz %x", -3.0),
    ],
)  # fmt: skip
def test_roundings_and_signs(given: Any, line: str, wanted: float) -> None:
    kind = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}[
        str(given.dtype)
    ]
    text = f"""func.func @main(%x: tensor<{kind}>) -> tensor<{kind}> {{
      %0 = stablehlo.{line} : tensor<{kind}>
      return %0 : tensor<{kind}>
    }}"""
    found = float(pirkit.stablehlo.load(text)(np.asarray(given)).numpy())
    np.testing.assert_array_equal(found, wanted)
    assert np.signbit(found) == np.signbit(wanted)


NUMBERS = (
    0.0, 1.5, -1.5, 127.9, 128.0, -129.0, 255.5, 256.0, 65536.0, 2147483520.0, 2147483648.0,
    -2147483649.0, 4294967040.0, 4294967296.0, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("to", ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_floats_beyond_an_integer_type_saturate(source: str, to: str) -> None:
    """As in XLA; NaN is 0."""
    n, bits, is_unsigned = len(NUMBERS), int(to.lstrip("ui")), to.startswith("u")
    text = f"""func.func public @main(%x: tensor<{n}x{source}>) -> tensor<{n}x{to}> {{
      %0 = stablehlo.convert %x : (tensor<{n}x{source}>) -> tensor<{n}x{to}>
      return %0 : tensor<{n}x{to}>
    }}"""
    with np.errstate(over="ignore"):
        given = np.array(NUMBERS).astype(f"f{int(source[1:]) // 8}")
    least, most = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    wanted = [0 if v != v else most if v >= most else least if v <= least else int(v)
              for v in given.tolist()]  # fmt: skip
    found = pirkit.stablehlo.load(text)(given).numpy()
    assert found.view(f"{to[0]}{bits // 8}").tolist() == wanted


SORT = """%0 = "stablehlo.sort"(%x) <{HOW}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<3xf32>) -> tensor<3xf32>"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (SORT.replace("HOW", "dimension = 7 : i64"), "axis 7 is out of bounds"),
        (SORT.replace("HOW", "dimension = 0 : i64, is_stable = 3"), "has 3 as `is_stable`"),
        (SORT.replace("HOW", "dimensions = 0 : i64"), "unexpected keyword argument 'dimensions'"),
        ("%0 = stablehlo.reverse %x, dims = [-1] : tensor<3xf32>", r"has \[-1\] as `dimensions`"),
        (
            "%1 = stablehlo.compare EQ, %x, %x, ROUND : (tensor<3xf32>, tensor<3xf32>) ->"
            " tensor<3xi1>\n    %0 = stablehlo.convert %1 : (tensor<3xi1>) -> tensor<3xf32>",
            "compared as `ROUND`",
        ),
        (
            '%0 = "stablehlo.fft"(%x) <{fft_type = "QFT", fft_length = array<i64: 3>}> :'
            " (tensor<3xf32>) -> tensor<3xf32>",
            "`QFT` is no Fourier transform",
        ),
    ],
)  # fmt: skip
def test_attributes_of_another_kind_are_refused(line: str, told: str) -> None:
    with pytest.raises(PirkitError, match=told):
        pirkit.stablehlo.load(body(line))
