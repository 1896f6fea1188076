"""Whole networks beside ONNX Runtime: time of a call, of the first and the warm start, error.

``python -m benchmarks.models [names] [--rounds N] [--batch N] [--threads N] [--profile]``

A network of `benchmarks.networks` with random weights is written to ONNX by pirkit, and run by
ONNX Runtime from there and by pirkit frozen, calls in turn, in one process on one thread. A call
counts in CPU milliseconds, the median of the rounds. `cold` and `warm` are CPU seconds from the
program to its first result, in fresh processes with an empty and with a full cache on disk, with
Python's bytecode cached; `import` are those of `warm` that go to imports of modules. The
difference is the largest one, relative to the largest element; above 1e-4 the command fails.
`--profile` prints the instructions in which pirkit spends its time.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks import NETWORKS

DEFAULT = ("resnet18", "mobilenet_v2", "squeezenet", "googlenet", "vit", "bert")


def seconds() -> float:
    """CPU seconds of this process and of those that it started and awaited."""
    each = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(r.ru_utime + r.ru_stime for r in each)


def start(name: str, batch: int) -> None:
    """Build a network, compile, run; print the CPU seconds of that, and of imports among them."""
    built = NETWORKS[name].build(batch=batch)
    before = seconds()
    from pirkit.frontend.compile import compile

    imported = seconds()
    compile(built.program, freeze=True, threads=1).run(built.inputs)
    print(seconds() - before, imported - before)


def starts(name: str, batch: int) -> list[float]:
    """CPU seconds of a cold and a warm start, and of the imports in the latter."""
    command = [sys.executable, "-m", "benchmarks.models", name, "--batch", str(batch), "--start"]
    with tempfile.TemporaryDirectory() as folder:
        found: list[list[float]] = []
        for cache in ("first", "second", "second"):  # the first process compiles Python's modules
            places = {"XDG_CACHE_HOME": f"{folder}/{cache}", "PYTHONPYCACHEPREFIX": folder}
            environment = {**os.environ, **places, "PYTHONDONTWRITEBYTECODE": ""}
            said = subprocess.check_output(command, env=environment).split()
            found.append([*map(float, said[-2:])])
        return [found[1][0], *found[2]]


def profile(exe: Any, inputs: dict[str, Any], rows: int = 25) -> None:
    """Print the instructions that took longest, from the fastest of five traced runs each."""
    traces = [exe.trace(inputs).entries for _ in range(5)]
    found = [min(each, key=lambda e: e.seconds) for each in zip(*traces, strict=True)]
    for entry in sorted(found, key=lambda e: -e.seconds)[:rows]:
        print(str(entry)[:150])


def measure(name: str, batch: int, rounds: int, threads: int, show: bool) -> list[float]:
    """Milliseconds of ONNX Runtime and of pirkit, and their difference."""
    import onnxruntime

    import pirkit

    built = NETWORKS[name].build(batch=batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        pirkit.save(pirkit.run_passes(built.program, "@simplify"), path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    exe = pirkit.compile(built.program, freeze=True, threads=threads)
    calls = (lambda: session.run(None, built.inputs), lambda: exe.run(built.inputs))
    expected, found = (np.asarray(next(iter(_values(call())))) for call in calls)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for into, call in zip(times, calls, strict=True):
            call()  # the caches hold what this call left, not what the other did
            before = time.process_time()
            call()
            into.append((time.process_time() - before) * 1e3)
    if show:
        profile(exe, built.inputs)
    return [*map(statistics.median, times), error]


def _values(found: Any) -> Any:
    return found.values() if isinstance(found, dict) else found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-start", action="store_true", help="leave cold and warm starts out")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["PIRKIT_NUM_THREADS"] = str(given.threads)
    if given.start:
        start(given.names[0], given.batch)
        return 0
    heads = (f"{head:>8}" for head in ("ort ms", "pirkit", "ratio", "cold s", "warm", "import"))
    print(f"{'':14}{''.join(heads)}{'error':>9}")
    ratios, worst = list[float](), 0.0
    for name in given.names:
        first = [0.0] * 3 if given.no_start else starts(name, given.batch)
        ours = (given.batch, given.rounds, given.threads, given.profile)
        peer, own, error = measure(name, *ours)
        ratios.append(peer / own)
        worst = max(worst, error)
        starting = "".join(f"{each:8.2f}" for each in first)
        row = f"{name:14}{peer:8.1f}{own:8.1f}{peer / own:8.2f}{starting}{error:9.1e}"
        print(row, flush=True)
    print(f"geometric mean of the ratios {math.prod(ratios) ** (1 / len(ratios)):.2f}")
    return worst > 1e-4


if __name__ == "__main__":
    sys.exit(main())
