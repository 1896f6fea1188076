"""A value and its transpose: computed twice, kept in tiles, or stored.

    python benchmarks/tiles.py [--sizes 64,512,2048]

CPU time on one thread, fastest of some bursts in turn, in ns for each element.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Final

os.environ["PIRKIT_NUM_THREADS"] = "1"

import numpy as np

from pirkit.dialect.text import parse_mlir
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime.executor import Executable

CHAINS: Final = {
    "floor": ("floor",),
    "tanh": ("tanh",),
    "exp, tanh": ("exp", "tanh"),
    "exp, tanh, exp, sin": ("exp", "tanh", "exp", "sin"),
}
WAYS: Final = {
    "again": "fuse{recompute=1000,tile=false}",
    "tiles": "fuse{recompute=0}",
    "stored": "fuse{recompute=0,tile=false}",
    "chosen": "fuse",
}
BURSTS: Final = 15


def program(chain: tuple[str, ...], n: int) -> str:
    kind = f"tensor<{n}x{n}xf32>"
    ops = [f"%{k + 1} = pd_op.{op}(%{k}) : ({kind}) -> {kind}" for k, op in enumerate(chain)]
    last = len(chain)
    return "\n".join([
        f'pir.program @p(%0 "x" : {kind}) {{',
        *ops,
        f"%t = pd_op.transpose(%{last}) {{perm = array<i32: 1, 0>}} : ({kind}) -> {kind}",
        f"%z = pd_op.add(%{last}, %t) : ({kind}, {kind}) -> {kind}",
        f'pir.shadow_output(%z) {{output_name = "z"}} : ({kind}) -> ()',
        "}",
    ])  # fmt: skip


def prepared(chain: tuple[str, ...], n: int, way: str) -> Callable[[], object]:
    module = parse_mlir(program(chain, n), "p")
    run_pipeline(module, way)
    (made,) = module.ops
    library = KernelLibrary("cpu")
    run = Executable(write_plan(made, library=library), library).run  # type: ignore[arg-type]
    given = {"x": np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)}
    return lambda: run(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="64,512,2048")
    for n in map(int, parser.parse_args().sizes.split(",")):
        for name, chain in CHAINS.items():
            calls = {way: prepared(chain, n, options) for way, options in WAYS.items()}
            times = dict.fromkeys(calls, float("inf"))
            turns = max(1, 4_000_000 // (n * n))
            for _ in range(BURSTS):
                for way, call in calls.items():
                    start = time.process_time_ns()
                    for _ in range(turns):
                        call()
                    spent = (time.process_time_ns() - start) / turns / n / n
                    times[way] = min(times[way], spent)
            known = "  ".join(f"{way} {t:5.2f}" for way, t in times.items())
            print(f"{n:5} {name:20} {known}", flush=True)


if __name__ == "__main__":
    main()
