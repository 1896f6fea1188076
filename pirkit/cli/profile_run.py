"""``pirkit-run --profile`` and ``--compare A B``: where the time of programs goes."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from pirkit.cli.compare_commits import COMMIT, Side, sides_of_commits
from pirkit.cli.input_files import read_inputs
from pirkit.cli.reporting import json_text
from pirkit.cli.run_program import compile_as_asked
from pirkit.cli.torch_archives import load_program
from pirkit.frontend.configuration import config
from pirkit.frontend.files import write_file
from pirkit.frontend.profile import Profile, Row, folded, profile
from pirkit.runtime.tolerance import drift

NATIVE: Final = "native"
"""Stands for no pipeline, which is `@default` with every op in one native call."""
_SHOWN: Final = 40
_RUNS: Final = 20
"""Rows of the table, and runs unless `--repeat` says how many."""


def profile_program(arguments: argparse.Namespace) -> int:
    """Profile a program: print its instructions, the slowest first, or write them to a file."""
    wanted = arguments.pipeline
    found, _ = _profiled(arguments, NATIVE if wanted is None else wanted)
    target: str = arguments.profile
    if target.endswith(".json"):
        write_file(target, perfetto(found))
    elif target:
        write_file(target, folded(found.own()))
    elif arguments.json:
        print(json_text([_as_data(found, row) for row in found.rows], indent=1))
    else:
        print("\n".join(_lines(found)))
    return 0


def compare_pipelines(arguments: argparse.Namespace) -> int:
    """Compare two pipelines or commits on the same inputs; exit code 1 if their numbers differ."""
    names: list[str] = arguments.compare
    if any(name.startswith(COMMIT) for name in names):
        sides = sides_of_commits(arguments, NATIVE, arguments.repeat or _RUNS)
    else:
        sides = [_side(name, *_profiled(arguments, name)) for name in names]
    first, second = sides
    problems = {
        name: problem
        for name, value in first.outputs.items()
        if (problem := _differs(second.outputs.get(name), value)) is not None
    }
    facts = [side.facts for side in sides]
    if arguments.json:
        print(json_text({"pipelines": facts, "differences": problems}, indent=1))
        return 1 if problems else 0
    print(f"{'':24}{'A':>14}{'B':>14}   B / A")
    for key in ("run_us", "instructions", "fused kernels", "bytes", "flops"):
        a, b = (fact[key] for fact in facts)
        if not a or not b:
            continue
        ratio = f"{b / a:7.2f}"
        print(f"{key:24}{a:14,.0f}{b:14,.0f} {ratio}")
    for what in sorted(first.counts | second.counts):
        if first.counts[what] != second.counts[what]:
            print(f"  {what:22}{first.counts[what]:14,}{second.counts[what]:14,}")
    for name, problem in problems.items():
        print(f"output {name}: {problem}")
    print("the numbers differ" if problems else "the numbers agree")
    return 1 if problems else 0


def _differs(found: Any, expected: Any) -> str | None:
    return "is gone" if found is None else drift(np.asarray(found), np.asarray(expected))


def _profiled(arguments: argparse.Namespace, pipeline: str) -> tuple[Profile, dict[str, Any]]:
    program = load_program(arguments.paths[0], format=arguments.format, params=arguments.params)
    with config(cache="objects"):  # plans from the cache do not know what their functions compute
        exe = compile_as_asked(program, arguments, None if pipeline == NATIVE else pipeline)
    inputs = read_inputs(arguments.inputs or "", exe, arguments.params)
    outputs = exe.run(inputs)
    return profile(exe, inputs, arguments.repeat or _RUNS), outputs


def _side(name: str, found: Profile, outputs: Mapping[str, Any]) -> Side:
    counts = Counter(row.entry.what for row in found.rows)
    facts = {
        "pipeline": name,
        "run_us": found.run * 1e6,
        "instructions": len(found.rows),
        "fused kernels": counts["pir.map_expr"],
        "bytes": found.work.nbytes,
        "flops": found.work.flops,
    }
    return Side(facts, counts, outputs)


def _lines(found: Profile) -> Iterator[str]:
    total = sum(row.seconds for row in found.rows if row.entry.depth == 0) or 1.0
    yield f"{'us':>10} {'%':>5} {'bytes':>12} {'flops':>13} {'roofline':>8}  instruction"
    ordered = sorted(found.rows, key=lambda row: -row.seconds)
    for row in ordered[:_SHOWN]:
        shown = (
            f"{', '.join(map(str, row.entry.inputs))} -> {', '.join(map(str, row.entry.outputs))}"
        )
        where = f"  {row.entry.span}" if row.entry.span else ""
        yield (
            f"{row.seconds * 1e6:10.1f} {row.seconds / total:5.0%} {row.work.nbytes:12,}"
            f" {row.work.flops:13,} {found.share(row):8.0%}  {row.entry.what}  {shown}{where}"
        )
    if len(ordered) > _SHOWN:
        yield f"... {len(ordered) - _SHOWN} more, which `--json` prints"
    machine, work = found.machine, found.work
    least = sum(machine.least(row.work) for row in found.rows)
    yield (
        f"{total * 1e6:10.1f} us in {len(found.rows)} instructions, {found.run * 1e6:.1f} us in a"
        f" run without the profiler; {work.nbytes:,} bytes, {work.flops:,} flops"
    )
    yield (
        f"roofline: {machine.bandwidth / 1e9:.1f} GB/s, {machine.flops / 1e9:.1f} GFLOP/s;"
        f" all instructions need {least * 1e6:.1f} us"
    )


def _as_data(found: Profile, row: Row) -> dict[str, Any]:
    return {
        "instruction": row.entry.what,
        "us": row.seconds * 1e6,
        "depth": row.entry.depth,
        "bytes": row.work.nbytes,
        "flops": row.work.flops,
        "roofline": found.share(row),
        "inputs": [str(meta) for meta in row.entry.inputs],
        "outputs": [str(meta) for meta in row.entry.outputs],
        "place": str(row.entry.span) if row.entry.span else None,
        "origin": list(row.entry.origin),
    }


def perfetto(found: Profile) -> str:
    """The instructions of one run as JSON in Chrome's trace format, which Perfetto shows."""
    events: list[dict[str, Any]] = []
    starts, start = [0.0], 0.0
    for row in found.rows:
        depth = row.entry.depth
        starts += [start] * (depth >= len(starts))  # the body of a loop begins where it begins
        del starts[depth + 1 :]
        start = starts[depth]
        starts[depth] += row.seconds
        data = _as_data(found, row)
        events.append({
            "ph": "X", "pid": 1, "tid": 1, "name": data.pop("instruction"), "cat": "instruction",
            "ts": start * 1e6, "dur": data.pop("us"), "args": data,
        })  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1) + "\n"
