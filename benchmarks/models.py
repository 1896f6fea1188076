"""Whole networks beside inference engines: time of a call, of the first and the warm start, error.

``python -m benchmarks.models [names] [--engines E...] [--rounds N] [--batch N] [--threads N]``

A network of `benchmarks.networks` with random weights is written to ONNX by pirkit. Each engine
runs it in a process of its own, so that no two thread pools compete, and the parent asks them for
bursts in turn, so that a disturbance of the machine hits all alike. Printed are wall milliseconds
of a call, the median of the bursts, the peak memory of the process in MB, and the ratio of the best
peer to pirkit. `cold` and `warm` are CPU seconds of pirkit from the program to its first result, in
fresh processes with an empty and with a full cache on disk, with Python's bytecode cached; `import`
are those of `warm` that go to imports of modules. The difference is the largest one from ONNX
Runtime, relative to the largest element; above 1e-4 the command fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.environment import environment_of
from benchmarks.harness.report import plotted_ratios
from benchmarks.harness.worker import burst
from benchmarks.networks import NETWORKS

Call = Callable[[], Any]
SETTLES = 0.05
"""Seconds after which the threads of an engine have left the CPUs to others."""
TOLERANCE = 1e-4
MODEL, NAME = "model.onnx", "name.json"
"""Files of a network: for its peers, and what pirkit builds it from."""


def onnxruntime(folder: Path, threads: int, inputs: dict[str, Any]) -> Call:
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    path, providers = str(folder / MODEL), ["CPUExecutionProvider"]
    session: Any = engine.InferenceSession(path, options, providers=providers)
    return lambda: session.run(None, inputs)[0]


def openvino(folder: Path, threads: int, inputs: dict[str, Any]) -> Call:
    import openvino as engine

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    model: Any = engine.Core().compile_model(str(folder / MODEL), "CPU", settings)
    return lambda: model(inputs)[0]


def pirkit(folder: Path, threads: int, inputs: dict[str, Any]) -> Call:
    import pirkit as engine

    name, batch = json.loads((folder / NAME).read_text())
    exe = engine.compile(NETWORKS[name].build(batch=batch).program, freeze=True, threads=threads)
    return lambda: next(iter(exe.run(inputs).values()))


ENGINES = {f.__name__: f for f in (onnxruntime, openvino, pirkit)}


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and awaited."""
    each = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(r.ru_utime + r.ru_stime for r in each)


def peak_memory() -> float:
    """MB that this process had at most; that of `getrusage` counts its parent's too."""
    (line,) = [x for x in Path("/proc/self/status").read_text().split("\n") if "VmHWM" in x]
    return int(line.split()[1]) / 1e3


def start(name: str, batch: int) -> None:
    """Build a network, compile, run; print the CPU seconds of that, and of imports among them."""
    built = NETWORKS[name].build(batch=batch)
    before = cpu_seconds()
    from pirkit.frontend.compile import compile

    imported = cpu_seconds()
    compile(built.program, freeze=True, threads=1).run(built.inputs)
    print(cpu_seconds() - before, imported - before)


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


def serve(engine: str, folder: Path, threads: int) -> None:
    """Answer each line of standard input with a burst of calls; the result goes to a file."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print is no answer
    with np.load(folder / "inputs.npz") as held:
        inputs = {k: held[k] for k in held.files}
    call = ENGINES[engine](folder, threads, inputs)
    np.save(folder / f"{engine}.npy", np.asarray(call()))
    for line in sys.stdin:
        found = burst(call, float(line))
        out.write(json.dumps([statistics.median(found["times"]) * 1e3, peak_memory()]) + "\n")
        out.flush()


class Worker:
    """An engine with one network, in a process of its own."""

    def __init__(self, engine: str, folder: Path, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.models", str(folder), "--serve", engine]
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_of(engine, threads),
            text=True,
        )
        self.times = list[float]()
        self.peak = 0.0

    def burst(self, seconds: float) -> None:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{seconds}\n")
        stdin.flush()
        found, self.peak = json.loads(stdout.readline() or "[NaN, NaN]")
        self.times.append(found)
        time.sleep(SETTLES)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def measure(name: str, options: Any) -> tuple[dict[str, Worker], float]:
    """The engines with their times, and the difference of pirkit from ONNX Runtime."""
    import pirkit

    built = NETWORKS[name].build(batch=options.batch)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pirkit.save(pirkit.run_passes(built.program, "@simplify"), folder / MODEL)
        (folder / NAME).write_text(json.dumps([name, options.batch]))
        np.savez(folder / "inputs.npz", allow_pickle=False, **built.inputs)
        workers = {e: Worker(e, folder, options.threads) for e in options.engines}
        for _ in range(options.rounds):
            for worker in workers.values():
                worker.burst(options.burst)
        for worker in workers.values():
            worker.close()
        results = {e: np.load(folder / f"{e}.npy") for e in workers}
    expected = results.get("onnxruntime", results["pirkit"])
    error = float(np.abs(results["pirkit"] - expected).max() / np.abs(expected).max())
    return workers, error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.3, help="seconds")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--starts", action="store_true", help="measure cold and warm starts too")
    parser.add_argument("--plot", type=Path, help="SVG or PNG; needs matplotlib")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", choices=list(ENGINES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["PIRKIT_NUM_THREADS"] = str(given.threads)
    if given.start:
        start(given.names[0], given.batch)
        return 0
    if given.serve:
        serve(given.serve, Path(given.names[0]), given.threads)
        return 0
    columns = "".join(f"{e + ' ms':>16}{'MB':>6}" for e in given.engines)
    print(f"{'':14}{columns}{'ratio':>7}{'cold s':>8}{'warm s':>8}{'import':>8}{'error':>9}")
    ratios, worst = dict[str, dict[str, float]](), 0.0
    for name in given.names:
        first = starts(name, given.batch) if given.starts else [math.nan] * 3
        workers, error = measure(name, given)
        times = {e: statistics.median(w.times) for e, w in workers.items()}
        peers = [t for e, t in times.items() if e != "pirkit"]
        ratios[name] = {e: t / times["pirkit"] for e, t in times.items() if e != "pirkit"}
        worst = max(worst, error)
        row = "".join(f"{times[e]:16.1f}{w.peak:6.0f}" for e, w in workers.items())
        starting = "".join(f"{each:8.2f}" for each in first)
        best = min(peers, default=math.nan) / times["pirkit"]
        print(f"{name:14}{row}{best:7.2f}{starting}{error:9.1e}", flush=True)
    bests = [min(r.values(), default=math.nan) for r in ratios.values()]
    print(f"geometric mean of the ratios {math.prod(bests) ** (1 / len(bests)):.2f}")
    if given.plot:
        plotted_ratios(ratios, given.plot)
    return worst > TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
