"""Every operation of a training step names the line of Python that it comes from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.diag.span import Span, lines_of
from pirkit.dialect.operation import span_of, spans_of
from pirkit.frontend.files import WRITERS
from pirkit.passes import run_pipeline

WIDTH, HEADS, LENGTH, BATCH, WORDS = 16, 2, 6, 2, 11
FIRST: Final = 24
"""The first line of the network, up to `step`."""


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def attention(p: Any, x: Any) -> Any:
    shape = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
    q, k, v = ((x @ p[n]).reshape(shape).transpose(0, 2, 1, 3) for n in "qkv")
    scores = ops.softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH / HEADS), axis=-1)
    return (scores @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ p["o"]


def block(p: Any, x: Any) -> Any:
    x = x + attention(p, layer_norm(x, *p["norm1"]))
    hidden = ops.gelu(layer_norm(x, *p["norm2"]) @ p["w1"] + p["b1"])
    return x + hidden @ p["w2"] + p["b2"]


def loss(params: Any, tokens: Any, labels: Any) -> Any:
    x = ops.embedding(tokens, params["words"])
    for p in params["layers"]:
        x = block(p, x)
    logits = x @ params["words"].T
    wanted = ops.one_hot(labels, WORDS).astype("float64")
    return -(ops.log_softmax(logits, axis=-1) * wanted).sum(axis=-1).mean()


def step(params: Any, tokens: Any, labels: Any) -> Any:
    value, slopes = pirkit.value_and_grad(loss)(params, tokens, labels)
    return value, pirkit.tree.map(lambda p, g: p - 0.1 * g, params, slopes)


def parameters() -> Any:
    rng = np.random.default_rng(0)

    def layer() -> Any:
        square = {n: rng.normal(size=(WIDTH, WIDTH)) * 0.3 for n in "qkvo"}
        norms = {n: [np.ones(WIDTH), np.zeros(WIDTH)] for n in ("norm1", "norm2")}
        wide = {"w1": rng.normal(size=(WIDTH, 32)) * 0.3, "b1": np.zeros(32)}
        return {**square, **norms, **wide, "w2": np.ones((32, WIDTH)), "b2": np.zeros(WIDTH)}

    return {"words": rng.normal(size=(WORDS, WIDTH)), "layers": [layer(), layer()]}


TOKENS: Final = np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % WORDS
LABELS: Final = (TOKENS + 1) % WORDS


@pytest.fixture(scope="module")
def traced() -> Any:
    return pirkit.trace(step, parameters(), TOKENS, LABELS)


def last_line() -> int:
    return step.__code__.co_firstlineno + 2


@pytest.mark.parametrize("pipeline", ["@default", "@fused", "@simplify"])
def test_operations_and_the_text(traced: Any, pipeline: str) -> None:
    program = pirkit.run_passes(traced, pipeline)
    every = list(program.entry(None).block.walk())
    known = [s for op in every if (s := span_of(op)) is not None]
    assert len(known) == len(every) > 100
    inside = [s for s in known if s.file == __file__ and FIRST < s.line <= last_line()]
    traced_inputs = [op for op in every if op.name in ("pd_op.data", "pir.shadow_output")]
    assert len(inside) >= len(every) - len(traced_inputs)
    lines = WRITERS["mlir-locations"](program.module).splitlines()
    located = [line for line in lines if re.search(r'loc\((fused\[)?"[^"]*\.py":\d+', line)]
    assert len(located) >= 0.99 * len(every)


def test_fused_kernels_keep_the_lines_of_all_their_operations(traced: Any) -> None:
    program = traced.copy()
    remarks = run_pipeline(program.module, "@default").remarks
    kernels = [op for op in program.entry(None).operations if op.name == "pir.map_expr"]
    assert kernels
    norm = layer_norm.__code__.co_firstlineno
    lines = [{s.line for s in spans_of(op)} for op in kernels]
    assert any({norm + 1, norm + 2, norm + 3} & found and len(found) > 2 for found in lines)
    told = [r.message for r in remarks if "became the kernel" in r.message]
    assert len(told) >= len(kernels)
    assert all(f"ops of {__file__}:" in message for message in told)


def test_text_with_fused_locations_is_read_again(traced: Any, tmp_path: Path) -> None:
    program = pirkit.run_passes(traced, "@default")
    text = WRITERS["mlir-locations"](program.module)
    assert "loc(fused[" in text
    path = tmp_path / "step.mlir"
    path.write_text(text)
    again = WRITERS["mlir-locations"](pirkit.load(path).module)
    assert again.splitlines()[:-2] == text.splitlines()[:-2]  # the program itself has no line


def test_errors_and_profile(traced: Any) -> None:
    leaves = pirkit.tree.leaves((parameters(), TOKENS, LABELS))
    exe = pirkit.compile(traced, pipeline="@default")
    inputs = dict(zip([p.name for p in exe.plan.inputs], leaves, strict=True))
    entries = exe.trace(inputs).entries
    named = [e for e in entries if e.span is not None and e.span.file == __file__]
    assert len(named) >= 0.99 * len(entries) > 50
    assert any(f"(fused from {__file__}:" in str(e) for e in entries)
    whole = pirkit.compile(traced).trace(inputs).entries
    assert whole[0].what == "pir.segment"
    assert f"{__file__}:" in whole[0].origin[0]
    assert all(e.span is not None and e.span.file == __file__ for e in whole if e.what != "copy")
    assert len([e for e in whole if e.depth]) > 20
    inputs["tokens"] = TOKENS + WORDS
    line = loss.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeFault) as caught:
        pirkit.compile(traced, pipeline="@simplify")(**inputs)
    assert str(caught.value.span) == f"{__file__}:{line}"
    with pytest.raises(RuntimeFault) as caught:  # a kernel of which the lookup is a part
        exe(**inputs)
    (note,) = [n for n in caught.value.notes if n.startswith("fused from")]
    assert line in listed(note)


def listed(note: str) -> set[int]:
    """The lines of a note."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?(?=,|$)", note.rpartition(":")[2])
    return {n for a, b in ranges for n in range(int(a), int(b or a) + 1)}


def test_lines_of_several_places() -> None:
    spans = [Span("a.py", n) for n in (7, 3, 5, 6, 3)] + [Span("b.py", 1)]
    assert lines_of(spans) == "a.py:3, 5-7; b.py:1"
