"""From the start of a process to the first result, with empty caches and once more with full ones.

Each row is a workload of `compare.py` (or ``corpus:NAME``, a captured program, for pirkit alone) in
a process of its own, twice: the caches on disk of each framework begin empty. The frameworks take
turns; ``--tree NAME=PATH`` adds another checkout of pirkit as one of them. CPU times are those
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
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

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


def first_call(framework: str, name: str, root: str = str(ROOT)) -> dict[str, float]:
    """In a process of its own: CPU time to import, then to build a workload and call it once."""
    sys.path.insert(0, root)
    import numpy as np
    from harness import captured  # of the folder of this file, whatever checkout `root` is

    from benchmarks.harness.workloads import WORKLOADS as KNOWN

    started = used()
    if name.startswith(captured.PREFIX):
        import_module("pirkit.frontend.compile")
        build = partial(captured.build, name)
    else:
        module = import_module(f"benchmarks.frameworks.{MODULES[framework]}")
        build = partial(module.build, framework, name, KNOWN[name].inputs(np.random.default_rng(0)))
    imported = used()
    build()()
    return {"import": imported - started, "first": used() - imported}


Pair = list[dict[str, float]]
"""Measurements of a process with empty caches, and of one that has what it left there."""


class Entry(NamedTuple):
    """A line of each row: a framework as it is called, its Python, and the checkout it is of."""

    name: str
    framework: str
    python: str
    root: str


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


def translate(python: str, root: str) -> None:
    """Translate our sources to bytecode, which installed packages come with."""
    folders = [f"{root}/{name}" for name in ("pirkit", "benchmarks")]
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
        pairs = [pair(command, limit, alone) for _ in range(repeat)]
    except ChildError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return f"| `{name}` | {error} | | | | |"

    def least(which: int, what: str) -> float:
        return min(run[which][what] for run in pairs)

    cells = [f"{least(0, 'functions'):.0f}"]
    cells += [f"{least(0, what):.1f}" for what in ("slowest", "usual")]
    cells += [f"{least(1, what):.2f}" for what in ("read", "linked")]
    return f"| `{name}` | {' | '.join(cells)} |"


def pair(command: Sequence[str], limit: float, others: dict[str, str] | None = None) -> Pair:
    """A process with caches that begin empty, and one with what it left there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = ALWAYS | (others or {}) | {name: f"{folder}/{name}" for name in CACHES}
        return [measured(command, environment, limit) for _ in range(2)]


def rows(entries: Sequence[Entry], name: str, repeat: int, limit: float) -> list[str]:
    """A line of the table a framework: CPU time of the first call cold and warm, import, process.

    The frameworks take turns, so that a disturbance of the machine hits all of them alike.
    """
    found = {entry.name: list[Pair]() for entry in entries}
    failed = dict[str, str]()
    for entry in list(entries) * repeat:
        if entry.name not in failed:
            command = [entry.python, __file__, "--child", entry.framework, name, entry.root]
            try:
                found[entry.name].append(pair(command, limit, {"PYTHONPATH": entry.root}))
            except ChildError as error:
                print(f"{entry.name}, {name}: {error}", file=sys.stderr)
                failed[entry.name] = str(error)

    def cells(entry: Entry) -> str:
        if entry.name in failed:
            return f"{failed[entry.name]} | | | |"
        columns = [(0, "first"), (1, "first"), (1, "import"), (0, "wall"), (1, "wall")]
        medians = [median(run[which][what] for run in found[entry.name]) for which, what in columns]
        return " | ".join(f"{seconds:.2f}" for seconds in medians)

    return [f"| `{name}` | {entry.name} | {cells(entry)} |" for entry in entries]


def runs(framework: str, name: str) -> bool:
    """Whether a framework has a workload: only pirkit runs captured programs."""
    return framework == "pirkit" or not name.startswith("corpus:")


def variant(framework: str, name: str) -> str:
    """The framework as it suits a workload best."""
    return "jax_jet" if framework == "jax" and name.startswith("pinn") else framework


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-w", "--workloads", nargs="+", default=WORKLOADS)
    parser.add_argument("-f", "--frameworks", nargs="+", default=("pirkit", "jax"))
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each process")
    parser.add_argument("--kernels", action="store_true", help="what pirkit's functions cost")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    if given.child:
        framework, name, *root = given.child
        found = kernels(name) if framework == "kernels" else first_call(framework, name, *root)
        print(json.dumps(found))
        return
    pythons = dict(pair.split("=", 1) for pair in given.python)
    trees = {name: path for name, _, path in (pair.partition("=") for pair in given.tree)}
    entries = [Entry(f, f, pythons.get(f, sys.executable), str(ROOT)) for f in given.frameworks]
    entries += [Entry(n, "pirkit", sys.executable, os.path.realpath(p)) for n, p in trees.items()]
    for python, root in {(entry.python, entry.root) for entry in entries}:
        translate(python, root)
    if given.kernels:
        print("| workload | functions | slowest, ms | usual, ms | cached: read, ms | linked, ms |")
        print("|---|---|---|---|---|---|")
        for name in given.workloads:
            print(kernel_row(sys.executable, name, given.repeat, given.limit), flush=True)
        return
    print("| workload | framework | first call, cold | warm | import | process, cold | warm |")
    print("|---|---|---|---|---|---|---|")
    for name in given.workloads:
        run = [entry for entry in entries if runs(entry.framework, name)]
        run = [entry._replace(framework=variant(entry.framework, name)) for entry in run]
        for line in rows(run, name, given.repeat, given.limit):
            print(line, flush=True)


if __name__ == "__main__":
    main()
