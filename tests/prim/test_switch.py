"""The switch ``PIRKIT_PRIM`` and the argument ``prim=``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import UsageError
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.lowering.prim import KEEP, ONLY, SWITCH, with_prim
from pirkit.passes import run_pipeline
from pirkit.runtime.plan import Call, instructions
from pirkit.split import RunnableProgram, forward_backward

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
    monkeypatch.delenv(ONLY, raising=False)


def ops_of(**options: object) -> set[str]:
    program = Program(parse_mlir(TEXT), {}, "<test>")
    exe = pirkit.compile(program, **{"pipeline": "@simplify", **options})  # type: ignore[arg-type]
    found = exe(x=np.zeros((2, 3), np.float32))["m"]
    np.testing.assert_allclose(found, np.full(3, 1 / 3), rtol=1e-6)
    return {i.kernel for i in instructions(exe.plan.body) if isinstance(i, Call)}


def test_off_by_default() -> None:
    assert ops_of() == {"pd_op.softmax", "pd_op.mean"}


def test_the_argument() -> None:
    assert "pd_op.exp" in ops_of(prim=True)
    assert "pd_op.softmax" in ops_of(prim=True, prim_keep=["softmax"])
    assert "pd_op.mean" not in ops_of(prim=True, prim_keep=["softmax"])


@pytest.mark.parametrize("keep", ["softmax", ["sofmax"], [""], [3], ["softmax,only=gelu"]])
@pytest.mark.parametrize("prim", [True, False])
def test_the_argument_names_ops(keep: Any, prim: bool) -> None:
    with pytest.raises(UsageError, match=r"PK0701.*`prim_keep`"):
        ops_of(prim=prim, prim_keep=keep)


def test_what_is_kept_is_kept_by_what_fuses_too() -> None:
    found = ops_of(prim=True, prim_keep=["softmax"], pipeline="@default")
    assert found == {"pd_op.softmax", "pir.map_expr"}


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert "pd_op.exp" in ops_of()
    assert "pd_op.softmax" in ops_of(prim=False)
    monkeypatch.setenv(KEEP, "softmax;mean")
    assert ops_of() == {"pd_op.softmax", "pd_op.mean"}
    monkeypatch.setenv(SWITCH, "yes")
    with pytest.raises(UsageError, match="PIRKIT_PRIM is"):
        ops_of()


def test_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv(ONLY, "mean;gelu")
    assert "pd_op.softmax" in ops_of()
    assert "pd_op.mean" not in ops_of()
    monkeypatch.setenv(KEEP, "mean")
    assert ops_of() == {"pd_op.softmax", "pd_op.mean"}


GRADIENT = """
pir.program @main(%x "x" : tensor<3xf32>) {
  %y = pd_op.silu(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %g = pd_op.silu_grad(%x, %y, %y) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%g) {output_name = "g"} : (tensor<3xf32>) -> ()
}
"""


@pytest.mark.parametrize(
    ("said", "keep", "whole"),
    [
        ("forward", "", ["silu_grad"]),
        ("backward", "", ["silu"]),
        ("1", "silu_grad", ["silu_grad"]),
        ("1", "silu", ["silu"]),
        ("1", "", []),
    ],
)
def test_a17_either_half_may_stay_whole_and_says_so(
    said: str, keep: str, whole: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists name ops of the forward and of the backward; what is not decomposed is told."""
    monkeypatch.setenv(SWITCH, said)
    monkeypatch.setenv(KEEP, keep)
    result = run_pipeline(parse_mlir(GRADIENT), with_prim("", None, None))
    half = {"forward": "backward", "backward": "forward"}.get(said, "keep")
    assert [r.message for r in result.remarks if r.pass_name == "decompose"] == [
        f"`pd_op.{op}` is not decomposed: option `{half}` says so" for op in whole
    ]


def test_a17_by_default_order_five_of_a_network_has_a_gradient() -> None:
    """Where Paddle's default stops at order three: `matmul_grad` is on a list there."""
    rng = np.random.default_rng(0)
    params: Any = [
        (rng.standard_normal(s), rng.standard_normal(s[1])) for s in pairwise((1, 4, 4, 1))
    ]

    def net(p: Any, x: Any) -> Any:
        for w, b in p[:-1]:
            x = ops.tanh(ops.add(ops.matmul(x, w), b))
        return ops.add(ops.matmul(x, p[-1][0]), p[-1][1])

    u: Any = net
    for _ in range(5):
        u = along(u)

    def loss(p: Any, x: Any) -> Any:
        return ((u(p, x) + 1.0) ** 2).mean()

    x = np.linspace(-0.5, 0.5, 5).reshape(-1, 1)
    gradients = pirkit.grad(loss)(params, x)
    traced = trace(pirkit.grad(loss), (params, x))
    pipeline = "taylor,expand-gradients,decompose,verify-primitive"
    assert not [
        r for r in run_pipeline(traced.program.module, pipeline).remarks if r.kind == "missed"
    ]
    step = 1e-6
    for layer in range(len(params)):
        moved = [
            [(v + s * step if i == layer else v, b) for i, (v, b) in enumerate(params)]
            for s in (1, -1)
        ]
        slope = [float(np.asarray(pirkit.value_and_grad(loss)(p, x)[0])) for p in moved]
        found = float(np.sum(np.asarray(gradients[layer][0])))
        np.testing.assert_allclose(found, (slope[0] - slope[1]) / (2 * step), rtol=1e-5)


def along(f: Any) -> Any:
    """The derivative to the second argument, at each row."""
    return lambda p, x: pirkit.grad(lambda q, y: f(q, y).sum(), 1)(p, x)


DROPS = """
pir.program @main(%x "x" : tensor<4x64xf32>) {
  %h = pd_op.tanh(%x) : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y, %m = pd_op.dropout(%h) {operandSegmentSizes = array<i32: 1, 0, 0>, p = 0.5 : f64, is_test = false, mode = "upscale_in_train", seed = 0 : i32, fix_seed = false} : (tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xui8>)
  %e = pd_op.exp(%y) : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %z, %n = pd_op.dropout(%e) {operandSegmentSizes = array<i32: 1, 0, 0>, p = 0.25 : f64, is_test = false, mode = "upscale_in_train", seed = 0 : i32, fix_seed = false} : (tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xui8>)
  pir.shadow_output(%z) {output_name = "z"} : (tensor<4x64xf32>) -> ()
}
"""  # noqa: E501


@pytest.mark.parametrize("pipeline", ["", "@default", "functionalize,decompose", "@fused"])
def test_a16_every_way_to_run_a_program_draws_the_same(pipeline: str) -> None:
    """In each of two runs: as it is, decomposed, fused, and split with recomputation."""
    program = Program(parse_mlir(DROPS), {}, "<test>")
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    plain, other = (pirkit.compile(program, pipeline=p, seed=3) for p in ("", pipeline))
    splits = [
        RunnableProgram(forward_backward(program, mode=mode), pipeline=pipeline, seed=3)
        for mode in ("save-all", "min-cut")
    ]
    zeros = []
    for _ in range(2):
        expected = plain(x=x)["z"]
        np.testing.assert_allclose(other(x=x)["z"], expected, rtol=1e-5)
        for split in splits:
            outputs = split.forward([x])
            np.testing.assert_allclose(outputs[0].numpy(), expected, rtol=1e-5)
            gradient = split.backward([np.ones_like(x)], outputs)[0][0]
            assert gradient is not None
            assert not np.any(gradient.numpy()[expected == 0])
        zeros.append(expected == 0)
    assert 0 < np.count_nonzero(zeros[0] != zeros[1])


@pytest.mark.parametrize("variable", [KEEP, ONLY])
def test_lists_name_ops_also_where_the_switch_is_off(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "softmax;pd_op.mean")
    ops_of()
    monkeypatch.setenv(variable, "softmax;maen")
    for prim in (None, True, False):
        with pytest.raises(UsageError, match=f"{variable} names 'maen'") as caught:
            ops_of(prim=prim)
        assert caught.value.code == "PK0705"
