"""Convolutions at the shapes of ResNet and its relatives, beside torch if it is installed.

Each framework runs in a process of its own with the same number of threads; the parent asks them in
turn, case by case. `numpy` is pirkit without native code for convolutions. Printed are the fastest
calls in milliseconds: the least disturbed ones, with ``--cpu`` by CPU time.

    python benchmarks/conv.py [--rounds N] [--threads N] [--of forward|image|filter] [--cpu]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Case:
    """A convolution: shapes of input and filter, and its attributes."""

    name: str
    x: tuple[int, ...]
    filter: tuple[int, ...]
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        reach = self.dilation * (self.filter[-1] - 1) + 1
        side = (self.x[-1] + 2 * self.padding - reach) // self.stride + 1
        return 2 * self.x[0] * side * side * prod(self.filter)


CASES = (
    Case("stem 7x7, stride 2", (1, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3),
    Case("3x3, 64 channels", (1, 64, 56, 56), (64, 64, 3, 3)),
    Case("3x3, 64 channels", (8, 64, 56, 56), (64, 64, 3, 3)),
    Case("3x3, 128 channels", (8, 128, 28, 28), (128, 128, 3, 3)),
    Case("3x3, 128 channels, stride 2", (8, 128, 56, 56), (128, 128, 3, 3), stride=2),
    Case("3x3, 256 channels", (8, 256, 14, 14), (256, 256, 3, 3)),
    Case("3x3, 512 channels", (1, 512, 7, 7), (512, 512, 3, 3)),
    Case("3x3, 512 channels", (8, 512, 7, 7), (512, 512, 3, 3)),
    Case("1x1", (8, 64, 56, 56), (256, 64, 1, 1), padding=0),
    Case("1x1 back", (8, 256, 56, 56), (64, 256, 1, 1), padding=0),
    Case("3x3, 64 channels, large", (1, 64, 256, 256), (64, 64, 3, 3)),
    Case("1x1, stride 2", (8, 512, 28, 28), (256, 512, 1, 1), stride=2, padding=0),
    Case("3x3, dilation 2", (1, 256, 28, 28), (256, 256, 3, 3), padding=2, dilation=2),
    Case("3x3, 4 groups", (8, 64, 28, 28), (64, 16, 3, 3), groups=4),
    Case("3x3, 32 groups", (1, 256, 28, 28), (256, 8, 3, 3), groups=32),
    Case("3x3, 32 groups, stride 2", (1, 256, 56, 56), (256, 8, 3, 3), stride=2, groups=32),
    Case("depthwise 3x3", (8, 96, 56, 56), (96, 1, 3, 3), groups=96),
    Case("depthwise 5x5, stride 2", (1, 144, 56, 56), (144, 1, 5, 5), 2, 2, groups=144),
    Case("depthwise 3x3, narrow", (1, 576, 14, 14), (576, 1, 3, 3), groups=576),
    Case("depthwise 7x7, narrow", (8, 384, 14, 14), (384, 1, 7, 7), padding=3, groups=384),
)

Call = Callable[[], object]


def operands(case: Case) -> tuple[Any, Any, Any]:
    """Image, filter and a cotangent of the result."""
    import numpy as np

    draw = np.random.default_rng(0).standard_normal
    reach = case.dilation * (case.filter[-1] - 1) + 1
    side = (case.x[-1] + 2 * case.padding - reach) // case.stride + 1
    result = (case.x[0], case.filter[0], side, side)
    return draw(case.x, np.float32), draw(case.filter, np.float32), draw(result, np.float32)


def in_pirkit(case: Case, threads: int, of: str) -> Call:
    import pirkit
    from pirkit import ops
    from pirkit.frontend.tracing import trace

    x, filter, cotangent = operands(case)
    conv = ops.depthwise_conv2d if case.groups == case.x[1] else ops.conv2d
    attributes = {
        "strides": [case.stride] * 2,
        "paddings": [case.padding] * 2,
        "dilations": [case.dilation] * 2,
        "groups": case.groups,
    }

    def forward(x: Any, filter: Any) -> Any:
        return conv(x, filter, **attributes)

    def gradient(x: Any, filter: Any, g: Any) -> Any:
        argument = ("image", "filter").index(of)
        return pirkit.grad(lambda x, w: (forward(x, w) * g).sum(), argument)(x, filter)

    if of == "forward":
        x, filter = map(pirkit.from_numpy, (x, filter))
        return lambda: forward(x, filter)
    given = (x, filter, cotangent)
    program = trace(gradient, given).program
    exe = pirkit.compile(program, pipeline="taylor,expand-gradients,@fused", threads=threads)
    named = dict(zip([p.name for p in exe.plan.inputs], given, strict=True))
    return lambda: exe.run(named)


def in_numpy(case: Case, threads: int, of: str) -> Call:
    from pirkit.lowering import native_conv

    native_conv.MIN_MULTIPLICATIONS = 1 << 62  # no convolution is worth native code
    return in_pirkit(case, threads, of)


def in_torch(case: Case, threads: int, of: str) -> Call:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    x, filter, g = map(torch.from_numpy, operands(case))
    rest = (None, case.stride, case.padding, case.dilation, case.groups)
    if of == "forward":
        return lambda: torch.nn.functional.conv2d(x, filter, *rest)
    pairs = ([side] * 2 for side in (case.stride, case.padding, case.dilation))
    wanted = [of == "image", of == "filter", False]
    backward = torch.ops.aten.convolution_backward
    sides = tuple(pairs)
    return lambda: backward(g, x, filter, None, *sides, False, [0, 0], case.groups, wanted)


FRAMEWORKS: dict[str, Callable[[Case, int, str], Call]] = {
    "pirkit": in_pirkit,
    "torch": in_torch,
    "numpy": in_numpy,
}


def work(name: str, threads: int, of: str, cpu: bool) -> None:
    """A worker: the number of a case comes in, the milliseconds of one call go out."""
    try:
        calls = [FRAMEWORKS[name](case, threads, of) for case in CASES]
    except ImportError as error:
        print(f"missing {error.name}", flush=True)
        return
    print("ready", flush=True)
    clock = time.process_time if cpu else time.perf_counter
    for line in sys.stdin:
        call = calls[int(line)]
        call()
        begin = clock()
        call()
        print((clock() - begin) * 1e3, flush=True)


def measure(rounds: int, threads: int, of: str, cpu: bool) -> dict[str, list[float]]:
    """The fastest call of each case, by framework."""
    # Pinned to the kernels of an older processor, no framework shows what it can do.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment |= {"OPENBLAS_NUM_THREADS": str(threads), "PIRKIT_NUM_THREADS": str(threads)}
    options = ["--threads", str(threads), "--of", of, *["--cpu"] * cpu]
    found: dict[str, list[float]] = {}
    workers: dict[str, subprocess.Popen[str]] = {}
    for name in FRAMEWORKS:
        worker = subprocess.Popen(
            [sys.executable, __file__, "--work", name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        answer = worker.stdout.readline().strip() if worker.stdout else ""
        if answer != "ready":
            print(f"{name}: left out ({answer})")
            continue
        workers[name] = worker
        found[name] = [float("inf")] * len(CASES)
    for number in range(len(CASES)):
        for _ in range(rounds):
            for name, worker in workers.items():
                assert worker.stdin is not None
                assert worker.stdout is not None
                print(number, file=worker.stdin, flush=True)
                found[name][number] = min(found[name][number], float(worker.stdout.readline()))
    for worker in workers.values():
        worker.communicate()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="calls of each case")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--of", choices=("forward", "image", "filter"), default="forward")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of wall time")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.threads, arguments.of, arguments.cpu)
        return
    found = measure(arguments.rounds, arguments.threads, arguments.of, arguments.cpu)
    print(f"\n{'milliseconds':42}", *(f"{name:>9}" for name in found), " GFLOP/s     ratio")
    for number, case in enumerate(CASES):
        times = [values[number] for values in found.values()]
        rate = case.operations / times[0] / 1e6
        ratio = f"{times[0] / times[1]:9.2f}" if len(times) > 1 else ""
        shown = " ".join(f"{value:9.2f}" for value in times)
        print(f"{case.name:28} {case.x!s:>18}"[:42].ljust(42), shown, f"{rate:8.0f} {ratio}")


if __name__ == "__main__":
    main()
