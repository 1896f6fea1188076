"""Whole networks beside inference engines: time of a call, of the first and the warm start, error.

``python -m benchmarks.models [names] [--engines E...] [--rounds N] [--batch N] [--threads N]
[--cpu] [--paddle PYTHON]``

A network of `benchmarks.networks` with random weights is written to files for `benchmarks.engines`.
Each engine runs it in a process of its own, so that no two thread pools compete, and the parent
asks them for bursts in turn, so that a disturbance of the machine hits all alike. Printed are wall
milliseconds of a call (with ``--cpu`` those of CPU time, which other programs disturb less), the
median of the bursts, the peak memory of the process in MB, and the ratio of the best peer to
pirkit. Processes of torch, inductor and pirkit also hold the program that they make the network of.
An engine that cannot run a network is left out, with the reason on standard error. Paddle Inference
runs in the interpreter ``--paddle``, any that has `paddlepaddle` and numpy; it is left out without.

`cold` and `warm` are CPU seconds of pirkit from the program to its first result, in fresh processes
with an empty and with a full cache on disk, with Python's bytecode cached; `import` are those of
`warm` that go to imports of modules. The differences are the largest ones from ONNX Runtime, or
else the first engine, relative to the largest element; above 1e-4 the command fails.
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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import ENGINES, MODEL, NAME, PADDLE
from benchmarks.harness.environment import environment_of
from benchmarks.harness.report import plotted_ratios
from benchmarks.networks import NETWORKS
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import create

SETTLES = 0.05
"""Seconds after which the threads of an engine have left the CPUs to others."""
TOLERANCE = 1e-4


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and awaited."""
    each = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(r.ru_utime + r.ru_stime for r in each)


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


class Worker:
    """An engine with one network, in a process of its own. Raises RuntimeError, which says why, if
    the engine cannot run it.
    """

    def __init__(self, engine: str, folder: Path, options: Any) -> None:
        python = options.paddle if engine == "paddle" else sys.executable
        command = [python, "-m", "benchmarks.engines", engine, str(folder)]
        root = str(Path(__file__).parents[1])
        self.process = subprocess.Popen(
            [*command, "--threads", str(options.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment_of(engine, options.threads), "PYTHONPATH": root},
            text=True,
        )
        self.times, self.seconds = list[tuple[float, float]](), options.burst
        self.peak = 0.0
        if (failed := self.answer()[0]) is not None:
            raise RuntimeError(failed)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("its process has ended")
        return json.loads(line)

    def burst(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(f"{self.seconds}\n")
        stdin.flush()
        wall, cpu, self.peak = self.answer()
        self.times.append((wall, cpu))
        time.sleep(SETTLES)

    def median(self, cpu: bool) -> float:
        """Milliseconds of a call."""
        return statistics.median(t[cpu] for t in self.times)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def _fetched(program: Any) -> Any:
    """A copy of a program with outputs as `save_inference_model` of Paddle has them."""
    copy = program.copy()
    block = copy.entry(None).block
    outputs = [op for op in block.ops if op.name == "pir.shadow_output"]
    for k, op in enumerate(outputs):
        held = {"name": encode("str", op.attribute("output_name")), "col": encode("i32", k)}
        block.add_op(create("pd_op.fetch", op.operands, [op.operands[0].type], held))
        op.detach()
        op.erase()
    return copy


def measure(name: str, options: Any) -> tuple[dict[str, Worker], float]:
    """The engines that run a network, with their times, and the largest difference of results."""
    import pirkit

    built = NETWORKS[name].build(batch=options.batch)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pirkit.save(pirkit.run_passes(built.program, "@simplify"), folder / MODEL)
        pirkit.save(_fetched(built.program), folder / PADDLE)
        (folder / NAME).write_text(json.dumps([name, options.batch]))
        np.savez(folder / "inputs.npz", allow_pickle=False, **built.inputs)
        workers = dict[str, Worker]()
        for engine in options.engines:
            try:
                workers[engine] = Worker(engine, folder, options)
            except RuntimeError as reason:
                print(f"{name}: no {engine}: {reason}", file=sys.stderr)
        for _ in range(options.rounds):
            for worker in workers.values():
                worker.burst()
        for worker in workers.values():
            worker.close()
        results = {e: np.load(folder / f"{e}.npy") for e in workers}
    expected = results.get("onnxruntime", next(iter(results.values())))
    scale = np.abs(expected).max()
    return workers, max(float(np.abs(r - expected).max() / scale) for r in results.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--paddle", help="a Python interpreter that has paddlepaddle")
    parser.add_argument("--cpu", action="store_true", help="CPU milliseconds, not those of a clock")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.3, help="seconds")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--starts", action="store_true", help="measure cold and warm starts too")
    parser.add_argument("--plot", type=Path, help="SVG or PNG; needs matplotlib")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["PIRKIT_NUM_THREADS"] = str(given.threads)
    if given.start:
        start(given.names[0], given.batch)
        return 0
    if given.paddle is None:
        given.engines = [e for e in given.engines if e != "paddle"]
    columns = "".join(f"{e + ' ms':>16}{'MB':>6}" for e in given.engines)
    print(f"{'':14}{columns}{'ratio':>7}{'cold s':>8}{'warm s':>8}{'import':>8}{'error':>9}")
    ratios, worst = dict[str, dict[str, float]](), 0.0
    for name in given.names:
        first = starts(name, given.batch) if given.starts else [math.nan] * 3
        workers, error = measure(name, given)
        times = {e: w.median(given.cpu) for e, w in workers.items()}
        peers = [t for e, t in times.items() if e != "pirkit"]
        ratios[name] = {e: t / times["pirkit"] for e, t in times.items() if e != "pirkit"}
        worst = max(worst, error)
        none = math.nan, math.nan
        shown = [(times[e], workers[e].peak) if e in times else none for e in given.engines]
        row = "".join(f"{t:16.1f}{peak:6.0f}" for t, peak in shown)
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
