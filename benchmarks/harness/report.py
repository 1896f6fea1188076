"""Measurements as tables and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.workloads import WORKLOADS

OURS = "pirkit"
DISTURBED = 0.3
"""Share of a CPU that other programs took during a burst, from which it is said."""


def shown(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def limit_of(name: str, found: dict[str, Any]) -> float | None:
    """Seconds that the machine needs at least, as measured in the same minutes."""
    measured = found.get("limit", {}).get("median_s")
    if measured is None:
        return None
    flops = WORKLOADS[name].flops
    return measured * flops / (2 * 1536**3) if flops else measured


def is_peer(framework: str) -> bool:
    return framework.rstrip("+") not in (OURS, "limit")


def printed(rows: dict[str, Any]) -> None:
    """One table for each workload, fastest first."""
    console = Console(width=132)
    for name, found in rows.items():
        limit = limit_of(name, found)
        table = Table(title=name, title_justify="left")
        for column in ("framework", "median", "quartile", "fastest", "CPU time", "x pirkit",
                       "share of limit", "compile", "its CPU", "difference", ""):  # fmt: skip
            table.add_column(column, justify="left" if column == "framework" else "right")
        ours = found.get(OURS, {}).get("median_s")
        order = sorted(found, key=lambda f: found[f].get("median_s", float("inf")))
        for framework in order:
            row = found[framework]
            if "median_s" not in row:
                table.add_row(framework, *[""] * 9, row["error"][:60])
                continue
            note = "disturbed" if row.get("foreign", 0) > DISTURBED else ""
            if row["error_size"] > WORKLOADS[name].tolerance:
                note = "differs"
            ratio = f"{row['median_s'] / ours:.2f}" if ours else ""
            share = f"{limit / row['median_s']:.0%}" if limit and framework != "limit" else ""
            times = [shown(row[k]) for k in ("median_s", "quartile_s", "fastest_s", "cpu_s")]
            first = [shown(row[k]) for k in ("compile_s", "first_cpu_s")]
            differs = f"{row['error_size']:.0e}"
            table.add_row(framework, *times, ratio, share, *first, differs, note)
        console.print(table)
        best = [found[f]["median_s"] for f in found if is_peer(f) and "median_s" in found[f]]
        if ours and best:
            goal = WORKLOADS[name].goal
            console.print(f"best peer / pirkit: {min(best) / ours:.2f}, goal {goal:g}\n")


def plotted(rows: dict[str, Any], path: Path) -> None:
    """How many times longer than pirkit others take, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [n for n in rows if "median_s" in rows[n].get(OURS, {})]
    frameworks = sorted({f for n in names for f in rows[n] if is_peer(f)})
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(names) + 1.5))
    for k, framework in enumerate(frameworks):
        points = [
            (rows[n][framework]["median_s"] / rows[n][OURS]["median_s"], i)
            for i, n in enumerate(names)
            if "median_s" in rows[n].get(framework, {})
        ]
        axes.scatter(*zip(*points, strict=True), label=framework, marker="os^Dv<>P*X"[k % 10])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("time / time of pirkit")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)
