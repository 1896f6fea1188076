"""Graphs of models in inference: eager, pirkit and inductor in one run, and GraphNet's score.

``python -m benchmarks.torch_graphs [names] [--table FILE] [--count 200] [--family F]``

The graphs are those that Dynamo cuts from the models of `tools.torch_graphs`: small random
configurations of transformers, timm and torchvision, models and parts of models of `torch.nn`, and
GraphNet's own samples where `GRAPHNET` names a folder of them. The ``--count`` first ones are
taken, families in turn; ``--list`` prints them. Each runs in a process of its own with a limit in
CPU seconds; rows that the table holds are left out, so a run that was stopped goes on. Inductor,
which compiles for 5 to 30 s, runs beside every ``--inductor``-th graph. ``--summary`` prints what
the table says: of all graphs, and of those that inductor ran too.

Times are CPU seconds on one thread: the first call with Dynamo and the compilers that it starts,
caches empty, then interleaved calls, of which a tenth is faster than what is shown. A result is
correct at a level t if it is as near to eager's as GraphNet asks for: in float32 10^t absolutely
and 10^(1.177 t) relatively, in float64 10^(1.4 t) both. The score S(t) is a^c * 0.1^(1 - c) for a
share c of correct graphs, whose geometric mean of speedups is a (GraphNet's report, with p = 0 and
b = 0.1).
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tools.torch_graphs import FAMILIES, append, first, in_a_process, inference_of, read, timed

BACKENDS = ("pirkit", "inductor")
COLUMNS = ["name", "family", "state", "graphs", "ops", "eager"] + [
    f"{backend}_{what}" for backend in BACKENDS for what in ("call", "first", "level", "error")
]
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


def measured(family: str, name: str, backends: str, with_times: bool) -> dict[str, Any]:
    """The row of a model, for backends joined by commas."""
    torch.manual_seed(0)
    model, args, kwargs = FAMILIES[family].build(name)
    model.eval()
    given = (args, kwargs)
    expected = [t.clone() for t in inference_of(model, given)()]
    models = [model]
    row: dict[str, Any] = {"state": "run"}
    for backend in backends.split(","):
        options = {"threads": 1} if backend == "pirkit" else None
        compiled = torch.compile(copy.deepcopy(model), backend=backend, options=options)
        call = inference_of(compiled, given)
        try:
            seconds, found = first(call)
            found = [t.clone() for t in found]
            call()  # a model that keeps a tensor of its first call is compiled once more
        except Exception as failure:  # whatever a backend raises is its row's note
            row[f"{backend}_error"] = " ".join(f"{type(failure).__name__}: {failure}".split())[:200]
            continue
        row[f"{backend}_first"], row[f"{backend}_level"] = round(seconds, 2), level(found, expected)
        if backend == "pirkit":
            row["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            row["ops"] = torch._dynamo.utils.counters["stats"]["calls_captured"]
        models.append(compiled)
    ran = [b for b in BACKENDS if f"{b}_first" in row]
    if with_times:
        calls = [partial(m, *args, **kwargs) for m in models]  # without a seed, which takes 0.7 ms
        with torch.no_grad():
            found = timed(calls, 60, 0.1)
        for what, ms in zip(["eager", *[f"{b}_call" for b in ran]], found, strict=True):
            row[what] = round(ms, 4)
    return row


def summary(rows: list[dict[str, str]], t: int) -> str:
    """A row for each backend, and the graphs on which pirkit is wrong or slow."""
    rows = [r for r in rows if r["state"] == "run"]
    both = [r for r in rows if r["inductor_level"] or r["inductor_error"]]
    lines = [
        f"| backend | graphs | correct at 0 | at {t} | speedup | below 0.95 | S({t}) | S(0) "
        "| first call, median, s | sum, s |",
        "|---|" + "--:|" * 9,
    ]
    for backend, held in (("pirkit", rows), *((b, both) for b in BACKENDS)):
        if ran := [r for r in held if r[f"{backend}_call"]]:
            lines.append(_line(backend, held, ran, t))
    for r in rows:
        if not r["pirkit_call"] or int(r["pirkit_level"]) > 0:
            lines.append(f"{r['name']}: level {r['pirkit_level']} {r['pirkit_error']}")
        elif float(r["eager"]) < 0.95 * float(r["pirkit_call"]):
            lines.append(
                f"{r['name']}: {r['eager']} ms in eager, {r['pirkit_call']} by pirkit, "
                f"{r['inductor_call'] or '-'} by inductor"
            )
    return "\n".join(lines)


def _line(backend: str, rows: list[dict[str, str]], ran: list[dict[str, str]], t: int) -> str:
    """What a backend made of some graphs, of which some ran."""
    ratios = {r["name"]: float(r["eager"]) / float(r[f"{backend}_call"]) for r in ran}
    seconds = [float(r[f"{backend}_first"]) for r in ran]

    def correct(at: int) -> list[str]:
        return [r["name"] for r in ran if int(r[f"{backend}_level"]) <= at]

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
    parser.add_argument("--table", type=Path, default=Path("torch_inference.csv"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--limit", type=float, default=240.0, help="CPU seconds of a model")
    parser.add_argument("--level", type=int, default=-5)
    parser.add_argument("--again", action="store_true", help="run what the table holds, too")
    parser.add_argument("--inductor", type=int, default=8, help="run it beside every n-th graph")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.summary:
        print(summary(read(given.table), given.level))
        return 0
    graphs = chosen(given.count, given.family, given.names)
    if given.list:
        print("\n".join(f"{family} {name}" for family, name in graphs))
        return 0
    for number, (family, name) in enumerate(graphs):
        known = {(r["family"], r["name"]) for r in read(given.table)}
        if (family, name) in known and not given.again:
            continue
        backends = "pirkit" if number % given.inductor else ",".join(BACKENDS)
        row = in_a_process(measured, family, name, backends, given.limit, True)
        row = {k: v for k, v in row.items() if k in COLUMNS} | {
            "pirkit_error": row.get("note", row.get("pirkit_error", ""))
        }
        append(given.table, COLUMNS, row)
        print(*row.values(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
