"""pirkit beside other frameworks, on the workloads of `harness/workloads.py`.

Each framework runs in a process of its own, with the Python that has it; the parent asks them in
turn for short bursts, so that a disturbance of the machine hits all of them alike. `limit` is the
machine itself in the same minutes: copying as many bytes, or a large matmul. A name
with `+` is the framework under a malloc that keeps large buffers: compare kernels with that one,
and what users see with the plain one. Results are compared with those of the first framework that
has the workload. Nothing here is a test.

``--tree NAME=PATH`` adds another checkout of pirkit as a framework of that name, with that
checkout's own workloads, so that two commits are measured in the same minutes. ``corpus:NAME`` is
a captured program of `tests/corpus/paddle`, compiled with the defaults; only pirkit runs it.

    python benchmarks/compare.py [--short] [-w NAME...] [-f NAME...] [--python jax=PATH...]
                                 [--tree NAME=PATH...] [--json FILE] [--plot FILE] [--threads N]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import captured  # noqa: E402
from benchmarks.harness.environment import environment_of  # noqa: E402
from benchmarks.harness.report import plotted, printed  # noqa: E402
from benchmarks.harness.workloads import WORKLOADS  # noqa: E402

QUIET = {"JAX_PLATFORMS": "cpu", "GLOG_minloglevel": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}
MODULES = {
    "limit": "numpy",
    "numpy": "numpy",
    "torch": "torch",
    "inductor": "torch",
    "jax": "jax",
    "jax_jet": "jax",
    "jax_eager": "jax",
    "paddle": "paddle",
    "paddle_st": "paddle",
    "pirkit": "pirkit",
}
SPINS = {"paddle": 0.25, "paddle_st": 0.25}
"""Seconds after which the threads of a framework leave the CPUs to others."""


class Worker:
    """A process with one framework; ``root`` is the checkout whose workloads it builds."""

    def __init__(self, framework: str, python: str, threads: int, root: Path = ROOT) -> None:
        plain = framework.rstrip("+")
        environment = environment_of(framework, threads) | QUIET
        environment["FLAGS_paddle_num_threads"] = str(threads)
        environment["PYTHONPATH"] = str(root)
        module = f"benchmarks.frameworks.with_{MODULES.get(plain, 'pirkit')}"
        self.process = subprocess.Popen(
            [python, str(ROOT / "benchmarks/harness/worker.py"), str(root), module, plain],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )

    def compile(self, *message: Any) -> dict[str, Any]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()
        except BrokenPipeError:
            return {"error": "the process died"}
        line = stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def difference(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> float:
    """The largest difference of samples and sums, in terms of the largest sample.

    It is infinite where one of them is not finite: no workload overflows.
    """
    if len(wanted) != len(found):
        return math.inf
    worst = 0.0
    for a, b in zip(wanted, found, strict=True):
        numbers = (*a["samples"], *a["sums"], *b["samples"], *b["sums"])
        if a["size"] != b["size"] or not all(map(math.isfinite, numbers)):
            return math.inf
        scale = max(map(abs, [*a["samples"], 1e-6]))
        pairs = zip(a["samples"], b["samples"], strict=True)
        worst = max([worst, *(abs(x - y) / scale for x, y in pairs)])
        worst = max(worst, abs(a["sums"][0] - b["sums"][0]) / max(a["sums"][1], 1e-6))
    return worst


def left_out(framework: str, reason: str) -> dict[str, Any]:
    print(f"{framework}: left out ({reason})", flush=True)
    return {"error": reason}


def measure(workload: str, workers: dict[str, Worker], options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    reference: list[dict[str, Any]] | None = None
    for framework, worker in workers.items():
        answer = worker.compile("build", workload)
        time.sleep(SPINS.get(framework.rstrip("+"), 0.05))
        if "error" in answer:
            found[framework] = left_out(framework, answer["error"])
            continue
        results = answer["results"]
        if framework.rstrip("+") == "limit":
            error = 0.0
        else:
            reference = results if reference is None else reference
            error = difference(reference, results)
        found[framework] = {
            "error_size": error,
            "compile_s": max(0.0, answer["first"] - answer["warm"]),
            "first_cpu_s": answer["cpu"],
            "times": [],
            "cpu": [],
        }
    live = [f for f in found if "times" in found[f]]
    for number in range(options.rounds):
        turn = number % max(len(live), 1)
        for framework in live[turn:] + live[:turn]:
            answer = workers[framework].compile("burst", options.burst)
            time.sleep(SPINS.get(framework.rstrip("+"), 0.03))
            if "error" in answer:
                found[framework] = left_out(framework, answer["error"])
                live.remove(framework)
                continue
            found[framework]["times"] += answer["times"]
            found[framework]["cpu"].append(answer["cpu"])
            foreign = max(found[framework].get("foreign", 0), answer["foreign"])
            found[framework]["foreign"] = foreign
    for framework in live:
        times, cpu = (sorted(found[framework].pop(k)) for k in ("times", "cpu"))
        found[framework] |= {
            "median_s": median(times),
            "quartile_s": times[len(times) // 4],
            "fastest_s": times[0],
            "cpu_s": median(cpu),
            "calls": len(times),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = [*WORKLOADS, *captured.names()]
    parser.add_argument("-w", "--workloads", nargs="+", choices=known, metavar="NAME")
    named = [name + suffix for name in MODULES for suffix in ("", "+")]
    parser.add_argument(
        "-f", "--frameworks", nargs="+", choices=named, default=list(MODULES), metavar="NAME"
    )
    parser.add_argument("--short", action="store_true", help="the five workloads of `make bench`")
    parser.add_argument("--python", action="append", default=[], metavar="MODULE=PATH")
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.15, help="seconds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="SVG or PNG; needs matplotlib")
    options = parser.parse_args()
    pythons = dict(pair.split("=", 1) for pair in options.python)
    chosen = options.workloads or [w for w in WORKLOADS if WORKLOADS[w].short or not options.short]
    workers = {}
    for framework in options.frameworks:
        python = pythons.get(MODULES[framework.rstrip("+")], sys.executable)
        module = MODULES[framework.rstrip("+")]
        command = [python, "-c", f"import {module}"]
        there = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if there.returncode == 0:
            workers[framework] = Worker(framework, python, options.threads)
        else:
            left_out(framework, (there.stderr.strip().splitlines() or ["no reason given"])[-1])
    for name, _, path in (pair.partition("=") for pair in options.tree):
        workers[name] = Worker(name, sys.executable, options.threads, Path(path).resolve())
    rows: dict[str, Any] = {}
    try:
        for name in chosen:
            rows[name] = measure(name, workers, options)
            printed({name: rows[name]})
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        for worker in workers.values():
            worker.close()
    if options.plot:
        plotted(rows, options.plot)


if __name__ == "__main__":
    main()
