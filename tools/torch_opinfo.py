"""How many of torch's own samples of ops pirkit computes as torch does.

``python tools/torch_opinfo.py [names] [--dtype NAME] [--json FILE]`` runs the samples of
`torch.testing` for each op through the table of rules: values, gradients and second gradients, and
prints a table. An op is native if no overload of its samples is left to torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import types
import unittest
import warnings
from collections import Counter
from typing import Any

import torch

if importlib.util.find_spec("expecttest") is None:  # the samples do not need it, their module does
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._internal.common_methods_invocations import op_db

import pirkit.torch
from pirkit.torch.capture import capture
from pirkit.torch.compiled_graph import CompiledGraph
from pirkit.torch.tensor_runner import Settings

SAMPLES = 2
SEED = 42
"""Also that of ops that seed the generator themselves, when they are called."""
TOLERANCE = {torch.float32: (2e-4, 2e-4), torch.float64: (1e-8, 1e-8), torch.bfloat16: (5e-2, 5e-2)}
"""Relative and absolute; results in bfloat16 are rounded by op in torch, by kernel here."""


def tensors_in(tree: Any) -> list[Any]:
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def compiled(sample: Any, op: Any) -> tuple[Any, list[Any], list[Any]]:
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    class Call(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            held = list(leaves)
            for i, t in zip(at, given, strict=True):
                held[i] = t
            x, args, kwargs = torch.utils._pytree.tree_unflatten(held, spec)
            found = op(x, *args, **kwargs)
            return [t for t in tensors_in(found)]

    inputs = [leaves[i] for i in at]
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(len(at))]
    root = Call()
    call = graph.call_module("call", tuple(nodes))
    graph.output(call)
    holder = torch.nn.Module()
    holder.call = root
    module = torch.fx.GraphModule(holder, graph)
    found: list[Any] = []
    made = CompiledGraph(capture(module, inputs), Settings(), strict=False, report=found.append)
    return made, inputs, found


def close(a: Any, b: Any, dtype: Any) -> bool:
    rtol, atol = TOLERANCE[dtype]
    if dtype is not torch.float64 and a.is_floating_point() and a.numel():
        size = a[a.isfinite()].abs()
        atol = max(atol, rtol * float(size.max())) if size.numel() else atol
    try:
        torch.testing.assert_close(b, a, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        return False
    return True


def gradients(outputs: list[Any], wrt: list[Any], *, graph: bool) -> list[Any]:
    torch.manual_seed(1)
    pairs = [
        (o, torch.rand(o.shape, dtype=o.dtype) + 0.5) for o in outputs if o.is_floating_point()
    ]
    live = [(o, s) for o, s in pairs if o.requires_grad]
    if not live:
        return [torch.zeros_like(x) for x in wrt]
    ys, seeds = zip(*live, strict=True)
    return list(torch.autograd.grad(ys, wrt, seeds, create_graph=graph, allow_unused=True,
                                    materialize_grads=True))  # fmt: skip


def check(op: Any, sample: Any, dtype: Any) -> tuple[str, Counter[str]]:
    """``ok`` or the first thing that differs, and what torch computed."""
    try:
        torch.manual_seed(SEED)
        expected = tensors_in(op(sample.input, *sample.args, **sample.kwargs))
    except Exception:  # torch itself refuses the sample
        return "skip", Counter()
    if not expected or any(t.is_sparse or t.is_complex() for t in expected):
        return "skip", Counter()
    made, inputs, found = compiled(sample, op)
    torch.manual_seed(SEED)
    try:
        held = [t if t.requires_grad else t.clone() for t in inputs]
        outputs = made(*held)
    except pirkit.PirkitError as error:
        return f"forward: {error}", Counter()
    fell = Counter(f.target for imported in found for f in imported.fallbacks)
    if len(outputs) != len(expected) or not all(
        close(a, b, dtype) for a, b in zip(expected, outputs, strict=True)
    ):
        return "forward differs", fell
    wrt = [t for t in inputs if t.requires_grad]
    if not op.supports_autograd or not wrt:
        return "ok", fell
    first = [gradients(list(o), wrt, graph=op.supports_gradgrad) for o in (expected, outputs)]
    if not all(close(a, b, dtype) for a, b in zip(*first, strict=True)):
        return "gradient differs", fell
    if op.supports_gradgrad:
        second = [gradients(g, wrt, graph=False) for g in first]
        if not all(close(a, b, dtype) for a, b in zip(*second, strict=True)):
            return "second gradient differs", fell
    return "ok", fell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples of each op")
    parser.add_argument("--start", default="")
    parser.add_argument("--dtype", default="float64", help="float64, float32 or bfloat16")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, Any] = {}
    for op in sorted(op_db, key=lambda o: o.full_name):
        if (arguments.names and op.name not in arguments.names) or op.full_name < arguments.start:
            continue
        if any(word in op.name for word in ("sparse", "cuda", "jiterator")):
            continue
        results: Counter[str] = Counter()
        fell: Counter[str] = Counter()
        for dtype in (getattr(torch, arguments.dtype),):
            if dtype not in op.dtypes:
                continue
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd))
            except Exception:  # torch has no samples of this dtype
                continue
            step = max(1, len(samples) // arguments.samples)
            for sample in samples[::step][: arguments.samples]:
                try:
                    what, missing = check(op, sample, dtype)
                except Exception as error:  # a sample that fails is counted by its message
                    text = str(error).strip().splitlines() or [""]
                    what, missing = f"{type(error).__name__}: {text[0][:140]}", Counter()
                results[what] += 1
                fell += missing
        results.pop("skip", None)
        if results:
            rows[op.full_name] = {"results": dict(results), "torch": dict(fell)}
            bad = {k: v for k, v in results.items() if k != "ok"}
            state = "ok" if not bad else f"FAIL {bad}"
            print(f"{op.full_name:45} {state} {dict(fell) or ''}", flush=True)
    passed = sum(set(r["results"]) == {"ok"} for r in rows.values())
    native = sum(set(r["results"]) == {"ok"} and not r["torch"] for r in rows.values())
    print(f"{len(rows)} ops: {passed} pass, {native} of them without torch")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
