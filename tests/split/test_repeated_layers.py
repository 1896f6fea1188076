"""Equal layers are differentiated once: one call of a gradient op is decomposed, others copied."""

from __future__ import annotations

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.text import print_mlir
from pirkit.passes import gradient_calls
from pirkit.passes.gradient_templates import Templates


def layers(count: int) -> pirkit.Program:
    def net(x: pirkit.Tensor, w: pirkit.Tensor) -> pirkit.Tensor:
        for _ in range(count):
            # a product of a value with itself, and one of two values, are different calls
            x = ops.softmax(ops.matmul(x * x, w) * x)
        return x.sum()

    return pirkit.trace(net, np.ones((2, 3), "f"), np.ones((3, 3), "f"))


def test_the_work_of_decomposing_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    decomposed = gradient_calls._decomposed

    def counted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        return decomposed(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gradient_calls, "_decomposed", counted)
    counts: list[int] = []
    for count in (2, 8):
        calls = 0
        pirkit.run_passes(layers(count), "split")
        counts.append(calls)
    assert counts[0] == counts[1] > 0


def test_copies_are_what_rules_emit(monkeypatch: pytest.MonkeyPatch) -> None:
    program = layers(3)
    copied = print_mlir(pirkit.run_passes(program, "split").module, locations=True)
    monkeypatch.setattr(Templates, "copied", lambda *_: None)
    assert print_mlir(pirkit.run_passes(program, "split").module, locations=True) == copied
