"""From the start of a process to the first result, with empty caches and once more with full ones.

Each row is a workload of `compare.py` (or ``corpus:NAME``, a captured program, for pirkit alone) in
a process of its own, twice: the caches on disk of each framework begin empty. CPU times are those
of the process and of those that it started; jax runs with its persistent cache on, and with Taylor
series where derivatives by the coordinates are asked for. A process that takes longer than the
limit is ended with all that it started.

With ``--kernels`` each row tells of pirkit's native functions instead: how many there are, the CPU
time to write and compile the slowest one and a usual one on one thread, and that to read and to
link one in a second process. What a process does once, whatever it compiles, another workload has
done before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
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
WORKLOADS = (
    "gelu_tanh", "gelu_erf", "softmax_4096", "softmax_50257", "log_softmax_50257", "ln_fwd",
    "ln_fwdbwd", "bn_fwdbwd", "add_reduce0", "transpose_add_reduce", "adamw_10m", "attn_fwd",
    "attn_fwdbwd", "gpt_block_step", "resnet_block_step", "pinn_beam_10", "pinn_beam_1000",
    "pinn_burgers_10k", "dispatch_100", "corpus:transformer_encoder",
)  # fmt: skip
FIRST = "dispatch_100"
CACHES = ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
ALWAYS = {
    "OMP_NUM_THREADS": "2",
    "PYTHONDONTWRITEBYTECODE": "",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def used() -> float:
    """Seconds of CPU time of this process and of its children that ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def kernels(name: str) -> dict[str, float]:
    """In a process of its own: what native functions of a workload cost, in ms of CPU time."""
    from pirkit.runtime.native.compile_stats import COMPILE_STATS

    if name != FIRST:
        first_call("pirkit", FIRST)
    before = COMPILE_STATS.copy()
    first_call("pirkit", name)
    found = COMPILE_STATS.since(before)
    seconds = {
        "slowest": max(found.costs, default=0.0),
        "usual": median(found.costs or [0.0]),
        "read": found.seconds / max(found.read, 1),
        "linked": found.linking / max(found.linked, 1),
    }
    counts = {"functions": float(len(found.costs)), "kept": float(found.read)}
    return {**{what: 1e3 * value for what, value in seconds.items()}, **counts}


def first_call(framework: str, name: str) -> dict[str, float]:
    """In a process of its own: CPU time to import, then to build a workload and call it once."""
    sys.path.insert(0, str(ROOT))
    import numpy as np

    from benchmarks.harness.workloads import WORKLOADS as KNOWN

    started = used()
    if name.startswith("corpus:"):
        import pirkit

        folder = ROOT / "tests" / "corpus" / "paddle" / name.partition(":")[2]
        case = import_module("pirkit.frontend.captured_case").open_case(folder)
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


class ChildError(Exception):
    """A process that gave no result; says why."""


def measured(command: Sequence[str], environment: dict[str, str], limit: float) -> dict[str, float]:
    """What a process prints last, and its wall time; `ChildError` if it fails or is too slow."""
    start = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, errors = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise ChildError(f"more than {limit:g} s") from None
        finally:
            end_group(child.pid)
    wall = time.perf_counter() - start
    if child.returncode < 0:
        raise ChildError(f"ended by {signal.Signals(-child.returncode).name}")
    lines = errors.strip().splitlines()
    if child.returncode:
        raise ChildError(lines[-1] if lines else f"ended with status {child.returncode}")
    printed = out.splitlines()
    if not printed:
        raise ChildError("printed nothing")
    return {"wall": wall, **json.loads(printed[-1])}


def translate(python: str) -> None:
    """Translate our sources to bytecode, which installed packages come with."""
    folders = [str(ROOT / name) for name in ("pirkit", "benchmarks")]
    subprocess.run([python, "-m", "compileall", "-q", *folders], check=False)


def end_group(leader: int) -> None:
    """End a process and what it started, which share a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def kernel_row(python: str, name: str, repeat: int, limit: float) -> str:
    """A line of the table of kernels."""
    alone = {"PIRKIT_NUM_THREADS": "1", "PIRKIT_NATIVE_CACHE": "objects"}
    command = [python, __file__, "--child", "kernels", name]
    try:
        runs = [pair(command, limit, alone) for _ in range(repeat)]
    except ChildError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return f"| `{name}` | {error} | | | | |"

    def least(which: int, what: str) -> float:
        return min(run[which][what] for run in runs)

    cells = [f"{least(0, 'functions'):.0f}"]
    cells += [f"{least(0, what):.1f}" for what in ("slowest", "usual")]
    cells += [f"{least(1, what):.2f}" for what in ("read", "linked")]
    return f"| `{name}` | {' | '.join(cells)} |"


def pair(
    command: Sequence[str], limit: float, others: dict[str, str] | None = None
) -> list[dict[str, float]]:
    """A process with caches that begin empty, and one with what it left there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = ALWAYS | (others or {}) | {name: f"{folder}/{name}" for name in CACHES}
        return [measured(command, environment, limit) for _ in range(2)]


def row(python: str, framework: str, name: str, repeat: int, limit: float) -> str:
    """A line of the table: CPU time of the first call cold and warm, import, whole process."""
    command = [python, __file__, "--child", framework, name]
    try:
        runs = [pair(command, limit) for _ in range(repeat)]
    except ChildError as error:
        print(f"{framework}, {name}: {error}", file=sys.stderr)
        return f"| `{name}` | {framework} | {error} | | | | |"

    def seconds(which: int, what: str) -> str:
        return f"{median(run[which][what] for run in runs):.2f}"

    cells = [seconds(0, "first"), seconds(1, "first"), seconds(1, "import")]
    cells += [seconds(0, "wall"), seconds(1, "wall")]
    return f"| `{name}` | {framework} | {' | '.join(cells)} |"


def variant(framework: str, name: str) -> str:
    """The framework as it suits a workload best."""
    return "jax_jet" if framework == "jax" and name.startswith("pinn") else framework


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-w", "--workloads", nargs="+", default=WORKLOADS)
    parser.add_argument("-f", "--frameworks", nargs="+", default=("pirkit", "jax"))
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each process")
    parser.add_argument("--kernels", action="store_true", help="what pirkit's functions cost")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    if given.child:
        framework, name = given.child
        found = kernels(name) if framework == "kernels" else first_call(framework, name)
        print(json.dumps(found))
        return
    pythons = dict(pair.split("=", 1) for pair in given.python)
    for python in {pythons.get(framework, sys.executable) for framework in given.frameworks}:
        translate(python)
    if given.kernels:
        print("| workload | functions | slowest, ms | usual, ms | cached: read, ms | linked, ms |")
        print("|---|---|---|---|---|---|")
        for name in given.workloads:
            print(kernel_row(sys.executable, name, given.repeat, given.limit), flush=True)
        return
    print("| workload | framework | first call, cold | warm | import | process, cold | warm |")
    print("|---|---|---|---|---|---|---|")
    for name in given.workloads:
        for framework in given.frameworks:
            if framework != "pirkit" and name.startswith("corpus:"):
                continue
            python = pythons.get(framework, sys.executable)
            line = row(python, variant(framework, name), name, given.repeat, given.limit)
            print(line, flush=True)


if __name__ == "__main__":
    main()
