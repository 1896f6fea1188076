"""Models of transformers, timm and `torch.nn`, compiled: values, gradients and times beside eager.

``python tools/torch_graphs.py [names] [--table FILE] [--family F] [--again] [--backend B]`` runs
each model in a process of its own, and adds a row to the table; models that it holds already are
left out, so a run that was stopped goes on. ``--summary`` prints what the table says. With
`GRAPHNET`, a folder of samples of GraphNet, those are a family too.

A model runs in evaluation mode without gradients, then one step in training mode, on one thread.
The error of a tensor is its largest difference over its largest element, for gradients over a
thousandth of the largest of all where that is more. Above 1e-4 in float32 the model is run again in
float64, where 1e-9 tells rounding (``noise``) from what is ``wrong``. Times are medians of
interleaved calls in CPU seconds, compile times include Dynamo and the first call.
"""

from __future__ import annotations

import argparse
import copy
import csv
import logging
import math
import multiprocessing
import os
import resource
import statistics
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("PIRKIT_NATIVE_CACHE", "off")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
sys.path.insert(0, str(Path(__file__).parent))

import torch
from graphs import (
    graphnet_samples,
    part_models,
    plain_models,
    timm_models,
    torchvision_models,
    transformers_models,
)

import pirkit.torch  # noqa: F401  registers the backend

FAMILIES: dict[str, Any] = {
    "nn": plain_models, "parts": part_models, "torchvision": torchvision_models,
    "timm": timm_models, "transformers": transformers_models, "graphnet": graphnet_samples,
}  # fmt: skip
COLUMNS = (
    "name family backend state graphs ops fallbacks error_infer error_train error64 eager_infer "
    "infer eager_train train compile_infer compile_train note"
).split()
ROUNDS, SECONDS = 9, 3.0
"""Calls that are timed at most, and CPU seconds after which there are no further ones."""


def tensors(found: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(
        found if isinstance(found, torch.Tensor | tuple | list) else dict(found)
    )
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def step_of(call: Any, module: Any, given: Any) -> Callable[[], list[torch.Tensor]]:
    """A forward and backward from fixed cotangents; gives results and gradients."""

    def step() -> list[torch.Tensor]:
        torch.manual_seed(1)
        module.zero_grad()
        outs = [t for t in tensors(call(*given[0], **given[1])) if t.requires_grad]
        generator = torch.Generator().manual_seed(2)
        seeds = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in outs]
        torch.autograd.backward(outs, seeds)
        grads = [p.grad for p in module.parameters() if p.grad is not None]
        return [t.detach() for t in outs] + grads

    return step


def inference_of(call: Any, given: Any) -> Callable[[], list[torch.Tensor]]:
    def infer() -> list[torch.Tensor]:
        torch.manual_seed(1)
        with torch.no_grad():
            return tensors(call(*given[0], **given[1]))

    return infer


def error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest error of a tensor; infinite where shapes or numbers of tensors differ."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return math.inf
    sizes = [float(t.double().abs().max()) if t.numel() else 0.0 for t in expected]
    finite = [s for s in sizes if math.isfinite(s)]
    floor = 1e-3 * max(finite, default=0.0) or 1.0
    worst = 0.0
    for a, b, size in zip(found, expected, sizes, strict=True):
        if torch.equal(a, b) or not b.numel():
            continue
        a, b = (t.int() if t.dtype is torch.bool else t for t in (a, b))
        same = (a == b) | (a.isnan() & b.isnan()) if b.is_floating_point() else a == b
        difference = torch.where(same, 0.0, (a - b).abs().double())
        largest = float(difference.max())
        worst = max(worst, largest / max(size, floor) if math.isfinite(largest) else math.inf)
    return worst


def timed(
    calls: list[Callable[[], Any]], rounds: int = ROUNDS, share: float = 0.5
) -> list[float]:  # fmt: skip
    """Milliseconds of interleaved calls on this thread, above those of a share of the calls.

    A limit of CPU seconds makes the clock of the process one of ticks, but not that of a thread.
    """
    found: list[list[float]] = [[] for _ in calls]
    start = time.thread_time()
    for _ in range(rounds):
        for times, call in zip(found, calls, strict=True):
            before = time.thread_time()
            call()
            times.append((time.thread_time() - before) * 1e3)
        if time.thread_time() - start > SECONDS:
            break
    return [sorted(times)[int(share * len(times))] for times in found]


def first(call: Callable[[], Any]) -> tuple[float, Any]:
    children = os.times()
    before = time.process_time() + children.children_user
    found = call()
    return time.process_time() + os.times().children_user - before, found


class Told(logging.Handler):
    """What torch computes, from the log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().partition(": ")[2] or record.getMessage())


def measured(family: str, name: str, backend: str, with_times: bool) -> dict[str, Any]:
    """The row of a model."""
    told = Told()
    logging.getLogger("pirkit.torch").addHandler(told)
    torch.manual_seed(0)
    model, args, kwargs = FAMILIES[family].build(name)
    row: dict[str, Any] = {}

    def compare(dtype: torch.dtype, mode: str, times: bool) -> float:
        torch._dynamo.reset()
        training = mode == "train"
        plain = copy.deepcopy(model).to(dtype).train(training)
        ours = copy.deepcopy(plain)
        args_, kwargs_ = torch.utils._pytree.tree_map(
            lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t,
            (args, kwargs),
        )
        given = (args_, kwargs_)
        options = {"threads": 1} if backend == "pirkit" else None
        compiled = torch.compile(ours, backend=backend, options=options)
        calls = [
            step_of(c, m, given) if training else inference_of(c, given)
            for c, m in ((plain, plain), (compiled, ours))
        ]
        expected = calls[0]()
        seconds, found = first(calls[1])
        found = [t.clone() for t in found]
        wrong = error(found, expected)
        if times:
            calls[1]()  # a model that keeps a tensor of its first call is compiled once more
            row[f"compile_{mode}"] = round(seconds, 2)
            eager, own = timed(calls)
            row[f"eager_{mode}"], row[mode] = round(eager, 3), round(own, 3)
        return wrong

    errors = {}
    for mode in ("infer", "train"):
        errors[mode] = compare(torch.float32, mode, with_times)
        row[f"error_{mode}"] = f"{errors[mode]:.1e}"
        if mode == "infer":
            row["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    bad = [m for m, e in errors.items() if not e < 1e-4]
    row["state"] = "same"
    if bad:
        exact = max(compare(torch.float64, mode, False) for mode in bad)
        row["error64"] = f"{exact:.1e}"
        row["state"] = "noise" if exact < 1e-9 else "wrong"
    counted = Counter(told.lines)
    row["fallbacks"] = "; ".join(counted)
    return row


Measure = Callable[[str, str, str, bool], dict[str, Any]]
"""Gives the row of a family, a name and a backend, with or without times."""


def child(
    measure: Measure, family: str, name: str, backend: str, limit: float, with_times: bool,
    pipe: Any,
) -> None:  # fmt: skip
    warnings.simplefilter("ignore")
    seconds = int(limit + time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    torch._dynamo.config.use_numpy_random_stream = True  # as numpy draws when nothing is compiled
    try:
        pipe.send(measure(family, name, backend, with_times))
    except Exception as failure:  # a model that fails is a row too
        lines = traceback.extract_tb(failure.__traceback__)
        where = next((f for f in reversed(lines) if "pirkit/" in f.filename), lines[-1])
        built = any(f.name == "measured" and "compare" in (f.line or "") for f in lines)
        note = f"{type(failure).__name__}: {str(failure).strip()[:300]} ({where.name})"
        pipe.send({"state": "fails" if built else "no model", "note": " ".join(note.split())})


def in_a_process(
    measure: Measure, family: str, name: str, backend: str, limit: float, with_times: bool
) -> dict[str, Any]:  # fmt: skip
    """A row that a process with a limit in CPU seconds measures, or why it does not."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=child, args=(measure, family, name, backend, limit, with_times, theirs)
    )
    process.start()
    theirs.close()
    try:
        row = ours.recv()
        process.join()
    except EOFError:  # it has no more CPU time, or has crashed
        process.join()
        row = {"state": "fails", "note": f"the process ended with {process.exitcode}"}
    return {"name": name, "family": family, "backend": backend, **row}


def append(table: Path, columns: Sequence[str], row: dict[str, Any]) -> None:
    """Write a row after those that a table holds."""
    is_new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def read(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open() as file:
        rows = {(r["name"], r["family"], r.get("backend")): r for r in csv.DictReader(file)}
    return list(rows.values())  # the last row of a model counts


def summary(rows: list[dict[str, str]]) -> None:
    for backend in sorted({r["backend"] for r in rows}):
        for family in (*FAMILIES, "all"):
            held = [r for r in rows if r["backend"] == backend and family in (r["family"], "all")]
            states = Counter(r["state"] for r in held)
            print(f"{backend} {family}: {sum(states.values())} models {dict(states)}", end="")
            print(f", with fallbacks {sum(bool(r['fallbacks']) for r in held)}", end="")
            for mode in ("infer", "train"):
                timed_rows = [r for r in held if r[mode]]
                x = [float(r[f"eager_{mode}"]) / float(r[mode]) for r in timed_rows]
                if x:
                    seconds = statistics.median(float(r[f"compile_{mode}"]) for r in timed_rows)
                    print(f"; {mode} x{statistics.geometric_mean(x):.2f}", end="")
                    print(f", {sum(v < 0.95 for v in x)} below 0.95", end="")
                    print(f", compile median {seconds:.1f} s", end="")
            print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family", choices=list(FAMILIES))
    parser.add_argument("--table", type=Path, default=Path("torch_graphs.csv"))
    parser.add_argument("--again", action="store_true", help="run what the table holds, too")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th model, from the i-th")
    parser.add_argument("--limit", type=float, default=150.0, help="CPU seconds of a model")
    parser.add_argument("--values", action="store_true", help="compare values, take no times")
    parser.add_argument("--backend", default="pirkit")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.summary:
        summary(read(given.table))
        return 0
    chosen = [
        (family, name)
        for family, module in FAMILIES.items()
        for name in module.MODELS
        if given.family in (None, family) and (not given.names or name in given.names)
    ]
    if given.list:
        print("\n".join(f"{family} {name}" for family, name in chosen))
        return 0
    part, parts = map(int, given.part.split("/"))
    for family, name in chosen[part::parts]:
        known = {(r["family"], r["name"], r["backend"]) for r in read(given.table)}
        if (family, name, given.backend) in known and not given.again:
            continue
        row = in_a_process(measured, family, name, given.backend, given.limit, not given.values)
        append(given.table, COLUMNS, row)
        shown = [
            row.get(k, "")
            for k in (
                "state",
                "error_train",
                "eager_infer",
                "infer",
                "eager_train",
                "train",
                "compile_infer",
                "compile_train",
                "fallbacks",
                "note",
            )
        ]
        print(name, *shown, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
