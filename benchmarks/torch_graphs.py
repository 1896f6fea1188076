"""Graphs of models in inference: pirkit or inductor beside eager, and GraphNet's score.

``python -m benchmarks.torch_graphs [names] [--backend B] [--table FILE] [--count 200]``

The graphs are those that Dynamo cuts from the models of `tools.torch_graphs`: small random
configurations of transformers, timm and torchvision, models and parts of models of `torch.nn`, and
GraphNet's own samples where `GRAPHNET` names a folder of them. The ``--count`` first ones are
taken, families in turn; ``--list`` prints them. Each runs in a process of its own with a limit in
CPU seconds; rows that the table holds are left out and ``--seconds`` ends a run between two graphs,
so a table is made in pieces. ``--backend both`` runs each
graph by both in turns, ``--seed`` takes them in a random order, of which a part is a fair sample.
``--summary`` prints what it says: of all graphs, and of those that
both backends ran.

Times are CPU seconds on one thread, caches empty: the first call with Dynamo, and of it the time in
the backend and the compilers that it starts; what a process imports and compiles once, for any
graph, was done before. Then interleaved calls, of which a tenth is faster than what is shown. A
result is correct at a level t if it is as near to eager's as GraphNet asks for: in float32 10^t
absolutely and 10^(1.177 t) relatively, in float64 10^(1.4 t) both. The score S(t) is
a^c * 0.1^(1 - c) for a share c of correct graphs, whose geometric mean of speedups is a (GraphNet's
report, with p = 0 and b = 0.1).
"""

from __future__ import annotations

import argparse
import copy
import logging
import random
import statistics
import sys
import time
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

from tools.torch_graphs import (
    FAMILIES,
    Told,
    append,
    first,
    in_a_process,
    inference_of,
    read,
    timed,
)

BACKENDS = ("pirkit", "inductor")
COLUMNS = (
    "name family backend state graphs ops level eager call first compile fallbacks note".split()
)
WORST, BEST = 1, -7
"""Levels that are tried: a result that none of them accepts is wrong."""
EXPONENTS = {
    torch.float16: (1.0, 0.6), torch.bfloat16: (1.0, 0.359), torch.float32: (1.0, 1.177),
    torch.float64: (1.4, 1.4), torch.complex64: (1.0, 1.177), torch.complex128: (1.4, 1.4),
}  # fmt: skip


def level(found: list[torch.Tensor], expected: list[torch.Tensor]) -> int:
    """The strictest level at which all tensors are correct; `WORST` + 1 if there is none."""
    if [(t.shape, t.dtype) for t in found] != [(t.shape, t.dtype) for t in expected]:
        return WORST + 1
    for t in range(BEST, WORST + 1):
        if all(_near(a, b, t) for a, b in zip(found, expected, strict=True)):
            return t
    return WORST + 1


def _near(found: torch.Tensor, expected: torch.Tensor, t: int) -> bool:
    if found.dtype not in EXPONENTS:
        return torch.equal(found, expected)
    absolute, relative = EXPONENTS[found.dtype]
    return torch.allclose(found, expected, 10 ** (relative * t), 10 ** (absolute * t), True)


def measured(family: str, name: str, backend: str, with_times: bool) -> dict[str, Any]:
    """The row of a model."""
    told = Told()
    logging.getLogger("pirkit.torch").addHandler(told)
    torch.manual_seed(0)
    model, args, kwargs = FAMILIES[family].build(name)
    model.eval()
    given = (args, kwargs)
    expected = [t.clone() for t in inference_of(model, given)()]
    options: dict[str, Any] | None = {"threads": 1} if backend == "pirkit" else None
    compiler = _Compiler(backend)
    compiled = torch.compile(copy.deepcopy(model), backend=compiler, options=options)
    call = inference_of(compiled, given)
    seconds, found = first(call)
    row: dict[str, Any] = {
        "state": "run", "first": round(seconds, 2), "compile": round(compiler.seconds, 2),
        "level": level([t.clone() for t in found], expected),
        "graphs": compiler.graphs, "ops": compiler.ops,
        "fallbacks": "; ".join(Counter(told.lines)),
    }  # fmt: skip
    if with_times:
        call()  # a model that keeps a tensor of its first call is compiled once more
        calls = [partial(m, *args, **kwargs) for m in (model, compiled)]  # seeds take 0.7 ms
        with torch.no_grad():
            times = timed(calls, 60, 0.1)
        row["eager"], row["call"] = (round(ms, 4) for ms in times)
    return row


class _Compiler:
    """A backend that counts its graphs, their ops, and its own CPU seconds."""

    def __init__(self, backend: str) -> None:
        self.backend = lookup_backend(backend)
        self.seconds = 0.0
        self.graphs = self.ops = 0

    def __call__(self, graph: Any, inputs: Any, **options: Any) -> Any:
        self.graphs += 1
        self.ops += sum(n.op.startswith("call_") for n in graph.graph.nodes)
        seconds, found = first(partial(self.backend, graph, inputs, **options))
        self.seconds += seconds
        return found


def prepare(backend: str) -> None:
    """What a process does once for all graphs, so that each does not do it again."""
    x = torch.ones(3)
    with torch.no_grad():
        torch.compile(lambda x: x.sin() + 1, backend=_Compiler(backend))(x)
    torch._dynamo.reset()


def summary(rows: list[dict[str, str]], t: int) -> str:
    """A row for each backend, and the graphs on which pirkit is wrong or slow."""
    by_backend = {
        b: {(r["family"], r["name"]): r for r in rows if r["backend"] == b} for b in BACKENDS
    }
    own, peer = (by_backend[b] for b in BACKENDS)
    both = [key for key in own if key in peer]
    lines = [
        f"| backend | graphs | correct at 0 | at {t} | speedup | below 0.95 | S({t}) | S(0) "
        "| first call, median, s | sum, s | in the backend, sum, s |",
        "|---|" + "--:|" * 10,
        _line("pirkit", list(own.values()), t),
    ]
    if both:
        lines += [_line(b, [by_backend[b][key] for key in both], t) for b in BACKENDS]
    for key, r in own.items():
        if not r["call"] or int(r["level"]) > 0:
            lines.append(f"{r['name']}: {r['state']} {r['level']} {r['note']}")
        elif float(r["eager"]) < 0.95 * float(r["call"]):
            other = peer.get(key, {}).get("call") or "-"
            ratio = float(r["eager"]) / float(r["call"])
            lines.append(
                f"{r['name']}: {ratio:.2f}, {r['eager']} ms in eager, {r['call']} by pirkit, "
                f"{other} by inductor"
            )
    return "\n".join(lines)


def _line(backend: str, rows: list[dict[str, str]], t: int) -> str:
    """What a backend made of some graphs, of which some ran."""
    ran = [r for r in rows if r["call"]]
    ratios = {r["name"]: float(r["eager"]) / float(r["call"]) for r in ran}
    seconds = [float(r["first"]) for r in ran]

    def correct(at: int) -> list[str]:
        return [r["name"] for r in ran if int(r["level"]) <= at]

    def score(at: int) -> float:
        names = correct(at)
        share = len(names) / len(rows)
        mean = statistics.geometric_mean([ratios[n] for n in names] or [1.0])
        return mean**share * 0.1 ** (1 - share)

    cells = [
        backend, f"{len(rows)}", f"{len(correct(0))}", f"{len(correct(t))}",
        f"{statistics.geometric_mean(ratios.values()):.2f}",
        f"{sum(r < 0.95 for r in ratios.values())}", f"{score(t):.2f}", f"{score(0):.2f}",
        f"{statistics.median(seconds):.1f}", f"{sum(seconds):.0f}",
        f"{sum(float(r['compile']) for r in ran):.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def chosen(count: int, family: str | None, names: list[str]) -> list[tuple[str, str]]:
    """The first models, families in turn by their share."""
    every = [
        ((k + 0.5) / len(module.MODELS), each, name)
        for each, module in FAMILIES.items()
        for k, name in enumerate(module.MODELS)
        if family in (None, each) and (not names or name in names)
    ]
    return [(each, name) for _, each, name in sorted(every, key=lambda e: e[0])][:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family", choices=list(FAMILIES))
    parser.add_argument("--backend", choices=(*BACKENDS, "both"), default="pirkit")
    parser.add_argument("--table", type=Path, default=Path("torch_inference.csv"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--part", default="0/1", help="i/n: every n-th graph, from the i-th")
    parser.add_argument("--seed", type=int, help="take the graphs in this random order")
    parser.add_argument("--limit", type=float, default=90.0, help="CPU seconds of a model")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no graph after them")
    parser.add_argument("--level", type=int, default=-5)
    parser.add_argument("--again", action="store_true", help="run what the table holds, too")
    parser.add_argument("--values", action="store_true", help="compare values, take no times")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.summary:
        print(summary(read(given.table), given.level))
        return 0
    graphs = chosen(given.count, given.family, given.names)
    if given.seed is not None:
        random.Random(given.seed).shuffle(graphs)
    if given.list:
        print("\n".join(f"{family} {name}" for family, name in graphs))
        return 0
    end = time.monotonic() + given.seconds
    backends = BACKENDS if given.backend == "both" else (given.backend,)
    for backend in backends:
        prepare(backend)
    part, parts = map(int, given.part.split("/"))
    for (family, name), backend in product(graphs[part::parts], backends):
        known = {(r["family"], r["name"], r["backend"]) for r in read(given.table)}
        if (family, name, backend) in known and not given.again:
            continue
        if time.monotonic() > end:
            break
        row = in_a_process(measured, family, name, backend, given.limit, not given.values)
        append(given.table, COLUMNS, row)
        print(*(row.get(k, "") for k in COLUMNS), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
