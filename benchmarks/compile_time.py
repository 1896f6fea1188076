"""From the start of a process to the first result, with empty caches and once more with full ones.

Each row is a workload of `compare.py` (or ``corpus:NAME``, a captured program, for pirkit alone) in
a process of its own, twice: the caches on disk of each framework begin empty. CPU times are those
of the process and of those that it started; jax runs with its persistent cache on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = {
    "pirkit": "with_pirkit", "jax": "with_jax", "jax_jet": "with_jax", "inductor": "with_torch",
}  # fmt: skip
WORKLOADS = ("pinn_beam_10", "dispatch_100", "gelu_tanh", "ln_fwdbwd", "corpus:transformer_encoder")
CACHES = ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
ALWAYS = {
    "OMP_NUM_THREADS": "2",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def used() -> float:
    """Seconds of CPU time of this process and of its children that ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def first_call(framework: str, name: str) -> dict[str, float]:
    """In a process of its own: CPU time to import, then to build a workload and call it once."""
    sys.path.insert(0, str(ROOT))
    import numpy as np

    from benchmarks.harness.workloads import WORKLOADS as KNOWN

    started = used()
    if name.startswith("corpus:"):
        import pirkit

        folder = ROOT / "tests" / "corpus" / "paddle" / name.partition(":")[2]
        case = import_module("pirkit.frontend.captured").open_case(folder)
        inputs, params = case.step("inputs.npz", 1), case.arrays("params.npz")
        imported = used()
        program = pirkit.load(folder / "program.txt")
        run = pirkit.compile(program, pipeline="@fused", params=params)
        run.run({port.name: inputs[port.name] for port in run.plan.inputs})
    else:
        module = import_module(f"benchmarks.frameworks.{MODULES[framework]}")
        arrays = KNOWN[name].inputs(np.random.default_rng(0))
        imported = used()
        module.build(framework, name, arrays)()
    return {"import": imported - started, "first": used() - imported}


def measured(python: str, framework: str, name: str, folder: str) -> dict[str, float] | None:
    """The process above, with caches in a folder; None if it fails."""
    environment = {**os.environ, **ALWAYS, **{c: f"{folder}/{c}" for c in CACHES}}
    command = [python, __file__, "--child", framework, name]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    return {"wall": wall, **json.loads(done.stdout.splitlines()[-1])}


def row(pythons: dict[str, str], framework: str, name: str, repeat: int) -> str:
    """A line of the table: CPU time of the first call cold and warm, import, whole process."""
    python = pythons.get(framework, sys.executable)
    runs: list[list[dict[str, float]]] = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            pair = [measured(python, framework, name, folder) for _ in range(2)]
        if None in pair:
            return f"| `{name}` | {framework} | failed | | | | |"
        runs.append([run for run in pair if run is not None])

    def seconds(which: int, what: str) -> str:
        return f"{median(run[which][what] for run in runs):.2f}"

    cells = [seconds(0, "first"), seconds(1, "first"), seconds(1, "import")]
    cells += [seconds(0, "wall"), seconds(1, "wall")]
    return f"| `{name}` | {framework} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-w", "--workloads", nargs="+", default=WORKLOADS)
    parser.add_argument("-f", "--frameworks", nargs="+", default=("pirkit", "jax"))
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    if given.child:
        print(json.dumps(first_call(*given.child)))
        return
    pythons = dict(pair.split("=", 1) for pair in given.python)
    print("| workload | framework | first call, cold | warm | import | process, cold | warm |")
    print("|---|---|---|---|---|---|---|")
    for name in given.workloads:
        for framework in given.frameworks:
            if framework != "pirkit" and name.startswith("corpus:"):
                continue
            print(row(pythons, framework, name, given.repeat), flush=True)


if __name__ == "__main__":
    main()
