"""Measurements as tables and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.workloads import workload_of

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
    flops = workload_of(name).flops
    return measured * flops / (2 * 1536**3) if flops else measured


def ours_for(framework: str) -> str:
    """pirkit under the same malloc as a framework."""
    return f"{OURS}+" if framework.endswith("+") else OURS


def agrees(name: str, row: dict[str, Any]) -> bool:
    """Whether a row was measured, and on results like those of the others."""
    return "median_s" in row and row["error_size"] <= workload_of(name).tolerance


def ratios(name: str, found: dict[str, Any], ours: str) -> str | None:
    """The best peer's time by ours, both under the same malloc, beside the goal."""
    if not agrees(name, found.get(ours, {})):
        return None
    peers = {
        framework: row["median_s"] / found[ours]["median_s"]
        for framework, row in found.items()
        if is_peer(framework) and ours_for(framework) == ours and agrees(name, row)
    }
    if not peers:
        return None
    best, workload = min(peers, key=peers.__getitem__), workload_of(name)
    said = f"best peer / {ours}: {peers[best]:.2f} ({best})"
    if not workload.peer:
        return f"{said}, goal {workload.goal:g}"
    named = workload.peer + ours.removeprefix(OURS)
    its = f"{peers[named]:.2f}" if named in peers else "not measured"
    return f"{said}; {named} / {ours}: {its}, goal {workload.goal:g}"


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
        order = sorted(found, key=lambda f: found[f].get("median_s", float("inf")))
        for framework in order:
            row = found[framework]
            if "median_s" not in row:
                table.add_row(framework, *[""] * 9, row["error"][:60])
                continue
            note = "disturbed" if row.get("foreign", 0) > DISTURBED else ""
            if not agrees(name, row):
                note = "differs"
            ours = found.get(ours_for(framework), {}).get("median_s")
            ratio = f"{row['median_s'] / ours:.2f}" if ours else ""
            share = f"{limit / row['median_s']:.0%}" if limit and framework != "limit" else ""
            times = [shown(row[k]) for k in ("median_s", "quartile_s", "fastest_s", "cpu_s")]
            first = [shown(row[k]) for k in ("compile_s", "first_cpu_s")]
            differs = f"{row['error_size']:.0e}"
            table.add_row(framework, *times, ratio, share, *first, differs, note)
        console.print(table)
        for ours in (OURS, f"{OURS}+"):
            said = ratios(name, found, ours)
            if said:
                console.print(said)
        console.print()


def plotted(rows: dict[str, Any], path: Path) -> None:
    """Plot how many times longer than pirkit others take.

    A ``+`` is compared with pirkit under the same malloc; rows that differ are left out.
    """
    ratios = dict[str, dict[str, float]]()
    for name, row in rows.items():
        ratios[name] = {}
        for framework in filter(is_peer, row):
            theirs, ours = row[framework], row.get(ours_for(framework), {})
            if agrees(name, theirs) and agrees(name, ours):
                ratios[name][framework] = theirs["median_s"] / ours["median_s"]
    plotted_ratios(ratios, path)


def plotted_ratios(ratios: dict[str, dict[str, float]], path: Path) -> None:
    """Plot ratios by row and framework, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(ratios) + 1.5))
    drawn = sorted({f for row in ratios.values() for f in row})
    for k, framework in enumerate(drawn):
        points = [(row[framework], i) for i, row in enumerate(ratios.values()) if framework in row]
        axes.scatter(*zip(*points, strict=True), label=framework, marker="os^Dv<>P*X"[k % 10])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(ratios)), list(ratios))
    axes.set_xlabel("time / time of pirkit")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)
