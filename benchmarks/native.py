"""Native kernels beside numpy and torch, where torch is installed.

Each framework runs in a process of its own; the parent asks them in turn for short bursts, so that
a disturbance of the machine hits all of them alike. Results are compared before anything is timed.
numpy and torch get a fresh result for each call, as users do; `torch+` has a malloc that keeps
large buffers, as pirkit's static plans do: compare kernels with that one. `copy` is the roofline of
the same minute: what streaming as many bytes costs. With `--threads 1` CPU time is measured, which
other programs on the machine disturb less.

    python benchmarks/native.py [--rounds N] [--threads N] [--only NAME...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness.environment import environment_of

N = 4096
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "gelu_tanh": ((N, N), (N,)),
    "gelu_erf": ((N, N), (N,)),
    "softmax_4096": ((N, N),),
    "softmax_50257": ((64, 50257),),
    "log_softmax_50257": ((64, 50257),),
    "layer_norm": ((8192, 1024), (1024,), (1024,)),
    "add_reduce0": ((N, N), (N, N)),
    "transpose_add_reduce": ((N, N), (N, N)),
    "adamw_10m": ((10_000_000,),) * 4,
}
MOVED = {  # bytes that must be read or written
    "gelu_tanh": 2 * 4 * N * N,
    "gelu_erf": 2 * 4 * N * N,
    "softmax_4096": 2 * 4 * N * N,
    "softmax_50257": 2 * 4 * 64 * 50257,
    "log_softmax_50257": 2 * 4 * 64 * 50257,
    "layer_norm": 2 * 4 * 8192 * 1024,
    "add_reduce0": 2 * 4 * N * N,
    "transpose_add_reduce": 2 * 4 * N * N,
    "adamw_10m": 7 * 4 * 10_000_000,
}

Arrays = list[Any]
Call = Callable[[], Arrays]


def inputs(name: str) -> Arrays:
    import numpy as np

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in SHAPES[name]]
    if "softmax" in name:
        arrays[0] *= 3
    if name == "adamw_10m":
        arrays[2] *= 0.1
        arrays[3] = abs(arrays[3]) * np.float32(0.1)
    return arrays


def with_numpy(name: str, arrays: Arrays) -> Call:
    import numpy as np

    f = np.float32
    x, *rest = arrays

    def gelu() -> Arrays:
        z = x + rest[0]
        if name.startswith("gelu_tanh"):
            inner = np.tanh(f(0.7978845608) * (z + f(0.044715) * z * z * z))
        else:
            from math import erf  # numpy has none

            inner = np.vectorize(erf, otypes=[np.float32])(z * f(0.70710678))
        return [f(0.5) * z * (1 + inner)]

    def softmax() -> Arrays:
        d = x - x.max(-1, keepdims=True)
        e = np.exp(d)
        if name.startswith("log"):
            return [d - np.log(e.sum(-1, keepdims=True))]
        e /= e.sum(-1, keepdims=True)
        return [e]

    def layer_norm() -> Arrays:
        d = x - x.mean(-1, keepdims=True)
        r = 1 / np.sqrt((d * d).mean(-1, keepdims=True) + f(1e-5))
        return [d * r * rest[0] + rest[1]]

    state, steps = [a.copy() for a in arrays], [0]

    def adamw() -> Arrays:
        steps[0] += 1
        p, g, m, v = state
        c1, c2 = corrections(steps[0])
        p *= f(1 - 1e-3 * 0.01)
        m *= f(0.9)
        m += f(1 - 0.9) * g
        v *= f(0.999)
        v += f(1 - 0.999) * g * g
        p -= f(c1) * m / (np.sqrt(v) * f(c2) + f(1e-8))
        return [p, m, v]

    if name == "add_reduce0":
        return lambda: [(x + rest[0]).sum(0)]
    if name == "transpose_add_reduce":
        return lambda: [(x.T + rest[0]).sum(1)]
    table = {"gelu": gelu, "softmax": softmax, "log": softmax, "layer": layer_norm, "adamw": adamw}
    return table[name.partition("_")[0]]


def corrections(step: int) -> tuple[float, float]:
    return 1e-3 / (1 - 0.9**step), 1 / math.sqrt(1 - 0.999**step)


def with_torch(name: str, arrays: Arrays, threads: int) -> Call:
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    x, *rest = (torch.from_numpy(a.copy()) for a in arrays)
    if name == "adamw_10m":
        g, m, v = rest
        torch.set_grad_enabled(True)
        p = x.requires_grad_()
        p.grad = g
        steps = torch.optim.AdamW(
            [p], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=True
        )
        steps.state[p] = {"step": torch.tensor(0.0), "exp_avg": m, "exp_avg_sq": v}

        def step() -> Arrays:
            steps.step()
            return [p.detach(), m, v]

        return step
    calls: dict[str, Callable[[], Any]] = {
        "gelu_tanh": lambda: functional.gelu(x + rest[0], approximate="tanh"),
        "gelu_erf": lambda: functional.gelu(x + rest[0]),
        "softmax_4096": lambda: torch.softmax(x, -1),
        "softmax_50257": lambda: torch.softmax(x, -1),
        "log_softmax_50257": lambda: torch.log_softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, (1024,), rest[0], rest[1]),
        "add_reduce0": lambda: (x + rest[0]).sum(0),
        "transpose_add_reduce": lambda: (x.t() + rest[0]).sum(1),
    }
    call = calls[name]
    return lambda: [call()]


def with_pirkit(name: str, arrays: Arrays) -> Call:
    import native_nests as nests

    from pirkit.lowering.codegen.emit.compile import native_sequence

    made = {
        "gelu_tanh": lambda: nests.gelu(N, "tanh"),
        "gelu_erf": lambda: nests.gelu(N, "erf"),
        "softmax_4096": lambda: nests.softmax(N, N),
        "softmax_50257": lambda: nests.softmax(64, 50257),
        "log_softmax_50257": lambda: nests.softmax(64, 50257, True),
        "layer_norm": lambda: nests.layer_norm(8192, 1024),
        "add_reduce0": lambda: nests.add_reduce(N, False),
        "transpose_add_reduce": lambda: nests.add_reduce(N, True),
        "adamw_10m": lambda: nests.adamw(10_000_000),
        "copy": lambda: nests.copy(N * N),
    }
    kernel = made[name]()
    operands = [aligned(a) for a in arrays]
    if name == "adamw_10m":
        operands += [aligned(a) for a in _numbers(2)]
    else:
        operands.append(aligned(_numbers(kernel.operands[-1].size // 4)[0]))
    started = time.perf_counter()
    call = native_sequence(kernel).bind(operands)
    with_pirkit.compile_ms = 1e3 * (time.perf_counter() - started)  # type: ignore[attr-defined]
    steps = [0]

    def adamw() -> Arrays:
        steps[0] += 1
        operands[4][0], operands[5][0] = corrections(steps[0])
        call()
        return [operands[0], operands[2], operands[3]]

    def run() -> Arrays:
        call()
        return [operands[-1].reshape(arrays[0].shape if arrays[0].size == operands[-1].size
                                     else (-1,))]  # fmt: skip

    return adamw if name == "adamw_10m" else run


def _numbers(count: int) -> Arrays:
    import numpy as np

    return [np.full(count, np.nan, np.float32) for _ in range(2 if count == 2 else 1)]


def aligned(array: Any) -> Any:
    """A copy that starts at a page of two MiB, where the system may use large pages."""
    import mmap

    import numpy as np

    page = 2 << 20
    memory = mmap.mmap(-1, -(-array.nbytes // page) * page + page)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % page
    result = whole[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def builder(framework: str, threads: int) -> Callable[[str, Arrays], Call]:
    if framework == "pirkit":
        return with_pirkit
    if framework == "numpy":
        return with_numpy
    return lambda name, arrays: with_torch(name, arrays, threads)


def worker(framework: str, threads: int) -> None:
    import numpy as np

    build = builder(framework, threads)
    calls: dict[str, Call] = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["name"]
        if request["do"] == "setup":
            calls.clear()
            shapes = inputs(name) if name != "copy" else [np.ones(N * N, np.float32)]
            started = time.perf_counter()
            calls[name] = build(name, shapes)
            results = [np.asarray(a) for a in calls[name]()]
            first = time.perf_counter() - started
            rng = np.random.default_rng(1)
            probes = [a.reshape(-1)[rng.integers(0, a.size, 2000)].tolist() for a in results]
            compiled = getattr(with_pirkit, "compile_ms", 0.0)
            print(json.dumps({"probes": probes, "first_s": first, "compile_ms": compiled}))
        else:
            times: list[float] = []
            clock = time.thread_time if threads == 1 else time.perf_counter
            until = time.perf_counter() + request["seconds"]
            while not times or time.perf_counter() < until:
                started = clock()
                calls[name]()
                times.append(clock() - started)
            print(json.dumps(times[1:] or times))
        sys.stdout.flush()


class Worker:
    def __init__(self, framework: str, threads: int) -> None:
        environment = environment_of(framework, threads) | {"PIRKIT_NATIVE_CACHE": "off"}
        command = [sys.executable, __file__, "--worker", framework, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def compile(self, **request: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker ended")
        return json.loads(line)


def worst_difference(a: list[list[float]], b: list[list[float]]) -> float:
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        scale = max(map(abs, y))
        worst = max(worst, max(abs(p - q) for p, q in zip(x, y, strict=True)) / scale)
    return worst


def frameworks() -> list[str]:
    from importlib.util import find_spec

    return ["pirkit", "numpy"] + (["torch", "torch+"] if find_spec("torch") else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--only", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--json")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.threads)
        return
    workers = {name: Worker(name, options.threads) for name in frameworks()}
    probe = Worker("pirkit", options.threads)
    probe.compile(do="setup", name="copy")
    report: dict[str, Any] = {}
    print(f"{'workload':22}" + "".join(f"{f:>10}" for f in workers)
          + "      limit  share  torch+/pirkit  torch/pirkit  numpy/pirkit  compile")  # fmt: skip
    for name in options.only:
        facts = {f: w.compile(do="setup", name=name) for f, w in workers.items()}
        difference = worst_difference(facts["pirkit"]["probes"], facts["numpy"]["probes"])
        if difference > 1e-4:
            raise SystemExit(f"{name}: pirkit differs from numpy by {difference:.1e}")
        times: dict[str, list[float]] = {f: [] for f in workers}
        copied: list[float] = []
        for _ in range(options.rounds):
            for framework, one in workers.items():
                times[framework] += one.compile(do="time", name=name, seconds=options.seconds)
            copied += probe.compile(do="time", name="copy", seconds=options.seconds / 2)
        ms = {f: 1e3 * median(t) for f, t in times.items()}
        limit = 1e3 * median(copied) * MOVED[name] / (2 * 4 * N * N)
        row = {"ms": ms, "limit_ms": limit, "difference": difference,
               "compile_ms": facts["pirkit"]["compile_ms"]}  # fmt: skip
        report[name] = row
        ratio = {f: ms[f] / ms["pirkit"] if f in ms else math.nan
                 for f in ("torch+", "torch", "numpy")}  # fmt: skip
        print(f"{name:22}" + "".join(f"{ms[f]:8.2f}ms" for f in workers)
              + f"{limit:9.2f}ms {limit / ms['pirkit']:5.0%} {ratio['torch+']:13.2f}x"
              f"{ratio['torch']:12.2f}x{ratio['numpy']:13.2f}x {row['compile_ms']:7.1f}ms",
              flush=True)  # fmt: skip
        if options.json:
            with open(options.json, "w") as file:
                json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
