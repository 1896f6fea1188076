"""The switch ``PIRKIT_PRIM`` and the argument ``prim=``."""

from __future__ import annotations

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import UsageError
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.files import Program
from pirkit.lowering.prim import KEEP, SWITCH
from pirkit.runtime.plan import Call, instructions

TEXT = """
pir.program @main(%x "x" : tensor<2x3xf32>) {
  %y = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %m = pd_op.mean(%y) {axis = array<i64: 0>, keepdim = false} : (tensor<2x3xf32>) -> tensor<3xf32>
  pir.shadow_output(%m) {output_name = "m"} : (tensor<3xf32>) -> ()
}
"""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.delenv(KEEP, raising=False)


def ops_of(**options: object) -> set[str]:
    program = Program(parse_mlir(TEXT), {}, "<test>")
    exe = pirkit.compile(program, **options)  # type: ignore[arg-type]
    found = exe(x=np.zeros((2, 3), np.float32))["m"]
    np.testing.assert_allclose(found, np.full(3, 1 / 3), rtol=1e-6)
    return {i.kernel for i in instructions(exe.plan.body) if isinstance(i, Call)}


def test_off_by_default() -> None:
    assert ops_of() == {"pd_op.softmax", "pd_op.mean"}


def test_the_argument() -> None:
    assert "pd_op.exp" in ops_of(prim=True)
    assert "pd_op.softmax" in ops_of(prim=True, prim_keep=["softmax"])
    assert "pd_op.mean" not in ops_of(prim=True, prim_keep=["softmax"])


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert "pd_op.exp" in ops_of()
    assert "pd_op.softmax" in ops_of(prim=False)
    monkeypatch.setenv(KEEP, "softmax;mean")
    assert ops_of() == {"pd_op.softmax", "pd_op.mean"}
    monkeypatch.setenv(SWITCH, "yes")
    with pytest.raises(UsageError, match="PIRKIT_PRIM is"):
        ops_of()
