"""Unsigned integers of 64 bits, which int64 stands for; folding of volumes; dropout in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import pirkit  # noqa: E402
from pirkit.diag.errors import UnsupportedError  # noqa: E402
from pirkit.onnx import program_of_model  # noqa: E402

Array = np.ndarray[Any, Any]
X: Array = np.array([0, 1, 7, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1, 12345], np.uint64)
Y: Array = np.array([3, 2**64 - 1, 2, 2**63, 1, 2**63 + 4, 10, 7], np.uint64)


def run(model: Any, *inputs: Array) -> list[Array]:
    names = [i.name for i in model.graph.input]
    found = pirkit.compile(program_of_model(model))(**dict(zip(names, inputs, strict=True)))
    return list(found.values())


def one(body: str, inputs: str, result: str) -> Any:
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => ({result} z) {{ {body} }}'
    )


BINARY: dict[str, tuple[str, Callable[[Array, Array], Any]]] = {
    "Less (x, y)": ("bool", np.less),
    "GreaterOrEqual (x, y)": ("bool", np.greater_equal),
    "Max (x, y)": ("uint64", np.maximum),
    "Min (x, y)": ("uint64", np.minimum),
    "Div (x, y)": ("uint64", np.floor_divide),
    "Mod (x, y)": ("uint64", np.remainder),
    'BitShift <direction = "RIGHT"> (x, y)': ("uint64", lambda x, y: x >> (y % np.uint64(60))),
    'BitShift <direction = "LEFT"> (x, y)': ("uint64", lambda x, y: x << (y % np.uint64(60))),
    "ReduceMax <keepdims = 0> (x)": ("uint64", lambda x, _: x.max()),
    "ArgMin <keepdims = 0> (x)": ("int64", lambda x, _: x.argmin()),
    "Clip (x, y0)": ("uint64", lambda x, y: np.maximum(x, y[3])),
}


@pytest.mark.parametrize("call", BINARY)
def test_words_are_compared_and_divided(call: str) -> None:
    result, rule = BINARY[call]
    shape = "" if "keepdims" in call else "[8]"
    y = Y % np.uint64(60) if "BitShift" in call else Y
    before = "at = Constant <value_int = 3> () y0 = Gather (y, at) " if "Clip" in call else ""
    model = one(f"{before} z = {call}", "uint64[8] x, uint64[8] y", f"{result}{shape}")
    wanted = np.asarray(rule(X, y))
    (found,) = run(model, X, y)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_words_as_floats(kind: str) -> None:
    number = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}[kind]
    (found,) = run(one(f"z = Cast <to = {number}> (x)", "uint64[8] x", f"{kind}[8]"), X)
    np.testing.assert_array_equal(found, X.astype(found.dtype))
    (back,) = run(one("z = Cast <to = 13> (x)", f"{kind}[3] x", "uint64[3]"),
                  np.array([0, 2.0**63, 2.0**63 + 2.0**40], found.dtype))  # fmt: skip
    np.testing.assert_array_equal(back, np.array([0, 2**63, 2**63 + 2**40], np.uint64))


def test_a_power_of_words_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a base of uint64"):
        program_of_model(one("z = Pow (x, y)", "uint64[8] x, uint64[8] y", "uint64[8]"))


@pytest.mark.parametrize(
    ("size", "block", "how", "count"),
    [
        ((9,), (3,), "strides = [2], pads = [1, 0]", 4),
        ((3, 4, 5), (2, 1, 3), "pads = [1, 0, 0, 0, 1, 2], dilations = [1, 1, 2]", 45),
    ],
)
def test_windows_fold_to_lines_and_volumes(
    size: tuple[int, ...], block: tuple[int, ...], how: str, count: int
) -> None:
    depth = 2 * int(np.prod(block))
    shape = ", ".join(map(str, size))
    model = one(
        f"s = Constant <value_ints = [{shape}]> () k = Constant <value_ints = {list(block)}> ()"
        f" z = Col2Im <{how}> (x, s, k)",
        f"float[2, {depth}, {count}] x",
        f"float[2, 2, {shape}]",
    )
    x = np.random.default_rng(0).standard_normal((2, depth, count)).astype(np.float32)
    results: Any = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(run(model, x)[0], results[0], rtol=1e-5, atol=1e-5)


def test_dropout_in_training_draws() -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[4000] x) => (float[4000] z, bool[4000] kept) {
      share = Constant <value_float = 0.25> ()
      one = Constant <value_int = 1> ()
      trains = Cast <to = 9> (one)
      z, kept = Dropout <seed = 7> (x, share, trains)
    }
    """)
    x = np.arange(1, 4001, dtype=np.float32)
    z, kept = run(model, x)
    np.testing.assert_allclose(z, np.where(kept, x / 0.75, 0), rtol=1e-6)
    assert 0.7 < kept.mean() < 0.8
