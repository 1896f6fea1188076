"""Samples of GraphNet's torch side: recorded graphs, run as modules.

`GRAPHNET` names a folder of samples (``samples`` of a checkout of PaddlePaddle/GraphNet, or a part
of it); a model is the path of a sample within it. Arguments follow the rules of GraphNet's runner:
values that are listed, integers between their bounds, floats by mean and deviation. What is
annotated as a parameter is one; sizes are tensors of no dimension, as that runner passes them.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

ROOT = Path(os.environ.get("GRAPHNET", "/nonexistent"))
MODELS = [str(p.parent.relative_to(ROOT)) for p in sorted(ROOT.glob("*/**/model.py"))]


def _loaded(text: str, name: str) -> Any:
    """A module of Python, whose text stays on disk, where Dynamo looks for lines."""
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _value(meta: Any) -> torch.Tensor:
    dtype, shape = getattr(torch, meta.dtype.removeprefix("torch.")), meta.shape
    if getattr(meta, "data", None) is not None:
        return torch.tensor(meta.data, dtype=dtype).reshape(shape)
    low, high = getattr(meta, "min_val", None), getattr(meta, "max_val", None)
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        bounded = low is not None and high is not None
        return torch.randint(int(low), int(high) + 1, shape, dtype=dtype) if bounded else (
            torch.zeros(shape, dtype=dtype))  # fmt: skip
    mean, std = (
        default if given is None or not math.isfinite(given) else given
        for given, default in (
            (getattr(meta, "mean", None), 0.0),
            (getattr(meta, "std", None), 0.1),
        )
    )
    value = (mean + 0.2 * std * torch.randn(shape)).clamp(
        max(-100.0, -100.0 if low is None else low), min(100.0, 100.0 if high is None else high)
    )
    return value.to(dtype)


class Sample(torch.nn.Module):
    """A recorded graph that holds its parameters."""

    def __init__(self, graph: torch.nn.Module, held: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.graph = graph
        self.held = torch.nn.ParameterDict(held)

    def forward(self, **given: torch.Tensor) -> Any:
        return self.graph(**given, **self.held)


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A sample with its parameters; other arguments by name."""
    folder = ROOT / name
    text = re.sub(r"cuda:\d+", "cpu", (folder / "model.py").read_text(encoding="utf-8"))
    text = re.sub(r"device\(type=['\"]cuda['\"], index=\d+\)", "device(type='cpu')", text)
    nan = "nan, inf = float('nan'), float('inf')\n"
    metas = vars(_loaded(nan + (folder / "weight_meta.py").read_text(encoding="utf-8"), "metas"))
    values = {m.name: _value(m) for m in metas.values() if hasattr(m, "dtype")}
    is_parameter = set(re.findall(r"(\w+): torch\.nn\.parameter\.Parameter", text))
    held = {n: v for n, v in values.items() if n in is_parameter and v.is_floating_point()}
    graph = _loaded(text, "recorded").GraphModule()
    return Sample(graph, held), (), {n: v for n, v in values.items() if n not in held}
