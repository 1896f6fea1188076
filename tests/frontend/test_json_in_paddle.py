"""Paddle itself reads, and runs, the JSON that pirkit writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.params import parameter_metas, read_params, write_params
from pirkit.frontend.paddle.text_reader import read_paddle_text
from tests.frontend.json_documents import (
    Json,
)

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p.parent for p in CORPUS.glob("*/model.json"))
DUMPS: Final = sorted(CORPUS.glob("*/*ward.txt"))


def case_name(path: Path) -> str:
    return path.name if path.is_dir() else f"{path.parent.name}-{path.stem}"


@pytest.mark.paddle
@pytest.mark.slow  # Paddle takes seconds to start
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_paddle_runs_what_was_rewritten(case: Path, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    module = read_paddle_json((case / "model.json").read_text(encoding="utf-8"))
    stored = parameter_metas(module)
    prefix = tmp_path / "model"
    prefix.with_suffix(".json").write_text(write_paddle_json(module), encoding="utf-8")
    if stored:
        arrays = read_params(case / "model.pdiparams", stored)
        write_params(prefix.with_suffix(".pdiparams"), arrays)
    meta = json.loads((case / "meta.json").read_text(encoding="utf-8"))
    inputs = np.load(case / "inputs.npz")
    names = json.loads((case / "names.json").read_text(encoding="utf-8"))["fx"]
    feeds = [inputs[f"step1/{name}"] for name in names]
    expected = np.load(case / "infer_outputs.npz")

    paddle.disable_static()
    layer = paddle.jit.load(str(prefix))
    check(layer(*map(paddle.to_tensor, feeds)), expected, meta["tolerance"])

    paddle.enable_static()
    try:
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, feed_names, targets = paddle.static.load_inference_model(str(prefix), executor)
        feed = dict(zip(feed_names, feeds, strict=True))
        check(executor.run(program, feed=feed, fetch_list=targets), expected, meta["tolerance"])
    finally:
        paddle.disable_static()


@pytest.mark.paddle
@pytest.mark.slow  # Paddle takes seconds to start
@pytest.mark.parametrize("dump", DUMPS, ids=case_name)
def test_paddle_reads_a_program_that_came_from_text(dump: Path, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    written = write_paddle_json(read_paddle_text(dump.read_text(encoding="utf-8")))
    path = tmp_path / "program.json"
    path.write_text(written, encoding="utf-8")
    with paddle.pir_utils.IrGuard():
        program = paddle.static.Program()
        paddle.base.core.deserialize_pir_program(str(path), program)
        names = [op.name() for op in program.global_block().ops]
    ops = json.loads(written)["program"]["regions"][0]["blocks"][0]["ops"]
    assert len(names) == len(ops)
    assert all(
        name.partition(".")[2] == ("parameter" if node["#"] == "p" else node["#"].partition(".")[2])
        for name, node in zip(names, ops, strict=True)
    )


def check(results: Any, expected: Any, tolerance: Json) -> None:
    """Compare outputs as the README of the captured programs says."""
    listed = list(results) if isinstance(results, list | tuple) else [results]
    for index, result in enumerate(listed):
        found, wanted = np.asarray(result), expected[f"step1/{index}"]
        assert found.shape == wanted.shape
        scale = np.max(np.abs(wanted), initial=0) + tolerance["floor"]
        error = np.max(np.abs(found.astype(np.float64) - wanted), initial=0)
        assert error <= tolerance["rtol"] * scale
