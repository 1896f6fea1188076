"""Names of attributes: what an op declares, what frameworks put on any op, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects import builtin as mlir

import pirkit
from pirkit import ops
from pirkit.diag.errors import UsageError, VerifyError
from pirkit.dialect.attrs import DISCARDABLE, encode
from pirkit.dialect.opdef import OPS, OpDef, op
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.verify import verify_module
from pirkit.frontend.files import parse
from pirkit.frontend.paddle.json_writer import write_paddle_json

X: Final = np.eye(2, dtype=np.float32)
TEXT: Final = """pir.program @main(%x "x" : tensor<2x2xf32>) {{
  %y = pd_op.matmul(%x, %x) {{{0}}} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
}}"""


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("transpose_Y = true", "did you mean `transpose_y`?"),
        ("tranpose_x = true", "did you mean `transpose_x`?"),
        ("stop_gradients = true", "did you mean `stop_gradient`?"),
        ("zz = 1 : i64", "its attributes are `transpose_x`, `transpose_y`"),
    ],
)
def test_other_names_are_refused(given: str, hint: str) -> None:
    with pytest.raises(VerifyError) as caught:
        parse(TEXT.format(given))
    error = caught.value
    assert (error.code, error.help) == ("PK0205", hint)
    assert f"`{given.partition(' ')[0]}`" in error.message
    assert error.span is not None
    assert error.span.line == 2


@pytest.mark.parametrize("given", ["pir.id = 3 : i64", 'mine.note = "x"', "op_dist_attr = unit"])
def test_names_with_a_prefix_and_those_of_frameworks(given: str) -> None:
    parse(TEXT.format(given))


@pytest.mark.parametrize("name", DISCARDABLE)
def test_what_paddle_puts_on_any_op(name: str) -> None:
    module = parse(TEXT.format(""))
    flags = mlir.DenseArrayBase.from_list(mlir.i1, [1])
    is_read = name in ("stop_gradient", "persistable")
    _matmul(module).attributes[name] = flags if is_read else mlir.UnitAttr()
    verify_module(module)


def test_json_of_paddle() -> None:
    module = parse(TEXT.format("transpose_x = true"))
    text = write_paddle_json(module)
    parse(text)
    document: dict[str, Any] = json.loads(text.replace('"transpose_x"', '"transpose_X"'))
    with pytest.raises(VerifyError, match="transpose_X") as caught:
        parse(json.dumps(document))
    assert caught.value.help == "did you mean `transpose_x`?"


def _matmul(module: mlir.ModuleOp) -> PirOp:
    return next(op for op in module.walk() if isinstance(op, PirOp))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.matmul(X, X, transpose_Y=True),
        lambda: ops.add_n([X, X], acsis=1),
        lambda: pirkit.jvp(lambda x: ops.matmul(x, X, transpose_Y=True), (X,), (X,)),
    ],
)
def test_keywords(call: Any) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.code == "PK0701"


@pytest.fixture
def of_a_plugin() -> Iterator[OpDef]:
    class Shift:
        """Adds a number."""

        name = "mine.shift"
        signature = "x ; offset: f32 -> out"

    yield op(Shift)
    del OPS["mine.shift"]


def test_ops_of_plugins(of_a_plugin: OpDef) -> None:
    module = parse(TEXT.format(""))
    matmul = _matmul(module)
    x = matmul.operands[0]
    made = create(of_a_plugin, [x], [x.type], {"offset": encode("f32", 1.0)})
    made.attributes["ofset"] = encode("f32", 2.0)
    assert matmul.parent is not None
    matmul.parent.add_op(made)
    with pytest.raises(VerifyError) as caught:
        verify_module(module)
    assert caught.value.help == "did you mean `offset`?"
    with pytest.raises(UsageError) as refused:
        ops.op("mine.shift")(X, 1.0, ofset=2.0)
    assert refused.value.help == "did you mean `offset`?"
