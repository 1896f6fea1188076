"""Paddle trains models that pirkit has written, and reads forward halves of pirkit's splits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pirkit.frontend.cases import open_case
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.params import parameter_metas, read_params, write_params
from pirkit.passes import run_pipeline
from pirkit.split import RunnableProgram, forward_backward
from tests.split.saved_bytes import CASES, of_ours

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
MODELS: Final = ("mlp", "lenet", "layer_norm_gelu", "conv_bn_train", "attention", "embedding_ce")

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.slow,  # Paddle takes seconds to start
    pytest.mark.filterwarnings("ignore:Tensor do not have .place.:UserWarning"),
]


@pytest.mark.parametrize("name", MODELS)
def test_paddle_s_gradients_of_a_written_model_are_ours(name: str, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    folder = CORPUS / name
    case = open_case(folder)
    module = read_paddle_json((folder / "model.json").read_text(encoding="utf-8"))
    weights = read_params(folder / "model.pdiparams", parameter_metas(module))
    (tmp_path / "model.json").write_text(write_paddle_json(module), encoding="utf-8")
    write_params(tmp_path / "model.pdiparams", weights)
    inputs = case.step("inputs.npz", 1)

    paddle.disable_static()
    layer = paddle.jit.load(str(tmp_path / "model"))
    layer.train()
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))["fx"]
    feeds = [paddle.to_tensor(inputs[n], stop_gradient=inputs[n].dtype.kind != "f") for n in names]
    found = layer(*feeds)
    results = list(found) if isinstance(found, list | tuple) else [found]
    sum((r * r).sum() for r in results if r.dtype == paddle.float32).backward()
    theirs = [f.grad for f in feeds] + [p.grad for p in layer.parameters()]

    run_pipeline(module, "absorb-attributes")
    step = RunnableProgram(forward_backward(module))
    outputs = step.forward(
        [inputs[n] for n in names], [np.asarray(weights[n]) for n in step.names.fp]
    )
    of_inputs, of_params = step.backward([2 * o.numpy() for o in outputs], outputs)
    ours = [g for g in (*of_inputs, *of_params) if g is not None]
    assert len(ours) >= sum(g is not None for g in theirs) > 0
    for gradient in theirs:
        if gradient is not None:
            assert any(close(gradient.numpy(), g.numpy()) for g in ours)


def close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_paddle_reads_a_forward_half(folder: Path, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    text = write_paddle_json(of_ours(folder, "save-all").forward.module)
    (tmp_path / "half.json").write_text(text, encoding="utf-8")
    with paddle.pir_utils.IrGuard():
        program = paddle.static.Program()
        paddle.base.core.deserialize_pir_program(str(tmp_path / "half.json"), program)
        count = len(program.global_block().ops)
    assert count == len(json.loads(text)["program"]["regions"][0]["blocks"][0]["ops"])
