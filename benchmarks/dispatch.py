"""What one op costs beside its arithmetic: eager calls and instructions of a program.

Each framework runs in a process of its own; the parent asks them in turn for short bursts of calls,
so that a disturbance of the machine hits all of them alike. Printed are medians: of the steady
calls of a burst, and of its first one, which finds the caches full of what others did.

    python benchmarks/dispatch.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

LENGTH = 1000
"""Ops in the chain of one call."""

BURST = 0.05
"""Seconds that a burst lasts, at least."""

Burst = Callable[[], object]
Times = tuple[float, float]
"""Microseconds per op: of steady calls, and of the first call after others ran."""


def numpy_out() -> Burst:
    import numpy as np

    x, y, out = np.ones(4, np.float32), np.full(4, 1e-3, np.float32), np.empty(4, np.float32)
    add = np.add

    def burst() -> None:
        add(x, y, out=out)
        for _ in range(LENGTH - 1):
            add(out, y, out=out)

    return burst


def numpy_straight_line() -> Burst:
    """The chain as a person would write it for speed: no loop, every result in place."""
    import numpy as np

    x, y, out = np.ones(4, np.float32), np.full(4, 1e-3, np.float32), np.empty(4, np.float32)
    lines = ["def burst():", " add(x, y, out=out)", *[" add(out, y, out=out)"] * (LENGTH - 1)]
    scope = {"add": np.add, "x": x, "y": y, "out": out}
    exec("\n".join(lines), scope)
    return scope["burst"]


def numpy_eager() -> Burst:
    import numpy as np

    x, y = np.ones(4, np.float32), np.full(4, 1e-3, np.float32)

    def burst() -> None:
        t = x
        for _ in range(LENGTH):
            t = np.add(t, y)

    return burst


def pirkit_program() -> Burst:
    import numpy as np

    import pirkit
    from pirkit.dialect.text import parse_mlir
    from pirkit.frontend.files import Program

    kind = "tensor<4xf32>"
    lines = [f'pir.program @main(%v0 "x" : {kind}, %y "y" : {kind}) {{']
    lines += [
        f"  %v{i + 1} = pd_op.add(%v{i}, %y) : ({kind}, {kind}) -> {kind}" for i in range(LENGTH)
    ]
    lines += [f'  pir.shadow_output(%v{LENGTH}) {{output_name = "z"}} : ({kind}) -> ()', "}"]
    program = Program(parse_mlir("\n".join(lines)), {}, "<chain>")
    exe = pirkit.compile(program, pipeline="")
    x, y = np.ones(4, np.float32), np.full(4, 1e-3, np.float32)
    exe(x=x, y=y)
    before = (exe.counters.infer_meta, exe.counters.binds, exe.counters.allocations)

    def burst() -> None:
        exe(x=x, y=y)

    burst()
    after = (exe.counters.infer_meta, exe.counters.binds, exe.counters.allocations)
    assert before == after, "a steady run infers, binds or allocates"
    return burst


def pirkit_eager() -> Burst:
    import numpy as np

    import pirkit
    from pirkit import ops

    x = pirkit.from_numpy(np.ones(4, np.float32))
    y = pirkit.from_numpy(np.full(4, 1e-3, np.float32))
    add = ops.add

    def burst() -> None:
        t = x
        for _ in range(LENGTH):
            t = add(t, y)

    return burst


def torch_eager() -> Burst:
    import torch

    torch.set_num_threads(1)
    x, y = torch.ones(4), torch.full((4,), 1e-3)
    add = torch.add

    def burst() -> None:
        t = x
        with torch.no_grad():
            for _ in range(LENGTH):
                t = add(t, y)

    return burst


def paddle_dygraph() -> Burst:
    import paddle

    x, y = paddle.ones([4]), paddle.full([4], 1e-3)
    x.stop_gradient = y.stop_gradient = True
    add = paddle.add

    def burst() -> None:
        t = x
        for _ in range(LENGTH):
            t = add(t, y)

    return burst


CONTESTANTS: dict[str, Callable[[], Burst]] = {
    "numpy, straight line with out=": numpy_straight_line,
    "numpy, loop with out=": numpy_out,
    "pirkit, program": pirkit_program,
    "numpy, eager": numpy_eager,
    "torch, eager": torch_eager,
    "paddle, dygraph": paddle_dygraph,
    "pirkit, eager": pirkit_eager,
}


def work(name: str) -> None:
    """A worker: one burst for each line that comes in, its two times out."""
    try:
        burst = CONTESTANTS[name]()
    except ImportError as error:
        print(f"missing {error.name}", flush=True)
        return
    burst()
    print("ready", flush=True)
    for _ in sys.stdin:
        calls: list[float] = []
        end = time.perf_counter() + BURST
        while time.perf_counter() < end or len(calls) < 3:
            begin = time.perf_counter()
            burst()
            calls.append((time.perf_counter() - begin) / LENGTH * 1e6)
        print(median(calls[1:]), calls[0], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="bursts of each framework")
    parser.add_argument("--json", metavar="FILE", help="write the medians to this file")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    found = measure(arguments.rounds)
    base = found["numpy, straight line with out="]
    print(
        f"\n{'microseconds per op':34} {'steady':>8} {'to numpy':>9} {'first':>8} {'to numpy':>9}"
    )
    for name, (steady, first) in found.items():
        steadily, at_first = steady / base[0], first / base[1]
        print(f"{name:34} {steady:8.3f} {steadily:9.2f} {first:8.3f} {at_first:9.2f}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


def measure(rounds: int) -> dict[str, Times]:
    """Median times of every framework that is installed."""
    # Pinned to old kernels, or to many threads, no framework shows what it can do.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    workers: dict[str, subprocess.Popen[str]] = {}
    for name in CONTESTANTS:
        worker = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--work", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        answer = worker.stdout.readline().strip() if worker.stdout else ""
        if answer == "ready":
            workers[name] = worker
        else:
            print(f"{name}: left out ({answer or 'it did not start'})")
    times: dict[str, list[list[float]]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            times[name].append([float(t) for t in worker.stdout.readline().split()])
    for worker in workers.values():
        worker.communicate()
    return {
        name: (median(s for s, _ in pairs), median(f for _, f in pairs))
        for name, pairs in times.items()
    }


if __name__ == "__main__":
    main()
